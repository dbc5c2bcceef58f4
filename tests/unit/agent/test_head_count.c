#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/store/head_count.h"

static struct head_count count;
static struct instant now;

static int set_up(void **context)
{
    (void)context;
    now = (struct instant){.us = INT64_C(1800000000) * US_PER_S};
    count = (struct head_count){.n = 3, .heard_at = now};
    return 0;
}

static unsigned hear_after(int64_t us, unsigned n)
{
    now = instant_add_us(now, us);
    return head_count_hear(&count, n, now);
}

static void a_rise_counts_at_once(void **context)
{
    (void)context;
    assert_int_equal(hear_after(US_PER_S, 7), 7);
    assert_int_equal(hear_after(US_PER_S, 8), 8);
}

static void a_fall_counts_after_five_seconds(void **context)
{
    (void)context;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(hear_after(US_PER_S, 2), 3);
    }
    assert_int_equal(hear_after(US_PER_S, 2), 2);
}

static void who_comes_back_in_time_was_never_away(void **context)
{
    (void)context;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 5; i++) {
            assert_int_equal(hear_after(US_PER_S, 2), 3);
        }
        assert_int_equal(hear_after(US_PER_S, 3), 3);
    }
}

static void a_fall_is_to_the_most_heard_of_meanwhile(void **context)
{
    static const unsigned heard[] = {1, 1, 2, 1, 1};
    (void)context;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(hear_after(US_PER_S, heard[i]), 3);
    }
    assert_int_equal(hear_after(US_PER_S, 1), 2);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(hear_after(US_PER_S, 1), 2);
    }
    assert_int_equal(hear_after(US_PER_S, 1), 1);
}

static void silence_is_no_part_of_a_fall(void **context)
{
    (void)context;
    assert_int_equal(hear_after(US_PER_S, 2), 3);
    assert_int_equal(hear_after(60 * US_PER_S, 1), 3);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hear_after(US_PER_S, 1), 3);
    }
    assert_int_equal(hear_after(US_PER_S, 1), 1);
}

static void one_that_is_not_answered_interrupts_no_fall(void **context)
{
    (void)context;
    assert_int_equal(hear_after(US_PER_S, 2), 3);
    assert_int_equal(hear_after(HEAD_COUNT_GAP_US, 2), 3);
    assert_int_equal(hear_after(HEAD_COUNT_GAP_US, 2), 2);
}

static void none_is_one(void **context)
{
    (void)context;
    count.n = 1;
    assert_int_equal(hear_after(US_PER_S, 0), 1);
    assert_int_equal(hear_after(US_PER_S, 2), 2);
    assert_int_equal(hear_after(US_PER_S, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_rise_counts_at_once, set_up),
        cmocka_unit_test_setup(a_fall_counts_after_five_seconds, set_up),
        cmocka_unit_test_setup(who_comes_back_in_time_was_never_away, set_up),
        cmocka_unit_test_setup(a_fall_is_to_the_most_heard_of_meanwhile, set_up),
        cmocka_unit_test_setup(silence_is_no_part_of_a_fall, set_up),
        cmocka_unit_test_setup(one_that_is_not_answered_interrupts_no_fall, set_up),
        cmocka_unit_test_setup(none_is_one, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
