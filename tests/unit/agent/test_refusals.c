/* What Redis refused a moment ago. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/refusals.h"

#include "tests/support/limit.h"

static const uint8_t secret[REFUSALS_SECRET_BYTES] = {1};
static const struct instant told_at = {.us = MINUTE_START_US};
static struct refusals *refusals;
static struct limit ten;

static int set_up(void **context)
{
    (void)context;
    ten = sliding(10, MINUTE_US);
    refusals = refusals_new(secret);
    return refusals == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    refusals_free(refusals);
    return 0;
}

static struct store_charge charge(const struct limit *limit, const char *name,
                                  int64_t cost)
{
    return (struct store_charge){
        .limit = limit,
        .key = (const uint8_t *)name,
        .key_bytes = strlen(name),
        .cost = cost,
    };
}

static struct instant after_us(int64_t us)
{
    return instant_add_us(told_at, us);
}

static void remember(const struct limit *limit, const char *name, int64_t cost,
                     int64_t retry_us)
{
    struct store_charge refused = charge(limit, name, cost);
    refused.answer = (struct limit_answer){
        .remaining = 2,
        .retry_us = retry_us,
        .reset_us = 100 * US_PER_S,
        .window_end_us = 40 * US_PER_S,
    };
    refusals_remember(refusals, &refused, told_at);
}

static bool is_refused(const struct limit *limit, const char *name, int64_t cost,
                       int64_t at_us)
{
    struct store_charge asked = charge(limit, name, cost);
    unsigned doubt = 0;
    return refusals_answer(refusals, &asked, after_us(at_us), &doubt);
}

static unsigned doubt_of(const struct limit *limit, const char *name, int64_t cost,
                         int64_t at_us)
{
    struct store_charge asked = charge(limit, name, cost);
    unsigned doubt = 0;
    assert_false(refusals_answer(refusals, &asked, after_us(at_us), &doubt));
    return doubt;
}

static void an_empty_one_refuses_nothing(void **context)
{
    (void)context;
    assert_true(refusals_are_over(refusals, told_at));
    assert_false(is_refused(&ten, "a", 1, 0));
}

static void holds_until_the_wait_is_over(void **context)
{
    (void)context;
    remember(&ten, "a", 3, 700 * US_PER_MS);
    assert_true(is_refused(&ten, "a", 3, 100));
    assert_true(is_refused(&ten, "a", 3, 700 * US_PER_MS - 1));
    assert_false(is_refused(&ten, "a", 3, 700 * US_PER_MS));
}

static void holds_for_a_second_at_most(void **context)
{
    (void)context;
    const int64_t waits_us[] = {20 * US_PER_S, LIMIT_NEVER};
    for (size_t i = 0; i < ARRAY_LEN(waits_us); i++) {
        remember(&ten, "a", 3, waits_us[i]);
        assert_true(is_refused(&ten, "a", 3, REFUSALS_US_MAX - 1));
        assert_false(is_refused(&ten, "a", 3, REFUSALS_US_MAX));
    }
}

static void a_smaller_cost_may_pass(void **context)
{
    (void)context;
    remember(&ten, "a", 3, US_PER_S);
    assert_false(is_refused(&ten, "a", 2, 100));
    assert_false(is_refused(&ten, "a", 0, 100));
    assert_true(is_refused(&ten, "a", 4, 100));
}

static void the_answer_is_less_the_time_since_it_came(void **context)
{
    (void)context;
    unsigned doubt = 0;
    remember(&ten, "a", 3, 20 * US_PER_S);
    struct store_charge asked = charge(&ten, "a", 3);
    assert_true(refusals_answer(refusals, &asked, after_us(900000), &doubt));
    assert_false(asked.answer.is_allowed);
    assert_int_equal(asked.answer.remaining, 2);
    assert_int_equal(asked.answer.retry_us, 19100000);
    assert_int_equal(asked.answer.reset_us, 99100000);
    assert_int_equal(asked.answer.window_end_us, 39100000);
    assert_int_equal(asked.answer.delay_us, 0);
    assert_true(refusals_answer(refusals, &asked, after_us(-50), &doubt));
    assert_int_equal(asked.answer.retry_us, 20 * US_PER_S);
}

static void waits_that_never_end_do_not(void **context)
{
    (void)context;
    unsigned doubt = 0;
    struct limit none = bucket(0, 10, MINUTE_US);
    struct store_charge refused = charge(&none, "a", 1);
    refused.answer = (struct limit_answer){
        .retry_us = LIMIT_NEVER,
        .reset_us = LIMIT_NEVER,
    };
    refusals_remember(refusals, &refused, told_at);
    assert_true(refusals_answer(refusals, &refused, after_us(5000), &doubt));
    assert_true(refused.answer.retry_us == LIMIT_NEVER);
    assert_true(refused.answer.reset_us == LIMIT_NEVER);
    assert_int_equal(refused.answer.window_end_us, 0); /* it has no windows */
}

static void what_never_passes_is_told_so(void **context)
{
    (void)context;
    unsigned doubt = 0;
    struct store_charge asked = charge(&ten, "a", 10);
    remember(&ten, "a", 3, US_PER_S);
    assert_true(refusals_answer(refusals, &asked, after_us(100), &doubt));
    assert_int_equal(asked.answer.retry_us, US_PER_S - 100);
    asked.cost = 11;
    assert_true(refusals_answer(refusals, &asked, after_us(100), &doubt));
    assert_true(asked.answer.retry_us == LIMIT_NEVER);
}

