/* Offsets of every zone of the system against libc's; files made by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rules/civil.h"
#include "rules/zone.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    MOMENTS = 300, /* of each zone */
    FILE_BYTES_MAX = 512,
};

static void dates_go_to_days_and_back(void **state)
{
    static const struct {
        struct rules_date date;
        int64_t days;
    } cases[] = {
        {{1970, 1, 1}, 0},       {{1969, 12, 31}, -1},    {{1970, 3, 1}, 59},
        {{2000, 2, 29}, 11016},  {{2000, 3, 1}, 11017},   {{2024, 2, 29}, 19782},
        {{2024, 12, 31}, 20088}, {{2026, 11, 30}, 20787}, {{2100, 2, 28}, 47540},
        {{2100, 3, 1}, 47541},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rules_date date = rules_date_of_days(cases[i].days);

        assert_int_equal(rules_date_to_days(cases[i].date), cases[i].days);
        assert_memory_equal(&date, &cases[i].date, sizeof date);
    }
    for (int64_t days = -2; days < 60000; days++) {
        assert_int_equal(rules_date_to_days(rules_date_of_days(days)), days);
    }
    assert_int_equal(rules_weekday_of_days(0), 4);
    assert_int_equal(rules_weekday_of_days(-4), 0);
    assert_int_equal(rules_days_of_s(-1), -1);
    assert_int_equal(rules_days_of_s(-86400), -1);
    assert_int_equal(rules_days_of_s(86399), 0);
}

static void compare_with_libc(const char *name, struct prng *prng)
{
    struct rules_arena arena = {NULL};
    struct rules_zone *zone = NULL;

    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
    if (rules_zone_load(bytes_of(name), &arena, &zone) != RULES_ZONE_OK) {
        fail_msg("%s cannot be read", name);
    }
    for (int i = 0; i < MOMENTS; i++) {
        time_t at = (time_t)prng_below(prng, INT64_C(4260000000)); /* to 2104 */
        struct tm local;

        if (i % 2 == 0) { /* on one side or the other of a change */
            const struct rules_zone_change *change = rules_zone_at(zone, at);

            at = change->at_s > 0 ? change->at_s - i / 2 % 2 : at;
        }
        assert_non_null(localtime_r(&at, &local));
        if (rules_zone_at(zone, at)->offset_s != local.tm_gmtoff) {
            fail_msg("%s at %lld: %ld by libc", name, (long long)at, local.tm_gmtoff);
        }
    }
    rules_arena_fini(&arena);
}

static void every_zone_is_as_libc_has_it(void **state)
{
    uint64_t seed = prng_seed(20261130);
    struct prng prng;
    char line[256];
    int n = 0;
    FILE *table = fopen("/usr/share/zoneinfo/tzdata.zi", "r");

    (void)state;
    if (table == NULL) {
        skip();
    }
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&prng, seed);
    while (fgets(line, sizeof line, table) != NULL) {
        char name[128];

        if (sscanf(line, "Z %127s", name) == 1) {
            compare_with_libc(name, &prng);
            n++;
        }
    }
    assert_int_equal(fclose(table), 0);
    assert_in_range(n, 200, 1000);
}

static void utc_needs_no_file(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_zone *zone = NULL;

    (void)state;
    assert_int_equal(rules_zone_load(bytes_of("UTC"), &arena, &zone), RULES_ZONE_OK);
    assert_int_equal(zone->n_changes, 1);
    assert_int_equal(rules_zone_at(zone, 0)->offset_s, 0);
    assert_int_equal(rules_zone_first_s(zone, 86400), 86400);
    rules_arena_fini(&arena);
}

