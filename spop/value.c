#include "spop/value.h"

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
        SPOP_ENSURE(value->bytes.len == SPOP_VALUE_IPV4_BYTES);
        spop_write_bytes(w, value->bytes);
        break;
    case SPOP_VALUE_IPV6:
        SPOP_ENSURE(value->bytes.len == SPOP_VALUE_IPV6_BYTES);
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
    spop_write_u8(w, spop_value_byte(value->type, is_true));
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
