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
    assert_int_equal(rules_address_canonical((struct rules_bytes){plain, 5}).len, 0);
    assert_int_equal(rules_address_canonical((struct rules_bytes){NULL, 0}).len, 0);
}

static void test_groups(void **state)
{
    static const uint8_t ones[16] = {255, 255, 255, 255, 255, 255, 255, 255,
                                     255, 255, 255, 255, 255, 255, 255, 255};
    static const struct {
        size_t address_len;
        struct rules_ip_prefix prefix;
        size_t len;
        uint8_t last;
    } groups[] = {
        {4, {32, 64}, 4, 0xff}, {16, {32, 64}, 8, 0xff},  {4, {24, 1}, 3, 0xff},
        {4, {20, 1}, 3, 0xf0},  {4, {1, 1}, 1, 0x80},     {16, {1, 48}, 6, 0xff},
        {16, {1, 57}, 8, 0x80}, {16, {1, 127}, 16, 0xfe}, {16, {1, 128}, 16, 0xff},
    };

    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        uint8_t room[RULES_NETWORK_KEY_BYTES_MAX];
        struct rules_bytes group = rules_address_group(
            (struct rules_bytes){ones, groups[i].address_len}, groups[i].prefix, room);

        assert_int_equal(group.len, groups[i].len);
        assert_int_equal(group.ptr[group.len - 1], groups[i].last);
        assert_memory_equal(group.ptr, ones, group.len - 1);
    }
}

static void expect_group(const char *text, uint8_t bits, const char *want)
{
    struct rules_address address = rules_address_parse(bytes_of(text));
    uint8_t room[RULES_NETWORK_KEY_BYTES_MAX];
    uint8_t whole[16] = {0};
    uint8_t in6[16];
    struct rules_bytes group = rules_address_group(rules_address_bytes(&address),
                                                   (struct rules_ip_prefix){32, bits},
                                                   room);

    assert_int_equal(group.len, (bits + 7) / 8);
    memcpy(whole, group.ptr, group.len);
    assert_int_equal(inet_pton(AF_INET6, want, in6), 1);
    assert_memory_equal(whole, in6, sizeof whole);
}

static void test_groups_of_addresses(void **state)
{
    (void)state;
    expect_group("2001:db8:1234:5678::1.2.3.4", 56, "2001:db8:1234:5600::");
    expect_group("0123:4567:89ab:cdef::1", 56, "123:4567:89ab:cd00::");
    expect_group("0123:4567:89ab:cdef::1", 63, "123:4567:89ab:cdee::");
    expect_group("::1", 56, "::");
}

static const struct {
    const char *text;
    enum rules_network_status status;
    const char *address; /* NULL: not looked at */
    unsigned bits;
} network_texts[] = {
    {"10.0.0.0/8", RULES_NETWORK_OK, "10.0.0.0", 8},
    {"0.0.0.0/0", RULES_NETWORK_OK, "0.0.0.0", 0},
    {"192.0.2.1/32", RULES_NETWORK_OK, "192.0.2.1", 32},
    {"2001:DB8:0:0::/32", RULES_NETWORK_OK, "2001:db8::", 32},
    {"::/0", RULES_NETWORK_OK, "::", 0},
    {"::1/128", RULES_NETWORK_OK, "::1", 128},
    {"::ffff:192.0.2.0/120", RULES_NETWORK_OK, "192.0.2.0", 24},
    {"10.1.2.3/8", RULES_NETWORK_HOST_BITS, "10.0.0.0", 8},
    {"2001:db8:ffff::/33", RULES_NETWORK_HOST_BITS, "2001:db8:8000::", 33},
    {"10.0.0.0/33", RULES_NETWORK_BITS, NULL, 0},
    {"::/129", RULES_NETWORK_BITS, NULL, 0},
    {"::ffff:0.0.0.0/95", RULES_NETWORK_BITS, NULL, 0},
    {"10.0.0.0", RULES_NETWORK_NONE, NULL, 0},
    {"10.0.0.0/", RULES_NETWORK_NONE, NULL, 0},
    {"10.0.0.0/08", RULES_NETWORK_NONE, NULL, 0},
    {"10.0.0.0/8x", RULES_NETWORK_NONE, NULL, 0},
    {"10.0.0.0/256", RULES_NETWORK_NONE, NULL, 0},
    {"10.0.0/8", RULES_NETWORK_NONE, NULL, 0},
    {"/8", RULES_NETWORK_NONE, NULL, 0},
    {"", RULES_NETWORK_NONE, NULL, 0},
};

static void test_network_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof network_texts / sizeof network_texts[0]; i++) {
        struct rules_network network = {{0}, 99};
        char text[RULES_ADDRESS_PRINT_BYTES];

        assert_int_equal(rules_network_parse(bytes_of(network_texts[i].text), &network),
                         network_texts[i].status);
        if (network_texts[i].address == NULL) {
            assert_int_equal(network.bits, 99); /* untouched */
            continue;
        }
        rules_address_print(&network.address, text);
        assert_string_equal(text, network_texts[i].address);
        assert_int_equal(network.bits, network_texts[i].bits);
    }
}

static void test_network_keys(void **state)
{
    static const uint8_t ones[16] = {255, 255, 255, 255, 255, 255, 255, 255,
                                     255, 255, 255, 255, 255, 255, 255, 255};
    struct rules_bytes address = {ones, 16};
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];

    (void)state;
    for (unsigned bits = 0; bits <= 128; bits++) {
        unsigned n_ones = 0;

        assert_int_equal(rules_network_key(address, (uint8_t)bits, key), 17);
        assert_int_equal(key[0], bits);
        for (unsigned i = 0; i < 128; i++) {
            n_ones += (unsigned)key[1 + i / 8] >> (7 - i % 8) & 1U;
            assert_true(i >= bits || n_ones == i + 1);
        }
        assert_int_equal(n_ones, bits);
    }
    address.len = 4;
    assert_int_equal(rules_network_key(address, 9, key), 5);
    assert_memory_equal(key, "\x09\xff\x80\0\0", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_no_addresses),
        cmocka_unit_test(test_like_inet_pton),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_groups_of_addresses),
        cmocka_unit_test(test_network_texts),
        cmocka_unit_test(test_network_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
