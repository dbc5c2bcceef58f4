/*
 * Laws of the engine. Back to back: whatever the engine sends, a session reads as it
 * was meant and answers, whatever the split of both streams; the engine reads each
 * answer as it was meant, and both see the end. Chunking: any split of an agent's bytes
 * gives the same events and the same output, and no byte past the input is read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/ack.h"
#include "spop/actions.h"
#include "spop/bytes.h"
#include "spop/engine.h"
#include "spop/frame.h"
#include "spop/messages.h"
#include "spop/notify.h"
#include "spop/session.h"

#include "tests/support/guard_page.h"
#include "tests/support/prng.h"
#include "tests/support/spop_record.h"
#include "tests/support/variable.h"
#include "tests/unit/spop/support.h"

enum {
    N_CONVERSATIONS = 400,
    N_NOTIFIES_MAX = 40,
    N_STREAMS = 3000,
    N_SPLITS = 6,
    PAYLOAD_CAP = 8192,
    PIPE_CAP = 1 << 20,
    STREAM_CAP = 16384,
    RECORD_CAP = 65536,
    OUT_CAP = 4096,
};

static uint64_t seed;
static struct guard_page guard;

static void case_fail(unsigned n, const char *why)
{
    fail_msg("SEED=%llu, case %u: %s", (unsigned long long)seed, n, why);
}

/* What was written and how much of it the other side has been offered and has taken. */
struct pipe {
    uint8_t buf[PIPE_CAP];
    struct spop_writer w;
    size_t n_offered;
    size_t n_taken;
};

/* One NOTIFY as it was sent. */
struct sent {
    uint64_t stream_id;
    uint64_t frame_id;
    size_t payload_len;
    uint8_t payload[PAYLOAD_CAP];
};

static struct talk {
    struct spop_engine engine;
    struct spop_session session;
    struct pipe to_agent;
    struct pipe to_haproxy;
    struct sent sent[N_NOTIFIES_MAX];
    uint8_t lent[PAYLOAD_CAP]; /* to the session, for fragments */
    unsigned n_fragmented;     /* NOTIFYs of all conversations that came in fragments */
    unsigned n_wanted;         /* NOTIFYs of this conversation */
    unsigned n_sent;           /* so far */
    unsigned n_received;       /* by the session */
    unsigned n_acks;           /* received by the engine */
    bool is_closed;            /* as the engine sees it */
} talk;

static void pipe_init(struct pipe *pipe)
{
    spop_writer_init(&pipe->w, pipe->buf, sizeof(pipe->buf));
    pipe->n_offered = 0;
    pipe->n_taken = 0;
}

/* Offer the reader a random number of bytes more; the view ends at unreadable memory. */
static struct spop_bytes pipe_offer(struct pipe *pipe, struct prng *p)
{
    size_t n_new = pipe->w.len - pipe->n_offered;
    if (n_new > 0) {
        size_t most = n_new < 3000 ? n_new : 3000;
        pipe->n_offered += 1 + prng_below(p, prng_below(p, 2) == 0 ? most : 1);
    }
    size_t len = pipe->n_offered - pipe->n_taken;
    const uint8_t *place = guard_page_place(&guard, pipe->buf + pipe->n_taken, len);
    return (struct spop_bytes){.ptr = place, .len = len};
}

static struct spop_value value_draw(struct prng *p, uint8_t *bytes, size_t cap)
{
    struct spop_value value = {.type = (enum spop_value_type)prng_below(p, 10)};
    prng_fill(p, bytes, cap);
    switch (value.type) {
    case SPOP_VALUE_NULL:
        break;
    case SPOP_VALUE_BOOL:
        value.boolean = prng_below(p, 2) == 1;
        break;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        value.integer = prng_next(p) >> prng_below(p, 64);
        break;
    case SPOP_VALUE_IPV4:
        value.bytes = (struct spop_bytes){bytes, 4};
        break;
    case SPOP_VALUE_IPV6:
        value.bytes = (struct spop_bytes){bytes, 16};
        break;
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        value.bytes = (struct spop_bytes){bytes, prng_below(p, cap + 1)};
        break;
    }
    return value;
}

