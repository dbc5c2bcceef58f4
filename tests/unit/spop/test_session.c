#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/frame.h"
#include "spop/session.h"

#include "tests/support/death.h"
#include "tests/support/guard_page.h"
#include "tests/unit/spop/support.h"

#define HELLO                                                         \
    "0000004e 01 00000001 00 00 12\"supported-versions\" 0803\"2.0\"" \
    " 0e\"max-frame-size\" 03fcf006 0c\"capabilities\" 080a\"pipelining\" 01\"x\" 00"
#define HEALTH_CHECK                                                  \
    "0000004e 01 00000001 00 00 12\"supported-versions\" 0803\"2.0\"" \
    " 0e\"max-frame-size\" 03fcf006 0c\"capabilities\" 0800 0b\"healthcheck\" 11"
#define NOTIFY "0000000e 03 00000001 01 01 05\"check\" 00"
/* Fragments of the NOTIFY 1/1, four bytes each. */
#define FIRST "0000000b 03 00000000 01 01 \"abcd\""
#define NEXT  "0000000b 00 00000000 01 01 \"efgh\""
#define LAST  "0000000b 00 00000001 01 01 \"ijkl\""
#define ABORT "00000007 00 00000003 01 01"
/* One that the lent buffer does not hold. */
#define LONG(type, flags)          \
    "00000017 " type flags "01 01" \
    "\"0123456789abcdef\""
#define AGENT_HELLO                                                             \
    "0000004e 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\"" \
    " 03fcf006 0c\"capabilities\" 0818\"pipelining,fragmentation\""
#define ABORT_ACK   "00000007 67 00000003 01 01"
#define NEUTRAL_ACK "0000000c 67 00000001 01 01 02 02 02 01\"_\""
#define CODE(value) "0b\"status-code\" 03" value
#define PEER_BYE(length, value, text) \
    "000000" length " 02 00000001 00 00 " CODE(value) "07\"message\" 08" text
#define BYE(length, value, text) \
    "000000" length " 66 00000001 00 00 " CODE(value) "07\"message\" 08" text
#define BYE_0  BYE("25", "00", "06\"normal\"")
#define BYE_2  BYE("31", "02", "12\"a timeout occurred\"")
#define BYE_3  BYE("2f", "03", "10\"frame is too big\"")
#define BYE_4  BYE("35", "04", "16\"invalid frame received\"")
#define BYE_10 BYE("45", "0a", "26\"payload fragmentation is not supported\"")
#define BYE_11 BYE("38", "0b", "19\"invalid interlaced frames\"")
#define BYE_99 BYE("38", "63", "19\"an unknown error occurred\"")

enum {
    LENT_BYTES = 12
};

/* What a stream gave: a letter an event (H hello, N notify, F fragmented, f fragment,
 * R refused, A aborted, I ignored, C close). */
struct result {
    uint8_t lent[LENT_BYTES];
    char events[64];
    size_t n_events;
    struct spop_event last;
    struct spop_event notify; /* the last NOTIFY */
    uint8_t buf[4096];
    struct spop_writer out;
};

static char event_letter(enum spop_event_type type)
{
    switch (type) {
    case SPOP_EVENT_HELLO:
        return 'H';
    case SPOP_EVENT_NOTIFY:
        return 'N';
    case SPOP_EVENT_FRAGMENTED:
        return 'F';
    case SPOP_EVENT_FRAGMENT:
        return 'f';
    case SPOP_EVENT_REFUSED:
        return 'R';
    case SPOP_EVENT_ABORTED:
        return 'A';
    case SPOP_EVENT_IGNORED:
        return 'I';
    case SPOP_EVENT_CLOSE:
        return 'C';
    case SPOP_EVENT_MORE:
        break;
    }
    return 'M';
}

static void result_init(struct result *res)
{
    memset(res, 0, sizeof(*res));
    spop_writer_init(&res->out, res->buf, sizeof(res->buf));
}

