/**
 * @file tests/fuzz/fuzz.h  What every fuzz target shares.
 *
 * Model:     a target is LLVMFuzzerTestOneInput. libFuzzer drives it when AGENT_FUZZ is
 *            ON; otherwise standalone.c replays a folder of inputs through it.
 * Ownership: the input is copied to memory of its exact size, so that a sanitizer sees
 *            a read past its end.
 * Threads:   one.
 * Errors:    a law that does not hold aborts, which is what libFuzzer calls a crash.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fuzz_check(bool is_true, const char *law, const char *file, int line)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s:%d: %s\n", file, line, law);
        abort();
    }
}

/** On in every build, unlike assert. */
#define FUZZ_CHECK(law) fuzz_check((law), #law, __FILE__, __LINE__)

/** @return a copy with nothing behind it, also of no bytes; the caller frees it. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    FUZZ_CHECK(copy != NULL);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

/* The name is libFuzzer's. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
