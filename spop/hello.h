/**
 * @file spop/hello.h  The handshake: HAPROXY-HELLO and AGENT-HELLO, read and written.
 *
 * Model:     a HELLO is accepted or has one code to be refused with.
 * Ownership: nothing of the frame is kept.
 * Threads:   no shared state.
 * Errors:    the DISCONNECT code itself. When several apply: fragmented, malformed,
 *            missing keys in the order 5, 6, 7, then unsupported values 8, 9.
 * Limits:    SPOP_FRAME_SIZE_MIN.
 * Not here:  what the two sides agree on (session.h).
 */
#ifndef SPOP_HELLO_H
#define SPOP_HELLO_H

#include "spop/cursor.h"
#include "spop/frame.h"

/** What HAProxy says about itself. */
struct spop_haproxy_hello {
    uint64_t frame_bytes_max; /* announced, SPOP_FRAME_SIZE_MIN or more */
    bool is_pipelining;       /* offers the capability */
    bool is_health_check;     /* wants our HELLO and nothing else */
};

/** What the agent says. */
struct spop_agent_hello {
    size_t frame_bytes_max; /* agreed */
    bool is_pipelining;     /* both can */
    bool is_fragmentation;  /* it puts fragments together; HAProxy never says it */
};

/**
 * Judge a HAPROXY-HELLO frame.
 *
 * @param hello  filled on SPOP_CODE_NORMAL, else untouched
 * @return SPOP_CODE_NORMAL, or the code of the DISCONNECT that answers it
 */
SPOP_MUST_USE enum spop_code spop_hello_decode(const struct spop_frame *frame,
                                               struct spop_haproxy_hello *hello);

/** Append an AGENT-HELLO frame; through the writer SPOP_ERR_ROOM. */
void spop_hello_encode(struct spop_writer *w, const struct spop_agent_hello *hello);

/** Append a HAPROXY-HELLO frame; through the writer SPOP_ERR_ROOM. */
void spop_haproxy_hello_encode(struct spop_writer *w,
                               const struct spop_haproxy_hello *hello);

/**
 * Judge an AGENT-HELLO frame as HAProxy does.
 *
 * @param ours   what was announced: the agent may not go beyond
 * @param hello  filled on SPOP_CODE_NORMAL, else untouched
 * @return SPOP_CODE_NORMAL, or the code of the DISCONNECT that answers it
 */
SPOP_MUST_USE enum spop_code spop_agent_hello_decode(
    const struct spop_frame *frame, const struct spop_haproxy_hello *ours,
    struct spop_agent_hello *hello);

#endif
