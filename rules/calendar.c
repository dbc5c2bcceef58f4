#include "rules/calendar.h"

#include <stdio.h>
#include <string.h>

#include "rules/civil.h"
#include "rules/units.h"

int64_t rules_unit_us(enum rules_unit unit)
{
    static const int64_t lengths_s[] = {
        [RULES_MINUTE] = 60,
        [RULES_HOUR] = 3600,
        [RULES_DAY] = RULES_DAY_S,
        [RULES_WEEK] = 7 * RULES_DAY_S,
        [RULES_MONTH] = 31 * RULES_DAY_S,
    };

    return lengths_s[unit] * 1000000;
}

static bool is_of_clock(enum rules_unit unit)
{
    return unit == RULES_MINUTE || unit == RULES_HOUR;
}

bool rules_calendar_is_even(const struct rules_calendar *calendar)
{
    return calendar->unit == RULES_MINUTE
           || (calendar->unit != RULES_MONTH && calendar->zone->n_changes == 1);
}

/** The day on which the window began that a day is in. */
static int64_t day_begin(enum rules_unit unit, int64_t day)
{
    struct rules_date date;

    if (unit == RULES_WEEK) {
        return day - (rules_weekday_of_days(day) + 6) % 7;
    }
    if (unit == RULES_MONTH) {
        date = rules_date_of_days(day);
        date.day = 1;
        return rules_date_to_days(date);
    }
    return day;
}

/** The day on which the next one begins. */
static int64_t day_next(enum rules_unit unit, int64_t begin)
{
    struct rules_date date;

    if (unit == RULES_WEEK) {
        return begin + 7;
    }
    if (unit == RULES_MONTH) {
        date = rules_date_of_days(begin);
        return rules_date_to_days(
            date.month == 12 ? (struct rules_date){date.year + 1, 1, 1}
                             : (struct rules_date){date.year, date.month + 1, 1});
    }
    return begin + 1;
}

static int64_t day_first_s(const struct rules_calendar *calendar, int64_t day)
{
    return rules_zone_first_s(calendar->zone, day * RULES_DAY_S);
}

static int64_t day_of(const struct rules_calendar *calendar, int64_t at_s)
{
    return rules_days_of_s(at_s + rules_zone_at(calendar->zone, at_s)->offset_s);
}

/** Seconds since the clocks showed a full minute, or hour. */
static int64_t since_full_s(const struct rules_calendar *calendar, int64_t at_s)
{
    int64_t unit_s = rules_unit_us(calendar->unit) / 1000000;
    int64_t local_s = at_s + rules_zone_at(calendar->zone, at_s)->offset_s;

    return (local_s % unit_s + unit_s) % unit_s;
}

int64_t rules_calendar_start(const struct rules_calendar *calendar, int64_t at_s)
{
    int64_t changed_s = rules_zone_at(calendar->zone, at_s)->at_s;
    int64_t begin;
    int64_t next;

    if (is_of_clock(calendar->unit)) {
        int64_t start_s = at_s - since_full_s(calendar, at_s);

        return start_s > changed_s ? start_s : changed_s;
    }
    begin = day_begin(calendar->unit, day_of(calendar, at_s));
    /* Clocks that are set back over midnight show the old date again. */
    for (;;) {
        next = day_next(calendar->unit, begin);
        if (day_first_s(calendar, next) > at_s) {
            return day_first_s(calendar, begin);
        }
        begin = next;
    }
}

int64_t rules_calendar_next(const struct rules_calendar *calendar, int64_t start_s)
{
    const struct rules_zone *zone = calendar->zone;
    const struct rules_zone_change *change = rules_zone_at(zone, start_s);
    int64_t begin;

    if (is_of_clock(calendar->unit)) {
        int64_t next_s = start_s + rules_unit_us(calendar->unit) / 1000000
                         - since_full_s(calendar, start_s);
        bool is_last = change == &zone->changes[zone->n_changes - 1];

        return is_last || next_s < change[1].at_s ? next_s : change[1].at_s;
    }
    begin = day_begin(calendar->unit, day_of(calendar, start_s));
    /* A date that clocks leave out has no window. */
    do {
        begin = day_next(calendar->unit, begin);
    } while (day_first_s(calendar, begin) <= start_s);
    return day_first_s(calendar, begin);
}

void rules_calendar_print(const struct rules_calendar *calendar,
                          char out[RULES_CALENDAR_TEXT_BYTES_MAX])
{
    static const char hex[] = "0123456789ABCDEF";
    char *to = out;

    to += snprintf(out, RULES_CALENDAR_TEXT_BYTES_MAX, "%s.",
                   rules_unit_name(calendar->unit));
    for (const char *it = calendar->zone->name; *it != '\0'; it++) {
        if (*it == '/' || *it == '+') {
            *to++ = '%';
            *to++ = hex[(unsigned char)*it >> 4];
            *to++ = hex[(unsigned char)*it & 15];
        } else {
            *to++ = *it;
        }
    }
    *to = '\0';
}
