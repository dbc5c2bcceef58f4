/* The worked values of the algorithms: each a named test, before any jitter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/limit.h"

static struct limit_state sliding_state(uint32_t prev, uint32_t curr, int64_t now_us,
                                        const struct limit *limit)
{
    int64_t per_us = limit->per_ticks * limit->tick_us;
    return (struct limit_state){
        .sliding = {.prev = prev, .curr = curr, .window = now_us / per_us},
    };
}

static void sliding_480_before_230_so_far(void **context)
{
    (void)context;
    struct limit limit = sliding(600, MINUTE_US);
    int64_t now = MINUTE_START_US + 15 * US_PER_S;
    struct limit_state state = sliding_state(480, 230, now, &limit);
    assert_int_equal(take(&limit, &state, now, 0).remaining, 10);
    assert_int_equal(pass(&limit, &state, now, 10), 10);
    struct limit_answer refused = take(&limit, &state, now, 1);
    assert_false(refused.is_allowed);
    assert_int_equal(refused.retry_us, 125000);
    assert_int_equal(refused.remaining, 0);
    assert_false(take(&limit, &state, now + 124999, 1).is_allowed);
    assert_true(take(&limit, &state, now + 125000, 1).is_allowed);
}

/* The estimate takes the 480 as spread evenly. Had they all come in the first 10 s, the
 * last 60 s would hold 230 only, and the refusal is false; in the last 15 s, 710, and
 * what is allowed is false. The counter cannot tell: both stand at the same state. */
static void sliding_false_refusal_and_false_allow(void **context)
{
    (void)context;
    struct limit limit = sliding(600, MINUTE_US);
    int64_t now = MINUTE_START_US + 15 * US_PER_S;
    const int64_t came_at[] = {MINUTE_START_US - 55 * US_PER_S,
                               MINUTE_START_US - 5 * US_PER_S};
    for (int i = 0; i < 2; i++) {
        struct limit_state state = {0};
        assert_int_equal(pass(&limit, &state, came_at[i], 480), 480);
        assert_int_equal(pass(&limit, &state, now, 230), 230);
        assert_int_equal(pass(&limit, &state, now, 20), 10);
    }
}

static void sliding_80_before_30_so_far_half_way(void **context)
{
    (void)context;
    struct limit limit = sliding(100, MINUTE_US);
    int64_t now = MINUTE_START_US + 30 * US_PER_S;
    struct limit_state state = sliding_state(80, 30, now, &limit);
    assert_int_equal(take(&limit, &state, now, 0).remaining, 30); /* 100 - 70 */
}

static void sliding_42_before_18_so_far_limit_50(void **context)
{
    (void)context;
    struct limit limit = sliding(50, MINUTE_US);
    int64_t now = MINUTE_START_US + 15 * US_PER_S;
    struct limit_state state = sliding_state(42, 18, now, &limit); /* 49.5 */
    struct limit_answer answer = take(&limit, &state, now, 1);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.retry_us, 714300); /* 0.7142857 s, up to a tick of 100 us */
}

static void sliding_ten_before_and_ten_after_the_edge(void **context)
{
    (void)context;
    struct limit limit = sliding(10, US_PER_S);
    struct limit_state state = {0};
    int64_t edge = MINUTE_START_US + US_PER_S;
    int64_t n = pass(&limit, &state, edge - 10000, 10);
    n += pass(&limit, &state, edge + 10000, 10);
    assert_int_equal(n, 10);
}

static void sliding_reset_is_when_nothing_weighs_any_more(void **context)
{
    (void)context;
    struct limit limit = sliding(10, US_PER_S);
    struct limit_state state = {0};
    int64_t now = MINUTE_START_US + 400000;
    struct limit_answer answer = take(&limit, &state, now, 1);
    assert_int_equal(answer.window_end_us, 600000);
    assert_int_equal(answer.reset_us, 1600000);
    answer = take(&limit, &state, now + US_PER_S, 0);
    assert_int_equal(answer.reset_us, 600000);
    answer = take(&limit, &state, now + 2 * US_PER_S, 0);
    assert_int_equal(answer.reset_us, 0);
}

static void bucket_ten_before_and_ten_after_the_edge(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 10, US_PER_S);
    struct limit_state state = {0};
    int64_t edge = MINUTE_START_US + US_PER_S;
    int64_t n = pass(&limit, &state, edge - 10000, 10);
    n += pass(&limit, &state, edge + 10000, 10);
    assert_int_equal(n, 10);
}

