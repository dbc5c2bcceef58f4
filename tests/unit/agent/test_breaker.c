#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/store/breaker.h"

#define SLOW_US (2 * US_PER_MS)

static struct breaker b;
static struct instant now;

static int set_up(void **context)
{
    (void)context;
    now = (struct instant){.us = INT64_C(1800000000) * US_PER_S};
    breaker_init(&b, SLOW_US, now);
    return 0;
}

static void pass_us(int64_t us)
{
    now = instant_add_us(now, us);
}

/* Report `n` calls, `every_us` apart. @return how often that changed the state */
static unsigned calls(unsigned n, int64_t every_us, enum breaker_result result,
                      int64_t round_trip_us)
{
    unsigned n_changes = 0;
    for (unsigned i = 0; i < n; i++) {
        pass_us(every_us);
        n_changes += breaker_report(&b, now, result, round_trip_us);
    }
    return n_changes;
}

static enum breaker_state state(void)
{
    return breaker_read(&b, now).state;
}

static void expect_open(enum breaker_cause cause)
{
    assert_int_equal(state(), BREAKER_OPEN);
    assert_int_equal(breaker_read(&b, now).cause, cause);
    assert_false(breaker_passes(&b, now, 0));
}

static void good_calls_keep_it_closed(void **context)
{
    (void)context;
    assert_int_equal(calls(5000, US_PER_MS, BREAKER_GOOD, SLOW_US), 0);
    assert_int_equal(state(), BREAKER_CLOSED);
    assert_true(breaker_passes(&b, now, UINT32_MAX));
}

static void a_broken_connection_opens_it_at_once(void **context)
{
    (void)context;
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1);
    expect_open(BREAKER_DISCONNECTED);
}

static void failures_only_for_50_ms_and_five_of_them(void **context)
{
    (void)context;
    assert_int_equal(calls(1, 1, BREAKER_FAILED, 0), 0);
    assert_int_equal(calls(3, 20 * US_PER_MS, BREAKER_FAILED, 0), 0); /* four, 60 ms */
    assert_int_equal(calls(1, 1, BREAKER_FAILED, 0), 1);
    expect_open(BREAKER_FAILURES_ONLY);
}

static void five_failures_within_50_ms_do_not(void **context)
{
    (void)context;
    assert_int_equal(calls(1, 1, BREAKER_FAILED, 0), 0);
    assert_int_equal(calls(10, BREAKER_ROW_US / 10 - 1, BREAKER_FAILED, 0), 0);
    assert_int_equal(calls(1, 10, BREAKER_FAILED, 0), 1); /* now it is 50 ms */
}

static void one_good_call_breaks_the_row(void **context)
{
    (void)context;
    for (int i = 0; i < 4; i++) { /* 16 failures: too few to be half of 20 calls */
        assert_int_equal(calls(4, 20 * US_PER_MS, BREAKER_FAILED, 0), 0);
        assert_int_equal(calls(1, 1, BREAKER_GOOD, 1), 0);
        pass_us(US_PER_S);
    }
    assert_int_equal(state(), BREAKER_CLOSED);
}

static void half_of_twenty_calls_in_a_second(void **context)
{
    (void)context;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(calls(1, US_PER_MS, BREAKER_FAILED, 0), 0);
        assert_int_equal(calls(1, US_PER_MS, BREAKER_GOOD, 1), 0);
    }
    assert_int_equal(calls(1, US_PER_MS, BREAKER_GOOD, 1), 0);
    assert_int_equal(calls(1, US_PER_MS, BREAKER_FAILED, 0), 1);
    expect_open(BREAKER_HALF_FAILED);
}

static void calls_of_more_than_a_second_ago_do_not_count(void **context)
{
    (void)context;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(calls(1, US_PER_MS, BREAKER_FAILED, 0), 0);
        assert_int_equal(calls(1, US_PER_MS, BREAKER_GOOD, 1), 0);
    }
    pass_us(US_PER_S + BREAKER_SPAN_US);
    assert_int_equal(calls(1, US_PER_MS, BREAKER_GOOD, 1), 0);
    assert_int_equal(calls(9, US_PER_MS, BREAKER_FAILED, 0), 0);
}

static void a_slow_median_for_a_second(void **context)
{
    (void)context;
    unsigned n_changes = 0;
    for (int ms = 0; ms < 990; ms += 30) {
        n_changes += calls(1, 10 * US_PER_MS, BREAKER_GOOD, 1);
        n_changes += calls(2, 10 * US_PER_MS, BREAKER_GOOD, SLOW_US + 1);
    }
    assert_int_equal(n_changes, 0);
    n_changes += calls(2, 10 * US_PER_MS, BREAKER_GOOD, SLOW_US + 1);
    assert_int_equal(n_changes, 1);
    expect_open(BREAKER_SLOW);
}

static void a_slow_third_does_not(void **context)
{
    (void)context;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(calls(2, 10 * US_PER_MS, BREAKER_GOOD, SLOW_US), 0);
        assert_int_equal(calls(1, 10 * US_PER_MS, BREAKER_GOOD, 10 * SLOW_US), 0);
    }
}

