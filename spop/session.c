#include "spop/session.h"

#include "spop/ack.h"
#include "spop/disconnect.h"
#include "spop/ensure.h"
#include "spop/frame.h"
#include "spop/hello.h"

void spop_session_init(struct spop_session *s)
{
    *s = (struct spop_session){
        .state = SPOP_SESSION_NEW,
        .receive_bytes_max = SPOP_HELLO_BYTES_MAX,
    };
}

void spop_session_disconnect(struct spop_session *s, enum spop_code code,
                             struct spop_writer *out)
{
    if (s->state == SPOP_SESSION_CLOSED) {
        return;
    }
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_SESSION_ROOM_MIN);
    spop_disconnect_encode(out, SPOP_FRAME_AGENT_DISCONNECT, code);
    s->state = SPOP_SESSION_CLOSED;
    s->close_code = code;
}

static void session_hello(struct spop_session *s, const struct spop_frame *frame,
                          struct spop_writer *out, struct spop_event *event)
{
    struct spop_haproxy_hello theirs;
    enum spop_code code = spop_hello_decode(frame, &theirs);
    if (code != SPOP_CODE_NORMAL) {
        spop_session_disconnect(s, code, out);
        return;
    }
    if (theirs.is_health_check) {
        /* The least size is right for every tune.bufsize, and nothing may follow. */
        struct spop_agent_hello reply = {.frame_bytes_max = SPOP_FRAME_SIZE_MIN};
        spop_hello_encode(out, &reply);
        s->state = SPOP_SESSION_CLOSED;
        s->is_health_check = true;
        return;
    }
    size_t frame_bytes_max = theirs.frame_bytes_max < SPOP_FRAME_SIZE_MAX
                                 ? (size_t)theirs.frame_bytes_max
                                 : SPOP_FRAME_SIZE_MAX;
    s->frame_bytes_max = frame_bytes_max;
    s->receive_bytes_max = frame_bytes_max;
    /* Without fragmentation one header too long makes HAProxy up to 3.0 open hundreds
     * of connections. */
    struct spop_agent_hello ours = {.frame_bytes_max = frame_bytes_max,
                                    .is_pipelining = theirs.is_pipelining,
                                    .is_fragmentation = true};
    spop_hello_encode(out, &ours);
    s->state = SPOP_SESSION_OPEN;
    event->type = SPOP_EVENT_HELLO;
}

static void session_peer_disconnect(struct spop_session *s, enum spop_code answer,
                                    struct spop_writer *out)
{
    s->peer_code = answer;
    s->is_peer_ending = true;
    spop_session_disconnect(s, answer, out);
}

void spop_session_lend(struct spop_session *s, uint8_t *buf, size_t cap)
{
    SPOP_ENSURE(s->fragments.state == SPOP_FRAGMENTS_ASKED);
    spop_writer_init(&s->fragments.payload, buf, cap);
}

bool spop_session_is_assembling(const struct spop_session *s)
{
    return s->state == SPOP_SESSION_OPEN
           && (s->fragments.state == SPOP_FRAGMENTS_ASKED
               || s->fragments.state == SPOP_FRAGMENTS_KEPT);
}

static bool fragments_are_coming(const struct spop_session *s)
{
    return s->fragments.state == SPOP_FRAGMENTS_KEPT
           || s->fragments.state == SPOP_FRAGMENTS_SWALLOWED;
}

/* Answer a NOTIFY there is no room for. While fragments are still to come HAProxy takes
 * only an ACK that aborts it, afterwards only an ordinary one. */
static void session_refuse(struct spop_session *s, bool is_final,
                           struct spop_writer *out, struct spop_event *event)
{
    struct spop_fragments *fragments = &s->fragments;
    event->type = SPOP_EVENT_REFUSED;
    if (!is_final) {
        spop_ack_abort(out, fragments->stream_id, fragments->frame_id);
        fragments->state = SPOP_FRAGMENTS_SWALLOWED;
        return;
    }
    struct spop_ack neutral;
    spop_ack_begin(&neutral, out, fragments->stream_id, fragments->frame_id,
                   s->frame_bytes_max);
    spop_ack_end(&neutral);
    fragments->state = SPOP_FRAGMENTS_NONE;
}

static void session_fragment_add(struct spop_session *s, const struct spop_frame *frame,
                                 struct spop_writer *out, struct spop_event *event)
{
    struct spop_fragments *fragments = &s->fragments;
    bool is_final = spop_frame_is_final(frame);
    spop_write_bytes(&fragments->payload, frame->payload);
    if (fragments->payload.status != SPOP_OK) {
        session_refuse(s, is_final, out, event);
        return;
    }
    event->type = SPOP_EVENT_FRAGMENT;
    if (is_final) {
        *event = (struct spop_event){
            .type = SPOP_EVENT_NOTIFY,
            .stream_id = fragments->stream_id,
            .frame_id = fragments->frame_id,
            .payload = {.ptr = fragments->payload.buf, .len = fragments->payload.len},
            .is_fragmented = true,
        };
        fragments->state = SPOP_FRAGMENTS_NONE;
    }
}

/* The first fragment: taken only once the caller was asked for a buffer. */
static void session_fragments_begin(struct spop_session *s,
                                    const struct spop_frame *frame,
                                    struct spop_writer *out, struct spop_event *event)
{
    struct spop_fragments *fragments = &s->fragments;
    if (fragments->state == SPOP_FRAGMENTS_NONE) {
        *fragments = (struct spop_fragments){.state = SPOP_FRAGMENTS_ASKED};
        event->type = SPOP_EVENT_FRAGMENTED;
        return;
    }
    fragments->state = SPOP_FRAGMENTS_KEPT;
    fragments->stream_id = frame->stream_id;
    fragments->frame_id = frame->frame_id;
    session_fragment_add(s, frame, out, event);
}

