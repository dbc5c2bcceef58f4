#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/decide/verdict.h"

static const struct limit size_10 = {.size = 10};
static const struct limit size_100 = {.size = 100};
static const enum action rejecting[STORE_CHARGES_MAX] = {ACTION_REJECT, ACTION_REJECT,
                                                         ACTION_REJECT};
static const struct verdict_circumstances plain = {.exceeded = rejecting};

static struct store_charge allowed(const struct limit *limit, int64_t remaining)
{
    return (struct store_charge){
        .limit = limit,
        .answer = {.is_allowed = true, .remaining = remaining},
    };
}

static struct store_charge refused(const struct limit *limit, int64_t retry_us)
{
    return (struct store_charge){.limit = limit, .answer = {.retry_us = retry_us}};
}

static struct verdict combine_in(const struct store_take *take,
                                 struct verdict_circumstances circumstances)
{
    struct verdict verdict;
    if (circumstances.exceeded == NULL) {
        circumstances.exceeded = rejecting;
    }
    verdict_combine(take, &circumstances, &verdict);
    return verdict;
}

static struct verdict combine(struct store_take take)
{
    return combine_in(&take, plain);
}

static void allow_is_decided_by_the_smallest_share_left(void **context)
{
    (void)context;
    struct verdict v = combine((struct store_take){
        .n_charges = 3,
        .charges = {allowed(&size_10, 5), allowed(&size_100, 20), allowed(&size_10, 4)},
    });
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.reason, REASON_NONE);
    assert_false(v.is_denied);
    assert_int_equal(v.status, 0);
    assert_int_equal(v.deciding_idx, 1);
}

static struct store_charge by_policy(struct store_charge charge,
                                     enum store_source source)
{
    charge.source = source;
    return charge;
}

static struct verdict combine_failed(struct store_take take, uint32_t shadow)
{
    take.failure = STORE_DOWN;
    return combine_in(&take, (struct verdict_circumstances){
                                 .shadow = shadow,
                                 .by_policy = verdict_by_policy(&take),
                             });
}

static void a_policy_that_allows_is_told(void **context)
{
    (void)context;
    struct verdict v = combine_failed(
        (struct store_take){
            .n_charges = 2,
            .charges = {allowed(&size_10, 5),
                        by_policy(allowed(&size_10, 9), STORE_FALLBACK)},
        },
        0);
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.reason, REASON_STORE_DOWN);
    assert_true(v.is_fallback);
}

static void a_closed_policy_is_503_whatever_the_action(void **context)
{
    (void)context;
    static const enum action blocking[STORE_CHARGES_MAX] = {ACTION_BLOCK};
    struct store_take take = {
        .n_charges = 1,
        .failure = STORE_DEADLINE,
        .charges = {by_policy(refused(&size_10, 5), STORE_CLOSED)},
    };
    struct verdict v = combine_in(&take, (struct verdict_circumstances){
                                             .exceeded = blocking,
                                             .by_policy = verdict_by_policy(&take),
                                         });
    assert_int_equal(v.action, ACTION_REJECT);
    assert_int_equal(v.reason, REASON_DEADLINE);
    assert_int_equal(v.status, VERDICT_STATUS_UNAVAILABLE);
    assert_true(v.is_denied && v.is_fallback);
}

