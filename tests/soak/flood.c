/*
 * A flood of keys that are never seen again, through a table for a tenth of them, while 100
 * keys that make 5 % of the traffic are over their limit.
 *
 *   flood [SHARE]   1/SHARE of 10 000 000 keys; 1 without it
 *
 * Shown:     how many of the requests that should be refused were; how much memory it took.
 * Fails:     under 99 %; a key refused at its first request; in a whole flood also more
 *            resident memory than the table and what the process needs beside it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "agent/store/local.h"

#include "tests/support/prng.h"

enum {
    KEYS = 10000000,
    SLOTS_SHARE = 10,     /* of the keys fit the table */
    HOT_KEYS = 100,       /* over their limit */
    HOT_SHARE = 20,       /* one request in so many is theirs */
    LIMIT = 100,          /* requests of one key in a window */
    STEP_US = 10,         /* between two requests: all are in one window */
    REST_BYTES = 8 << 20, /* of the process, beside the table */
};

#define WINDOW_US (3600 * US_PER_S)
#define START_US  (INT64_C(500000) * WINDOW_US)

struct hot {
    unsigned n_passed; /* by a count that forgets nothing */
};

static struct {
    struct store *store;
    struct counters *counters;
    struct limit limit;
    struct prng prng;
    struct hot hot[HOT_KEYS];
    uint64_t n_due;          /* requests that should be refused */
    uint64_t n_refused;      /* of these */
    uint64_t n_refused_else; /* too strictly */
} f;

static void on_done(struct store_take *take)
{
    (void)take;
}

/* A charge of one; whether it is let through. */
static bool take(uint64_t key, struct instant now)
{
    static const uint8_t limit_id[STORE_LIMIT_ID_BYTES] = {1};
    static struct store_take take;
    take.now = now;
    take.n_charges = 1;
    take.counters = f.counters;
    take.done = on_done;
    take.charges[0] = (struct store_charge){.limit = &f.limit,
                                            .limit_id = limit_id,
                                            .key = (const uint8_t *)&key,
                                            .key_bytes = sizeof(key),
                                            .cost = 1};
    store_take(f.store, &take);
    return take.is_allowed;
}

static void request_hot(struct instant now)
{
    uint64_t idx = prng_below(&f.prng, HOT_KEYS);
    bool is_due = f.hot[idx].n_passed >= LIMIT;
    bool passes = take(idx, now);
    f.hot[idx].n_passed += is_due ? 0 : 1;
    f.n_due += is_due;
    f.n_refused += is_due && !passes;
    f.n_refused_else += !is_due && !passes;
}

static void flood(uint64_t n_keys)
{
    struct instant now = {.us = START_US};
    for (uint64_t key = HOT_KEYS; key < HOT_KEYS + n_keys;) {
        now.us += STEP_US;
        if (prng_below(&f.prng, HOT_SHARE) == 0) {
            request_hot(now);
        } else {
            f.n_refused_else += !take(key, now);
            key++;
        }
    }
}

/* The most that was ever resident. */
static uint64_t peak_bytes(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return kib * 1024;
}

static bool prepare(size_t memory_bytes)
{
    uint8_t secret[LOCAL_SECRET_BYTES] = {7};
    f.limit = (struct limit){.algorithm = LIMIT_SLIDING_WINDOW,
                             .requests = LIMIT,
                             .size = LIMIT,
                             .per_ticks = WINDOW_US / 10000,
                             .tick_us = 10000};
    uint64_t seed = prng_seed(1);
    printf("SEED=%" PRIu64 "\n", seed);
    prng_init(&f.prng, seed);
    f.store = local_new(memory_bytes, LOCAL_LOG_BYTES_MIN, secret);
    f.counters = counters_new(0);
    return sodium_init() >= 0 && f.store != NULL && f.counters != NULL;
}

int main(int argc, char **argv)
{
    uint64_t share = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t n_keys = KEYS / (share > 0 ? share : 1);
    size_t memory_bytes = (size_t)n_keys / SLOTS_SHARE * LOCAL_COUNTER_BYTES;
    if (!prepare(memory_bytes)) {
        perror("flood");
        return EXIT_FAILURE;
    }
    flood(n_keys);
    uint64_t bytes = peak_bytes();
    double percent = 100.0 * (double)f.n_refused / (double)f.n_due;
    printf("%" PRIu64 " keys through %zu slots: refused %" PRIu64 " of %" PRIu64
           " (%.3f %%), %" PRIu64 " too many; %" PRIu64 " evicted; resident %.1f MiB, "
           "of which the table at most %.1f\n",
           n_keys, local_capacity(f.store), f.n_refused, f.n_due, percent,
           f.n_refused_else, counter_get(f.counters, COUNTER_LOCAL_EVICTED),
           (double)bytes / (1 << 20), (double)memory_bytes / (1 << 20));
    bool ok = f.n_due > 0 && percent >= 99.0 && f.n_refused_else == 0;
    ok = ok && (share > 1 || bytes <= memory_bytes + REST_BYTES);
    store_free(f.store);
    counters_free(f.counters);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