static void bucket_100_a_minute_with_burst_200(void **context)
{
    (void)context;
    struct limit limit = bucket(100, 200, MINUTE_US);
    struct limit_state state = {0};
    int64_t n = pass(&limit, &state, MINUTE_START_US, 1000);
    assert_int_equal(n, 200);
    for (int64_t ms = 10; ms <= 60000; ms += 10) {
        n += pass(&limit, &state, MINUTE_START_US + ms * 1000, 2);
    }
    assert_int_equal(n, 300); /* in the first minute, its end included */
}

static void bucket_10000_a_minute_with_burst_500(void **context)
{
    (void)context;
    struct limit limit = bucket(10000, 500, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 1000), 500);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + US_PER_S, 1000), 166);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 3 * US_PER_S, 1000), 334);
}

static void bucket_5_a_minute_the_sixth_after_3_s(void **context)
{
    (void)context;
    struct limit limit = bucket(5, 5, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 5), 5);
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US + 3 * US_PER_S,
                                      1);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.retry_us, 9 * US_PER_S);
}

static void bucket_200_in_2_s_a_minute_of_nothing_and_again(void **context)
{
    (void)context;
    struct limit limit = bucket(1000, 200, MINUTE_US);
    struct limit_state state = {0};
    for (int64_t start = MINUTE_START_US; start <= MINUTE_START_US + 62 * US_PER_S;
         start += 62 * US_PER_S) {
        int64_t n = 0;
        for (int64_t i = 0; i < 200; i++) {
            n += pass(&limit, &state, start + i * 10000, 1);
        }
        assert_int_equal(n, 200);
    }
}

/* GCRA table: 1/s, size 5. */
static void bucket_gcra_table(void **context)
{
    (void)context;
    static const struct {
        int64_t at_ms;
        int64_t cost;
        bool is_allowed;
        int64_t remaining;
        int64_t reset_ms;
        int64_t retry_ms; /* -1: never */
    } steps[] = {
        {0, 6, false, 5, 0, -1},         {0, 1, true, 4, 1000, 0},
        {0, 1, true, 3, 2000, 0},        {0, 1, true, 2, 3000, 0},
        {0, 1, true, 1, 4000, 0},        {0, 1, true, 0, 5000, 0},
        {0, 1, false, 0, 5000, 1000},    {3000, 1, true, 2, 3000, 0},
        {3100, 1, true, 1, 3900, 0},     {4000, 1, true, 1, 4000, 0},
        {8000, 1, true, 4, 1000, 0},     {9500, 1, true, 4, 1000, 0},
        {9500, 0, true, 4, 1000, 0},     {9500, 2, true, 2, 3000, 0},
        {9500, 5, false, 2, 3000, 3000},
    };
    struct limit limit = bucket(1, 5, US_PER_S);
    struct limit_state state = {0};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int64_t now = MINUTE_START_US + steps[i].at_ms * 1000;
        struct limit_answer answer = take(&limit, &state, now, steps[i].cost);
        int64_t retry = steps[i].retry_ms < 0 ? LIMIT_NEVER : steps[i].retry_ms * 1000;
        assert_int_equal(answer.is_allowed, steps[i].is_allowed);
        assert_int_equal(answer.remaining, steps[i].remaining);
        assert_int_equal(answer.reset_us, steps[i].reset_ms * 1000);
        assert_int_equal(answer.retry_us, retry);
    }
}

static void bucket_tenths_of_a_second(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 10, US_PER_S);
    struct limit_state state = {0};
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 1);
    assert_int_equal(answer.remaining, 9);
    assert_int_equal(answer.reset_us, 100000);
    answer = take(&limit, &state, MINUTE_START_US, 2);
    assert_int_equal(answer.remaining, 7);
    assert_int_equal(answer.reset_us, 300000);
    answer = take(&limit, &state, MINUTE_START_US, 7);
    assert_int_equal(answer.remaining, 0);
    assert_int_equal(answer.reset_us, US_PER_S);
    answer = take(&limit, &state, MINUTE_START_US + US_PER_S, 1000); /* it is full */
    assert_false(answer.is_allowed);
    assert_int_equal(answer.remaining, 10);
    assert_true(answer.retry_us == LIMIT_NEVER);
}

