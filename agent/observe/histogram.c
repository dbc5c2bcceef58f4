#include "agent/observe/histogram.h"

static uint64_t load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

uint64_t histogram_bucket_max(unsigned bucket)
{
    if (bucket < 2 * HISTOGRAM_SUB_N) {
        return bucket; /* those of the first doubling are of one value too */
    }
    unsigned shift = bucket / HISTOGRAM_SUB_N - 1;
    uint64_t first = HISTOGRAM_SUB_N + bucket % HISTOGRAM_SUB_N;
    return ((first + 1) << shift) - 1;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS_N; i++) {
        counter_bump(&to->buckets[i], load(&from->buckets[i]));
    }
    counter_bump(&to->sum, load(&from->sum));
    uint64_t max = load(&from->max);
    if (max > load(&to->max)) {
        atomic_store_explicit(&to->max, max, memory_order_relaxed);
    }
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS_N; i++) {
        n += load(&h->buckets[i]);
    }
    return n;
}

uint64_t histogram_quantile(const struct histogram *h, uint32_t per_million)
{
    const uint64_t million = 1000000;
    uint64_t n = histogram_count(h);
    /* Rounded up, and without the overflow of n * per_million. */
    uint64_t wanted = n / million * per_million
                      + (n % million * per_million + million - 1) / million;
    uint64_t max = load(&h->max);
    uint64_t n_passed = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS_N - 1 && wanted > 0; i++) {
        n_passed += load(&h->buckets[i]);
        if (n_passed >= wanted) {
            uint64_t bucket_max = histogram_bucket_max(i);
            return bucket_max < max ? bucket_max : max;
        }
    }
    return max;
}