static void session_notify(struct spop_session *s, const struct spop_frame *frame,
                           struct spop_writer *out, struct spop_event *event)
{
    if (fragments_are_coming(s)) {
        spop_session_disconnect(s, SPOP_CODE_INTERLACED, out);
        return;
    }
    if (!spop_frame_is_final(frame)) {
        session_fragments_begin(s, frame, out, event);
        return;
    }
    event->type = SPOP_EVENT_NOTIFY;
    event->stream_id = frame->stream_id;
    event->frame_id = frame->frame_id;
    event->payload = frame->payload;
}

/* A further fragment. ABORT counts only together with FIN, as HAProxy sends it. */
static void session_fragment(struct spop_session *s, const struct spop_frame *frame,
                             struct spop_writer *out, struct spop_event *event)
{
    struct spop_fragments *fragments = &s->fragments;
    if (!fragments_are_coming(s) || frame->stream_id != fragments->stream_id
        || frame->frame_id != fragments->frame_id) {
        spop_session_disconnect(s, SPOP_CODE_INTERLACED, out);
        return;
    }
    bool is_kept = fragments->state == SPOP_FRAGMENTS_KEPT;
    bool is_final = spop_frame_is_final(frame);
    bool is_aborted = is_final && (frame->flags & SPOP_FLAG_ABORT) != 0;
    if (is_kept && !is_aborted) {
        session_fragment_add(s, frame, out, event);
        return;
    }
    event->type = is_kept ? SPOP_EVENT_ABORTED : SPOP_EVENT_FRAGMENT;
    if (is_final) {
        fragments->state = SPOP_FRAGMENTS_NONE;
    }
}

static void session_unknown(struct spop_session *s, struct spop_writer *out,
                            struct spop_event *event)
{
    if (s->n_unknown_frames == SPOP_UNKNOWN_FRAMES_MAX) {
        spop_session_disconnect(s, SPOP_CODE_INVALID, out);
        return;
    }
    s->n_unknown_frames++;
    event->type = SPOP_EVENT_IGNORED;
}

static void session_first_frame(struct spop_session *s, const struct spop_frame *frame,
                                struct spop_writer *out, struct spop_event *event)
{
    switch (frame->type) {
    case SPOP_FRAME_HAPROXY_HELLO:
        session_hello(s, frame, out, event);
        break;
    case SPOP_FRAME_HAPROXY_DISCONNECT:
        session_peer_disconnect(s, SPOP_CODE_NORMAL, out);
        break;
    default:
        spop_session_disconnect(s, SPOP_CODE_INVALID, out);
        break;
    }
}

static void session_later_frame(struct spop_session *s, const struct spop_frame *frame,
                                struct spop_writer *out, struct spop_event *event)
{
    switch (frame->type) {
    case SPOP_FRAME_NOTIFY:
        session_notify(s, frame, out, event);
        break;
    case SPOP_FRAME_UNSET:
        session_fragment(s, frame, out, event);
        break;
    case SPOP_FRAME_HAPROXY_DISCONNECT:
        session_peer_disconnect(s, spop_disconnect_answer(frame), out);
        break;
    case SPOP_FRAME_HAPROXY_HELLO:
    case SPOP_FRAME_AGENT_HELLO:
    case SPOP_FRAME_AGENT_DISCONNECT:
    case SPOP_FRAME_ACK:
        spop_session_disconnect(s, SPOP_CODE_INVALID, out);
        break;
    default:
        session_unknown(s, out, event);
        break;
    }
}

/* A frame that is none: only a DISCONNECT, however broken, is still taken for one. */
static void session_bad_frame(struct spop_session *s, const struct spop_frame *frame,
                              enum spop_status status, struct spop_writer *out)
{
    if (frame->type == SPOP_FRAME_HAPROXY_DISCONNECT) {
        session_peer_disconnect(s, SPOP_CODE_NORMAL, out);
    } else if (status == SPOP_ERR_TOO_BIG) {
        spop_session_disconnect(s, SPOP_CODE_TOO_BIG, out);
    } else {
        spop_session_disconnect(s, SPOP_CODE_INVALID, out);
    }
}

static void session_close_event(const struct spop_session *s, struct spop_event *event)
{
    *event = (struct spop_event){
        .type = SPOP_EVENT_CLOSE,
        .code = s->close_code,
        .is_peer_ending = s->is_peer_ending,
        .is_health_check = s->is_health_check,
    };
}

size_t spop_session_next(struct spop_session *s, struct spop_bytes in,
                         struct spop_writer *out, struct spop_event *event)
{
    *event = (struct spop_event){.type = SPOP_EVENT_MORE};
    if (s->state == SPOP_SESSION_CLOSED) {
        session_close_event(s, event);
        return in.len;
    }
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_SESSION_ROOM_MIN);
    struct spop_frame frame;
    enum spop_status status = spop_frame_decode(in, s->receive_bytes_max, &frame);
    if (status == SPOP_MORE) {
        event->frame_bytes = frame.wire_bytes;
        return 0;
    }
    if (status != SPOP_OK) {
        session_bad_frame(s, &frame, status, out);
    } else if (s->state == SPOP_SESSION_NEW) {
        session_first_frame(s, &frame, out, event);
    } else {
        session_later_frame(s, &frame, out, event);
    }
    if (s->state == SPOP_SESSION_CLOSED) {
        session_close_event(s, event);
        return in.len;
    }
    return event->type == SPOP_EVENT_FRAGMENTED ? 0 : frame.wire_bytes;
}
