/**
 * @file rules/civil.h  Dates of the Gregorian calendar as days since 1970-01-01.
 */
#ifndef RULES_CIVIL_H
#define RULES_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#define RULES_DAY_S INT64_C(86400)

struct rules_date {
    int64_t year;
    int64_t month; /* 1 to 12 */
    int64_t day;   /* 1 to 31 */
};

/** Days to a date of the year 1970 or later, or of the few years before. */
static inline int64_t rules_date_to_days(struct rules_date date)
{
    /* Years begin in March here: the leap day is a year's last. */
    int64_t year = date.month > 2 ? date.year : date.year - 1;
    int64_t month = date.month > 2 ? date.month - 3 : date.month + 9;

    return year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5
           + date.day - 1 - 719468;
}

/** The reverse. */
static inline struct rules_date rules_date_of_days(int64_t days)
{
    /* 400 years are 146097 days: this is the year, or not long before it */
    int64_t year = 1969 + days * 400 / 146097;
    int64_t month = 1;

    while (rules_date_to_days((struct rules_date){year + 1, 1, 1}) <= days) {
        year++;
    }
    while (month < 12
           && rules_date_to_days((struct rules_date){year, month + 1, 1}) <= days) {
        month++;
    }
    return (struct rules_date){
        year, month,
        days - rules_date_to_days((struct rules_date){year, month, 1}) + 1};
}

/** 0 is Sunday. */
static inline int64_t rules_weekday_of_days(int64_t days)
{
    return ((days + 4) % 7 + 7) % 7;
}

/** The whole days in a time, also one before 1970. */
static inline int64_t rules_days_of_s(int64_t s)
{
    return s >= 0 ? s / RULES_DAY_S : -((RULES_DAY_S - 1 - s) / RULES_DAY_S);
}

#endif
