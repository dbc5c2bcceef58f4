/**
 * @file spop/value.h  One typed value: the ten kinds of typed data.
 *
 * Model:     a decoded value is a small struct; texts and addresses stay in the frame.
 * Ownership: `bytes` is a view into the decoded payload.
 * Threads:   no shared state.
 * Errors:    decoding goes through a sticky reader (cursor.h).
 * Limits:    integers of 64 bits whatever their type says, as HAProxy reads them.
 */
#ifndef SPOP_VALUE_H
#define SPOP_VALUE_H

#include "spop/cursor.h"
#include "spop/spop.h"

enum spop_value_type {
    SPOP_VALUE_NULL = 0,
    SPOP_VALUE_BOOL = 1,
    SPOP_VALUE_INT32 = 2,
    SPOP_VALUE_UINT32 = 3,
    SPOP_VALUE_INT64 = 4,
    SPOP_VALUE_UINT64 = 5,
    SPOP_VALUE_IPV4 = 6,
    SPOP_VALUE_IPV6 = 7,
    SPOP_VALUE_STRING = 8,
    SPOP_VALUE_BINARY = 9,
};

/* No union: only so does a value of the hot path live in registers. */
struct spop_value {
    enum spop_value_type type; /* says which one of these is set */
    bool boolean;              /* BOOL */
    uint64_t integer;          /* the four integers, two's complement in 64 bits */
    struct spop_bytes bytes;   /* STRING, BINARY, IPV4 (4 bytes), IPV6 (16 bytes) */
};

/* A type byte is flags << 4 | type. Only BOOL has a flag. */
enum {
    SPOP_VALUE_TYPE_MASK = 0x0f,
    SPOP_VALUE_FLAGS_SHIFT = 4,
    SPOP_VALUE_FLAG_TRUE = 1,
    SPOP_VALUE_IPV4_BYTES = 4,
    SPOP_VALUE_IPV6_BYTES = 16,
};

/**
 * Decode one typed value and move past it.
 *
 * @param value  filled when the reader is still ok afterwards, else a NULL value
 * @errors  through the reader: SPOP_ERR_SHORT, SPOP_ERR_VARINT, SPOP_ERR_TYPE
 */
SPOP_INLINE void spop_value_decode(struct spop_reader *r, struct spop_value *value)
{
    struct spop_reader start = *r;
    uint8_t byte = spop_read_u8(r);
    value->type = (enum spop_value_type)(byte & SPOP_VALUE_TYPE_MASK);
    switch (value->type) {
    case SPOP_VALUE_NULL:
        break;
    case SPOP_VALUE_BOOL:
        /* Exactly 1, as HAProxy's own decoder has it: 31 and f1 are false. */
        value->boolean = byte >> SPOP_VALUE_FLAGS_SHIFT == SPOP_VALUE_FLAG_TRUE;
        break;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        value->integer = spop_read_varint(r);
        break;
    case SPOP_VALUE_IPV4:
        value->bytes = spop_read_bytes(r, SPOP_VALUE_IPV4_BYTES);
        break;
    case SPOP_VALUE_IPV6:
        value->bytes = spop_read_bytes(r, SPOP_VALUE_IPV6_BYTES);
        break;
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        value->bytes = spop_read_string(r);
        break;
    default:
        spop_reader_fail(r, SPOP_ERR_TYPE);
        break;
    }
    if (r->status != SPOP_OK) {
        r->ptr = start.ptr;
        r->len = start.len;
        value->type = SPOP_VALUE_NULL;
    }
}

/** @return the byte that a value begins with; `is_true` is for BOOL alone */
static inline uint8_t spop_value_byte(enum spop_value_type type, bool is_true)
{
    unsigned flags = is_true ? SPOP_VALUE_FLAG_TRUE : 0;
    return (uint8_t)(flags << SPOP_VALUE_FLAGS_SHIFT | (unsigned)type);
}

/** Encode `value`; through the writer SPOP_ERR_ROOM. */
void spop_value_encode(struct spop_writer *w, const struct spop_value *value);

/**
 * Read an integer of any of the four integer kinds.
 *
 * @return true and `*out` when `value` is an integer that fits int64_t; else false,
 *         `*out` untouched
 */
SPOP_MUST_USE bool spop_value_int64(const struct spop_value *value, int64_t *out);

#endif
