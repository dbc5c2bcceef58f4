/**
 * @file agent/store/log_pool.h  Blocks for the events of sliding logs.
 *
 * Model:     memory of fixed size, cut into blocks that are known by their numbers, from
 *            1; those that were given back are used first, so that memory which was never
 *            needed stays untouched.
 * Ownership: log_pool_init / log_pool_fini. A block that was got is the caller's until put
 *            back.
 * Threads:   any; a lock for the few instructions of a get or put. What is in a block is
 *            its owner's affair.
 * Errors:    log_pool_init answers false with errno; an empty pool answers block 0.
 */
#ifndef AGENT_STORE_LOG_POOL_H
#define AGENT_STORE_LOG_POOL_H

#include "agent/limit/sliding_log.h"

struct log_pool {
    struct log_block *blocks; /* [0] is never used */
    uint32_t n_blocks;
    _Atomic uint8_t lock;
    /* guarded by lock: */
    uint32_t n_touched;
    uint32_t free; /* the first of those put back */
};

/** @param bytes  at least those of two blocks */
MUST_USE bool log_pool_init(struct log_pool *pool, size_t bytes);
void log_pool_fini(struct log_pool *pool);

/** @return a block, or 0 */
MUST_USE uint32_t log_pool_get(struct log_pool *pool);

/** Put a chain back; an empty one is fine. */
void log_pool_put(struct log_pool *pool, struct log_chain chain);

#endif
