/**
 * @file agent/store/head_count.h  How many agents to go by, from how many are heard of.
 *
 * Model:     a rise counts at once. A fall counts when fewer were heard of for all of
 *            HEAD_COUNT_FALL_US, and then to the most of these: an agent that is late once,
 *            or a Redis that came back empty, makes nobody's share larger. Where nothing was
 *            heard for HEAD_COUNT_GAP_US that time begins anew.
 * Ownership: the caller's memory.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef AGENT_STORE_HEAD_COUNT_H
#define AGENT_STORE_HEAD_COUNT_H

#include <stdbool.h>

#include "agent/clock.h"

#define HEAD_COUNT_FALL_US (5 * US_PER_S)
#define HEAD_COUNT_GAP_US  (2500 * US_PER_MS)

struct head_count {
    unsigned n; /* to go by: set by the caller at first */
    bool is_falling;
    unsigned n_most; /* heard of while it falls */
    struct instant falls_since;
    struct instant heard_at;
};

/** Hear of `n_heard`, who does not have to be one of them. @return how many to go by */
unsigned head_count_hear(struct head_count *count, unsigned n_heard,
                         struct instant now);

#endif