static void what_is_no_zone_is_unknown(void **state)
{
    static const char *const names[] = {"",
                                        "Mars/Base",
                                        "/etc/passwd",
                                        "../../../etc/passwd",
                                        "Europe//Berlin",
                                        "Europe/",
                                        "Europe",
                                        ".",
                                        "a b",
                                        "Europe/Berlin/x"};
    char longer[RULES_ZONE_NAME_BYTES_MAX + 2];

    (void)state;
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    for (size_t i = 0; i <= sizeof names / sizeof names[0]; i++) {
        const char *name = i < sizeof names / sizeof names[0] ? names[i] : longer;
        struct rules_arena arena = {NULL};
        struct rules_zone *zone = NULL;

        assert_int_equal(rules_zone_load(bytes_of(name), &arena, &zone),
                         RULES_ZONE_UNKNOWN);
        assert_null(arena.chunks); /* thousands of them take no memory */
    }
}

static size_t put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
    return 4;
}

/* A header and data of one type, +1 h, and a change to another, +2 h, where there is one. */
static size_t put_block(uint8_t *at, uint32_t n_times, size_t time_bytes, uint32_t at_s)
{
    size_t n = 20;

    memset(at, 0, 44);
    memcpy(at, "TZif2", 5);
    n += put_u32(at + n, 0);
    n += put_u32(at + n, 0);
    n += put_u32(at + n, 0);
    n += put_u32(at + n, n_times);
    n += put_u32(at + n, 2);
    n += put_u32(at + n, 4);
    for (uint32_t i = 0; i < n_times; i++) {
        n += time_bytes == 8 ? put_u32(at + n, 0) : 0;
        n += put_u32(at + n, at_s + i);
    }
    for (uint32_t i = 0; i < n_times; i++) {
        at[n++] = (uint8_t)(1 - i % 2);
    }
    for (uint32_t type = 0; type < 2; type++) {
        n += put_u32(at + n, 3600 * (type + 1));
        at[n++] = (uint8_t)type;
        at[n++] = 0;
    }
    memcpy(at + n, "ABC", 4);
    return n + 4;
}

static size_t put_file(uint8_t *file, uint32_t n_times, uint32_t at_s,
                       const char *footer)
{
    size_t n = put_block(file, 0, 4, 0);

    n += put_block(file + n, n_times, 8, at_s);
    file[n++] = '\n';
    memcpy(file + n, footer, strlen(footer));
    n += strlen(footer);
    file[n++] = '\n';
    return n;
}

static enum rules_zone_status parse(const uint8_t *file, size_t len,
                                    struct rules_arena *arena, struct rules_zone **zone)
{
    /* of its own size, so that reading beyond it is seen */
    uint8_t *copy = malloc(len > 0 ? len : 1);
    enum rules_zone_status status;

    assert_non_null(copy);
    memcpy(copy, file, len);
    status = rules_zone_parse(bytes_of("Test"), (struct rules_bytes){copy, len}, arena,
                              zone);
    free(copy);
    return status;
}

/* The rule at the end of a file that lists no change, as new ones are made. */
static void rules_at_the_end_go_on(void **state)
{
    static const struct {
        const char *footer;
        int64_t at_s; /* the first second of an offset */
        int64_t before_s;
        int64_t after_s;
    } cases[] = {
        /* as `TZ=… date -d` has them */
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1774746000, 3600, 7200},  /* 2026-03-29 02:00 */
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1792890000, 7200, 3600},  /* 2026-10-25 03:00 */
        {"EST5EDT,M3.2.0,M11.1.0", 1772953200, -18000, -14400},  /* 2026-03-08 */
        {"EST5EDT,M3.2.0,M11.1.0", 1793512800, -14400, -18000},  /* 2026-11-01 */
        {"IST-2IDT,M3.4.4/26,M10.5.0", 1774569600, 7200, 10800}, /* 2026-03-27 02:00 */
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 1774746000, -7200, -3600},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1775314800, 39600, 37800},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1791041400, 37800, 39600},
        {"AAA0BBB,J60/0,J300/0", 1772323200, 0, 3600}, /* 2026-03-01 */
        {"AAA0BBB,J60/0,J300/0", 1835481600, 0, 3600}, /* 2028-03-01 */
        {"AAA0BBB,59/0,300/0", 1835395200, 0, 3600},   /* 2028-02-29 */
        {"<+0530>-5:30:30", 0, 19830, 19830},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t file[FILE_BYTES_MAX];
        size_t len = put_file(file, 0, 0, cases[i].footer);
        struct rules_arena arena = {NULL};
        struct rules_zone *zone = NULL;

        assert_int_equal(parse(file, len, &arena, &zone), RULES_ZONE_OK);
        if (rules_zone_at(zone, cases[i].at_s - 1)->offset_s != cases[i].before_s
            || rules_zone_at(zone, cases[i].at_s)->offset_s != cases[i].after_s) {
            fail_msg("%s at %lld", cases[i].footer, (long long)cases[i].at_s);
        }
        rules_arena_fini(&arena);
    }
}

