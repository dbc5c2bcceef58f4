/**
 * @file agent/bench/report.h  What a run found, for people and for programs.
 *
 * Model:     the same numbers as lines of text or as one flat JSON object.
 * Ownership: none.
 * Threads:   after the run.
 * Errors:    those of the stream.
 */
#ifndef AGENT_BENCH_REPORT_H
#define AGENT_BENCH_REPORT_H

#include <stdio.h>

#include "agent/bench/bench.h"

/** Say what came of a run, for people. */
void report_print(const struct bench_plan *plan, const struct bench_result *result,
                  FILE *out);

/** The same as one flat JSON object. */
void report_print_json(const struct bench_plan *plan, const struct bench_result *result,
                       FILE *out);

#endif
