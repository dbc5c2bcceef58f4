/**
 * @file agent/clock.h  Points and lengths of time, and the only reader of the clock.
 *
 * Model:     the agent's clock is CLOCK_MONOTONIC plus an offset fixed at start, so it
 *            reads as wall time and a step of the wall clock changes nothing. Everything
 *            else in the agent is handed `now`.
 *
 *            Counters hold times of this clock, in units that only their limits know. So
 *            an agent that takes over another's counters takes over its clock as well,
 *            and no counter needs translating: after a restart the clock goes on from
 *            where it stood, by what the wall clock says has passed meanwhile (it may be
 *            another boot, where the monotonic clock began anew); beside a running
 *            predecessor on the same host it has the same offset. The price: an agent
 *            first started by a wrong wall clock keeps the difference.
 * Ownership: none.
 * Threads:   clock_start, clock_continue, clock_start_at: before any thread; the rest:
 *            any thread.
 * Errors:    none.
 */
#ifndef AGENT_CLOCK_H
#define AGENT_CLOCK_H

#include <stdint.h>

#include "agent/base.h"

/** A point in time: microseconds since the Unix epoch on the agent's clock. */
struct instant {
    int64_t us;
};

#define US_PER_MS INT64_C(1000)
#define US_PER_S  INT64_C(1000000)

/** Fix the offset between the monotonic and the wall clock. */
void clock_start(void);

/**
 * Go on after a restart: now is `then` and what has passed since on the wall clock, which
 * showed `wall_then_us`; nothing when that was stepped back.
 */
void clock_continue(struct instant then, int64_t wall_then_us);

/** Run with the offset of another process of this host (its clock_offset_us). */
void clock_start_at(int64_t offset_us);

int64_t clock_offset_us(void);

/** The wall clock, in microseconds since the Unix epoch: to be written down only. */
int64_t clock_wall_us(void);

struct instant clock_now(void);

/** `at` moved by `us` microseconds. */
static inline struct instant instant_add_us(struct instant at, int64_t us)
{
    return (struct instant){.us = at.us + us};
}

/** A wait as people are told it: whole seconds, rounded up. */
static inline int64_t us_to_s_up(int64_t us)
{
    return div_up(us, US_PER_S);
}

/** Microseconds from `from` to `to`; negative when `to` is earlier. */
static inline int64_t instant_diff_us(struct instant to, struct instant from)
{
    return to.us - from.us;
}

#endif
