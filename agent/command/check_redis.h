/**
 * @file agent/command/check_redis.h  Whether the Redis of agent.yaml does what rules need.
 *
 * Model:     finds the nodes as the agent does (scout.h), then asks each, on a connection as
 *            the agent's, who it is, how it evicts, and each command that the agent and its
 *            scripts use, on keys of its own that are deleted again. Nothing else is changed.
 * Ownership: check_redis_fini.
 * Threads:   one thread, which waits.
 * Errors:    diagnostics of the codes redis-*, of agent.yaml as a whole; false when memory
 *            ran out.
 * Limits:    CHECK_REDIS_US in all, beside what the resolver of the system takes;
 *            CHECK_REDIS_NODE_US for a node.
 */
#ifndef AGENT_COMMAND_CHECK_REDIS_H
#define AGENT_COMMAND_CHECK_REDIS_H

#include "rules/diag.h"

#include "agent/base.h"
#include "agent/redis/redis.h"

enum {
    CHECK_REDIS_WORD_BYTES_MAX = 32, /* of what a server says of itself */
    CHECK_REDIS_MAJOR_MIN = 5
};

#define CHECK_REDIS_US      (5 * US_PER_S)
#define CHECK_REDIS_NODE_US (1 * US_PER_S)

/** A node that has answered. Words are empty where it did not say. */
struct check_redis_node {
    char name[ENDPOINT_TEXT_BYTES_MAX];
    char version[CHECK_REDIS_WORD_BYTES_MAX];
    char role[CHECK_REDIS_WORD_BYTES_MAX];     /* primary, replica */
    char eviction[CHECK_REDIS_WORD_BYTES_MAX]; /* maxmemory-policy */
    int64_t memory_bytes;                      /* maxmemory; 0: no bound; -1: unknown */
    int64_t round_trip_us;
};

struct check_redis {
    unsigned n_nodes;
    struct check_redis_node *nodes; /* of the order of the map */
};

/**
 * @param options  as the agent has them
 * @param prefix   of keys
 * @param found    zeroed
 */
MUST_USE bool check_redis_find(const struct redis_options *options, const char *prefix,
                               struct rules_diags *diags, struct check_redis *found);
void check_redis_fini(struct check_redis *found);

#endif
