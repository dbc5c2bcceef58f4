/**
 * @file tests/simulation/fleet.h  Hosts with the real stores, over the Redis of sim.h.
 */
#ifndef TESTS_SIMULATION_FLEET_H
#define TESTS_SIMULATION_FLEET_H

#include "agent/redis/script.h"
#include "agent/store/health.h"
#include "agent/store/leases.h"
#include "agent/store/store.h"
#include "agent/store/syncs.h"

#include "tests/simulation/sim.h"

#define FLEET_DEADLINE_US      (5 * US_PER_MS)
#define FLEET_LEASE_SHARE      500 /* in 1/FALLBACK_SHARE_WHOLE */
#define FLEET_LEASE_TTL_US     (2 * US_PER_S)
#define FLEET_SYNC_INTERVAL_US (100 * US_PER_MS)

struct fleet_host {
    struct store *local;
    struct store *redis;
    struct health *health;
    struct leases *leases;
    struct syncs *syncs;
    uint8_t name[SCRIPT_HOST_BYTES];
    struct counters *counters;
};

struct fleet {
    struct sim *sim;
    unsigned n_hosts;   /* workers of one each, or of several */
    unsigned n_workers; /* of a host: neighbours, that share what workers do */
    struct fleet_host hosts[SIM_HOSTS_MAX];
};

void fleet_init(struct fleet *fleet, uint64_t seed, unsigned n_nodes, unsigned n_hosts);

/** The same, whose hosts have leases and syncs. */
void fleet_init_ahead(struct fleet *fleet, uint64_t seed, unsigned n_nodes,
                      unsigned n_hosts);

/** The same over one node, where each host has so many workers. */
void fleet_init_workers(struct fleet *fleet, uint64_t seed, unsigned n_hosts,
                        unsigned n_workers);

/** Waits, in virtual time, for what is under way; aborts where something stays so. */
void fleet_fini(struct fleet *fleet);

/** A limit and where it is counted. */
struct fleet_limit {
    struct limit limit;
    uint8_t id[STORE_LIMIT_ID_BYTES];
    char name[32];
    bool is_local;
    struct store_home home;
};

void fleet_limit_init(struct fleet_limit *limit, const struct limit *what,
                      const char *name, bool is_local);

/** A request under way. Zeroed. */
struct fleet_request {
    struct store_take take;
    void (*on_done)(struct fleet_request *request); /* NULL: nobody is told */
    bool is_done;
    struct instant asked_at; /* true time, as is done_at */
    struct instant done_at;
    struct fleet *fleet;
    char names[STORE_CHARGES_MAX][96];
};

/** Add a charge; whose keys are one key are one counter. */
void fleet_add(struct fleet_request *request, const struct fleet_limit *limit,
               const char *key, int64_t cost);

/** Begin it on a host. */
void fleet_ask(struct fleet *fleet, unsigned host, struct fleet_request *request);

/** Let time pass until it is done; false: it is not by its deadline. */
bool fleet_wait(struct fleet *fleet, struct fleet_request *request);

#endif
