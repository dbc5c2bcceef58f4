#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/ack.h"
#include "spop/bytes.h"
#include "spop/frame.h"

#include "tests/support/death.h"
#include "tests/support/variable.h"
#include "tests/unit/spop/support.h"

enum {
    FRAME_SIZE = 16380
};

static void acks_are_byte_exact(void **state)
{
    (void)state;
    uint8_t buf[512];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));

    spop_ack_begin(&ack, &w, 0, 1, FRAME_SIZE);
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "allow"), true);
    spop_ack_end(&ack);
    assert_int_equal(ack.n_actions, 1);

    spop_ack_begin(&ack, &w, 300, 2, FRAME_SIZE);
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "allow"), false);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_TXN, "retry_after"), 30);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_TXN, "remaining"), 0);
    spop_ack_end(&ack);

    spop_ack_begin(&ack, &w, 1, 1, FRAME_SIZE);
    spop_ack_end(&ack);
    assert_int_equal(ack.n_left_out, 0);

    expect_bytes("three acks", written(&w),
                 "00000011 67 00000001 00 01  010302 05\"allow\" 11"
                 "00000032 67 00000001 fc03 02 010302 05\"allow\" 01"
                 " 010302 0b\"retry_after\" 041e 010302 09\"remaining\" 0400"
                 "0000000c 67 00000001 01 01  020202 01\"_\"");
}

static void every_kind_of_action_is_byte_exact(void **state)
{
    (void)state;
    uint8_t buf[512];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_begin(&ack, &w, UINT64_MAX, (uint64_t)1 << 63, FRAME_SIZE);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_PROC, "a.b"), -5);
    spop_ack_set_string(&ack, variable(SPOP_SCOPE_SESS, "S"), spop_bytes_view("text"));
    spop_ack_set_string(&ack, variable(SPOP_SCOPE_REQ, "e"), (struct spop_bytes){0});
    spop_ack_unset(&ack, variable(SPOP_SCOPE_RES, "u_9"));
    spop_ack_end(&ack);
    assert_int_equal(ack.n_actions, 4);
    expect_bytes("ack", written(&w),
                 "00000044 67 00000001 fff0fefefefefefefe0e f0f1fefefefefefefe06"
                 " 010300 03\"a.b\" 04fbf0fefefefefefefe0e"
                 " 010301 01\"S\" 0804\"text\""
                 " 010303 01\"e\" 0800"
                 " 020204 03\"u_9\"");
}

/* What is encoded beforehand reads as if it were set, and is left out like it. */
static void constants_are_what_they_stand_for(void **state)
{
    (void)state;
    static const struct spop_value values[] = {
        {.type = SPOP_VALUE_BOOL, .boolean = true},
        {.type = SPOP_VALUE_INT64, .integer = 429},
        {.type = SPOP_VALUE_STRING, .bytes = {(const uint8_t *)"reject", 6}},
    };
    const struct spop_variable *name = variable(SPOP_SCOPE_TXN, "a");
    uint8_t buf[2][512];
    struct spop_writer w[2];
    struct spop_ack ack[2];
    for (int i = 0; i < 2; i++) {
        spop_writer_init(&w[i], buf[i], sizeof(buf[i]));
        spop_ack_begin(&ack[i], &w[i], 1, 1, SPOP_FRAME_SIZE_MIN);
    }
    spop_ack_set_bool(&ack[0], name, values[0].boolean);
    spop_ack_set_int64(&ack[0], name, (int64_t)values[1].integer);
    spop_ack_set_string(&ack[0], name, values[2].bytes);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct spop_constant constant;
        spop_constant_init(&constant, name, &values[i]);
        spop_ack_set_constant(&ack[1], &constant);
    }
    assert_int_equal(w[0].len, w[1].len);
    assert_memory_equal(buf[0], buf[1], w[0].len);
    assert_int_equal(ack[1].n_actions, 3);
    struct spop_constant big;
    struct spop_value text = {.type = SPOP_VALUE_STRING, .bytes = {buf[0], 230}};
    spop_constant_init(&big, name, &text);
    spop_ack_set_constant(&ack[1], &big);
    assert_int_equal(ack[1].n_left_out, 1);
    assert_int_equal(w[0].len, w[1].len);
}

static void an_action_without_room_is_left_out(void **state)
{
    (void)state;
    static const uint8_t text[300] = {'x'};
    uint8_t buf[1024];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_write_u8(&w, 0xaa);
    spop_ack_begin(&ack, &w, 1, 1, SPOP_FRAME_SIZE_MIN);
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "deny"), false);
    spop_ack_set_string(&ack, variable(SPOP_SCOPE_TXN, "big"),
                        (struct spop_bytes){text, sizeof(text)});
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "late"), true);
    spop_ack_end(&ack);
    assert_int_equal(ack.n_actions, 2);
    assert_int_equal(ack.n_left_out, 1);
    assert_int_equal(w.status, SPOP_OK);
    expect_bytes("ack", written(&w),
                 "aa 00000019 67 00000001 01 01"
                 " 010302 04\"deny\" 01 010302 04\"late\" 11");
}