/* Permanent summer is written as a summer from one new year to the next. */
static void summer_all_the_year(void **state)
{
    uint8_t file[FILE_BYTES_MAX];
    size_t len = put_file(file, 0, 0, "EST5EDT,0/0,J365/25");
    struct rules_arena arena = {NULL};
    struct rules_zone *zone = NULL;

    (void)state;
    assert_int_equal(parse(file, len, &arena, &zone), RULES_ZONE_OK);
    for (int64_t day = 365; day < 365 * 100; day++) {
        assert_int_equal(rules_zone_at(zone, day * 86400)->offset_s, -14400);
    }
    rules_arena_fini(&arena);
}

static void listed_changes_come_before_the_rule(void **state)
{
    uint8_t file[FILE_BYTES_MAX];
    size_t len = put_file(file, 1, 1774746000, "CET-1CEST,M3.5.0,M10.5.0/3");
    struct rules_arena arena = {NULL};
    struct rules_zone *zone = NULL;

    (void)state;
    assert_int_equal(parse(file, len, &arena, &zone), RULES_ZONE_OK);
    assert_int_equal(rules_zone_at(zone, 0)->offset_s, 3600);
    assert_int_equal(rules_zone_at(zone, 1774745999)->offset_s, 3600);
    assert_int_equal(rules_zone_at(zone, 1774746000)->offset_s, 7200);
    assert_int_equal(rules_zone_at(zone, 1792890000)->offset_s, 3600);
    rules_arena_fini(&arena);
}

static void damaged_files_are_refused(void **state)
{
    static const char *const footers[] = {
        "",
        "1",
        "CET",
        "CET-1CEST,M3.5.0",
        "CET-25x",
        "<CET-1",
        "CET-27",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1:60",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0,",
    };
    uint8_t file[FILE_BYTES_MAX];
    struct rules_arena arena = {NULL};
    struct rules_zone *zone = NULL;
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof footers / sizeof footers[0]; i++) {
        len = put_file(file, 1, 5, footers[i]);
        if (parse(file, len, &arena, &zone) != RULES_ZONE_DAMAGED) {
            fail_msg("'%s' is taken", footers[i]);
        }
    }
    len = put_file(file, 1, 5, "CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(parse(file, cut, &arena, &zone), RULES_ZONE_DAMAGED);
    }
    for (size_t i = 0; i < len; i++) { /* no more than: nothing bad happens */
        for (int bit = 0; bit < 8; bit++) {
            file[i] ^= (uint8_t)(1U << bit);
            (void)parse(file, len, &arena, &zone);
            file[i] ^= (uint8_t)(1U << bit);
        }
    }
    assert_int_equal(parse(file, len, &arena, &zone), RULES_ZONE_OK);
    rules_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_go_to_days_and_back),
        cmocka_unit_test(every_zone_is_as_libc_has_it),
        cmocka_unit_test(utc_needs_no_file),
        cmocka_unit_test(what_is_no_zone_is_unknown),
        cmocka_unit_test(rules_at_the_end_go_on),
        cmocka_unit_test(summer_all_the_year),
        cmocka_unit_test(listed_changes_come_before_the_rule),
        cmocka_unit_test(damaged_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
