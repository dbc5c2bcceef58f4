/**
 * @file spop/disconnect.h  The DISCONNECT frame of either side.
 *
 * Model:     a status code and a text for people.
 * Ownership: decoded texts are views into the payload.
 * Threads:   no shared state.
 * Errors:    a malformed DISCONNECT is still a DISCONNECT: it is answered as normal.
 * Limits:    only registered codes are sent; HAProxy indexes a table with them.
 */
#ifndef SPOP_DISCONNECT_H
#define SPOP_DISCONNECT_H

#include "spop/cursor.h"
#include "spop/frame.h"

struct spop_disconnect {
    uint64_t code; /* as sent; may be one that nobody registered */
    struct spop_bytes message;
};

/**
 * Decode the payload of a DISCONNECT frame.
 *
 * @return SPOP_OK and `*disconnect`, or an error
 * @errors what a KV-LIST can have (kv.h); SPOP_ERR_FRAME for a code that is missing or
 *         negative; SPOP_ERR_TYPE for a value of a wrong type; `*disconnect` untouched
 */
SPOP_MUST_USE enum spop_status spop_disconnect_decode(
    struct spop_bytes payload, struct spop_disconnect *disconnect);

/**
 * Choose the code that answers the peer's DISCONNECT.
 *
 * @return its own code where the frame is well formed and the code registered, so that
 *         the reason shows in HAProxy's log; else SPOP_CODE_NORMAL
 */
enum spop_code spop_disconnect_answer(const struct spop_frame *frame);

/**
 * Append a DISCONNECT frame; through the writer SPOP_ERR_ROOM.
 *
 * @param type  SPOP_FRAME_AGENT_DISCONNECT or SPOP_FRAME_HAPROXY_DISCONNECT
 */
void spop_disconnect_encode(struct spop_writer *w, enum spop_frame_type type,
                            enum spop_code code);

#endif
