/* A connection as a packet: there and back, and packets that no agent sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "agent/net/connection.h"
#include "agent/net/handover.h"

#include "tests/support/prng.h"

enum {
    IDS_BYTES = 2 * sizeof(uint64_t), /* of fragments */
    HEAD_BYTES = IDS_BYTES + 6 * sizeof(uint32_t)
};

static int ends[2];
static int peer[2]; /* the connection; [0] is handed over */
static uint8_t in[SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX];
static uint8_t out[CONNECTION_OUT_BYTES];
static uint8_t buf[CHANNEL_BYTES_MAX];
static struct channel_packet packet;
static struct handover sent;

static int set_up(void **context)
{
    (void)context;
    struct prng prng;
    prng_init(&prng, 7);
    prng_fill(&prng, in, sizeof(in));
    memcpy(out, in + 1000, sizeof(out));
    sent = (struct handover){.in = {.ptr = in, .len = 17},
                             .out = {.ptr = out, .len = 5}};
    spop_session_init(&sent.session);
    sent.session.state = SPOP_SESSION_OPEN;
    sent.session.frame_bytes_max = 16380;
    sent.session.receive_bytes_max = 16380;
    bool ok = channel_pair(ends) && socketpair(AF_UNIX, SOCK_STREAM, 0, peer) == 0;
    sent.fd = peer[0];
    return !ok;
}

static int tear_down(void **context)
{
    (void)context;
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(peer[0]);
    (void)close(peer[1]);
    return 0;
}

static void send_and_receive(void)
{
    assert_int_equal(handover_send(ends[0], &sent), CHANNEL_OK);
    assert_int_equal(channel_receive(ends[1], buf, sizeof(buf), &packet), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_CONNECTION);
}