/* Offer `in` until nothing more comes of it; returns the bytes taken. */
static size_t stream_play(struct spop_session *s, struct spop_bytes in,
                          struct result *res)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    while (true) {
        struct spop_bytes left = {.ptr = r.ptr, .len = r.len};
        size_t taken = spop_session_next(s, left, &res->out, &res->last);
        (void)spop_read_bytes(&r, taken);
        assert_int_equal(r.status, SPOP_OK);
        if (res->last.type == SPOP_EVENT_MORE) {
            assert_int_equal(taken, 0);
            return in.len - r.len;
        }
        assert_true(res->n_events + 1 < sizeof(res->events));
        res->events[res->n_events++] = event_letter(res->last.type);
        if (res->last.type == SPOP_EVENT_NOTIFY) {
            res->notify = res->last;
        }
        if (res->last.type == SPOP_EVENT_FRAGMENTED) {
            assert_int_equal(taken, 0);
            spop_session_lend(s, res->lent, sizeof(res->lent));
        }
        if (res->last.type == SPOP_EVENT_CLOSE) {
            assert_int_equal(r.len, 0);
            return in.len;
        }
    }
}

static const struct stream_case {
    const char *name;
    const char *hex;
    const char *events;
    const char *out;
    enum spop_code code;
    bool is_peer_ending;
} streams[] = {
    {"nothing", "", "", "", 0, false},
    {"hello", HELLO, "H", AGENT_HELLO, 0, false},
    {"hello and notify", HELLO NOTIFY, "HN", AGENT_HELLO, 0, false},
    {"three notifies", HELLO NOTIFY NOTIFY NOTIFY, "HNNN", AGENT_HELLO, 0, false},
    {"half a notify", HELLO "0000000e 03", "H", AGENT_HELLO, 0, false},
    {"notify without messages", HELLO "00000007 03 00000001 00 01", "HN", AGENT_HELLO,
     0, false},
    {"notify with reserved flags", HELLO "00000007 03 fffffffd 01 01", "HN",
     AGENT_HELLO, 0, false},
    {"notify with ABORT", HELLO "00000007 03 00000003 01 01", "HN", AGENT_HELLO, 0,
     false},

    {"notify first", NOTIFY, "C", BYE_4, SPOP_CODE_INVALID, false},
    {"unset first", "00000007 00 00000001 00 00", "C", BYE_4, SPOP_CODE_INVALID, false},
    {"agent hello first", AGENT_HELLO, "C", BYE_4, SPOP_CODE_INVALID, false},
    {"unknown type first", "00000007 32 00000001 00 00", "C", BYE_4, SPOP_CODE_INVALID,
     false},
    {"disconnect first", PEER_BYE("31", "02", "12\"a timeout occurred\""), "C", BYE_0,
     SPOP_CODE_NORMAL, true},
    {"length 0", "00000000", "C", BYE_4, SPOP_CODE_INVALID, false},
    {"length 6", "00000006", "C", BYE_4, SPOP_CODE_INVALID, false},
    {"one over the first limit", "00004001", "C", BYE_3, SPOP_CODE_TOO_BIG, false},
    {"HTTP", "\"GET / HTTP/1.1\" 0d0a0d0a", "C", BYE_3, SPOP_CODE_TOO_BIG, false},
    {"TLS", "1603010200 01", "C", BYE_3, SPOP_CODE_TOO_BIG, false},
    {"length 2^32-1", "ffffffff", "C", BYE_3, SPOP_CODE_TOO_BIG, false},
    {"hello with an id over 64 bits",
     "00000012 01 00000001 00 ffffffffffffffffffff7f 00", "C", BYE_4, SPOP_CODE_INVALID,
     false},
    {"hello without FIN", "00000007 01 00000000 00 00", "C", BYE_10,
     SPOP_CODE_NO_FRAGMENTATION, false},

    {"second hello", HELLO HELLO, "HC", AGENT_HELLO BYE_4, SPOP_CODE_INVALID, false},
    {"type 101", HELLO "00000007 65 00000001 00 00", "HC", AGENT_HELLO BYE_4,
     SPOP_CODE_INVALID, false},
    {"type 102", HELLO "00000007 66 00000001 00 00", "HC", AGENT_HELLO BYE_4,
     SPOP_CODE_INVALID, false},
    {"type 103", HELLO "00000007 67 00000001 01 01", "HC", AGENT_HELLO BYE_4,
     SPOP_CODE_INVALID, false},
    {"unknown types",
     HELLO "00000007 04 00000001 00 00 00000007 32 00000001 00 00"
           "00000007 68 00000001 00 00 00000009 ff 00000000 00 00 abcd" NOTIFY,
     "HIIIIN", AGENT_HELLO, 0, false},
    {"one over the announced size", HELLO "00003ffd", "HC", AGENT_HELLO BYE_3,
     SPOP_CODE_TOO_BIG, false},
    {"exactly the announced size", HELLO "00003ffc", "H", AGENT_HELLO, 0, false},
    {"short frame later", HELLO "00000001", "HC", AGENT_HELLO BYE_4, SPOP_CODE_INVALID,
     false},
    {"notify with broken ids", HELLO "00000007 03 00000001 f0 01", "HC",
     AGENT_HELLO BYE_4, SPOP_CODE_INVALID, false},

    {"two fragments", HELLO FIRST LAST NOTIFY, "HFfNN", AGENT_HELLO, 0, false},
    {"as many bytes as are lent", HELLO FIRST NEXT LAST NOTIFY, "HFffNN", AGENT_HELLO,
     0, false},
    {"empty fragments",
     HELLO "00000007 03 00000000 01 01 00000007 00 00000000 01 01" ABORT, "HFffA",
     AGENT_HELLO, 0, false},
    {"fragments of two, one after the other", HELLO FIRST LAST FIRST LAST, "HFfNFfN",
     AGENT_HELLO, 0, false},
    {"unknown type between fragments", HELLO FIRST "00000007 32 00000001 00 00" LAST,
     "HFfIN", AGENT_HELLO, 0, false},
    {"first fragment only", HELLO FIRST, "HFf", AGENT_HELLO, 0, false},
    {"half a fragment", HELLO FIRST "0000000b 00 000000", "HFf", AGENT_HELLO, 0, false},
    {"reserved flags of fragments",
     HELLO "00000007 03 fffffffc 01 01 00000007 00 fffffffd 01 01", "HFfN", AGENT_HELLO,
     0, false},
    {"ABORT without FIN",
     HELLO "00000007 03 00000002 01 01 00000007 00 00000002 01 01" LAST, "HFffN",
     AGENT_HELLO, 0, false},
    {"given up", HELLO FIRST ABORT NOTIFY, "HFfAN", AGENT_HELLO, 0, false},
    {"given up, with payload", HELLO FIRST LONG("00", "00000003") NOTIFY, "HFfAN",
     AGENT_HELLO, 0, false},

    {"unset without a beginning", HELLO LAST, "HC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"unset after the end", HELLO FIRST LAST LAST, "HFfNC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"unset after giving up", HELLO FIRST ABORT NEXT, "HFfAC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"abort without a beginning", HELLO ABORT, "HC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"other stream-id", HELLO FIRST "00000007 00 00000001 02 01", "HFfC",
     AGENT_HELLO BYE_11, SPOP_CODE_INTERLACED, false},
    {"other frame-id", HELLO FIRST "00000007 00 00000003 01 02", "HFfC",
     AGENT_HELLO BYE_11, SPOP_CODE_INTERLACED, false},
    {"notify between fragments", HELLO FIRST NOTIFY, "HFfC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"fragments between fragments", HELLO FIRST FIRST, "HFfC", AGENT_HELLO BYE_11,
     SPOP_CODE_INTERLACED, false},
    {"hello between fragments", HELLO FIRST HELLO, "HFfC", AGENT_HELLO BYE_4,
     SPOP_CODE_INVALID, false},
    {"disconnect between fragments", HELLO FIRST PEER_BYE("25", "00", "06\"normal\""),
     "HFfC", AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},

    {"no room for the first fragment", HELLO LONG("03", "00000000") NEXT LAST NOTIFY,
     "HFRffN", AGENT_HELLO ABORT_ACK, 0, false},
    {"no room for a later one", HELLO FIRST LONG("00", "00000000") LAST NOTIFY,
     "HFfRfN", AGENT_HELLO ABORT_ACK, 0, false},
    {"no room for the last one", HELLO FIRST LONG("00", "00000001") NOTIFY, "HFfRN",
     AGENT_HELLO NEUTRAL_ACK, 0, false},
    {"one byte too many", HELLO FIRST NEXT "0000000c 00 00000001 01 01 \"ijklm\"",
     "HFffR", AGENT_HELLO NEUTRAL_ACK, 0, false},
    {"refused, then given up", HELLO LONG("03", "00000000") NEXT ABORT NOTIFY, "HFRffN",
     AGENT_HELLO ABORT_ACK, 0, false},
    {"refused, then another", HELLO LONG("03", "00000000") LAST FIRST LAST, "HFRfFfN",
     AGENT_HELLO ABORT_ACK, 0, false},
    {"refused, then other ids",
     HELLO LONG("03", "00000000") "00000007 00 00000001 02 01", "HFRC",
     AGENT_HELLO ABORT_ACK BYE_11, SPOP_CODE_INTERLACED, false},
    {"refused, then a notify", HELLO LONG("03", "00000000") NOTIFY, "HFRC",
     AGENT_HELLO ABORT_ACK BYE_11, SPOP_CODE_INTERLACED, false},

    {"disconnect 0", HELLO PEER_BYE("25", "00", "06\"normal\""), "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"disconnect 2", HELLO PEER_BYE("31", "02", "12\"a timeout occurred\""), "HC",
     AGENT_HELLO BYE_2, SPOP_CODE_TIMEOUT, true},
    {"disconnect 99", HELLO PEER_BYE("20", "63", "01\"?\""), "HC", AGENT_HELLO BYE_99,
     SPOP_CODE_UNKNOWN, true},
    {"disconnect 1000", HELLO PEER_BYE("21", "f82f", "01\"?\""), "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"disconnect without payload", HELLO "00000007 02 00000001 00 00", "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"disconnect with garbage", HELLO "00000009 02 00000001 00 00 ffff", "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"disconnect with broken ids", HELLO "00000007 02 00000001 f0 00", "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"disconnect without FIN", HELLO "00000015 02 00000000 00 00 " CODE("02"), "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
    {"bytes after a disconnect",
     HELLO PEER_BYE("25", "00", "06\"normal\"") NOTIFY "ffffffff", "HC",
     AGENT_HELLO BYE_0, SPOP_CODE_NORMAL, true},
};

