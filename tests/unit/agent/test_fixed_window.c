/* Worked values of the fixed window, by multiples of `per` and by the calendar. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/limit.h"

static void ten_before_and_ten_after_the_edge_all_pass(void **context)
{
    (void)context;
    struct limit limit = fixed(10, US_PER_S);
    struct limit_state state = {0};
    int64_t edge = MINUTE_START_US + US_PER_S;
    int64_t n = pass(&limit, &state, edge - 10000, 10);
    n += pass(&limit, &state, edge + 10000, 10);
    assert_int_equal(n, 20);
}

static void hundred_a_minute_before_and_at_the_turn_allows_200(void **context)
{
    (void)context;
    struct limit limit = fixed(100, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 59 * US_PER_S, 101), 100);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US + 60 * US_PER_S, 101), 100);
}

static void hour_of_second_1000000(void **context)
{
    (void)context;
    struct limit limit = fixed(2, 3600 * US_PER_S);
    struct limit_state state = {0};
    struct limit_answer answer = take(&limit, &state, 1000000 * US_PER_S, 1);
    assert_int_equal(answer.remaining, 1);
    assert_int_equal(answer.reset_us, 800 * US_PER_S);
    assert_int_equal(answer.window_end_us, 800 * US_PER_S);
    answer = take(&limit, &state, 1000000 * US_PER_S, 2);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.retry_us, 800 * US_PER_S);
    assert_false(take(&limit, &state, 1000800 * US_PER_S - 1, 2).is_allowed);
    assert_true(take(&limit, &state, 1000800 * US_PER_S, 2).is_allowed);
}

static void untouched_has_nothing_to_reset(void **context)
{
    (void)context;
    struct limit limit = fixed(5, US_PER_S);
    struct limit_state state = {0};
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 0);
    assert_int_equal(answer.reset_us, 0);
    assert_int_equal(answer.remaining, 5);
    assert_int_equal(answer.window_end_us, US_PER_S);
}

static void raised_gives_more_at_once_and_lowered_waits_it_out(void **context)
{
    (void)context;
    struct limit limit = fixed(10, MINUTE_US);
    struct limit_state state = {0};
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 50), 10);
    limit = fixed(20, MINUTE_US);
    assert_int_equal(pass(&limit, &state, MINUTE_START_US, 50), 10);
    limit = fixed(5, MINUTE_US);
    struct limit_answer answer = take(&limit, &state, MINUTE_START_US, 1);
    assert_false(answer.is_allowed);
    assert_int_equal(answer.remaining, 0);
    assert_int_equal(answer.retry_us, MINUTE_US);
}

static void later_window_wins_a_merge_and_one_window_adds(void **context)
{
    (void)context;
    struct limit limit = fixed(10, MINUTE_US);
    struct limit_state a = {0};
    struct limit_state b = {0};
    assert_int_equal(pass(&limit, &a, MINUTE_START_US, 3), 3);
    assert_int_equal(pass(&limit, &b, MINUTE_START_US, 4), 4);
    struct limit_state sum = a;
    limit_merge(&limit, &sum, &b);
    assert_int_equal(take(&limit, &sum, MINUTE_START_US, 0).remaining, 3);
    assert_int_equal(pass(&limit, &b, MINUTE_START_US + MINUTE_US, 2), 2);
    sum = a;
    limit_merge(&limit, &sum, &b);
    assert_memory_equal(&sum, &b, sizeof(sum));
    sum = b;
    limit_merge(&limit, &sum, &a);
    assert_memory_equal(&sum, &b, sizeof(sum));
}

/* Days that begin at these seconds of the wall clock; the agent's is `ahead_us` ahead. */
static void fill_days(struct calendar *calendar, int64_t first_s, int64_t ahead_us)
{
    struct calendar_start starts[CALENDAR_STARTS];
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t day_s = i == 1 ? 23 * 3600 : 86400; /* the second has 23 hours */
        starts[i].number = i == 0 ? first_s : starts[i - 1].number + day_s;
        starts[i].us = starts[i].number * US_PER_S + ahead_us;
    }
    calendar_fill(calendar, starts);
}

#define DAY_US  (86400 * US_PER_S)
#define FIRST_S (MINUTE_START_US / US_PER_S)

static struct limit by_day(const struct calendar *calendar)
{
    struct limit limit = fixed(10, 25 * 3600 * US_PER_S);
    limit.calendar = calendar;
    return limit;
}

static void calendar_window_ends_where_the_next_begins(void **context)
{
    (void)context;
    static struct calendar calendar;
    fill_days(&calendar, FIRST_S, 0);
    struct limit limit = by_day(&calendar);
    struct limit_state state = {0};
    int64_t now = MINUTE_START_US + 3600 * US_PER_S;
    assert_int_equal(pass(&limit, &state, now, 11), 10);
    struct limit_answer answer = take(&limit, &state, now, 1);
    assert_int_equal(answer.retry_us, 22 * 3600 * US_PER_S);
    assert_int_equal(answer.reset_us, 22 * 3600 * US_PER_S);
    assert_int_equal(pass(&limit, &state, now + answer.retry_us - 1, 1), 0);
    assert_int_equal(pass(&limit, &state, now + answer.retry_us, 11), 10);
    answer = take(&limit, &state, now + answer.retry_us, 1);
    assert_int_equal(answer.retry_us, DAY_US);
}