static void a_share_that_is_used_up_is_429(void **context)
{
    (void)context;
    struct verdict v = combine_failed(
        (struct store_take){
            .n_charges = 1,
            .charges = {by_policy(refused(&size_10, 5), STORE_FALLBACK)},
        },
        0);
    assert_int_equal(v.status, VERDICT_STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(v.reason, REASON_STORE_DOWN);
    assert_true(v.is_fallback);
}

static void a_limit_that_decided_itself_is_the_reason(void **context)
{
    (void)context;
    struct verdict v = combine_failed(
        (struct store_take){
            .n_charges = 2,
            .charges = {refused(&size_10, 5),
                        by_policy(allowed(&size_10, 9), STORE_OPEN)},
        },
        0);
    assert_int_equal(v.reason, REASON_LIMIT);
    assert_false(v.is_fallback);
}

static void shadows_without_a_store_are_not_told(void **context)
{
    (void)context;
    struct verdict v = combine_failed(
        (struct store_take){
            .n_charges = 2,
            .charges = {allowed(&size_10, 5),
                        by_policy(allowed(&size_10, 9), STORE_OPEN)},
        },
        2);
    assert_int_equal(v.reason, REASON_NONE);
    assert_false(v.is_fallback);
}

static void ties_go_by_file_order(void **context)
{
    (void)context;
    struct verdict v = combine((struct store_take){
        .n_charges = 2,
        .charges = {allowed(&size_10, 5), allowed(&size_100, 50)},
    });
    assert_int_equal(v.deciding_idx, 0);
    v = combine((struct store_take){
        .n_charges = 2,
        .charges = {refused(&size_10, 7), refused(&size_100, 7)},
    });
    assert_int_equal(v.deciding_idx, 0);
}

static void refusal_is_decided_by_the_longest_wait_never_last_of_all(void **context)
{
    (void)context;
    struct store_take take = {
        .n_charges = 3,
        .charges = {allowed(&size_10, 0), refused(&size_10, 5), refused(&size_100, 9)},
    };
    struct verdict v = combine(take);
    assert_int_equal(v.action, ACTION_REJECT);
    assert_int_equal(v.reason, REASON_LIMIT);
    assert_true(v.is_denied);
    assert_int_equal(v.status, 429);
    assert_int_equal(v.deciding_idx, 2);
    take.charges[1].answer.retry_us = LIMIT_NEVER;
    assert_int_equal(combine(take).deciding_idx, 1);
}

static void shadow_never_decides(void **context)
{
    (void)context;
    struct store_take take = {
        .n_charges = 2,
        .charges = {refused(&size_10, 9), allowed(&size_100, 99)},
    };
    struct verdict_circumstances circumstances = {.shadow = 1U << 0, .soft = 1U << 0};
    struct verdict v = combine_in(&take, circumstances);
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.deciding_idx, 1);
    take.n_charges = 1;
    v = combine_in(&take, circumstances);
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.deciding_idx, -1);
}

/* What clients may see is decided among what is advertised, by the same order. */
static void shown_is_decided_among_the_advertised(void **context)
{
    (void)context;
    struct store_take take = {
        .n_charges = 3,
        .charges = {allowed(&size_10, 5), allowed(&size_100, 20), allowed(&size_10, 4)},
    };
    struct verdict_circumstances circumstances = {.advertised = 1U << 0 | 1U << 2};
    struct verdict v = combine_in(&take, circumstances);
    assert_int_equal(v.deciding_idx, 1);
    assert_int_equal(v.shown_idx, 2);
    circumstances.advertised = 0;
    assert_int_equal(combine_in(&take, circumstances).shown_idx, -1);
    take.charges[1] = refused(&size_100, 9);
    circumstances.advertised = 1U << 0;
    v = combine_in(&take, circumstances);
    assert_int_equal(v.deciding_idx, 1);
    assert_int_equal(v.shown_idx, -1); /* what passed is not why it was refused */
}

static void strongest_action_wins_and_its_longest_wait_decides(void **context)
{
    (void)context;
    static const enum action actions[] = {ACTION_WARN, ACTION_DEGRADE, ACTION_DEGRADE,
                                          ACTION_REJECT, ACTION_BLOCK};
    static const struct {
        enum action action;
        bool is_denied;
        int status;
        int deciding_idx;
    } steps[] = {
        {ACTION_WARN, false, 0, 0},    {ACTION_DEGRADE, false, 0, 1},
        {ACTION_DEGRADE, false, 0, 2}, {ACTION_REJECT, true, 429, 3},
        {ACTION_BLOCK, true, 403, 4},
    };
    struct store_take take = {
        .n_charges = 5,
        .charges = {allowed(&size_10, 0), allowed(&size_10, 0), allowed(&size_10, 0),
                    allowed(&size_10, 0), allowed(&size_10, 0)},
    };
    static const int64_t waits_us[] = {99, 5, 6, 2, 1};
    for (unsigned i = 0; i < 5; i++) {
        struct verdict v;
        take.charges[i] = refused(&size_10, waits_us[i]);
        v = combine_in(&take, (struct verdict_circumstances){.exceeded = actions});
        assert_int_equal(v.action, steps[i].action);
        assert_int_equal(v.reason, REASON_LIMIT);
        assert_int_equal(v.is_denied, steps[i].is_denied);
        assert_int_equal(v.status, steps[i].status);
        assert_int_equal(v.deciding_idx, steps[i].deciding_idx);
    }
}

