/* Checks 1 to 21 of README.md: the handshake. Check 20 is in slow.c. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"

static void check_01_hello_is_answered_once(void **state)
{
    (void)state;
    peer_connect(&peers[0]);
    wire_hello(&wire);
    peer_send(&peers[0]);
    struct wire_hello_answer answer = expect_hello(&peers[0]);
    assert_int_equal(answer.size, WIRE_SIZE);
    assert_true(answer.is_pipelining);
    (void)ask(&peers[0], "k"); /* nothing between */
    expect_nothing(&peers[0]);
}

/* Without waiting for more: what one recv gives is all of it. */
static void check_02_hello_comes_in_one_piece(void **state)
{
    (void)state;
    wire_hello(&wire);
    for (int i = 0; i < 1000; i++) {
        uint8_t bytes[512];
        struct wire_hello_answer answer;
        peer_connect_tcp(&peers[0]);
        peer_send(&peers[0]);
        ssize_t n = recv(peers[0].fd, bytes, sizeof(bytes), 0);
        assert_true(n > 0);
        assert_null(wire_read_hello(bytes, (size_t)n, &answer));
        peer_reset(&peers[0]);
    }
}

/* wire_read_hello takes no other version; here it is read apart from it. */
static void check_03_version_is_2_0(void **state)
{
    (void)state;
    static const char version[] = "\x07version\x08\x03"
                                  "2.0";
    peer_connect(&peers[0]);
    wire_hello_with(&wire, "2.5", WIRE_SIZE, "");
    peer_send(&peers[0]);
    (void)expect_hello(&peers[0]);
    assert_memory_equal(peers[0].frame + WIRE_PREFIX_BYTES + WIRE_FRAME_BYTES_MIN,
                        version, sizeof(version) - 1);
}

static void expect_accepted(uint64_t size, bool is_pipelining)
{
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    struct wire_hello_answer answer = expect_hello(&peers[0]);
    assert_int_equal(answer.size, size);
    assert_int_equal(answer.is_pipelining, is_pipelining);
    assert_true(
        answer.is_fragmentation); /* offered or not: it is the receiver's to say */
    (void)ask(&peers[0], "k");
    peer_close(&peers[0]);
    wire_clear();
}

static void check_04_versions_with_a_2_are_accepted(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.0,2.0", "2.0, 1.5", " 2.0 ",
                                           "2.0,3.0", "3.0,2.0",  "2.5"};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        wire_hello_with(&wire, versions[i], WIRE_SIZE, "");
        expect_accepted(WIRE_SIZE, false);
    }
}

static void check_05_other_versions_are_refused(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.0", "3.0", "", "abc", "2.x", "20"};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        wire_hello_with(&wire, versions[i], WIRE_SIZE, "");
        expect_refused(WIRE_BAD_VERSION);
    }
}

static void check_06_each_missing_key_has_its_code(void **state)
{
    (void)state;
    wire_hello_with(&wire, NULL, WIRE_SIZE, "");
    expect_refused(WIRE_NO_VERSION);
    wire_hello_with(&wire, "2.0", 0, "");
    expect_refused(WIRE_NO_FRAME_SIZE);
    wire_hello_with(&wire, "2.0", WIRE_SIZE, NULL);
    expect_refused(WIRE_NO_CAPABILITIES);
}

static void check_07_sizes_are_agreed_downwards(void **state)
{
    (void)state;
    wire_hello_with(&wire, "2.0", 255, "");
    expect_refused(WIRE_BAD_FRAME_SIZE);
    static const uint64_t sizes[] = {256, 16380, WIRE_SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        wire_hello_with(&wire, "2.0", sizes[i], "");
        expect_accepted(sizes[i], false);
    }
    wire_hello_with(&wire, "2.0", 1073741824, "");
    expect_accepted(WIRE_SIZE_MAX, false);
}

