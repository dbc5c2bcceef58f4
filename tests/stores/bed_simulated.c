#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/simulation/sim.h"
#include "tests/stores/bed_redis.h"

enum {
    WAITS = 1000 /* after which what is over is let go */
};

#define MOMENT_US (10 * US_PER_MS)

static struct sim *sim;
static unsigned n_waits;

/* The clocks of all, which go on from there. */
static void set_clock(struct trace_target *target, struct instant now)
{
    int64_t skew_us = instant_diff_us(now, sim_now(sim));
    (void)target;
    sim_set_host_skew(sim, 0, skew_us);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
        sim_set_node_skew(sim, i, skew_us);
    }
}

/* The network takes no time. */
static bool wait_for_none(struct trace_target *target)
{
    sim_run(sim, 0);
    assert_int_equal(redis_store_n_under_way(target->store), 0);
    if (++n_waits % WAITS == 0) {
        sim_run(sim, TRACE_DEADLINE_US + US_PER_S);
    }
    return true;
}

static void stall(struct bed *bed, bool is_stalled)
{
    (void)bed;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
        sim_set_health(sim, i, is_stalled ? SIM_STOPPED : SIM_UP);
    }
}

static uint64_t n_calls(struct bed *bed)
{
    (void)bed;
    return sim_n_scripts(sim, REDIS_SCRIPT_TAKE);
}

static void run(struct bed *bed)
{
    (void)bed;
    sim_run(sim, MOMENT_US);
}

static void start(struct bed *bed)
{
    sim = sim_new(1, bed->has_slots ? SIM_NODES_MAX : 1, 1);
    sim_set_latency(sim, 0, 0, 0);
    bed_redis_start(bed, sim_seam(sim, 0), sim_now(sim));
    bed->target.depth = 1; /* the clock of a node is looked at when a call arrives */
    bed->target.set_clock = set_clock;
    bed->target.wait = wait_for_none;
}

static void stop(struct bed *bed)
{
    bed_redis_stop(bed);
    sim_free(sim);
}

struct bed bed_simulated = {
    .name = "simulated",
    .start = start,
    .stop = stop,
    .stall = stall,
    .n_calls = n_calls,
    .run = run,
};

struct bed bed_simulated_cluster = {
    .name = "simulated_cluster",
    .has_slots = true,
    .start = start,
    .stop = stop,
    .stall = stall,
    .n_calls = n_calls,
    .run = run,
};

struct bed bed_lease_simulated = {
    .name = "lease_simulated",
    .kind = STORE_KIND_LEASE,
    .start = start,
    .stop = stop,
    .stall = stall,
    .run = run,
};

struct bed bed_sync_simulated = {
    .name = "sync_simulated",
    .kind = STORE_KIND_SYNC,
    .start = start,
    .stop = stop,
    .stall = stall,
    .run = run,
};
