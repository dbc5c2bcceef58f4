#include <sodium.h>

#include "rules/key.h"

#include "tests/unit/rules/support.h"

static void expect(const uint8_t *key, size_t len, const char *want, size_t want_len)
{
    assert_int_equal(len, want_len);
    assert_memory_equal(key, want, len);
}

#define EXPECT(key, len, want) expect(key, len, want, sizeof(want) - 1)

/** These bytes name counters: they never change. */
static void test_bytes(void **state)
{
    static const uint8_t v6[] = {0x20, 1, 0xd, 0xb8, 0, 1, 0, 2,
                                 9,    9, 9,   9,    9, 9, 9, 9};
    struct rules_bytes v4 = {(const uint8_t *)"\xc0\x00\x02\x01", 4};
    uint8_t key[RULES_KEY_PART_BYTES_MAX];
    size_t n;

    (void)state;
    n = rules_key_put_text(key, bytes_of("user"), bytes_of("jo"));
    EXPECT(key, n, "\x04user\x01\x02jo");
    n = rules_key_put_address(key, bytes_of("ip"), v4, RULES_IP_PREFIX_DEFAULT);
    EXPECT(key, n, "\x02ip\x03\x04\xc0\x00\x02\x01");
    n = rules_key_put_address(key, bytes_of("ip"), (struct rules_bytes){v6, 16},
                              RULES_IP_PREFIX_DEFAULT);
    EXPECT(key, n, "\x02ip\x04\x08\x20\x01\x0d\xb8\x00\x01\x00\x02");
    n = rules_key_put_instead(key, bytes_of("user"), v4, RULES_IP_PREFIX_DEFAULT);
    EXPECT(key, n, "\x04user\x05\x04\xc0\x00\x02\x01");
    n = rules_key_put_instead(key, bytes_of("u"), (struct rules_bytes){v6, 16},
                              RULES_IP_PREFIX_DEFAULT);
    EXPECT(key, n, "\x01u\x06\x08\x20\x01\x0d\xb8\x00\x01\x00\x02");
}

static void test_long_values(void **state)
{
    static uint8_t value[70000];
    uint8_t key[RULES_KEY_PART_BYTES_MAX];
    uint8_t digest[32];
    char name[RULES_NAME_BYTES_MAX + 1] = "";
    size_t n;

    (void)state;
    memset(name, 'n', RULES_NAME_BYTES_MAX);
    memset(value, 'x', sizeof value);
    n = rules_key_put_text(key, bytes_of(name), (struct rules_bytes){value, 96});
    assert_int_equal(n, RULES_KEY_PART_BYTES_MAX);
    assert_int_equal(key[65], RULES_KEY_TEXT);
    n = rules_key_put_text(key, bytes_of(name),
                           (struct rules_bytes){value, sizeof value});
    assert_int_equal(n, RULES_KEY_PART_BYTES_MAX);
    assert_int_equal(key[65], RULES_KEY_LONG);
    assert_int_equal(key[66], 96);
    assert_memory_equal(key + 67, value, 64);
    assert_int_equal(crypto_generichash(digest, 32, value, sizeof value, NULL, 0), 0);
    assert_memory_equal(key + 67 + 64, digest, 32);
}

struct key {
    size_t len;
    uint8_t bytes[2 * RULES_KEY_PART_BYTES_MAX];
};

/** A key of one part, or of two where `second` is there. */
static struct key key_of(struct rules_bytes first, const char *second)
{
    struct key key = {.len = 0};

    key.len += rules_key_put_text(key.bytes, bytes_of("a"), first);
    if (second != NULL) {
        key.len += rules_key_put_text(key.bytes + key.len, bytes_of("b"),
                                      bytes_of(second));
    }
    return key;
}

static void expect_all_different(const struct key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_false(keys[i].len == keys[j].len
                         && memcmp(keys[i].bytes, keys[j].bytes, keys[i].len) == 0);
        }
    }
}

static void test_values_that_run_together(void **state)
{
    const struct key keys[] = {
        key_of(bytes_of("a_b"), "c"),    key_of(bytes_of("a"), "b_c"),
        key_of(bytes_of("a_b"), NULL),   key_of(bytes_of("a"), "b"),
        key_of(bytes_of("a_b_c"), NULL), key_of(bytes_of("a_bc"), NULL),
    };

    (void)state;
    expect_all_different(keys, sizeof keys / sizeof keys[0]);
}

/** Whatever stands in them; the longest differ in their last byte only. */
static void test_values_of_any_bytes(void **state)
{
    static uint8_t longest[2][1 << 20];
    struct rules_bytes values[] = {
        {(const uint8_t *)"a", 1},
        {(const uint8_t *)"a\0", 2},
        {(const uint8_t *)"a\0b", 3},
        bytes_of(" a"),
        bytes_of("{a}"),
        bytes_of("a:"),
        bytes_of("a|b"),
        bytes_of("a.b"),
        bytes_of("a\r\n"),
        bytes_of("\xc3\xa9"), /* one letter, in two normal forms */
        bytes_of("e\xcc\x81"),
        bytes_of("0123456789012345678901234567890123x"),
        bytes_of("0123456789012345678901234567890123y"),
        {longest[0], sizeof longest[0]},
        {longest[1], sizeof longest[1]},
    };
    struct key keys[sizeof values / sizeof values[0]];

    (void)state;
    longest[1][sizeof longest[1] - 1] = 1;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        keys[i] = key_of(values[i], NULL);
        assert_in_range(keys[i].len, 1, RULES_KEY_PART_BYTES_MAX);
    }
    expect_all_different(keys, sizeof values / sizeof values[0]);
}

/** Which keys are in a share never changes, and a share lies inside a larger one. */
static void test_shares(void **state)
{
    static const struct {
        const char *rule;
        const char *key;
        int32_t in_from; /* the smallest share that holds it */
    } drawn[] = {
        {"a", "", 8587},
        {"holds", "\x04user\x01\x02jo", 5361},
        {"holds", "\x04user\x01\x02ja", 8403},
        {"login", "\x04user\x01\x02jo", 4705},
    };

    (void)state;
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++) {
        int32_t least = 0;

        while (!rules_key_is_in_share(drawn[i].rule, bytes_of(drawn[i].key), least)) {
            least++;
        }
        assert_int_equal(least, drawn[i].in_from);
        for (int32_t share = least; share <= 10000; share++) {
            assert_true(
                rules_key_is_in_share(drawn[i].rule, bytes_of(drawn[i].key), share));
        }
    }
}

static void test_share_sizes(void **state)
{
    uint8_t bytes[RULES_KEY_BYTES_MAX] = {0};
    struct rules_bytes key = {bytes, sizeof bytes};
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        memcpy(bytes, &i, sizeof i);
        assert_false(rules_key_is_in_share("r", key, 0));
        assert_true(rules_key_is_in_share("r", key, 10000));
        n += rules_key_is_in_share("r", key, 500);
    }
    assert_true(n > 850 && n < 1150); /* 1000: five standard deviations are 154 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_values_that_run_together),
        cmocka_unit_test(test_values_of_any_bytes),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_share_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