/* Some messages with some arguments, of at most `cap` bytes together. */
static size_t payload_draw(struct prng *p, uint8_t *payload, size_t cap)
{
    uint8_t bytes[200];
    struct spop_writer w;
    struct spop_message_writer message;
    spop_writer_init(&w, payload, cap);
    for (uint64_t n = prng_below(p, 4); n > 0; n--) {
        spop_message_begin(&message, &w, spop_bytes_view("check"));
        for (uint64_t n_args = prng_below(p, 20); n_args > 0 && w.status == SPOP_OK;
             n_args--) {
            struct spop_value value = value_draw(p, bytes, sizeof(bytes));
            spop_message_arg(&message, spop_bytes_view("name"), &value);
        }
    }
    return w.len;
}

static void notify_send(struct prng *p)
{
    struct sent *sent = &talk.sent[talk.n_sent];
    sent->stream_id = prng_next(p) >> prng_below(p, 64);
    sent->frame_id = prng_next(p) >> prng_below(p, 64);
    sent->payload_len = payload_draw(p, sent->payload, 1 + prng_below(p, PAYLOAD_CAP));
    struct spop_bytes payload = {.ptr = sent->payload, .len = sent->payload_len};
    enum spop_status status = spop_engine_notify(&talk.engine, &talk.to_agent.w,
                                                 sent->stream_id, sent->frame_id,
                                                 payload);
    assert_int_equal(status, SPOP_OK);
    talk.n_sent++;
}

/* The session's side: what came is what was sent; it is answered with its number. */
static void notify_answer(unsigned n, const struct spop_event *event)
{
    const struct sent *sent = &talk.sent[talk.n_received];
    struct spop_notify it;
    struct spop_message message;
    enum spop_status status = SPOP_OK;
    if (talk.n_received == talk.n_sent || event->stream_id != sent->stream_id
        || event->frame_id != sent->frame_id || event->payload.len != sent->payload_len
        || memcmp(event->payload.ptr, sent->payload, sent->payload_len) != 0) {
        case_fail(n, "the session reads another NOTIFY");
    }
    spop_notify_init(&it, event->payload);
    while (status == SPOP_OK) {
        status = spop_notify_next_message(&it, &message);
    }
    if (status != SPOP_END) {
        case_fail(n, "the session cannot walk the messages");
    }
    struct spop_ack ack;
    spop_ack_begin(&ack, &talk.to_haproxy.w, event->stream_id, event->frame_id,
                   talk.session.frame_bytes_max);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_TXN, "n"), talk.n_received);
    spop_ack_end(&ack);
    talk.n_received++;
}

static void agent_turn(struct prng *p, unsigned n)
{
    struct spop_event event = {.type = SPOP_EVENT_IGNORED};
    struct spop_bytes in = pipe_offer(&talk.to_agent, p);
    while (event.type != SPOP_EVENT_MORE && event.type != SPOP_EVENT_CLOSE) {
        size_t taken = spop_session_next(&talk.session, in, &talk.to_haproxy.w, &event);
        talk.to_agent.n_taken += taken;
        in = (struct spop_bytes){.ptr = in.ptr + taken, .len = in.len - taken};
        if (event.type == SPOP_EVENT_NOTIFY) {
            notify_answer(n, &event);
            talk.n_fragmented += event.is_fragmented;
        } else if (event.type == SPOP_EVENT_FRAGMENTED) {
            spop_session_lend(&talk.session, talk.lent, sizeof(talk.lent));
        }
    }
    if (event.type == SPOP_EVENT_CLOSE && !event.is_peer_ending) {
        case_fail(n, "the session ended the conversation");
    }
}

static void ack_read(unsigned n, const struct spop_engine_event *event)
{
    const struct sent *sent = &talk.sent[talk.n_acks];
    struct spop_actions it;
    struct spop_action action;
    int64_t number = -1;
    spop_actions_init(&it, event->payload);
    if (event->stream_id != sent->stream_id || event->frame_id != sent->frame_id
        || spop_actions_next(&it, &action) != SPOP_OK
        || !spop_value_int64(&action.value, &number) || number != talk.n_acks
        || spop_actions_next(&it, &action) != SPOP_END) {
        case_fail(n, "the engine reads another ACK");
    }
    talk.n_acks++;
}

