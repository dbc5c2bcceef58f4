/* What a worker remembers of counters that it looks after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/notebook.h"

#include "tests/support/limit.h"

static struct notebook *book;
static struct limit ten;

static int set_up(void **context)
{
    (void)context;
    ten = sliding(10, MINUTE_US);
    book = calloc(1, sizeof(*book));
    assert_non_null(book);
    notebook_init(book);
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    free(book);
    return 0;
}

static uint32_t note(const struct limit *limit, const char *name)
{
    struct store_charge charge = {
        .limit = limit,
        .key = (const uint8_t *)name,
        .key_bytes = strlen(name),
    };
    return notebook_take(book, &charge);
}

static void a_note_keeps_name_and_limit(void **context)
{
    char name[] = "rl:api:{a}:ten";
    (void)context;
    uint32_t idx = note(&ten, name);
    memset(name, 'x', sizeof(name));
    ten.requests = 99;
    assert_int_equal(notebook_name(book, idx).len, 14);
    assert_memory_equal(notebook_name(book, idx).ptr, "rl:api:{a}:ten", 14);
    assert_int_equal(notebook_limit(book, idx)->requests, 10);
    assert_int_equal(book->look_at[idx].us, 0);
}

static void the_longest_name_fits(void **context)
{
    static char name[STORE_NAME_BYTES_MAX + 1];
    (void)context;
    memset(name, 'n', STORE_NAME_BYTES_MAX);
    uint32_t idx = note(&ten, name);
    assert_int_equal(notebook_name(book, idx).len, STORE_NAME_BYTES_MAX);
}

static void what_is_put_back_is_taken_again(void **context)
{
    (void)context;
    uint32_t a = note(&ten, "a");
    uint32_t b = note(&ten, "b");
    assert_int_not_equal(a, b);
    book->look_at[a] = (struct instant){5};
    assert_true(notebook_is_taken(book, a));
    notebook_put(book, a);
    assert_false(notebook_is_taken(book, a));
    assert_true(notebook_is_taken(book, b));
    assert_int_equal(book->look_at[a].us, 0);
    assert_int_equal(note(&ten, "c"), a);
    assert_int_equal(book->n_used, 2);
}

static void a_full_book_takes_no_more(void **context)
{
    (void)context;
    for (uint32_t i = 0; i < NOTEBOOK_NOTES; i++) {
        assert_true(notebook_has_room(book));
        assert_in_range(note(&ten, "a"), 0, NOTEBOOK_NOTES - 1);
    }
    assert_int_equal(book->n_used, NOTEBOOK_NOTES);
    assert_false(notebook_has_room(book));
    assert_int_equal(note(&ten, "a"), NOTEBOOK_NONE);
    notebook_put(book, 17);
    assert_true(notebook_has_room(book));
    assert_int_equal(note(&ten, "a"), 17);
    assert_int_equal(note(&ten, "a"), NOTEBOOK_NONE);
}

static void fill(struct calendar *calendar, int64_t first_s)
{
    struct calendar_start starts[CALENDAR_STARTS];
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t number = first_s + i * 60;
        starts[i] = (struct calendar_start){number, number * US_PER_S};
    }
    calendar_fill(calendar, starts);
}

/* Rules go, and their calendars with them. */
static void what_a_calendar_says_can_be_kept(void **context)
{
    const int64_t first_s = MINUTE_START_US / US_PER_S;
    struct calendar *calendar = calloc(1, sizeof(*calendar));
    struct limit fixed_limit = fixed(10, MINUTE_US);
    struct instant last = {(first_s + (CALENDAR_STARTS - 2) * 60 + 59) * US_PER_S};
    int64_t end_us = 0;
    (void)context;
    assert_non_null(calendar);
    fill(calendar, first_s);
    calendar->is_even = true;
    fixed_limit.calendar = calendar;
    uint32_t a = note(&fixed_limit, "a");
    uint32_t gone = note(&fixed_limit, "b");
    uint32_t plain = note(&ten, "c");
    notebook_put(book, gone);
    notebook_keep(book);
    assert_null(notebook_limit(book, plain)->calendar);
    assert_ptr_equal(book->notes[gone].limit.calendar, calendar); /* not looked at */
    memset(calendar, 0xff, sizeof(*calendar));
    free(calendar);
    const struct calendar *kept = notebook_limit(book, a)->calendar;
    assert_true(calendar_is_even(kept));
    assert_int_equal(calendar_find(kept, (struct instant){MINUTE_START_US}, &end_us),
                     first_s);
    assert_int_equal(end_us, MINUTE_START_US + MINUTE_US);
    assert_int_equal(calendar_find(kept, last, &end_us),
                     first_s + (CALENDAR_STARTS - 2) * 60);
    notebook_keep(book); /* of what is kept nothing is copied */
    assert_int_equal(calendar_find(kept, last, &end_us),
                     first_s + (CALENDAR_STARTS - 2) * 60);
}

static void a_note_that_is_taken_anew_has_its_own_calendar(void **context)
{
    const int64_t first_s = MINUTE_START_US / US_PER_S;
    static struct calendar calendars[2];
    struct limit limits[2] = {fixed(10, MINUTE_US), fixed(10, MINUTE_US)};
    int64_t end_us = 0;
    (void)context;
    for (int i = 0; i < 2; i++) {
        fill(&calendars[i], first_s + i);
        limits[i].calendar = &calendars[i];
    }
    uint32_t idx = note(&limits[0], "a");
    notebook_keep(book);
    notebook_put(book, idx);
    assert_int_equal(note(&limits[1], "a"), idx);
    assert_ptr_equal(notebook_limit(book, idx)->calendar, &calendars[1]);
    notebook_keep(book);
    assert_int_equal(calendar_find(notebook_limit(book, idx)->calendar,
                                   (struct instant){MINUTE_START_US + US_PER_S},
                                   &end_us),
                     first_s + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(a_note_keeps_name_and_limit),
        X(the_longest_name_fits),
        X(what_is_put_back_is_taken_again),
        X(a_full_book_takes_no_more),
        X(what_a_calendar_says_can_be_kept),
        X(a_note_that_is_taken_anew_has_its_own_calendar),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