static void stream_expect(const struct stream_case *c, const struct result *res)
{
    if (strcmp(res->events, c->events) != 0) {
        fail_msg("%s: got events %s, want %s", c->name, res->events, c->events);
    }
    expect_bytes(c->name, written(&res->out), c->out);
    if (strchr(c->events, 'C')) {
        expect_equal(c->name, res->last.code, c->code);
        expect_equal(c->name, res->last.is_peer_ending, c->is_peer_ending);
        expect_equal(c->name, res->last.is_health_check, false);
    }
}

static void each_stream_has_its_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct wire wire;
        struct result res;
        struct spop_session s;
        result_init(&res);
        spop_session_init(&s);
        stream_play(&s, wire_bytes(&wire, streams[i].hex), &res);
        stream_expect(&streams[i], &res);
    }
}

/* A connection keeps what was not taken and offers it again with one byte more. */
static void byte_by_byte_the_answer_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct wire wire;
        struct result res;
        struct spop_session s;
        result_init(&res);
        spop_session_init(&s);
        struct spop_bytes in = wire_bytes(&wire, streams[i].hex);
        size_t done = 0;
        for (size_t end = 1; end <= in.len && res.last.type != SPOP_EVENT_CLOSE;
             end++) {
            struct spop_bytes part = {.ptr = in.ptr + done, .len = end - done};
            done += stream_play(&s, part, &res);
        }
        stream_expect(&streams[i], &res);
    }
}

