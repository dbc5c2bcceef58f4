#include "tests/simulation/fleet.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "agent/store/local.h"
#include "agent/store/redis.h"

static void host_count_ahead(struct fleet_host *host)
{
    struct leases_options leases = {
        .share = FLEET_LEASE_SHARE,
        .horizon_us = US_PER_S,
        .ttl_us = FLEET_LEASE_TTL_US,
    };
    host->leases = leases_new(&leases);
    host->syncs = syncs_new(FLEET_SYNC_INTERVAL_US);
    ENSURE(host->leases != NULL && host->syncs != NULL);
}

/* What workers of a host share: the first has it. */
static void host_begin(struct fleet_host *host, struct fleet *fleet, unsigned i,
                       bool counts_ahead)
{
    const struct fleet_host *first = &fleet->hosts[i - i % fleet->n_workers];
    if (first != host) {
        *host = *first;
        return;
    }
    host->health = health_new(2 * US_PER_MS, fleet->n_hosts / fleet->n_workers,
                              sim_now(fleet->sim));
    host->name[0] = (uint8_t)i;
    ENSURE(host->health != NULL);
    if (counts_ahead) {
        host_count_ahead(host);
    }
}

static void init(struct fleet *fleet, uint64_t seed, unsigned n_nodes,
                 bool counts_ahead)
{
    /* What stores reserve and mostly do not use need not be cleared for each fleet. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 16);
    fleet->sim = sim_new(seed, n_nodes, fleet->n_hosts);
    for (unsigned i = 0; i < fleet->n_hosts; i++) {
        uint8_t secret[LOCAL_SECRET_BYTES] = {(uint8_t)i};
        struct fleet_host *host = &fleet->hosts[i];
        host_begin(host, fleet, i, counts_ahead);
        host->local = local_new((size_t)1 << 20, (size_t)1 << 16, secret);
        host->counters = counters_new(16);
        ENSURE(host->local != NULL && host->counters != NULL);
        struct redis_store_options options = {
            .local = host->local,
            .seam = sim_seam(fleet->sim, i),
            .health = host->health,
            .prefix = "rl",
            .secret = secret,
            .leases = host->leases,
            .syncs = host->syncs,
            .host = host->name,
            .worker = i % fleet->n_workers,
        };
        host->redis = redis_store_new(&options);
        ENSURE(host->redis != NULL);
    }
}

void fleet_init(struct fleet *fleet, uint64_t seed, unsigned n_nodes, unsigned n_hosts)
{
    *fleet = (struct fleet){.n_hosts = n_hosts, .n_workers = 1};
    init(fleet, seed, n_nodes, false);
}

void fleet_init_ahead(struct fleet *fleet, uint64_t seed, unsigned n_nodes,
                      unsigned n_hosts)
{
    *fleet = (struct fleet){.n_hosts = n_hosts, .n_workers = 1};
    init(fleet, seed, n_nodes, true);
}

void fleet_init_workers(struct fleet *fleet, uint64_t seed, unsigned n_hosts,
                        unsigned n_workers)
{
    *fleet = (struct fleet){.n_hosts = n_hosts * n_workers, .n_workers = n_workers};
    init(fleet, seed, 1, true);
}

void fleet_fini(struct fleet *fleet)
{
    sim_heal(fleet->sim); /* breakers would probe for ever */
    sim_run(fleet->sim, 5 * US_PER_S);
    for (unsigned i = 0; i < fleet->n_hosts; i++) {
        struct fleet_host *host = &fleet->hosts[i];
        ENSURE(redis_store_n_under_way(host->redis) == 0);
        store_free(host->redis);
        store_free(host->local);
        counters_free(host->counters);
    }
    for (unsigned i = 0; i < fleet->n_hosts; i += fleet->n_workers) {
        health_free(fleet->hosts[i].health);
        leases_free(fleet->hosts[i].leases);
        syncs_free(fleet->hosts[i].syncs);
    }
    ENSURE(sim_n_in_flight(fleet->sim) == 0);
    sim_free(fleet->sim);
}

void fleet_limit_init(struct fleet_limit *limit, const struct limit *what,
                      const char *name, bool is_local)
{
    memset(limit, 0, sizeof(*limit));
    limit->limit = *what;
    limit->is_local = is_local;
    (void)snprintf(limit->name, sizeof(limit->name), "%s", name);
    memcpy(limit->id, name, strnlen(name, sizeof(limit->id)));
    limit->home.n_shards = 1;
    limit->home.share = FALLBACK_SHARE_WHOLE;
    memcpy(limit->home.fallback_id, limit->id, sizeof(limit->id));
    limit->home.fallback_id[0] ^= 0xff;
    fallback_init(&limit->home.fallback, what, what->requests, 1);
}

void fleet_add(struct fleet_request *request, const struct fleet_limit *limit,
               const char *key, int64_t cost)
{
    unsigned at = request->take.n_charges++;
    struct store_charge *charge = &request->take.charges[at];
    (void)snprintf(request->names[at], sizeof(request->names[at]), "rl:api:{%s}:%s",
                   key, limit->name);
    charge->limit = &limit->limit;
    charge->limit_id = limit->id;
    charge->key = (const uint8_t *)request->names[at];
    charge->key_bytes = strlen(request->names[at]);
    charge->cost = cost;
    if (!limit->is_local) {
        charge->home = &limit->home;
        charge->name = request->names[at];
        charge->name_bytes = charge->key_bytes;
    }
}

static void on_done(struct store_take *take)
{
    struct fleet_request *request = CONTAINER_OF(take, struct fleet_request, take);
    ENSURE(!request->is_done); /* exactly once */
    request->is_done = true;
    request->done_at = sim_now(request->fleet->sim);
    if (request->on_done != NULL) {
        request->on_done(request);
    }
}

void fleet_ask(struct fleet *fleet, unsigned host, struct fleet_request *request)
{
    request->fleet = fleet;
    request->asked_at = sim_now(fleet->sim);
    request->take.now = seam_now(sim_seam(fleet->sim, host));
    if (request->take.deadline.us == 0) {
        request->take.deadline = instant_add_us(request->take.now, FLEET_DEADLINE_US);
    }
    request->take.counters = fleet->hosts[host].counters;
    request->take.done = on_done;
    store_take(fleet->hosts[host].redis, &request->take);
    /* The caller's bytes go when the take was begun. */
    memset(request->names, 'x', sizeof(request->names));
}

bool fleet_wait(struct fleet *fleet, struct fleet_request *request)
{
    for (int64_t us = 0; !request->is_done && us <= FLEET_DEADLINE_US; us += 50) {
        sim_run(fleet->sim, 50);
    }
    return request->is_done;
}
