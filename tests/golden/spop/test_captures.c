/*
 * What real HAProxy sent, replayed through a session. The first line of each file says
 * which version it was; every further line is one connection from its first byte to
 * its last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "spop/ack.h"
#include "spop/frame.h"
#include "spop/notify.h"
#include "spop/session.h"

#include "tests/support/hex.h"
#include "tests/support/variable.h"
#include "tests/unit/spop/support.h"

enum {
    LINE_CAP = 1 << 17,
    IN_CAP = 1 << 16,
    OUT_CAP = 1 << 10
};

#define AGENT_HELLO                                                             \
    "0000004e 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\"" \
    " 03fcf006 0c\"capabilities\" 0818\"pipelining,fragmentation\""
#define HEALTH_CHECK_REPLY                                                      \
    "00000035 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\"" \
    " 03f001 0c\"capabilities\" 0800"
#define BYE_0 \
    "00000025 66 00000001 00 00 0b\"status-code\" 0300 07\"message\" 0806\"normal\""
#define BYE_2                                                         \
    "00000031 66 00000001 00 00 0b\"status-code\" 0302 07\"message\"" \
    " 0812\"a timeout occurred\""

struct counts {
    unsigned n_health_checks;
    unsigned n_notifies;    /* answered */
    unsigned n_fragmented;  /* of these, put together from fragments */
    unsigned n_disconnects; /* connections that HAProxy ended, with code 0 or 2 */
    unsigned n_resets;      /* connections it ended without a frame */
};

static const struct capture {
    const char *path;
    const char *comment;
    struct counts counts;
} captures[] = {
    {"tests/golden/spop/2.6.12.hex",
     "# bytes sent by HAProxy 2.6.12, a line per connection\n",
     {1, 38, 1, 4, 0}},
    {"tests/golden/spop/3.0.0.hex",
     "# bytes sent by HAProxy 3.0.0, a line per connection\n",
     {1, 38, 1, 5, 0}},
    {"tests/golden/spop/3.2.0.hex",
     "# bytes sent by HAProxy 3.2.0, a line per connection\n",
     {1, 37, 0, 0, 5}},
};

static char line[LINE_CAP];
static uint8_t in_buf[IN_CAP];
static uint8_t out_buf[OUT_CAP];
static uint8_t lent_buf[SPOP_REASSEMBLY_BYTES_MAX];

/* Visit every argument of a NOTIFY; returns how many there are. */
static int64_t payload_walk(struct spop_bytes payload)
{
    struct spop_notify it;
    struct spop_message msg;
    struct spop_arg arg;
    enum spop_status status = SPOP_OK;
    int64_t n_args = 0;
    spop_notify_init(&it, payload);
    while ((status = spop_notify_next_message(&it, &msg)) == SPOP_OK) {
        assert_true(msg.name.len > 0);
        while ((status = spop_notify_next_arg(&it, &arg)) == SPOP_OK) {
            n_args++;
        }
        assert_int_equal(status, SPOP_END);
    }
    assert_int_equal(status, SPOP_END);
    return n_args;
}

/* The answer says how many arguments there were, and has to say so when read again. */
static void notify_answer(const struct spop_event *event, size_t frame_bytes_max,
                          struct spop_writer *out)
{
    int64_t n_args = payload_walk(event->payload);
    struct spop_ack ack;
    spop_ack_begin(&ack, out, event->stream_id, event->frame_id, frame_bytes_max);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_TXN, "n_args"), n_args);
    spop_ack_end(&ack);

    struct spop_frame frame;
    assert_int_equal(spop_frame_decode(written(out), frame_bytes_max, &frame), SPOP_OK);
    assert_int_equal(frame.type, SPOP_FRAME_ACK);
    assert_int_equal(frame.flags, SPOP_FLAG_FIN);
    assert_true(frame.stream_id == event->stream_id);
    assert_true(frame.frame_id == event->frame_id);
    struct spop_reader r;
    struct spop_value value;
    spop_reader_init(&r, frame.payload);
    expect_bytes("action", spop_read_bytes(&r, 3), "010302");
    expect_bytes("name", spop_read_string(&r), "\"n_args\"");
    spop_value_decode(&r, &value);
    int64_t read_again = -1;
    assert_true(spop_value_int64(&value, &read_again));
    assert_int_equal(read_again, n_args);
    assert_true(r.status == SPOP_OK && r.len == 0);
}

