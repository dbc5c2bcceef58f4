/*
 * One connection's bytes. The first CHUNKS bytes choose how the rest is split.
 *
 * Laws:      any split gives the same events and the same output; no more is consumed
 *            than was offered; the output is whole frames of the agent's side, in an
 *            order that HAProxy accepts.
 * Must reach: every row of "What answers what" in spop/README.md, payloads that
 *            notify.h refuses, ACKs between the session's own frames, fragments with
 *            room and without.
 */
#include "spop/ack.h"
#include "spop/frame.h"
#include "spop/kv.h"
#include "spop/notify.h"
#include "spop/session.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/spop_record.h"

enum {
    CHUNKS = 8,
    STREAM_BYTES_MAX = 32768,
    RECORD_BYTES_MAX = 1 << 20, /* 3 000 frames of 11 bytes: events and ACKs of each */
    OFFERS = 1024,              /* of one stream, at most: copies cost their square */
    LENT_BYTES = 64,            /* for fragments: soon too few */
};

/* What a stream gave: its events written down one after the other, and the output. */
struct record {
    struct spop_writer events;
    struct spop_writer out;
    unsigned n_acks;
    size_t frame_bytes_max; /* agreed */
    uint8_t lent[LENT_BYTES];
    uint8_t event_buf[RECORD_BYTES_MAX];
    uint8_t out_buf[RECORD_BYTES_MAX];
};

static struct record whole;
static struct record parts;

/* As the agent does: one ACK, or the end where the payload cannot be walked. */
static void answer(struct spop_session *s, const struct spop_event *event,
                   struct record *rec)
{
    struct spop_notify it;
    struct spop_message message;
    struct spop_arg arg;
    enum spop_status status = SPOP_OK;
    spop_notify_init(&it, event->payload);
    while ((status = spop_notify_next_message(&it, &message)) == SPOP_OK) {
        FUZZ_CHECK(spop_record_is_inside(message.name, event->payload));
        while (spop_notify_next_arg(&it, &arg) == SPOP_OK) {
            FUZZ_CHECK(spop_record_is_inside(arg.name, event->payload));
            spop_write_u8(&rec->events, (uint8_t)arg.value.type);
        }
    }
    if (status != SPOP_END) {
        spop_session_disconnect(s, SPOP_CODE_INVALID, &rec->out);
        return;
    }
    struct spop_ack ack;
    spop_ack_begin(&ack, &rec->out, event->stream_id, event->frame_id,
                   s->frame_bytes_max);
    spop_ack_end(&ack);
    rec->n_acks++;
}

static void act(struct spop_session *s, const struct spop_event *event,
                struct spop_bytes in, struct record *rec)
{
    struct spop_bytes lent = {.ptr = rec->lent, .len = sizeof(rec->lent)};
    if (event->type == SPOP_EVENT_HELLO) {
        rec->frame_bytes_max = s->frame_bytes_max;
    } else if (event->type == SPOP_EVENT_FRAGMENTED) {
        FUZZ_CHECK(spop_session_is_assembling(s));
        spop_session_lend(s, rec->lent, sizeof(rec->lent));
    } else if (event->type == SPOP_EVENT_FRAGMENT) {
        FUZZ_CHECK(s->fragments.payload.len <= sizeof(rec->lent));
    } else if (event->type == SPOP_EVENT_NOTIFY) {
        FUZZ_CHECK(!spop_session_is_assembling(s));
        FUZZ_CHECK(
            spop_record_is_inside(event->payload, event->is_fragmented ? lent : in));
        answer(s, event, rec);
    } else if (event->type == SPOP_EVENT_REFUSED) {
        FUZZ_CHECK(!spop_session_is_assembling(s));
        rec->n_acks++;
    }
}

/* Offer `in` until more is wanted; returns how much was taken. */
static size_t offer(struct spop_session *s, struct spop_bytes in, struct record *rec)
{
    size_t n_done = 0;
    struct spop_event event = {.type = SPOP_EVENT_IGNORED};
    while (event.type != SPOP_EVENT_MORE && event.type != SPOP_EVENT_CLOSE) {
        struct spop_bytes left = {.ptr = in.ptr + n_done, .len = in.len - n_done};
        size_t taken = spop_session_next(s, left, &rec->out, &event);
        FUZZ_CHECK(taken <= left.len);
        if (event.type == SPOP_EVENT_MORE) {
            FUZZ_CHECK(taken == 0);
            FUZZ_CHECK(event.frame_bytes == 0 || event.frame_bytes > left.len);
            FUZZ_CHECK((event.frame_bytes == 0) == (left.len < SPOP_PREFIX_BYTES));
            break;
        }
        FUZZ_CHECK((taken == 0) == (event.type == SPOP_EVENT_FRAGMENTED)
                   || event.type == SPOP_EVENT_CLOSE);
        spop_record_event(&rec->events, &event);
        FUZZ_CHECK(rec->events.status == SPOP_OK);
        act(s, &event, left, rec);
        n_done += taken;
    }
    return event.type == SPOP_EVENT_CLOSE ? in.len : n_done;
}

