#include "spop/session.h"

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
    spop_disconnect_encode(out, code);
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
    struct spop_agent_hello ours = {.frame_bytes_max = frame_bytes_max,
                                    .is_pipelining = theirs.is_pipelining};
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

static void session_notify(struct spop_session *s, const struct spop_frame *frame,
                           struct spop_writer *out, struct spop_event *event)
{
    if (!spop_frame_is_final(frame)) {
        spop_session_disconnect(s, SPOP_CODE_NO_FRAGMENTATION, out);
        return;
    }
    event->type = SPOP_EVENT_NOTIFY;
    event->stream_id = frame->stream_id;
    event->frame_id = frame->frame_id;
    event->payload = frame->payload;
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
        spop_session_disconnect(s, SPOP_CODE_NO_FRAGMENTATION, out);
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
    return frame.wire_bytes;
}