static void delay_is_stronger_than_warn_and_the_longest_decides(void **context)
{
    (void)context;
    static const enum action actions[] = {ACTION_WARN, ACTION_REJECT, ACTION_REJECT,
                                          ACTION_DEGRADE};
    struct store_take take = {
        .n_charges = 4,
        .charges = {refused(&size_10, 99), allowed(&size_10, 0), allowed(&size_10, 0),
                    allowed(&size_10, 0)},
    };
    struct verdict_circumstances circumstances = {.exceeded = actions};
    take.charges[1].answer.delay_us = 5;
    take.charges[2].answer.delay_us = 6;
    struct verdict v = combine_in(&take, circumstances);
    assert_string_equal(action_text(v.action), "delay");
    assert_int_equal(v.reason, REASON_LIMIT);
    assert_false(v.is_denied);
    assert_int_equal(v.status, 0);
    assert_int_equal(v.deciding_idx, 2);
    circumstances.shadow = 1U << 1 | 1U << 2;
    assert_int_equal(combine_in(&take, circumstances).action, ACTION_WARN);
    circumstances.shadow = 0;
    take.charges[3] = refused(&size_10, 1);
    assert_int_equal(combine_in(&take, circumstances).action, ACTION_DEGRADE);
}

static void soft_limit_warns_and_is_the_weakest(void **context)
{
    (void)context;
    static const enum action actions[] = {ACTION_REJECT, ACTION_DEGRADE};
    struct store_take take = {
        .n_charges = 2,
        .charges = {allowed(&size_10, 1), allowed(&size_10, 0)},
    };
    struct verdict_circumstances circumstances = {.soft = 1U << 0, .exceeded = actions};
    struct verdict v = combine_in(&take, circumstances);
    assert_int_equal(v.action, ACTION_WARN);
    assert_int_equal(v.reason, REASON_LIMIT);
    assert_false(v.is_denied);
    assert_int_equal(v.deciding_idx, 0);
    take.charges[1] = refused(&size_10, 1);
    assert_int_equal(combine_in(&take, circumstances).action, ACTION_DEGRADE);
}

static void reasons_of_an_allow(void **context)
{
    (void)context;
    static const struct {
        struct verdict_circumstances circumstances;
        enum reason reason;
        const char *text;
    } cases[] = {
        {{.is_cut = false}, REASON_NONE, ""},
        {{.is_unmatched = true}, REASON_UNMATCHED, "unmatched"},
        {{.is_keyless = true}, REASON_NO_KEY, "no_key"},
        {{.is_cut = true}, REASON_TOO_MANY_LIMITS, "too_many_limits"},
    };
    struct store_take take = {.n_charges = 0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct verdict v = combine_in(&take, cases[i].circumstances);
        assert_int_equal(v.reason, cases[i].reason);
        assert_string_equal(reason_text(v.reason), cases[i].text);
        assert_string_equal(action_text(v.action), "allow");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allow_is_decided_by_the_smallest_share_left),
        cmocka_unit_test(a_policy_that_allows_is_told),
        cmocka_unit_test(a_closed_policy_is_503_whatever_the_action),
        cmocka_unit_test(a_share_that_is_used_up_is_429),
        cmocka_unit_test(a_limit_that_decided_itself_is_the_reason),
        cmocka_unit_test(shadows_without_a_store_are_not_told),
        cmocka_unit_test(ties_go_by_file_order),
        cmocka_unit_test(refusal_is_decided_by_the_longest_wait_never_last_of_all),
        cmocka_unit_test(shadow_never_decides),
        cmocka_unit_test(shown_is_decided_among_the_advertised),
        cmocka_unit_test(strongest_action_wins_and_its_longest_wait_decides),
        cmocka_unit_test(delay_is_stronger_than_warn_and_the_longest_decides),
        cmocka_unit_test(soft_limit_warns_and_is_the_weakest),
        cmocka_unit_test(reasons_of_an_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
