/**
 * @file spop/kv.h  Walk a KV-LIST: the payload of HELLO and DISCONNECT frames.
 *
 * Model:     repeated { raw name, typed value } up to the end of the bytes.
 * Ownership: names and values are views into the bytes read.
 * Threads:   no shared state.
 * Errors:    sticky, in the reader.
 * Limits:    none beyond the size of the frame.
 */
#ifndef SPOP_KV_H
#define SPOP_KV_H

#include "spop/cursor.h"
#include "spop/value.h"

struct spop_kv {
    struct spop_bytes key;
    struct spop_value value;
};

/**
 * Read the next pair.
 *
 * @return SPOP_OK and `*kv`, SPOP_END after the last pair, or an error
 * @errors SPOP_ERR_SHORT, SPOP_ERR_VARINT, SPOP_ERR_TYPE, SPOP_ERR_FRAME for an empty
 *         key; `*kv` untouched
 */
SPOP_MUST_USE enum spop_status spop_kv_next(struct spop_reader *r, struct spop_kv *kv);

#endif
