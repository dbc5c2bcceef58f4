/**
 * @file spop/engine.h  HAProxy's side of one connection, without the connection.
 *
 * Model:     bytes in -> events, as session.h has it for the agent's side; HELLO, NOTIFY
 *            and DISCONNECT frames are appended to a writer. The caller keeps the bytes
 *            that next did not consume and offers them again with what follows. Any
 *            split of a stream gives the same events and the same output.
 * Ownership: keeps nothing but numbers; event.payload is a view into the input.
 * Threads:   one engine, one thread.
 * Errors:    every malformed input of an agent has a stated answer (README.md): a
 *            DISCONNECT with a code, then SPOP_ENGINE_CLOSE.
 * Limits:    no frame larger than we announced, after the HELLO than was agreed.
 * Not here:  timers, sockets, which NOTIFY an ACK answers (the caller knows its ids),
 *            the payload of an ACK: where actions.h finds it malformed, the caller
 *            calls spop_engine_disconnect with SPOP_CODE_INVALID.
 */
#ifndef SPOP_ENGINE_H
#define SPOP_ENGINE_H

#include "spop/cursor.h"
#include "spop/hello.h"
#include "spop/spop.h"

enum spop_engine_event_type {
    SPOP_ENGINE_MORE = 0, /* nothing complete: read more; `frame_bytes` says how much */
    SPOP_ENGINE_HELLO,    /* handshake done: NOTIFYs may go out */
    SPOP_ENGINE_ACK,      /* the answer to a NOTIFY */
    SPOP_ENGINE_IGNORED,  /* a frame after our DISCONNECT was skipped: call again */
    SPOP_ENGINE_CLOSE,    /* send the output, then close */
};

struct spop_engine_event {
    enum spop_engine_event_type type;
    size_t frame_bytes; /* MORE: prefix and body of the frame begun, 0 if unknown */
    uint64_t stream_id; /* ACK */
    uint64_t frame_id;  /* ACK */
    struct spop_bytes payload; /* ACK: LIST-OF-ACTIONS */
    bool is_aborted;           /* ACK: the agent gives up on a NOTIFY in fragments */
    enum spop_code code;       /* CLOSE: why, in the words of who ended it */
    bool is_agent_ending;      /* CLOSE: the agent sent DISCONNECT */
    bool is_health_check;      /* CLOSE: a health check was answered as it should be */
};

enum spop_engine_state {
    SPOP_ENGINE_WAITING = 0, /* HELLO sent */
    SPOP_ENGINE_OPEN,        /* handshake done */
    SPOP_ENGINE_ENDING,      /* DISCONNECT sent, waiting for the agent's */
    SPOP_ENGINE_CLOSED,
};

struct spop_engine {
    enum spop_engine_state state;
    size_t frame_bytes_max; /* announced, then agreed: of both sides' frames */
    bool is_pipelining;     /* more than one NOTIFY may be under way */
    bool is_fragmentation;  /* the agent puts fragments together */
    bool is_health_check;
    enum spop_code close_code; /* CLOSED: what every CLOSE event reports */
    bool is_agent_ending;      /* CLOSED: likewise */
    bool is_healthy;           /* CLOSED: likewise */
};

enum {
    SPOP_ENGINE_ROOM_MIN = 512,      /* output room of start, next and disconnect */
    SPOP_ENGINE_HEAD_BYTES_MAX = 32, /* of a frame no byte of the payload, as HAProxy */
};

/**
 * Begin a conversation: append HAPROXY-HELLO.
 *
 * @param hello  its frame_bytes_max is SPOP_FRAME_SIZE_MIN to SPOP_FRAME_SIZE_MAX
 *               (asserted)
 * @param out    has at least SPOP_ENGINE_ROOM_MIN bytes of room (asserted)
 */
void spop_engine_start(struct spop_engine *e, const struct spop_haproxy_hello *hello,
                       struct spop_writer *out);

/**
 * Take the next frame from `in`.
 *
 * @param in     bytes received and not yet consumed
 * @param out    has at least SPOP_ENGINE_ROOM_MIN bytes of room (asserted)
 * @param event  always filled
 * @return bytes of `in` that are done with; 0 with SPOP_ENGINE_MORE. With
 *         SPOP_ENGINE_CLOSE all of `in` is done with, now and in every later call.
 */
SPOP_MUST_USE size_t spop_engine_next(struct spop_engine *e, struct spop_bytes in,
                                      struct spop_writer *out,
                                      struct spop_engine_event *event);

/**
 * Append one NOTIFY, in several frames where it does not fit one.
 *
 * @param payload  messages.h
 * @return SPOP_OK; or an error, nothing is written then
 * @errors SPOP_ERR_TOO_BIG when it does not fit a frame and the agent takes no
 *         fragments, SPOP_ERR_ROOM; asserts that the handshake is done
 */
SPOP_MUST_USE enum spop_status spop_engine_notify(const struct spop_engine *e,
                                                  struct spop_writer *out,
                                                  uint64_t stream_id, uint64_t frame_id,
                                                  struct spop_bytes payload);

/**
 * End the conversation from our side: append HAPROXY-DISCONNECT with `code`, once; the
 * agent's own DISCONNECT is what CLOSE then reports. Does nothing when that is under way
 * or over.
 *
 * @param out  as for next
 */
void spop_engine_disconnect(struct spop_engine *e, enum spop_code code,
                            struct spop_writer *out);

#endif
