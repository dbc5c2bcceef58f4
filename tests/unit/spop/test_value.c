#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/value.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

static const struct kind_case {
    const char *hex;
    enum spop_value_type type;
    uint64_t integer;  /* or the boolean */
    const char *bytes; /* hex, NULL where the kind has none */
} kinds[] = {
    {"00", SPOP_VALUE_NULL, 0, NULL},
    {"01", SPOP_VALUE_BOOL, 0, NULL},
    {"11", SPOP_VALUE_BOOL, 1, NULL},
    {"02 05", SPOP_VALUE_INT32, 5, NULL},
    {"02 fbf0fefefefefefefe0e", SPOP_VALUE_INT32, (uint64_t)-5, NULL},
    {"03 fcf006", SPOP_VALUE_UINT32, 16380, NULL},
    {"04 00", SPOP_VALUE_INT64, 0, NULL},
    {"04 f0f1fefefefefefefe06", SPOP_VALUE_INT64, (uint64_t)1 << 63, NULL},
    {"05 fff0fefefefefefefe0e", SPOP_VALUE_UINT64, UINT64_MAX, NULL},
    {"06 7f000001", SPOP_VALUE_IPV4, 0, "7f000001"},
    {"07 00000000000000000000ffff0a000001", SPOP_VALUE_IPV6, 0,
     "00000000000000000000ffff0a000001"},
    {"08 00", SPOP_VALUE_STRING, 0, ""},
    {"08 03\"GET\"", SPOP_VALUE_STRING, 0, "\"GET\""},
    {"09 03 00ff0a", SPOP_VALUE_BINARY, 0, "00ff0a"},
};

static void kind_expect(const struct kind_case *c, const struct spop_value *value)
{
    expect_equal(c->hex, value->type, c->type);
    if (c->bytes) {
        expect_bytes(c->hex, value->bytes, c->bytes);
    } else if (c->type == SPOP_VALUE_BOOL) {
        expect_equal(c->hex, value->boolean, c->integer == 1);
    } else if (c->type != SPOP_VALUE_NULL) {
        assert_int_equal(value->integer, c->integer);
    }
}

static void every_kind_decodes_and_encodes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind_case *c = &kinds[i];
        struct wire wire;
        struct spop_reader r;
        struct spop_value value;
        spop_reader_init(&r, wire_bytes(&wire, c->hex));
        spop_value_decode(&r, &value);
        expect_equal(c->hex, r.status, SPOP_OK);
        expect_equal(c->hex, (long long)r.len, 0);
        kind_expect(c, &value);

        uint8_t buf[64];
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_value_encode(&w, &value);
        expect_bytes(c->hex, written(&w), c->hex);
    }
}

static void only_the_flag_one_is_true(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 16; flags++) {
        uint8_t byte = (uint8_t)(flags << 4 | SPOP_VALUE_BOOL);
        struct spop_reader r;
        struct spop_value value;
        spop_reader_init(&r, (struct spop_bytes){.ptr = &byte, .len = 1});
        spop_value_decode(&r, &value);
        assert_int_equal(r.status, SPOP_OK);
        assert_int_equal(value.boolean, flags == 1);
    }
}

static void flags_of_other_kinds_are_ignored(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_reader r;
    struct spop_value value;
    spop_reader_init(&r, wire_bytes(&wire, "f8 01\"a\""));
    spop_value_decode(&r, &value);
    assert_int_equal(r.status, SPOP_OK);
    assert_int_equal(value.type, SPOP_VALUE_STRING);
}

static const struct refused_case {
    const char *hex;
    enum spop_status status;
} refused[] = {
    {"", SPOP_ERR_SHORT},
    {"02", SPOP_ERR_SHORT},
    {"04 f0", SPOP_ERR_SHORT},
    {"05 ffffffffffffffffffff7f", SPOP_ERR_VARINT},
    {"06 7f0000", SPOP_ERR_SHORT},
    {"07 000000000000000000000000000000", SPOP_ERR_SHORT},
    {"08", SPOP_ERR_SHORT},
    {"08 05\"four\"", SPOP_ERR_SHORT},
    {"09 ffffffffffffffffffff7f", SPOP_ERR_VARINT},
    {"09 fff0fefefefefefefe0e", SPOP_ERR_SHORT},
    {"0a", SPOP_ERR_TYPE},
    {"0b 00", SPOP_ERR_TYPE},
    {"0c 00", SPOP_ERR_TYPE},
    {"0d 00", SPOP_ERR_TYPE},
    {"0e 00", SPOP_ERR_TYPE},
    {"1f 00", SPOP_ERR_TYPE},
};