/* The wall clock is set forward by 5 s, then back: the day is still the same day. A server
 * of Redis has no clock but that one. */
#ifndef LIMITS_IN_LUA
static void stepped_wall_clock_starts_no_new_window(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = by_day(&calendar);
    struct limit_state state = {0};
    static const int64_t ahead_us[] = {0, -5 * US_PER_S, 7 * US_PER_S};
    for (int i = 0; i < 3; i++) {
        fill_days(&calendar, FIRST_S, ahead_us[i]);
        struct limit_answer answer = take(&limit, &state,
                                          MINUTE_START_US + 20 * US_PER_S, 1);
        assert_int_equal(answer.remaining, 9 - i);
        assert_int_equal(answer.window_end_us,
                         23 * 3600 * US_PER_S + ahead_us[i] - 20 * US_PER_S);
    }
}

#endif

static void wall_clock_a_day_back_keeps_the_count(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = by_day(&calendar);
    struct limit_state state = {0};
    fill_days(&calendar, FIRST_S, 0);
    int64_t now = MINUTE_START_US + DAY_US;
    assert_int_equal(pass(&limit, &state, now, 11), 10);
    fill_days(&calendar, FIRST_S - 86400, DAY_US);
    assert_int_equal(pass(&limit, &state, now, 1), 0);
    assert_int_equal(take(&limit, &state, now, 1).retry_us, 23 * 3600 * US_PER_S);
}

/* One worker's clock is past the turn, another's is not yet. */
static void clocks_of_workers_around_the_turn(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = by_day(&calendar);
    struct limit_state state = {0};
    fill_days(&calendar, FIRST_S, 0);
    int64_t turn = MINUTE_START_US + 23 * 3600 * US_PER_S;
    assert_int_equal(pass(&limit, &state, turn + 10, 4), 4);
    struct limit_answer answer = take(&limit, &state, turn - 10, 1);
    assert_true(answer.is_allowed);
    assert_int_equal(answer.remaining, 5);
    assert_int_equal(answer.window_end_us, DAY_US + 10);
    assert_int_equal(take(&limit, &state, turn + 20, 1).remaining, 4);
}

static void last_known_window_goes_on(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = by_day(&calendar);
    struct limit_state state = {0};
    fill_days(&calendar, FIRST_S, 0);
    int64_t now = MINUTE_START_US + 70 * DAY_US;
    assert_int_equal(pass(&limit, &state, now, 11), 10);
    assert_int_equal(take(&limit, &state, now, 1).retry_us, US_PER_S);
    assert_int_equal(pass(&limit, &state, now + DAY_US, 1), 0);
}

static void policy_tells_a_length_only_where_all_windows_have_it(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = by_day(&calendar);
    struct limit_policy policy;
    limit_describe(&limit, &policy);
    assert_int_equal(policy.quota, 10);
    assert_int_equal(policy.window_s, 0);
    calendar.is_even = true;
    limit_describe(&limit, &policy);
    assert_int_equal(policy.window_s, 25 * 3600);
}

enum {
    FILLS = 20000,
};

static struct calendar shared;
static _Atomic bool is_filled;

static void *fill_by_turns(void *arg)
{
    (void)arg;
    for (int i = 0; i < FILLS; i++) {
        fill_days(&shared, FIRST_S + i % 2 * 3600, i % 2 * 5 * US_PER_S);
    }
    atomic_store(&is_filled, true);
    return NULL;
}

/* The number and the end of a window come from one filling, whenever it is looked at. */
static void windows_are_never_of_two_fillings(void **context)
{
    (void)context;
    pthread_t thread;
    struct instant now = {.us = MINUTE_START_US + 3 * DAY_US};
    fill_days(&shared, FIRST_S, 0);
    assert_int_equal(pthread_create(&thread, NULL, fill_by_turns, NULL), 0);
    while (!atomic_load(&is_filled)) {
        int64_t end_us = 0;
        int64_t number = calendar_find(&shared, now, &end_us);
        int64_t ahead_us = end_us - (number + 86400) * US_PER_S;
        bool is_odd = (number - FIRST_S) % 86400 != 23 * 3600;
        assert_int_equal(ahead_us, is_odd ? 5 * US_PER_S : 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_before_and_ten_after_the_edge_all_pass),
        cmocka_unit_test(hundred_a_minute_before_and_at_the_turn_allows_200),
        cmocka_unit_test(hour_of_second_1000000),
        cmocka_unit_test(untouched_has_nothing_to_reset),
        cmocka_unit_test(raised_gives_more_at_once_and_lowered_waits_it_out),
        cmocka_unit_test(later_window_wins_a_merge_and_one_window_adds),
        cmocka_unit_test(calendar_window_ends_where_the_next_begins),
#ifndef LIMITS_IN_LUA
        cmocka_unit_test(stepped_wall_clock_starts_no_new_window),
#endif
        cmocka_unit_test(wall_clock_a_day_back_keeps_the_count),
        cmocka_unit_test(clocks_of_workers_around_the_turn),
        cmocka_unit_test(last_known_window_goes_on),
        cmocka_unit_test(windows_are_never_of_two_fillings),
        cmocka_unit_test(policy_tells_a_length_only_where_all_windows_have_it),
    };
    return cmocka_run_group_tests(tests, LIMITS_START, LIMITS_STOP);
}
