/*
 * bench_sizing [COUNTERS [leases]]: what counters and calls take of a redis-server. Of each
 * algorithm: its memory by counter (of INFO, and of MEMORY USAGE), and its CPU by call; then
 * its CPU by call of 1 to 4 limits. Then, or with `leases` only, the CPU of an order for a
 * block. The figures of agent/command/check_redis_size.h are from here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ev.h>

#include "agent/redis/router.h"
#include "agent/redis/script.h"

#include "tests/support/redis_process.h"

enum {
    DEPTH = 64, /* calls under way */
    LIMITS_MAX = 4,
    ORDERS_MAX = 16, /* of leases, in a call */
    LEASED = 2,      /* the limits of which that is measured: the first ones */
    BLOCK = 50,
    NAME_BYTES_MAX = 96,
    EVENTS = 100, /* of a log that is full */
};

struct kind {
    const char *name;
    char letter;
    struct limit limit;
};

static const struct kind kinds[] = {
    {"sliding_window",
     's',
     {.algorithm = LIMIT_SLIDING_WINDOW, .requests = 600, .size = 600}},
    {"token_bucket",
     't',
     {.algorithm = LIMIT_TOKEN_BUCKET, .requests = 600, .size = 600}},
    {"fixed_window",
     'f',
     {.algorithm = LIMIT_FIXED_WINDOW, .requests = 600, .size = 600}},
    {"leaky_bucket",
     'l',
     {.algorithm = LIMIT_LEAKY_BUCKET, .requests = 600, .size = 600}},
    {"sliding_log",
     'g',
     {.algorithm = LIMIT_SLIDING_LOG, .requests = EVENTS, .size = EVENTS}},
};

struct ask {
    struct seam_call call;
    struct seam_bytes keys[ORDERS_MAX];
    char names[ORDERS_MAX][NAME_BYTES_MAX];
    uint8_t arg_buf[SCRIPT_LEASE_BYTES_MAX]; /* of leases */
    struct seam_bytes arg;
};

static struct {
    struct redis_process server;
    struct ev_loop *loop;
    struct seam *seam;
    char letter;
    const struct limit *limit; /* of leases */
    unsigned n_limits;
    unsigned n_counters;
    unsigned long n_calls;
    unsigned long n_begun;
    unsigned long n_done;
    unsigned long n_bad;
    uint8_t arg_buf[SCRIPT_TAKE_BYTES_MAX];
    struct seam_bytes arg;
    struct ask asks[DEPTH];
} bench;

static size_t write_name(char *name, unsigned long client, unsigned limit)
{
    return (size_t)snprintf(name, NAME_BYTES_MAX,
                            "rl:public_api:{ip=%lu.%lu.%lu.%lu}:anon_per_ip%u:%c3600s",
                            100 + client / 1000000, 100 + client / 10000 % 100,
                            100 + client / 100 % 100, 100 + client % 100, limit,
                            bench.letter);
}

static void begin(struct ask *ask)
{
    unsigned long client = bench.n_begun++ % bench.n_counters;
    for (unsigned i = 0; i < bench.n_limits; i++) {
        ask->keys[i] = (struct seam_bytes){ask->names[i],
                                           write_name(ask->names[i], client, i)};
    }
    ask->call.deadline = instant_add_us(clock_now(), 60 * US_PER_S);
    seam_run(bench.seam, &ask->call);
}

static void on_done(struct seam_call *call, const struct seam_reply *reply)
{
    bench.n_done++;
    bench.n_bad += reply == NULL || reply->values[1].integer != 1;
    if (bench.n_begun < bench.n_calls) {
        begin(CONTAINER_OF(call, struct ask, call));
    } else if (bench.n_done == bench.n_calls) {
        ev_break(bench.loop, EVBREAK_ALL);
    }
}

