#include "spop/ack.h"

#include "spop/bytes.h"
#include "spop/ensure.h"
#include "spop/frame.h"
#include "spop/value.h"

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

void spop_ack_begin(struct spop_ack *ack, struct spop_writer *out, uint64_t stream_id,
                    uint64_t frame_id, size_t frame_bytes_max)
{
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ACK_ROOM_MIN);
    SPOP_ENSURE(frame_bytes_max >= SPOP_FRAME_SIZE_MIN);
    SPOP_ENSURE(frame_bytes_max <= SPOP_FRAME_SIZE_MAX);
    size_t start_off = spop_frame_begin(out, SPOP_FRAME_ACK, stream_id, frame_id);
    *ack = (struct spop_ack){
        .out = out,
        .start_off = start_off,
        .end_off_max = start_off + SPOP_PREFIX_BYTES + frame_bytes_max,
    };
}

/* An action goes through a writer of its own and is joined only when complete. A null
 * `value` makes it an UNSET-VAR. */
static void ack_action(struct spop_ack *ack, enum spop_scope scope, const char *name,
                       const struct spop_value *value)
{
    struct spop_bytes name_bytes = spop_bytes_view(name);
    SPOP_ENSURE(name_is_valid(name_bytes));
    SPOP_ENSURE(ack->out->len <= ack->end_off_max);
    struct spop_writer part;
    spop_writer_fork(ack->out, ack->end_off_max - ack->out->len, &part);
    spop_write_u8(&part, value ? ACTION_SET : ACTION_UNSET);
    spop_write_u8(&part, value ? ACTION_SET_ARGS : ACTION_UNSET_ARGS);
    spop_write_u8(&part, (uint8_t)scope);
    spop_write_string(&part, name_bytes);
    if (value) {
        spop_value_encode(&part, value);
    }
    if (part.status != SPOP_OK) {
        ack->n_left_out++;
        return;
    }
    spop_writer_join(ack->out, &part);
    ack->n_actions++;
}

void spop_ack_set_bool(struct spop_ack *ack, enum spop_scope scope, const char *name,
                       bool value)
{
    struct spop_value typed = {.type = SPOP_VALUE_BOOL, .boolean = value};
    ack_action(ack, scope, name, &typed);
}

void spop_ack_set_int64(struct spop_ack *ack, enum spop_scope scope, const char *name,
                        int64_t value)
{
    struct spop_value typed = {.type = SPOP_VALUE_INT64, .integer = (uint64_t)value};
    ack_action(ack, scope, name, &typed);
}

void spop_ack_set_string(struct spop_ack *ack, enum spop_scope scope, const char *name,
                         struct spop_bytes value)
{
    struct spop_value typed = {.type = SPOP_VALUE_STRING, .bytes = value};
    ack_action(ack, scope, name, &typed);
}

void spop_ack_unset(struct spop_ack *ack, enum spop_scope scope, const char *name)
{
    ack_action(ack, scope, name, NULL);
}

void spop_ack_end(struct spop_ack *ack)
{
    if (ack->n_actions == 0) {
        spop_ack_unset(ack, SPOP_SCOPE_TXN, "_");
    }
    SPOP_ENSURE(ack->n_actions > 0);
    spop_frame_end(ack->out, ack->start_off);
}