static void more_tells_the_size_of_the_frame(void **state)
{
    (void)state;
    struct guard_page guard;
    struct wire wire;
    struct spop_bytes hello = wire_bytes(&wire, HELLO);
    guard_page_init(&guard, hello.len);
    for (size_t len = 0; len < hello.len; len++) {
        struct result res;
        struct spop_session s;
        result_init(&res);
        spop_session_init(&s);
        const uint8_t *place = guard_page_place(&guard, hello.ptr, len);
        struct spop_bytes in = {.ptr = place, .len = len};
        assert_int_equal(stream_play(&s, in, &res), 0);
        assert_int_equal(res.last.frame_bytes, len < 4 ? 0 : hello.len);
        assert_int_equal(res.out.len, 0);
    }
    guard_page_release(&guard);
}

static void a_health_check_gets_a_hello_and_no_more(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    stream_play(&s, wire_bytes(&wire, HEALTH_CHECK NOTIFY), &res);
    assert_string_equal(res.events, "C");
    assert_true(res.last.is_health_check);
    assert_false(res.last.is_peer_ending);
    assert_int_equal(res.last.code, SPOP_CODE_NORMAL);
    spop_session_disconnect(&s, SPOP_CODE_NORMAL, &res.out);
    expect_bytes("reply", written(&res.out),
                 "00000035 65 00000001 00 00 07\"version\" 0803\"2.0\""
                 " 0e\"max-frame-size\" 03f001 0c\"capabilities\" 0800");
}

