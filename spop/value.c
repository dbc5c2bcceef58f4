#include "spop/value.h"

#include "spop/ensure.h"

/* A type byte is flags << 4 | type. Only BOOL has a flag. */
enum {
    TYPE_MASK = 0x0f,
    FLAGS_SHIFT = 4,
    FLAG_TRUE = 1
};

enum {
    IPV4_BYTES = 4,
    IPV6_BYTES = 16
};

static void value_body_decode(struct spop_reader *r, unsigned flags,
                              struct spop_value *value)
{
    switch (value->type) {
    case SPOP_VALUE_NULL:
        break;
    case SPOP_VALUE_BOOL:
        /* Exactly 1, as HAProxy's own decoder has it: 31 and f1 are false. */
        value->boolean = flags == FLAG_TRUE;
        break;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        value->integer = spop_read_varint(r);
        break;
    case SPOP_VALUE_IPV4:
        value->bytes = spop_read_bytes(r, IPV4_BYTES);
        break;
    case SPOP_VALUE_IPV6:
        value->bytes = spop_read_bytes(r, IPV6_BYTES);
        break;
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        value->bytes = spop_read_string(r);
        break;
    default:
        spop_reader_fail(r, SPOP_ERR_TYPE);
        break;
    }
}

void spop_value_decode(struct spop_reader *r, struct spop_value *value)
{
    struct spop_reader start = *r;
    uint8_t byte = spop_read_u8(r);
    struct spop_value decoded = {.type = (enum spop_value_type)(byte & TYPE_MASK)};
    value_body_decode(r, (unsigned)byte >> FLAGS_SHIFT, &decoded);
    if (r->status != SPOP_OK) {
        r->ptr = start.ptr;
        r->len = start.len;
        decoded = (struct spop_value){.type = SPOP_VALUE_NULL};
    }
    *value = decoded;
}

static void value_body_encode(struct spop_writer *w, const struct spop_value *value)
{
    switch (value->type) {
    case SPOP_VALUE_NULL:
    case SPOP_VALUE_BOOL:
        break;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        spop_write_varint(w, value->integer);
        break;
    case SPOP_VALUE_IPV4:
        SPOP_ENSURE(value->bytes.len == IPV4_BYTES);
        spop_write_bytes(w, value->bytes);
        break;
    case SPOP_VALUE_IPV6:
        SPOP_ENSURE(value->bytes.len == IPV6_BYTES);
        spop_write_bytes(w, value->bytes);
        break;
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        spop_write_string(w, value->bytes);
        break;
    }
}

void spop_value_encode(struct spop_writer *w, const struct spop_value *value)
{
    SPOP_ENSURE(value->type <= SPOP_VALUE_BINARY);
    size_t start_len = w->len;
    bool is_true = value->type == SPOP_VALUE_BOOL && value->boolean;
    unsigned flags = is_true ? FLAG_TRUE : 0;
    spop_write_u8(w, (uint8_t)(flags << FLAGS_SHIFT | (unsigned)value->type));
    value_body_encode(w, value);
    if (w->status != SPOP_OK) {
        w->len = start_len;
    }
}

bool spop_value_int64(const struct spop_value *value, int64_t *out)
{
    bool is_signed = value->type == SPOP_VALUE_INT32 || value->type == SPOP_VALUE_INT64;
    bool is_unsigned = value->type == SPOP_VALUE_UINT32
                       || value->type == SPOP_VALUE_UINT64;
    if (!is_signed && !is_unsigned) {
        return false;
    }
    if (value->integer <= INT64_MAX) {
        *out = (int64_t)value->integer;
        return true;
    }
    if (is_unsigned) {
        return false;
    }
    *out = -(int64_t)(UINT64_MAX - value->integer) - 1;
    return true;
}