static void malformed_values_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct wire wire;
        struct spop_reader r;
        struct spop_value value = {.type = SPOP_VALUE_BINARY};
        spop_reader_init(&r, wire_bytes(&wire, refused[i].hex));
        spop_value_decode(&r, &value);
        expect_equal(refused[i].hex, r.status, refused[i].status);
        expect_equal(refused[i].hex, (long long)r.len, (long long)wire.len);
        assert_int_equal(value.type, SPOP_VALUE_NULL);
    }
}

static void a_value_without_room_leaves_nothing(void **state)
{
    (void)state;
    uint8_t buf[4];
    struct wire text;
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = wire_bytes(&text, "\"abc\"")};
    for (size_t cap = 0; cap <= sizeof(buf); cap++) {
        struct spop_writer w;
        spop_writer_init(&w, buf, cap);
        spop_value_encode(&w, &value);
        assert_int_equal(w.status, SPOP_ERR_ROOM);
        assert_int_equal(w.len, 0);
    }
}

static const struct int64_case {
    enum spop_value_type type;
    bool is_int64;
    uint64_t integer;
    int64_t want;
} int64_cases[] = {
    {SPOP_VALUE_INT32, true, 7, 7},
    {SPOP_VALUE_INT32, true, UINT64_MAX, -1},
    {SPOP_VALUE_UINT32, true, 4294967295, 4294967295},
    {SPOP_VALUE_INT64, true, (uint64_t)1 << 63, INT64_MIN},
    {SPOP_VALUE_INT64, true, INT64_MAX, INT64_MAX},
    {SPOP_VALUE_UINT64, true, INT64_MAX, INT64_MAX},
    {SPOP_VALUE_UINT64, false, (uint64_t)1 << 63, 0},
    {SPOP_VALUE_UINT32, false, UINT64_MAX, 0},
    {SPOP_VALUE_NULL, false, 0, 0},
    {SPOP_VALUE_BOOL, false, 0, 0},
    {SPOP_VALUE_STRING, false, 0, 0},
};

static void integers_of_every_kind_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(int64_cases) / sizeof(int64_cases[0]); i++) {
        const struct int64_case *c = &int64_cases[i];
        struct spop_value value = {.type = c->type};
        if (c->is_int64 || c->integer != 0) {
            value.integer = c->integer;
        }
        int64_t got = 12345;
        assert_int_equal(spop_value_int64(&value, &got), c->is_int64);
        assert_true(got == (c->is_int64 ? c->want : 12345));
    }
}

static void value_encode(void *arg)
{
    uint8_t buf[64];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_value_encode(&w, arg);
}

static void our_own_mistakes_abort(void **state)
{
    (void)state;
    static const uint8_t bytes[5] = {0};
    struct spop_value ipv4 = {.type = SPOP_VALUE_IPV4, .bytes = {bytes, 5}};
    struct spop_value ipv6 = {.type = SPOP_VALUE_IPV6, .bytes = {bytes, 5}};
    struct spop_value reserved = {.type = (enum spop_value_type)10};
    assert_true(death_by_abort(value_encode, &ipv4));
    assert_true(death_by_abort(value_encode, &ipv6));
    assert_true(death_by_abort(value_encode, &reserved));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_decodes_and_encodes_back),
        cmocka_unit_test(only_the_flag_one_is_true),
        cmocka_unit_test(flags_of_other_kinds_are_ignored),
        cmocka_unit_test(malformed_values_are_refused),
        cmocka_unit_test(a_value_without_room_leaves_nothing),
        cmocka_unit_test(integers_of_every_kind_are_read),
        cmocka_unit_test(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
