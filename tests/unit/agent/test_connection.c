/* The timers of a connection, on a worker without a thread: `now` is made by hand. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "spop/frame.h"

#include "agent/net/connection.h"
#include "agent/net/handover.h"
#include "agent/net/reassembly.h"
#include "agent/net/worker.h"
#include "agent/store/local.h"

#include "tests/support/spop_client.h"

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 100000000, per: 60s }\n";

static struct {
    struct worker worker;
    struct worker_gone gone;
    struct decide_options options;
    struct decide_set *set;
    struct instant start;
} f;

static struct worker successor; /* another worker, in place of another process's */
static struct spop_client client;

static void on_gone(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)loop;
    (void)async;
    (void)events;
}

static int set_up(void **context)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    static struct rules_diags diags;
    (void)context;
    memset(&f, 0, sizeof(f));
    rules_diags_init(&diags, "test.yaml");
    struct rules_bytes text = {.ptr = (const uint8_t *)rules_text,
                               .len = strlen(rules_text)};
    struct rules_set *rules = rules_load(&(struct rules_source){.name = "test.yaml",
                                                                .text = text},
                                         &diags);
    f.set = rules != NULL ? decide_set_new(rules, "rl") : NULL;
    decide_options_init(&f.options, VARIABLE_BIT(VARIABLES_N) - 1);
    f.worker.loop = ev_loop_new(EVFLAG_NOENV);
    f.worker.gone = &f.gone;
    f.worker.reassembly = reassembly_new();
    f.gone.main_loop = f.worker.loop;
    ev_async_init(&f.gone.async, on_gone);
    ev_async_start(f.worker.loop, &f.gone.async);
    f.worker.decide.set = f.set;
    f.worker.decide.store = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, secret);
    f.worker.decide.counters = counters_new(1);
    f.worker.decide.options = &f.options;
    return f.set == NULL || f.worker.decide.store == NULL
           || f.worker.reassembly == NULL;
}

static uint64_t count(enum counter counter)
{
    return counter_get(f.worker.decide.counters, counter);
}

static int tear_down(void **context)
{
    (void)context;
    f.worker.is_draining = true;
    for (int64_t s = 400; f.worker.connections != NULL; s += 10) {
        connection_check_timers(f.worker.connections,
                                instant_add_us(f.start, s * US_PER_S));
    }
    spop_client_close(&client);
    reassembly_free(f.worker.reassembly); /* aborts where a buffer is not back */
    ev_loop_destroy(f.worker.loop);
    store_free(f.worker.decide.store);
    bool adds_up = count(COUNTER_NOTIFIES)
                   == count(COUNTER_ACKS) + count(COUNTER_NOTIFIES_MALFORMED)
                          + count(COUNTER_NOTIFIES_ABORTED)
                          + count(COUNTER_NOTIFIES_ORPHANED);
    counters_free(f.worker.decide.counters);
    decide_set_free(f.set);
    return !adds_up;
}

/* A connection, its other end in `client`. */
static void open_connection(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    client.fd = fds[1];
    client.len = 0;
    f.gone.n_open = 1;
    connection_open(&f.worker, fds[0]);
    f.start = clock_now();
}

static void turn(void)
{
    for (int i = 0; i < 100; i++) {
        ev_run(f.worker.loop, EVRUN_NOWAIT);
    }
}

static void check_at(int64_t after_us)
{
    assert_non_null(f.worker.connections);
    connection_check_timers(f.worker.connections, instant_add_us(f.start, after_us));
}

static void say_hello(void)
{
    uint8_t hello[512];
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, false);
    assert_true(spop_client_send(&client, hello, len));
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_AGENT_HELLO);
}

static void expect_disconnect(uint8_t code)
{
    static const char name[] = "status-code";
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_AGENT_DISCONNECT);
    const uint8_t *at = memmem(client.frame, client.frame_len, name, sizeof(name) - 1);
    assert_non_null(at);
    assert_int_equal(at[sizeof(name)], code);
    assert_true(spop_client_at_eof(&client));
}

static uint64_t timeouts(void)
{
    return count(COUNTER_TIMEOUTS);
}

