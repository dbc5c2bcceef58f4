/**
 * @file agent/bench/process.h  What another process has used, as /proc tells it.
 *
 * Model:     one reading.
 * Ownership: none.
 * Threads:   any.
 * Errors:    false where there is no such process.
 * Limits:    the kernel tells CPU time in ticks, mostly of 10 ms.
 */
#ifndef AGENT_BENCH_PROCESS_H
#define AGENT_BENCH_PROCESS_H

#include <stdbool.h>

#include "agent/base.h"

struct process_usage {
    int64_t cpu_us; /* user and system time of all its threads, ever */
    int64_t rss_bytes;
};

/** @return false: there is no such process, or /proc is not there */
MUST_USE bool process_read(long pid, struct process_usage *usage);

#endif
