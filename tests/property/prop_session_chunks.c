/*
 * Laws of the session. Chunking: any split of a stream gives the same events and the
 * same output. Truncation: a proper prefix of a valid frame gives MORE and nothing
 * else. In both no byte past the input is read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/frame.h"
#include "spop/notify.h"
#include "spop/session.h"

#include "tests/support/guard_page.h"
#include "tests/support/prng.h"
#include "tests/support/spop_record.h"
#include "tests/unit/spop/support.h"

enum {
    N_STREAMS = 3000,
    N_FRAMES = 300,
    N_SPLITS = 6,
    STREAM_CAP = 32768,
    RECORD_CAP = 65536,
    OUT_CAP = 32768,
    PAYLOAD_CAP = 512,
    LENT_BYTES = 700, /* for fragments: sometimes too few */
};

static const char hello_payload[] =
    "12\"supported-versions\" 0803\"2.0\" 0e\"max-frame-size\" 03fcf006"
    "0c\"capabilities\" 0810\"pipelining,async\"";

/* What a stream gave: its events written down one after the other, and the output. */
struct record {
    uint8_t event_buf[RECORD_CAP];
    uint8_t out_buf[OUT_CAP];
    struct spop_writer events;
    struct spop_writer out;
    uint8_t lent[LENT_BYTES];
};

static uint64_t seed;
static struct guard_page guard;
static struct record whole;
static struct record split;

static void case_fail(unsigned n, const char *why)
{
    fail_msg("SEED=%llu, case %u: %s", (unsigned long long)seed, n, why);
}

/* A NOTIFY in fragments; now and then not as it should be. */
static void fragments_draw(struct prng *p, struct spop_writer *w)
{
    uint64_t ids[2] = {prng_next(p) >> prng_below(p, 64), prng_below(p, 3)};
    uint64_t n_fragments = 1 + prng_below(p, 5);
    for (uint64_t i = 0; i < n_fragments; i++) {
        uint8_t payload_buf[PAYLOAD_CAP / 2];
        struct spop_bytes payload = {.ptr = payload_buf,
                                     .len = prng_below(p, sizeof(payload_buf))};
        prng_fill(p, payload_buf, payload.len);
        uint32_t flags = i == n_fragments - 1 ? SPOP_FLAG_FIN : 0;
        flags |= prng_below(p, 10) == 0 ? SPOP_FLAG_ABORT : 0;
        ids[1] += prng_below(p, 60) == 0;
        unsigned type = (i == 0) != (prng_below(p, 60) == 0) ? SPOP_FRAME_NOTIFY
                                                             : SPOP_FRAME_UNSET;
        wire_frame(w, type, flags, ids, payload);
    }
}

static void frame_draw(struct prng *p, struct spop_writer *w)
{
    static const uint8_t types[] = {0, 1, 2, 3, 3, 3, 3,  3,   3,   3,   3,
                                    3, 3, 3, 3, 3, 4, 50, 101, 102, 103, 255};
    uint8_t payload_buf[PAYLOAD_CAP];
    struct spop_bytes payload = {.ptr = payload_buf, .len = prng_below(p, PAYLOAD_CAP)};
    prng_fill(p, payload_buf, payload.len);
    const uint64_t ids[2] = {prng_next(p) >> prng_below(p, 64),
                             prng_next(p) >> prng_below(p, 64)};
    uint32_t flags = prng_below(p, 30) == 0 ? (uint32_t)prng_next(p) : SPOP_FLAG_FIN;
    wire_frame(w, types[prng_below(p, sizeof(types))], flags, ids, payload);
}

/* Mostly a HELLO and some frames; sometimes a few of its bytes are changed. */
static size_t stream_draw(struct prng *p, uint8_t buf[STREAM_CAP])
{
    static const uint64_t no_ids[2] = {0, 0};
    struct wire wire;
    struct spop_writer w;
    spop_writer_init(&w, buf, STREAM_CAP);
    if (prng_below(p, 20) > 0) {
        wire_frame(&w, SPOP_FRAME_HAPROXY_HELLO, SPOP_FLAG_FIN, no_ids,
                   wire_bytes(&wire, hello_payload));
    }
    for (uint64_t left = prng_below(p, 20); left > 0; left--) {
        if (prng_below(p, 4) == 0) {
            fragments_draw(p, &w);
        } else {
            frame_draw(p, &w);
        }
    }
    if (w.len > 0 && prng_below(p, 3) == 0) {
        for (uint64_t left = 1 + prng_below(p, 4); left > 0; left--) {
            buf[prng_below(p, w.len)] = (uint8_t)prng_next(p);
        }
    }
    return w.len - (w.len > 0 ? prng_below(p, w.len) / 8 : 0);
}

