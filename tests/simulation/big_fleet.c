/* One long schedule at the size that the product is planned for: 20 agents, 2 000 000
 * identities, of which a minute's requests are drawn by Zipf's law, 100 routes. Each request
 * is charged to its identity, every other one to its route, too; all of it by `store: lease`.
 * Printed: calls a second by script, how much of it was spent from leases, refusals, memory.
 *
 * RATE=n requests a second of virtual time, SECONDS=n of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>

#include <cmocka.h>

#include "agent/bench/keys.h"
#include "agent/log.h"
#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"

enum {
    HOSTS = 20,
    IDENTITIES = 2000000,
    ROUTES = 100,
    RING = 4096, /* more than are asked within a deadline */
    STEP_US = 100,
    MINUTE_S = 60,
};

static struct {
    struct fleet fleet;
    struct fleet_limit identity;
    struct fleet_limit route;
    struct fleet_request ring[RING];
    uint64_t n_requests;
    uint64_t n_allowed;
    uint64_t n_charges;
    uint64_t n_by_policy;
} t;

static unsigned long number_of(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoul(text, NULL, 10) : otherwise;
}

static void judge(const struct fleet_request *request)
{
    const struct store_take *take = &request->take;
    if (take->n_charges == 0) {
        return;
    }
    assert_true(request->is_done);
    t.n_allowed += take->is_allowed;
    for (unsigned i = 0; i < take->n_charges; i++) {
        t.n_charges++;
        t.n_by_policy += take->charges[i].source > STORE_UNASKED;
    }
}

static void ask(struct keys *identities)
{
    char key[32];
    struct fleet_request *request = &t.ring[t.n_requests++ % RING];
    judge(request);
    memset(request, 0, sizeof(*request));
    uint64_t identity = keys_next(identities);
    uint64_t draw = keys_random(identities);
    (void)snprintf(key, sizeof(key), "key=%llu", (unsigned long long)identity);
    fleet_add(request, &t.identity, key, 1);
    if (draw % 2 == 0) {
        (void)snprintf(key, sizeof(key), "route=%llu",
                       (unsigned long long)(draw / 2 % ROUTES));
        fleet_add(request, &t.route, key, 1);
    }
    fleet_ask(&t.fleet, (unsigned)(draw >> 32) % HOSTS, request);
}

static void print_figures(unsigned long seconds, long rss_kib)
{
    const struct sim *sim = t.fleet.sim;
    uint64_t n_take = sim_n_scripts(sim, REDIS_SCRIPT_TAKE);
    uint64_t n_lease = sim_n_scripts(sim, REDIS_SCRIPT_LEASE);
    uint64_t n_settle = sim_n_scripts(sim, REDIS_SCRIPT_SETTLE);
    uint64_t n_again = 0;
    uint64_t n_granted = 0;
    uint64_t n_stranded = 0;
    for (unsigned i = 0; i < HOSTS; i++) {
        struct leases_totals totals;
        leases_read(t.fleet.hosts[i].leases, &totals);
        n_granted += totals.n_granted;
        n_stranded += totals.n_stranded;
        n_again += health_get(t.fleet.hosts[i].health, HEALTH_REFUSED_AGAIN);
    }
    print_message(
        "%llu requests in %lu s, %.2f %% refused, %llu of %llu charges by policy\n"
        "calls/s: take %.0f, lease %.0f, settle %.0f; %.1f for 100 requests\n"
        "refused from the cache: %llu; tokens leased %llu, stranded %llu\n"
        "memory of the simulation, Redis and %d hosts: %ld MiB\n",
        (unsigned long long)t.n_requests, seconds,
        100.0 * (double)(t.n_requests - t.n_allowed) / (double)t.n_requests,
        (unsigned long long)t.n_by_policy, (unsigned long long)t.n_charges,
        (double)n_take / (double)seconds, (double)n_lease / (double)seconds,
        (double)n_settle / (double)seconds,
        100.0 * (double)(n_take + n_lease + n_settle) / (double)t.n_requests,
        (unsigned long long)n_again, (unsigned long long)n_granted,
        (unsigned long long)n_stranded, (int)HOSTS, rss_kib / 1024);
    assert_int_equal(n_stranded, 0);
    assert_int_equal(t.n_by_policy, 0);
}

static void minute_of_a_large_fleet(void **context)
{
    unsigned long rate = number_of("RATE", 20000);
    unsigned long seconds = number_of("SECONDS", MINUTE_S);
    struct limit per_identity = sliding(6000, MINUTE_US);
    struct limit per_route = bucket(2000, 2000, US_PER_S);
    struct keys identities;
    struct rusage usage;
    (void)context;
    keys_init(&identities, IDENTITIES, 1.0, 20261130);
    fleet_init_ahead(&t.fleet, 20261130, 1, HOSTS);
    fleet_limit_init(&t.identity, &per_identity, "identity", false);
    fleet_limit_init(&t.route, &per_route, "route", false);
    t.identity.home.kind = STORE_KIND_LEASE;
    t.route.home.kind = STORE_KIND_LEASE;
    for (uint64_t step = 0; step < seconds * (US_PER_S / STEP_US); step++) {
        while (t.n_requests < step * rate * STEP_US / US_PER_S) {
            ask(&identities);
        }
        sim_run(t.fleet.sim, STEP_US);
    }
    sim_run(t.fleet.sim, FLEET_DEADLINE_US);
    for (unsigned i = 0; i < RING; i++) {
        judge(&t.ring[i]);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    print_figures(seconds, usage.ru_maxrss);
    fleet_fini(&t.fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(minute_of_a_large_fleet)};
    log_start(LOG_LEVEL_WARNING);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