/* A long text takes 8 bytes besides its own, a header with two short ids 7. */
static void a_frame_is_filled_to_its_last_byte(void **state)
{
    (void)state;
    static const uint8_t text[300] = {'x'};
    const size_t fits = SPOP_FRAME_SIZE_MIN - 7 - 8;
    for (size_t over = 0; over <= 1; over++) {
        uint8_t buf[1024];
        struct spop_writer w;
        struct spop_ack ack;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_ack_begin(&ack, &w, 1, 1, SPOP_FRAME_SIZE_MIN);
        spop_ack_set_string(&ack, variable(SPOP_SCOPE_TXN, "a"),
                            (struct spop_bytes){text, fits + over});
        spop_ack_end(&ack);
        assert_int_equal(ack.n_left_out, over);
        assert_int_equal(w.len, over ? 16 : SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MIN);
    }
}

static void an_action_is_left_out_when_the_output_is_full(void **state)
{
    (void)state;
    uint8_t buf[SPOP_ACK_ROOM_MIN];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_begin(&ack, &w, UINT64_MAX, UINT64_MAX, FRAME_SIZE);
    spop_ack_set_string(&ack, variable(SPOP_SCOPE_TXN, "a"),
                        spop_bytes_view("thirty characters and some more"));
    assert_int_equal(ack.n_left_out, 1);
    spop_ack_end(&ack);
    assert_int_equal(w.status, SPOP_OK);
    struct spop_frame frame;
    assert_int_equal(spop_frame_decode(written(&w), FRAME_SIZE, &frame), SPOP_OK);
    expect_bytes("neutral", frame.payload, "020202 01\"_\"");
}

static void set_a_name(void *arg)
{
    uint8_t buf[512];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_begin(&ack, &w, 1, 1, FRAME_SIZE);
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, arg), true);
}

static void begin_with_a_size(void *arg)
{
    uint8_t buf[512];
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_begin(&ack, &w, 1, 1, *(const size_t *)arg);
}

static void an_abort_is_byte_exact(void **state)
{
    (void)state;
    uint8_t buf[SPOP_ACK_ROOM_MIN];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_abort(&w, 7, 1);
    expect_bytes("abort", written(&w), "00000007 67 00000003 07 01");
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_abort(&w, UINT64_MAX, UINT64_MAX);
    expect_bytes("longest ids", written(&w),
                 "00000019 67 00000003 fff0fefefefefefefe0e fff0fefefefefefefe0e");
}

static void abort_without_room(void *arg)
{
    struct spop_writer w;
    spop_writer_init(&w, arg, SPOP_ACK_ROOM_MIN - 1);
    spop_ack_abort(&w, 1, 1);
}

static void begin_without_room(void *arg)
{
    struct spop_writer w;
    struct spop_ack ack;
    spop_writer_init(&w, arg, SPOP_ACK_ROOM_MIN - 1);
    spop_ack_begin(&ack, &w, 1, 1, FRAME_SIZE);
}

static void our_own_mistakes_abort(void **state)
{
    (void)state;
    char long_name[SPOP_VARIABLE_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    char with_dash[] = "retry-after";
    char with_blank[] = "a b";
    char with_high[] = "caf\xc3\xa9";
    char empty[] = "";
    char good[] = "a";
    assert_true(death_by_abort(set_a_name, long_name));
    assert_true(death_by_abort(set_a_name, with_dash));
    assert_true(death_by_abort(set_a_name, with_blank));
    assert_true(death_by_abort(set_a_name, with_high));
    assert_true(death_by_abort(set_a_name, empty));
    assert_false(death_by_abort(set_a_name, good));
    size_t small = SPOP_FRAME_SIZE_MIN - 1;
    size_t big = SPOP_FRAME_SIZE_MAX + 1;
    assert_true(death_by_abort(begin_with_a_size, &small));
    assert_true(death_by_abort(begin_with_a_size, &big));
    uint8_t buf[SPOP_ACK_ROOM_MIN];
    assert_true(death_by_abort(begin_without_room, buf));
    assert_true(death_by_abort(abort_without_room, buf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acks_are_byte_exact),
        cmocka_unit_test(every_kind_of_action_is_byte_exact),
        cmocka_unit_test(constants_are_what_they_stand_for),
        cmocka_unit_test(an_action_without_room_is_left_out),
        cmocka_unit_test(a_frame_is_filled_to_its_last_byte),
        cmocka_unit_test(an_action_is_left_out_when_the_output_is_full),
        cmocka_unit_test(an_abort_is_byte_exact),
        cmocka_unit_test(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