/* As the agent does: a payload that cannot be walked ends the connection. */
static void payload_visit(struct spop_session *s, const struct spop_event *event,
                          struct record *rec)
{
    struct spop_notify it;
    struct spop_message msg;
    enum spop_status status = SPOP_OK;
    spop_notify_init(&it, event->payload);
    while (status == SPOP_OK) {
        status = spop_notify_next_message(&it, &msg);
    }
    spop_write_u8(&rec->events, (uint8_t)-status);
    if (status != SPOP_END && event->stream_id % 4 == 0) {
        spop_session_disconnect(s, SPOP_CODE_INVALID, &rec->out);
    }
}

/* Offer `in`; returns the bytes taken, all of them once the session is closed. */
static size_t bytes_offer(struct spop_session *s, struct spop_bytes in,
                          struct record *rec)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    struct spop_event event = {.type = SPOP_EVENT_IGNORED};
    while (event.type != SPOP_EVENT_MORE && event.type != SPOP_EVENT_CLOSE) {
        struct spop_bytes left = {.ptr = r.ptr, .len = r.len};
        (void)spop_read_bytes(&r, spop_session_next(s, left, &rec->out, &event));
        assert_int_equal(r.status, SPOP_OK);
        if (event.type != SPOP_EVENT_MORE) {
            spop_record_event(&rec->events, &event);
            assert_int_equal(rec->events.status, SPOP_OK);
        }
        if (event.type == SPOP_EVENT_NOTIFY) {
            payload_visit(s, &event, rec);
        } else if (event.type == SPOP_EVENT_FRAGMENTED) {
            spop_session_lend(s, rec->lent, sizeof(rec->lent));
        }
    }
    return in.len - r.len;
}

static void play_begin(struct spop_session *s, struct record *rec)
{
    spop_session_init(s);
    spop_writer_init(&rec->events, rec->event_buf, sizeof(rec->event_buf));
    spop_writer_init(&rec->out, rec->out_buf, sizeof(rec->out_buf));
}

static void stream_play(struct prng *p, struct spop_bytes in, size_t chunk_bytes_max,
                        struct record *rec)
{
    struct spop_session s;
    play_begin(&s, rec);
    size_t done = 0;
    size_t end = 0;
    while (end < in.len && s.state != SPOP_SESSION_CLOSED) {
        size_t chunk = 1 + prng_below(p, chunk_bytes_max);
        end += chunk < in.len - end ? chunk : in.len - end;
        const uint8_t *place = guard_page_place(&guard, in.ptr + done, end - done);
        struct spop_bytes part = {.ptr = place, .len = end - done};
        done += bytes_offer(&s, part, rec);
    }
}

static bool record_is_equal(const struct spop_writer *a, const struct spop_writer *b)
{
    return a->len == b->len && memcmp(a->buf, b->buf, a->len) == 0;
}

static void records_check(unsigned n)
{
    if (!record_is_equal(&whole.events, &split.events)) {
        case_fail(n, "other events");
    }
    if (!record_is_equal(&whole.out, &split.out)) {
        case_fail(n, "other output");
    }
}

