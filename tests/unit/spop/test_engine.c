#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/engine.h"
#include "spop/frame.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

#define HAPROXY_HELLO                                                 \
    "0000004b 01 00000001 00 00 12\"supported-versions\" 0803\"2.0\"" \
    " 0e\"max-frame-size\" 03fcf006 0c\"capabilities\" 080a\"pipelining\""
#define AGENT_SAYS(length, size, capabilities)                                  \
    "000000" length                                                             \
    " 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\" 03" size \
    " 0c\"capabilities\" 08" capabilities
#define AGENT_HELLO   AGENT_SAYS("40", "fcf006", "0a\"pipelining\"")
#define AGENT_CHECKED AGENT_SAYS("35", "f001", "00")
#define ACK           "0000000e 67 00000001 f031 01 01 03 02 01\"a\" 11"
#define CODE(value)   "0b\"status-code\" 03" value
#define BYE(type, length, value, text) \
    "000000" length type " 00000001 00 00 " CODE(value) "07\"message\" 08" text
#define AGENT_BYE_0  BYE("66", "25", "00", "06\"normal\"")
#define AGENT_BYE_13 BYE("66", "38", "0d", "19\"resource allocation error\"")
#define BYE_0        BYE("02", "25", "00", "06\"normal\"")
#define BYE_3        BYE("02", "2f", "03", "10\"frame is too big\"")
#define BYE_4        BYE("02", "35", "04", "16\"invalid frame received\"")
#define BYE_5        BYE("02", "36", "05", "17\"version value not found\"")
#define BYE_10       BYE("02", "45", "0a", "26\"payload fragmentation is not supported\"")

static const struct spop_haproxy_hello hello = {.frame_bytes_max = 16380,
                                                .is_pipelining = true};

/* What a stream gave: a letter an event (H hello, A ack, I ignored, C close). */
struct result {
    char events[64];
    size_t n_events;
    struct spop_engine_event last;
    uint8_t buf[4096];
    struct spop_writer out;
};

static char event_letter(enum spop_engine_event_type type)
{
    switch (type) {
    case SPOP_ENGINE_HELLO:
        return 'H';
    case SPOP_ENGINE_ACK:
        return 'A';
    case SPOP_ENGINE_IGNORED:
        return 'I';
    case SPOP_ENGINE_CLOSE:
        return 'C';
    case SPOP_ENGINE_MORE:
        break;
    }
    return 'M';
}

/* A conversation that has begun; its HELLO is not in the output any more. */
static void result_init(struct result *res, struct spop_engine *e)
{
    memset(res, 0, sizeof(*res));
    spop_writer_init(&res->out, res->buf, sizeof(res->buf));
    spop_engine_start(e, &hello, &res->out);
    res->out.len = 0;
}

