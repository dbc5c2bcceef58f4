#include "spop/engine.h"

#include "spop/disconnect.h"
#include "spop/ensure.h"
#include "spop/frame.h"

void spop_engine_start(struct spop_engine *e, const struct spop_haproxy_hello *hello,
                       struct spop_writer *out)
{
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ENGINE_ROOM_MIN);
    *e = (struct spop_engine){
        .state = SPOP_ENGINE_WAITING,
        .frame_bytes_max = (size_t)hello->frame_bytes_max,
        .is_pipelining = hello->is_pipelining,
        .is_health_check = hello->is_health_check,
    };
    spop_haproxy_hello_encode(out, hello);
}

void spop_engine_disconnect(struct spop_engine *e, enum spop_code code,
                            struct spop_writer *out)
{
    if (e->state == SPOP_ENGINE_ENDING || e->state == SPOP_ENGINE_CLOSED) {
        return;
    }
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ENGINE_ROOM_MIN);
    spop_disconnect_encode(out, SPOP_FRAME_HAPROXY_DISCONNECT, code);
    e->state = SPOP_ENGINE_ENDING;
}

static void engine_close(struct spop_engine *e, enum spop_code code)
{
    e->state = SPOP_ENGINE_CLOSED;
    e->close_code = code;
}

/* The agent broke the protocol: tell it, and wait for nothing. */
static void engine_fail(struct spop_engine *e, enum spop_code code,
                        struct spop_writer *out)
{
    spop_engine_disconnect(e, code, out);
    engine_close(e, code);
}

static void engine_agent_disconnect(struct spop_engine *e,
                                    const struct spop_frame *frame)
{
    struct spop_disconnect disconnect;
    bool is_known = spop_frame_is_final(frame) && spop_frame_is_of_connection(frame)
                    && spop_disconnect_decode(frame->payload, &disconnect) == SPOP_OK
                    && spop_code_is_registered(disconnect.code);
    e->is_agent_ending = true;
    engine_close(e, is_known ? (enum spop_code)disconnect.code : SPOP_CODE_UNKNOWN);
}

static void engine_hello(struct spop_engine *e, const struct spop_frame *frame,
                         struct spop_writer *out, struct spop_engine_event *event)
{
    struct spop_haproxy_hello ours = {.frame_bytes_max = e->frame_bytes_max,
                                      .is_pipelining = e->is_pipelining,
                                      .is_health_check = e->is_health_check};
    struct spop_agent_hello theirs;
    enum spop_code code = spop_agent_hello_decode(frame, &ours, &theirs);
    if (code != SPOP_CODE_NORMAL) {
        engine_fail(e, code, out);
        return;
    }
    if (e->is_health_check) {
        e->is_healthy = true;
        engine_close(e, SPOP_CODE_NORMAL);
        return;
    }
    e->frame_bytes_max = theirs.frame_bytes_max;
    e->is_pipelining = theirs.is_pipelining;
    e->is_fragmentation = theirs.is_fragmentation;
    e->state = SPOP_ENGINE_OPEN;
    event->type = SPOP_ENGINE_HELLO;
}

static void engine_ack(struct spop_engine *e, const struct spop_frame *frame,
                       struct spop_writer *out, struct spop_engine_event *event)
{
    if (!spop_frame_is_final(frame)) {
        engine_fail(e, SPOP_CODE_NO_FRAGMENTATION, out);
        return;
    }
    event->type = SPOP_ENGINE_ACK;
    event->stream_id = frame->stream_id;
    event->frame_id = frame->frame_id;
    event->payload = frame->payload;
    event->is_aborted = (frame->flags & SPOP_FLAG_ABORT) != 0;
}

static void engine_frame(struct spop_engine *e, const struct spop_frame *frame,
                         struct spop_writer *out, struct spop_engine_event *event)
{
    if (frame->type == SPOP_FRAME_AGENT_DISCONNECT) {
        engine_agent_disconnect(e, frame);
    } else if (e->state == SPOP_ENGINE_ENDING) {
        event->type = SPOP_ENGINE_IGNORED;
    } else if (e->state == SPOP_ENGINE_WAITING
               && frame->type == SPOP_FRAME_AGENT_HELLO) {
        engine_hello(e, frame, out, event);
    } else if (e->state == SPOP_ENGINE_OPEN && frame->type == SPOP_FRAME_ACK) {
        engine_ack(e, frame, out, event);
    } else {
        engine_fail(e, SPOP_CODE_INVALID, out);
    }
}

static void engine_close_event(const struct spop_engine *e,
                               struct spop_engine_event *event)
{
    *event = (struct spop_engine_event){
        .type = SPOP_ENGINE_CLOSE,
        .code = e->close_code,
        .is_agent_ending = e->is_agent_ending,
        .is_health_check = e->is_healthy,
    };
}

size_t spop_engine_next(struct spop_engine *e, struct spop_bytes in,
                        struct spop_writer *out, struct spop_engine_event *event)
{
    *event = (struct spop_engine_event){.type = SPOP_ENGINE_MORE};
    if (e->state == SPOP_ENGINE_CLOSED) {
        engine_close_event(e, event);
        return in.len;
    }
    SPOP_ENSURE(spop_writer_room(out) >= SPOP_ENGINE_ROOM_MIN);
    struct spop_frame frame;
    enum spop_status status = spop_frame_decode(in, e->frame_bytes_max, &frame);
    if (status == SPOP_MORE) {
        event->frame_bytes = frame.wire_bytes;
        return 0;
    }
    if (status == SPOP_OK) {
        engine_frame(e, &frame, out, event);
    } else {
        bool is_too_big = status == SPOP_ERR_TOO_BIG;
        engine_fail(e, is_too_big ? SPOP_CODE_TOO_BIG : SPOP_CODE_INVALID, out);
    }
    if (e->state == SPOP_ENGINE_CLOSED) {
        engine_close_event(e, event);
        return in.len;
    }
    return frame.wire_bytes;
}

enum spop_status spop_engine_notify(const struct spop_engine *e,
                                    struct spop_writer *out, uint64_t stream_id,
                                    uint64_t frame_id, struct spop_bytes payload)
{
    const size_t part_bytes_max = e->frame_bytes_max - SPOP_ENGINE_HEAD_BYTES_MAX;
    SPOP_ENSURE(e->state == SPOP_ENGINE_OPEN);
    if (payload.len > part_bytes_max && !e->is_fragmentation) {
        return SPOP_ERR_TOO_BIG;
    }
    struct spop_reader left;
    struct spop_writer w;
    enum spop_frame_type type = SPOP_FRAME_NOTIFY;
    spop_reader_init(&left, payload);
    spop_writer_fork(out, SIZE_MAX, &w);
    do {
        bool is_last = left.len <= part_bytes_max;
        size_t start_off = spop_frame_begin_flagged(&w, type,
                                                    is_last ? SPOP_FLAG_FIN : 0,
                                                    stream_id, frame_id);
        spop_write_bytes(&w,
                         spop_read_bytes(&left, is_last ? left.len : part_bytes_max));
        spop_frame_end(&w, start_off);
        type = SPOP_FRAME_UNSET; /* of all parts after the first */
    } while (left.len > 0 && w.status == SPOP_OK);
    if (w.status == SPOP_OK) {
        spop_writer_join(out, &w);
    }
    return w.status;
}
