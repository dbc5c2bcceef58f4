#include "tests/support/seeds.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/prng.h"

static uint64_t seed; /* of the trace that runs */

static void tell_seed(int signal_number)
{
    /* It ends here: what of this is not safe in a handler matters no more. */
    /* NOLINTNEXTLINE(bugprone-signal-handler) */
    (void)fprintf(stderr, "a law was broken: SEED=%llu TRACES=1 replays it\n",
                  (unsigned long long)seed);
    (void)signal(signal_number, SIG_DFL);
    abort();
}

void seeds_try(uint64_t first, int n_traces, void (*trace)(uint64_t seed))
{
    uint64_t begin = prng_seed(first);
    uint64_t n = (uint64_t)prng_traces(n_traces);
    (void)signal(SIGABRT, tell_seed);
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* NOLINT(concurrency-mt-unsafe) */
    (void)printf("SEED=%llu\n", (unsigned long long)begin);
    for (uint64_t i = 0; i < n; i++) {
        seed = begin + i;
        trace(seed);
    }
    (void)signal(SIGABRT, SIG_DFL);
}