static void silence_before_hello(void **context)
{
    (void)context;
    open_connection();
    check_at(CONNECTION_HELLO_US - US_PER_S);
    assert_int_equal(timeouts(), 0);
    check_at(CONNECTION_HELLO_US);
    assert_int_equal(timeouts(), 1);
    expect_disconnect(SPOP_CODE_TIMEOUT);
}

static void half_a_frame(void **context)
{
    (void)context;
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    open_connection();
    say_hello();
    assert_true(spop_client_send(&client, frame, len - 1));
    turn();
    check_at(CONNECTION_FRAME_US - US_PER_S);
    assert_int_equal(timeouts(), 0);
    check_at(CONNECTION_FRAME_US + US_PER_S);
    assert_int_equal(timeouts(), 1);
    expect_disconnect(SPOP_CODE_TIMEOUT);
}

static void expect_ack(uint8_t id)
{
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    assert_int_equal(client.frame[9], id);
}

/* Two NOTIFYs and what follows them in one write: they are answered, in their order, first. */
static void expect_acks_before_disconnect(const uint8_t *next, size_t next_len,
                                          uint8_t code)
{
    uint8_t frames[512];
    size_t len = spop_client_put_notify(frames, sizeof(frames), 1, "k", 0);
    len += spop_client_put_notify(frames + len, sizeof(frames) - len, 2, "k", 0);
    memcpy(frames + len, next, next_len);
    assert_true(spop_client_send(&client, frames, len + next_len));
    turn();
    expect_ack(1);
    expect_ack(2);
    expect_disconnect(code);
}

static void acks_come_before_a_disconnect(void **context)
{
    (void)context;
    uint8_t frame[128];
    open_connection();
    say_hello();
    size_t len = spop_client_put_disconnect(frame, sizeof(frame), SPOP_CODE_NORMAL);
    expect_acks_before_disconnect(frame, len, SPOP_CODE_NORMAL);
}

static void acks_come_before_a_complaint(void **context)
{
    (void)context;
    uint8_t frame[128];
    open_connection();
    say_hello();
    size_t len = spop_client_put_notify(frame, sizeof(frame), 3, "k", 0);
    frame[len - 2] = 0xff; /* the type of its last value */
    expect_acks_before_disconnect(frame, len, SPOP_CODE_INVALID);
    assert_int_equal(count(COUNTER_NOTIFIES_MALFORMED), 1);
}

/* All fragments of a NOTIFY but the last, which is left in `last`. */
static size_t send_all_but_the_last(uint8_t last[64])
{
    uint8_t frame[256];
    uint8_t bytes[512];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    len = spop_client_put_fragments(bytes, sizeof(bytes), frame, len, 8);
    size_t last_off = 0;
    size_t off = 0;
    while (off < len) {
        last_off = off;
        off += SPOP_PREFIX_BYTES + (size_t)bytes[off + 3];
    }
    memcpy(last, bytes + last_off, len - last_off);
    assert_true(spop_client_send(&client, bytes, last_off));
    turn();
    return len - last_off;
}

static bool has_all_buffers(void)
{
    uint8_t *taken[REASSEMBLY_BUFFERS_MAX];
    unsigned n = 0;
    while (n < REASSEMBLY_BUFFERS_MAX
           && (taken[n] = reassembly_take(f.worker.reassembly)) != NULL) {
        n++;
    }
    for (unsigned i = 0; i < n; i++) {
        reassembly_give(f.worker.reassembly, taken[i]);
    }
    return n == REASSEMBLY_BUFFERS_MAX;
}

