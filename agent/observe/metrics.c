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

/* Limits from `idx` up to `end`, as one. */
static void print_limits(const struct metrics_source *source, FILE *out,
                         const char *name, uint32_t idx, uint32_t end)
{
    for (unsigned outcome = 0; outcome < OUTCOMES_N; outcome++) {
        uint64_t sum = 0;
        for (uint32_t i = idx; i < end; i++) {
            sum += metrics_sum_outcome(source, i, (enum outcome)outcome);
        }
        (void)fprintf(out,
                      METRICS_PREFIX
                      "decisions_total{limit=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                      name, outcome_labels[outcome], sum);
    }
}

static void print_decisions(const struct metrics_source *source, FILE *out)
{
    uint32_t n_limits = source->counters[0]->n_limits;
    uint32_t n_shown = n_limits < METRICS_LIMITS_MAX ? n_limits : METRICS_LIMITS_MAX;
    print_head(out, "decisions_total", "counter", "Decisions by limit and outcome");
    for (uint32_t idx = 0; idx < n_shown; idx++) {
        print_limits(source, out, source->limit_name(source->limit_context, idx), idx,
                     idx + 1);
    }
    if (n_shown < n_limits) {
        print_limits(source, out, METRICS_OTHER_LIMITS, n_shown, n_limits);
    }
}

void metrics_print(const struct metrics_source *source, FILE *out)
{
    for (unsigned i = 0; i < COUNTERS_N; i++) {
        print_head(out, counter_texts[i].metric, "counter", counter_texts[i].help);
        (void)fprintf(out, METRICS_PREFIX "%s %" PRIu64 "\n", counter_texts[i].metric,
                      metrics_sum(source, (enum counter)i));
    }
    print_decisions(source, out);
}

void metrics_print_one(FILE *out, const char *name, const char *type, const char *help,
                       int64_t value)
{
    print_head(out, name, type, help);
    (void)fprintf(out, METRICS_PREFIX "%s %" PRId64 "\n", name, value);
}
