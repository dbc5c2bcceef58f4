/**
 * @file tests/bench/measure.h  What a thread took, and what many rounds of it come to.
 *
 * Threads:   any.
 */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MEASURE_ROUNDS = 15
};

/** CPU that the calling thread has had. */
static inline int64_t measure_cpu_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int measure_compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static inline double measure_median(const double values[MEASURE_ROUNDS])
{
    double sorted[MEASURE_ROUNDS];
    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, MEASURE_ROUNDS, sizeof(sorted[0]), measure_compare);
    return sorted[MEASURE_ROUNDS / 2];
}

static inline double measure_least(const double values[MEASURE_ROUNDS])
{
    double least = values[0];
    for (unsigned i = 1; i < MEASURE_ROUNDS; i++) {
        least = values[i] < least ? values[i] : least;
    }
    return least;
}

#endif