static void without_a_bound_nothing_is_slow(void **context)
{
    (void)context;
    breaker_init(&b, 0, now);
    assert_int_equal(calls(500, 10 * US_PER_MS, BREAKER_GOOD, 100 * SLOW_US), 0);
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1);
    for (int i = 0; i < BREAKER_PROBES_GOOD; i++) {
        assert_int_equal(breaker_report_probe(&b, now, BREAKER_GOOD, 100 * SLOW_US),
                         i == BREAKER_PROBES_GOOD - 1);
    }
}

static void one_of_all_probes_each_quarter_second(void **context)
{
    (void)context;
    assert_false(breaker_wants_probe(&b, now, 0)); /* closed */
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1);
    assert_true(breaker_wants_probe(&b, now, 0));
    assert_false(breaker_wants_probe(&b, now, 0));
    pass_us(BREAKER_PROBE_US * 4 / 5 - 1);
    assert_false(breaker_wants_probe(&b, now, UINT32_MAX));
    pass_us(1);
    assert_true(breaker_wants_probe(&b, now, UINT32_MAX));
    pass_us(BREAKER_PROBE_US * 6 / 5 - 1);
    assert_false(breaker_wants_probe(&b, now, 0));
    pass_us(1);
    assert_true(breaker_wants_probe(&b, now, 0));
}

static void probe(enum breaker_result result, int64_t round_trip_us, bool changes)
{
    assert_int_equal(breaker_report_probe(&b, now, result, round_trip_us), changes);
}

static void three_good_probes_in_a_row_let_it_ramp(void **context)
{
    (void)context;
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1);
    probe(BREAKER_GOOD, 1, false);
    probe(BREAKER_GOOD, 1, false);
    probe(BREAKER_FAILED, 0, false);
    probe(BREAKER_GOOD, SLOW_US, false);
    probe(BREAKER_GOOD, SLOW_US + 1, false); /* slow */
    probe(BREAKER_GOOD, 1, false);
    probe(BREAKER_GOOD, 1, false);
    expect_open(BREAKER_DISCONNECTED);
    probe(BREAKER_GOOD, 1, true);
    assert_int_equal(state(), BREAKER_RAMPING);
}

static unsigned share_that_passes(void)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < 64; i++) {
        n += breaker_passes(&b, now, i << 26);
    }
    return n;
}

static void the_ramp_has_four_steps(void **context)
{
    (void)context;
    static const unsigned shares[] = {8, 16, 32, 64, 64};
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1);
    for (int i = 0; i < BREAKER_PROBES_GOOD; i++) {
        probe(BREAKER_GOOD, 1, i == BREAKER_PROBES_GOOD - 1);
    }
    for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        assert_int_equal(share_that_passes(), shares[i]);
        pass_us(BREAKER_STEP_US - 1);
        assert_int_equal(share_that_passes(), shares[i]);
        pass_us(1);
    }
    assert_int_equal(state(), BREAKER_CLOSED);
}

static void what_broke_before_does_not_count_after(void **context)
{
    (void)context;
    assert_int_equal(calls(4, 20 * US_PER_MS, BREAKER_FAILED, 0), 0);
    assert_int_equal(calls(1, 1, BREAKER_FAILED, 0), 1);
    assert_int_equal(calls(100, 1, BREAKER_FAILED, 0), 0); /* late ones, while open */
    for (int i = 0; i < BREAKER_PROBES_GOOD; i++) {
        probe(BREAKER_GOOD, 1, i == BREAKER_PROBES_GOOD - 1);
    }
    assert_int_equal(calls(4, 1, BREAKER_FAILED, 0), 0);
    assert_int_equal(state(), BREAKER_RAMPING);
    assert_int_equal(calls(1, 1, BREAKER_BROKEN, 0), 1); /* opens while ramping, too */
    expect_open(BREAKER_DISCONNECTED);
    assert_int_equal(breaker_read(&b, now).n_opened, 2);
}

/* From Redis being back until all calls pass: with a reconnect of 250 ms, below 2 s. */
static void recovery_is_bounded(void **context)
{
    (void)context;
    int64_t longest_us = BREAKER_PROBES_GOOD * BREAKER_PROBE_US * 6 / 5
                         + 3 * BREAKER_STEP_US + 250 * US_PER_MS;
    assert_true(longest_us <= 2 * US_PER_S);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_calls_keep_it_closed),
        TEST(a_broken_connection_opens_it_at_once),
        TEST(failures_only_for_50_ms_and_five_of_them),
        TEST(five_failures_within_50_ms_do_not),
        TEST(one_good_call_breaks_the_row),
        TEST(half_of_twenty_calls_in_a_second),
        TEST(calls_of_more_than_a_second_ago_do_not_count),
        TEST(a_slow_median_for_a_second),
        TEST(a_slow_third_does_not),
        TEST(without_a_bound_nothing_is_slow),
        TEST(one_of_all_probes_each_quarter_second),
        TEST(three_good_probes_in_a_row_let_it_ramp),
        TEST(the_ramp_has_four_steps),
        TEST(what_broke_before_does_not_count_after),
        TEST(recovery_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
