/**
 * @file agent/command/check_redis_size.h  What a Redis needs for the counters that lie there.
 *
 * Model:     as in check_size.h every rule with a key has all the keys at the same time. Of
 *            a request it is asked how many slots and limits it can meet at most: rules
 *            that no request meets together are not added up. What a call, a limit and a
 *            counter take was measured (tests/bench); a primary is counted as one core,
 *            half of which is to be left over.
 *
 *            Counted ahead are limits with store lease whose part of a host makes a block,
 *            and whose clients come often enough for one, and all with store sync. All
 *            requests meet them, spread evenly over keys and hosts, each of cost 1: a pool
 *            (store/leases.h) orders each time half of a block is gone, one of sync
 *            (store/syncs.h) exchanges each interval in which it was used. Other limits
 *            with store lease are asked about as with store redis; so are all of a store
 *            that has more pools than have room.
 * Ownership: nothing is kept.
 * Threads:   one thread.
 * Errors:    false when memory ran out.
 * Limits:    CHECK_REDIS_STEPS_MAX comparisons; beyond them rules count as met together.
 */
#ifndef AGENT_COMMAND_CHECK_REDIS_SIZE_H
#define AGENT_COMMAND_CHECK_REDIS_SIZE_H

#include "agent/command/check_bound.h"
#include "agent/command/check_size.h"

/* CPU of a redis-server 7.0 in us: of a call, and of each limit in it. Of a virtual machine
 * with both cores busy, so of a host of its own it is less. */
enum {
    CHECK_REDIS_CALL_US = 8,
    CHECK_REDIS_LIMIT_US = 11,
    CHECK_REDIS_ITEM_US = 20,      /* of an order or an exchange in a call of many */
    CHECK_REDIS_BUSY_PERCENT = 50, /* of a primary, at most */
    CHECK_REDIS_CALL_COMMANDS = 3, /* EVALSHA, and what it calls: TIME, MGET; of each */
    CHECK_REDIS_LIMIT_COMMANDS = 1 /* limit, order and exchange SET */
};

/* As used_memory grows, tables of keys and of times to live in it; without the name. */
enum {
    CHECK_REDIS_COUNTER_BYTES = 136,
    CHECK_REDIS_EVENT_BYTES = 9,
    CHECK_REDIS_HOST_BYTES = 32,  /* what a host leased, or exchanged */
    CHECK_REDIS_VALUE_BYTES = 24, /* taken for the value of a part of a key */
};

#define CHECK_REDIS_STEPS_MAX INT64_C(200000000)

/** Of all primaries together. */
struct check_redis_size {
    bool is_used; /* there are rules whose counters lie there */
    int64_t n_counters;
    int64_t n_events; /* of sliding logs */
    int64_t bytes;
    int64_t slots;  /* that one request asks, at most: each is a call; 0: none is */
    int64_t limits; /* in all calls of one request, at most */
    /* Pools of one host that are in use at a time, and of how many of each kind it knows. */
    int64_t n_leased;
    int64_t n_synced;
    int64_t n_pools_max;
    /* Where load.rate is given: in a second. */
    int64_t n_calls;  /* at most, for requests */
    int64_t n_misses; /* for those that find no block of a limit that has some */
    int64_t n_orders;
    int64_t n_exchanges;
    int64_t n_batches; /* calls with orders or exchanges */
    int64_t n_commands;
    int64_t n_primaries;
};

/** Where counters lie, and until when rules count. */
struct check_redis_place {
    const char *prefix; /* of keys */
    bool is_cluster;
    struct check_fleet fleet;
    int64_t now_s;
};

/** @param load  of all hosts together; n_hosts is at least 1 */
MUST_USE bool check_redis_size_find(const struct rules_ast *ast,
                                    const struct check_redis_place *place,
                                    const struct check_load *load,
                                    struct check_redis_size *size);

#endif
