/**
 * @file spop/varint.h  The variable-length integers of the protocol.
 *
 * Model:     one byte below 240; else a first byte >= 240 and further bytes, of which
 *            each one >= 128 says that another follows. Each byte counts whole: it is
 *            added, not masked, so no integer has a second encoding.
 * Ownership: borrows its arguments.
 * Threads:   no shared state.
 * Errors:    returned; the outputs are untouched then.
 * Limits:    SPOP_VARINT_BYTES_MAX bytes, 64 bits: more is refused, never wrapped.
 */
#ifndef SPOP_VARINT_H
#define SPOP_VARINT_H

#include "spop/spop.h"

enum {
    SPOP_VARINT_LONG = 240
}; /* from here on an integer takes more than a byte */

/**
 * Decode the integer at the beginning of `in`.
 *
 * @param value    the integer
 * @param n_bytes  how many bytes it took
 * @errors SPOP_ERR_SHORT, SPOP_ERR_VARINT
 */
SPOP_MUST_USE enum spop_status spop_varint_decode(struct spop_bytes in, uint64_t *value,
                                                  size_t *n_bytes);

/**
 * Encode `value`.
 *
 * @param buf  has room for SPOP_VARINT_BYTES_MAX bytes
 * @return how many bytes were written, 1 to SPOP_VARINT_BYTES_MAX
 */
size_t spop_varint_encode(uint64_t value, uint8_t buf[SPOP_VARINT_BYTES_MAX]);

#endif
