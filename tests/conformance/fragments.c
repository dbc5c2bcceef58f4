/* Checks 62 to 67 of README.md: NOTIFYs in several frames. The timer of check 66 is in
 * slow.c. */
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"

enum {
    REASSEMBLY_BYTES_MAX = 131072, /* of a payload that is put together */
};

/* A frame of a NOTIFY with this part of a payload. */
static void put_part(unsigned type, uint32_t flags, uint64_t stream_id,
                     const uint8_t *part, size_t len)
{
    wire_begin(&wire, type, flags, stream_id, 1);
    wire_bytes(&wire, part, len);
    wire_end(&wire);
}

static struct wire whole; /* a payload */

/* Names, numbers of more than a byte, addresses and texts. */
static void make_payload(const char *key)
{
    static const uint8_t filler[300] = {0xff, 0xf0};
    whole.len = 0;
    wire_name(&whole, "ratelimit-check");
    wire_u8(&whole, 6);
    wire_arg_text(&whole, "route", "key");
    wire_arg_text(&whole, "key", key);
    wire_name(&whole, "n");
    wire_int(&whole, WIRE_INT64, UINT64_MAX);
    wire_name(&whole, "ip");
    wire_address(&whole, "192.0.2.62");
    wire_name(&whole, "long");
    wire_data(&whole, WIRE_BINARY, filler, sizeof(filler));
    wire_name(&whole, "flag");
    wire_bool(&whole, true);
}

/* Receive the answer to the NOTIFY in parts; it has to be the next about its key. */
static void expect_next(int64_t *n_asked)
{
    (*n_asked)++;
    expect_allowed(&peers[0], 9, 1);
    assert_int_equal(wire_ack_number(&ack, "remaining"), FIXTURE_LARGE - *n_asked);
}

static void check_62_cut_anywhere_is_the_same(void **state)
{
    (void)state;
    int64_t n_asked = 0;
    peer_open(&peers[0]);
    make_payload("k62");
    for (size_t cut = 0; cut <= whole.len; cut++) {
        wire_clear();
        put_part(WIRE_NOTIFY, 0, 9, whole.bytes, cut);
        put_part(WIRE_UNSET, WIRE_FIN, 9, whole.bytes + cut, whole.len - cut);
        peer_send(&peers[0]);
        expect_next(&n_asked);
    }
    wire_clear(); /* a byte a frame */
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 0);
    for (size_t at = 0; at < whole.len; at++) {
        put_part(WIRE_UNSET, at + 1 == whole.len ? WIRE_FIN : 0, 9, whole.bytes + at,
                 1);
    }
    peer_send(&peers[0]);
    expect_next(&n_asked);
    expect_nothing(&peers[0]);
}

static void check_63_fragments_out_of_place_are_refused(void **state)
{
    (void)state;
    make_payload("k63");
    put_part(WIRE_UNSET, WIRE_FIN, 9, whole.bytes, whole.len);
    expect_refused_later(WIRE_INTERLACED);
    put_part(WIRE_UNSET, 0, 9, whole.bytes, whole.len);
    expect_refused_later(WIRE_INTERLACED);
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    put_part(WIRE_UNSET, WIRE_FIN, 8, whole.bytes + 20, whole.len - 20);
    expect_refused_later(WIRE_INTERLACED);
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    wire_begin(&wire, WIRE_UNSET, WIRE_FIN, 9, 2); /* another frame-id */
    wire_end(&wire);
    expect_refused_later(WIRE_INTERLACED);
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    put_part(WIRE_NOTIFY, WIRE_FIN, 9, whole.bytes, whole.len);
    expect_refused_later(WIRE_INTERLACED);
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    expect_refused_later(WIRE_INTERLACED);
}

static void check_64_given_up_has_no_answer(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    make_payload("k64");
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    put_part(WIRE_UNSET, 0, 9, whole.bytes + 20, 20);
    put_part(WIRE_UNSET, WIRE_FIN | WIRE_ABORT, 9, NULL, 0);
    wire_notify(&wire, 5, 5, "k64");
    peer_send(&peers[0]);
    expect_allowed(&peers[0], 5, 5); /* the first answer, and the first charge */
    assert_int_equal(wire_ack_number(&ack, "remaining"), FIXTURE_LARGE - 1);
    expect_nothing(&peers[0]);
}

/* An ACK that ends the NOTIFY whose fragments are still coming. */
static void expect_abort(struct spop_client *c, uint64_t stream_id)
{
    struct wire_frame frame;
    assert_true(spop_client_receive(c));
    c->frame[WIRE_PREFIX_BYTES + 4] &= (uint8_t)~WIRE_ABORT;
    assert_null(wire_read_frame(c->frame, c->frame_len, &frame));
    assert_int_equal(frame.type, WIRE_ACK);
    assert_int_equal(frame.stream_id, stream_id);
    assert_int_equal(frame.frame_id, 1);
}

