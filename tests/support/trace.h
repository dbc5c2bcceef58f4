/**
 * @file tests/support/trace.h  Random traces over a store, each answer compared with that of a
 *       local store.
 *
 * Model:     takes, peeks and settlements, on counters whose numbers change in between, by
 *            clocks that differ, are stepped back and leap. The store under test is told
 *            the time of its counters, so answers are the same to the microsecond: verdict,
 *            remaining, reset, retry, delay, the window's end and the place. Keys are
 *            overwritten as soon as store_take returns.
 *
 *            Of a request that is refused in one place, what was charged in another is
 *            given back: there the verdict and what remains are compared, and all of it
 *            with the next step.
 * Ownership: a target is the caller's.
 * Threads:   one.
 * Errors:    fail the test, with the step and both answers. Where a server of a busy machine
 *            does not answer for a second, what it has charged is not known: the trace is
 *            given up, and another begun, at most TRACE_GIVEN_UP_MAX times.
 * Limits:    TRACE_DEPTH_MAX steps under way.
 */
#ifndef TESTS_SUPPORT_TRACE_H
#define TESTS_SUPPORT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/store.h"

enum {
    TRACE_DEPTH_MAX = 50,
    TRACE_GIVEN_UP_MAX = 5,
};

/** For takes of which nothing is to be late. */
#define TRACE_DEADLINE_US (60 * US_PER_S)

/** The store under test. */
struct trace_target {
    struct store *store;
    const struct store_home *home; /* of its charges; NULL: they have none */
    unsigned depth;   /* steps that may be under way: it carries them out in order */
    bool has_groups;  /* but for takes that want the same of one counter */
    unsigned n_steps; /* of each law, where STEPS in the environment does not say */
    /* Of what is begun from now on its counters' clock says this. */
    void (*set_clock)(struct trace_target *target, struct instant now);
    /* Until nothing is under way. @return whether all came to pass */
    bool (*wait)(struct trace_target *target);
    /* ... where not: until it answers again; NULL: it always does. */
    void (*revive)(struct trace_target *target);
    /* Whether an answer that differs is good all the same; NULL: none is. */
    bool (*tolerates)(const struct store_take *want, const struct store_take *got,
                      unsigned charge);
};

/** The laws, as tests whose state is the target. Each prints its seed and what it saw. */
void trace_sliding_windows(void **target); /* of one counter, as the next */
void trace_token_buckets(void **target);
void trace_fixed_windows(void **target);
void trace_calendars(void **target);
void trace_leaky_buckets(void **target);
void trace_sliding_logs(void **target);
void trace_several(void **target); /* charges in one slot, lenient and tied ones too */
void trace_spread(void **target);  /* in several slots, and on this host; depth is 1 */

#define TRACE_TEST(name, target) cmocka_unit_test_prestate(name, target)
#define TRACE_TESTS(target)                                                           \
    TRACE_TEST(trace_sliding_windows, target),                                        \
        TRACE_TEST(trace_token_buckets, target),                                      \
        TRACE_TEST(trace_fixed_windows, target), TRACE_TEST(trace_calendars, target), \
        TRACE_TEST(trace_leaky_buckets, target),                                      \
        TRACE_TEST(trace_sliding_logs, target), TRACE_TEST(trace_several, target)

#endif