/* A HELLO with what is put between this and wire_end instead of a size. */
static void begin_without_size(void)
{
    wire_begin(&wire, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
    wire_name(&wire, "supported-versions");
    wire_text(&wire, "2.0");
    wire_name(&wire, "capabilities");
    wire_text(&wire, "");
}

static void check_08_size_is_any_integer(void **state)
{
    (void)state;
    for (unsigned type = WIRE_INT32; type <= WIRE_UINT64; type++) {
        begin_without_size();
        wire_name(&wire, "max-frame-size");
        wire_int(&wire, (enum wire_data)type, 4096);
        wire_end(&wire);
        expect_accepted(4096, false);
    }
    begin_without_size();
    wire_name(&wire, "max-frame-size");
    wire_text(&wire, "4096");
    wire_end(&wire);
    expect_refused(WIRE_INVALID);
}

static void put_unknown_keys(void)
{
    wire_hex(&wire, "02\"u0\" 00 02\"u1\" 11 02\"u2\" 0205 02\"u3\" 03fcf006"
                    " 02\"u4\" 04fff0fefefefefefefe0e");
    wire_hex(&wire, "02\"u5\" 0500 02\"u6\" 067f000001"
                    " 02\"u7\" 0700000000000000000000000000000001"
                    " 02\"u8\" 0803\"abc\" 02\"u9\" 090200ff");
}

static void put_known_key(unsigned which)
{
    static const char *const names[] = {"supported-versions", "max-frame-size",
                                        "capabilities", "engine-id"};
    static const char *const texts[] = {"2.0", NULL, "pipelining", "e"};
    wire_name(&wire, names[which]);
    if (texts[which] == NULL) {
        wire_int(&wire, WIRE_UINT32, WIRE_SIZE);
    } else {
        wire_text(&wire, texts[which]);
    }
}

static void check_09_keys_in_any_order_among_others(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 256; order++) {
        unsigned at[] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};
        unsigned seen = 1U << at[0] | 1U << at[1] | 1U << at[2] | 1U << at[3];
        if (seen != 15) {
            continue; /* no permutation */
        }
        wire_begin(&wire, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
        for (int i = 0; i < 4; i++) {
            put_unknown_keys();
            put_known_key(at[i]);
        }
        wire_end(&wire);
        expect_accepted(WIRE_SIZE, true);
    }
}

static void check_10_last_of_equal_keys_counts(void **state)
{
    (void)state;
    begin_without_size();
    wire_name(&wire, "max-frame-size");
    wire_int(&wire, WIRE_UINT32, 255);
    wire_name(&wire, "max-frame-size");
    wire_int(&wire, WIRE_UINT32, 300);
    wire_name(&wire, "capabilities");
    wire_text(&wire, "pipelining");
    wire_end(&wire);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    struct wire_hello_answer answer = expect_hello(&peers[0]);
    assert_int_equal(answer.size, 300);
    assert_true(answer.is_pipelining);
}

static void check_11_only_offered_capabilities_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *offered;
        bool is_pipelining;
    } cases[] = {
        {"", false},
        {"async", false},
        {"pipelining,async", true},
        {" pipelining , foo ", true},
        {"PIPELINING", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        wire_hello_with(&wire, "2.0", WIRE_SIZE, cases[i].offered);
        expect_accepted(WIRE_SIZE, cases[i].is_pipelining);
    }
}

static void check_12_engine_id_is_optional_and_long(void **state)
{
    (void)state;
    static const uint8_t id[4096] = {0xff, 'x'};
    wire_hello_with(&wire, "2.0", WIRE_SIZE, "pipelining");
    expect_accepted(WIRE_SIZE, true);
    begin_without_size();
    wire_name(&wire, "max-frame-size");
    wire_int(&wire, WIRE_UINT32, WIRE_SIZE);
    wire_name(&wire, "engine-id");
    wire_data(&wire, WIRE_STRING, id, sizeof(id));
    wire_end(&wire);
    expect_accepted(WIRE_SIZE, false);
}

static void check_13_flags_of_hello(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, WIRE_ABORT, 0x80000000};
    static const uint32_t good[] = {WIRE_FIN | WIRE_ABORT, WIRE_FIN | 4, 0xffffffff};
    for (size_t i = 0; i < 3; i++) {
        wire_hello(&wire);
        wire_set_flags(&wire, bad[i]);
        expect_refused(WIRE_NO_FRAGMENTATION);
        wire_hello(&wire);
        wire_set_flags(&wire, good[i]);
        expect_accepted(WIRE_SIZE, true);
    }
}

static void check_14_ids_of_hello_are_0(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        wire_begin(&wire, WIRE_HAPROXY_HELLO, WIRE_FIN, i, 1 - i);
        for (unsigned key = 0; key < 4; key++) {
            put_known_key(key);
        }
        wire_end(&wire);
        expect_refused(WIRE_INVALID);
    }
}

