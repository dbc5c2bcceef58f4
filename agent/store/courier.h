/**
 * @file agent/store/courier.h  Takes items to Redis together: one call for each slot.
 *
 * Model:     an item is a counter and something to be done about it, for which nobody waits.
 *            Items wait up to COURIER_WAIT_US for others and then go in calls of one script,
 *            each with all that are in one slot, at most COURIER_ITEMS_MAX and each of another
 *            counter, since scripts read all counters before they write any. What a node does
 *            not take, since its breaker is open or too much is under way, comes back at
 *            once; where it ramps, all of this passes, before requests do. Who has many asks
 *            first whether there is room: calls that have timed out do not count there, lest a
 *            node that is silent takes all of it.
 * Ownership: courier_init; the memory is the caller's. Items are numbers of the caller's,
 *            whose keys stay in place until they have ended.
 * Threads:   that of the seam.
 * Errors:    told of each item.
 * Limits:    COURIER_CALLS calls under way, late ones included.
 */
#ifndef AGENT_STORE_COURIER_H
#define AGENT_STORE_COURIER_H

#include "agent/store/health.h"
#include "agent/store/seam.h"

enum {
    COURIER_ITEMS_MAX = 16, /* of a call, lest others wait for it in Redis for long */
    COURIER_CALLS = 256,
    COURIER_ROOM = COURIER_CALLS / 2, /* of calls that are not late */
    COURIER_ARG_BYTES_MAX = 2048,
    COURIER_NUMBERS_MAX = 256, /* of a reply */
};

#define COURIER_WAIT_US (5 * US_PER_MS)

/** How an item ended that was not answered. */
enum courier_end {
    COURIER_NOT_DONE = 0, /* Redis has not done it */
    COURIER_UNHEARD,      /* nobody knows */
};

struct courier;

struct courier_ops {
    unsigned script;
    int64_t limit_us; /* of a call, to its answer */
    /* Write the argument of a call of n items. @return its bytes */
    size_t (*encode)(struct courier *courier, const uint32_t *items, unsigned n,
                     uint8_t *out);
    /* Take the answer for n items. @return false: it is none; then `end` is called */
    bool (*answer)(struct courier *courier, const uint32_t *items, unsigned n,
                   const int64_t *numbers, size_t n_numbers, struct instant sent_at);
    /* An item comes back without an answer. */
    void (*end)(struct courier *courier, uint32_t item, enum courier_end end);
};

struct courier_call {
    struct seam_call seam;
    struct courier *courier;
    struct courier_call *next_free;
    struct instant sent_at;
    unsigned n;
    uint32_t items[COURIER_ITEMS_MAX];
    struct seam_bytes keys[COURIER_ITEMS_MAX];
    struct seam_bytes arg;
    uint8_t arg_buf[COURIER_ARG_BYTES_MAX];
};

struct courier {
    const struct courier_ops *ops;
    struct seam *seam;
    struct health *health;
    struct seam_timer flush;
    unsigned n_waiting;
    uint32_t waiting[COURIER_ITEMS_MAX];
    struct seam_bytes keys[COURIER_ITEMS_MAX];
    unsigned n_under_way; /* calls; 0 before it may go */
    unsigned n_late;      /* of these: timed out */
    struct courier_call *free;
    struct courier_call calls[COURIER_CALLS];
};

/** @param courier  zeroed */
void courier_init(struct courier *courier, const struct courier_ops *ops,
                  struct seam *seam, struct health *health);

/** Whether items that are added find calls, but for what nodes do not take. */
static inline bool courier_has_room(const struct courier *courier)
{
    return courier->n_under_way - courier->n_late < COURIER_ROOM;
}

/** Take an item along, soon. */
void courier_add(struct courier *courier, uint32_t item, struct seam_bytes key);

/** Go now with what waits. */
void courier_go(struct courier *courier);

#endif