/* Offer `in` until nothing more comes of it; returns the bytes taken. */
static size_t stream_play(struct spop_engine *e, struct spop_bytes in,
                          struct result *res)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    while (true) {
        struct spop_bytes left = {.ptr = r.ptr, .len = r.len};
        size_t taken = spop_engine_next(e, left, &res->out, &res->last);
        (void)spop_read_bytes(&r, taken);
        assert_int_equal(r.status, SPOP_OK);
        if (res->last.type == SPOP_ENGINE_MORE) {
            assert_int_equal(taken, 0);
            return in.len - r.len;
        }
        assert_true(res->n_events + 1 < sizeof(res->events));
        res->events[res->n_events++] = event_letter(res->last.type);
        if (res->last.type == SPOP_ENGINE_CLOSE) {
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
    bool is_agent_ending;
} streams[] = {
    {"nothing", "", "", "", 0, false},
    {"hello", AGENT_HELLO, "H", "", 0, false},
    {"hello and ACK", AGENT_HELLO ACK, "HA", "", 0, false},
    {"half an ACK", AGENT_HELLO ACK "0000000e 67", "HA", "", 0, false},
    {"ACK without actions", AGENT_HELLO "00000007 67 00000001 01 01", "HA", "", 0,
     false},
    {"ACK with ABORT and reserved flags", AGENT_HELLO "00000007 67 ffffffff 01 01",
     "HA", "", 0, false},

    {"ACK first", ACK, "C", BYE_4, SPOP_CODE_INVALID, false},
    {"HAPROXY-HELLO first", HAPROXY_HELLO, "C", BYE_4, SPOP_CODE_INVALID, false},
    {"disconnect first", AGENT_BYE_13, "C", "", SPOP_CODE_RESOURCE, true},
    {"hello without version", "00000007 65 00000001 00 00", "C", BYE_5,
     SPOP_CODE_NO_VERSION, false},
    {"hello without FIN", "00000007 65 00000000 00 00", "C", BYE_10,
     SPOP_CODE_NO_FRAGMENTATION, false},
    {"length 0", "00000000", "C", BYE_4, SPOP_CODE_INVALID, false},
    {"length 6", "00000006", "C", BYE_4, SPOP_CODE_INVALID, false},
    {"one over what we announced", "00003ffd", "C", BYE_3, SPOP_CODE_TOO_BIG, false},
    {"HTTP", "\"HTTP/1.1 400 Bad Request\"", "C", BYE_3, SPOP_CODE_TOO_BIG, false},

    {"second hello", AGENT_HELLO AGENT_HELLO, "HC", BYE_4, SPOP_CODE_INVALID, false},
    {"ACK without FIN", AGENT_HELLO "00000007 67 00000000 01 01", "HC", BYE_10,
     SPOP_CODE_NO_FRAGMENTATION, false},
    {"ACK with broken ids", AGENT_HELLO "00000007 67 00000001 f0 01", "HC", BYE_4,
     SPOP_CODE_INVALID, false},
    {"UNSET", AGENT_HELLO "00000007 00 00000001 01 01", "HC", BYE_4, SPOP_CODE_INVALID,
     false},
    {"NOTIFY", AGENT_HELLO "00000007 03 00000001 01 01", "HC", BYE_4, SPOP_CODE_INVALID,
     false},
    {"HAPROXY-DISCONNECT", AGENT_HELLO BYE_0, "HC", BYE_4, SPOP_CODE_INVALID, false},
    {"unknown type", AGENT_HELLO "00000007 32 00000001 00 00", "HC", BYE_4,
     SPOP_CODE_INVALID, false},
    {"one over the agreed size", AGENT_SAYS("37", "f001", "02\"xy\"") "00000101", "HC",
     BYE_3, SPOP_CODE_TOO_BIG, false},
    {"exactly the agreed size", AGENT_SAYS("37", "f001", "02\"xy\"") "00000100", "H",
     "", 0, false},

    {"disconnect", AGENT_HELLO AGENT_BYE_0, "HC", "", SPOP_CODE_NORMAL, true},
    {"disconnect and more", AGENT_HELLO AGENT_BYE_13 ACK "ffffffff", "HC", "",
     SPOP_CODE_RESOURCE, true},
    {"disconnect without payload", AGENT_HELLO "00000007 66 00000001 00 00", "HC", "",
     SPOP_CODE_UNKNOWN, true},
    {"disconnect with garbage", AGENT_HELLO "00000009 66 00000001 00 00 ffff", "HC", "",
     SPOP_CODE_UNKNOWN, true},
    {"disconnect 1000", AGENT_HELLO BYE("66", "21", "f82f", "01\"?\""), "HC", "",
     SPOP_CODE_UNKNOWN, true},
    {"disconnect without FIN", AGENT_HELLO "00000015 66 00000000 00 00 " CODE("02"),
     "HC", "", SPOP_CODE_UNKNOWN, true},
};

static void stream_expect(const struct stream_case *c, const struct result *res)
{
    if (strcmp(res->events, c->events) != 0) {
        fail_msg("%s: got events %s, want %s", c->name, res->events, c->events);
    }
    expect_bytes(c->name, written(&res->out), c->out);
    if (strchr(c->events, 'C')) {
        expect_equal(c->name, res->last.code, c->code);
        expect_equal(c->name, res->last.is_agent_ending, c->is_agent_ending);
        expect_equal(c->name, res->last.is_health_check, false);
    }
}

static void each_stream_has_its_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct wire wire;
        struct result res;
        struct spop_engine e;
        result_init(&res, &e);
        stream_play(&e, wire_bytes(&wire, streams[i].hex), &res);
        stream_expect(&streams[i], &res);
    }
}

static void byte_by_byte_the_answer_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct wire wire;
        struct result res;
        struct spop_engine e;
        result_init(&res, &e);
        struct spop_bytes in = wire_bytes(&wire, streams[i].hex);
        size_t done = 0;
        for (size_t end = 1; end <= in.len && res.last.type != SPOP_ENGINE_CLOSE;
             end++) {
            struct spop_bytes part = {.ptr = in.ptr + done, .len = end - done};
            done += stream_play(&e, part, &res);
        }
        stream_expect(&streams[i], &res);
    }
}

static void the_hello_is_haproxys(void **state)
{
    (void)state;
    struct spop_engine e;
    uint8_t buf[SPOP_ENGINE_ROOM_MIN];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_engine_start(&e, &hello, &w);
    expect_bytes("hello", written(&w), HAPROXY_HELLO);
    assert_int_equal(e.state, SPOP_ENGINE_WAITING);
}

