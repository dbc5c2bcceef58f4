/**
 * @file agent/limit/calendar.h  Where windows that follow the calendar begin.
 *
 * Model:     a table of upcoming starts on the agent's clock, each with its number: the
 *            start by the wall clock, in seconds, so that a wall clock that is stepped
 *            moves the starts but makes no new windows of old ones. Two tables: readers use
 *            the one that the turn points to; the other is filled, then the turn taken.
 * Ownership: of fixed size; belongs to the rule set.
 * Threads:   calendar_fill: one thread. calendar_find: any, takes no lock; it looks again
 *            when a turn was taken meanwhile.
 * Errors:    none. Beyond the last start that is known, the last window goes on, and is
 *            said to end in a second.
 * Limits:    CALENDAR_STARTS starts: an hour ahead for minutes, days for the others.
 */
#ifndef AGENT_LIMIT_CALENDAR_H
#define AGENT_LIMIT_CALENDAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/clock.h"

enum {
    CALENDAR_STARTS = 64,
    CALENDAR_UPCOMING = 3, /* the current window's start and the next two */
};

struct calendar_start {
    int64_t number; /* by the wall clock, in seconds since the epoch */
    int64_t us;     /* on the agent's clock */
};

struct calendar {
    bool is_even; /* all windows are of one length */
    _Atomic unsigned turn;
    struct {
        _Atomic int64_t number;
        _Atomic int64_t us;
    } tables[2][CALENDAR_STARTS];
};

/** Say where windows begin from now on: CALENDAR_STARTS rising starts, the first at or
 * before now. */
void calendar_fill(struct calendar *calendar, const struct calendar_start *starts);

/** Let another one, which nobody reads yet, say what this one says now. */
void calendar_copy(struct calendar *to, const struct calendar *from);

/**
 * Find the window that `now` is in; before the first start, the first one.
 *
 * @param end_us  where the next one begins, after `now`
 * @return its number
 */
int64_t calendar_find(const struct calendar *calendar, struct instant now,
                      int64_t *end_us);

/**
 * Say when the window of `now` begins and the next two do, in seconds of the wall clock:
 * for who has another clock, which may be past the turn. Near the end of what is known the
 * last three, rising.
 */
void calendar_upcoming(const struct calendar *calendar, struct instant now,
                       int64_t numbers[CALENDAR_UPCOMING]);

/**
 * Find the moment of the agent's clock at which the wall clock shows what another one, a
 * Redis server's, shows now: within the window of now and the next one, since whoever goes
 * by calendar_upcoming knows no others.
 */
struct instant calendar_of_wall(const struct calendar *calendar, struct instant now,
                                struct instant wall);

static inline bool calendar_is_even(const struct calendar *calendar)
{
    return calendar->is_even;
}

#endif