static void expect_same(void)
{
    send_and_receive();
    struct handover *got = handover_receive(&packet, buf);
    assert_non_null(got);
    assert_int_equal(got->session.state, sent.session.state);
    assert_int_equal(got->session.frame_bytes_max, sent.session.frame_bytes_max);
    assert_int_equal(got->session.receive_bytes_max, sent.session.receive_bytes_max);
    assert_int_equal(got->session.n_unknown_frames, sent.session.n_unknown_frames);
    assert_int_equal(got->session.fragments.state, sent.session.fragments.state);
    assert_int_equal(got->session.fragments.stream_id,
                     sent.session.fragments.stream_id);
    assert_int_equal(got->session.fragments.frame_id, sent.session.fragments.frame_id);
    assert_int_equal(got->in.len, sent.in.len);
    assert_memory_equal(got->in.ptr, sent.in.ptr, sent.in.len);
    assert_int_equal(got->out.len, sent.out.len);
    assert_memory_equal(got->out.ptr, sent.out.ptr, sent.out.len);
    assert_int_equal(write(got->fd, "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(peer[1], &byte, 1), 1);
    (void)close(got->fd);
    free(got);
}

static void comes_as_it_went(void **context)
{
    (void)context;
    expect_same();
    sent.in.len = 0;
    sent.out.len = 0;
    sent.session.n_unknown_frames = SPOP_UNKNOWN_FRAMES_MAX;
    expect_same();
    sent.session.fragments.state = SPOP_FRAGMENTS_SWALLOWED;
    sent.session.fragments.stream_id = UINT64_MAX;
    sent.session.fragments.frame_id = 7;
    expect_same();
    spop_session_init(&sent.session); /* before the HELLO */
    expect_same();
}

static void the_largest_comes_as_it_went(void **context)
{
    (void)context;
    sent.session.frame_bytes_max = SPOP_FRAME_SIZE_MAX;
    sent.session.receive_bytes_max = SPOP_FRAME_SIZE_MAX;
    sent.in.len = sizeof(in);
    sent.out.len = sizeof(out);
    expect_same();
}

static void expect_refused(size_t len)
{
    struct channel_packet bad = {.type = CHANNEL_CONNECTION, .len = len};
    bad.fd = dup(peer[0]);
    assert_null(handover_receive(&bad, buf));
    assert_int_equal(write(bad.fd, "x", 1), -1); /* closed */
}

static void cut_packets_are_refused(void **context)
{
    (void)context;
    send_and_receive();
    for (size_t len = 0; len < packet.len; len++) {
        expect_refused(len);
    }
    expect_refused(packet.len + 1);
    struct handover *got = handover_receive(&packet, buf);
    assert_non_null(got);
    (void)close(got->fd);
    free(got);
}

static void numbers_that_cannot_be_are_refused(void **context)
{
    (void)context;
    enum {
        NONE = SPOP_FRAGMENTS_NONE,
        IN_MAX = SPOP_PREFIX_BYTES + SPOP_HELLO_BYTES_MAX
    };
    static const uint32_t cases[][6] = {
        /* state, fragments, frame size, unknown frames, input, output */
        {SPOP_SESSION_CLOSED, NONE, 16380, 0, 0, 0},
        {UINT32_MAX, NONE, 16380, 0, 0, 0},
        {SPOP_SESSION_NEW, NONE, 16380, 0, 0, 0},
        {SPOP_SESSION_NEW, SPOP_FRAGMENTS_SWALLOWED, 0, 0, 0, 0},
        {SPOP_SESSION_OPEN, SPOP_FRAGMENTS_ASKED, 16380, 0, 0, 0},
        {SPOP_SESSION_OPEN, SPOP_FRAGMENTS_KEPT, 16380, 0, 0, 0},
        {SPOP_SESSION_OPEN, UINT32_MAX, 16380, 0, 0, 0},
        {SPOP_SESSION_OPEN, NONE, 0, 0, 0, 0},
        {SPOP_SESSION_OPEN, NONE, SPOP_FRAME_SIZE_MIN - 1, 0, 0, 0},
        {SPOP_SESSION_OPEN, NONE, SPOP_FRAME_SIZE_MAX + 1, 0, 0, 0},
        {SPOP_SESSION_OPEN, NONE, 16380, SPOP_UNKNOWN_FRAMES_MAX + 1, 0, 0},
        {SPOP_SESSION_OPEN, NONE, 16380, 0, IN_MAX + 1, 0},
        {SPOP_SESSION_NEW, NONE, 0, 0, IN_MAX + 1, 0},
        {SPOP_SESSION_OPEN, NONE, 16380, 0, 0, CONNECTION_OUT_BYTES + 1},
        {SPOP_SESSION_OPEN, NONE, 16380, 0, UINT32_MAX, 1},
        {SPOP_SESSION_OPEN, NONE, 16380, 0, 1, UINT32_MAX},
    };
    memset(buf, 0, sizeof(buf));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        memcpy(buf + IDS_BYTES, cases[i], sizeof(cases[i]));
        uint64_t len = HEAD_BYTES + (uint64_t)cases[i][4] + cases[i][5];
        expect_refused(len < sizeof(buf) ? (size_t)len : sizeof(buf));
    }
}

/* Bytes changed anywhere are refused, or give a connection within its bounds. */
static void any_bytes_are_within_bounds(void **context)
{
    (void)context;
    struct prng prng;
    prng_init(&prng, 11);
    for (int round = 0; round < 20000; round++) {
        size_t len = HEAD_BYTES + (size_t)prng_below(&prng, 64);
        memset(buf, 0, HEAD_BYTES);
        buf[IDS_BYTES] = (uint8_t)prng_below(&prng, 3);
        buf[IDS_BYTES + 8] = (uint8_t)prng_next(&prng);
        buf[IDS_BYTES + 9] = (uint8_t)prng_below(&prng, 3);
        buf[IDS_BYTES + 16] = (uint8_t)prng_below(&prng, 64);
        buf[IDS_BYTES + 20] = (uint8_t)(len - HEAD_BYTES - buf[IDS_BYTES + 16]);
        for (uint64_t n = prng_below(&prng, 3); n > 0; n--) {
            buf[prng_below(&prng, HEAD_BYTES)] = (uint8_t)prng_next(&prng);
        }
        struct channel_packet any = {.type = CHANNEL_CONNECTION, .len = len};
        any.fd = dup(peer[0]);
        struct handover *got = handover_receive(&any, buf);
        if (got == NULL) {
            continue;
        }
        assert_int_equal(got->in.len + got->out.len, len - HEAD_BYTES);
        assert_true(got->session.state != SPOP_SESSION_CLOSED);
        assert_true(got->session.receive_bytes_max <= SPOP_FRAME_SIZE_MAX);
        assert_false(spop_session_is_assembling(&got->session));
        (void)close(got->fd);
        free(got);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(comes_as_it_went),
        TEST(the_largest_comes_as_it_went),
        TEST(cut_packets_are_refused),
        TEST(numbers_that_cannot_be_are_refused),
        TEST(any_bytes_are_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
