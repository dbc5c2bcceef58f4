#include "agent/bench/report.h"

#include <inttypes.h>

static const char *const labels[TALLY_N] = {
#define X(name, label) [TALLY_##name] = (label),
    TALLY_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    const char *label;
    uint32_t per_million;
} quantiles[] = {
    {"p50", "latency_p50_us", 500000},       {"p90", "latency_p90_us", 900000},
    {"p99", "latency_p99_us", 990000},       {"p99.9", "latency_p99_9_us", 999000},
    {"p99.99", "latency_p99_99_us", 999900}, {"max", "latency_max_us", 1000000},
};

static double per_second(const struct bench_result *result)
{
    return result->measured_us > 0 ? (double)result->n_measured_acks * US_PER_S
                                         / (double)result->measured_us
                                   : 0;
}

static double mean_us(const struct bench_result *result)
{
    const struct histogram *h = &result->tally.latency_us;
    uint64_t n = histogram_count(h);
    return n > 0 ? (double)atomic_load(&h->sum) / (double)n : 0;
}

static double cpu_us_a_request(const struct bench_result *result)
{
    int64_t cpu_us = result->usage_after.cpu_us - result->usage_before.cpu_us;
    return result->n_measured_acks > 0
               ? (double)cpu_us / (double)result->n_measured_acks
               : 0;
}

static double cpu_share(const struct bench_result *result)
{
    int64_t cpu_us = result->usage_after.cpu_us - result->usage_before.cpu_us;
    return result->measured_us > 0 ? (double)cpu_us / (double)result->measured_us : 0;
}

static uint64_t counted(const struct bench_result *result, enum tally_counter counter)
{
    return tally_get(&result->tally, counter);
}

static void print_plan(const struct bench_plan *plan, FILE *out)
{
    (void)fprintf(out, "%s: %u connections, depth %u, threads %u, ", plan->address,
                  plan->n_connections, plan->depth, plan->n_threads);
    if (plan->rate > 0) {
        (void)fprintf(out, "open loop of %" PRIu64 "/s, ", plan->rate);
    } else {
        (void)fprintf(out, "closed loop, ");
    }
    (void)fprintf(out, "%" PRIu64 " keys", plan->n_keys);
    if (plan->is_in_turn) {
        (void)fprintf(out, " in turn");
    } else if (plan->zipf_s > 0) {
        (void)fprintf(out, " by Zipf's law, s = %g", plan->zipf_s);
    }
    (void)fprintf(out, "\n");
}

static void print_latency(const struct bench_plan *plan,
                          const struct bench_result *result, FILE *out)
{
    (void)fprintf(out, "latency, us  ");
    for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
        (void)fprintf(out, "%s %" PRIu64 "  ", quantiles[i].name,
                      histogram_quantile(&result->tally.latency_us,
                                         quantiles[i].per_million));
    }
    (void)fprintf(out, "mean %.1f, from %s\n", mean_us(result),
                  plan->rate > 0 ? "when each was due" : "sending");
}

static void print_connections(const struct bench_result *result, FILE *out)
{
    (void)fprintf(out,
                  "connections  %" PRIu64 " opened, %" PRIu64 " of them again; %" PRIu64
                  " lost, %" PRIu64 " closed on purpose\n",
                  counted(result, TALLY_OPENED), counted(result, TALLY_REOPENED),
                  tally_lost(&result->tally), counted(result, TALLY_CLOSED));
    for (unsigned i = TALLY_LOST_CONNECT; i <= TALLY_LOST_TIMEOUT; i++) {
        uint64_t n = counted(result, (enum tally_counter)i);
        if (n > 0) {
            (void)fprintf(out, "             %" PRIu64 " %s\n", n, labels[i]);
        }
    }
    if (result->tally.first_error[0] != '\0') {
        (void)fprintf(out, "first error  %s\n", result->tally.first_error);
    }
}

