#define _POSIX_C_SOURCE 200809L /* inet_pton, to compare with */

#include <arpa/inet.h>

#include "rules/address.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

static void expect(const char *text, const char *canonical)
{
    struct rules_address address = rules_address_parse(bytes_of(text));
    uint8_t want[16];
    size_t len = strchr(canonical, ':') != NULL ? 16 : 4;

    assert_int_equal(inet_pton(len == 16 ? AF_INET6 : AF_INET, canonical, want), 1);
    assert_int_equal(address.len, len);
    assert_memory_equal(address.bytes, want, len);
}

static void test_texts(void **state)
{
    (void)state;
    expect("192.0.2.1", "192.0.2.1");
    expect("0.0.0.0", "0.0.0.0");
    expect("192.0.2.1:8080", "192.0.2.1");
    expect("2001:db8::1", "2001:db8::1");
    expect("[2001:DB8::1]", "2001:db8::1");
    expect("[2001:db8::1]:65535", "2001:db8::1");
    expect("fe80::1%eth0", "fe80::1");
    expect("[fe80::1%eth0]:80", "fe80::1");
    expect("::ffff:192.0.2.1", "192.0.2.1");
    expect("::ffff:c000:201", "192.0.2.1");
    expect("::", "::");
    expect("1::", "1::");
    expect("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8");
    expect("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0");
    expect("64:ff9b::192.0.2.1", "64:ff9b::c000:201");
}

static void test_no_addresses(void **state)
{
    static const char *const texts[] = {
        "",
        "x",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "01.2.3.4",
        "1..2.3",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3.4:123456",
        "1.2.3.4/24",
        "::1/64",
        "[1.2.3.4]",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]:",
        "[]",
        ":",
        ":::",
        "1:2",
        "1::2::3",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "12345::",
        "g::",
        "::1.2.3",
        "1:",
        ":1",
        "1.2.3.4::",
        "%eth0",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1:2:3:4:5:6::7:8",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct rules_address address = rules_address_parse(bytes_of(texts[i]));

        if (address.len != 0) {
            fail_msg("taken for an address: '%s'", texts[i]);
        }
    }
}

/** Random texts of the characters of addresses mean what inet_pton says. */
static void test_like_inet_pton(void **state)
{
    static const char alphabet[] = "0123:::..af";
    struct prng prng;
    uint64_t seed = prng_seed(7);

    (void)state;
    prng_init(&prng, seed);
    for (int i = 0; i < 2000000; i++) {
        char text[24] = "";
        uint8_t want[16];
        size_t n = prng_below(&prng, 20);
        struct rules_address address;
        bool is_v4;
        bool is_v6;

        for (size_t j = 0; j < n; j++) {
            text[j] = alphabet[prng_below(&prng, sizeof alphabet - 1)];
        }
        if (strchr(text, '.') != NULL && strchr(text, ':') != NULL
            && strchr(text, ':') > strchr(text, '.')) {
            continue; /* could be an address with a port */
        }
        address = rules_address_parse(bytes_of(text));
        is_v4 = inet_pton(AF_INET, text, want) == 1;
        is_v6 = !is_v4 && inet_pton(AF_INET6, text, want) == 1;
        if ((address.len != 0) != (is_v4 || is_v6)) {
            fail_msg("'%s' seed %llu", text, (unsigned long long)seed);
        }
        if (address.len == (is_v6 ? 16 : 4)) {
            assert_memory_equal(address.bytes, want, address.len);
        }
    }
}

static void test_bytes(void **state)
{
    static const uint8_t mapped[16] = {0, 0, 0,   0,   0,   0, 0, 0,
                                       0, 0, 255, 255, 192, 0, 2, 1};
    static const uint8_t plain[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0,
                                      0,    0, 0,   0,    0, 0, 0, 1};
    struct rules_bytes bytes = rules_address_canonical(
        (struct rules_bytes){mapped, 16});

    (void)state;
    assert_int_equal(bytes.len, 4);
    assert_memory_equal(bytes.ptr, "\xc0\x00\x02\x01", 4);
    bytes = rules_address_canonical((struct rules_bytes){plain, 16});
    assert_int_equal(bytes.len, 16);
    assert_int_equal(rules_address_group(bytes).len, 8);
    assert_int_equal(rules_address_canonical((struct rules_bytes){plain, 5}).len, 0);
    assert_int_equal(rules_address_canonical((struct rules_bytes){NULL, 0}).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_no_addresses),
        cmocka_unit_test(test_like_inet_pton),
        cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
