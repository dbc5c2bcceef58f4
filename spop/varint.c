#include "spop/varint.h"

enum {
    ONE_BYTE_LIMIT = SPOP_VARINT_LONG, /* a first byte from here on has one after it */
    MORE_LIMIT = 128,                  /* so has a later byte from here on */
    FIRST_BITS = 4,
    LATER_BITS = 7,
};

enum spop_status spop_varint_decode(struct spop_bytes in, uint64_t *value,
                                    size_t *n_bytes)
{
    if (in.len == 0) {
        return SPOP_ERR_SHORT;
    }
    uint64_t sum = in.ptr[0];
    size_t n = 1;
    bool has_more = sum >= ONE_BYTE_LIMIT;
    /* The tenth byte is shifted by 60: from 16 on it does not fit, so there is never an
     * eleventh and the shift stays below 64. */
    for (unsigned shift = FIRST_BITS; has_more; shift += LATER_BITS) {
        if (n == in.len) {
            return SPOP_ERR_SHORT;
        }
        uint64_t byte = in.ptr[n++];
        if (byte > (UINT64_MAX - sum) >> shift) {
            return SPOP_ERR_VARINT;
        }
        sum += byte << shift;
        has_more = byte >= MORE_LIMIT;
    }
    *value = sum;
    *n_bytes = n;
    return SPOP_OK;
}

size_t spop_varint_encode(uint64_t value, uint8_t buf[SPOP_VARINT_BYTES_MAX])
{
    if (value < ONE_BYTE_LIMIT) {
        buf[0] = (uint8_t)value;
        return 1;
    }
    size_t n = 0;
    buf[n++] = (uint8_t)(value | ONE_BYTE_LIMIT);
    value = (value - ONE_BYTE_LIMIT) >> FIRST_BITS;
    while (value >= MORE_LIMIT) {
        buf[n++] = (uint8_t)(value | MORE_LIMIT);
        value = (value - MORE_LIMIT) >> LATER_BITS;
    }
    buf[n++] = (uint8_t)value;
    return n;
}