/* A HELLO that announces `frame_bytes` and no capabilities. */
static void hello_play(struct spop_session *s, uint64_t frame_bytes, struct result *res)
{
    static const uint64_t no_ids[2] = {0, 0};
    uint8_t payload_buf[256];
    uint8_t frame_buf[256];
    struct wire wire;
    struct spop_writer payload;
    struct spop_writer frame;
    spop_writer_init(&payload, payload_buf, sizeof(payload_buf));
    spop_write_bytes(&payload,
                     wire_bytes(&wire,
                                "12\"supported-versions\" 0803\"2.0\""
                                "0c\"capabilities\" 0800 0e\"max-frame-size\" 05"));
    spop_write_varint(&payload, frame_bytes);
    spop_writer_init(&frame, frame_buf, sizeof(frame_buf));
    wire_frame(&frame, SPOP_FRAME_HAPROXY_HELLO, SPOP_FLAG_FIN, no_ids,
               written(&payload));
    stream_play(s, written(&frame), res);
}

static void the_smaller_size_is_agreed(void **state)
{
    (void)state;
    static const struct {
        uint64_t announced;
        size_t agreed;
    } sizes[] = {
        {256, 256},
        {16380, 16380},
        {131071, 131071},
        {131072, 131072},
        {131073, SPOP_FRAME_SIZE_MAX},
        {1073741824, SPOP_FRAME_SIZE_MAX},
        {UINT64_MAX, SPOP_FRAME_SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct result res;
        struct spop_session s;
        result_init(&res);
        spop_session_init(&s);
        hello_play(&s, sizes[i].announced, &res);
        assert_string_equal(res.events, "H");
        assert_int_equal(s.state, SPOP_SESSION_OPEN);
        assert_int_equal(s.frame_bytes_max, sizes[i].agreed);
        assert_int_equal(s.receive_bytes_max, sizes[i].agreed);
    }
}

static void a_size_too_small_is_refused(void **state)
{
    (void)state;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    hello_play(&s, 255, &res);
    assert_string_equal(res.events, "C");
    assert_int_equal(res.last.code, SPOP_CODE_BAD_FRAME_SIZE);
}

static void ids_are_handed_on_bit_for_bit(void **state)
{
    (void)state;
    static const uint64_t ids[] = {0,
                                   239,
                                   240,
                                   2287,
                                   2288,
                                   (uint64_t)1 << 31,
                                   (uint64_t)1 << 32,
                                   (uint64_t)1 << 53,
                                   (uint64_t)1 << 63,
                                   UINT64_MAX};
    struct wire wire;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    stream_play(&s, wire_bytes(&wire, HELLO), &res);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        uint8_t buf[64];
        const uint64_t pair[2] = {ids[i], ~ids[i]};
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        wire_frame(&w, SPOP_FRAME_NOTIFY, SPOP_FLAG_FIN, pair,
                   wire_bytes(&wire, "01\"m\" 00"));
        struct spop_event event;
        assert_int_equal(spop_session_next(&s, written(&w), &res.out, &event), w.len);
        assert_int_equal(event.type, SPOP_EVENT_NOTIFY);
        assert_true(event.stream_id == pair[0] && event.frame_id == pair[1]);
        expect_bytes("payload", event.payload, "01\"m\" 00");
    }
}

