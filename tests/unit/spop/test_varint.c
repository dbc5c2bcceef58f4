#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/varint.h"

#include "tests/support/guard_page.h"
#include "tests/unit/spop/support.h"

static const struct golden_case {
    uint64_t value;
    const char *hex;
} golden[] = {
    {0, "00"},
    {1, "01"},
    {127, "7f"},
    {128, "80"},
    {239, "ef"},
    {240, "f0 00"},
    {241, "f1 00"},
    {255, "ff 00"},
    {256, "f0 01"},
    {1024, "f0 31"},
    {2287, "ff 7f"},
    {2288, "f0 80 00"},
    {16380, "fc f0 06"},
    {65535, "ff f0 1e"},
    {264431, "ff ff 7f"},
    {264432, "f0 80 80 00"},
    {33818863, "ff ff ff 7f"},
    {33818864, "f0 80 80 80 00"},
    {2147483647, "ff f0 fe fe 3e"},
    {2147483648, "f0 f1 fe fe 3e"},
    {4294967295, "ff f0 fe fe 7e"},
    {4294967296, "f0 f1 fe fe 7e"},
    {4328786159, "ff ff ff ff 7f"},
    {4328786160, "f0 80 80 80 80 00"},
    {554084600047, "ff ff ff ff ff 7f"},
    {554084600048, "f0 80 80 80 80 80 00"},
    {70922828777711, "ff ff ff ff ff ff 7f"},
    {70922828777712, "f0 80 80 80 80 80 80 00"},
    {9078122083518703, "ff ff ff ff ff ff ff 7f"},
    {9078122083518704, "f0 80 80 80 80 80 80 80 00"},
    {1161999626690365679, "ff ff ff ff ff ff ff ff 7f"},
    {1161999626690365680, "f0 80 80 80 80 80 80 80 80 00"},
    {(uint64_t)1 << 53, "f0 f1 fe fe fe fe fe 7e"},
    {INT64_MAX, "ff f0 fe fe fe fe fe fe fe 06"},
    {(uint64_t)1 << 63, "f0 f1 fe fe fe fe fe fe fe 06"},
    {UINT64_MAX, "ff f0 fe fe fe fe fe fe fe 0e"},
    {UINT64_MAX - 4, "fb f0 fe fe fe fe fe fe fe 0e"},
};

static const size_t n_golden = sizeof(golden) / sizeof(golden[0]);

static void golden_values_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_golden; i++) {
        struct wire wire;
        struct spop_bytes in = wire_bytes(&wire, golden[i].hex);
        uint64_t value = 0;
        size_t n_bytes = 0;
        assert_int_equal(spop_varint_decode(in, &value, &n_bytes), SPOP_OK);
        assert_int_equal(value, golden[i].value);
        assert_int_equal(n_bytes, in.len);
    }
}

static void golden_values_encode(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_golden; i++) {
        uint8_t buf[SPOP_VARINT_BYTES_MAX];
        size_t len = spop_varint_encode(golden[i].value, buf);
        expect_bytes(golden[i].hex, (struct spop_bytes){buf, len}, golden[i].hex);
    }
}

static const struct refused_case {
    const char *hex;
    enum spop_status status;
} refused[] = {
    {"", SPOP_ERR_SHORT},
    {"f0", SPOP_ERR_SHORT},
    {"ff ff ff", SPOP_ERR_SHORT},
    {"f0 80 80 80 80 80 80 80 80", SPOP_ERR_SHORT},
    /* One more than 2^64-1, by the last byte and by a carry. */
    {"ff f0 fe fe fe fe fe fe fe 0f", SPOP_ERR_VARINT},
    {"f0 f1 fe fe fe fe fe fe fe 0e", SPOP_ERR_VARINT},
    {"f0 80 80 80 80 80 80 80 80 10", SPOP_ERR_VARINT},
    {"f0 80 80 80 80 80 80 80 80 80 00", SPOP_ERR_VARINT},
    {"ff ff ff ff ff ff ff ff ff ff 7f", SPOP_ERR_VARINT},
    {"ff ff ff ff ff ff ff ff ff ff ff ff ff ff", SPOP_ERR_VARINT},
};

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct wire wire;
        struct spop_bytes in = wire_bytes(&wire, refused[i].hex);
        uint64_t value = 77;
        size_t n_bytes = 78;
        enum spop_status status = spop_varint_decode(in, &value, &n_bytes);
        expect_equal(refused[i].hex, status, refused[i].status);
        assert_int_equal(value, 77);
        assert_int_equal(n_bytes, 78);
    }
}

static void every_proper_prefix_is_short(void **state)
{
    (void)state;
    struct guard_page guard;
    guard_page_init(&guard, SPOP_VARINT_BYTES_MAX);
    for (size_t i = 0; i < n_golden; i++) {
        struct wire wire;
        struct spop_bytes whole = wire_bytes(&wire, golden[i].hex);
        for (size_t len = 0; len < whole.len; len++) {
            uint64_t value = 0;
            size_t n_bytes = 0;
            const uint8_t *place = guard_page_place(&guard, whole.ptr, len);
            struct spop_bytes prefix = {.ptr = place, .len = len};
            assert_int_equal(spop_varint_decode(prefix, &value, &n_bytes),
                             SPOP_ERR_SHORT);
        }
    }
    guard_page_release(&guard);
}

static void what_follows_is_left_alone(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xf0, 0x01, 0xff};
    uint64_t value = 0;
    size_t n_bytes = 0;
    struct spop_bytes in = {.ptr = bytes, .len = sizeof(bytes)};
    assert_int_equal(spop_varint_decode(in, &value, &n_bytes), SPOP_OK);
    assert_int_equal(value, 256);
    assert_int_equal(n_bytes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values_decode),
        cmocka_unit_test(golden_values_encode),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(every_proper_prefix_is_short),
        cmocka_unit_test(what_follows_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
