#include "agent/observe/metrics.h"

#include <inttypes.h>

#define METRICS_PREFIX "spoa_ratelimit_"

static const struct {
    const char *metric;
    const char *help;
} counter_texts[COUNTERS_N] = {
#define X(name, metric, help) [COUNTER_##name] = {metric, help},
    COUNTER_TABLE(X)
#undef X
};

static const char *const outcome_labels[OUTCOMES_N] = {
#define X(name, label) [OUTCOME_##name] = (label),
    OUTCOME_TABLE(X)
#undef X
};

uint64_t metrics_sum(const struct metrics_source *source, enum counter counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < source->n_counters; i++) {
        sum += counter_get(source->counters[i], counter);
    }
    return sum;
}

uint64_t metrics_sum_outcome(const struct metrics_source *source, uint32_t limit_idx,
                             enum outcome outcome)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < source->n_counters; i++) {
        sum += counter_get_outcome(source->counters[i], limit_idx, outcome);
    }
    return sum;
}

const char *metrics_outcome_label(enum outcome outcome)
{
    return outcome_labels[outcome];
}

static void print_head(FILE *out, const char *name, const char *type, const char *help)
{
    (void)fprintf(out, "# HELP " METRICS_PREFIX "%s %s\n", name, help);
    (void)fprintf(out, "# TYPE " METRICS_PREFIX "%s %s\n", name, type);
}

static void print_limit(const struct metrics_source *source, FILE *out, uint32_t idx)
{
    for (unsigned outcome = 0; outcome < OUTCOMES_N; outcome++) {
        uint64_t sum = metrics_sum_outcome(source, idx, (enum outcome)outcome);
        (void)fprintf(out,
                      METRICS_PREFIX
                      "decisions_total{limit=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                      source->limit_name(source->limit_context, idx),
                      outcome_labels[outcome], sum);
    }
}

void metrics_print(const struct metrics_source *source, FILE *out)
{
    for (unsigned i = 0; i < COUNTERS_N; i++) {
        print_head(out, counter_texts[i].metric, "counter", counter_texts[i].help);
        (void)fprintf(out, METRICS_PREFIX "%s %" PRIu64 "\n", counter_texts[i].metric,
                      metrics_sum(source, (enum counter)i));
    }
    print_head(out, "decisions_total", "counter", "Decisions by limit and outcome");
    for (uint32_t idx = 0; idx < source->counters[0]->n_limits; idx++) {
        print_limit(source, out, idx);
    }
}

void metrics_print_one(FILE *out, const char *name, const char *type, const char *help,
                       int64_t value)
{
    print_head(out, name, type, help);
    (void)fprintf(out, METRICS_PREFIX "%s %" PRId64 "\n", name, value);
}
