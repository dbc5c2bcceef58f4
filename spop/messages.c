#include "spop/messages.h"

#include "spop/ensure.h"

void spop_message_begin(struct spop_message_writer *message, struct spop_writer *out,
                        struct spop_bytes name)
{
    size_t start_len = out->len;
    spop_write_string(out, name);
    *message = (struct spop_message_writer){.out = out, .n_args_off = out->len};
    spop_write_u8(out, 0);
    if (out->status != SPOP_OK) {
        out->len = start_len;
    }
}

void spop_message_arg(const struct spop_message_writer *message, struct spop_bytes name,
                      const struct spop_value *value)
{
    struct spop_writer *out = message->out;
    size_t start_len = out->len;
    spop_write_string(out, name);
    spop_value_encode(out, value);
    if (out->status != SPOP_OK) {
        out->len = start_len;
        return;
    }
    uint8_t *n_args = &out->buf[message->n_args_off];
    SPOP_ENSURE(*n_args < UINT8_MAX);
    (*n_args)++;
}
