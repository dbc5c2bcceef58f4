#include "spop/ack.h"

#include "spop/bytes.h"
#include "spop/ensure.h"
#include "spop/frame.h"

/* The byte of an action and the number of arguments HAProxy wants after it. */
enum {
    ACTION_SET = 1,
    ACTION_SET_ARGS = 3,
    ACTION_UNSET = 2,
    ACTION_UNSET_ARGS = 2
};

static bool name_char_is_valid(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || c == '_' || c == '.';
}

static bool name_is_valid(struct spop_bytes name)
{
    if (name.len == 0 || name.len > SPOP_VARIABLE_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!name_char_is_valid(name.ptr[i])) {
            return false;
        }
    }
    return true;
}

void spop_variable_init(struct spop_variable *variable, enum spop_scope scope,
                        const char *name)
{
    struct spop_bytes name_bytes = spop_bytes_view(name);
    SPOP_ENSURE(name_is_valid(name_bytes));
    struct spop_writer w;
    spop_writer_init(&w, variable->head, sizeof(variable->head));
    spop_write_u8(&w, ACTION_SET);
    spop_write_u8(&w, ACTION_SET_ARGS);
    spop_write_u8(&w, (uint8_t)scope);
    spop_write_string(&w, name_bytes);
    SPOP_ENSURE(w.status == SPOP_OK);
    variable->len = w.len;
}

static inline void write_head(struct spop_writer *w,
                              const struct spop_variable *variable)
{
    spop_write_bytes(w,
                     (struct spop_bytes){.ptr = variable->head, .len = variable->len});
}

void spop_constant_init(struct spop_constant *constant,
                        const struct spop_variable *variable,
                        const struct spop_value *value)
{
    struct spop_writer w;
    spop_writer_init(&w, constant->bytes, sizeof(constant->bytes));
    write_head(&w, variable);
    spop_value_encode(&w, value);
    SPOP_ENSURE(w.status == SPOP_OK);
    constant->len = w.len;
}

void spop_ack_begin(struct spop_ack *ack, struct spop_writer *out, uint64_t stream_id,
                    uint64_t frame_id, size_t frame_bytes_max)
{
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ACK_ROOM_MIN);
    SPOP_ENSURE(frame_bytes_max >= SPOP_FRAME_SIZE_MIN);
    SPOP_ENSURE(frame_bytes_max <= SPOP_FRAME_SIZE_MAX);
    size_t start_off = spop_frame_begin(out, SPOP_FRAME_ACK, stream_id, frame_id);
    *ack = (struct spop_ack){.out = out, .start_off = start_off, .cap = out->cap};
    size_t end_off_max = start_off + SPOP_PREFIX_BYTES + frame_bytes_max;
    out->cap = end_off_max < out->cap ? end_off_max : out->cap;
}

/* Actions are written by a copy of the writer: one without room leaves no trace. */
static inline void action_end(struct spop_ack *ack, struct spop_writer w)
{
    if (w.status != SPOP_OK) {
        ack->n_left_out++;
        return;
    }
    ack->out->len = w.len;
    ack->n_actions++;
}

void spop_ack_set_bool(struct spop_ack *ack, const struct spop_variable *variable,
                       bool value)
{
    struct spop_writer w = *ack->out;
    write_head(&w, variable);
    spop_write_u8(&w, spop_value_byte(SPOP_VALUE_BOOL, value));
    action_end(ack, w);
}

void spop_ack_set_int64(struct spop_ack *ack, const struct spop_variable *variable,
                        int64_t value)
{
    struct spop_writer w = *ack->out;
    write_head(&w, variable);
    spop_write_u8(&w, spop_value_byte(SPOP_VALUE_INT64, false));
    spop_write_varint(&w, (uint64_t)value);
    action_end(ack, w);
}

void spop_ack_set_string(struct spop_ack *ack, const struct spop_variable *variable,
                         struct spop_bytes value)
{
    struct spop_writer w = *ack->out;
    write_head(&w, variable);
    spop_write_u8(&w, spop_value_byte(SPOP_VALUE_STRING, false));
    spop_write_string(&w, value);
    action_end(ack, w);
}

void spop_ack_set_constant(struct spop_ack *ack, const struct spop_constant *constant)
{
    struct spop_writer w = *ack->out;
    spop_write_bytes(&w,
                     (struct spop_bytes){.ptr = constant->bytes, .len = constant->len});
    action_end(ack, w);
}

void spop_ack_unset(struct spop_ack *ack, const struct spop_variable *variable)
{
    const size_t verb_bytes = 2; /* of a set action: replaced, the rest is the same */
    struct spop_bytes rest = {.ptr = variable->head + verb_bytes,
                              .len = variable->len - verb_bytes};
    struct spop_writer w = *ack->out;
    spop_write_u8(&w, ACTION_UNSET);
    spop_write_u8(&w, ACTION_UNSET_ARGS);
    spop_write_bytes(&w, rest);
    action_end(ack, w);
}

void spop_ack_end(struct spop_ack *ack)
{
    if (ack->n_actions == 0) {
        struct spop_variable filler;
        spop_variable_init(&filler, SPOP_SCOPE_TXN, "_");
        spop_ack_unset(ack, &filler);
    }
    SPOP_ENSURE(ack->n_actions > 0);
    ack->out->cap = ack->cap;
    spop_frame_end(ack->out, ack->start_off);
}

void spop_ack_abort(struct spop_writer *out, uint64_t stream_id, uint64_t frame_id)
{
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ACK_ROOM_MIN);
    size_t start_off = spop_frame_begin_flagged(out, SPOP_FRAME_ACK,
                                                SPOP_FLAG_FIN | SPOP_FLAG_ABORT,
                                                stream_id, frame_id);
    spop_frame_end(out, start_off);
}
