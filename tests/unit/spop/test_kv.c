#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/kv.h"

#include "tests/unit/spop/support.h"

static void pairs_follow_each_other(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_reader r;
    struct spop_kv kv;
    spop_reader_init(&r, wire_bytes(&wire, "01\"a\" 11 02\"bc\" 0803\"xyz\""));
    assert_int_equal(spop_kv_next(&r, &kv), SPOP_OK);
    expect_bytes("key", kv.key, "\"a\"");
    assert_true(kv.value.boolean);
    assert_int_equal(spop_kv_next(&r, &kv), SPOP_OK);
    expect_bytes("value", kv.value.bytes, "\"xyz\"");
    assert_int_equal(spop_kv_next(&r, &kv), SPOP_END);
    assert_int_equal(spop_kv_next(&r, &kv), SPOP_END);
}

static const struct refused_case {
    const char *hex;
    enum spop_status status;
} refused[] = {
    {"00 11", SPOP_ERR_FRAME},
    {"00", SPOP_ERR_FRAME},
    {"01\"a\"", SPOP_ERR_SHORT},
    {"05\"a\" 11", SPOP_ERR_SHORT},
    {"f0", SPOP_ERR_SHORT},
    {"ffffffffffffffffffff7f", SPOP_ERR_VARINT},
    {"01\"a\" 0a", SPOP_ERR_TYPE},
    {"01\"a\" 03 ffffffffffffffffffff7f", SPOP_ERR_VARINT},
};

static void malformed_pairs_are_refused_for_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct wire wire;
        struct spop_reader r;
        struct spop_kv kv = {.key = {.len = 99}};
        spop_reader_init(&r, wire_bytes(&wire, refused[i].hex));
        expect_equal(refused[i].hex, spop_kv_next(&r, &kv), refused[i].status);
        expect_equal(refused[i].hex, spop_kv_next(&r, &kv), refused[i].status);
        assert_int_equal(kv.key.len, 99);
        assert_int_equal(r.len, wire.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_follow_each_other),
        cmocka_unit_test(malformed_pairs_are_refused_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
