/*
 * bench_primary [REQUESTS [DEPTH]]: the store of Redis of one worker over a redis-server.
 * First requests of 1.5 rules, as many as it answers: requests/s, and the CPU of the server
 * and of the worker over the time. Then requests of 1 to 16 limits: each is one call of a
 * script, by INFO commandstats; anything else is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ev.h>

#include "agent/redis/router.h"
#include "agent/redis/script.h"
#include "agent/store/local.h"
#include "agent/store/redis.h"

#include "tests/support/redis_process.h"

enum {
    DEPTH_MAX = 512,
    CLIENTS = 100000,
    NAME_BYTES_MAX = 96,
    ROUNDS = 3,
};

static const struct limit limits[] = {
    {.algorithm = LIMIT_SLIDING_WINDOW,
     .requests = 1000000,
     .size = 1000000,
     .per_ticks = 600000,
     .tick_us = 100}, /* in a minute */
    {.algorithm = LIMIT_TOKEN_BUCKET,
     .requests = 1000000,
     .size = 1000000,
     .per_ticks = 1000000,
     .tick_us = 1}, /* a second */
};

static const uint8_t limit_ids[STORE_CHARGES_MAX][STORE_LIMIT_ID_BYTES];
static const struct store_home home = {.n_shards = 1, .policy = STORE_POLICY_OPEN};

struct request {
    struct store_take take;
    char names[STORE_CHARGES_MAX][NAME_BYTES_MAX];
};

static struct {
    struct redis_process server;
    struct ev_loop *loop;
    struct store *store;
    struct counters *counters;
    unsigned n_limits; /* of a request; 0: one and two in turns */
    unsigned long n_requests;
    unsigned long n_begun;
    unsigned long n_done;
    unsigned long n_bad; /* not counted by Redis */
    unsigned depth;
    struct request requests[DEPTH_MAX];
} bench;

static void add_charge(struct request *request, unsigned long client)
{
    unsigned i = request->take.n_charges++;
    int n = snprintf(request->names[i], NAME_BYTES_MAX,
                     "rl:public_api:{ip=203.%lu.%lu.%lu}:rule_%u:%s", client / 10000,
                     client / 100 % 100, client % 100, i, i % 2 == 0 ? "s60s" : "t1s");
    request->take.charges[i] = (struct store_charge){
        .limit = &limits[i % 2],
        .home = &home,
        .name = request->names[i],
        .name_bytes = (size_t)n,
        .limit_id = limit_ids[i],
        .cost = 1,
    };
}

static void on_done(struct store_take *take);

static void begin(struct request *request)
{
    unsigned long number = bench.n_begun++;
    unsigned n = bench.n_limits > 0 ? bench.n_limits : 1 + number % 2;
    request->take = (struct store_take){
        .now = clock_now(),
        .deadline = instant_add_us(clock_now(), 60 * US_PER_S),
        .counters = bench.counters,
        .done = on_done,
    };
    for (unsigned i = 0; i < n; i++) {
        add_charge(request, number % CLIENTS);
    }
    store_take(bench.store, &request->take);
}

static void on_done(struct store_take *take)
{
    bench.n_done++;
    bench.n_bad += take->failure != STORE_NO_FAILURE || !take->is_allowed;
    if (bench.n_begun < bench.n_requests) {
        begin(CONTAINER_OF(take, struct request, take));
    } else if (bench.n_done == bench.n_requests) {
        ev_break(bench.loop, EVBREAK_ALL);
    }
}

static double n_calls(void)
{
    double n = redis_process_info(&bench.server, "commandstats",
                                  "cmdstat_evalsha:calls=");
    return n >= 0 ? n : 0; /* none yet */
}

struct usage {
    double wall_us;
    double server_us;
    double worker_us;
    double n_calls;
};

static struct usage usage_now(void)
{
    struct timespec cpu;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct usage){
        .wall_us = (double)clock_now().us,
        .server_us = redis_process_cpu_us(&bench.server),
        .worker_us = 1e6 * (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e3,
        .n_calls = n_calls(),
    };
}

