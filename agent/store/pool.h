/**
 * @file agent/store/pool.h  Blocks for the events of sliding logs.
 *
 * Model:     memory of fixed size, cut into blocks that are known by their numbers, from
 *            1; those that were given back are used first, so that memory which was never
 *            needed stays untouched.
 * Ownership: pool_init / pool_fini. A block that was got is the caller's until put back.
 * Threads:   any; a lock for the few instructions of a get or put. What is in a block is
 *            its owner's affair.
 * Errors:    pool_init answers false with errno; an empty pool answers block 0.
 */
#ifndef AGENT_STORE_POOL_H
#define AGENT_STORE_POOL_H

#include "agent/limit/sliding_log.h"

struct pool {
    struct log_block *blocks; /* [0] is never used */
    uint32_t n_blocks;
    _Atomic uint8_t lock;
    /* guarded by lock: */
    uint32_t n_touched;
    uint32_t free; /* the first of those put back */
};

/** @param bytes  at least those of two blocks */
MUST_USE bool pool_init(struct pool *pool, size_t bytes);
void pool_fini(struct pool *pool);

/** @return a block, or 0 */
MUST_USE uint32_t pool_get(struct pool *pool);

/** Put a chain back; an empty one is fine. */
void pool_put(struct pool *pool, struct log_chain chain);

#endif