static void fragments_are_answered_once_whole(void **context)
{
    (void)context;
    uint8_t last[64];
    uint8_t byte = 0;
    open_connection();
    say_hello();
    assert_true(has_all_buffers());
    size_t len = send_all_but_the_last(last);
    assert_false(has_all_buffers());
    assert_int_equal(recv(client.fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(count(COUNTER_NOTIFIES), 0);
    assert_true(spop_client_send(&client, last, len));
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    assert_true(has_all_buffers());
    assert_int_equal(count(COUNTER_NOTIFIES), 1);
    assert_int_equal(count(COUNTER_NOTIFIES_FRAGMENTED), 1);
    assert_int_equal(count(COUNTER_ACKS), 1);
    assert_int_equal(count(COUNTER_REQUESTS_ALLOWED), 1);
}

/* The time runs from the first fragment, whatever comes after it. */
static void fragments_without_an_end(void **context)
{
    (void)context;
    static const uint8_t more[] = {0, 0, 0, 7, SPOP_FRAME_UNSET, 0, 0, 0, 0, 1, 1};
    uint8_t last[64];
    open_connection();
    say_hello();
    (void)send_all_but_the_last(last);
    check_at(CONNECTION_FRAME_US - US_PER_S);
    assert_int_equal(timeouts(), 0);
    assert_true(spop_client_send(&client, more, sizeof(more)));
    turn();
    check_at(CONNECTION_FRAME_US - US_PER_S);
    assert_false(has_all_buffers());
    check_at(CONNECTION_FRAME_US + US_PER_S);
    assert_int_equal(timeouts(), 1);
    assert_true(has_all_buffers());
    expect_disconnect(SPOP_CODE_TIMEOUT);
}

static void a_connection_that_goes_gives_its_buffer_back(void **context)
{
    (void)context;
    uint8_t last[64];
    open_connection();
    say_hello();
    (void)send_all_but_the_last(last);
    assert_false(has_all_buffers());
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    turn();
    assert_null(f.worker.connections);
    assert_true(has_all_buffers());
    assert_int_equal(count(COUNTER_NOTIFIES), 0);
}

static void fragments_given_up_are_forgotten(void **context)
{
    (void)context;
    static const uint8_t given_up[] = {0, 0, 0, 7, SPOP_FRAME_UNSET, 0, 0, 0, 3, 1, 1};
    uint8_t last[64];
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 2, "k", 0);
    open_connection();
    say_hello();
    (void)send_all_but_the_last(last);
    assert_true(spop_client_send(&client, given_up, sizeof(given_up)));
    assert_true(spop_client_send(&client, frame, len));
    turn();
    assert_true(spop_client_receive(&client)); /* of the second */
    assert_int_equal(client.frame[9], 2);
    assert_true(has_all_buffers());
    assert_int_equal(count(COUNTER_NOTIFIES), 2);
    assert_int_equal(count(COUNTER_NOTIFIES_ABORTED), 1);
    assert_int_equal(count(COUNTER_ACKS), 1);
}

static void without_a_buffer_fragments_are_refused(void **context)
{
    (void)context;
    uint8_t *taken[REASSEMBLY_BUFFERS_MAX];
    uint8_t last[64];
    uint8_t frame[256];
    size_t frame_len = spop_client_put_notify(frame, sizeof(frame), 2, "k", 0);
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        taken[i] = reassembly_take(f.worker.reassembly);
    }
    open_connection();
    say_hello();
    size_t len = send_all_but_the_last(last);
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    assert_int_equal(client.frame[8], SPOP_FLAG_FIN | SPOP_FLAG_ABORT);
    check_at(2 * CONNECTION_FRAME_US); /* nothing is held: no hurry */
    assert_int_equal(timeouts(), 0);
    assert_true(spop_client_send(&client, last, len));
    assert_true(spop_client_send(&client, frame, frame_len));
    turn();
    assert_true(spop_client_receive(&client)); /* the connection is as good as before */
    assert_int_equal(client.frame[8], SPOP_FLAG_FIN);
    assert_int_equal(client.frame[9], 2);
    assert_int_equal(count(COUNTER_NOTIFIES), 2);
    assert_int_equal(count(COUNTER_NOTIFIES_WITHOUT_ROOM), 1);
    assert_int_equal(count(COUNTER_ACKS), 2);
    assert_int_equal(count(COUNTER_ACKS_NEUTRAL), 1);
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        reassembly_give(f.worker.reassembly, taken[i]);
    }
}

static void whole_frames_are_not_half_ones(void **context)
{
    (void)context;
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    open_connection();
    say_hello();
    assert_true(spop_client_send(&client, frame, len));
    turn();
    assert_true(spop_client_receive(&client));
    check_at(CONNECTION_IDLE_US - US_PER_S);
    assert_int_equal(timeouts(), 0);
    assert_non_null(f.worker.connections);
}

static void idle_is_no_error(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    check_at(CONNECTION_IDLE_US + US_PER_S);
    assert_int_equal(timeouts(), 0);
    expect_disconnect(SPOP_CODE_NORMAL);
}