/* @return CPU of the server, by call */
static double run(const struct limit *limit, unsigned n_limits, unsigned long n_calls)
{
    static struct store_take take;
    double before_us = redis_process_cpu_us(&bench.server);
    take.n_charges = n_limits;
    for (unsigned i = 0; i < n_limits; i++) {
        take.charges[i] = (struct store_charge){.limit = limit, .cost = 1};
    }
    bench.arg = (struct seam_bytes){bench.arg_buf,
                                    script_encode_take(&take, bench.arg_buf)};
    bench.n_limits = n_limits;
    bench.n_calls = n_calls;
    bench.n_begun = 0;
    bench.n_done = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        bench.asks[i].call = (struct seam_call){.keys = bench.asks[i].keys,
                                                .n_keys = n_limits,
                                                .args = &bench.arg,
                                                .n_args = 1,
                                                .done = on_done,
                                                .late = on_done};
        begin(&bench.asks[i]);
    }
    (void)ev_run(bench.loop, 0);
    return (redis_process_cpu_us(&bench.server) - before_us) / (double)n_calls;
}

/* --- leases --- */

/* Orders of one call: a block each, for the one before, of which all was spent. */
static void begin_orders(struct ask *ask)
{
    static const uint8_t host[SCRIPT_HOST_BYTES] = "bench";
    struct script_lease_order orders[ORDERS_MAX];
    unsigned long n_groups = bench.n_counters / bench.n_limits;
    unsigned long group = bench.n_begun % n_groups;
    uint32_t seq = (uint32_t)(bench.n_begun++ / n_groups) + 1;
    for (unsigned i = 0; i < bench.n_limits; i++) {
        size_t n = write_name(ask->names[i], group * bench.n_limits + i, 0);
        ask->keys[i] = (struct seam_bytes){ask->names[i], n};
        orders[i] = (struct script_lease_order){.limit = bench.limit,
                                                .want = BLOCK,
                                                .cap = (int64_t)10 * BLOCK,
                                                .divisor = 2,
                                                .new_seq = seq + 1,
                                                .n_reports = 1};
        orders[i].reports[0].seq = seq;
        orders[i].reports[0].spent = BLOCK;
    }
    ask->arg = (struct seam_bytes){ask->arg_buf,
                                   script_encode_lease(host, 2000, clock_now(), orders,
                                                       bench.n_limits, ask->arg_buf)};
    ask->call.n_keys = bench.n_limits;
    ask->call.args = &ask->arg;
    ask->call.script = 1;
    ask->call.deadline = instant_add_us(clock_now(), 60 * US_PER_S);
    seam_run(bench.seam, &ask->call);
}

static void on_ordered(struct seam_call *call, const struct seam_reply *reply)
{
    bench.n_done++;
    bench.n_bad += reply == NULL;
    if (bench.n_begun < bench.n_calls) {
        begin_orders(CONTAINER_OF(call, struct ask, call));
    } else if (bench.n_done == bench.n_calls) {
        ev_break(bench.loop, EVBREAK_ALL);
    }
}

/* @return CPU of the server, by order */
static double run_orders(const struct limit *limit, unsigned n_orders,
                         unsigned long n_calls)
{
    double before_us = redis_process_cpu_us(&bench.server);
    bench.limit = limit;
    bench.n_limits = n_orders;
    bench.n_calls = n_calls;
    bench.n_begun = 0;
    bench.n_done = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        bench.asks[i].call = (struct seam_call){.keys = bench.asks[i].keys,
                                                .n_args = 1,
                                                .done = on_ordered,
                                                .late = on_ordered};
        begin_orders(&bench.asks[i]);
    }
    (void)ev_run(bench.loop, 0);
    return (redis_process_cpu_us(&bench.server) - before_us) / (double)n_calls
           / n_orders;
}

static void measure_orders(const struct kind *kind)
{
    struct limit limit = kind->limit;
    limit.requests = 1000000000;
    limit.size = 1000000000;
    limit.per_ticks = 360000;
    limit.tick_us = 10000;
    bench.letter = kind->letter;
    (void)printf("%-14s leases, us an order, of calls with", kind->name);
    for (unsigned n = 1; n <= ORDERS_MAX; n *= 4) {
        unsigned long n_calls = bench.n_counters / n;
        (void)run_orders(&limit, n, n_calls);
        (void)printf(" %u: %.1f", n, run_orders(&limit, n, 2 * n_calls));
        (void)fflush(stdout);
    }
    (void)printf("\n");
}

