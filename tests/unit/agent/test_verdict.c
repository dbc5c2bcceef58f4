#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/decide/verdict.h"

static const struct limit SIZE_10 = {.size = 10};
static const struct limit SIZE_100 = {.size = 100};
static const struct verdict_circumstances PLAIN = {0};

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

static struct verdict combine(struct store_take take)
{
    struct verdict verdict;
    take.is_allowed = true;
    for (unsigned i = 0; i < take.n_charges; i++) {
        const struct store_charge *charge = &take.charges[i];
        take.is_allowed = take.is_allowed
                          && (charge->answer.is_allowed || charge->is_shadow);
    }
    verdict_combine(&take, &PLAIN, &verdict);
    return verdict;
}

static void allow_is_decided_by_the_smallest_share_left(void **context)
{
    (void)context;
    struct verdict v = combine((struct store_take){
        .n_charges = 3,
        .charges = {allowed(&SIZE_10, 5), allowed(&SIZE_100, 20), allowed(&SIZE_10, 4)},
    });
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.reason, REASON_NONE);
    assert_false(v.is_denied);
    assert_int_equal(v.status, 0);
    assert_int_equal(v.deciding_idx, 1);
}

static void ties_go_by_file_order(void **context)
{
    (void)context;
    struct verdict v = combine((struct store_take){
        .n_charges = 2,
        .charges = {allowed(&SIZE_10, 5), allowed(&SIZE_100, 50)},
    });
    assert_int_equal(v.deciding_idx, 0);
    v = combine((struct store_take){
        .n_charges = 2,
        .charges = {refused(&SIZE_10, 7), refused(&SIZE_100, 7)},
    });
    assert_int_equal(v.deciding_idx, 0);
}

static void refusal_is_decided_by_the_longest_wait_never_last_of_all(void **context)
{
    (void)context;
    struct store_take take = {
        .n_charges = 3,
        .charges = {allowed(&SIZE_10, 0), refused(&SIZE_10, 5), refused(&SIZE_100, 9)},
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
        .charges = {refused(&SIZE_10, 9), allowed(&SIZE_100, 99)},
    };
    take.charges[0].is_shadow = true;
    struct verdict v = combine(take);
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.deciding_idx, 1);
    take.n_charges = 1;
    v = combine(take);
    assert_int_equal(v.action, ACTION_ALLOW);
    assert_int_equal(v.deciding_idx, -1);
}

/* What clients may see is decided among what is advertised, by the same order. */
static void shown_is_decided_among_the_advertised(void **context)
{
    (void)context;
    struct store_take take = {
        .is_allowed = true,
        .n_charges = 3,
        .charges = {allowed(&SIZE_10, 5), allowed(&SIZE_100, 20), allowed(&SIZE_10, 4)},
    };
    struct verdict_circumstances circumstances = {.advertised = 1U << 0 | 1U << 2};
    struct verdict v;
    verdict_combine(&take, &circumstances, &v);
    assert_int_equal(v.deciding_idx, 1);
    assert_int_equal(v.shown_idx, 2);
    circumstances.advertised = 0;
    verdict_combine(&take, &circumstances, &v);
    assert_int_equal(v.shown_idx, -1);
    take.charges[1] = refused(&SIZE_100, 9);
    take.is_allowed = false;
    circumstances.advertised = 1U << 0;
    verdict_combine(&take, &circumstances, &v);
    assert_int_equal(v.deciding_idx, 1);
    assert_int_equal(v.shown_idx, -1); /* what passed is not why it was refused */
}

static void reasons_of_an_allow(void **context)
{
    (void)context;
    static const struct {
        struct verdict_circumstances circumstances;
        enum reason reason;
        const char *text;
    } CASES[] = {
        {{false, false, false, 0}, REASON_NONE, ""},
        {{true, false, false, 0}, REASON_UNMATCHED, "unmatched"},
        {{false, true, false, 0}, REASON_NO_KEY, "no_key"},
        {{false, false, true, 0}, REASON_TOO_MANY_LIMITS, "too_many_limits"},
    };
    struct store_take take = {.is_allowed = true};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct verdict v;
        verdict_combine(&take, &CASES[i].circumstances, &v);
        assert_int_equal(v.reason, CASES[i].reason);
        assert_string_equal(reason_text(v.reason), CASES[i].text);
        assert_string_equal(action_text(v.action), "allow");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allow_is_decided_by_the_smallest_share_left),
        cmocka_unit_test(ties_go_by_file_order),
        cmocka_unit_test(refusal_is_decided_by_the_longest_wait_never_last_of_all),
        cmocka_unit_test(shadow_never_decides),
        cmocka_unit_test(shown_is_decided_among_the_advertised),
        cmocka_unit_test(reasons_of_an_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
