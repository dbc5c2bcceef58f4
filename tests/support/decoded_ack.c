#include "tests/support/decoded_ack.h"

#include <string.h>

static bool copy_text(char *to, size_t cap, struct spop_bytes bytes)
{
    if (bytes.len >= cap) {
        return false;
    }
    memcpy(to, bytes.ptr, bytes.len);
    to[bytes.len] = '\0';
    return true;
}

static bool read_action(struct spop_reader *r, struct decoded_action *action)
{
    memset(action, 0, sizeof(*action));
    uint8_t type = spop_read_u8(r);
    uint8_t n_args = spop_read_u8(r);
    action->is_unset = type == 2;
    action->scope = spop_read_u8(r);
    bool ok = (type == 1 && n_args == 3) || (type == 2 && n_args == 2);
    ok = ok && copy_text(action->name, sizeof(action->name), spop_read_string(r));
    if (ok && !action->is_unset) {
        spop_value_decode(r, &action->value);
    }
    if (action->value.type == SPOP_VALUE_STRING) {
        ok = ok && copy_text(action->text, sizeof(action->text), action->value.bytes);
    }
    return ok && r->status == SPOP_OK;
}

bool decoded_ack_read(struct decoded_ack *ack, struct spop_bytes frame)
{
    struct spop_reader r;
    spop_reader_init(&r, frame);
    uint32_t len = spop_read_be32(&r);
    uint8_t type = spop_read_u8(&r);
    uint32_t flags = spop_read_be32(&r);
    ack->stream_id = spop_read_varint(&r);
    ack->frame_id = spop_read_varint(&r);
    ack->n_actions = 0;
    if (r.status != SPOP_OK || len != frame.len - 4 || type != SPOP_FRAME_ACK
        || flags != 1) {
        return false;
    }
    while (r.len > 0) {
        if (ack->n_actions == DECODED_ACK_ACTIONS_MAX
            || !read_action(&r, &ack->actions[ack->n_actions])) {
            return false;
        }
        ack->n_actions++;
    }
    return ack->n_actions > 0;
}

const struct decoded_action *decoded_ack_find(const struct decoded_ack *ack,
                                              const char *name)
{
    for (unsigned i = 0; i < ack->n_actions; i++) {
        if (!ack->actions[i].is_unset && strcmp(ack->actions[i].name, name) == 0) {
            return &ack->actions[i];
        }
    }
    return NULL;
}

const char *decoded_ack_text(const struct decoded_ack *ack, const char *name)
{
    const struct decoded_action *action = decoded_ack_find(ack, name);
    return action != NULL ? action->text : "";
}

int64_t decoded_ack_number(const struct decoded_ack *ack, const char *name)
{
    const struct decoded_action *action = decoded_ack_find(ack, name);
    int64_t number = -1;
    if (action == NULL) {
        return -1;
    }
    if (action->value.type == SPOP_VALUE_BOOL) {
        return action->value.boolean;
    }
    return spop_value_int64(&action->value, &number) ? number : -1;
}
