/**
 * @file tests/support/hex.h  Wire bytes as people write them.
 *
 * Model:     hex digits in pairs, blanks ignored, "text" for itself:
 *            `05"check" 03 02"ip" 067f000001`.
 * Ownership: writes into the caller's buffer.
 * Threads:   no shared state.
 * Errors:    abort: the text is part of the test.
 */
#ifndef TESTS_SUPPORT_HEX_H
#define TESTS_SUPPORT_HEX_H

#include <stddef.h>
#include <stdint.h>

/** @return how many bytes were written to `buf`. */
size_t hex_decode(const char *text, uint8_t *buf, size_t cap);

#endif
