#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/disconnect.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

#define CODE(value) "0b\"status-code\"" value
#define MESSAGE     "07\"message\" 0806\"normal\""

static const struct decode_case {
    const char *hex;
    enum spop_status status;
    enum spop_code answer;
    uint64_t code;
} cases[] = {
    {CODE("0300") MESSAGE, SPOP_OK, SPOP_CODE_NORMAL, 0},
    {CODE("0302") MESSAGE, SPOP_OK, SPOP_CODE_TIMEOUT, 2},
    {MESSAGE CODE("0301"), SPOP_OK, SPOP_CODE_IO, 1},
    {CODE("0303"), SPOP_OK, SPOP_CODE_TOO_BIG, 3},
    {CODE("0263"), SPOP_OK, SPOP_CODE_UNKNOWN, 99},
    {CODE("0463"), SPOP_OK, SPOP_CODE_UNKNOWN, 99},
    {CODE("0563"), SPOP_OK, SPOP_CODE_UNKNOWN, 99},
    {CODE("0301") CODE("0302"), SPOP_OK, SPOP_CODE_TIMEOUT, 2},
    {CODE("0302") "01\"x\" 00", SPOP_OK, SPOP_CODE_TIMEOUT, 2},
    {CODE("030e") MESSAGE, SPOP_OK, SPOP_CODE_NORMAL, 14},
    {CODE("03f82f") MESSAGE, SPOP_OK, SPOP_CODE_NORMAL, 1000},
    {"", SPOP_ERR_FRAME, SPOP_CODE_NORMAL, 0},
    {MESSAGE, SPOP_ERR_FRAME, SPOP_CODE_NORMAL, 0},
    {CODE("0801\"2\""), SPOP_ERR_TYPE, SPOP_CODE_NORMAL, 0},
    {CODE("05fff0fefefefefefefe0e"), SPOP_ERR_TYPE, SPOP_CODE_NORMAL, 0},
    {CODE("04fff0fefefefefefefe0e"), SPOP_ERR_FRAME, SPOP_CODE_NORMAL, 0},
    {CODE("0302") "07\"message\" 0300", SPOP_ERR_TYPE, SPOP_CODE_NORMAL, 0},
    {CODE("0302") "07\"message\" 0805\"four\"", SPOP_ERR_SHORT, SPOP_CODE_NORMAL, 0},
    {CODE("0302") "00 00", SPOP_ERR_FRAME, SPOP_CODE_NORMAL, 0},
    {CODE("0302") "01\"x\" 0a", SPOP_ERR_TYPE, SPOP_CODE_NORMAL, 0},
    {"ffffffffffffffffffff7f", SPOP_ERR_VARINT, SPOP_CODE_NORMAL, 0},
};

static void payloads_are_judged_and_answered(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct decode_case *c = &cases[i];
        struct wire wire;
        struct spop_disconnect disconnect = {.code = 4242};
        struct spop_frame frame = {.type = SPOP_FRAME_HAPROXY_DISCONNECT,
                                   .flags = SPOP_FLAG_FIN,
                                   .payload = wire_bytes(&wire, c->hex)};
        enum spop_status status = spop_disconnect_decode(frame.payload, &disconnect);
        expect_equal(c->hex, status, c->status);
        assert_int_equal(disconnect.code, status == SPOP_OK ? c->code : 4242);
        expect_equal(c->hex, spop_disconnect_answer(&frame), c->answer);
    }
}

static void a_bad_header_is_answered_as_normal(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_bytes payload = wire_bytes(&wire, CODE("0302") MESSAGE);
    struct spop_frame good = {.flags = SPOP_FLAG_FIN, .payload = payload};
    struct spop_frame no_fin = {.payload = payload};
    struct spop_frame stream = {.flags = SPOP_FLAG_FIN,
                                .stream_id = 1,
                                .payload = payload};
    struct spop_frame frame = {.flags = SPOP_FLAG_FIN,
                               .frame_id = 1,
                               .payload = payload};
    assert_int_equal(spop_disconnect_answer(&good), SPOP_CODE_TIMEOUT);
    assert_int_equal(spop_disconnect_answer(&no_fin), SPOP_CODE_NORMAL);
    assert_int_equal(spop_disconnect_answer(&stream), SPOP_CODE_NORMAL);
    assert_int_equal(spop_disconnect_answer(&frame), SPOP_CODE_NORMAL);
}

static void our_disconnect_is_byte_exact(void **state)
{
    (void)state;
    uint8_t buf[128];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_disconnect_encode(&w, SPOP_FRAME_AGENT_DISCONNECT, SPOP_CODE_NORMAL);
    expect_bytes("normal", written(&w),
                 "00000025 66 00000001 00 00 " CODE("0300") MESSAGE);
    spop_writer_init(&w, buf, sizeof(buf));
    spop_disconnect_encode(&w, SPOP_FRAME_HAPROXY_DISCONNECT, SPOP_CODE_NORMAL);
    expect_bytes("HAProxy's", written(&w),
                 "00000025 02 00000001 00 00 " CODE("0300") MESSAGE);
}

static void every_code_decodes_again(void **state)
{
    (void)state;
    static const enum spop_code codes[] = {
#define X(name, value, text) name,
        SPOP_CODE_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        uint8_t buf[128];
        struct spop_writer w;
        struct spop_frame frame;
        struct spop_disconnect disconnect;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_disconnect_encode(&w, SPOP_FRAME_AGENT_DISCONNECT, codes[i]);
        assert_int_equal(spop_frame_decode(written(&w), 256, &frame), SPOP_OK);
        assert_int_equal(spop_disconnect_decode(frame.payload, &disconnect), SPOP_OK);
        assert_int_equal(disconnect.code, codes[i]);
        assert_true(disconnect.message.len > 0 && disconnect.message.len <= 255);
        assert_int_equal(spop_disconnect_answer(&frame), codes[i]);
    }
}

static void encode_a_code_of_ours(void *arg)
{
    uint8_t buf[128];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_disconnect_encode(&w, SPOP_FRAME_AGENT_DISCONNECT,
                           *(const enum spop_code *)arg);
}

static void an_unregistered_code_aborts(void **state)
{
    (void)state;
    enum spop_code code = (enum spop_code)14;
    assert_true(death_by_abort(encode_a_code_of_ours, &code));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_judged_and_answered),
        cmocka_unit_test(a_bad_header_is_answered_as_normal),
        cmocka_unit_test(our_disconnect_is_byte_exact),
        cmocka_unit_test(every_code_decodes_again),
        cmocka_unit_test(an_unregistered_code_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
