#include "rules/time.h"

#include "tests/unit/rules/support.h"

/* From GNU date: date -u -d TEXT +%s */
static const struct {
    const char *text;
    int64_t at_s;
} good[] = {
    {"1970-01-01", 0},          {"1970-01-01T00:00:01Z", 1},
    {"1972-02-29", 68169600},   {"2000-02-29", 951782400},
    {"2000-03-01", 951868800},  {"2026-11-30T23:59:59Z", 1796083199},
    {"2027-01-31", 1801353600}, {"2027-01-31T12:30:00Z", 1801398600},
    {"2100-03-01", 4107542400}, {"9999-12-31T23:59:59Z", 253402300799},
};

static const char *const bad[] = {
    "",
    "2027",
    "2027-1-31",
    "2027-01-32",
    "2027-00-10",
    "2027-13-10",
    "2027-04-31",
    "2027-02-29",
    "2100-02-29",
    "1969-12-31",
    "2027/01/31",
    "2027-01-31 ",
    "2027-01-31T12:30Z",
    "2027-01-31T12:30:00",
    "2027-01-31T24:00:00Z",
    "2027-01-31T12:60:00Z",
    "2027-01-31T12:30:60Z",
    "2027-01-31t12:30:00Z",
    "2027-01-31T12:30:00z",
    "2027-01-31T12.30:00Z",
    "2027-01-31T12:30.00Z",
    "2027-01-31T-1:30:00Z",
    "+027-01-31",
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t at_s = -1;

        assert_true(rules_time_parse(bytes_of(good[i].text), &at_s));
        assert_int_equal(at_s, good[i].at_s);
    }
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t at_s = -7;

        assert_false(rules_time_parse(bytes_of(bad[i]), &at_s));
        assert_int_equal(at_s, -7);
    }
}

static void test_print(void **state)
{
    static const char *const texts[] = {"1970-01-01", "2027-01-31T12:30:05Z",
                                        "2000-02-29", "9999-12-31T23:59:59Z"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char got[RULES_TIME_TEXT_BYTES_MAX];
        int64_t at_s = -1;

        assert_true(rules_time_parse(bytes_of(texts[i]), &at_s));
        rules_time_print(at_s, got);
        assert_string_equal(got, texts[i]);
    }
}

/** Each day is 86400 seconds after the one before. */
static void test_every_day(void **state)
{
    int64_t expected_s = 0;

    (void)state;
    for (int year = 1970; year <= 2400; year++) {
        for (int month = 1; month <= 12; month++) {
            for (int day = 1; day <= 31; day++) {
                char text[40];
                int64_t at_s;

                (void)snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                if (rules_time_parse(bytes_of(text), &at_s)) {
                    assert_int_equal(at_s, expected_s);
                    expected_s += 86400;
                }
            }
        }
    }
    /* 431 years, of which 105 are leap years */
    assert_int_equal(expected_s, (INT64_C(431) * 365 + 105) * 86400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_every_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
