#include "tests/support/decoded_ack.h"

#include <string.h>

#include "spop/actions.h"
#include "spop/frame.h"

static bool copy_text(char *to, size_t cap, struct spop_bytes bytes)
{
    if (bytes.len >= cap) {
        return false;
    }
    memcpy(to, bytes.ptr, bytes.len);
    to[bytes.len] = '\0';
    return true;
}

static bool keep_action(struct decoded_action *kept, const struct spop_action *action)
{
    memset(kept, 0, sizeof(*kept));
    kept->is_unset = action->is_unset;
    kept->scope = (uint8_t)action->scope;
    kept->value = action->value;
    return copy_text(kept->name, sizeof(kept->name), action->name)
           && (action->value.type != SPOP_VALUE_STRING
               || copy_text(kept->text, sizeof(kept->text), action->value.bytes));
}

bool decoded_ack_read(struct decoded_ack *ack, struct spop_bytes bytes)
{
    struct spop_frame frame;
    struct spop_actions it;
    struct spop_action action;
    enum spop_status status = spop_frame_decode(bytes, SPOP_FRAME_SIZE_MAX, &frame);
    if (status != SPOP_OK || frame.wire_bytes != bytes.len
        || frame.type != SPOP_FRAME_ACK || frame.flags != SPOP_FLAG_FIN) {
        return false;
    }
    ack->stream_id = frame.stream_id;
    ack->frame_id = frame.frame_id;
    ack->n_actions = 0;
    spop_actions_init(&it, frame.payload);
    while ((status = spop_actions_next(&it, &action)) == SPOP_OK) {
        if (ack->n_actions == DECODED_ACK_ACTIONS_MAX
            || !keep_action(&ack->actions[ack->n_actions], &action)) {
            return false;
        }
        ack->n_actions++;
    }
    return status == SPOP_END && ack->n_actions > 0;
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
