/**
 * @file rules/calendar.h  Windows that follow the calendar of a time zone.
 *
 * Model:     a day begins when its date first shows on the clocks of the zone (so a day
 *            without a midnight begins later, and one with two at the first); weeks begin
 *            on Monday, months on the 1st. Minutes and hours begin where the clocks show
 *            a full one, and where they are changed.
 * Ownership: part of a rule set.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef RULES_CALENDAR_H
#define RULES_CALENDAR_H

#include "rules/zone.h"

struct rules_calendar {
    enum rules_unit unit;
    const struct rules_zone *zone;
};

enum {
    RULES_CALENDAR_TEXT_BYTES_MAX = 8 + 3 * RULES_ZONE_NAME_BYTES_MAX
};

/** @return when the window began that a time, in seconds since the epoch, is in */
int64_t rules_calendar_start(const struct rules_calendar *calendar, int64_t at_s);

/** @return when the window begins that comes after one that began at `start_s` */
int64_t rules_calendar_next(const struct rules_calendar *calendar, int64_t start_s);

/** @return whether all windows are as long as rules_unit_us says */
bool rules_calendar_is_even(const struct rules_calendar *calendar);

/** @return how long a window is that nothing changes; of a month, the longest */
int64_t rules_unit_us(enum rules_unit unit);

/** Write a calendar as it stands in the name of a counter: day.Europe%2FBerlin */
void rules_calendar_print(const struct rules_calendar *calendar,
                          char out[RULES_CALENDAR_TEXT_BYTES_MAX]);

#endif
