/**
 * @file tests/bench/engine.h  A worker's decisions in this process, over a real Redis.
 *
 * Model:     what a worker of the agent has, without its sockets: a loop, a router on it, the
 *            store behind it with its leases, and a decide. A NOTIFY payload goes in; its
 *            decision is counted when it is there.
 * Ownership: engine_open / engine_close.
 * Threads:   one.
 * Errors:    abort.
 */
#ifndef TESTS_BENCH_ENGINE_H
#define TESTS_BENCH_ENGINE_H

#include <stdint.h>

#include <ev.h>

#include "agent/decide/decide.h"
#include "agent/redis/router.h"
#include "agent/store/redis.h"

#include "tests/support/prng.h"

enum {
    ENGINE_PAYLOAD_BYTES_MAX = 256,
    ENGINE_REQUESTS_MAX = REDIS_TAKES_MAX, /* under way */
};

struct engine_options {
    const char *rules;
    enum redis_mode mode;
    unsigned n_endpoints; /* 0: counted on this host alone */
    const struct endpoint *endpoints;
    int64_t deadline_us;
};

struct engine_request {
    struct decide_request request;
    struct engine_request *next;
};

struct engine {
    struct engine_options options;
    struct ev_loop *loop;
    struct redis *redis;
    struct router *router;
    struct health *health;
    struct leases *leases;
    struct syncs *syncs;
    struct store *local;
    struct store *store; /* of decisions: `local`, or one over Redis */
    struct redis_options redis_options;
    struct link_script scripts[REDIS_SCRIPTS_N];
    struct decide_set *set;
    struct decide_options decide_options;
    struct decide decide;
    uint64_t n_allowed;
    uint64_t n_refused;
    unsigned n_under_way;
    struct engine_request *free;
    struct engine_request requests[ENGINE_REQUESTS_MAX];
};

/** One request: its payload. */
struct engine_sample {
    size_t len;
    uint8_t payload[ENGINE_PAYLOAD_BYTES_MAX];
};

struct engine *engine_open(const struct engine_options *options);

/** What is under way is waited for before. */
void engine_close(struct engine *engine);

/** The arguments of the shipped spoe-ratelimit.conf, of a client with this number. */
void engine_make_sample(struct engine_sample *sample, uint64_t client);

/** Begin to decide it. */
void engine_ask(struct engine *engine, const struct engine_sample *sample,
                struct instant now);

/** Let the loop do what there is to do. */
void engine_turn(struct engine *engine);

/** Turn until nothing is under way. */
void engine_rest(struct engine *engine);

/** Requests of clients at random, at an even rate, or from none to it. */
struct engine_load {
    unsigned n_clients;
    unsigned per_s;
    unsigned seconds;
    bool is_growing;
};

/** Offer that, as far as there is time. @return how many requests that were */
uint64_t engine_offer(struct engine *engine, struct prng *prng,
                      const struct engine_load *load);

/** Calls that were sent to Redis, and charges that policies decided. */
uint64_t engine_n_calls(const struct engine *engine);
uint64_t engine_n_by_policy(const struct engine *engine);

#endif
