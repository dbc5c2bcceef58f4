/**
 * @file tests/unit/spop/support.h  What the tests of spop/ share.
 *
 * Model:     expectations written as hex (tests/support/hex.h).
 * Ownership: views point into the caller's struct.
 * Threads:   one thread.
 * Errors:    a failed expectation fails the test that called, with `name`.
 */
#ifndef TESTS_UNIT_SPOP_SUPPORT_H
#define TESTS_UNIT_SPOP_SUPPORT_H

#include "spop/cursor.h"
#include "spop/frame.h"

enum {
    WIRE_CAP = 8192
};

/** Bytes made from a text. */
struct wire {
    uint8_t buf[WIRE_CAP];
    size_t len;
};

/** @return the bytes `text` stands for, as a view into `wire`. */
struct spop_bytes wire_bytes(struct wire *wire, const char *text);

/** Append a frame of any type and flags around `payload`. */
void wire_frame(struct spop_writer *w, unsigned type, uint32_t flags,
                const uint64_t ids[2], struct spop_bytes payload);

void expect_bytes(const char *name, struct spop_bytes got, const char *want);
void expect_equal(const char *name, long long got, long long want);

/** @return the bytes written to `w`. */
struct spop_bytes written(const struct spop_writer *w);

#endif