static double memory_usage(void)
{
    char command[NAME_BYTES_MAX + 32];
    char name[NAME_BYTES_MAX];
    char reply[64];
    (void)write_name(name, 1, 0);
    (void)snprintf(command, sizeof(command), "MEMORY USAGE %s", name);
    return redis_process_tell(&bench.server, command, reply, sizeof(reply))
               ? strtod(reply + 1, NULL)
               : -1;
}

static void clear(void)
{
    char reply[64];
    (void)redis_process_tell(&bench.server, "FLUSHALL", reply, sizeof(reply));
}

static void measure(const struct kind *kind)
{
    struct limit limit = kind->limit;
    char name[NAME_BYTES_MAX];
    limit.per_ticks = 360000;
    limit.tick_us = 10000;
    limit.max_delay_ticks = limit.per_ticks;
    bench.letter = kind->letter;
    bool is_log = limit.algorithm == LIMIT_SLIDING_LOG;
    unsigned n_all = bench.n_counters;
    bench.n_counters = is_log ? n_all / 10 : n_all;
    clear();
    double before = redis_process_info(&bench.server, "memory", "\nused_memory:");
    double us = run(&limit, 1, bench.n_counters);
    double again_us = is_log ? run(&limit, 1, bench.n_counters * (EVENTS - 1))
                             : run(&limit, 1, bench.n_counters);
    double bytes = (redis_process_info(&bench.server, "memory", "\nused_memory:")
                    - before)
                   / bench.n_counters;
    (void)printf(
        "%-14s name %zu: %.0f bytes a counter, MEMORY USAGE %.0f; %.1f us a call, "
        "%.1f of a new one\n",
        kind->name, write_name(name, 1, 0), bytes, memory_usage(), again_us, us);
    for (unsigned n = 2; !is_log && n <= LIMITS_MAX; n++) {
        (void)run(&limit, n, bench.n_counters);
        (void)printf("               %u limits: %.1f us a call\n", n,
                     run(&limit, n, bench.n_counters));
    }
    bench.n_counters = n_all;
}

int main(int argc, char **argv)
{
    static const char *const options[] = {NULL};
    struct link_script scripts[] = {
        {.text = script_take.text, .text_bytes = script_take.text_bytes},
        {.text = script_lease.text, .text_bytes = script_lease.text_bytes},
    };
    link_script_name(&scripts[0]);
    link_script_name(&scripts[1]);
    bench.n_counters = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
    if (bench.n_counters < 10 * DEPTH || !redis_process_start(&bench.server, options)) {
        return 1;
    }
    struct endpoint endpoint = redis_process_endpoint(&bench.server);
    struct redis_options redis_options = {.n_endpoints = 1,
                                          .endpoints = &endpoint,
                                          .scripts = scripts,
                                          .n_scripts = ARRAY_LEN(scripts)};
    bench.loop = ev_loop_new(EVFLAG_NOENV);
    struct redis *redis = redis_new(&redis_options);
    struct router *router = router_new(redis, bench.loop, 1);
    bench.seam = router_seam(router);
    for (unsigned i = 0; i < 50; i++) { /* until it is connected */
        (void)ev_run(bench.loop, EVRUN_NOWAIT);
        ev_sleep(0.01);
    }
    bool is_all = argc < 3;
    for (size_t i = 0; is_all && i < ARRAY_LEN(kinds); i++) {
        measure(&kinds[i]);
    }
    clear();
    for (size_t i = 0; i < LEASED; i++) {
        measure_orders(&kinds[i]);
    }
    (void)printf("%lu calls failed\n", bench.n_bad);
    router_free(router);
    redis_free(redis);
    ev_loop_destroy(bench.loop);
    redis_process_stop(&bench.server);
    return bench.n_bad > 0;
}
