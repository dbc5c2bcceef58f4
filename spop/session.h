/**
 * @file spop/session.h  The agent's side of one connection, without the connection.
 *
 * Model:     bytes in -> events; the session's own frames (AGENT-HELLO,
 *            AGENT-DISCONNECT, the ACK of a NOTIFY there is no room for) are appended
 *            to a writer. The caller keeps the bytes that next did not consume and
 *            offers them again with what follows. Any split of a stream gives the same
 *            events and the same output. A NOTIFY is always whole: its fragments are
 *            put together in a buffer that the caller lends for it.
 * Ownership: keeps numbers, and a borrowed buffer while spop_session_is_assembling;
 *            event.payload is a view into the input or into that buffer, good until the
 *            next call.
 * Threads:   one session, one thread.
 * Errors:    every malformed input has a stated answer (reference table of the
 *            protocol): a DISCONNECT with a code, then SPOP_EVENT_CLOSE.
 * Limits:    SPOP_HELLO_BYTES_MAX before the HELLO, afterwards the announced size but
 *            never more than SPOP_FRAME_SIZE_MAX; SPOP_UNKNOWN_FRAMES_MAX; fragments of
 *            one NOTIFY at a time, as many bytes as are lent.
 * Not here:  timers, sockets, ACKs (ack.h; the caller answers NOTIFYs itself), the
 *            payload of a NOTIFY: where notify.h finds it malformed, the caller calls
 *            spop_session_disconnect with SPOP_CODE_INVALID.
 */
#ifndef SPOP_SESSION_H
#define SPOP_SESSION_H

#include "spop/cursor.h"
#include "spop/spop.h"

enum spop_event_type {
    SPOP_EVENT_MORE = 0, /* nothing complete: read more; `frame_bytes` says how much */
    SPOP_EVENT_HELLO,    /* handshake done, AGENT-HELLO is in the output */
    SPOP_EVENT_NOTIFY,   /* answer with exactly one ACK */
    SPOP_EVENT_FRAGMENTED, /* a NOTIFY begins in fragments; nothing is taken yet: lend a
                              buffer, then call again with the same bytes */
    SPOP_EVENT_FRAGMENT,   /* a fragment was taken: call again */
    SPOP_EVENT_REFUSED, /* a fragmented NOTIFY had no room; its ACK is in the output */
    SPOP_EVENT_ABORTED, /* HAProxy gave up a fragmented NOTIFY: no ACK */
    SPOP_EVENT_IGNORED, /* a frame was skipped (unknown type): call again */
    SPOP_EVENT_CLOSE,   /* send the output, then close */
};

struct spop_event {
    enum spop_event_type type;
    size_t frame_bytes; /* MORE: prefix and body of the frame begun, 0 if unknown */
    uint64_t stream_id; /* NOTIFY */
    uint64_t frame_id;  /* NOTIFY */
    struct spop_bytes payload; /* NOTIFY: LIST-OF-MESSAGES, whole */
    bool is_fragmented;        /* NOTIFY: came in more than one frame */
    enum spop_code code;       /* CLOSE: why, as sent to the peer */
    bool is_peer_ending;       /* CLOSE: the peer sent DISCONNECT; an everyday event */
    bool is_health_check;      /* CLOSE: a health check was answered */
};

enum spop_session_state {
    SPOP_SESSION_NEW = 0, /* nothing received */
    SPOP_SESSION_OPEN,    /* handshake done */
    SPOP_SESSION_CLOSED,  /* DISCONNECT sent or health check answered */
};

enum spop_fragments_state {
    SPOP_FRAGMENTS_NONE = 0,
    SPOP_FRAGMENTS_ASKED,     /* FRAGMENTED was reported */
    SPOP_FRAGMENTS_KEPT,      /* further fragments are added */
    SPOP_FRAGMENTS_SWALLOWED, /* refused: they are dropped, up to FIN */
};

/** The NOTIFY that is coming in fragments. */
struct spop_fragments {
    enum spop_fragments_state state;
    uint64_t stream_id;
    uint64_t frame_id;
    struct spop_writer payload; /* to the lent buffer */
};

struct spop_session {
    enum spop_session_state state;
    size_t frame_bytes_max;    /* agreed size: no frame of ours is larger */
    size_t receive_bytes_max;  /* largest frame accepted now */
    unsigned n_unknown_frames; /* skipped so far */
    struct spop_fragments fragments;
    enum spop_code peer_code;  /* of the peer's DISCONNECT; normal if unregistered */
    enum spop_code close_code; /* CLOSED: what every CLOSE event reports */
    bool is_peer_ending;       /* CLOSED: likewise */
    bool is_health_check;      /* CLOSED: likewise */
};

/** Output room that next and disconnect need. */
enum {
    SPOP_SESSION_ROOM_MIN = 512
};

void spop_session_init(struct spop_session *s);

/**
 * Take the next frame from `in`.
 *
 * @param in     bytes received and not yet consumed
 * @param out    has at least SPOP_SESSION_ROOM_MIN bytes of room (asserted)
 * @param event  always filled
 * @return bytes of `in` that are done with; 0 with SPOP_EVENT_MORE and
 *         SPOP_EVENT_FRAGMENTED. With SPOP_EVENT_CLOSE all of `in` is done with, now
 *         and in every later call.
 */
SPOP_MUST_USE size_t spop_session_next(struct spop_session *s, struct spop_bytes in,
                                       struct spop_writer *out,
                                       struct spop_event *event);

/**
 * After SPOP_EVENT_FRAGMENTED (asserted): lend `cap` bytes for the payload. Without it,
 * and where they are too few, the NOTIFY is refused.
 */
void spop_session_lend(struct spop_session *s, uint8_t *buf, size_t cap);

/**
 * @return true while a lent buffer is in use. It is the caller's again when this is
 *         false: after each NOTIFY (once it is answered), REFUSED, ABORTED and CLOSE,
 *         and after spop_session_disconnect.
 */
bool spop_session_is_assembling(const struct spop_session *s);

/**
 * End the conversation from our side: append AGENT-DISCONNECT with `code`, once.
 * Does nothing when the session is closed already.
 *
 * @param out  as for next, unless the session is closed
 */
void spop_session_disconnect(struct spop_session *s, enum spop_code code,
                             struct spop_writer *out);

#endif