static void splits_check(struct prng *p, unsigned n, struct spop_bytes in)
{
    static const size_t chunk_bytes_max[N_SPLITS] = {1, 2, 7, 40, 500, 4000};
    struct spop_session s;
    play_begin(&s, &whole);
    (void)bytes_offer(&s, in, &whole);
    for (size_t i = 0; i < N_SPLITS; i++) {
        stream_play(p, in, chunk_bytes_max[i], &split);
        records_check(n);
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

/* HELLO, a NOTIFY, one in fragments, DISCONNECT. */
static size_t conversation_write(uint8_t buf[STREAM_CAP])
{
    static const uint64_t no_ids[2] = {0, 0};
    static const uint64_t ids[2] = {240, 1};
    static const struct {
        unsigned type;
        uint32_t flags;
        const uint64_t *ids;
        const char *payload;
    } frames[] = {
        {SPOP_FRAME_HAPROXY_HELLO, SPOP_FLAG_FIN, no_ids, hello_payload},
        {SPOP_FRAME_NOTIFY, SPOP_FLAG_FIN, ids, "01\"m\" 01 01\"a\" 0801\"v\""},
        {SPOP_FRAME_NOTIFY, 0, ids, "01\"m\" 01 01\"a\" 08f0"},
        {SPOP_FRAME_UNSET, 0, ids, ""},
        {SPOP_FRAME_UNSET, SPOP_FLAG_FIN, ids, "00"},
        {SPOP_FRAME_HAPROXY_DISCONNECT, SPOP_FLAG_FIN, no_ids,
         "0b\"status-code\" 0302 07\"message\" 0803\"bye\""},
    };
    struct wire wire;
    struct spop_writer w;
    spop_writer_init(&w, buf, STREAM_CAP);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        wire_frame(&w, frames[i].type, frames[i].flags, frames[i].ids,
                   wire_bytes(&wire, frames[i].payload));
    }
    return w.len;
}

/* In two pieces: the first one ends with the byte at `off`. */
static void halves_play(struct spop_bytes in, size_t off, struct record *rec)
{
    struct spop_session s;
    play_begin(&s, rec);
    const uint8_t *place = guard_page_place(&guard, in.ptr, off + 1);
    size_t done = bytes_offer(&s, (struct spop_bytes){.ptr = place, .len = off + 1},
                              rec);
    if (s.state != SPOP_SESSION_CLOSED) {
        struct spop_bytes rest = {.ptr = in.ptr + done, .len = in.len - done};
        (void)bytes_offer(&s, rest, rec);
    }
}

static void each_byte_may_be_any_and_the_last_to_come(void **state)
{
    (void)state;
    static uint8_t stream[STREAM_CAP];
    struct spop_bytes in = {.ptr = stream, .len = conversation_write(stream)};
    for (size_t off = 0; off < in.len; off++) {
        uint8_t right = stream[off];
        for (unsigned value = 0; value <= UINT8_MAX; value++) {
            struct spop_session s;
            stream[off] = (uint8_t)value;
            play_begin(&s, &whole);
            (void)bytes_offer(&s, in, &whole);
            halves_play(in, off, &split);
            records_check((unsigned)off);
        }
        stream[off] = right;
    }
}

/* Open a session, by the shortest way. */
static void session_open(struct spop_session *s, struct record *rec)
{
    static const uint64_t no_ids[2] = {0, 0};
    uint8_t buf[256];
    struct wire wire;
    struct spop_writer w;
    struct spop_event event;
    spop_session_init(s);
    spop_writer_init(&rec->out, rec->out_buf, sizeof(rec->out_buf));
    spop_writer_init(&w, buf, sizeof(buf));
    wire_frame(&w, SPOP_FRAME_HAPROXY_HELLO, SPOP_FLAG_FIN, no_ids,
               wire_bytes(&wire, hello_payload));
    assert_int_equal(spop_session_next(s, written(&w), &rec->out, &event), w.len);
    assert_int_equal(event.type, SPOP_EVENT_HELLO);
}

static bool prefix_is_only_more(struct spop_session *s, const struct spop_writer *frame,
                                size_t len)
{
    const uint8_t *place = guard_page_place(&guard, frame->buf, len);
    struct spop_bytes prefix = {.ptr = place, .len = len};
    struct spop_event event;
    size_t out_len = whole.out.len;
    size_t taken = spop_session_next(s, prefix, &whole.out, &event);
    return taken == 0 && event.type == SPOP_EVENT_MORE
           && event.frame_bytes == (len < SPOP_PREFIX_BYTES ? 0 : frame->len)
           && whole.out.len == out_len;
}

static void prefixes_check(struct spop_session *s, unsigned n,
                           const struct spop_writer *frame)
{
    for (size_t len = 0; len < frame->len; len++) {
        if (!prefix_is_only_more(s, frame, len)) {
            case_fail(n, "a prefix was taken for more than that");
        }
    }
}

static void every_proper_prefix_needs_more(void **state)
{
    (void)state;
    static uint8_t stream[STREAM_CAP];
    struct prng p;
    struct spop_session s;
    prng_init(&p, seed);
    session_open(&s, &whole);
    for (unsigned n = 0; n < N_FRAMES; n++) {
        struct spop_writer w;
        spop_writer_init(&w, stream, sizeof(stream));
        frame_draw(&p, &w);
        prefixes_check(&s, n, &w);
    }
}

int main(void)
{
    seed = prng_seed(20240903);
    guard_page_init(&guard, STREAM_CAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same),
        cmocka_unit_test(each_byte_may_be_any_and_the_last_to_come),
        cmocka_unit_test(every_proper_prefix_needs_more),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    guard_page_release(&guard);
    return n_failed;
}
