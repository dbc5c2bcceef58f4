/* Where servers are: what is read, what is refused, what lies in a network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/endpoint.h"

#include "tests/support/localhost.h"

static void test_texts_that_are_read(void **state)
{
    static const struct {
        const char *text;
        const char *host;
        unsigned port;
        bool is_numeric;
    } rows[] = {
        {"127.0.0.1:6379", "127.0.0.1", 6379, true},
        {"[::1]:1", "::1", 1, true},
        {"[fe80::1:2]:65535", "fe80::1:2", 65535, true},
        {"redis.example:6379", "redis.example", 6379, false},
        {"unix@/run/redis/redis.sock", "/run/redis/redis.sock", 0, true},
    };
    char text[ENDPOINT_TEXT_BYTES_MAX];
    struct endpoint_address address;
    struct endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(endpoint_parse(&endpoint, rows[i].text));
        assert_string_equal(endpoint.host, rows[i].host);
        assert_int_equal(endpoint.port, rows[i].port);
        assert_int_equal(endpoint_numeric(&endpoint, &address), rows[i].is_numeric);
        endpoint_print(&endpoint, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void test_texts_that_are_none(void **state)
{
    static const char *const texts[] = {"",
                                        "redis",
                                        ":6379",
                                        "redis:",
                                        "redis:0",
                                        "redis:1x",
                                        "redis:65536",
                                        "redis:-1",
                                        "::1:6379",
                                        "[::1]",
                                        "[]:1",
                                        "[redis]:1",
                                        "[127.0.0.1]:",
                                        "unix@",
                                        "unix@redis.sock",
                                        "/run/r:1",
                                        "redis:99999999999999999999"};
    char long_text[400];
    struct endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (endpoint_parse(&endpoint, texts[i])) {
            fail_msg("taken: %s", texts[i]);
        }
    }
    memset(long_text, 'a', sizeof(long_text));
    memcpy(long_text + 300, ":1", sizeof(":1"));
    assert_false(endpoint_parse(&endpoint, long_text));
    memcpy(long_text, "unix@/", 6);
    memcpy(long_text + 120, "", 1); /* longer than a socket's path can be */
    assert_false(endpoint_parse(&endpoint, long_text));
}

static void test_hosts_of_bytes(void **state)
{
    struct endpoint a;
    struct endpoint b;
    (void)state;
    assert_false(endpoint_make(&a, "", 0, 1));
    assert_false(endpoint_make(&a, "a\0b", 3, 1));
    assert_false(endpoint_make(&a, "a", 1, 65536));
    assert_true(endpoint_make(&a, "abc", 2, 1));
    assert_true(endpoint_make(&b, "ab", 2, 1));
    assert_true(endpoint_equals(&a, &b));
    b.port = 2;
    assert_false(endpoint_equals(&a, &b));
}

static void test_networks(void **state)
{
    static const struct {
        const char *address;
        struct endpoint_network network;
        bool is_in;
    } rows[] = {
        {"10.1.2.3:1", {4, 8, {10}}, true},
        {"11.1.2.3:1", {4, 8, {10}}, false},
        {"10.1.2.3:1", {4, 0, {0}}, true},
        {"10.1.2.3:1", {4, 32, {10, 1, 2, 3}}, true},
        {"10.1.2.4:1", {4, 32, {10, 1, 2, 3}}, false},
        {"10.127.0.0:1", {4, 9, {10}}, true},
        {"10.128.0.0:1", {4, 9, {10}}, false},
        {"[fd00::1]:1", {16, 8, {0xfd}}, true},
        {"[fd00::1]:1", {16, 0, {0}}, true},
        {"[fe00::1]:1", {16, 8, {0xfd}}, false},
        {"[::ffff:10.1.2.3]:1", {4, 8, {10}}, true},
        {"[::1]:1", {4, 0, {0}}, false},
        {"10.1.2.3:1", {16, 0, {0}}, false},
        {"unix@/run/redis.sock", {4, 0, {0}}, false},
        {"unix@/run/redis.sock", {0, 0, {0}}, false},
    };
    struct endpoint_address address;
    struct endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(endpoint_parse(&endpoint, rows[i].address));
        assert_true(endpoint_numeric(&endpoint, &address));
        if (endpoint_is_in(&address, &rows[i].network) != rows[i].is_in) {
            fail_msg("row %zu: %s", i, rows[i].address);
        }
    }
}

static void test_hosts_are_compared_without_ports(void **state)
{
    static const char *const texts[] = {"10.0.0.1:1", "10.0.0.1:2",
                                        "[::ffff:10.0.0.1]:3", "10.0.0.2:1", "[::1]:1"};
    struct endpoint_address addresses[ARRAY_LEN(texts)];
    struct endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_true(endpoint_parse(&endpoint, texts[i]));
        assert_true(endpoint_numeric(&endpoint, &addresses[i]));
        assert_int_equal(endpoint_is_same_host(&addresses[0], &addresses[i]), i < 3);
    }
}

static void test_names_are_resolved(void **state)
{
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX];
    struct endpoint endpoint;
    const char *error = NULL;
    (void)state;
    if (!localhost_is_known()) {
        skip();
    }
    assert_true(endpoint_parse(&endpoint, "localhost:6379"));
    assert_in_range(endpoint_resolve(&endpoint, addresses, &error), 1,
                    ENDPOINT_ADDRESSES_MAX);
    assert_true(endpoint_parse(&endpoint, "127.0.0.1:6379"));
    assert_int_equal(endpoint_resolve(&endpoint, addresses, &error), 1);
    assert_true(endpoint_parse(&endpoint, "no..name:6379"));
    assert_int_equal(endpoint_resolve(&endpoint, addresses, &error), 0);
    assert_non_null(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_that_are_read),
        cmocka_unit_test(test_texts_that_are_none),
        cmocka_unit_test(test_hosts_of_bytes),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_hosts_are_compared_without_ports),
        cmocka_unit_test(test_names_are_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