static struct usage run(unsigned n_limits, unsigned long n_requests)
{
    struct usage before = usage_now();
    bench.n_limits = n_limits;
    bench.n_requests = n_requests;
    bench.n_begun = 0;
    bench.n_done = 0;
    for (unsigned i = 0; i < bench.depth; i++) {
        begin(&bench.requests[i]);
    }
    (void)ev_run(bench.loop, 0);
    struct usage after = usage_now();
    return (struct usage){.wall_us = after.wall_us - before.wall_us,
                          .server_us = after.server_us - before.server_us,
                          .worker_us = after.worker_us - before.worker_us,
                          .n_calls = after.n_calls - before.n_calls};
}

/* @return whether each request was one call */
static bool run_rules(unsigned long n_requests)
{
    struct usage used = run(0, n_requests);
    double n = (double)n_requests;
    (void)printf(
        "1.5 rules, %u under way: %.0f requests/s; CPU of redis-server %.0f %%, "
        "%.1f us a request; of the worker %.0f %%, %.1f us\n",
        bench.depth, 1e6 * n / used.wall_us, 100 * used.server_us / used.wall_us,
        used.server_us / n, 100 * used.worker_us / used.wall_us, used.worker_us / n);
    return used.n_calls == n;
}

static bool run_limits(unsigned n_limits, unsigned long n_requests)
{
    struct usage used = run(n_limits, n_requests);
    (void)printf("%2u limits: %lu requests, %.0f calls; CPU of redis-server %.1f us a "
                 "request\n",
                 n_limits, n_requests, used.n_calls,
                 used.server_us / (double)n_requests);
    return used.n_calls == (double)n_requests;
}

static bool run_all(unsigned long n_requests)
{
    bool ok = true;
    for (unsigned i = 0; i < ROUNDS; i++) {
        ok = run_rules(n_requests) && ok;
    }
    for (unsigned n = 1; n <= STORE_CHARGES_MAX; n *= 2) {
        ok = run_limits(n, n_requests / 10) && ok;
    }
    return ok;
}

static void set_script(struct link_script *to, const struct script *script)
{
    *to = (struct link_script){.text = script->text, .text_bytes = script->text_bytes};
    link_script_name(to);
}

int main(int argc, char **argv)
{
    static const char *const options[] = {NULL};
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    struct link_script scripts[REDIS_SCRIPT_SETTLE + 1];
    set_script(&scripts[REDIS_SCRIPT_TAKE], &script_take);
    set_script(&scripts[REDIS_SCRIPT_SETTLE], &script_settle);
    unsigned long n_requests = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    bench.depth = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 64;
    if (bench.depth < 1 || bench.depth > DEPTH_MAX || n_requests < 10UL * bench.depth
        || !redis_process_start(&bench.server, options)) {
        return 1;
    }
    struct endpoint endpoint = redis_process_endpoint(&bench.server);
    struct redis_options redis_options = {.n_endpoints = 1,
                                          .endpoints = &endpoint,
                                          .scripts = scripts,
                                          .n_scripts = REDIS_SCRIPT_SETTLE + 1};
    bench.loop = ev_loop_new(EVFLAG_NOENV);
    struct redis *redis = redis_new(&redis_options);
    struct router *router = router_new(redis, bench.loop, 1);
    struct store *local = local_new(1 << 20, 1 << 10, secret);
    struct health *health = health_new(0, 1, clock_now());
    bench.counters = counters_new(1);
    bench.store = redis_store_new(
        &(struct redis_store_options){.local = local,
                                      .seam = router_seam(router),
                                      .health = health,
                                      .prefix = "rl",
                                      .secret = secret});
    for (unsigned i = 0; i < 50; i++) { /* until it is connected */
        (void)ev_run(bench.loop, EVRUN_NOWAIT);
        ev_sleep(0.01);
    }
    bool ok = run_all(n_requests);
    (void)printf("%lu requests not counted by Redis\n", bench.n_bad);
    router_free(router);
    redis_free(redis);
    store_free(bench.store);
    store_free(local);
    health_free(health);
    counters_free(bench.counters);
    ev_loop_destroy(bench.loop);
    redis_process_stop(&bench.server);
    return !ok || bench.n_bad > 0;
}
