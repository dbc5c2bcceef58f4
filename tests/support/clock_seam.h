/**
 * @file tests/support/clock_seam.h  A seam before a seam, on a clock that a test sets.
 *
 * Model:     now is what the test says, from when on it stands still, or goes on as real
 *            time does; it goes with each call as a second argument, for
 *            scripts on the clock of tests (clock.lua). Deadlines and timers are moved to
 *            the clock of the seam behind it: as far off there as they are here.
 * Ownership: clock_seam_init; the seam behind is borrowed.
 * Threads:   those of the seam behind.
 * Errors:    those of the seam behind.
 * Limits:    CLOCK_SEAM_CALLS_MAX calls under way.
 */
#ifndef TESTS_SUPPORT_CLOCK_SEAM_H
#define TESTS_SUPPORT_CLOCK_SEAM_H

#include "agent/store/seam.h"

enum {
    CLOCK_SEAM_CALLS_MAX = 8192
};

/** The arguments of one call. */
struct clock_seam_args {
    struct seam_bytes args[2];
    char now[24];
};

struct clock_seam {
    struct seam seam;
    struct seam *behind;
    struct instant now;    /* as the test said */
    struct instant set_at; /* by the clock behind */
    bool is_running;
    unsigned n_calls;                                  /* ever */
    struct clock_seam_args args[CLOCK_SEAM_CALLS_MAX]; /* one after the other, again */
};

void clock_seam_init(struct clock_seam *clock, struct seam *behind, struct instant now);

void clock_seam_set(struct clock_seam *clock, struct instant now);

#endif
