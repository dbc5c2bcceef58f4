/**
 * @file tests/support/prng.h  Seeded random numbers for property tests (splitmix64).
 *
 * Model:     the same seed gives the same numbers on every machine. The environment
 *            variable SEED overrides the seed of a test; a failure prints it. TRACES
 *            says how often instead of how often the test says.
 * Ownership: the caller's struct.
 * Threads:   one struct, one thread.
 * Errors:    none.
 */
#ifndef TESTS_SUPPORT_PRNG_H
#define TESTS_SUPPORT_PRNG_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct prng {
    uint64_t state;
};

/** @return the number in the environment variable SEED, else `fallback`. */
static inline uint64_t prng_seed(uint64_t fallback)
{
    const char *text = getenv("SEED"); /* NOLINT(concurrency-mt-unsafe) */
    return text ? strtoull(text, NULL, 0) : fallback;
}

/** @return the number in the environment variable TRACES, of which SCALE is a share, else
 *  `fallback`: how often a law is tried. */
static inline int prng_traces(int fallback)
{
    const char *traces = getenv("TRACES"); /* NOLINT(concurrency-mt-unsafe) */
    const char *scale = getenv("SCALE");   /* NOLINT(concurrency-mt-unsafe) */
    double n = traces ? strtod(traces, NULL) : fallback;
    return (int)(traces && scale ? n * strtod(scale, NULL) : n);
}

static inline void prng_init(struct prng *p, uint64_t seed)
{
    p->state = seed;
}

static inline uint64_t prng_next(struct prng *p)
{
    p->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = p->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** @return a number below `limit`, which is not 0. */
static inline uint64_t prng_below(struct prng *p, uint64_t limit)
{
    return prng_next(p) % limit;
}

static inline void prng_fill(struct prng *p, uint8_t *buf, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf[i] = (uint8_t)prng_next(p);
    }
}

#endif
