/* Checks 28 to 38 of README.md: where frames begin and end. */
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"

static void check_28_split_at_every_byte(void **state)
{
    (void)state;
    wire_hello(&wire);
    wire_notify(&wire, 5, 2, "k");
    wire_disconnect(&wire, WIRE_TIMEOUT);
    for (size_t split = 1; split < wire.len; split++) {
        peer_connect(&peers[0]);
        peer_send_part(&peers[0], 0, split);
        peer_wait_taken(&peers[0]);
        peer_send_part(&peers[0], split, wire.len);
        (void)expect_hello(&peers[0]);
        expect_allowed(&peers[0], 5, 2);
        expect_disconnect(&peers[0], WIRE_TIMEOUT);
        peer_close(&peers[0]);
    }
}

static void check_29_thousand_in_one_write(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    for (uint64_t i = 0; i < 1000; i++) {
        wire_notify(&wire, i, 1, "k");
    }
    peer_send(&peers[0]);
    for (uint64_t i = 0; i < 1000; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    (void)ask(&peers[0], "k");
}

static void check_30_short_lengths_are_refused(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0, 1, 6};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        wire_be32(&wire, lengths[i]);
        expect_refused(WIRE_INVALID);
        wire_be32(&wire, lengths[i]);
        expect_refused_later(WIRE_INVALID);
    }
}

/* Only the prefix is sent: the answer does not wait for the body. */
static void check_31_long_lengths_are_refused(void **state)
{
    (void)state;
    static const uint32_t first[] = {16385, 0x7fffffff, 0xffffffff};
    static const uint32_t later[] = {WIRE_SIZE + 1, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < 3; i++) {
        wire_be32(&wire, first[i]);
        expect_refused(WIRE_TOO_BIG);
        wire_be32(&wire, later[i]);
        expect_refused_later(WIRE_TOO_BIG);
    }
}

/* The agent says one line of it, for who looks for it, and nothing else. */
static void expect_stranger(const void *bytes, size_t len)
{
    f.log_bytes = agent_process_log_bytes(&f.agent);
    wire_bytes(&wire, bytes, len);
    peer_connect_tcp(&peers[0]);
    peer_send(&peers[0]);
    expect_disconnect(&peers[0], WIRE_TOO_BIG);
    peer_close(&peers[0]);
    wire_clear();
    wait_for_fds(f.n_fds);
    assert_int_equal(log_lines(), 1);
    assert_int_equal(log_lines_at("debug: "), 1);
}

static void check_31_strangers_are_told_and_logged_once(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    static const char typed[] = "hello?\n";
    /* A ClientHello as OpenSSL begins one, with its 512 bytes. */
    static uint8_t tls[517] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01,
                               0x00, 0x01, 0xfc, 0x03, 0x03};
    expect_stranger(http, sizeof(http) - 1);
    expect_stranger(tls, sizeof(tls));
    expect_stranger(typed, sizeof(typed) - 1);
}

static void check_32_frame_of_the_agreed_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {WIRE_SIZE_MIN, WIRE_SIZE, WIRE_SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        wire_hello_with(&wire, "2.0", sizes[i], "");
        wire_notify_sized(&wire, 1, "k", sizes[i]);
        wire_notify(&wire, 2, 1, "k");
        peer_connect(&peers[0]);
        peer_send(&peers[0]);
        agreed_size = expect_hello(&peers[0]).size;
        assert_int_equal(agreed_size, sizes[i]);
        expect_allowed(&peers[0], 1, 1);
        expect_allowed(&peers[0], 2, 1);
        wire_clear();
        wire_be32(&wire, (uint32_t)sizes[i] + 1);
        peer_send(&peers[0]);
        expect_disconnect(&peers[0], WIRE_TOO_BIG);
        peer_close(&peers[0]);
        wire_clear();
    }
}