/* A thousand and more a second are counted as any other. */
static void high_rates_limit(void **context)
{
    (void)context;
    static const int64_t rates[] = {2000, 6000, 8000};
    for (int i = 0; i < 3; i++) {
        struct limit limits[] = {sliding(rates[i], US_PER_S),
                                 bucket(rates[i], rates[i], US_PER_S),
                                 fixed(rates[i], US_PER_S)};
        for (int j = 0; j < 3; j++) {
            struct limit_state state = {0};
            assert_int_equal(take(&limits[j], &state, MINUTE_START_US, 1).remaining,
                             rates[i] - 1);
            assert_int_equal(take(&limits[j], &state, MINUTE_START_US, 100).remaining,
                             rates[i] - 101);
            assert_int_equal(pass(&limits[j], &state, MINUTE_START_US, rates[i]),
                             rates[i] - 101);
        }
    }
}

/* 100 are spent, 3 s pass: 3 are there again, not 100. */
static void bucket_refills_by_what_has_passed(void **context)
{
    (void)context;
    struct limit limit = bucket(1, 100, US_PER_S);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 200), 100);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 3 * US_PER_S, 200), 3);
    limit = bucket(3, 1, US_PER_S);
    state = (struct limit_state){0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 1), 1);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 100000, 1), 0);
    limit = bucket(1, 1, 10 * US_PER_S);
    state = (struct limit_state){0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 1), 1);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 2 * US_PER_S, 1), 0);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 10 * US_PER_S, 1), 1);
}

/* However long it was idle. */
static void bucket_saves_no_more_than_its_size(void **context)
{
    (void)context;
    struct limit limit = bucket(1, 2, US_PER_S);
    struct limit_state state = {0};
    int64_t at = MINUTE_START_US;
    assert_int_equal(pass(&limit, &state, at, 3), 2);
    at += 3600 * US_PER_S;
    assert_int_equal(pass(&limit, &state, at, 3), 2);
    for (int i = 1; i <= 10; i++) {
        assert_int_equal(pass(&limit, &state, at + i * US_PER_S, 3), 1);
    }
}

/* 6000 a minute are one in 10 ms: with a burst of 1 two in a millisecond are too many. */
static void bucket_of_one_refuses_the_second_in_one_millisecond(void **context)
{
    (void)context;
    struct limit limit = bucket(6000, 1, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 1), 1);
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US + 500, 1);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.retry_us, 9500);
    limit = bucket(6000, 2, MINUTE_US);
    state = (struct limit_state){0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 3), 2);
}

static void bucket_more_than_is_left_changes_nothing(void **context)
{
    (void)context;
    struct limit limit = bucket(2000, 2000, MINUTE_US);
    struct limit_state state = {0};
    static const struct {
        int64_t cost;
        bool is_allowed;
        int64_t remaining;
    } steps[] = {{1000, true, 1000}, {1500, false, 1000}, {500, true, 500},
                 {400, true, 100},   {100, true, 0},      {1, false, 0}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct limit_answer answer = take(&limit, &state, MINUTE_START_US,
                                          steps[i].cost);
        assert_int_equal(answer.is_allowed, steps[i].is_allowed);
        assert_int_equal(answer.remaining, steps[i].remaining);
    }
}

static void exact_edge_passes(void **context)
{
    (void)context;
    struct limit limit = bucket(1, 1, 10 * US_PER_S);
    struct limit_state state = {0};
    assert_true(take(&limit, &state, MINUTE_START_US, 1).is_allowed);
    assert_false(take(&limit, &state, MINUTE_START_US + 9999990, 1).is_allowed);
    assert_true(take(&limit, &state, MINUTE_START_US + 10000000, 1).is_allowed);
}

static void changed_numbers_keep_the_count(void **context)
{
    (void)context;
    struct limit limit = sliding(100, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 2).remaining, 98);
    limit = sliding(10, MINUTE_US);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).remaining, 7);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).remaining, 6);
    limit = sliding(200, MINUTE_US);
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 1).remaining, 195);
    limit = sliding(3, MINUTE_US); /* lower than used */
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 0).remaining, 0);
    assert_false(take(&limit, &state, MINUTE_START_US, 1).is_allowed);
}