static void check_15_hello_cut_anywhere_ends_in_silence(void **state)
{
    (void)state;
    wire_hello(&wire);
    for (size_t len = 0; len < wire.len; len++) {
        peer_connect(&peers[0]);
        peer_send_part(&peers[0], 0, len);
        assert_int_equal(shutdown(peers[0].fd, SHUT_WR), 0);
        expect_end(&peers[0]);
        peer_close(&peers[0]);
    }
    expect_silence();
}

static void check_16_hello_a_byte_at_a_time(void **state)
{
    (void)state;
    peer_connect(&peers[0]);
    wire_hello(&wire);
    for (size_t i = 0; i < wire.len; i++) {
        expect_nothing(&peers[0]);
        peer_send_part(&peers[0], i, i + 1);
        peer_wait_taken(&peers[0]);
    }
    (void)expect_hello(&peers[0]);
}

static void check_17_hello_and_notify_in_one_write(void **state)
{
    (void)state;
    peer_connect(&peers[0]);
    wire_hello(&wire);
    wire_notify(&wire, 1, 1, "k");
    wire_notify(&wire, 3, 1, "k");
    peer_send(&peers[0]);
    (void)expect_hello(&peers[0]);
    expect_allowed(&peers[0], 1, 1);
    expect_allowed(&peers[0], 3, 1);
}

static void check_18_golden_hellos_are_accepted(void **state)
{
    (void)state;
    wire_hello_legacy(&wire);
    assert_int_equal(wire.len, WIRE_PREFIX_BYTES + 129);
    expect_accepted(WIRE_SIZE, true);
    wire_hello(&wire);
    assert_int_equal(wire.len, WIRE_PREFIX_BYTES + 123);
    expect_accepted(WIRE_SIZE, true);
}

static void check_19_second_hello_is_refused(void **state)
{
    (void)state;
    wire_hello(&wire);
    expect_refused_later(WIRE_INVALID);
}

/* Each is what stands after a good list of keys. */
static void check_21_malformed_lists_are_refused(void **state)
{
    (void)state;
    static const char *const rests[] = {
        "00 0801\"x\"",                     /* a key without a name */
        "01\"k\" 0a",                       /* a type without a length */
        "01\"k\" 0f00",                     /* another */
        "01\"k\" 0805\"abc\"",              /* a string past the end */
        "01\"k\" 08fff0fefefefefefefe0e",   /* the same, by 2^64-1 */
        "05\"k\"",                          /* a name past the end */
        "01\"k\" 067f00",                   /* an address past the end */
        "01\"k\"",                          /* no value */
        "01\"k\" 03fff0fefefefefefefe0f",   /* ten bytes, over 64 bits */
        "01\"k\" 03fff0fefefefefefefefe0e", /* eleven bytes */
        "01\"k\" 03ffffff",                 /* unterminated */
    };
    for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
        wire_begin(&wire, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
        for (unsigned key = 0; key < 4; key++) {
            put_known_key(key);
        }
        wire_hex(&wire, rests[i]);
        wire_end(&wire);
        expect_refused(WIRE_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_01_hello_is_answered_once),
        CHECK(check_02_hello_comes_in_one_piece),
        CHECK(check_03_version_is_2_0),
        CHECK(check_04_versions_with_a_2_are_accepted),
        CHECK(check_05_other_versions_are_refused),
        CHECK(check_06_each_missing_key_has_its_code),
        CHECK(check_07_sizes_are_agreed_downwards),
        CHECK(check_08_size_is_any_integer),
        CHECK(check_09_keys_in_any_order_among_others),
        CHECK(check_10_last_of_equal_keys_counts),
        CHECK(check_11_only_offered_capabilities_are_taken),
        CHECK(check_12_engine_id_is_optional_and_long),
        CHECK(check_13_flags_of_hello),
        CHECK(check_14_ids_of_hello_are_0),
        CHECK(check_15_hello_cut_anywhere_ends_in_silence),
        CHECK(check_16_hello_a_byte_at_a_time),
        CHECK(check_17_hello_and_notify_in_one_write),
        CHECK(check_18_golden_hellos_are_accepted),
        CHECK(check_19_second_hello_is_refused),
        CHECK(check_21_malformed_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
