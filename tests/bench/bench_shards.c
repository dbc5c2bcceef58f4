/*
 * bench_shards [SECONDS]: one hot counter on a real cluster of three primaries, kept whole and
 * as 8 shards, offered 1.2 times its limit: what is admitted, and how the load lies on the
 * primaries. In process; policies never decide.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "tests/bench/engine.h"
#include "tests/support/redis_cluster.h"

enum {
    PER_S = 5000,
    OFFERED_PER_S = 6000,
    WARM_UP_S = 7, /* so that no bucket is full from before */
};

static struct redis_cluster cluster;
static unsigned seconds;

static struct engine *open_engine(const char *limit, unsigned n_shards)
{
    static struct endpoint endpoints[REDIS_CLUSTER_PRIMARIES];
    char rules[512];
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) {
        endpoints[i] = redis_process_endpoint(&cluster.nodes[i]);
    }
    (void)snprintf(rules, sizeof(rules),
                   "version: 1\ndomain: bench\nrules:\n"
                   "- name: hot\n  key: []\n  store: redis\n  shards: %u\n"
                   "  limit: { %s }\n",
                   n_shards, limit);
    struct engine_options options = {
        .rules = rules,
        .mode = REDIS_CLUSTER,
        .n_endpoints = REDIS_CLUSTER_PRIMARIES,
        .endpoints = endpoints,
        .deadline_us = 500 * US_PER_MS,
    };
    return engine_open(&options);
}

static int64_t n_scripts(unsigned node)
{
    double n = redis_process_info(&cluster.nodes[node], "commandstats",
                                  "cmdstat_evalsha:calls=");
    return n >= 0 ? (int64_t)n : 0; /* none yet */
}

/* @param most  of a window that does not end meanwhile; 0: PER_S */
static void measure(const char *name, const char *limit, unsigned n_shards,
                    uint64_t most)
{
    struct engine *engine = open_engine(limit, n_shards);
    struct engine_load warm_up = {1, OFFERED_PER_S, WARM_UP_S, false};
    struct engine_load load = {1, OFFERED_PER_S, seconds, false};
    struct prng prng;
    int64_t before[REDIS_CLUSTER_PRIMARIES];
    prng_init(&prng, n_shards);
    if (most == 0) {
        (void)engine_offer(engine, &prng, &warm_up);
    }
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) {
        before[i] = n_scripts(i);
    }
    uint64_t n_allowed = engine->n_allowed;
    uint64_t n_offered = engine_offer(engine, &prng, &load);
    n_allowed = engine->n_allowed - n_allowed;
    uint64_t full = most != 0 ? most : (uint64_t)PER_S * seconds;
    (void)printf("%-14s shards: %u, offered %" PRIu64 ", admitted %" PRIu64
                 " of %" PRIu64 " (%.2f %%), by policy %" PRIu64 "; calls by node",
                 name, n_shards, n_offered, n_allowed, full,
                 100 * (double)n_allowed / (double)full, engine_n_by_policy(engine));
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) {
        (void)printf(" %" PRId64, n_scripts(i) - before[i]);
    }
    (void)printf("\n");
    (void)fflush(stdout);
    engine_close(engine);
}

/* Of a window that does not end meanwhile: all of it is to be had, and no more. */
static void measure_whole_window(unsigned n_shards)
{
    char limit[128];
    unsigned most = PER_S * seconds;
    (void)snprintf(limit, sizeof(limit),
                   "algorithm: fixed_window, requests: %u, per: 31d", most + n_shards);
    measure("fixed_window", limit, n_shards, most + n_shards);
}

static void measure_per_second(const char *name, const char *more, unsigned n_shards)
{
    char limit[128];
    (void)snprintf(limit, sizeof(limit), "requests: %d, per: 1s%s", PER_S, more);
    measure(name, limit, n_shards, 0);
}

int main(int argc, char **argv)
{
    ENSURE(sodium_init() >= 0);
    clock_start();
    seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    redis_cluster_start(&cluster, false);
    for (unsigned n_shards = 1; n_shards <= 8; n_shards *= 8) {
        measure_whole_window(n_shards);
        measure_per_second("sliding_window", "", n_shards);
        measure_per_second("token_bucket", ", burst: 5000", n_shards);
    }
    redis_cluster_stop(&cluster);
    return EXIT_SUCCESS;
}