static void size_0_refuses_for_ever(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(0, MINUTE_US), bucket(0, 0, MINUTE_US),
                             fixed(0, MINUTE_US), leaky(0, MINUTE_US, MINUTE_US)};
    for (int i = 0; i < 4; i++) {
        struct limit_state state = {0};
        struct limit_answer answer = take(&limits[i], &state, MINUTE_START_US, 1);
        assert_false(answer.is_allowed);
        assert_true(answer.retry_us == LIMIT_NEVER);
        assert_int_equal(answer.remaining, 0);
        assert_true(take(&limits[i], &state, MINUTE_START_US, 0).is_allowed);
    }
}

static void cost_over_the_size_never_passes(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(10, MINUTE_US), bucket(10, 10, MINUTE_US),
                             fixed(10, MINUTE_US), leaky(10, MINUTE_US, 54 * US_PER_S)};
    for (int i = 0; i < 4; i++) {
        struct limit_state state = {0};
        struct limit_answer answer = take(&limits[i], &state, MINUTE_START_US, 11);
        assert_false(answer.is_allowed);
        assert_true(answer.retry_us == LIMIT_NEVER);
        assert_int_equal(answer.remaining, 10);
    }
}

static void large_numbers_after_long_idling(void **context)
{
    (void)context;
    static const int64_t idle_us[] = {3 * 3600 * US_PER_S, 31 * 86400 * US_PER_S,
                                      INT64_C(3650) * 86400 * US_PER_S};
    const int64_t billion = 1000000000;
    struct limit limits[] = {bucket(billion, billion, US_PER_S),
                             bucket(billion, billion, 1000),
                             bucket(1, billion, 31 * 86400 * US_PER_S),
                             sliding(billion, US_PER_S),
                             sliding(billion, 31 * 86400 * US_PER_S),
                             fixed(billion, 31 * 86400 * US_PER_S),
                             leaky(billion, US_PER_S, 999999),
                             leaky(1, 31 * 86400 * US_PER_S, 10 * US_PER_S)};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        for (int j = 0; j < 3; j++) {
            struct limit_state state = {0};
            struct limit_answer answer = take(&limits[i], &state, MINUTE_START_US,
                                              limits[i].size);
            assert_true(answer.is_allowed);
            assert_int_equal(answer.remaining, 0);
            assert_in_range((uint64_t)answer.reset_us, 1, LIMIT_WAIT_US_MAX);
            answer = take(&limits[i], &state, MINUTE_START_US + idle_us[j], 0);
            assert_in_range((uint64_t)answer.remaining, 0, (uint64_t)limits[i].size);
        }
    }
    struct limit_state state = {0};
    (void)take(&limits[0], &state, MINUTE_START_US, billion);
    assert_int_equal(
        take(&limits[0], &state, MINUTE_START_US + idle_us[0], 0).remaining, billion);
}

/* Back by an hour: no lock-out, at most one size more. Forward by an hour: full. */
static void clock_an_hour_back_and_forward(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(10, MINUTE_US), bucket(10, 10, MINUTE_US),
                             fixed(10, MINUTE_US), leaky(10, MINUTE_US, 54 * US_PER_S)};
    const int64_t hour_us = 3600 * US_PER_S;
    for (int i = 0; i < 4; i++) {
        struct limit_state state = {0};
        assert_int_equal(pass(&limits[i], &state, MINUTE_START_US, 20), 10);
        int64_t back = MINUTE_START_US - hour_us;
        assert_int_equal(pass(&limits[i], &state, back, 20), 0);
        int64_t n = 0;
        for (int64_t s = 0; s <= 120; s++) {
            n += pass(&limits[i], &state, back + s * US_PER_S, 20);
        }
        assert_in_range(n, 10, i == 2 ? 30 : 20); /* three windows of a minute */
        int64_t later = back + 120 * US_PER_S + hour_us;
        assert_int_equal(pass(&limits[i], &state, later, 20), 10);
    }
}

/* 10 a second are offered to 5 a second for a minute: about 300 pass, not 5. */
static void sustained_overload_gets_the_limit_through(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(5, US_PER_S), bucket(5, 5, US_PER_S),
                             fixed(5, US_PER_S), leaky(5, US_PER_S, US_PER_S)};
    for (int i = 0; i < 4; i++) {
        struct limit_state state = {0};
        int64_t n = 0;
        for (int64_t j = 0; j < 600; j++) {
            n += pass(&limits[i], &state, MINUTE_START_US + j * 100000, 1);
        }
        /* a limit this small makes two counts refuse too much */
        assert_in_range(n, i == 0 ? 240 : 299, 305);
    }
}

