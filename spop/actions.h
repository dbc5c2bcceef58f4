/**
 * @file spop/actions.h  Walk the actions of one ACK payload.
 *
 * Model:     an iterator over bytes; nothing is copied, nothing is allocated.
 * Ownership: every view points into the payload given to init.
 * Threads:   no shared state.
 * Errors:    sticky: after the first error every call returns the same error. HAProxy
 *            drops such an action and all after it without a word.
 * Limits:    none beyond the size of the frame.
 * Not here:  which names HAProxy takes ([A-Za-z0-9_.], 63 bytes with scope and prefix).
 */
#ifndef SPOP_ACTIONS_H
#define SPOP_ACTIONS_H

#include "spop/ack.h"
#include "spop/cursor.h"
#include "spop/value.h"

struct spop_actions {
    struct spop_reader reader;
};

struct spop_action {
    bool is_unset;
    enum spop_scope scope;
    struct spop_bytes name;  /* without HAProxy's prefix */
    struct spop_value value; /* NULL when it is unset */
};

void spop_actions_init(struct spop_actions *it, struct spop_bytes payload);

/**
 * Read the next action.
 *
 * @return SPOP_OK and `*action`, SPOP_END after the last one, or an error
 * @errors SPOP_ERR_SHORT, SPOP_ERR_VARINT, SPOP_ERR_TYPE; SPOP_ERR_FRAME for an unknown
 *         action or scope, a wrong number of arguments or an empty name; `*action`
 *         untouched
 */
SPOP_MUST_USE enum spop_status spop_actions_next(struct spop_actions *it,
                                                 struct spop_action *action);

#endif