static void only_so_many_unknown_frames_are_skipped(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    stream_play(&s, wire_bytes(&wire, HELLO), &res);
    struct spop_bytes unknown = wire_bytes(&wire, "00000007 32 00000001 00 00");
    for (unsigned i = 0; i < SPOP_UNKNOWN_FRAMES_MAX; i++) {
        struct spop_event event;
        assert_int_equal(spop_session_next(&s, unknown, &res.out, &event), unknown.len);
        assert_int_equal(event.type, SPOP_EVENT_IGNORED);
    }
    stream_play(&s, unknown, &res);
    assert_string_equal(res.events, "HC");
    assert_int_equal(res.last.code, SPOP_CODE_INVALID);
    assert_int_equal(s.n_unknown_frames, SPOP_UNKNOWN_FRAMES_MAX);
}

static void a_disconnect_of_ours_is_sent_once(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    stream_play(&s, wire_bytes(&wire, HELLO), &res);
    spop_session_disconnect(&s, SPOP_CODE_INVALID, &res.out);
    spop_session_disconnect(&s, SPOP_CODE_NORMAL, &res.out);
    for (int again = 0; again < 2; again++) {
        stream_play(&s, wire_bytes(&wire, NOTIFY PEER_BYE("25", "00", "06\"normal\"")),
                    &res);
        assert_int_equal(res.last.type, SPOP_EVENT_CLOSE);
        assert_int_equal(res.last.code, SPOP_CODE_INVALID);
        assert_false(res.last.is_peer_ending);
    }
    expect_bytes("output", written(&res.out), AGENT_HELLO BYE_4);
}

static void a_close_is_reported_again(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_session s;
    result_init(&res);
    spop_session_init(&s);
    struct spop_bytes ending = wire_bytes(&wire,
                                          HELLO PEER_BYE("31", "02",
                                                         "12\"a timeout occurred\""));
    stream_play(&s, ending, &res);
    assert_int_equal(s.peer_code, SPOP_CODE_TIMEOUT);
    size_t out_len = res.out.len;
    assert_int_equal(stream_play(&s, (struct spop_bytes){0}, &res), 0);
    assert_string_equal(res.events, "HCC");
    assert_int_equal(res.last.code, SPOP_CODE_TIMEOUT);
    assert_true(res.last.is_peer_ending);
    assert_int_equal(res.out.len, out_len);
}

/* Play HELLO, then `text`; the last event is res->last. */
static void session_play(struct spop_session *s, const char *text, struct result *res)
{
    struct wire wire;
    result_init(res);
    spop_session_init(s);
    stream_play(s, wire_bytes(&wire, HELLO), res);
    stream_play(s, wire_bytes(&wire, text), res);
}

