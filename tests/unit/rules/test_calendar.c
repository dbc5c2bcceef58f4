/* Windows of calendars against a table made by GNU date, and worked values. */
#include <stdio.h>

#include "rules/calendar.h"
#include "rules/units.h"

#include "tests/unit/rules/support.h"

static const struct rules_zone *zone_of(struct rules_arena *arena, const char *name)
{
    struct rules_zone *zone = NULL;

    if (rules_zone_load(bytes_of(name), arena, &zone) != RULES_ZONE_OK) {
        fail_msg("%s cannot be read", name);
    }
    return zone;
}

static void window_check(const struct rules_calendar *calendar, int64_t from_s,
                         int64_t to_s)
{
    const int64_t inside_s[] = {from_s, from_s + 1, from_s + (to_s - from_s) / 2,
                                to_s - 1};
    bool is_right = rules_calendar_next(calendar, from_s) == to_s
                    && rules_calendar_start(calendar, to_s) == to_s
                    && rules_calendar_start(calendar, from_s - 1) < from_s;

    for (size_t i = 0; i < sizeof inside_s / sizeof inside_s[0]; i++) {
        is_right = is_right && rules_calendar_start(calendar, inside_s[i]) == from_s;
    }
    if (!is_right) {
        fail_msg("%s %s from %lld to %lld", calendar->zone->name,
                 rules_unit_name(calendar->unit), (long long)from_s, (long long)to_s);
    }
}

static void windows_are_as_date_has_them(void **state)
{
    FILE *table = fopen("tests/golden/calendar/windows.txt", "r");
    char name[65];
    char unit[9];
    long long from_s;
    long long to_s;
    int n = 0;

    (void)state;
    assert_non_null(table);
    while (fscanf(table, "%64s %8s %lld %lld", name, unit, &from_s, &to_s) == 4) {
        struct rules_arena arena = {NULL};
        struct rules_calendar calendar = {.zone = zone_of(&arena, name)};

        assert_true(rules_unit_parse(bytes_of(unit), &calendar.unit));
        window_check(&calendar, from_s, to_s);
        rules_arena_fini(&arena);
        n++;
    }
    assert_int_equal(fclose(table), 0);
    assert_in_range(n, 300, 10000);
}

/* Wherever one begins: windows follow each other without a gap, none is empty or longer
 * than the calendar allows, and `start` finds each again. */
static void windows_follow_each_other(void **state)
{
    static const char *const names[] = {
        "UTC",           "Europe/Berlin",       "America/St_Johns",
        "Pacific/Apia",  "Australia/Lord_Howe", "Africa/Casablanca",
        "Asia/Kathmandu"};
    static const int64_t longest_s[] = {60, 3600, 90000 + 86400, 8 * 86400, 32 * 86400};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct rules_arena arena = {NULL};
        struct rules_calendar calendar = {.zone = zone_of(&arena, names[i])};

        for (int unit = RULES_MINUTE; unit <= RULES_MONTH; unit++) {
            calendar.unit = (enum rules_unit)unit;
            int64_t at_s = rules_calendar_start(&calendar, 1262304000); /* 2010 */

            for (int j = 0; j < 20000 && at_s < INT64_C(4102444800); j++) {
                int64_t next_s = rules_calendar_next(&calendar, at_s);

                assert_in_range(next_s - at_s, 1, longest_s[unit]);
                assert_int_equal(rules_calendar_start(&calendar, at_s), at_s);
                assert_int_equal(rules_calendar_start(&calendar, next_s - 1), at_s);
                at_s = next_s;
            }
        }
        rules_arena_fini(&arena);
    }
}

static void november_2019(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_calendar calendar = {.zone = zone_of(&arena, "UTC")};
    static const int64_t ends_s[] = {1573430460, 1573434000, 1573516800, 1574035200,
                                     1575158400};

    (void)state;
    for (int unit = RULES_MINUTE; unit <= RULES_MONTH; unit++) {
        calendar.unit = (enum rules_unit)unit;
        int64_t start_s = rules_calendar_start(&calendar, 1573430400);

        assert_int_equal(rules_calendar_next(&calendar, start_s), ends_s[unit]);
    }
    rules_arena_fini(&arena);
}

/* 31 January, noon: 12 h are left of the month. */
static void last_day_of_a_month(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_calendar calendar = {RULES_MONTH, zone_of(&arena, "UTC")};
    int64_t start_s = rules_calendar_start(&calendar, 1769860800); /* 2026 */

    (void)state;
    assert_int_equal(rules_calendar_next(&calendar, start_s) - 1769860800, 43200);
    rules_arena_fini(&arena);
}

static void weeks_begin_on_monday(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_calendar calendar = {RULES_WEEK, zone_of(&arena, "UTC")};

    (void)state; /* 2026-11-30 is a Monday */
    assert_int_equal(rules_calendar_start(&calendar, 1795996800), 1795996800);
    assert_int_equal(rules_calendar_start(&calendar, 1795996799), 1795392000);
    rules_arena_fini(&arena);
}

/* Clocks are set back by an hour at 3:00: both hours from 2:00 have a window. On Lord
 * Howe they are set back by half an hour at 2:00, and half an hour is a window. */
static void hours_around_a_change_of_clocks(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_calendar berlin = {RULES_HOUR, zone_of(&arena, "Europe/Berlin")};
    struct rules_calendar howe = {RULES_HOUR, zone_of(&arena, "Australia/Lord_Howe")};

    (void)state;
    window_check(&berlin, 1729987200, 1729990800); /* 2024-10-27 02:00 CEST */
    window_check(&berlin, 1729990800, 1729994400);
    window_check(&howe, 1712412000, 1712415600); /* 2024-04-07 01:00 +11 */
    window_check(&howe, 1712415600, 1712417400); /* 01:30 +10:30 */
    window_check(&howe, 1712417400, 1712421000);
    rules_arena_fini(&arena);
}

static void names_as_in_the_name_of_a_counter(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_calendar calendar = {RULES_DAY, zone_of(&arena, "Europe/Berlin")};
    char text[RULES_CALENDAR_TEXT_BYTES_MAX];

    (void)state;
    rules_calendar_print(&calendar, text);
    assert_string_equal(text, "day.Europe%2FBerlin");
    calendar = (struct rules_calendar){RULES_MONTH, zone_of(&arena, "Etc/GMT+5")};
    rules_calendar_print(&calendar, text);
    assert_string_equal(text, "month.Etc%2FGMT%2B5");
    rules_arena_fini(&arena);
}

static void even_are_those_that_nothing_changes(void **state)
{
    struct rules_arena arena = {NULL};
    const struct rules_zone *utc = zone_of(&arena, "UTC");
    const struct rules_zone *berlin = zone_of(&arena, "Europe/Berlin");

    (void)state;
    for (int unit = RULES_MINUTE; unit <= RULES_MONTH; unit++) {
        struct rules_calendar calendar = {(enum rules_unit)unit, utc};

        assert_int_equal(rules_calendar_is_even(&calendar), unit != RULES_MONTH);
        calendar.zone = berlin;
        assert_int_equal(rules_calendar_is_even(&calendar), unit == RULES_MINUTE);
    }
    rules_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_as_date_has_them),
        cmocka_unit_test(windows_follow_each_other),
        cmocka_unit_test(november_2019),
        cmocka_unit_test(last_day_of_a_month),
        cmocka_unit_test(weeks_begin_on_monday),
        cmocka_unit_test(hours_around_a_change_of_clocks),
        cmocka_unit_test(names_as_in_the_name_of_a_counter),
        cmocka_unit_test(even_are_those_that_nothing_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
