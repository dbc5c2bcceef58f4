/**
 * @file agent/store/shards.h  Hot counters that are kept as several.
 *
 * Model:     a limit with N shards is N counters, each with 1/N of its numbers; what does
 *            not divide is given to the first ones, one each, so that all together are the
 *            limit. A shard's name is the counter's with "#", and its number in two digits, at the end of its tag, so that
 *            shards lie in different slots. Who charges takes any one of them; what it
 *            answers is that shard's, and remaining N times that.
 *
 *            Where a charge stands is told with the number of its shard, by which a
 *            settlement finds it.
 * Ownership: a sharding is the caller's, and stays in place while its take goes on, whose
 *            charges point into it.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    SHARDS_MAX, and 10^9 / N of what a limit may be.
 */
#ifndef AGENT_STORE_SHARDS_H
#define AGENT_STORE_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/store.h"

enum {
    SHARDS_MAX = 64,
    SHARDS_NAME_MORE = 3, /* "#07" */
};

struct sharding {
    uint32_t mask; /* bit i: charge i is of a shard */
    uint8_t shards[STORE_CHARGES_MAX];
    struct limit limits[STORE_CHARGES_MAX];
    const struct limit *wholes[STORE_CHARGES_MAX];
};

/** The limit of one shard. */
void shards_limit(const struct limit *whole, unsigned n_shards, unsigned shard,
                  struct limit *limit);

/**
 * Write the name of a shard.
 *
 * @param name  of the counter, or of any shard of it
 * @param out   room for name_bytes + SHARDS_NAME_MORE
 * @return bytes written
 */
size_t shards_name(const char *name, size_t name_bytes, unsigned shard, char *out);

/** Take the number of a shard off its name. @return the bytes of the counter's */
size_t shards_strip(const char *name, size_t name_bytes, char *out);

/** Make charge i of a take, whose limit has shards, one of a shard; its key is not touched. */
void shards_set(struct sharding *sharding, struct store_take *take, unsigned i,
                unsigned shard);

/** Make all charges those of the whole again, with their answers. */
void shards_restore(const struct sharding *sharding, struct store_take *take);

/** Where a charge of a shard stands, as told outside; and back. */
static inline int64_t shards_place(int64_t place, unsigned shard)
{
    return place * SHARDS_MAX + (int64_t)shard;
}

static inline int64_t shards_place_in(int64_t place, unsigned *shard)
{
    *shard = (unsigned)(place % SHARDS_MAX);
    return place / SHARDS_MAX;
}

#endif
