/*
 * What leases cost and save, in process and over a redis-server of its own.
 *
 *   bench_lease [throughput|calls]
 *
 * throughput: the same requests of 1 000 clients, as fast as they are decided, counted by this
 *     host alone and by leases, in turns: CPU of this thread by decision, the loop's turns
 *     included, and how that compares in each round.
 * calls: 100 000 requests a second of 100, 1 000 and 10 000 clients, counted by leases: calls
 *     to Redis by 100 requests, and its CPU.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "tests/bench/engine.h"
#include "tests/bench/measure.h"
#include "tests/support/prng.h"
#include "tests/support/redis_process.h"

enum {
    BATCH = 128,
    DECISIONS = 1600 * BATCH, /* a round */
    CLIENTS = 1000,
    RATE = 100000,
    WARM_UP_S = 3,
    MEASURED_S = 5,
};

static const char rules_format[] = "version: 1\ndomain: bench\nrules:\n"
                                   "- name: per_client\n  key: [api_key]\n  store: %s\n"
                                   "  limit: { requests: 1000000, per: 60s }\n";

struct side {
    struct engine *engine;
    struct prng prng;
    double ns[MEASURE_ROUNDS];
};

static struct redis_process server;
static struct endpoint endpoint;

static struct engine *open_engine(const char *store)
{
    char rules[512];
    (void)snprintf(rules, sizeof(rules), rules_format, store);
    struct engine_options options = {
        .rules = rules,
        .n_endpoints = strcmp(store, "local") != 0,
        .endpoints = &endpoint,
        .deadline_us = 100 * US_PER_MS,
    };
    return engine_open(&options);
}

/* --- throughput --- */

/* `other` has its loop turned meanwhile, and is not counted. */
static double run_round(struct side *side, struct side *other)
{
    static struct engine_sample samples[BATCH];
    int64_t sum_ns = 0;
    for (unsigned n = 0; n < DECISIONS; n += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            engine_make_sample(&samples[i], prng_below(&side->prng, CLIENTS));
        }
        int64_t began_ns = measure_cpu_ns();
        struct instant now = clock_now();
        for (unsigned i = 0; i < BATCH; i++) {
            engine_ask(side->engine, &samples[i], now);
        }
        engine_turn(side->engine);
        sum_ns += measure_cpu_ns() - began_ns;
        engine_turn(other->engine);
    }
    return (double)sum_ns / DECISIONS;
}

static void measure_throughput(void)
{
    struct side local = {.engine = open_engine("local")};
    struct side lease = {.engine = open_engine("lease")};
    struct engine_load growing = {CLIENTS, RATE, WARM_UP_S, true};
    double ratios[MEASURE_ROUNDS];
    prng_init(&local.prng, 1);
    prng_init(&lease.prng, 1);
    (void)engine_offer(lease.engine, &lease.prng, &growing);
    (void)run_round(&local, &lease);
    (void)run_round(&lease, &local);
    uint64_t n_calls = engine_n_calls(lease.engine);
    for (unsigned i = 0; i < MEASURE_ROUNDS; i++) {
        local.ns[i] = run_round(&local, &lease);
        lease.ns[i] = run_round(&lease, &local);
        ratios[i] = local.ns[i] / lease.ns[i];
    }
    n_calls = engine_n_calls(lease.engine) - n_calls;
    (void)printf(
        "ns a decision: local %.0f, lease %.0f; throughput of lease over local "
        "%.2f (median of %d rounds); %.2f calls by 100 requests; %" PRIu64
        " by policy, %" PRIu64 " refused\n",
        measure_median(local.ns), measure_median(lease.ns), measure_median(ratios),
        MEASURE_ROUNDS, (double)n_calls * 100 / ((double)MEASURE_ROUNDS * DECISIONS),
        engine_n_by_policy(lease.engine), lease.engine->n_refused);
    engine_close(local.engine);
    engine_close(lease.engine);
}

/* --- calls --- */

static void measure_calls(unsigned n_clients)
{
    struct engine *engine = open_engine("lease");
    struct engine_load growing = {n_clients, RATE, WARM_UP_S, true};
    struct engine_load steady = {n_clients, RATE, MEASURED_S, false};
    struct prng prng;
    prng_init(&prng, n_clients);
    (void)engine_offer(engine, &prng, &growing);
    uint64_t n_calls = engine_n_calls(engine);
    double cpu_us = redis_process_cpu_us(&server);
    uint64_t n = engine_offer(engine, &prng, &steady);
    n_calls = engine_n_calls(engine) - n_calls;
    cpu_us = redis_process_cpu_us(&server) - cpu_us;
    (void)printf(
        "%u clients, %.0f requests/s: %.2f calls by 100 requests, Redis at %.0f %% "
        "of a core, %.1f us a call; %" PRIu64 " by policy, %" PRIu64 " refused\n",
        n_clients, (double)n / MEASURED_S, (double)n_calls * 100 / (double)n,
        cpu_us / 1e4 / MEASURED_S, cpu_us / (double)n_calls, engine_n_by_policy(engine),
        engine->n_refused);
    engine_close(engine);
}

int main(int argc, char **argv)
{
    static const char *const options[] = {NULL};
    const char *part = argc > 1 ? argv[1] : "";
    ENSURE(sodium_init() >= 0);
    clock_start();
    if (!redis_process_start(&server, options)) {
        return EXIT_FAILURE;
    }
    endpoint = redis_process_endpoint(&server);
    if (strcmp(part, "calls") != 0) {
        measure_throughput();
    }
    if (strcmp(part, "throughput") != 0) {
        measure_calls(100);
        measure_calls(1000);
        measure_calls(10000);
    }
    redis_process_stop(&server);
    return EXIT_SUCCESS;
}
