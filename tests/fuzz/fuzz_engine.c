/*
 * What an agent sends on one connection. The first CHUNKS bytes choose how the rest is
 * split; the first of them also whether it is a health check and whether we end the
 * conversation early.
 *
 * Laws:      any split gives the same events and the same output; no more is consumed
 *            than was offered; the output is whole frames of HAProxy's side: HELLO, then
 *            NOTIFYs, then at most one DISCONNECT.
 * Must reach: every row of "What answers what" of an agent in spop/README.md, payloads
 *            that actions.h refuses, NOTIFYs in one frame and in fragments.
 */
#include "spop/actions.h"
#include "spop/engine.h"
#include "spop/frame.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/spop_record.h"

enum {
    CHUNKS = 8,
    STREAM_BYTES_MAX = 32768,
    RECORD_BYTES_MAX = 1 << 20,
    OFFERS = 1024,        /* of one stream, at most: copies cost their square */
    NOTIFY_BYTES = 600,   /* of a payload: in fragments where 256 were agreed */
    OPTION_CHECK = 1,     /* bits of the first byte */
    OPTION_END_EARLY = 2, /* after the first ACK */
};

/* What a stream gave: its events written down one after the other, and the output. */
struct record {
    struct spop_writer events;
    struct spop_writer out;
    unsigned n_notifies;
    uint8_t event_buf[RECORD_BYTES_MAX];
    uint8_t out_buf[RECORD_BYTES_MAX];
};

static struct record whole;
static struct record parts;
static unsigned options;

/* One NOTIFY more: `n_bytes` of it. */
static void send_notify(const struct spop_engine *e, struct record *rec, size_t n_bytes)
{
    static const uint8_t payload[NOTIFY_BYTES] = {0};
    struct spop_bytes bytes = {.ptr = payload, .len = n_bytes};
    size_t out_len = rec->out.len;
    enum spop_status status = spop_engine_notify(e, &rec->out, rec->n_notifies, 1,
                                                 bytes);
    if (status == SPOP_OK) {
        rec->n_notifies++;
        return;
    }
    FUZZ_CHECK(status == SPOP_ERR_TOO_BIG && !e->is_fragmentation);
    FUZZ_CHECK(rec->out.len == out_len);
}

/* As the load generator does: the next NOTIFY, or the end where an ACK is malformed. */
static void take_ack(struct spop_engine *e, const struct spop_engine_event *event,
                     struct record *rec)
{
    struct spop_actions it;
    struct spop_action action;
    enum spop_status status = SPOP_OK;
    spop_actions_init(&it, event->payload);
    while ((status = spop_actions_next(&it, &action)) == SPOP_OK) {
        FUZZ_CHECK(spop_record_is_inside(action.name, event->payload));
        FUZZ_CHECK(action.name.len > 0 && action.scope <= SPOP_SCOPE_RES);
    }
    if (status != SPOP_END) {
        spop_engine_disconnect(e, SPOP_CODE_INVALID, &rec->out);
    } else if ((options & OPTION_END_EARLY) != 0) {
        spop_engine_disconnect(e, SPOP_CODE_NORMAL, &rec->out);
    } else {
        send_notify(e, rec, event->payload.len % NOTIFY_BYTES);
    }
}

/* Offer `in` until more is wanted; returns how much was taken. */
static size_t offer(struct spop_engine *e, struct spop_bytes in, struct record *rec)
{
    size_t n_done = 0;
    struct spop_engine_event event = {.type = SPOP_ENGINE_IGNORED};
    while (event.type != SPOP_ENGINE_MORE && event.type != SPOP_ENGINE_CLOSE) {
        struct spop_bytes left = {.ptr = in.ptr + n_done, .len = in.len - n_done};
        size_t taken = spop_engine_next(e, left, &rec->out, &event);
        FUZZ_CHECK(taken <= left.len);
        if (event.type == SPOP_ENGINE_MORE) {
            FUZZ_CHECK(taken == 0);
            FUZZ_CHECK(event.frame_bytes == 0 || event.frame_bytes > left.len);
            break;
        }
        FUZZ_CHECK(taken > 0 || event.type == SPOP_ENGINE_CLOSE);
        spop_record_engine_event(&rec->events, &event);
        FUZZ_CHECK(rec->events.status == SPOP_OK);
        if (event.type == SPOP_ENGINE_HELLO) {
            send_notify(e, rec, NOTIFY_BYTES);
        } else if (event.type == SPOP_ENGINE_ACK) {
            FUZZ_CHECK(spop_record_is_inside(event.payload, left));
            take_ack(e, &event, rec);
        }
        n_done += taken;
    }
    return event.type == SPOP_ENGINE_CLOSE ? in.len : n_done;
}

