#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/store/fallback.h"

#include "tests/support/limit.h"

enum {
    WHOLE = FALLBACK_SHARE_WHOLE
};

static struct limit fall_back(const struct limit *limit, unsigned n_agents, int share)
{
    struct fallback fallback;
    struct limit bucket;
    fallback_init(&fallback, limit, limit->requests, 1);
    fallback_limit(&fallback, n_agents, share, &bucket);
    return bucket;
}

/* What passes of one request after the other, `every_us` apart, in `us`. */
static int64_t admitted(const struct limit *bucket, int64_t us, int64_t every_us)
{
    struct limit_state state = {0};
    int64_t n = 0;
    for (int64_t at = 0; at < us; at += every_us) {
        n += take(bucket, &state, MINUTE_START_US + at, 1).is_allowed;
    }
    return n;
}

static void one_node_has_the_whole_limit(void **context)
{
    (void)context;
    struct limit limit = sliding(600, MINUTE_US);
    struct limit bucket = fall_back(&limit, 1, WHOLE);
    assert_int_equal(bucket.algorithm, LIMIT_TOKEN_BUCKET);
    assert_int_equal(bucket.size, 600);
    assert_int_equal(admitted(&bucket, 1, 1), 1);
    struct limit_state state = {0};
    assert_int_equal(pass(&bucket, &state, MINUTE_START_US, 1000), 600);
    assert_int_equal(pass(&bucket, &state, MINUTE_START_US + 10 * US_PER_S, 1000), 100);
}

/* After the size at the start, the rate: within 1 in 1 000 below. */
static void agents_and_share_divide_it(void **context)
{
    (void)context;
    static const unsigned agents[] = {1, 2, 3, 7, 20, 100};
    static const int shares[] = {WHOLE, WHOLE / 2, WHOLE / 3};
    for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++) {
        for (size_t j = 0; j < sizeof(shares) / sizeof(shares[0]); j++) {
            struct limit limit = sliding(7, MINUTE_US);
            struct limit bucket = fall_back(&limit, agents[i], shares[j]);
            double want = 7.0 * shares[j] / WHOLE / agents[i] / 60;
            double rate = (double)bucket.requests
                          / ((double)bucket.per_ticks * (double)bucket.tick_us / 1e6);
            assert_true(rate <= want * (1 + 1e-12));
            assert_true(rate >= want * (agents[i] < 100 || j == 0 ? 0.998 : 0.99));
        }
    }
}

static void a_small_part_still_lets_one_through(void **context)
{
    (void)context;
    struct limit limit = sliding(3, US_PER_S);
    struct limit bucket = fall_back(&limit, 20, WHOLE);
    assert_int_equal(bucket.size, 1);
    int64_t n = admitted(&bucket, 200 * US_PER_S, 10 * US_PER_MS);
    assert_in_range(n, 29, 31); /* 3/20 a second for 200 s, and the one at the start */
}

static void its_size_is_never_below_the_largest_cost(void **context)
{
    (void)context;
    struct limit limit = sliding(600, MINUTE_US);
    struct fallback fallback;
    struct limit bucket;
    fallback_init(&fallback, &limit, 600, 20);
    fallback_limit(&fallback, 100, WHOLE, &bucket);
    assert_int_equal(bucket.size, 20);
    fallback_init(&fallback, &limit, 600, 5000); /* a cost that never passes */
    fallback_limit(&fallback, 100, WHOLE, &bucket);
    assert_int_equal(bucket.size, 600);
}

static void a_limit_of_nothing_stays_so(void **context)
{
    (void)context;
    struct limit limit = sliding(0, MINUTE_US);
    struct limit bucket = fall_back(&limit, 3, WHOLE);
    struct limit_state state = {0};
    assert_false(take(&bucket, &state, MINUTE_START_US, 1).is_allowed);
}

/* Used tokens stay used: half of the rate does not give half of them back. */
static void other_agents_keep_what_is_used(void **context)
{
    (void)context;
    struct limit limit = sliding(600, MINUTE_US);
    struct limit one = fall_back(&limit, 1, WHOLE);
    struct limit two = fall_back(&limit, 2, WHOLE);
    struct limit_state state = {0};
    assert_int_equal(pass(&one, &state, MINUTE_START_US, 250), 250);
    assert_int_equal(take(&two, &state, MINUTE_START_US, 0).remaining, 50);
    assert_int_equal(take(&one, &state, MINUTE_START_US, 0).remaining, 350);
}

static void plans_share_the_counter(void **context)
{
    (void)context;
    struct limit base = sliding(60, MINUTE_US);
    struct limit plan = sliding(600, MINUTE_US);
    struct fallback fallback;
    struct limit small;
    struct limit large;
    struct limit_state state = {0};
    fallback_init(&fallback, &base, 60, 1);
    fallback_limit(&fallback, 1, WHOLE, &small);
    fallback_init(&fallback, &plan, 60, 1);
    fallback_limit(&fallback, 1, WHOLE, &large);
    assert_int_equal(pass(&small, &state, MINUTE_START_US, 100), 60);
    assert_int_equal(take(&large, &state, MINUTE_START_US, 0).remaining, 540);
}

static void the_largest_and_longest(void **context)
{
    (void)context;
    struct limit limit = sliding(LIMIT_AMOUNT_MAX, 31 * 86400 * US_PER_S);
    struct limit bucket = fall_back(&limit, 1000, 1);
    assert_int_equal(bucket.requests, LIMIT_AMOUNT_MAX / 1000 / WHOLE);
    limit = sliding(1, 31 * 86400 * US_PER_S);
    bucket = fall_back(&limit, 1000, 1);
    assert_int_equal(bucket.requests, 1); /* never none at all */
    assert_int_equal(bucket.size, 1);
    struct limit_state state = {0};
    assert_true(take(&bucket, &state, MINUTE_START_US, 1).is_allowed);
    assert_false(take(&bucket, &state, MINUTE_START_US, 1).is_allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_has_the_whole_limit),
        cmocka_unit_test(agents_and_share_divide_it),
        cmocka_unit_test(a_small_part_still_lets_one_through),
        cmocka_unit_test(its_size_is_never_below_the_largest_cost),
        cmocka_unit_test(a_limit_of_nothing_stays_so),
        cmocka_unit_test(other_agents_keep_what_is_used),
        cmocka_unit_test(plans_share_the_counter),
        cmocka_unit_test(the_largest_and_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