static void fragments_are_put_together(void **state)
{
    (void)state;
    static const uint64_t ids[2] = {0, UINT64_MAX};
    static const char *const parts[] = {"\"ab\"", "", "\"cdefgh\"", "\"ijkl\""};
    enum {
        N_PARTS = sizeof(parts) / sizeof(parts[0])
    };
    struct result res;
    struct spop_session s;
    session_play(&s, "", &res);
    for (size_t i = 0; i < N_PARTS; i++) {
        uint8_t buf[64];
        struct wire wire;
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        wire_frame(&w, i == 0 ? SPOP_FRAME_NOTIFY : SPOP_FRAME_UNSET,
                   i == N_PARTS - 1 ? SPOP_FLAG_FIN : 0, ids,
                   wire_bytes(&wire, parts[i]));
        stream_play(&s, written(&w), &res);
        memset(buf, 0, sizeof(buf)); /* the session has to have its own */
    }
    assert_string_equal(res.events, "HFfffN");
    assert_true(res.notify.is_fragmented);
    assert_true(res.notify.stream_id == ids[0] && res.notify.frame_id == ids[1]);
    expect_bytes("payload", res.notify.payload, "\"abcdefghijkl\"");
    session_play(&s, NOTIFY, &res);
    assert_false(res.notify.is_fragmented);
}

static void without_a_loan_the_notify_is_refused(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_session s;
    struct spop_event event;
    session_play(&s, FIRST LAST, &res); /* a loan that has ended does not count */
    struct spop_bytes first = wire_bytes(&wire, FIRST);
    assert_int_equal(spop_session_next(&s, first, &res.out, &event), 0);
    assert_int_equal(event.type, SPOP_EVENT_FRAGMENTED);
    assert_int_equal(spop_session_next(&s, first, &res.out, &event), first.len);
    assert_int_equal(event.type, SPOP_EVENT_REFUSED);
    stream_play(&s, wire_bytes(&wire, NEXT LAST NOTIFY), &res);
    assert_string_equal(res.events, "HFfNffN");
    expect_bytes("output", written(&res.out), AGENT_HELLO ABORT_ACK);
}

static void a_loan_ends_with_what_it_was_for(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool is_lent;
    } cases[] = {
        {"", false},
        {NOTIFY, false},
        {FIRST, true},
        {FIRST NEXT, true},
        {FIRST LAST, false},
        {FIRST ABORT, false},
        {FIRST NOTIFY, false},
        {LONG("03", "00000000"), false},
        {FIRST LONG("00", "00000000") NEXT, false},
        {FIRST PEER_BYE("25", "00", "06\"normal\""), false},
    };
    struct result res;
    struct spop_session s;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        session_play(&s, cases[i].hex, &res);
        expect_equal(cases[i].hex, spop_session_is_assembling(&s), cases[i].is_lent);
    }
    session_play(&s, FIRST, &res);
    spop_session_disconnect(&s, SPOP_CODE_TIMEOUT, &res.out);
    assert_false(spop_session_is_assembling(&s));
}

static void lend_unasked(void *arg)
{
    static uint8_t buf[LENT_BYTES];
    spop_session_lend(arg, buf, sizeof(buf));
}

static void next_without_room(void *arg)
{
    uint8_t buf[SPOP_SESSION_ROOM_MIN - 1];
    struct spop_writer out;
    struct spop_event event;
    spop_writer_init(&out, buf, sizeof(buf));
    (void)!spop_session_next(arg, (struct spop_bytes){0}, &out, &event);
}

static void our_own_mistakes_abort(void **state)
{
    (void)state;
    struct spop_session s;
    spop_session_init(&s);
    assert_true(death_by_abort(next_without_room, &s));
    assert_true(death_by_abort(lend_unasked, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stream_has_its_answer),
        cmocka_unit_test(byte_by_byte_the_answer_is_the_same),
        cmocka_unit_test(more_tells_the_size_of_the_frame),
        cmocka_unit_test(a_health_check_gets_a_hello_and_no_more),
        cmocka_unit_test(the_smaller_size_is_agreed),
        cmocka_unit_test(a_size_too_small_is_refused),
        cmocka_unit_test(ids_are_handed_on_bit_for_bit),
        cmocka_unit_test(only_so_many_unknown_frames_are_skipped),
        cmocka_unit_test(a_disconnect_of_ours_is_sent_once),
        cmocka_unit_test(a_close_is_reported_again),
        cmocka_unit_test(fragments_are_put_together),
        cmocka_unit_test(without_a_loan_the_notify_is_refused),
        cmocka_unit_test(a_loan_ends_with_what_it_was_for),
        cmocka_unit_test(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
