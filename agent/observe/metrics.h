/**
 * @file agent/observe/metrics.h  Counters as text.
 *
 * Model:     adds up the threads' blocks and prints the Prometheus exposition format.
 *            Labels come from the rules only, never from a client; where there are many
 *            limits, the later ones are told as one, so that series stay bounded.
 * Ownership: none.
 * Threads:   any; the counters go on meanwhile.
 * Errors:    those of the stream.
 * Limits:    METRICS_LIMITS_MAX limits with series of their own.
 */
#ifndef AGENT_OBSERVE_METRICS_H
#define AGENT_OBSERVE_METRICS_H

#include <stdio.h>

#include "agent/observe/counters.h"

enum {
    METRICS_LIMITS_MAX =
        900 /* each with OUTCOMES_N series: with all others below 5 000 */
};

/** The label of all limits that have no series of their own; no limit is called so. */
#define METRICS_OTHER_LIMITS "*"

/** @return the name of the limit `idx`, as given to metrics_print */
typedef const char *metrics_limit_name_fn(const void *context, uint32_t idx);

struct metrics_source {
    struct counters *const *counters; /* one for each thread that counts */
    unsigned n_counters;
    metrics_limit_name_fn *limit_name;
    const void *limit_context;
};

/** The sum of one counter over all threads. */
uint64_t metrics_sum(const struct metrics_source *source, enum counter counter);

/** The same for what became of a limit. */
uint64_t metrics_sum_outcome(const struct metrics_source *source, uint32_t limit_idx,
                             enum outcome outcome);

/** @return the name of an outcome, as in labels */
const char *metrics_outcome_label(enum outcome outcome);

void metrics_print(const struct metrics_source *source, FILE *out);

/** One gauge or counter that no worker counts. `type` is "gauge" or "counter". */
void metrics_print_one(FILE *out, const char *name, const char *type, const char *help,
                       int64_t value);

#endif