static void linger_ends(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    int64_t idle_us = CONNECTION_IDLE_US + US_PER_S;
    check_at(idle_us);
    assert_non_null(f.worker.connections); /* the peer has not closed */
    check_at(idle_us + CONNECTION_LINGER_US - 1);
    assert_non_null(f.worker.connections);
    check_at(idle_us + CONNECTION_LINGER_US);
    assert_null(f.worker.connections);
    assert_int_equal(f.gone.n_open, 0);
}

/* Questions without end, no answer read: until the agent holds back. */
static void fill_output(void)
{
    static uint8_t frames[64 * 256];
    size_t len = 0;
    for (uint64_t i = 0; i < 256; i++) {
        len += spop_client_put_notify(frames + len, sizeof(frames) - len, i, "k", 0);
    }
    uint64_t before = 0;
    do {
        before = count(COUNTER_NOTIFIES);
        for (int i = 0; i < 20; i++) {
            ssize_t n = send(client.fd, frames, len, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n != (ssize_t)len) {
                break; /* cut anywhere: no more is sent */
            }
            turn();
        }
        turn();
    } while (count(COUNTER_NOTIFIES) != before);
}

static void peer_that_never_reads(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    fill_output();
    f.start = clock_now();
    check_at(CONNECTION_WRITE_US - 5 * US_PER_S);
    assert_non_null(f.worker.connections); /* held back is not half a frame */
    assert_int_equal(timeouts(), 0);
    check_at(CONNECTION_WRITE_US + US_PER_S);
    assert_null(f.worker.connections);
    assert_int_equal(timeouts(), 1);
}

static void drain_waits_for_quiet(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    f.worker.is_draining = true;
    f.worker.drain_began = f.start;
    check_at(WORKER_DRAIN_QUIET_US / 2);
    uint8_t byte = 0;
    assert_int_equal(recv(client.fd, &byte, 1, MSG_DONTWAIT), -1);
    check_at(WORKER_DRAIN_QUIET_US + US_PER_S / 10);
    expect_disconnect(SPOP_CODE_NORMAL);
}

static void drain_reads_as_long_as_it_says(void **context)
{
    (void)context;
    uint8_t frame[256];
    uint8_t byte = 0;
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    open_connection();
    say_hello();
    /* A minute ahead, so that no real time counts. */
    f.start = instant_add_us(f.start, 60 * US_PER_S);
    f.worker.is_draining = true;
    f.worker.drain_began = f.start;
    f.worker.drain_read_us = WORKER_DRAIN_QUIET_US / 2;
    check_at(f.worker.drain_read_us - 1);
    assert_true(spop_client_send(&client, frame, len));
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    check_at(f.worker.drain_read_us);
    assert_true(spop_client_send(&client, frame, len));
    turn();
    assert_int_equal(recv(client.fd, &byte, 1, MSG_DONTWAIT), -1);
}

static void drain_ends_for_everybody(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    fill_output();
    f.start = clock_now();
    f.worker.is_draining = true;
    f.worker.drain_began = f.start;
    check_at(WORKER_DRAIN_US_MAX - 1);
    assert_non_null(f.worker.connections);
    check_at(WORKER_DRAIN_US_MAX);
    assert_null(f.worker.connections);
}

static void begin_handing_over(int ends[2])
{
    assert_true(channel_pair(ends));
    f.worker.is_handing_over = true;
    f.worker.channel_fd = ends[0];
}

