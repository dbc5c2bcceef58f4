/**
 * @file agent/limit/sliding_log.h  The exact log: every charge of the last `per`.
 *
 * Model:     pure functions over a state and the blocks that hold its events, oldest
 *            first: a list of blocks whose memory the caller has. An event is 8 bytes: when
 *            it was charged, in us, and its cost. One that is `per` old, or older, is out.
 *            When `now` is before the newest event, it is taken to be that.
 * Ownership: the caller's. A state owns the blocks of its list; functions that need fewer
 *            afterwards answer the others as a chain.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    LOG_LIMIT_MAX requests; LOG_USED_MAX counted in a log (merged, or in debt).
 */
#ifndef AGENT_LIMIT_SLIDING_LOG_H
#define AGENT_LIMIT_SLIDING_LOG_H

#include "agent/limit/limit.h"

enum {
    LOG_LIMIT_MAX = 1000,
    LOG_USED_MAX = 2 * LOG_LIMIT_MAX, /* fewer events: none costs nothing */
    LOG_BLOCK_EVENTS = 7,
    LOG_COST_BITS = 11, /* of an event; the others are its time */
};

_Static_assert(LOG_USED_MAX < 1 << LOG_COST_BITS, "a cost fits");

struct log_block {
    uint64_t events[LOG_BLOCK_EVENTS];
    uint32_t next;          /* 0: the last */
    _Atomic uint32_t owner; /* for who hands out blocks; not looked at here */
};

/** A list of blocks, by their numbers; `first` 0: none. */
struct log_chain {
    uint32_t first;
    uint32_t last;
};

static inline uint64_t log_event(int64_t us, int64_t cost)
{
    return (uint64_t)us << LOG_COST_BITS | (uint64_t)cost;
}

static inline int64_t log_event_us(uint64_t event)
{
    return (int64_t)(event >> LOG_COST_BITS);
}

static inline int64_t log_event_cost(uint64_t event)
{
    return (int64_t)(event & ((1U << LOG_COST_BITS) - 1));
}

/** limit_take without its charge: `answer` is as if that had been made. */
bool sliding_log_look(const struct limit *limit, const struct log_block *blocks,
                      const struct limit_state *state, struct instant now, int64_t cost,
                      struct limit_answer *answer);

/** limit_align: events after a stepped clock become now. */
void sliding_log_align(struct log_block *blocks, const struct limit_state *state,
                       struct instant now);

/** Drop what is out. @return the blocks that held nothing else */
struct log_chain sliding_log_drop(const struct limit *limit, struct log_block *blocks,
                                  struct limit_state *state, struct instant now);

/** @return whether the next event needs another block */
bool sliding_log_is_full(const struct limit_state *state);

/**
 * Add an event, which is taken to be no older than the newest.
 *
 * @param block  for sliding_log_is_full, else 0
 */
void sliding_log_add(struct log_block *blocks, struct limit_state *state,
                     uint32_t block, uint64_t event);

/** limit_place: when the newest event was charged. */
int64_t sliding_log_place(const struct log_block *blocks,
                          const struct limit_state *state);

/** limit_settle. @param freed  blocks that are not needed any more */
bool sliding_log_settle(const struct limit *limit, struct log_block *blocks,
                        struct limit_state *state, struct instant now,
                        const struct limit_correction *correction,
                        struct log_chain *freed);

/** limit_merge: the events of both in order; the oldest go beyond LOG_USED_MAX.
 * @return blocks of either that are not needed any more */
struct log_chain sliding_log_merge(struct log_block *blocks, struct limit_state *state,
                                   const struct limit_state *other);

/** Copy the events, oldest first. @return how many, at most LOG_USED_MAX */
unsigned sliding_log_read(const struct log_block *blocks,
                          const struct limit_state *state, uint64_t *events);

#endif
