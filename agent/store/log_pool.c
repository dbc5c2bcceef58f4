#include "agent/store/log_pool.h"

#include <errno.h>

#include <sys/mman.h>

#include "agent/store/spin.h"

bool log_pool_init(struct log_pool *pool, size_t bytes)
{
    size_t n = bytes / sizeof(struct log_block);
    *pool = (struct log_pool){.n_touched = 1};
    if (n < 2 || n > UINT32_MAX) {
        errno = EINVAL;
        return false;
    }
    void *blocks = mmap(NULL, n * sizeof(struct log_block), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (blocks == MAP_FAILED) {
        return false;
    }
    pool->blocks = blocks;
    pool->n_blocks = (uint32_t)n;
    return true;
}

void log_pool_fini(struct log_pool *pool)
{
    if (pool->blocks != NULL) {
        (void)munmap(pool->blocks, pool->n_blocks * sizeof(struct log_block));
    }
}

uint32_t log_pool_get(struct log_pool *pool)
{
    uint32_t block = 0;
    spin_lock(&pool->lock);
    if (pool->free != 0) {
        block = pool->free;
        pool->free = pool->blocks[block].next;
    } else if (pool->n_touched < pool->n_blocks) {
        block = pool->n_touched++;
    }
    spin_unlock(&pool->lock);
    return block;
}

void log_pool_put(struct log_pool *pool, struct log_chain chain)
{
    if (chain.first == 0) {
        return;
    }
    spin_lock(&pool->lock);
    pool->blocks[chain.last].next = pool->free;
    pool->free = chain.first;
    spin_unlock(&pool->lock);
}
