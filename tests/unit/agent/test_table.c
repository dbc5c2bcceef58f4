/* The table of what workers share about counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/table.h"

#include "tests/support/limit.h"

struct entry {
    uint64_t number;
    bool stays;
};

static const struct instant now = {MINUTE_START_US};
static struct table table;
static unsigned n_asked; /* whether an entry may go */

static bool may_go(struct table *of, void *entry, struct instant at)
{
    assert_ptr_equal(of, &table);
    assert_int_equal(at.us, now.us);
    n_asked++;
    return !((const struct entry *)entry)->stays;
}

static int set_up(void **context)
{
    (void)context;
    n_asked = 0;
    return table_init(&table, sizeof(struct entry), may_go) ? 0 : -1;
}

static int tear_down(void **context)
{
    (void)context;
    table_fini(&table);
    return 0;
}

static struct table_key key_of(const char *name, const struct limit *limit)
{
    struct store_charge charge = {
        .limit = limit,
        .key = (const uint8_t *)name,
        .key_bytes = strlen(name),
    };
    return table_key(&table, &charge);
}

static bool are_same(struct table_key a, struct table_key b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* One of many keys of one set. */
static struct table_key in_set(uint64_t set, uint64_t n)
{
    return (struct table_key){.lo = set + n * (TABLE_ENTRIES / TABLE_WAYS), .hi = n};
}

/* @return whether there was room */
static bool use(struct table_key key, uint64_t number, bool stays)
{
    struct table_set *set = table_lock(&table, &key);
    struct entry *entry = table_use(&table, set, &key, now);
    if (entry != NULL) {
        entry->number = number;
        entry->stays = stays;
    }
    table_unlock(set);
    return entry != NULL;
}

/* 0: none */
static uint64_t find(struct table_key key)
{
    struct table_set *set = table_lock(&table, &key);
    const struct entry *entry = table_find(&table, set, &key);
    uint64_t number = entry != NULL ? entry->number : 0;
    table_unlock(set);
    return number;
}

static void a_counter_is_its_name_and_its_limit_as_it_stands(void **context)
{
    struct limit ten = sliding(10, MINUTE_US);
    struct limit same = sliding(10, MINUTE_US);
    struct limit more = sliding(11, MINUTE_US);
    struct limit small = bucket(10, 5, MINUTE_US);
    struct limit large = bucket(10, 6, MINUTE_US);
    (void)context;
    assert_true(are_same(key_of("a", &ten), key_of("a", &same)));
    assert_false(are_same(key_of("a", &ten), key_of("b", &ten)));
    assert_false(are_same(key_of("a", &ten), key_of("a", &more)));
    assert_false(are_same(key_of("a", &small), key_of("a", &large)));
}

static void names_are_hashed_with_a_secret(void **context)
{
    struct limit ten = sliding(10, MINUTE_US);
    struct table_key before = key_of("a", &ten);
    (void)context;
    table_fini(&table);
    assert_true(table_init(&table, sizeof(struct entry), may_go));
    assert_false(are_same(before, key_of("a", &ten)));
}

static void what_is_used_is_found(void **context)
{
    (void)context;
    assert_int_equal(find(in_set(1, 1)), 0);
    assert_true(use(in_set(1, 1), 77, false));
    assert_int_equal(find(in_set(1, 1)), 77);
    assert_int_equal(find(in_set(1, 2)), 0);
    assert_int_equal(find(in_set(2, 1)), 0);
    assert_int_equal(n_asked, 0);
}

static void keys_that_differ_in_one_half_are_two(void **context)
{
    struct table_key a = {.lo = 5, .hi = 6};
    struct table_key b = {.lo = 5, .hi = 7};
    struct table_key c = {.lo = 5 + TABLE_ENTRIES / TABLE_WAYS, .hi = 6};
    (void)context;
    assert_true(use(a, 1, false));
    assert_int_equal(find(b), 0);
    assert_int_equal(find(c), 0);
}

static void a_new_entry_is_zeroed(void **context)
{
    (void)context;
    for (uint64_t n = 0; n <= TABLE_WAYS; n++) {
        struct table_key key = in_set(3, n);
        struct table_set *set = table_lock(&table, &key);
        struct entry *entry = table_use(&table, set, &key, now);
        assert_non_null(entry);
        assert_int_equal(entry->number, 0);
        entry->number = 1 + n;
        table_unlock(set);
    }
}

static void the_one_that_may_go_is_pushed_out(void **context)
{
    (void)context;
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_true(use(in_set(3, n), 100 + n, n != 5));
    }
    assert_true(use(in_set(3, 50), 500, true));
    assert_int_equal(find(in_set(3, 50)), 500);
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_int_equal(find(in_set(3, n)), n != 5 ? 100 + n : 0);
    }
}

static void none_goes_that_is_to_stay(void **context)
{
    (void)context;
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_true(use(in_set(3, n), 100 + n, true));
    }
    assert_false(use(in_set(3, 50), 500, false));
    assert_true(use(in_set(4, 50), 500, false)); /* another set has room */
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_int_equal(find(in_set(3, n)), 100 + n);
    }
}

static void one_that_was_used_again_has_a_second_chance(void **context)
{
    (void)context;
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_true(use(in_set(3, n), 100 + n, false));
    }
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_true(n == 4 || find(in_set(3, n)) != 0);
    }
    assert_true(use(in_set(3, 50), 500, false));
    for (uint64_t n = 0; n < TABLE_WAYS; n++) {
        assert_int_equal(find(in_set(3, n)), n != 4 ? 100 + n : 0);
    }
}

static void a_full_table_keeps_what_was_used_last(void **context)
{
    (void)context;
    for (uint64_t n = 0; n < 4 * TABLE_WAYS; n++) {
        assert_true(use(in_set(9, n), 1 + n, false));
        assert_int_equal(find(in_set(9, n)), 1 + n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(a_counter_is_its_name_and_its_limit_as_it_stands),
        X(names_are_hashed_with_a_secret),
        X(what_is_used_is_found),
        X(keys_that_differ_in_one_half_are_two),
        X(a_new_entry_is_zeroed),
        X(the_one_that_may_go_is_pushed_out),
        X(none_goes_that_is_to_stay),
        X(one_that_was_used_again_has_a_second_chance),
        X(a_full_table_keeps_what_was_used_last),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
