/**
 * @file agent/bench/keys.h  Which client the next request is of.
 *
 * Model:     keys are the numbers below n: one after the other, drawn uniformly, or by
 *            Zipf's law: key i as often as 1 / (i + 1)^s. No table: drawing by rejection
 *            from the inverse of the law's integral (Hörmann, Derflinger 1996). The same
 *            seed gives the same keys.
 * Ownership: the caller's struct.
 * Threads:   one struct, one thread.
 * Errors:    none.
 */
#ifndef AGENT_BENCH_KEYS_H
#define AGENT_BENCH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

struct keys {
    uint64_t state; /* of the random numbers */
    uint64_t n;
    bool is_in_turn;
    uint64_t next;  /* in turn */
    double s;       /* 0: uniform */
    double h_first; /* bounds of the inverse, and where it needs no test */
    double h_last;
    double sure;
};

/** @param n  1 or more, @param zipf_s  0 for uniform, else above 0 */
void keys_init(struct keys *keys, uint64_t n, double zipf_s, uint64_t seed);

/** Keys in turn, beginning with `first`; random numbers as with keys_init. */
void keys_init_in_turn(struct keys *keys, uint64_t n, uint64_t first, uint64_t seed);

/** @return a key below n */
uint64_t keys_next(struct keys *keys);

/** @return 64 random bits (splitmix64) */
static inline uint64_t keys_random(struct keys *keys)
{
    keys->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = keys->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