static size_t chunk_bytes(const uint8_t chunks[CHUNKS], unsigned n, size_t stream_bytes)
{
    return 1 + chunks[n % CHUNKS] + stream_bytes / OFFERS;
}

/* Play the stream in pieces; `chunks` NULL plays it whole. */
static void play(const uint8_t *chunks, const uint8_t *stream, size_t len,
                 struct record *rec)
{
    struct spop_session s;
    spop_session_init(&s);
    spop_writer_init(&rec->events, rec->event_buf, sizeof(rec->event_buf));
    spop_writer_init(&rec->out, rec->out_buf, sizeof(rec->out_buf));
    rec->n_acks = 0;
    rec->frame_bytes_max = SPOP_HELLO_BYTES_MAX;
    size_t n_done = 0;
    size_t n_offered = 0;
    for (unsigned n = 0; n_offered < len && s.state != SPOP_SESSION_CLOSED; n++) {
        size_t chunk = chunks != NULL ? chunk_bytes(chunks, n, len) : len;
        n_offered += chunk < len - n_offered ? chunk : len - n_offered;
        uint8_t *copy = fuzz_copy(stream + n_done, n_offered - n_done);
        struct spop_bytes in = {.ptr = copy, .len = n_offered - n_done};
        n_done += offer(&s, in, rec);
        free(copy);
    }
}

static void check_kv(struct spop_bytes payload)
{
    struct spop_reader r;
    struct spop_kv kv;
    enum spop_status status = SPOP_OK;
    spop_reader_init(&r, payload);
    while (status == SPOP_OK) {
        status = spop_kv_next(&r, &kv);
    }
    FUZZ_CHECK(status == SPOP_END);
}

/* An ACK for fragments that there is no room for. */
static bool is_abort(const struct spop_frame *frame)
{
    return frame->type == SPOP_FRAME_ACK
           && frame->flags == (SPOP_FLAG_FIN | SPOP_FLAG_ABORT)
           && frame->payload.len == 0;
}

/* AGENT-HELLO, then ACKs, then AGENT-DISCONNECT; the last two need not be there, and
 * a conversation may begin with its end. */
static void check_out(const struct record *rec)
{
    unsigned n_hellos = 0;
    unsigned n_acks = 0;
    bool is_ended = false;
    struct spop_bytes left = {.ptr = rec->out_buf, .len = rec->out.len};
    while (left.len > 0) {
        struct spop_frame frame;
        FUZZ_CHECK(!is_ended);
        FUZZ_CHECK(spop_frame_decode(left, rec->frame_bytes_max, &frame) == SPOP_OK);
        FUZZ_CHECK(frame.flags == SPOP_FLAG_FIN || is_abort(&frame));
        FUZZ_CHECK(frame.wire_bytes >= SPOP_PREFIX_BYTES + SPOP_FRAME_BYTES_MIN);
        if (frame.type == SPOP_FRAME_ACK) {
            FUZZ_CHECK(n_hellos == 1 && (frame.payload.len > 0 || is_abort(&frame)));
            n_acks++;
        } else {
            FUZZ_CHECK(spop_frame_is_of_connection(&frame));
            check_kv(frame.payload);
            is_ended = frame.type == SPOP_FRAME_AGENT_DISCONNECT;
            FUZZ_CHECK(is_ended || frame.type == SPOP_FRAME_AGENT_HELLO);
            n_hellos += is_ended ? 0 : 1;
            FUZZ_CHECK(n_hellos <= 1);
        }
        left.ptr += frame.wire_bytes;
        left.len -= frame.wire_bytes;
    }
    FUZZ_CHECK(n_acks == rec->n_acks);
}

static void check_same(const struct spop_writer *a, const struct spop_writer *b)
{
    FUZZ_CHECK(a->len == b->len);
    FUZZ_CHECK(memcmp(a->buf, b->buf, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < CHUNKS || len > CHUNKS + STREAM_BYTES_MAX) {
        return 0;
    }
    play(NULL, data + CHUNKS, len - CHUNKS, &whole);
    play(data, data + CHUNKS, len - CHUNKS, &parts);
    check_same(&whole.events, &parts.events);
    check_same(&whole.out, &parts.out);
    check_out(&whole);
    return 0;
}
