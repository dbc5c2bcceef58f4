/* One key far over its limit, asked for on several hosts at once, by `store: redis` or by
 * `store: lease`. Of each flood, over links whose round trip is less than a quarter of the
 * time that calls have:
 *
 * - Redis is asked at most (hosts + 1) times for each request that it admits, and once a
 *   second by each host; beside what was under way when a host heard its first refusal.
 * - It admits what one counter does that is asked for all of them, but for one in twenty and
 *   two: what is refused without asking takes nothing from anybody.
 * - Leases are asked for no more often than what they bring and the pause after none allow.
 * - Each request is decided by Redis, by its deadline.
 *
 * SEED=n begins with that seed; TRACES=1 tries that one only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"
#include "tests/support/prng.h"
#include "tests/support/seeds.h"

enum {
    TRACES = 40,
    HOSTS_MAX = 4,
    UNDER_WAY_MAX = 1024,
    SECONDS = 4,
    APART_US = 40, /* requests, on average */
};

struct host {
    unsigned n_under_way;
    bool has_heard; /* a refusal */
};

static struct {
    struct prng prng;
    struct fleet fleet;
    struct fleet_limit limit;
    struct limit_state counter; /* one for all, where asking takes no time */
    unsigned n_hosts;
    struct host hosts[HOSTS_MAX];
    unsigned of_request[UNDER_WAY_MAX];
    struct fleet_request requests[UNDER_WAY_MAX];
    int64_t n_due;
    int64_t n_admitted;
    int64_t n_early; /* under way when a host heard its first refusal */
    uint64_t n_asked_all;
    uint64_t n_calls_all;
    uint64_t n_admitted_all;
    uint64_t n_orders_all;
} t;

static uint64_t below(uint64_t n)
{
    return prng_below(&t.prng, n);
}

static void on_done(struct fleet_request *request)
{
    const struct store_take *take = &request->take;
    struct host *host = &t.hosts[t.of_request[request - t.requests]];
    assert_int_equal(take->charges[0].source, STORE_COUNTED);
    assert_true(instant_diff_us(request->done_at, request->asked_at)
                <= FLEET_DEADLINE_US);
    if (take->is_allowed) {
        t.n_admitted++;
    } else if (!host->has_heard) {
        host->has_heard = true;
        t.n_early += host->n_under_way;
    }
    host->n_under_way--;
}

static void ask(void)
{
    unsigned i = 0;
    while (t.requests[i].fleet != NULL && !t.requests[i].is_done) {
        i++;
        assert_true(i < UNDER_WAY_MAX);
    }
    struct fleet_request *request = &t.requests[i];
    unsigned host = (unsigned)below(t.n_hosts);
    memset(request, 0, sizeof(*request));
    request->on_done = on_done;
    t.of_request[i] = host;
    t.hosts[host].n_under_way++;
    fleet_add(request, &t.limit, "a", 1);
    fleet_ask(&t.fleet, host, request);
    t.n_due += take(&t.limit.limit, &t.counter, sim_now(t.fleet.sim).us, 1).is_allowed;
}

static void make_world(void)
{
    bool is_leased = below(2) == 0;
    int64_t rate = 2 + (int64_t)below(is_leased ? 2000 : 200);
    const struct limit limits[] = {
        sliding(rate, US_PER_S),
        bucket(rate, is_leased ? rate : 2 + (int64_t)below(40), US_PER_S),
        fixed(rate, US_PER_S),
    };
    t.n_hosts = 1 + (unsigned)below(HOSTS_MAX);
    fleet_init_ahead(&t.fleet, prng_next(&t.prng), 1, t.n_hosts);
    fleet_limit_init(&t.limit, &limits[below(ARRAY_LEN(limits))], "limit", false);
    t.limit.home.kind = is_leased ? STORE_KIND_LEASE : STORE_KIND_REDIS;
    for (unsigned i = 0; i < t.n_hosts; i++) {
        int64_t least_us = 10 + (int64_t)below(250);
        sim_set_latency(t.fleet.sim, i, least_us, least_us + (int64_t)below(250));
        sim_set_host_skew(t.fleet.sim, i, (int64_t)below(US_PER_S));
    }
}

static void check_flood(void)
{
    int64_t n_calls = (int64_t)sim_n_scripts(t.fleet.sim, REDIS_SCRIPT_TAKE);
    int64_t n_orders = (int64_t)sim_n_scripts(t.fleet.sim, REDIS_SCRIPT_LEASE);
    int64_t n_hosts = t.n_hosts;
    int64_t n_pauses = n_hosts * SECONDS * US_PER_S / LEASE_PAUSE_US;
    assert_true(n_calls
                <= (n_hosts + 1) * t.n_admitted + n_hosts * SECONDS + t.n_early);
    assert_true(n_orders <= n_pauses + t.n_admitted / LEASE_BLOCK_MIN);
    assert_true(t.n_admitted >= t.n_due - t.n_due / 20 - 2);
    t.n_calls_all += (uint64_t)n_calls;
    t.n_admitted_all += (uint64_t)t.n_admitted;
    t.n_orders_all += (uint64_t)n_orders;
}

static void trace(uint64_t seed)
{
    prng_init(&t.prng, seed);
    memset(&t.counter, 0, sizeof(t.counter));
    memset(t.hosts, 0, sizeof(t.hosts));
    memset(t.requests, 0, sizeof(t.requests));
    t.n_due = t.n_admitted = t.n_early = 0;
    make_world();
    for (int64_t us = 0; us < SECONDS * US_PER_S; us += APART_US) {
        ask();
        t.n_asked_all++;
        sim_run(t.fleet.sim, (int64_t)below(2 * APART_US));
    }
    sim_run(t.fleet.sim, FLEET_DEADLINE_US);
    for (unsigned i = 0; i < t.n_hosts; i++) {
        assert_int_equal(t.hosts[i].n_under_way, 0);
    }
    check_flood();
    fleet_fini(&t.fleet);
}

static void laws_of_a_flood(void **context)
{
    (void)context;
    seeds_try(20261130, TRACES, trace);
    print_message("%llu asked, %llu admitted, %llu calls, %llu for leases\n",
                  (unsigned long long)t.n_asked_all,
                  (unsigned long long)t.n_admitted_all,
                  (unsigned long long)t.n_calls_all,
                  (unsigned long long)t.n_orders_all);
    assert_true(t.n_orders_all > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(laws_of_a_flood)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
