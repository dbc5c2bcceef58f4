#include "agent/control/show_redis.h"

#include <inttypes.h>

#include "agent/observe/metrics.h"

void show_redis_nodes(struct health *health, FILE *out)
{
    struct instant now = clock_now();
    (void)fprintf(out, "agents=%u\n", health_n_agents(health));
    for (unsigned i = 0; i < health_n_nodes(health); i++) {
        struct breaker_status status = health_status(health, i, now);
        (void)fprintf(out, "node=%u breaker=%s cause=\"%s\" opened=%" PRIu64 "\n", i,
                      breaker_state_text(status.state),
                      breaker_cause_text(status.cause), status.n_opened);
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

void show_redis_metrics(struct health *health, FILE *out)
{
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
    print_round_trips(health, out);
}
