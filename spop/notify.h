/**
 * @file spop/notify.h  Walk the messages and arguments of one NOTIFY payload.
 *
 * Model:     an iterator over bytes; nothing is copied, nothing is allocated.
 * Ownership: every view points into the payload given to init.
 * Threads:   no shared state.
 * Errors:    sticky: after the first error every call returns the same error.
 * Limits:    255 arguments a message, as the wire has one byte for their number.
 * Not here:  frame headers (frame.h), what a name means (the agent's decide/).
 */
#ifndef SPOP_NOTIFY_H
#define SPOP_NOTIFY_H

#include "spop/cursor.h"
#include "spop/value.h"

struct spop_notify {
    struct spop_reader reader;
    unsigned n_args_left; /* arguments of the current message not yet read */
};

struct spop_message {
    struct spop_bytes name;
    unsigned n_args; /* 0 to 255 */
};

struct spop_arg {
    struct spop_bytes name; /* may be empty */
    struct spop_value value;
};

void spop_notify_init(struct spop_notify *it, struct spop_bytes payload);

/**
 * Move to the next message, past whatever arguments of the current one are unread.
 *
 * @return SPOP_OK and `*msg`, SPOP_END after the last message, or an error
 * @errors SPOP_ERR_SHORT, SPOP_ERR_VARINT, SPOP_ERR_TYPE; `*msg` untouched
 */
SPOP_MUST_USE enum spop_status spop_notify_next_message(struct spop_notify *it,
                                                        struct spop_message *msg);

/**
 * Read the next argument of the current message.
 *
 * @return SPOP_OK and `*arg`, SPOP_END after its last argument, or an error
 * @errors as spop_notify_next_message; `*arg` untouched
 */
SPOP_MUST_USE SPOP_INLINE enum spop_status spop_notify_next_arg(struct spop_notify *it,
                                                                struct spop_arg *arg)
{
    struct spop_reader r = it->reader;
    if (r.status != SPOP_OK) {
        return r.status;
    }
    if (it->n_args_left == 0) {
        return SPOP_END;
    }
    struct spop_arg next = {0};
    next.name = spop_read_string(&r);
    spop_value_decode(&r, &next.value);
    it->reader = r;
    if (r.status != SPOP_OK) {
        return r.status;
    }
    it->n_args_left--;
    *arg = next;
    return SPOP_OK;
}

#endif
