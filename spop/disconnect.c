#include "spop/disconnect.h"

#include "spop/bytes.h"
#include "spop/ensure.h"
#include "spop/kv.h"
#include "spop/value.h"

static const char key_code[] = "status-code";
static const char key_message[] = "message";

static enum spop_status code_take(const struct spop_value *value, uint64_t *code)
{
    int64_t number = 0;
    if (!spop_value_int64(value, &number)) {
        return SPOP_ERR_TYPE;
    }
    if (number < 0) {
        return SPOP_ERR_FRAME;
    }
    *code = (uint64_t)number;
    return SPOP_OK;
}

enum spop_status spop_disconnect_decode(struct spop_bytes payload,
                                        struct spop_disconnect *disconnect)
{
    struct spop_disconnect decoded = {0};
    bool has_code = false;
    struct spop_reader r;
    spop_reader_init(&r, payload);
    struct spop_kv kv;
    enum spop_status status = SPOP_OK;
    while ((status = spop_kv_next(&r, &kv)) == SPOP_OK) {
        if (spop_bytes_is(kv.key, key_code)) {
            status = code_take(&kv.value, &decoded.code);
            has_code = true;
        } else if (spop_bytes_is(kv.key, key_message)) {
            status = kv.value.type == SPOP_VALUE_STRING ? SPOP_OK : SPOP_ERR_TYPE;
            decoded.message = kv.value.bytes;
        }
        if (status != SPOP_OK) {
            return status;
        }
    }
    if (status != SPOP_END) {
        return status;
    }
    if (!has_code) {
        return SPOP_ERR_FRAME;
    }
    *disconnect = decoded;
    return SPOP_OK;
}

enum spop_code spop_disconnect_answer(const struct spop_frame *frame)
{
    struct spop_disconnect disconnect;
    if (!spop_frame_is_final(frame) || !spop_frame_is_of_connection(frame)
        || spop_disconnect_decode(frame->payload, &disconnect) != SPOP_OK
        || !spop_code_is_registered(disconnect.code)) {
        return SPOP_CODE_NORMAL;
    }
    return (enum spop_code)disconnect.code;
}

void spop_disconnect_encode(struct spop_writer *w, enum spop_frame_type type,
                            enum spop_code code)
{
    SPOP_ENSURE(spop_code_is_registered((uint64_t)code));
    struct spop_value number = {.type = SPOP_VALUE_UINT32, .integer = (uint64_t)code};
    struct spop_value text = {.type = SPOP_VALUE_STRING,
                              .bytes = spop_bytes_view(spop_code_text(code))};
    size_t start_off = spop_frame_begin(w, type, 0, 0);
    spop_write_string(w, spop_bytes_view(key_code));
    spop_value_encode(w, &number);
    spop_write_string(w, spop_bytes_view(key_message));
    spop_value_encode(w, &text);
    spop_frame_end(w, start_off);
}
