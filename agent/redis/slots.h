/**
 * @file agent/redis/slots.h  How a Redis Cluster files keys, and where.
 *
 * Model:     a key is of the slot that a checksum gives: of what stands between its first
 *            { and the next }, where that is not empty, else of all of it. CLUSTER SLOTS
 *            says which node has which slots.
 * Ownership: nothing is kept; ranges are views into the reply.
 * Threads:   no shared state.
 * Errors:    a reply of another shape is told so, whatever was handed out before.
 */
#ifndef AGENT_REDIS_SLOTS_H
#define AGENT_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base.h"
#include "agent/store/seam.h"

/** The slot of a key, below SEAM_SLOTS_MAX. */
unsigned slots_of_key(const void *key, size_t len);

/** Slots that follow one another, and their primary. */
struct slots_range {
    unsigned first;
    unsigned last;
    const char *host; /* empty: the host that was asked */
    size_t host_bytes;
    unsigned port;
};

typedef void slots_range_fn(const struct slots_range *range, void *data);

/**
 * Hand out the ranges of a reply to CLUSTER SLOTS whose primary is known.
 *
 * @return false when the reply is of another shape
 */
MUST_USE bool slots_read(const struct seam_reply *reply, slots_range_fn *each,
                         void *data);

#endif
