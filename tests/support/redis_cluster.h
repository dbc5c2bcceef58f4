/**
 * @file tests/support/redis_cluster.h  Real Redis Clusters, and what a Sentinel watches, of a
 *       test's own.
 *
 * Model:     processes on loopback (redis_process.h). The first three are made primaries,
 *            with a third of the slots each; the next three, if any, their replicas.
 * Errors:    fail the test.
 */
#ifndef TESTS_SUPPORT_REDIS_CLUSTER_H
#define TESTS_SUPPORT_REDIS_CLUSTER_H

#include <stdint.h>

#include "agent/clock.h"

#include "tests/support/redis_process.h"

enum {
    REDIS_CLUSTER_PRIMARIES = 3,
    REDIS_CLUSTER_NODES_MAX = 2 * REDIS_CLUSTER_PRIMARIES,
};

/** For what takes real servers a while. */
#define REDIS_CLUSTER_PATIENCE_US (60 * US_PER_S)

struct redis_cluster {
    struct redis_process nodes[REDIS_CLUSTER_NODES_MAX];
    unsigned n_nodes;
};

/** Start it, and wait until every node serves and every replica could take over. */
void redis_cluster_start(struct redis_cluster *cluster, bool has_replicas);
void redis_cluster_stop(struct redis_cluster *cluster);

/** Which of the primaries was given the slot of a key at first. */
unsigned redis_cluster_primary(const char *key);

/** Move the slot of a key, step by step. */
struct redis_move {
    const struct redis_process *from;
    const struct redis_process *to;
    unsigned slot;
    char from_id[41];
    char to_id[41];
};

/** Both sides know that it will move: keys that are not there any more are asked for. */
void redis_move_begin(struct redis_move *move, const struct redis_process *from,
                      const struct redis_process *to, unsigned slot);
/** Keys go, all that are there. */
void redis_move_keys(const struct redis_move *move);
void redis_move_end(const struct redis_move *move);

/** Wait until replicas have all that primaries had written. */
void redis_cluster_wait_for_replicas(const struct redis_cluster *cluster);
void redis_process_wait_for_replica(const struct redis_process *primary);

/** Let a replica take over. */
void redis_cluster_promote(const struct redis_process *node);

/** A primary, its replica and a Sentinel that calls them mymaster. */
struct redis_sentinel {
    struct redis_process primary;
    struct redis_process replica;
    struct redis_process sentinel;
    char dir[32];
    char path[64];
    char port[8];
    const char *replica_options[6];
    const char *sentinel_options[3];
};

void redis_sentinel_start(struct redis_sentinel *sentinel);
void redis_sentinel_stop(struct redis_sentinel *sentinel);

/** Ask until a reply holds these words. */
void redis_process_wait_for(const struct redis_process *process, const char *command,
                            const char *want);

#endif
