#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/hot.h"

static struct hot_name names[HOT_NAMES];

static struct instant at_s(int64_t s)
{
    return (struct instant){.us = s * US_PER_S};
}

static void note(struct hot *hot, const char *name, unsigned n, int64_t s)
{
    for (unsigned i = 0; i < n; i++) {
        hot_note(hot, name, strlen(name), at_s(s));
    }
}

static void check(unsigned i, const char *name, uint64_t per_s)
{
    assert_int_equal(names[i].name_bytes, strlen(name));
    assert_memory_equal(names[i].name, name, strlen(name));
    assert_int_equal(names[i].per_s, per_s);
}

static void only_what_is_hot_is_told_the_hottest_first(void **context)
{
    (void)context;
    struct hot *hot = hot_new();
    assert_non_null(hot);
    note(hot, "warm", 124, 7);
    note(hot, "hot", 125, 7);
    note(hot, "hotter", 500, 7);
    assert_int_equal(hot_read(hot, at_s(7), names), 0); /* not a whole second yet */
    assert_int_equal(hot_read(hot, at_s(8), names), 2);
    check(0, "hotter", 8000);
    check(1, "hot", 2000);
    assert_int_equal(hot_read(hot, at_s(8), names), 2);
    assert_int_equal(hot_read(hot, at_s(9), names), 0);
    hot_free(hot);
}

static void hot_one_is_found_among_many(void **context)
{
    (void)context;
    struct hot *hot = hot_new();
    assert_non_null(hot);
    for (unsigned i = 0; i < 5000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "cold%u", i);
        note(hot, name, 1, 7);
        note(hot, "hot", 1, 7);
    }
    assert_int_equal(hot_read(hot, at_s(8), names), 1);
    check(0, "hot", 5000 * HOT_SAMPLE);
    hot_free(hot);
}

static void name_that_took_a_place_is_not_hot_by_that(void **context)
{
    (void)context;
    struct hot *hot = hot_new();
    assert_non_null(hot);
    for (unsigned i = 0; i < HOT_NAMES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "hot%u", i);
        note(hot, name, 200 + i, 7);
    }
    note(hot, "new", 1, 7); /* goes on from 200 */
    assert_int_equal(hot_read(hot, at_s(8), names), HOT_NAMES - 1);
    check(0, "hot31", 231 * HOT_SAMPLE);
    check(HOT_NAMES - 2, "hot1", 201 * HOT_SAMPLE);
    hot_free(hot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_hot_is_told_the_hottest_first),
        cmocka_unit_test(hot_one_is_found_among_many),
        cmocka_unit_test(name_that_took_a_place_is_not_hot_by_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
