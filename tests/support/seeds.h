/**
 * @file tests/support/seeds.h  Try a law from one seed after another.
 *
 * Model:     the environment variable SEED says where to begin, TRACES how many to try
 *            (prng.h). The seed of a trace that aborts is told: SEED=n TRACES=1 replays it.
 *            From then on cmocka aborts where an assertion fails.
 * Ownership: none.
 * Threads:   one.
 */
#ifndef TESTS_SUPPORT_SEEDS_H
#define TESTS_SUPPORT_SEEDS_H

#include <stdint.h>

/** Call `trace` with `n_traces` seeds from `first` on, unless the environment says others. */
void seeds_try(uint64_t first, int n_traces, void (*trace)(uint64_t seed));

#endif