/* Every ending is an everyday event. */
static void close_expect(const struct spop_event *event, struct spop_bytes out,
                         struct counts *counts)
{
    if (event->is_health_check) {
        expect_bytes("health check", out, HEALTH_CHECK_REPLY);
        counts->n_health_checks++;
    } else if (event->is_peer_ending && event->code == SPOP_CODE_NORMAL) {
        expect_bytes("normal", out, BYE_0);
        counts->n_disconnects++;
    } else {
        assert_true(event->is_peer_ending);
        assert_int_equal(event->code, SPOP_CODE_TIMEOUT);
        expect_bytes("timeout", out, BYE_2);
        counts->n_disconnects++;
    }
}

static void event_expect(struct spop_session *s, const struct spop_event *event,
                         struct spop_writer *out, struct counts *counts)
{
    switch (event->type) {
    case SPOP_EVENT_HELLO:
        expect_bytes("hello", written(out), AGENT_HELLO);
        return;
    case SPOP_EVENT_NOTIFY:
        assert_int_equal(out->len, 0);
        notify_answer(event, s->frame_bytes_max, out);
        counts->n_notifies++;
        counts->n_fragmented += event->is_fragmented;
        return;
    case SPOP_EVENT_FRAGMENTED:
        spop_session_lend(s, lent_buf, sizeof(lent_buf));
        return;
    case SPOP_EVENT_FRAGMENT:
        assert_int_equal(out->len, 0);
        return;
    case SPOP_EVENT_CLOSE:
        close_expect(event, written(out), counts);
        return;
    case SPOP_EVENT_MORE:
    case SPOP_EVENT_REFUSED:
    case SPOP_EVENT_ABORTED:
    case SPOP_EVENT_IGNORED:
        break;
    }
    fail_msg("event %d", (int)event->type);
}

/* Take what is complete of `in`; returns how many bytes that is. */
static size_t bytes_offer(struct spop_session *s, struct spop_bytes in,
                          struct counts *counts)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    while (s->state != SPOP_SESSION_CLOSED) {
        struct spop_event event;
        struct spop_writer out;
        struct spop_bytes left = {.ptr = r.ptr, .len = r.len};
        spop_writer_init(&out, out_buf, sizeof(out_buf));
        (void)spop_read_bytes(&r, spop_session_next(s, left, &out, &event));
        if (event.type == SPOP_EVENT_MORE) {
            break;
        }
        event_expect(s, &event, &out, counts);
    }
    assert_int_equal(r.status, SPOP_OK);
    return in.len - r.len;
}

static void connection_replay(struct spop_bytes in, size_t chunk_bytes,
                              struct counts *counts)
{
    struct spop_session s;
    spop_session_init(&s);
    size_t done = 0;
    size_t end = 0;
    while (end < in.len && s.state != SPOP_SESSION_CLOSED) {
        size_t left = in.len - end;
        end += left < chunk_bytes ? left : chunk_bytes;
        struct spop_bytes part = {.ptr = in.ptr + done, .len = end - done};
        done += bytes_offer(&s, part, counts);
    }
    if (s.state != SPOP_SESSION_CLOSED) {
        assert_int_equal(done, in.len);
        counts->n_resets++;
    }
}

static void capture_replay(const struct capture *capture, size_t chunk_bytes)
{
    struct counts counts = {0};
    FILE *file = fopen(capture->path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, capture->comment);
    while (fgets(line, sizeof(line), file)) {
        struct spop_bytes in = {.ptr = in_buf};
        in.len = hex_decode(line, in_buf, sizeof(in_buf));
        connection_replay(in, chunk_bytes, &counts);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(counts.n_health_checks, capture->counts.n_health_checks);
    assert_int_equal(counts.n_notifies, capture->counts.n_notifies);
    assert_int_equal(counts.n_fragmented, capture->counts.n_fragmented);
    assert_int_equal(counts.n_disconnects, capture->counts.n_disconnects);
    assert_int_equal(counts.n_resets, capture->counts.n_resets);
}

static void every_capture_is_answered(void **state)
{
    (void)state;
    static const size_t chunks_bytes[] = {IN_CAP, 1448, 17, 1};
    for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
        for (size_t c = 0; c < sizeof(chunks_bytes) / sizeof(chunks_bytes[0]); c++) {
            capture_replay(&captures[i], chunks_bytes[c]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_capture_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