/* What is agreed to is what is received: there is no size between the two. */
static void check_33_cap_of_the_agent_holds_for_both(void **state)
{
    (void)state;
    wire_hello_with(&wire, "2.0", 1073741824, "");
    wire_notify_sized(&wire, 1, "k", WIRE_SIZE_MAX);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    assert_int_equal(expect_hello(&peers[0]).size, WIRE_SIZE_MAX);
    expect_allowed(&peers[0], 1, 1);
    wire_clear();
    wire_be32(&wire, WIRE_SIZE_MAX + 1);
    peer_send(&peers[0]);
    expect_disconnect(&peers[0], WIRE_TOO_BIG);
}

static void check_34_ids_come_back_bit_for_bit(void **state)
{
    (void)state;
    static const uint64_t ids[] = {0,          1,          239,        240,
                                   2287,       2288,       1ULL << 31, 1ULL << 32,
                                   1ULL << 53, 1ULL << 63, UINT64_MAX};
    enum {
        N = sizeof(ids) / sizeof(ids[0])
    };
    peer_open(&peers[0]);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            wire_notify(&wire, ids[i], ids[j], "k");
        }
    }
    peer_send(&peers[0]);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            expect_allowed(&peers[0], ids[i], ids[j]);
        }
    }
}

static void check_35_broken_ids_are_refused(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "00000012 03 00000001 ffffffffffffffffffff 7f 01 00", /* 11 bytes and more */
        "00000011 03 00000001 fff0fefefefefefefe0f 01 00",    /* over 64 bits */
        "00000009 03 00000001 ffffff ff",                     /* unterminated */
        "00000007 03 00000001 01 f0",                         /* the second one */
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        wire_hex(&wire, frames[i]);
        expect_refused_later(WIRE_INVALID);
    }
}

static void put_unknown(unsigned type)
{
    wire_begin(&wire, type, WIRE_FIN, 9, 9);
    wire_bytes(&wire, "whatever", 8);
    wire_end(&wire);
}

static void check_36_unknown_types_are_skipped(void **state)
{
    (void)state;
    static const unsigned types[] = {4, 50, 104, 255};
    peer_open(&peers[0]);
    for (uint64_t i = 0; i < 16; i++) {
        put_unknown(types[i % 4]);
        wire_notify(&wire, i, 1, "k");
    }
    put_unknown(100); /* the seventeenth */
    peer_send(&peers[0]);
    for (uint64_t i = 0; i < 16; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    expect_disconnect(&peers[0], WIRE_INVALID);
}

static void check_37_frames_of_ours_are_refused(void **state)
{
    (void)state;
    for (unsigned type = WIRE_AGENT_HELLO; type <= WIRE_ACK; type++) {
        put_unknown(type);
        expect_refused(WIRE_INVALID);
        put_unknown(type);
        expect_refused_later(WIRE_INVALID);
    }
}

static void check_38_other_flags_of_notify_mean_nothing(void **state)
{
    (void)state;
    static const uint32_t flags[] = {WIRE_FIN | 4, 0xfffffffd, WIRE_FIN | WIRE_ABORT,
                                     0xffffffff};
    peer_open(&peers[0]);
    for (uint64_t i = 0; i < 4; i++) {
        wire_notify(&wire, i, 1, "k");
        wire_set_flags(&wire, flags[i]);
    }
    peer_send(&peers[0]);
    for (uint64_t i = 0; i < 4; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    (void)ask(&peers[0], "k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_28_split_at_every_byte),
        CHECK(check_29_thousand_in_one_write),
        CHECK(check_30_short_lengths_are_refused),
        CHECK(check_31_long_lengths_are_refused),
        CHECK(check_31_strangers_are_told_and_logged_once),
        CHECK(check_32_frame_of_the_agreed_size),
        CHECK(check_33_cap_of_the_agent_holds_for_both),
        CHECK(check_34_ids_come_back_bit_for_bit),
        CHECK(check_35_broken_ids_are_refused),
        CHECK(check_36_unknown_types_are_skipped),
        CHECK(check_37_frames_of_ours_are_refused),
        CHECK(check_38_other_flags_of_notify_mean_nothing),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
