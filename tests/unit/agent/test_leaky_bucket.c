/* Worked values of the leaky bucket. */
#include "tests/support/limit.h"

static void one_after_the_other_then_refused(void **context)
{
    (void)context;
    struct limit limit = leaky(10, US_PER_S, 300000);
    struct limit_state state = {0};
    static const int64_t delays_us[] = {0, 100000, 200000, 300000};
    assert_int_equal(limit.size, 4);
    for (int i = 0; i < 4; i++) {
        struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 1);
        assert_true(answer.is_allowed);
        assert_int_equal(answer.delay_us, delays_us[i]);
        assert_int_equal(answer.remaining, 3 - i);
        assert_int_equal(answer.reset_us, (i + 1) * 100000);
    }
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 1);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.delay_us, 0);
    assert_int_equal(answer.retry_us, 100000);
    assert_false(take(&limit, &state, MINUTE_START_US + 99999, 1).is_allowed);
    answer = take(&limit, &state, MINUTE_START_US + 100000, 1);
    assert_true(answer.is_allowed);
    assert_int_equal(answer.delay_us, 300000);
}

static void steady_client_at_its_rate_never_waits(void **context)
{
    (void)context;
    struct limit limit = leaky(10, US_PER_S, US_PER_S);
    struct limit_state state = {0};
    for (int i = 0; i < 100; i++) {
        struct limit_answer answer = take(&limit, &state, MINUTE_START_US + i * 100000,
                                          1);
        assert_true(answer.is_allowed);
        assert_int_equal(answer.delay_us, 0);
    }
}

/* All of 300 ms of room may be one cost of 4, which waits for nothing. */
static void cost_counts_behind_itself_only(void **context)
{
    (void)context;
    struct limit limit = leaky(10, US_PER_S, 300000);
    struct limit_state state = {0};
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 5);
    assert_false(answer.is_allowed);
    assert_true(answer.retry_us == LIMIT_NEVER);
    answer = take(&limit, &state, MINUTE_START_US, 4);
    assert_true(answer.is_allowed);
    assert_int_equal(answer.delay_us, 0);
    assert_int_equal(answer.remaining, 0);
    answer = take(&limit, &state, MINUTE_START_US, 4);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.retry_us, 400000);
}

/* 6000 a minute: two calls in a millisecond are 10 ms apart, as a queue has it. */
static void two_calls_in_one_millisecond(void **context)
{
    (void)context;
    struct limit limit = leaky(6000, MINUTE_US, 10000);
    struct limit_state state = {0};
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).delay_us, 0);
    assert_int_equal(take(&limit, &state, MINUTE_START_US + 500, 1).delay_us, 9500);
    assert_false(take(&limit, &state, MINUTE_START_US + 600, 1).is_allowed);
}

/* 3 a second: a third is no whole number of microseconds. */
static void delay_is_rounded_up_to_a_tick(void **context)
{
    (void)context;
    struct limit limit = leaky(3, US_PER_S, US_PER_S);
    struct limit_state state = {0};
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).delay_us, 0);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).delay_us, 333334);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).delay_us, 666667);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).delay_us, 1000000);
    assert_false(take(&limit, &state, MINUTE_START_US, 1).is_allowed);
}

static void policy_is_a_buckets(void **context)
{
    (void)context;
    struct limit limit = leaky(10, US_PER_S, 900000);
    struct limit_policy policy;
    limit_describe(&limit, &policy);
    assert_int_equal(policy.quota, 10);
    assert_int_equal(policy.window_s, 1);
    assert_int_equal(policy.burst, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other_then_refused),
        cmocka_unit_test(steady_client_at_its_rate_never_waits),
        cmocka_unit_test(cost_counts_behind_itself_only),
        cmocka_unit_test(two_calls_in_one_millisecond),
        cmocka_unit_test(delay_is_rounded_up_to_a_tick),
        cmocka_unit_test(policy_is_a_buckets),
    };
    return cmocka_run_group_tests(tests, LIMITS_START, LIMITS_STOP);
}