/* What comes through the channel goes on with the successor, on the same loop. */
static void adopt(int ends[2])
{
    static uint8_t buf[CHANNEL_BYTES_MAX];
    struct channel_packet packet;
    assert_int_equal(channel_receive(ends[1], buf, sizeof(buf), &packet), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_CONNECTION);
    struct handover *handover = handover_receive(&packet, buf);
    assert_non_null(handover);
    assert_null(f.worker.connections);
    successor = f.worker;
    successor.pendings.free = NULL;
    successor.pendings.n_used = 0;
    successor.n_handed = 0;
    successor.is_handing_over = false;
    f.gone.n_open = 1;
    connection_adopt(&successor, handover);
    f.worker.is_handing_over = false;
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void hand_over(void)
{
    int ends[2];
    begin_handing_over(ends);
    assert_true(connection_hand_over(f.worker.connections));
    adopt(ends);
}

static void end_successor(void)
{
    assert_int_equal(f.worker.n_handed, 1);
    (void)close(f.worker.handed_fds[--f.worker.n_handed]);
    spop_client_close(&client);
    turn();
    assert_null(successor.connections);
    client.fd = -1;
}

static void handed_over_in_the_middle_of_a_frame(void **context)
{
    (void)context;
    uint8_t frames[512];
    size_t len = spop_client_put_notify(frames, sizeof(frames), 1, "k", 0);
    len += spop_client_put_notify(frames + len, sizeof(frames) - len, 2, "k", 0);
    for (size_t cut = 0; cut <= len; cut++) {
        open_connection();
        say_hello();
        assert_true(spop_client_send(&client, frames, cut));
        turn();
        hand_over();
        assert_int_equal(f.gone.n_open, 1);
        assert_true(spop_client_send(&client, frames + cut, len - cut));
        turn();
        for (uint8_t id = 1; id <= 2; id++) {
            assert_true(spop_client_receive(&client));
            assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
            assert_int_equal(client.frame[9], id);
        }
        end_successor();
    }
    assert_int_equal(count(COUNTER_NOTIFIES), 2 * (len + 1));
    assert_int_equal(count(COUNTER_CONNECTIONS_OPENED), 2 * (len + 1));
    assert_int_equal(count(COUNTER_CONNECTIONS_CLOSED), 2 * (len + 1));
}

static void handed_over_before_hello(void **context)
{
    (void)context;
    open_connection();
    hand_over();
    say_hello();
    end_successor();
}

/* NOTIFYs one after the other, as far as the agent takes them, answers unread; then some.
 * Answers how many; the last may be cut. */
static uint64_t send_beyond_the_brim(void)
{
    uint8_t frame[256];
    uint64_t n = 0;
    size_t left = 0; /* of the frame begun */
    for (int n_full = 0; n_full < 1000;) {
        size_t len = spop_client_put_notify(frame, sizeof(frame), n, "k", 0);
        left = left == 0 ? len : left;
        ssize_t n_bytes = send(client.fd, frame + len - left, left,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n_bytes < 0) {
            turn();
            n_full++;
            continue;
        }
        left -= (size_t)n_bytes;
        n += left == 0;
    }
    return n;
}

/* Answers wait in the output, frames behind it. */
static void handed_over_with_unsent_output(void **context)
{
    (void)context;
    open_connection();
    say_hello();
    uint64_t n_sent = send_beyond_the_brim();
    assert_in_range(count(COUNTER_ACKS), 1, n_sent - 1); /* held back */
    hand_over();
    for (uint64_t i = 0; i < n_sent; i++) {
        if (i % 16 == 0) {
            turn();
        }
        assert_true(spop_client_receive(&client));
        assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    }
    assert_int_equal(count(COUNTER_NOTIFIES), n_sent);
    assert_int_equal(count(COUNTER_ACKS), n_sent);
    end_successor();
}

/* What waits to be written, and frames that were held back, go on by themselves. */
static void adopted_with_nothing_more_to_read(void **context)
{
    (void)context;
    uint8_t frame[256];
    int fds[2];
    struct handover *handover = calloc(1, sizeof(*handover));
    size_t len = spop_client_put_notify(frame, sizeof(frame), 7, "k", 0);
    assert_non_null(handover);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client.fd = fds[1];
    client.len = 0;
    f.gone.n_open = 1;
    spop_session_init(&handover->session);
    handover->fd = fds[0];
    handover->session.state = SPOP_SESSION_OPEN;
    handover->session.frame_bytes_max = 16380;
    handover->session.receive_bytes_max = 16380;
    handover->in = (struct spop_bytes){.ptr = frame, .len = len};
    handover->out = (struct spop_bytes){.ptr = frame, .len = len};
    connection_adopt(&f.worker, handover);
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(client.frame_len, len);
    assert_memory_equal(client.frame, frame, len);
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    assert_int_equal(client.frame[9], 7);
}

/* Not in the middle of it, but as soon as it is whole. */
static void handed_over_when_fragments_are_whole(void **context)
{
    (void)context;
    uint8_t last[64];
    uint8_t frame[256];
    int ends[2];
    open_connection();
    say_hello();
    size_t len = send_all_but_the_last(last);
    begin_handing_over(ends);
    assert_false(connection_hand_over(f.worker.connections));
    assert_true(spop_client_send(&client, last, len));
    turn();
    assert_true(has_all_buffers());
    adopt(ends);
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
    len = spop_client_put_notify(frame, sizeof(frame), 2, "k", 0);
    assert_true(spop_client_send(&client, frame, len));
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(client.frame[9], 2);
    end_successor();
}

/* What is left of a NOTIFY that was refused is swallowed by the successor. */
static void handed_over_while_fragments_are_swallowed(void **context)
{
    (void)context;
    uint8_t *taken[REASSEMBLY_BUFFERS_MAX];
    uint8_t last[64];
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        taken[i] = reassembly_take(f.worker.reassembly);
    }
    open_connection();
    say_hello();
    size_t len = send_all_but_the_last(last);
    assert_true(spop_client_receive(&client));
    hand_over();
    len += spop_client_put_notify(last + len, sizeof(last) - len, 2, "k", 0);
    assert_true(spop_client_send(&client, last, len));
    turn();
    assert_true(spop_client_receive(&client));
    assert_int_equal(client.frame[8], SPOP_FLAG_FIN);
    assert_int_equal(client.frame[9], 2);
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        reassembly_give(f.worker.reassembly, taken[i]);
    }
    end_successor();
}