static size_t chunk_bytes(const uint8_t chunks[CHUNKS], unsigned n, size_t stream_bytes)
{
    return 1 + chunks[n % CHUNKS] + stream_bytes / OFFERS;
}

/* Play the stream in pieces; `chunks` NULL plays it whole. */
static void play(const uint8_t *chunks, const uint8_t *stream, size_t len,
                 struct record *rec)
{
    struct spop_engine e;
    struct spop_haproxy_hello hello = {
        .frame_bytes_max = 16380,
        .is_pipelining = true,
        .is_health_check = (options & OPTION_CHECK) != 0,
    };
    spop_writer_init(&rec->events, rec->event_buf, sizeof(rec->event_buf));
    spop_writer_init(&rec->out, rec->out_buf, sizeof(rec->out_buf));
    rec->n_notifies = 0;
    spop_engine_start(&e, &hello, &rec->out);
    size_t n_done = 0;
    size_t n_offered = 0;
    for (unsigned n = 0; n_offered < len && e.state != SPOP_ENGINE_CLOSED; n++) {
        size_t chunk = chunks != NULL ? chunk_bytes(chunks, n, len) : len;
        n_offered += chunk < len - n_offered ? chunk : len - n_offered;
        uint8_t *copy = fuzz_copy(stream + n_done, n_offered - n_done);
        struct spop_bytes in = {.ptr = copy, .len = n_offered - n_done};
        n_done += offer(&e, in, rec);
        free(copy);
    }
}

/* A NOTIFY is one frame with FIN, or several of which the last one has it. */
static void check_out(const struct record *rec)
{
    unsigned n_frames = 0;
    unsigned n_notifies = 0;
    bool is_ended = false;
    bool is_open = false; /* a NOTIFY lacks its last fragment */
    struct spop_bytes left = {.ptr = rec->out_buf, .len = rec->out.len};
    for (; left.len > 0; n_frames++) {
        struct spop_frame frame;
        FUZZ_CHECK(!is_ended);
        FUZZ_CHECK(spop_frame_decode(left, SPOP_HELLO_BYTES_MAX, &frame) == SPOP_OK);
        FUZZ_CHECK((n_frames == 0) == (frame.type == SPOP_FRAME_HAPROXY_HELLO));
        if (frame.type == SPOP_FRAME_NOTIFY || frame.type == SPOP_FRAME_UNSET) {
            FUZZ_CHECK(is_open == (frame.type == SPOP_FRAME_UNSET));
            is_open = !spop_frame_is_final(&frame);
            n_notifies += is_open ? 0 : 1;
        } else {
            FUZZ_CHECK(!is_open && frame.flags == SPOP_FLAG_FIN);
            is_ended = frame.type == SPOP_FRAME_HAPROXY_DISCONNECT;
            FUZZ_CHECK(is_ended || n_frames == 0);
        }
        left.ptr += frame.wire_bytes;
        left.len -= frame.wire_bytes;
    }
    FUZZ_CHECK(n_notifies == rec->n_notifies && !is_open);
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
    options = data[0];
    play(NULL, data + CHUNKS, len - CHUNKS, &whole);
    play(data, data + CHUNKS, len - CHUNKS, &parts);
    check_same(&whole.events, &parts.events);
    check_same(&whole.out, &parts.out);
    check_out(&whole);
    return 0;
}