/* Workers read the clock at different moments: a stamp a little ahead is taken as now. */
static void stamp_up_to_a_second_ahead(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(10, US_PER_S), bucket(10, 10, US_PER_S),
                             fixed(10, US_PER_S), leaky(10, US_PER_S, 900000)};
    for (int i = 0; i < 4; i++) {
        struct limit_state state = {0};
        assert_int_equal(pass(&limits[i], &state, MINUTE_START_US, 10), 10);
        struct limit_answer answer = take(&limits[i], &state, MINUTE_START_US - 5000,
                                          1);
        assert_false(answer.is_allowed);
        int64_t passes_at = MINUTE_START_US - 5000 + answer.retry_us;
        assert_false(take(&limits[i], &state, passes_at - 1, 1).is_allowed);
        assert_true(take(&limits[i], &state, passes_at, 1).is_allowed);
    }
}

static void policies_as_headers_show_them(void **context)
{
    (void)context;
    static const struct {
        bool is_bucket;
        int64_t requests;
        int64_t burst;
        int64_t per_ms;
        struct limit_policy want;
    } cases[] = {
        {false, 100, 100, 60000, {100, 60, 0}},
        {false, 10, 10, 1500, {10, 0, 0}}, /* no whole seconds: w left out */
        {true, 10, 50, 1000, {50, 5, 0}},
        {true, 100, 200, 60000, {200, 120, 0}},
        {true, 10000, 500, 60000, {500, 3, 0}},
        {true, 100, 10, 1000, {100, 1, 10}}, /* filled in 0.1 s */
        {true, 3, 4, 1000, {3, 1, 4}},       /* filled in 1.33 s */
        {true, 1, 1, 86400000, {1, 86400, 0}},
        {true, 1000000000, 10, 31LL * 86400000, {373, 1, 10}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t per_us = cases[i].per_ms * 1000;
        struct limit limit = cases[i].is_bucket
                                 ? bucket(cases[i].requests, cases[i].burst, per_us)
                                 : sliding(cases[i].requests, per_us);
        struct limit_policy policy;
        limit_describe(&limit, &policy);
        assert_int_equal(policy.quota, cases[i].want.quota);
        assert_int_equal(policy.window_s, cases[i].want.window_s);
        assert_int_equal(policy.burst, cases[i].want.burst);
    }
}

/* The header reference's example: 10/s with burst 50, 31.6 left; then 0.2 left. */
static void advertised_bucket(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 50, US_PER_S);
    struct limit_policy policy;
    limit_describe(&limit, &policy);
    struct limit_state state = {0};
    int64_t r = 0;
    int64_t t = 0;
    (void)take(&limit, &state, MINUTE_START_US, 19);
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US + 60000, 0);
    limit_advertise(&limit, &policy, &answer, &r, &t);
    assert_int_equal(r, 31);
    assert_int_equal(t, 4);
    state = (struct limit_state){0};
    (void)take(&limit, &state, MINUTE_START_US, 50);
    answer = take(&limit, &state, MINUTE_START_US + 20000, 1);
    limit_advertise(&limit, &policy, &answer, &r, &t);
    assert_int_equal(r, 0);
    assert_int_equal(t, 1);
}

static void advertised_window(void **context)
{
    (void)context;
    struct limit limit = sliding(100, MINUTE_US);
    struct limit_policy policy;
    limit_describe(&limit, &policy);
    struct limit_state state = {0};
    int64_t r = 0;
    int64_t t = 0;
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US + 22300000, 41);
    limit_advertise(&limit, &policy, &answer, &r, &t);
    assert_int_equal(r, 59);
    assert_int_equal(t, 38);
}

static void window_gives_back_to_the_window_it_took_from(void **context)
{
    (void)context;
    struct limit limit = sliding(10, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 10), 10);
    int64_t place = limit_place(&limit, &state);
    assert_true(settle(&limit, &state, MINUTE_START_US, place, 1, 0));
    assert_int_equal(take(&limit, &state, MINUTE_START_US, 0).remaining, 1);
    int64_t half = MINUTE_START_US + 90 * US_PER_S; /* nine count by half: 4.5 */
    assert_int_equal(take(&limit, &state, half, 0).remaining, 5);
    assert_true(settle(&limit, &state, half, place, 5, 0));
    assert_int_equal(take(&limit, &state, half, 0).remaining, 8);
    assert_false(settle(&limit, &state, half + MINUTE_US, place, 4, 0));
}

