#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/frame.h"

#include "tests/support/death.h"
#include "tests/support/guard_page.h"
#include "tests/unit/spop/support.h"

static const char golden_notify[] =
    "00000029 03 00000001 01 01 05\"check\" 03"
    " 02\"ip\" 067f000001 04\"path\" 0802\"/a\" 04\"meth\" 0803\"GET\"";

static void a_golden_frame_decodes(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_frame frame;
    struct spop_bytes in = wire_bytes(&wire, golden_notify);
    assert_int_equal(spop_frame_decode(in, 0x29, &frame), SPOP_OK);
    assert_int_equal(frame.type, SPOP_FRAME_NOTIFY);
    assert_int_equal(frame.flags, SPOP_FLAG_FIN);
    assert_int_equal(frame.stream_id, 1);
    assert_int_equal(frame.frame_id, 1);
    assert_int_equal(frame.wire_bytes, in.len);
    assert_int_equal(frame.payload.len, 0x29 - 7);
    assert_ptr_equal(frame.payload.ptr, wire.buf + 11);
    assert_true(spop_frame_is_final(&frame));
    assert_false(spop_frame_is_of_connection(&frame));
}

static const struct frame_case {
    const char *name;
    const char *hex;
    size_t frame_bytes_max;
    enum spop_status status;
    unsigned type;
    size_t wire_bytes;
} cases[] = {
    {"nothing", "", 256, SPOP_MORE, 0, 0},
    {"half a prefix", "0000", 256, SPOP_MORE, 0, 0},
    {"a prefix", "00000007", 256, SPOP_MORE, 0, 11},
    {"all but a byte", "00000007 03 00000001 01", 256, SPOP_MORE, 0, 11},
    {"least frame", "00000007 03 00000001 01 01", 256, SPOP_OK, 3, 11},
    {"least frame, least limit", "00000007 03 00000001 01 01", 7, SPOP_OK, 3, 11},
    {"one too big, by its prefix", "00000008", 7, SPOP_ERR_TOO_BIG, 0, 0},
    {"length 2^32-1", "ffffffff", 131072, SPOP_ERR_TOO_BIG, 0, 0},
    {"length 2^31-1", "7fffffff", 131072, SPOP_ERR_TOO_BIG, 0, 0},
    {"HTTP", "\"GET / HTTP/1.1\"", 131072, SPOP_ERR_TOO_BIG, 0, 0},
    {"TLS", "16030100 00", 131072, SPOP_ERR_TOO_BIG, 0, 0},
    {"length 0", "00000000", 256, SPOP_ERR_FRAME, 0, 0},
    {"length 1", "00000001", 256, SPOP_ERR_FRAME, 0, 0},
    {"length 6", "00000006 03 00000001 01", 256, SPOP_ERR_FRAME, 0, 0},
    {"id past the end", "00000007 03 00000001 f0 01", 256, SPOP_ERR_FRAME, 3, 0},
    {"second id cut", "00000008 02 00000001 f001 f0", 256, SPOP_ERR_FRAME, 2, 0},
    {"id over 64 bits", "00000011 03 00000001 ffffffffffffffffffff7f 01", 256,
     SPOP_ERR_FRAME, 3, 0},
    {"ids of 64 bits", "00000019 03 00000001 fff0fefefefefefefe0e f0f1fefefefefefefe06",
     256, SPOP_OK, 3, 29},
    {"what follows is another frame", "00000007 03 00000001 01 01 00000000", 256,
     SPOP_OK, 3, 11},
};

static void each_beginning_of_a_stream_is_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct frame_case *c = &cases[i];
        struct wire wire;
        struct spop_frame frame;
        struct spop_bytes in = wire_bytes(&wire, c->hex);
        enum spop_status status = spop_frame_decode(in, c->frame_bytes_max, &frame);
        expect_equal(c->name, status, c->status);
        expect_equal(c->name, frame.type, c->type);
        expect_equal(c->name, (long long)frame.wire_bytes, (long long)c->wire_bytes);
    }
}

static void every_proper_prefix_needs_more(void **state)
{
    (void)state;
    struct guard_page guard;
    struct wire wire;
    struct spop_bytes whole = wire_bytes(&wire, golden_notify);
    guard_page_init(&guard, whole.len);
    for (size_t len = 0; len < whole.len; len++) {
        const uint8_t *place = guard_page_place(&guard, whole.ptr, len);
        struct spop_frame frame;
        struct spop_bytes prefix = {.ptr = place, .len = len};
        assert_int_equal(spop_frame_decode(prefix, 16380, &frame), SPOP_MORE);
        assert_int_equal(frame.wire_bytes, len < SPOP_PREFIX_BYTES ? 0 : whole.len);
    }
    guard_page_release(&guard);
}

static void a_frame_gets_its_length_at_the_end(void **state)
{
    (void)state;
    uint8_t buf[64];
    struct wire text;
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    size_t first = spop_frame_begin(&w, SPOP_FRAME_ACK, 0, 1);
    spop_frame_end(&w, first);
    size_t second = spop_frame_begin(&w, SPOP_FRAME_ACK, 300, 2);
    spop_write_bytes(&w, wire_bytes(&text, "020202 01\"_\""));
    spop_frame_end(&w, second);
    assert_int_equal(w.status, SPOP_OK);
    expect_bytes("two frames", written(&w),
                 "00000007 67 00000001 00 01"
                 "0000000d 67 00000001 fc03 02 020202 01\"_\"");
}

static void a_frame_without_room_leaves_nothing(void **state)
{
    (void)state;
    uint8_t buf[32];
    for (size_t cap = 1; cap < 13; cap++) {
        struct spop_writer w;
        spop_writer_init(&w, buf, cap);
        spop_write_u8(&w, 0xaa);
        size_t start_off = spop_frame_begin(&w, SPOP_FRAME_ACK, 1, 1);
        spop_write_u8(&w, 0xbb);
        spop_frame_end(&w, start_off);
        assert_int_equal(w.status, SPOP_ERR_ROOM);
        assert_int_equal(w.len, 1);
    }
}

static void end_a_frame_of_six(void *arg)
{
    size_t start_off = spop_frame_begin(arg, SPOP_FRAME_ACK, 1, 1);
    spop_frame_end(arg, start_off + 1);
}

static void end_a_frame_that_never_began(void *arg)
{
    spop_frame_end(arg, 100);
}

static void a_frame_too_short_to_send_aborts(void **state)
{
    (void)state;
    uint8_t buf[64];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    assert_true(death_by_abort(end_a_frame_of_six, &w));
    assert_true(death_by_abort(end_a_frame_that_never_began, &w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_golden_frame_decodes),
        cmocka_unit_test(each_beginning_of_a_stream_is_judged),
        cmocka_unit_test(every_proper_prefix_needs_more),
        cmocka_unit_test(a_frame_gets_its_length_at_the_end),
        cmocka_unit_test(a_frame_without_room_leaves_nothing),
        cmocka_unit_test(a_frame_too_short_to_send_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