static void what_ends_ends_here(void **context)
{
    (void)context;
    int ends[2];
    open_connection();
    say_hello();
    check_at(CONNECTION_IDLE_US + US_PER_S);
    begin_handing_over(ends);
    assert_true(connection_hand_over(f.worker.connections));
    assert_non_null(f.worker.connections);
    assert_false(channel_wait(ends[1], POLLIN, 0));
    expect_disconnect(SPOP_CODE_NORMAL);
    f.worker.is_handing_over = false;
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* Nobody takes what is in the channel, or nobody is there: served on. */
static void served_on_where_it_cannot_go(void **context)
{
    (void)context;
    int ends[2];
    uint8_t frame[256];
    static uint8_t filling[32768];
    struct iovec part = {.iov_base = filling, .iov_len = sizeof(filling)};
    open_connection();
    say_hello();
    begin_handing_over(ends);
    while (channel_send(ends[0], CHANNEL_COUNTERS, &part, 1, -1) == CHANNEL_OK) {
    }
    for (uint8_t id = 1; id <= 2; id++) {
        assert_false(connection_hand_over(f.worker.connections));
        size_t len = spop_client_put_notify(frame, sizeof(frame), id, "k", 0);
        assert_true(spop_client_send(&client, frame, len));
        turn();
        assert_true(spop_client_receive(&client));
        assert_int_equal(client.frame[9], id);
        (void)close(ends[1]);
        ends[1] = -1;
    }
    f.worker.is_handing_over = false;
    (void)close(ends[0]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(silence_before_hello),
        TEST(half_a_frame),
        TEST(acks_come_before_a_disconnect),
        TEST(acks_come_before_a_complaint),
        TEST(fragments_are_answered_once_whole),
        TEST(fragments_without_an_end),
        TEST(a_connection_that_goes_gives_its_buffer_back),
        TEST(fragments_given_up_are_forgotten),
        TEST(without_a_buffer_fragments_are_refused),
        TEST(whole_frames_are_not_half_ones),
        TEST(idle_is_no_error),
        TEST(linger_ends),
        TEST(peer_that_never_reads),
        TEST(drain_waits_for_quiet),
        TEST(drain_reads_as_long_as_it_says),
        TEST(drain_ends_for_everybody),
        TEST(handed_over_in_the_middle_of_a_frame),
        TEST(handed_over_before_hello),
        TEST(handed_over_with_unsent_output),
        TEST(adopted_with_nothing_more_to_read),
        TEST(handed_over_when_fragments_are_whole),
        TEST(handed_over_while_fragments_are_swallowed),
        TEST(what_ends_ends_here),
        TEST(served_on_where_it_cannot_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