static void haproxy_turn(struct prng *p, unsigned n)
{
    struct spop_engine_event event = {.type = SPOP_ENGINE_IGNORED};
    struct spop_bytes in = pipe_offer(&talk.to_haproxy, p);
    while (event.type != SPOP_ENGINE_MORE && event.type != SPOP_ENGINE_CLOSE) {
        size_t taken = spop_engine_next(&talk.engine, in, &talk.to_agent.w, &event);
        talk.to_haproxy.n_taken += taken;
        in = (struct spop_bytes){.ptr = in.ptr + taken, .len = in.len - taken};
        if (event.type == SPOP_ENGINE_ACK) {
            ack_read(n, &event);
        }
    }
    talk.is_closed = event.type == SPOP_ENGINE_CLOSE;
    if (talk.is_closed && !event.is_agent_ending) {
        case_fail(n, "the engine ended the conversation");
    }
}

static void talk_begin(struct prng *p)
{
    struct spop_haproxy_hello hello = {
        .frame_bytes_max = SPOP_FRAME_SIZE_MIN
                           + prng_below(p, prng_below(p, 2) == 0 ? 600 : 17000),
        .is_pipelining = true,
    };
    memset(&talk.n_wanted, 0, sizeof(talk) - offsetof(struct talk, n_wanted));
    talk.n_wanted = (unsigned)prng_below(p, N_NOTIFIES_MAX + 1);
    pipe_init(&talk.to_agent);
    pipe_init(&talk.to_haproxy);
    spop_session_init(&talk.session);
    spop_engine_start(&talk.engine, &hello, &talk.to_agent.w);
}

/* HAProxy says what is next: a NOTIFY, or the end once all are answered. */
static void haproxy_speak(struct prng *p)
{
    if (talk.engine.state != SPOP_ENGINE_OPEN) {
        return;
    }
    if (talk.n_sent < talk.n_wanted) {
        notify_send(p);
    } else if (talk.n_acks == talk.n_wanted) {
        spop_engine_disconnect(&talk.engine, SPOP_CODE_NORMAL, &talk.to_agent.w);
    }
}

static void back_to_back_they_understand_each_other(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_CONVERSATIONS; n++) {
        talk_begin(&p);
        while (!talk.is_closed) {
            haproxy_speak(&p);
            agent_turn(&p, n);
            haproxy_turn(&p, n);
        }
        assert_int_equal(talk.n_acks, talk.n_wanted);
        assert_int_equal(talk.n_received, talk.n_wanted);
    }
    assert_true(talk.n_fragmented > N_CONVERSATIONS);
}

/* What a stream gave: its events written down one after the other, and the output. */
struct record {
    uint8_t event_buf[RECORD_CAP];
    uint8_t out_buf[OUT_CAP];
    struct spop_writer events;
    struct spop_writer out;
};

static struct record whole;
static struct record split;

static const char agent_hello_payload[] =
    "07\"version\" 0803\"2.0\" 0e\"max-frame-size\" 03fcf006"
    "0c\"capabilities\" 080a\"pipelining\"";

static void frame_draw(struct prng *p, struct spop_writer *w)
{
    static const uint8_t types[] = {103, 103, 103, 103, 103, 103, 103, 103,
                                    103, 103, 103, 102, 101, 3,   0,   255};
    uint8_t payload_buf[512];
    struct spop_bytes payload = {.ptr = payload_buf,
                                 .len = prng_below(p, sizeof(payload_buf))};
    prng_fill(p, payload_buf, payload.len);
    const uint64_t ids[2] = {prng_next(p) >> prng_below(p, 64),
                             prng_next(p) >> prng_below(p, 64)};
    uint32_t flags = prng_below(p, 30) == 0 ? (uint32_t)prng_next(p) : SPOP_FLAG_FIN;
    wire_frame(w, types[prng_below(p, sizeof(types))], flags, ids, payload);
}

/* Mostly an AGENT-HELLO and some frames; sometimes a few of its bytes are changed. */
static size_t stream_draw(struct prng *p, uint8_t buf[STREAM_CAP])
{
    static const uint64_t no_ids[2] = {0, 0};
    struct wire wire;
    struct spop_writer w;
    spop_writer_init(&w, buf, STREAM_CAP);
    if (prng_below(p, 20) > 0) {
        wire_frame(&w, SPOP_FRAME_AGENT_HELLO, SPOP_FLAG_FIN, no_ids,
                   wire_bytes(&wire, agent_hello_payload));
    }
    for (uint64_t left = prng_below(p, 20); left > 0; left--) {
        frame_draw(p, &w);
    }
    if (w.len > 0 && prng_below(p, 3) == 0) {
        for (uint64_t left = 1 + prng_below(p, 4); left > 0; left--) {
            buf[prng_below(p, w.len)] = (uint8_t)prng_next(p);
        }
    }
    return w.len - (w.len > 0 ? prng_below(p, w.len) / 8 : 0);
}