static void an_ack_shows_its_ids_and_actions(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_engine e;
    result_init(&res, &e);
    struct spop_bytes in = wire_bytes(&wire, AGENT_HELLO ACK);
    size_t n = spop_engine_next(&e, in, &res.out, &res.last);
    assert_int_equal(res.last.type, SPOP_ENGINE_HELLO);
    in = (struct spop_bytes){.ptr = in.ptr + n, .len = in.len - n};
    assert_int_equal(spop_engine_next(&e, in, &res.out, &res.last), in.len);
    assert_int_equal(res.last.type, SPOP_ENGINE_ACK);
    assert_int_equal(res.last.stream_id, 1024);
    assert_int_equal(res.last.frame_id, 1);
    assert_false(res.last.is_aborted);
    expect_bytes("actions", res.last.payload, "01 03 02 01\"a\" 11");

    in = wire_bytes(&wire, "00000007 67 00000003 05 06");
    assert_int_equal(spop_engine_next(&e, in, &res.out, &res.last), in.len);
    assert_true(res.last.is_aborted);
}

static void more_tells_the_size_of_the_frame(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_engine e;
    result_init(&res, &e);
    struct spop_bytes in = wire_bytes(&wire, AGENT_HELLO);
    in.len = 3;
    assert_int_equal(spop_engine_next(&e, in, &res.out, &res.last), 0);
    assert_int_equal(res.last.frame_bytes, 0);
    in.len = 4;
    assert_int_equal(spop_engine_next(&e, in, &res.out, &res.last), 0);
    assert_int_equal(res.last.frame_bytes, 0x44);
}

static const struct check_case {
    const char *name;
    const char *hex;
    const char *out;
    enum spop_code code;
    bool is_health_check;
} checks[] = {
    {"good", AGENT_CHECKED, "", SPOP_CODE_NORMAL, true},
    {"refused", AGENT_BYE_13, "", SPOP_CODE_RESOURCE, false},
    {"no version", "00000007 65 00000001 00 00", BYE_5, SPOP_CODE_NO_VERSION, false},
};

static void a_health_check_ends_with_the_hello(void **state)
{
    (void)state;
    const struct spop_haproxy_hello check = {.frame_bytes_max = 16380,
                                             .is_health_check = true};
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct wire wire;
        struct result res;
        struct spop_engine e;
        result_init(&res, &e);
        spop_engine_start(&e, &check, &res.out);
        res.out.len = 0;
        stream_play(&e, wire_bytes(&wire, checks[i].hex), &res);
        assert_string_equal(res.events, "C");
        expect_bytes(checks[i].name, written(&res.out), checks[i].out);
        expect_equal(checks[i].name, res.last.code, checks[i].code);
        expect_equal(checks[i].name, res.last.is_health_check,
                     checks[i].is_health_check);
    }
}

static void engine_open(struct spop_engine *e, struct result *res, const char *hex)
{
    struct wire wire;
    result_init(res, e);
    stream_play(e, wire_bytes(&wire, hex), res);
    assert_int_equal(res->last.type, SPOP_ENGINE_MORE);
    assert_int_equal(e->state, SPOP_ENGINE_OPEN);
}

/* After our DISCONNECT only the agent's counts; it is sent once. */
static void our_own_end_waits_for_the_agents(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_engine e;
    engine_open(&e, &res, AGENT_HELLO);
    spop_engine_disconnect(&e, SPOP_CODE_NORMAL, &res.out);
    spop_engine_disconnect(&e, SPOP_CODE_IO, &res.out);
    stream_play(&e, wire_bytes(&wire, ACK "00000007 32 00000001 00 00" AGENT_BYE_0 ACK),
                &res);
    assert_string_equal(res.events, "HIIC");
    assert_true(res.last.is_agent_ending);
    assert_int_equal(res.last.code, SPOP_CODE_NORMAL);
    spop_engine_disconnect(&e, SPOP_CODE_IO, &res.out);
    expect_bytes("once", written(&res.out), BYE_0);
}

static void garbage_after_our_end_is_not_answered(void **state)
{
    (void)state;
    struct wire wire;
    struct result res;
    struct spop_engine e;
    engine_open(&e, &res, AGENT_HELLO);
    spop_engine_disconnect(&e, SPOP_CODE_NORMAL, &res.out);
    stream_play(&e, wire_bytes(&wire, "ffffffff"), &res);
    assert_string_equal(res.events, "HC");
    assert_int_equal(res.last.code, SPOP_CODE_TOO_BIG);
    assert_false(res.last.is_agent_ending);
    expect_bytes("once", written(&res.out), BYE_0);
}

/* The payload as one frame of 256 bytes agreed can and cannot have it. */
static void put_payload(uint8_t *payload, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        payload[i] = (uint8_t)i;
    }
}

