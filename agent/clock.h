/**
 * @file agent/clock.h  Points and lengths of time, and the only reader of the clock.
 *
 * Model:     the agent's clock is CLOCK_MONOTONIC plus an offset fixed at start, so it
 *            reads as wall time and a step of the wall clock changes nothing. Everything
 *            else in the agent is handed `now`.
 * Ownership: none.
 * Threads:   clock_start once, before any thread; then any thread.
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