/* As the load generator does: an ACK that cannot be walked ends the conversation. */
static void payload_visit(struct spop_engine *e, const struct spop_engine_event *event,
                          struct record *rec)
{
    struct spop_actions it;
    struct spop_action action;
    enum spop_status status = SPOP_OK;
    spop_actions_init(&it, event->payload);
    while (status == SPOP_OK) {
        status = spop_actions_next(&it, &action);
    }
    spop_write_u8(&rec->events, (uint8_t)-status);
    if (status != SPOP_END && event->stream_id % 4 == 0) {
        spop_engine_disconnect(e, SPOP_CODE_INVALID, &rec->out);
    }
}

/* Offer `in`; returns the bytes taken, all of them once the engine is closed. */
static size_t bytes_offer(struct spop_engine *e, struct spop_bytes in,
                          struct record *rec)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    struct spop_engine_event event = {.type = SPOP_ENGINE_IGNORED};
    while (event.type != SPOP_ENGINE_MORE && event.type != SPOP_ENGINE_CLOSE) {
        struct spop_bytes left = {.ptr = r.ptr, .len = r.len};
        (void)spop_read_bytes(&r, spop_engine_next(e, left, &rec->out, &event));
        assert_int_equal(r.status, SPOP_OK);
        if (event.type != SPOP_ENGINE_MORE) {
            spop_record_engine_event(&rec->events, &event);
            assert_int_equal(rec->events.status, SPOP_OK);
        }
        if (event.type == SPOP_ENGINE_ACK) {
            payload_visit(e, &event, rec);
        }
    }
    return in.len - r.len;
}

static void record_begin(struct record *rec, struct spop_engine *e)
{
    static const struct spop_haproxy_hello hello = {.frame_bytes_max = 16380,
                                                    .is_pipelining = true};
    spop_writer_init(&rec->events, rec->event_buf, sizeof(rec->event_buf));
    spop_writer_init(&rec->out, rec->out_buf, sizeof(rec->out_buf));
    spop_engine_start(e, &hello, &rec->out);
}

static void stream_play(struct prng *p, struct spop_bytes in, size_t chunk_bytes_max,
                        struct record *rec)
{
    struct spop_engine e;
    record_begin(rec, &e);
    size_t done = 0;
    size_t end = 0;
    while (end < in.len && e.state != SPOP_ENGINE_CLOSED) {
        size_t chunk = 1 + prng_below(p, chunk_bytes_max);
        end += chunk < in.len - end ? chunk : in.len - end;
        const uint8_t *place = guard_page_place(&guard, in.ptr + done, end - done);
        struct spop_bytes part = {.ptr = place, .len = end - done};
        done += bytes_offer(&e, part, rec);
    }
}

static bool record_is_equal(const struct spop_writer *a, const struct spop_writer *b)
{
    return a->len == b->len && memcmp(a->buf, b->buf, a->len) == 0;
}

static void splits_check(struct prng *p, unsigned n, struct spop_bytes in)
{
    static const size_t chunk_bytes_max[N_SPLITS] = {1, 2, 7, 40, 500, 4000};
    struct spop_engine e;
    record_begin(&whole, &e);
    (void)bytes_offer(&e, in, &whole);
    for (size_t i = 0; i < N_SPLITS; i++) {
        stream_play(p, in, chunk_bytes_max[i], &split);
        if (!record_is_equal(&whole.events, &split.events)) {
            case_fail(n, "other events");
        }
        if (!record_is_equal(&whole.out, &split.out)) {
            case_fail(n, "other output");
        }
    }
}

static void any_split_gives_the_same(void **state)
{
    (void)state;
    static uint8_t stream[STREAM_CAP];
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_STREAMS; n++) {
        struct spop_bytes in = {.ptr = stream, .len = stream_draw(&p, stream)};
        splits_check(&p, n, in);
    }
}

int main(void)
{
    seed = prng_seed(20261130);
    guard_page_init(&guard, PIPE_CAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(back_to_back_they_understand_each_other),
        cmocka_unit_test(any_split_gives_the_same),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    guard_page_release(&guard);
    return n_failed;
}