static void a_notify_is_one_frame_where_it_fits(void **state)
{
    (void)state;
    uint8_t payload[225];
    struct result res;
    struct spop_engine e;
    struct spop_frame frame;
    struct spop_bytes bytes = {payload, 224};
    put_payload(payload, sizeof(payload));
    engine_open(&e, &res, AGENT_SAYS("3f", "f001", "0a\"pipelining\""));
    assert_int_equal(spop_engine_notify(&e, &res.out, 1024, 1, bytes), SPOP_OK);
    assert_int_equal(spop_frame_decode(written(&res.out), 256, &frame), SPOP_OK);
    assert_int_equal(frame.type, SPOP_FRAME_NOTIFY);
    assert_int_equal(frame.flags, SPOP_FLAG_FIN);
    assert_int_equal(frame.stream_id, 1024);
    assert_int_equal(frame.payload.len, 224);
    size_t len = res.out.len;
    bytes.len = 225;
    assert_int_equal(spop_engine_notify(&e, &res.out, 1, 1, bytes), SPOP_ERR_TOO_BIG);
    assert_int_equal(res.out.len, len);
    bytes.len = 0;
    assert_int_equal(spop_engine_notify(&e, &res.out, 1, 1, bytes), SPOP_OK);
}

/* As HAProxy 2.6 cuts them: 32 bytes less than the frame size, the same ids. */
static void a_larger_one_comes_in_fragments(void **state)
{
    (void)state;
    uint8_t payload[500];
    struct result res;
    struct spop_engine e;
    put_payload(payload, sizeof(payload));
    engine_open(&e, &res, AGENT_SAYS("4d", "f001", "18\"pipelining,fragmentation\""));
    assert_int_equal(spop_engine_notify(&e, &res.out, 7, 9,
                                        (struct spop_bytes){payload, 500}),
                     SPOP_OK);
    static const size_t part_bytes[] = {224, 224, 52};
    struct spop_bytes left = written(&res.out);
    const uint8_t *want = payload;
    for (unsigned i = 0; i < 3; i++) {
        struct spop_frame frame;
        assert_int_equal(spop_frame_decode(left, 256, &frame), SPOP_OK);
        assert_int_equal(frame.type, i == 0 ? SPOP_FRAME_NOTIFY : SPOP_FRAME_UNSET);
        assert_int_equal(frame.flags, i == 2 ? SPOP_FLAG_FIN : 0);
        assert_int_equal(frame.stream_id, 7);
        assert_int_equal(frame.frame_id, 9);
        assert_int_equal(frame.payload.len, part_bytes[i]);
        assert_memory_equal(frame.payload.ptr, want, part_bytes[i]);
        want += part_bytes[i];
        left.ptr += frame.wire_bytes;
        left.len -= frame.wire_bytes;
    }
    assert_int_equal(left.len, 0);
}

static void without_room_nothing_is_written(void **state)
{
    (void)state;
    uint8_t payload[500];
    struct result res;
    struct spop_engine e;
    put_payload(payload, sizeof(payload));
    engine_open(&e, &res, AGENT_SAYS("4d", "f001", "18\"pipelining,fragmentation\""));
    const size_t head_bytes = 11;
    size_t wire_bytes_all = 3 * head_bytes + sizeof(payload);
    for (size_t cap = 0; cap <= wire_bytes_all; cap++) {
        static uint8_t buf[1024];
        struct spop_writer w;
        bool fits = cap == wire_bytes_all;
        spop_writer_init(&w, buf, cap);
        enum spop_status status = spop_engine_notify(
            &e, &w, 1, 1, (struct spop_bytes){payload, sizeof(payload)});
        assert_int_equal(status, fits ? SPOP_OK : SPOP_ERR_ROOM);
        assert_int_equal(w.len, fits ? wire_bytes_all : 0);
        assert_int_equal(w.status, SPOP_OK);
    }
}

static void notify_too_early(void *arg)
{
    struct result res;
    struct spop_engine e;
    (void)arg;
    result_init(&res, &e);
    struct spop_bytes none = {0};
    enum spop_status status = spop_engine_notify(&e, &res.out, 1, 1, none);
    assert_int_equal(status, SPOP_OK);
}

static void no_notify_before_the_hello(void **state)
{
    (void)state;
    assert_true(death_by_abort(notify_too_early, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stream_has_its_answer),
        cmocka_unit_test(byte_by_byte_the_answer_is_the_same),
        cmocka_unit_test(the_hello_is_haproxys),
        cmocka_unit_test(an_ack_shows_its_ids_and_actions),
        cmocka_unit_test(more_tells_the_size_of_the_frame),
        cmocka_unit_test(a_health_check_ends_with_the_hello),
        cmocka_unit_test(our_own_end_waits_for_the_agents),
        cmocka_unit_test(garbage_after_our_end_is_not_answered),
        cmocka_unit_test(a_notify_is_one_frame_where_it_fits),
        cmocka_unit_test(a_larger_one_comes_in_fragments),
        cmocka_unit_test(without_room_nothing_is_written),
        cmocka_unit_test(no_notify_before_the_hello),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
