#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/stores/bed_redis.h"
#include "tests/support/clock_seam.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/router_driver.h"
#include "tests/support/twin.h"

enum {
    SCRIPT_COUNTING = REDIS_SCRIPTS_N, /* behind those of the store */
    MOMENT_MS = 20,
};

#define PATIENCE_US (20 * US_PER_S)

static struct {
    struct redis_process server;
    struct redis_cluster cluster;
    struct endpoint endpoint;
    struct link_script scripts[REDIS_SCRIPTS_N + 1];
    struct redis_options options;
    struct router_driver driver;
    bool is_driving;
    struct clock_seam clock;
    uint64_t n_failed; /* so far */
} t;

static void set_clock(struct trace_target *target, struct instant now)
{
    (void)target;
    clock_seam_set(&t.clock, now);
}

static bool wait_for_none(struct trace_target *target)
{
    struct instant began = clock_now();
    while (redis_store_n_under_way(target->store) > 0) {
        (void)ev_run(t.driver.loop, EVRUN_ONCE);
        assert_true(instant_diff_us(clock_now(), began) < PATIENCE_US);
    }
    uint64_t n_failed = bed_redis_n_failed();
    bool is_good = n_failed == t.n_failed;
    t.n_failed = n_failed;
    return is_good;
}

static void run(struct bed *bed)
{
    (void)bed;
    for (unsigned i = 0; i < MOMENT_MS; i++) {
        (void)ev_run(t.driver.loop, EVRUN_NOWAIT);
        ev_sleep(0.001);
    }
}

static void stall(struct bed *bed, bool is_stalled)
{
    int number = is_stalled ? SIGSTOP : SIGCONT;
    if (!bed->has_slots) {
        assert_int_equal(kill(t.server.pid, number), 0);
    }
    for (unsigned i = 0; i < t.cluster.n_nodes; i++) {
        assert_int_equal(kill(t.cluster.nodes[i].pid, number), 0);
    }
}

static uint64_t n_calls_of(const struct redis_process *server)
{
    double n = redis_process_info(server, "commandstats", "cmdstat_evalsha:calls=");
    return n >= 0 ? (uint64_t)n : 0; /* none yet */
}

static uint64_t n_calls(struct bed *bed)
{
    uint64_t n = bed->has_slots ? 0 : n_calls_of(&t.server);
    for (unsigned i = 0; i < t.cluster.n_nodes; i++) {
        n += n_calls_of(&t.cluster.nodes[i]);
    }
    return n;
}

static void set_script(unsigned i, const struct script *script)
{
    t.scripts[i] = (struct link_script){.text = script->text,
                                        .text_bytes = script->text_bytes};
    link_script_name(&t.scripts[i]);
}

static void set_options(enum redis_mode mode, const struct redis_process *first)
{
    set_script(REDIS_SCRIPT_TAKE, &script_take_at);
    set_script(REDIS_SCRIPT_SETTLE, &script_settle_at);
    set_script(REDIS_SCRIPT_BEAT, &script_beat);
    set_script(REDIS_SCRIPT_LEASE, &script_lease_at);
    set_script(REDIS_SCRIPT_SYNC, &script_sync_at);
    t.scripts[SCRIPT_COUNTING] = *router_driver_script();
    t.endpoint = redis_process_endpoint(first);
    t.options = (struct redis_options){
        .mode = mode,
        .n_endpoints = 1,
        .endpoints = &t.endpoint,
        .scripts = t.scripts,
        .n_scripts = SCRIPT_COUNTING + 1,
    };
}

/* Until all nodes answer: some of so many keys are with each. */
static void connect_all(void)
{
    char key[16];
    t.driver.script = SCRIPT_COUNTING;
    for (unsigned i = 0; i < 10 * REDIS_CLUSTER_PRIMARIES; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_true(router_driver_recover(&t.driver, key, PATIENCE_US) >= 0);
    }
}

static void revive(struct trace_target *target)
{
    (void)target;
    connect_all();
    bed_redis_revive(t.clock.now);
}

static void drive(struct bed *bed)
{
    const struct instant now = {.us = BED_START_US};
    assert_true(router_driver_start(&t.driver, &t.options));
    t.is_driving = true;
    connect_all();
    clock_seam_init(&t.clock, t.driver.seam, now);
    t.clock.is_running = bed->kind != STORE_KIND_REDIS; /* leases end in time */
    bed_redis_start(bed, &t.clock.seam, now);
    bed->target.depth = TRACE_DEPTH_MAX; /* those of one slot are with one node */
    bed->target.has_groups = true;
    bed->target.set_clock = set_clock;
    bed->target.wait = wait_for_none;
    bed->target.revive = revive;
}

static void start_server(struct bed *bed)
{
    static const char *const options[] = {NULL};
    assert_true(redis_process_start(&t.server, options));
    set_options(REDIS_SINGLE, &t.server);
    drive(bed);
}

static void start_cluster(struct bed *bed)
{
    redis_cluster_start(&t.cluster, false);
    set_options(REDIS_CLUSTER, &t.cluster.nodes[0]);
    drive(bed);
}

static void stop(struct bed *bed)
{
    if (t.is_driving) {
        router_driver_stop(&t.driver);
        bed_redis_stop(bed);
    }
    redis_process_stop(&t.server);
    redis_cluster_stop(&t.cluster);
}

struct bed bed_server = {
    .name = "server",
    .start = start_server,
    .stop = stop,
    .stall = stall,
    .n_calls = n_calls,
    .run = run,
};

struct bed bed_cluster = {
    .name = "cluster",
    .has_slots = true,
    .start = start_cluster,
    .stop = stop,
    .stall = stall,
    .n_calls = n_calls,
    .run = run,
};

struct bed bed_lease_server = {
    .name = "lease_server",
    .kind = STORE_KIND_LEASE,
    .start = start_server,
    .stop = stop,
    .stall = stall,
    .run = run,
};

struct bed bed_sync_server = {
    .name = "sync_server",
    .kind = STORE_KIND_SYNC,
    .start = start_server,
    .stop = stop,
    .stall = stall,
    .run = run,
};