static void the_window_may_turn_meanwhile(void **context)
{
    (void)context;
    unsigned doubt = 0;
    struct limit quick = sliding(10, 300 * US_PER_MS);
    struct store_charge asked = charge(&quick, "a", 1);
    asked.answer = (struct limit_answer){
        .retry_us = 500 * US_PER_MS,
        .reset_us = 550 * US_PER_MS,
        .window_end_us = 50 * US_PER_MS,
    };
    refusals_remember(refusals, &asked, told_at);
    assert_true(refusals_answer(refusals, &asked, after_us(50 * US_PER_MS), &doubt));
    assert_int_equal(asked.answer.window_end_us, 300 * US_PER_MS);
    assert_true(refusals_answer(refusals, &asked, after_us(450 * US_PER_MS), &doubt));
    assert_int_equal(asked.answer.window_end_us, 200 * US_PER_MS);
}

static void another_limit_is_another_counter(void **context)
{
    (void)context;
    struct limit others[6] = {ten, ten, ten, ten, ten, ten};
    others[0].algorithm = LIMIT_FIXED_WINDOW;
    others[1].requests = 20;
    others[2].size = 20;
    others[3].per_ticks = 30;
    others[4].tick_us = 10;
    others[5].max_delay_ticks = 1;
    remember(&ten, "a", 1, US_PER_S);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(is_refused(&others[i], "a", 1, 100));
    }
    assert_false(is_refused(&ten, "b", 1, 100));
    assert_false(is_refused(&ten, "", 1, 100));
    assert_true(is_refused(&ten, "a", 1, 100));
}

static void the_newest_is_remembered(void **context)
{
    (void)context;
    remember(&ten, "a", 1, US_PER_S);
    remember(&ten, "a", 5, 500 * US_PER_MS);
    assert_false(is_refused(&ten, "a", 1, 100));
    assert_false(is_refused(&ten, "a", 5, 500 * US_PER_MS));
}

static void is_in_doubt_for_as_long_again(void **context)
{
    (void)context;
    const int64_t end_us = 700 * US_PER_MS;
    remember(&ten, "a", 3, end_us);
    assert_true(doubt_of(&ten, "a", 2, 100) < REFUSALS_N); /* it may pass */
    assert_true(doubt_of(&ten, "a", 3, end_us) < REFUSALS_N);
    assert_true(doubt_of(&ten, "a", 3, end_us + REFUSALS_US_MAX - 1) < REFUSALS_N);
    assert_false(refusals_are_over(refusals, after_us(end_us + REFUSALS_US_MAX - 1)));
    assert_int_equal(doubt_of(&ten, "a", 3, end_us + REFUSALS_US_MAX), REFUSALS_N);
    assert_true(refusals_are_over(refusals, after_us(end_us + REFUSALS_US_MAX)));
    assert_int_equal(doubt_of(&ten, "a", 0, end_us), REFUSALS_N); /* always passes */
    assert_int_equal(doubt_of(&ten, "b", 3, end_us), REFUSALS_N);
}

static void knows_who_asks(void **context)
{
    (void)context;
    int who = 0;
    remember(&ten, "a", 3, 1);
    unsigned doubt = doubt_of(&ten, "a", 3, 1);
    assert_null(refusals_asker(refusals, doubt));
    refusals_set_asker(refusals, doubt, &who);
    assert_ptr_equal(refusals_asker(refusals, doubt), &who);
    remember(&ten, "a", 2, 1);
    assert_int_equal(doubt_of(&ten, "a", 3, 1), doubt);
    assert_ptr_equal(refusals_asker(refusals, doubt), &who);
    for (unsigned i = 0; i < 10 * REFUSALS_N; i++) { /* and push it out */
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", i);
        remember(&ten, name, 3, US_PER_S);
    }
    assert_null(refusals_asker(refusals, doubt));
    refusals_set_asker(refusals, doubt, &who);
    refusals_clear(refusals);
    assert_null(refusals_asker(refusals, doubt));
}

static void cleared_it_refuses_nothing(void **context)
{
    (void)context;
    remember(&ten, "a", 1, US_PER_S);
    refusals_clear(refusals);
    assert_true(refusals_are_over(refusals, told_at));
    assert_false(is_refused(&ten, "a", 1, 100));
}

/* As many as fit a hundred times over: none is refused that was not, and the newest are
 * there; those go first that end first. */
static void in_a_full_one_those_go_that_end_first(void **context)
{
    (void)context;
    unsigned n_kept = 0;
    for (unsigned i = 0; i < 100 * REFUSALS_N; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", i);
        remember(&ten, name, 1, i < 512 ? 900 * US_PER_MS : 100 + i);
        assert_true(is_refused(&ten, name, 1, 100));
    }
    for (unsigned i = 0; i < 512; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", i);
        n_kept += is_refused(&ten, name, 1, 800 * US_PER_MS);
    }
    assert_in_range(n_kept, 500, 512); /* but where a whole set ends late */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_one_refuses_nothing),
        TEST(holds_until_the_wait_is_over),
        TEST(holds_for_a_second_at_most),
        TEST(a_smaller_cost_may_pass),
        TEST(the_answer_is_less_the_time_since_it_came),
        TEST(waits_that_never_end_do_not),
        TEST(what_never_passes_is_told_so),
        TEST(the_window_may_turn_meanwhile),
        TEST(another_limit_is_another_counter),
        TEST(the_newest_is_remembered),
        TEST(is_in_doubt_for_as_long_again),
        TEST(knows_who_asks),
        TEST(cleared_it_refuses_nothing),
        TEST(in_a_full_one_those_go_that_end_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
