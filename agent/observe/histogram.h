/**
 * @file agent/observe/histogram.h  How often each value came: log-linear, of fixed size.
 *
 * Model:     values below 128 have a bucket each; above, every doubling is cut into 128
 *            equal ones. A quantile is told as the largest value of its bucket, so it is
 *            never too small and less than 1/128 too large.
 * Ownership: a plain struct of HISTOGRAM_BUCKETS_N numbers; zeroed is empty.
 * Threads:   one writer; any thread may read. All accesses are relaxed: a reader sees
 *            each number late, never torn.
 * Errors:    none.
 * Limits:    values of HISTOGRAM_VALUE_BITS: larger ones count in the last bucket; the
 *            largest and the sum are kept as they are.
 */
#ifndef AGENT_OBSERVE_HISTOGRAM_H
#define AGENT_OBSERVE_HISTOGRAM_H

#include <stdint.h>

#include "agent/observe/counters.h"

enum {
    HISTOGRAM_SUB_BITS = 7,
    HISTOGRAM_SUB_N = 1 << HISTOGRAM_SUB_BITS, /* buckets a doubling */
    HISTOGRAM_VALUE_BITS = 32,                 /* in microseconds: 71 minutes */
    HISTOGRAM_BUCKETS_N = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1)
                          * HISTOGRAM_SUB_N,
};

struct histogram {
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS_N];
};

/** The bucket that counts `value`. */
static inline unsigned histogram_bucket(uint64_t value)
{
    if (value < HISTOGRAM_SUB_N) {
        return (unsigned)value;
    }
    if (value >> HISTOGRAM_VALUE_BITS != 0) {
        return HISTOGRAM_BUCKETS_N - 1;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return shift * HISTOGRAM_SUB_N + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
    counter_bump(&h->buckets[histogram_bucket(value)], 1);
    counter_bump(&h->sum, value);
    if (value > atomic_load_explicit(&h->max, memory_order_relaxed)) {
        atomic_store_explicit(&h->max, value, memory_order_relaxed);
    }
}

/** The largest value that `bucket` counts. */
uint64_t histogram_bucket_max(unsigned bucket);

/** Add all that `from` has counted; the caller is the writer of `to`. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/** How many values were added. */
uint64_t histogram_count(const struct histogram *h);

/**
 * The value that `per_million` of a million values do not exceed.
 *
 * @param per_million  1 to 1 000 000
 * @return 0 when there are none
 */
uint64_t histogram_quantile(const struct histogram *h, uint32_t per_million);

#endif
