/**
 * @file tests/stores/bed_redis.h  What beds of the store of Redis have in common: the host.
 */
#ifndef TESTS_STORES_BED_REDIS_H
#define TESTS_STORES_BED_REDIS_H

#include "agent/store/seam.h"

#include "tests/stores/bed.h"

/** Make the store and what it needs, over a seam. */
void bed_redis_start(struct bed *bed, struct seam *seam, struct instant now);

/** How much did not come to pass. */
uint64_t bed_redis_n_failed(void);

/** Forget that calls failed: all nodes are asked again. */
void bed_redis_revive(struct instant now);

/** After the seam has gone. */
void bed_redis_stop(struct bed *bed);

#endif