static void bucket_gives_back_what_has_not_drained(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 10, 10 * US_PER_S); /* one a second */
    struct limit_state state = {0};
    assert_true(take(&limit, &state, MINUTE_START_US, 8).is_allowed);
    int64_t place = limit_place(&limit, &state);
    int64_t later = MINUTE_START_US + 3 * US_PER_S;
    assert_true(take(&limit, &state, later, 4).is_allowed); /* 5 + 4 */
    assert_true(settle(&limit, &state, later, place, 8, 0));
    assert_int_equal(take(&limit, &state, later, 0).remaining, 6);
    assert_false(settle(&limit, &state, later + 8 * US_PER_S, place, 8, 0));
}

static void correction_upward_makes_a_debt_of_one_size_at_most(void **context)
{
    (void)context;
    struct limit limits[] = {sliding(10, MINUTE_US), bucket(10, 10, MINUTE_US)};
    for (int i = 0; i < 2; i++) {
        struct limit_state state = {0};
        assert_true(take(&limits[i], &state, MINUTE_START_US, 1).is_allowed);
        int64_t place = limit_place(&limits[i], &state);
        assert_true(settle(&limits[i], &state, MINUTE_START_US, place, 1, 1000));
        struct limit_answer answer = take(&limits[i], &state, MINUTE_START_US, 1);
        assert_false(answer.is_allowed);
        assert_int_equal(answer.remaining, 0);
        /* 20 are used. A window: they weigh 9 when 11/20 of the next is over. */
        int64_t wait_us = i == 0 ? MINUTE_US + 33 * US_PER_S : 11 * MINUTE_US / 10;
        assert_int_equal(answer.retry_us, wait_us);
        assert_false(settle(&limits[i], &state, MINUTE_START_US, place, 1, 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sliding_480_before_230_so_far),
        cmocka_unit_test(sliding_false_refusal_and_false_allow),
        cmocka_unit_test(sliding_80_before_30_so_far_half_way),
        cmocka_unit_test(sliding_42_before_18_so_far_limit_50),
        cmocka_unit_test(sliding_ten_before_and_ten_after_the_edge),
        cmocka_unit_test(sliding_reset_is_when_nothing_weighs_any_more),
        cmocka_unit_test(bucket_ten_before_and_ten_after_the_edge),
        cmocka_unit_test(bucket_100_a_minute_with_burst_200),
        cmocka_unit_test(bucket_10000_a_minute_with_burst_500),
        cmocka_unit_test(bucket_5_a_minute_the_sixth_after_3_s),
        cmocka_unit_test(bucket_200_in_2_s_a_minute_of_nothing_and_again),
        cmocka_unit_test(bucket_gcra_table),
        cmocka_unit_test(bucket_tenths_of_a_second),
        cmocka_unit_test(high_rates_limit),
        cmocka_unit_test(bucket_refills_by_what_has_passed),
        cmocka_unit_test(bucket_saves_no_more_than_its_size),
        cmocka_unit_test(bucket_of_one_refuses_the_second_in_one_millisecond),
        cmocka_unit_test(bucket_more_than_is_left_changes_nothing),
        cmocka_unit_test(exact_edge_passes),
        cmocka_unit_test(changed_numbers_keep_the_count),
        cmocka_unit_test(size_0_refuses_for_ever),
        cmocka_unit_test(cost_over_the_size_never_passes),
        cmocka_unit_test(large_numbers_after_long_idling),
        cmocka_unit_test(clock_an_hour_back_and_forward),
        cmocka_unit_test(sustained_overload_gets_the_limit_through),
        cmocka_unit_test(stamp_up_to_a_second_ahead),
        cmocka_unit_test(policies_as_headers_show_them),
        cmocka_unit_test(advertised_bucket),
        cmocka_unit_test(advertised_window),
        cmocka_unit_test(window_gives_back_to_the_window_it_took_from),
        cmocka_unit_test(bucket_gives_back_what_has_not_drained),
        cmocka_unit_test(correction_upward_makes_a_debt_of_one_size_at_most),
    };
    return cmocka_run_group_tests(tests, LIMITS_START, LIMITS_STOP);
}