void report_print(const struct bench_plan *plan, const struct bench_result *result,
                  FILE *out)
{
    const int64_t kib = 1024;
    print_plan(plan, out);
    (void)fprintf(out, "ACKs         %.0f/s over %.2f s\n", per_second(result),
                  (double)result->measured_us / US_PER_S);
    print_latency(plan, result, out);
    (void)fprintf(out,
                  "verdicts     %" PRIu64 " allowed, %" PRIu64 " denied, %" PRIu64
                  " ACKs without one\n",
                  counted(result, TALLY_ALLOWED), counted(result, TALLY_DENIED),
                  counted(result, TALLY_WITHOUT_VERDICT));
    (void)fprintf(out,
                  "NOTIFYs      %" PRIu64 ", ACKs %" PRIu64 ", unanswered %" PRIu64
                  ", on connections closed on purpose %" PRIu64 "\n",
                  counted(result, TALLY_NOTIFIES), counted(result, TALLY_ACKS),
                  counted(result, TALLY_UNANSWERED),
                  counted(result, TALLY_UNANSWERED_CLOSED));
    if (counted(result, TALLY_UNSENT) > 0) {
        (void)fprintf(out, "too late     %" PRIu64 " more were due and never sent\n",
                      counted(result, TALLY_UNSENT));
    }
    print_connections(result, out);
    if (result->has_usage) {
        (void)fprintf(out,
                      "agent        %.3f us of CPU a request, %.0f %% of a core; RSS "
                      "%" PRId64 " KiB, at the end %" PRId64 " KiB\n",
                      cpu_us_a_request(result), cpu_share(result) * 100,
                      result->usage_before.rss_bytes / kib,
                      result->usage_after.rss_bytes / kib);
    }
}

/* A text of ours or of the command line, in quotes. */
static void print_json_text(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fprintf(out, "\\%c", *c);
        } else if (*c < ' ' || *c > '~') {
            (void)fprintf(out, "\\u%04x", *c);
        } else {
            (void)fputc(*c, out);
        }
    }
    (void)fputc('"', out);
}

void report_print_json(const struct bench_plan *plan, const struct bench_result *result,
                       FILE *out)
{
    (void)fprintf(out, "{\"address\": ");
    print_json_text(out, plan->address);
    (void)fprintf(
        out,
        ", \"connections\": %u, \"depth\": %u, \"threads\": %u, \"rate\": %" PRIu64
        ", \"keys\": %" PRIu64 ", \"in_turn\": %s, \"zipf\": %g, \"seed\": %" PRIu64,
        plan->n_connections, plan->depth, plan->n_threads, plan->rate, plan->n_keys,
        plan->is_in_turn ? "true" : "false", plan->zipf_s, plan->seed);
    (void)fprintf(out, ", \"measured_us\": %" PRId64 ", \"measured_acks\": %" PRIu64,
                  result->measured_us, result->n_measured_acks);
    (void)fprintf(out, ", \"acks_per_second\": %.1f, \"latency_mean_us\": %.1f",
                  per_second(result), mean_us(result));
    for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
        (void)fprintf(out, ", \"%s\": %" PRIu64, quantiles[i].label,
                      histogram_quantile(&result->tally.latency_us,
                                         quantiles[i].per_million));
    }
    for (unsigned i = 0; i < TALLY_N; i++) {
        (void)fprintf(out, ", \"%s\": %" PRIu64, labels[i],
                      counted(result, (enum tally_counter)i));
    }
    if (result->has_usage) {
        (void)fprintf(out,
                      ", \"agent_cpu_us_per_request\": %.3f, \"agent_cpu_share\": %.3f"
                      ", \"agent_rss_before_bytes\": %" PRId64
                      ", \"agent_rss_after_bytes\": %" PRId64,
                      cpu_us_a_request(result), cpu_share(result),
                      result->usage_before.rss_bytes, result->usage_after.rss_bytes);
    }
    (void)fprintf(out, ", \"first_error\": ");
    print_json_text(out, result->tally.first_error);
    (void)fprintf(out, ", \"good\": %s}\n", bench_is_good(result) ? "true" : "false");
}
