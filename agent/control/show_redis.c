#include "agent/control/show_redis.h"

#include <inttypes.h>

#include "agent/observe/metrics.h"

void show_redis_nodes(struct health *health, FILE *out)
{
    struct instant now = clock_now();
    (void)fprintf(out, "agents=%u\n", health_n_agents(health));
    for (unsigned i = 0; i < health_n_nodes(health); i++) {
        struct breaker_status status = health_status(health, i, now);
        (void)fprintf(out,
                      "node=%u breaker=%s cause=\"%s\" opened=%" PRIu64
                      " last_failure=\"%s\"\n",
                      i, breaker_state_text(status.state),
                      breaker_cause_text(status.cause), status.n_opened,
                      health_failure(health, i));
    }
}

/* As many shards as bring each below what is hot; a power of two. */
static unsigned shards_for(uint64_t per_s)
{
    unsigned n = 2;
    while (n < RULES_SHARDS_MAX && per_s / n >= HOT_PER_S_MIN) {
        n *= 2;
    }
    return n;
}

void show_redis_hot(struct hot *hot, FILE *out)
{
    struct hot_name names[HOT_NAMES];
    unsigned n = hot_read(hot, clock_now(), names);
    for (unsigned i = 0; i < n; i++) {
        (void)fprintf(out,
                      "charges_per_s=%" PRIu64 " counter=%.*s try=\"store: lease, or "
                      "shards: %u\"\n",
                      names[i].per_s, (int)names[i].name_bytes, names[i].name,
                      shards_for(names[i].per_s));
    }
    if (n == 0) {
        (void)fprintf(out, "none over %d charges a second\n", (int)HOT_PER_S_MIN);
    }
}

static void print_round_trips(const struct health *health, FILE *out)
{
    uint64_t n = 0;
    (void)
        fputs("# HELP spoa_ratelimit_store_round_trip_seconds From a call of a script "
              "to its answer\n"
              "# TYPE spoa_ratelimit_store_round_trip_seconds histogram\n",
              out);
    for (unsigned i = 0; i < HEALTH_SPANS_N - 1; i++) {
        n += health_round_trips(health, i);
        (void)fprintf(
            out,
            "spoa_ratelimit_store_round_trip_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
            (double)(UINT64_C(1) << i) / 1e6, n);
    }
    n += health_round_trips(health, HEALTH_SPANS_N - 1);
    (void)fprintf(out,
                  "spoa_ratelimit_store_round_trip_seconds_bucket{le=\"+Inf\"} %" PRIu64
                  "\nspoa_ratelimit_store_round_trip_seconds_sum %g\n"
                  "spoa_ratelimit_store_round_trip_seconds_count %" PRIu64 "\n",
                  n, (double)health_round_trips_us(health) / 1e6, n);
}

static void print_leases(const struct leases *leases, FILE *out)
{
    struct leases_totals totals;
    leases_read(leases, &totals);
    metrics_print_one(out, "lease_granted_total", "counter",
                      "Tokens that Redis gave on lease", (int64_t)totals.n_granted);
    metrics_print_one(out, "lease_spent_total", "counter",
                      "Tokens spent from leases that were reported",
                      (int64_t)totals.n_spent);
    metrics_print_one(out, "lease_stranded_total", "counter",
                      "Tokens of leases that ended unreported",
                      (int64_t)totals.n_stranded);
    metrics_print_one(out, "lease_out", "gauge", "Tokens that are out on lease to here",
                      (int64_t)totals.n_out);
}

static void print_syncs(const struct syncs *syncs, FILE *out)
{
    struct sync_totals totals;
    syncs_read(syncs, &totals);
    metrics_print_one(out, "sync_exchanges_total", "counter",
                      "Counters that were exchanged with Redis",
                      (int64_t)totals.n_exchanges);
    metrics_print_one(out, "sync_drift_total", "counter",
                      "Tokens by which counters were off here, over all exchanges",
                      (int64_t)totals.drift);
    metrics_print_one(out, "sync_age_milliseconds", "gauge",
                      "Since the oldest last exchange of a counter in use",
                      totals.age_us / US_PER_MS);
}

void show_redis_metrics(const struct stores *stores, FILE *out)
{
    struct health *health = stores->health;
    struct instant now = clock_now();
    for (int i = 0; i < HEALTH_COUNTS_N; i++) {
        enum health_count count = (enum health_count)i;
        metrics_print_one(out, health_metric(count), "counter", health_help(count),
                          (int64_t)health_get(health, count));
    }
    unsigned n_open = 0;
    for (unsigned i = 0; i < health_n_nodes(health); i++) {
        n_open += health_status(health, i, now).state != BREAKER_CLOSED;
    }
    metrics_print_one(out, "store_breakers_open", "gauge",
                      "Redis nodes that are not, or not fully, asked", n_open);
    metrics_print_one(out, "store_agents", "gauge",
                      "Agents that share the traffic, this one included",
                      health_n_agents(health));
    metrics_print_one(
        out, "store_under_way", "gauge",
        "Requests and settlements with calls that have not ended, late ones "
        "included",
        health_n_under_way(health));
    print_leases(stores->leases, out);
    print_syncs(stores->syncs, out);
    print_round_trips(health, out);
}
