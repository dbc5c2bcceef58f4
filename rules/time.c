#include "rules/time.h"

#include <stdio.h>

#include "rules/civil.h"

enum {
    DATE_LEN = 10, /* 2027-01-31 */
    TIME_LEN = 20, /* 2027-01-31T12:30:00Z */
    YEAR_MIN = 1970,
};

/** Digits at a place of the text, as the pattern says. @return -1 for other characters */
static int number_read(const uint8_t *text, size_t n)
{
    int value = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

static bool date_read(const uint8_t *text, int64_t *days)
{
    int year = number_read(text, 4);
    int month = number_read(text + 5, 2);
    int day = number_read(text + 8, 2);

    if (text[4] != '-' || text[7] != '-' || year < YEAR_MIN || month < 1 || month > 12
        || day < 1 || day > month_days(year, month)) {
        return false;
    }
    *days = rules_date_to_days((struct rules_date){year, month, day});
    return true;
}

static bool clock_read(const uint8_t *text, int64_t *seconds)
{
    int hour = number_read(text + 1, 2);
    int minute = number_read(text + 4, 2);
    int second = number_read(text + 7, 2);

    if (text[0] != 'T' || text[3] != ':' || text[6] != ':' || text[9] != 'Z' || hour < 0
        || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
        return false;
    }
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

bool rules_time_parse(struct rules_bytes text, int64_t *at_s)
{
    int64_t seconds = 0;
    int64_t days;

    if ((text.len != DATE_LEN && text.len != TIME_LEN) || !date_read(text.ptr, &days)
        || (text.len == TIME_LEN && !clock_read(text.ptr + DATE_LEN, &seconds))) {
        return false;
    }
    *at_s = days * RULES_DAY_S + seconds;
    return true;
}

void rules_time_print(int64_t at_s, char out[RULES_TIME_TEXT_BYTES_MAX])
{
    struct rules_date date = rules_date_of_days(at_s / RULES_DAY_S);
    int second = (int)(at_s % RULES_DAY_S);
    int n = snprintf(out, RULES_TIME_TEXT_BYTES_MAX, "%04d-%02d-%02d", (int)date.year,
                     (int)date.month, (int)date.day);

    if (second > 0 && n > 0) {
        (void)snprintf(out + n, RULES_TIME_TEXT_BYTES_MAX - (size_t)n,
                       "T%02d:%02d:%02dZ", second / 3600, second / 60 % 60,
                       second % 60);
    }
}
