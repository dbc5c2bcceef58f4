/**
 * @file agent/redis/redis.h  The Redis of a process: one server, a cluster, or what a
 *       Sentinel names.
 *
 * Model:     a thread of its own, the scout, finds out where the nodes are: it waits for
 *            the resolver, asks the cluster for its slots or a Sentinel for the primary,
 *            and puts what it learnt into the map. Workers have a copy of the map and are
 *            woken when it changes (router.h); they tell the scout when it seems wrong.
 * Ownership: redis_new / redis_free, after the routers. Options stay in place meanwhile.
 * Threads:   any may call redis_look, redis_hint, redis_note_down, redis_note_up; what is
 *            shared is behind one lock, but the flags of the scout, which are atomic.
 * Errors:    what is wrong with a node is logged, at most once a minute unless the reason
 *            changes. Where nothing can be learnt the last map stays.
 * Limits:    SEAM_NODES_MAX nodes; the scout looks at most each REDIS_LOOK_US_MIN.
 */
#ifndef AGENT_REDIS_REDIS_H
#define AGENT_REDIS_REDIS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "agent/clock.h"
#include "agent/redis/endpoint.h"
#include "agent/redis/link.h"
#include "agent/store/seam.h"

enum {
    REDIS_ENDPOINTS_MAX = 16,
    REDIS_NETWORKS_MAX = 64,
    REDIS_HINTS_MAX = 8, /* nodes heard of by workers between two looks */
};

#define REDIS_LOOK_US_MIN (200 * US_PER_MS) /* between two looks, whatever happens */

enum redis_mode {
    REDIS_SINGLE = 0, /* the first endpoint is the server */
    REDIS_CLUSTER,    /* endpoints are nodes to begin with */
    REDIS_SENTINEL,   /* endpoints are Sentinels */
};

struct redis_options {
    enum redis_mode mode;
    unsigned n_endpoints; /* at least one */
    const struct endpoint *endpoints;
    const char *primary_name; /* what the Sentinels call it */
    const char *user;         /* NULL: the user named default */
    const char *password;     /* NULL: none */
    const char *sentinel_user;
    const char *sentinel_password;
    unsigned database;
    const struct link_script *scripts;
    unsigned n_scripts;
    struct tls *tls; /* NULL: plain */
    const char *server_name;
    /* Where nodes may be that are not among the endpoints: elsewhere none is asked. */
    unsigned n_networks;
    const struct endpoint_network *networks;
};

struct redis_node {
    struct endpoint endpoint;
    bool is_used; /* has slots, or was heard of lately */
    unsigned n_addresses;
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX];
};

/** Where keys are. Numbers of nodes stay while there is room for more. */
struct redis_map {
    unsigned n_nodes;
    struct redis_node nodes[SEAM_NODES_MAX];
    uint16_t
        slots[SEAM_SLOTS_MAX]; /* the node, or SEAM_NO_NODE; no cluster: the first */
};

struct redis;

/** @return NULL when memory is short, or no thread can be had */
MUST_USE struct redis *redis_new(const struct redis_options *options);
void redis_free(struct redis *redis);

const struct redis_options *redis_options(const struct redis *redis);

/** One who has a copy of the map. */
struct redis_watcher {
    struct ev_loop *loop;
    struct ev_async changed; /* set by the watcher: called when the map has changed */
    struct redis_watcher *next;
};

/** Be told of changes; the map as it is counts as one. */
void redis_watch(struct redis *redis, struct redis_watcher *watcher);
void redis_unwatch(struct redis *redis, struct redis_watcher *watcher);

/** Copy the map. */
void redis_copy_map(struct redis *redis, struct redis_map *map);

/** The number of a node by its endpoint, or SEAM_NO_NODE. */
unsigned redis_find_node(const struct redis_map *map, const struct endpoint *endpoint);

/** Whether a link to one is one to the other: a resolver turns addresses round. */
bool redis_is_same_node(const struct redis_node *a, const struct redis_node *b);

/** The map seems wrong: look again soon. */
void redis_look(struct redis *redis);

/** A node was named that the map does not have: look whether it may be asked. */
void redis_hint(struct redis *redis, const struct endpoint *endpoint);

/** A connection to a node ended, or is there: told to people, with measure. */
void redis_note_down(struct redis *redis, unsigned node,
                     const struct endpoint *endpoint, const char *why);
void redis_note_up(struct redis *redis, unsigned node, const struct endpoint *endpoint);

/**
 * Wait, for at most so long, until so many workers have been connected to each node.
 */
void redis_await(struct redis *redis, unsigned n_workers, int64_t us);

#endif