static void check_65_too_large_is_ended_and_the_rest_dropped(void **state)
{
    (void)state;
    static const uint8_t part[16000] = {0};
    enum {
        FIT = REASSEMBLY_BYTES_MAX / sizeof(part)
    };
    peer_open(&peers[0]);
    for (int round = 0; round < 3; round++) {
        wire_clear();
        put_part(WIRE_NOTIFY, 0, 9, part, sizeof(part));
        for (int i = 0; i < FIT + 3; i++) {
            put_part(WIRE_UNSET, 0, 9, part, sizeof(part));
        }
        peer_send(&peers[0]);
        expect_abort(&peers[0], 9);
        expect_memory_as_before();
        wire_clear();
        put_part(WIRE_UNSET, 0, 9, part, sizeof(part));
        put_part(WIRE_UNSET, WIRE_FIN, 9, part, sizeof(part));
        wire_notify(&wire, 5, 5, "k65");
        peer_send(&peers[0]);
        expect_allowed(&peers[0], 5, 5);
        expect_nothing(&peers[0]);
    }
}

/* As many as fit are put together; the last one being too many is no verdict either. */
static void check_65_largest_payload(void **state)
{
    (void)state;
    static uint8_t zeros[REASSEMBLY_BYTES_MAX];
    peer_open(&peers[0]);
    for (size_t over = 0; over <= 1; over++) {
        whole.len = 0;
        wire_name(&whole, "ratelimit-check");
        wire_u8(&whole, 3);
        wire_arg_text(&whole, "route", "key");
        wire_arg_text(&whole, "key", "k65");
        wire_name(&whole, "pad");
        /* the type and three bytes of length */
        size_t pad = REASSEMBLY_BYTES_MAX + over - whole.len - 4;
        wire_data(&whole, WIRE_BINARY, zeros, pad);
        assert_int_equal(whole.len, REASSEMBLY_BYTES_MAX + over);
        wire_clear();
        for (size_t at = 0; at < whole.len; at += 16000) {
            size_t left = whole.len - at;
            put_part(at == 0 ? WIRE_NOTIFY : WIRE_UNSET, left <= 16000 ? WIRE_FIN : 0,
                     9, whole.bytes + at, left < 16000 ? left : 16000);
        }
        peer_send(&peers[0]);
        if (over == 0) {
            expect_allowed(&peers[0], 9, 1);
        } else {
            expect_neutral(&peers[0], 9, 1);
        }
    }
}

/* Closed in the middle of fragments: nothing is kept. */
static void check_66_gone_between_fragments(void **state)
{
    (void)state;
    static const uint8_t part[16000] = {0};
    for (int i = 0; i < 200; i++) { /* more often than there are buffers */
        peer_open(&peers[0]);
        for (int j = 0; j < 4; j++) {
            put_part(j == 0 ? WIRE_NOTIFY : WIRE_UNSET, 0, 9, part, sizeof(part));
        }
        peer_send(&peers[0]);
        peer_wait_taken(&peers[0]);
        peer_close(&peers[0]);
        wire_clear();
    }
    wait_for_fds(f.n_fds);
    int64_t n_asked = 0;
    peer_open(&peers[0]);
    make_payload("k66");
    put_part(WIRE_NOTIFY, 0, 9, whole.bytes, 20);
    put_part(WIRE_UNSET, WIRE_FIN, 9, whole.bytes + 20, whole.len - 20);
    peer_send(&peers[0]);
    expect_next(&n_asked);
}

/* There is no switch for it; a health check is where it is not announced, and after that
 * nothing is read. */
static void check_67_capability_is_announced(void **state)
{
    (void)state;
    static const char *const offered[] = {"", "pipelining", "fragmentation"};
    for (size_t i = 0; i < 3; i++) {
        wire_hello_with(&wire, "2.0", WIRE_SIZE, offered[i]);
        peer_connect(&peers[0]);
        peer_send(&peers[0]);
        assert_true(expect_hello(&peers[0]).is_fragmentation);
        peer_close(&peers[0]);
        wire_clear();
    }
    wire_hello_check(&wire);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    assert_false(expect_hello(&peers[0]).is_fragmentation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_62_cut_anywhere_is_the_same),
        CHECK(check_63_fragments_out_of_place_are_refused),
        CHECK(check_64_given_up_has_no_answer),
        CHECK(check_65_too_large_is_ended_and_the_rest_dropped),
        CHECK(check_65_largest_payload),
        CHECK(check_66_gone_between_fragments),
        CHECK(check_67_capability_is_announced),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
