/* server.c, worker.c and connection.c over real sockets. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "spop/cursor.h"
#include "spop/frame.h"

#include "agent/net/server.h"
#include "agent/net/worker.h"
#include "agent/store/local.h"

#include "tests/support/decoded_ack.h"
#include "tests/support/loop_thread.h"
#include "tests/support/prng.h"
#include "tests/support/spop_client.h"

enum {
    WORKERS = 2,
    CONNECTIONS_MAX = 20,
    SENT = 20000
};

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 100000000, per: 60s }\n";

static struct {
    char dir[32];
    char path[64];
    struct loop_thread main_loop;
    struct decide_options options;
    struct decide_set *set;
    struct store *store;
    struct counters *counters[WORKERS];
    struct server *server;
    bool is_stopped;
} f;

static _Atomic bool has_faulty_writes;
static _Atomic uint64_t write_fault;
static pthread_mutex_t write_gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_gated; /* writers wait for the gate */
static _Atomic bool is_at_gate;

/* In place of the C library's: what the agent writes (without waiting) may be taken in
 * part, or not now, as if the peer had not read; or it stands still in the middle. */
ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    if (is_gated && (flags & MSG_DONTWAIT) != 0) {
        is_at_gate = true;
        (void)pthread_mutex_lock(&write_gate);
        (void)pthread_mutex_unlock(&write_gate);
    }
    if (has_faulty_writes && (flags & MSG_DONTWAIT) != 0) {
        struct prng prng;
        prng_init(&prng, write_fault++);
        if (prng_below(&prng, 2) == 0) {
            errno = EAGAIN;
            return -1;
        }
        size_t most = prng_below(&prng, 40000) + 1;
        len = len < most ? len : most;
    }
    return sendto(fd, buf, len, flags, NULL, 0);
}

static struct spop_client client;
static struct spop_client others[CONNECTIONS_MAX];

static bool make_parts(void)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    static struct rules_diags diags;
    rules_diags_init(&diags, "test.yaml");
    struct rules_bytes text = {.ptr = (const uint8_t *)rules_text,
                               .len = strlen(rules_text)};
    struct rules_set *rules = rules_load(&(struct rules_source){.name = "test.yaml",
                                                                .text = text},
                                         &diags);
    f.set = rules != NULL ? decide_set_new(rules, "rl") : NULL;
    f.store = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, secret);
    /* all of them: answers larger than questions fill the output first */
    decide_options_init(&f.options, VARIABLE_BIT(VARIABLES_N) - 1);
    for (int i = 0; i < WORKERS; i++) {
        f.counters[i] = counters_new(1);
    }
    return f.set != NULL && f.store != NULL;
}

static int set_up(void **context)
{
    (void)context;
    struct address address;
    char text[80];
    char error[ADDRESS_ERROR_BYTES_MAX];
    memset(&f, 0, sizeof(f));
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_server.XXXXXX");
    if (mkdtemp(f.dir) == NULL || !make_parts()) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/s", f.dir);
    (void)snprintf(text, sizeof(text), "unix@%s", f.path);
    if (!loop_thread_init(&f.main_loop) || !address_parse(&address, text, error)) {
        return 1;
    }
    struct server_options options = {
        .n_workers = WORKERS,
        .connections_max = CONNECTIONS_MAX,
        .n_addresses = 1,
        .addresses = &address,
        .set = f.set,
        .store = f.store,
        .decide_options = &f.options,
        .counters = f.counters,
    };
    f.server = server_start(f.main_loop.loop, &options);
    return f.server == NULL || !loop_thread_start(&f.main_loop);
}

/* Stop the main loop, then drain; the workers end by themselves. */
static void stop_server(void)
{
    if (f.is_stopped) {
        return;
    }
    f.is_stopped = true;
    loop_thread_stop(&f.main_loop);
    server_stop(f.server);
}

static uint64_t sum(enum counter counter)
{
    return counter_get(f.counters[0], counter) + counter_get(f.counters[1], counter);
}

static int tear_down(void **context)
{
    (void)context;
    stop_server();
    server_free(f.server);
    loop_thread_fini(&f.main_loop);
    bool adds_up = sum(COUNTER_NOTIFIES)
                   == sum(COUNTER_ACKS) + sum(COUNTER_NOTIFIES_MALFORMED)
                          + sum(COUNTER_NOTIFIES_ABORTED)
                          + sum(COUNTER_NOTIFIES_ORPHANED);
    for (int i = 0; i < WORKERS; i++) {
        counters_free(f.counters[i]);
    }
    store_free(f.store);
    decide_set_free(f.set);
    return rmdir(f.dir) != 0 || !adds_up; /* the socket is gone */
}

static void send_notify(struct spop_client *c, uint64_t stream_id)
{
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), stream_id, "k", 0);
    assert_true(spop_client_send(c, frame, len));
}

static void expect_ack(struct spop_client *c, uint64_t stream_id)
{
    static struct decoded_ack ack;
    assert_true(spop_client_receive(c));
    struct spop_bytes frame = {.ptr = c->frame, .len = c->frame_len};
    assert_true(decoded_ack_read(&ack, frame));
    assert_int_equal(ack.stream_id, stream_id);
    assert_int_equal(decoded_ack_number(&ack, "deny"), 0);
}

static void expect_disconnect(struct spop_client *c, uint8_t code)
{
    assert_true(spop_client_receive(c));
    assert_int_equal(spop_client_frame_type(c), SPOP_FRAME_AGENT_DISCONNECT);
    static const char name[] = "status-code";
    const uint8_t *at = memmem(c->frame, c->frame_len, name, sizeof(name) - 1);
    assert_non_null(at);
    assert_int_equal(at[sizeof(name) - 1], 3); /* UINT32 */
    assert_int_equal(at[sizeof(name)], code);
    assert_true(spop_client_at_eof(c));
}

static void answers_each_notify_once_in_its_place(void **context)
{
    (void)context;
    static const uint64_t ids[] = {0,          1,          239,        240,
                                   2287,       2288,       1ULL << 31, 1ULL << 32,
                                   1ULL << 53, 1ULL << 63, UINT64_MAX};
    assert_true(spop_client_open(&client, f.path));
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        send_notify(&client, ids[i]);
        expect_ack(&client, ids[i]);
    }
    spop_client_close(&client);
}

static void hello_and_notify_in_one_segment(void **context)
{
    (void)context;
    uint8_t bytes[1024];
    size_t len = spop_client_put_hello(bytes, sizeof(bytes), 16380, false);
    len += spop_client_put_notify(bytes + len, sizeof(bytes) - len, 5, "k", 0);
    assert_true(spop_client_connect(&client, f.path));
    assert_true(spop_client_send(&client, bytes, len));
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_AGENT_HELLO);
    expect_ack(&client, 5);
    spop_client_close(&client);
}

static void byte_by_byte(void **context)
{
    (void)context;
    uint8_t bytes[1024];
    size_t len = spop_client_put_hello(bytes, sizeof(bytes), 16380, false);
    len += spop_client_put_notify(bytes + len, sizeof(bytes) - len, 5, "k", 0);
    assert_true(spop_client_connect(&client, f.path));
    for (size_t i = 0; i < len; i++) {
        assert_true(spop_client_send(&client, &bytes[i], 1));
        usleep(100);
    }
    assert_true(spop_client_receive(&client));
    expect_ack(&client, 5);
    spop_client_close(&client);
}

/* The largest frame HAProxy announced, cut anywhere; also beyond the first buffer. */
static void largest_frames(void **context)
{
    (void)context;
    static uint8_t bytes[2 * SPOP_CLIENT_FRAME_BYTES_MAX];
    struct spop_writer w;
    static const uint32_t sizes[] = {16380, SPOP_FRAME_SIZE_MAX};
    for (int i = 0; i < 2; i++) {
        size_t len = spop_client_put_hello(bytes, sizeof(bytes), sizes[i], false);
        assert_true(spop_client_connect(&client, f.path));
        assert_true(spop_client_send(&client, bytes, len));
        assert_true(spop_client_receive(&client));
        size_t bare = spop_client_put_notify(bytes, sizeof(bytes), 9, "k", 3000);
        size_t pad = 3000 + sizes[i] + SPOP_PREFIX_BYTES - bare;
        len = spop_client_put_notify(bytes, sizeof(bytes), 9, "k", pad);
        assert_int_equal(len, SPOP_PREFIX_BYTES + sizes[i]);
        assert_true(spop_client_send(&client, bytes, len));
        expect_ack(&client, 9);
        spop_writer_init(&w, bytes, sizeof(bytes));
        spop_write_be32(&w, sizes[i] + 1);
        assert_true(spop_client_send(&client, bytes, w.len));
        expect_disconnect(&client, SPOP_CODE_TOO_BIG);
        spop_client_close(&client);
    }
}

/* More than the frame size, in fragments of the largest frame; then more than is put
 * together. */
static void fragments_over_the_frame_size(void **context)
{
    (void)context;
    enum {
        FRAME_SIZE = 16380,
        PAYLOAD = FRAME_SIZE - 16,
        ROOM = 2 * SPOP_REASSEMBLY_BYTES_MAX
    };
    static uint8_t notify[ROOM];
    static uint8_t bytes[ROOM];
    size_t bare = spop_client_put_notify(notify, sizeof(notify), 7, "k", 3000)
                  - (SPOP_PREFIX_BYTES + SPOP_FRAME_BYTES_MIN) - 3000;
    size_t pad = SPOP_REASSEMBLY_BYTES_MAX - bare;
    assert_true(spop_client_open(&client, f.path));
    for (size_t more = 0; more < 2; more++) {
        size_t len = spop_client_put_notify(notify, sizeof(notify), 7, "k", pad + more);
        len = spop_client_put_fragments(bytes, sizeof(bytes), notify, len, PAYLOAD);
        assert_true(spop_client_send(&client, bytes, len));
        assert_true(spop_client_receive(&client));
        assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
        assert_int_equal(client.frame[8],
                         SPOP_FLAG_FIN); /* the last one was too much */
        assert_int_equal(sum(COUNTER_NOTIFIES_WITHOUT_ROOM), more);
    }
    send_notify(&client, 8);
    expect_ack(&client, 8);
    assert_int_equal(sum(COUNTER_NOTIFIES), 3);
    assert_int_equal(sum(COUNTER_NOTIFIES_FRAGMENTED), 1);
    assert_int_equal(sum(COUNTER_REQUESTS_ALLOWED), 2);
    assert_int_equal(sum(COUNTER_ACKS), 3);
    spop_client_close(&client);
}

static void thousand_pipelined(void **context)
{
    (void)context;
    static uint8_t bytes[256 * 1000];
    size_t len = 0;
    assert_true(spop_client_open(&client, f.path));
    for (uint64_t i = 0; i < 1000; i++) {
        len += spop_client_put_notify(bytes + len, sizeof(bytes) - len, i, "k", 0);
    }
    assert_true(spop_client_send(&client, bytes, len));
    for (uint64_t i = 0; i < 1000; i++) {
        expect_ack(&client, i);
    }
    assert_int_equal(sum(COUNTER_NOTIFIES), 1000);
    assert_int_equal(sum(COUNTER_ACKS), 1000);
    spop_client_close(&client);
}

static void *send_many(void *arg)
{
    struct spop_client *c = arg;
    uint8_t frame[256];
    for (uint64_t i = 0; i < SENT; i++) {
        size_t len = spop_client_put_notify(frame, sizeof(frame), i, "k", 0);
        if (!spop_client_send(c, frame, len)) {
            break;
        }
    }
    return NULL;
}

/* A peer that sends without reading is not read from, and disturbs nobody; once it reads
 * it gets every answer. */
static void slow_reader_is_held_back_and_loses_nothing(void **context)
{
    (void)context;
    pthread_t sender;
    assert_true(spop_client_open(&client, f.path));
    assert_int_equal(pthread_create(&sender, NULL, send_many, &client), 0);
    uint64_t before = 0;
    do { /* until the agent has stopped reading */
        before = sum(COUNTER_NOTIFIES);
        usleep(100000);
    } while (before == 0 || sum(COUNTER_NOTIFIES) != before);
    assert_true(before < SENT);
    for (int i = 0; i < 4; i++) { /* on both workers */
        assert_true(spop_client_open(&others[i], f.path));
        send_notify(&others[i], 77);
        expect_ack(&others[i], 77);
        spop_client_close(&others[i]);
    }
    for (uint64_t i = 0; i < SENT; i++) {
        expect_ack(&client, i);
    }
    assert_int_equal(pthread_join(sender, NULL), 0);
    spop_client_close(&client);
}

/* Writes stop and go on at every moment: nothing that is held back for want of room is
 * forgotten when the last of the output goes, and nothing is sent twice. In bursts, since
 * more input would wake what sleeps on. */
static void writes_that_stop_anywhere_lose_nothing(void **context)
{
    (void)context;
    enum {
        BURST = 700,
        BURSTS = 60
    };
    static uint8_t bytes[BURST * 128];
    size_t len = 0;
    for (uint64_t i = 0; i < BURST; i++) {
        uint8_t frame[128];
        size_t frame_len = spop_client_put_notify(frame, sizeof(frame), i, "k", 0);
        size_t part_bytes = i % 8 == 0 ? 9 : sizeof(frame); /* some in fragments */
        len += spop_client_put_fragments(bytes + len, sizeof(bytes) - len, frame,
                                         frame_len, part_bytes);
    }
    has_faulty_writes = true;
    assert_true(spop_client_open(&client, f.path));
    for (int burst = 0; burst < BURSTS; burst++) {
        assert_true(spop_client_send(&client, bytes, len));
        for (uint64_t i = 0; i < BURST; i++) {
            expect_ack(&client, i);
        }
    }
    has_faulty_writes = false;
    spop_client_close(&client);
}

static void health_check_is_hello_and_the_end(void **context)
{
    (void)context;
    uint8_t hello[512];
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, true);
    assert_true(spop_client_connect(&client, f.path));
    assert_true(spop_client_send(&client, hello, len));
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_AGENT_HELLO);
    assert_true(spop_client_at_eof(&client));
    assert_int_equal(sum(COUNTER_HEALTH_CHECKS), 1);
    spop_client_close(&client);
}

static void disconnect_is_answered_with_its_code(void **context)
{
    (void)context;
    uint8_t frame[128];
    size_t len = spop_client_put_disconnect(frame, sizeof(frame), 2);
    assert_true(spop_client_open(&client, f.path));
    send_notify(&client, 1);
    assert_true(spop_client_send(&client, frame, len));
    expect_ack(&client, 1);
    expect_disconnect(&client, SPOP_CODE_TIMEOUT);
    spop_client_close(&client);
}

static void what_is_no_spop_gets_its_answer(void **context)
{
    (void)context;
    static const struct {
        const char *bytes;
        size_t len;
        uint8_t code;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18, SPOP_CODE_TOO_BIG},
        {"\x16\x03\x01\x02\x00\x01", 6, SPOP_CODE_TOO_BIG},
        {"\x00\x00\x00\x00", 4, SPOP_CODE_INVALID},
        {"\x00\x00\x00\x06\x03\x00\x00\x00\x01\x00", 10, SPOP_CODE_INVALID},
        {"\x00\x00\x00\x07\x03\x00\x00\x00\x01\x01\x01", 11, SPOP_CODE_INVALID},
        {"\xff\xff\xff\xff", 4, SPOP_CODE_TOO_BIG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(spop_client_connect(&client, f.path));
        assert_true(
            spop_client_send(&client, (const uint8_t *)cases[i].bytes, cases[i].len));
        expect_disconnect(&client, cases[i].code);
        spop_client_close(&client);
    }
    assert_int_equal(sum(COUNTER_PROTOCOL_ERRORS), 6);
    assert_int_equal(sum(COUNTER_ACKS), 0);
}

static void malformed_notify_ends_its_connection_only(void **context)
{
    (void)context;
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    frame[SPOP_PREFIX_BYTES + 7 + 16] = 9; /* more arguments than there are */
    assert_true(spop_client_open(&client, f.path));
    assert_true(spop_client_open(&others[0], f.path));
    assert_true(spop_client_send(&client, frame, len));
    expect_disconnect(&client, SPOP_CODE_INVALID);
    send_notify(&others[0], 3);
    expect_ack(&others[0], 3);
    spop_client_close(&client);
    spop_client_close(&others[0]);
}

/* The DISCONNECT is readable although the peer goes on sending. */
static void disconnect_is_not_lost_to_a_reset(void **context)
{
    (void)context;
    static uint8_t junk[16384];
    assert_true(spop_client_connect(&client, f.path));
    junk[0] = 0xff;
    assert_true(spop_client_send(&client, junk, sizeof(junk)));
    (void)spop_client_send(&client, junk, sizeof(junk));
    expect_disconnect(&client, SPOP_CODE_TOO_BIG);
    spop_client_close(&client);
}

static void half_closed_peer_gets_its_answers(void **context)
{
    (void)context;
    assert_true(spop_client_open(&client, f.path));
    for (uint64_t i = 0; i < 20; i++) {
        send_notify(&client, i);
    }
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    for (uint64_t i = 0; i < 20; i++) {
        expect_ack(&client, i);
    }
    assert_true(spop_client_at_eof(&client));
    spop_client_close(&client);
}

static void wait_for_open(unsigned n)
{
    for (int i = 0; i < 1000 && server_n_open(f.server) != n; i++) {
        usleep(10000);
    }
    assert_int_equal(server_n_open(f.server), n);
}

static void vanished_peers_leave_nothing_behind(void **context)
{
    (void)context;
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    for (int i = 0; i < 200; i++) {
        bool is_open = i % 2 == 0 ? spop_client_open(&client, f.path)
                                  : spop_client_connect(&client, f.path);
        assert_true(is_open);
        (void)spop_client_send(&client, frame, (size_t)i % len);
        spop_client_close(&client);
    }
    wait_for_open(0);
    assert_int_equal(sum(COUNTER_CONNECTIONS_OPENED), sum(COUNTER_CONNECTIONS_CLOSED));
}

/* At the limit further connections wait in the backlog: none is accepted and closed. */
static void connections_beyond_the_limit_wait(void **context)
{
    (void)context;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        assert_true(spop_client_open(&others[i], f.path));
    }
    uint8_t hello[512];
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, false);
    assert_true(spop_client_connect(&client, f.path));
    assert_true(spop_client_send(&client, hello, len));
    uint8_t byte = 0;
    usleep(200000);
    assert_int_equal(recv(client.fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(server_n_open(f.server), CONNECTIONS_MAX);
    spop_client_close(&others[0]);
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_AGENT_HELLO);
    for (int i = 1; i < CONNECTIONS_MAX; i++) {
        spop_client_close(&others[i]);
    }
    spop_client_close(&client);
}

/* Out of descriptors: nobody is turned away, and it goes on when there are some. */
static void out_of_descriptors_and_back(void **context)
{
    (void)context;
    struct rlimit old;
    assert_true(spop_client_connect(&client, f.path));
    wait_for_open(1);
    assert_true(spop_client_connect(&others[0], f.path));
    wait_for_open(2);
    int lowest = dup(0);
    (void)close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit low = {.rlim_cur = (rlim_t)lowest + 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    bool is_connected = spop_client_connect(&others[1],
                                            f.path); /* takes the last one */
    usleep(300000);
    unsigned n_open = server_n_open(f.server);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(is_connected);
    assert_int_equal(n_open, 2);
    wait_for_open(3);
    spop_client_close(&client);
    spop_client_close(&others[0]);
    spop_client_close(&others[1]);
}

static void connections_go_to_all_workers(void **context)
{
    (void)context;
    for (int i = 0; i < 4; i++) {
        assert_true(spop_client_open(&others[i], f.path));
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(counter_get(f.counters[i], COUNTER_CONNECTIONS_OPENED), 2);
    }
    for (int i = 0; i < 4; i++) {
        spop_client_close(&others[i]);
    }
}

/* However slow the machine: workers turn in the end. */
static void wait_until_turning(void)
{
    do {
        (void)usleep(2 * WORKER_SWEEP_MS * 1000);
    } while (!server_is_turning(f.server));
}

static void worker_that_stands_still_is_seen(void **context)
{
    (void)context;
    assert_true(spop_client_open(&client, f.path));
    wait_until_turning();
    (void)pthread_mutex_lock(&write_gate);
    is_at_gate = false;
    is_gated = true;
    send_notify(&client, 1);
    while (!is_at_gate) {
        (void)usleep(1000);
    }
    bool is_turning[3];
    for (int i = 0; i < 3; i++) {
        is_turning[i] = server_is_turning(f.server);
        (void)usleep(2 * WORKER_SWEEP_MS * 1000); /* the other worker turns */
    }
    is_gated = false;
    (void)pthread_mutex_unlock(&write_gate);
    assert_false(is_turning[1]);
    assert_false(is_turning[2]);
    expect_ack(&client, 1);
    wait_until_turning();
    spop_client_close(&client);
}

static void drain_answers_then_disconnects(void **context)
{
    (void)context;
    assert_true(spop_client_open(&client, f.path));
    assert_true(spop_client_open(&others[0], f.path)); /* idle */
    for (uint64_t i = 0; i < 20; i++) {
        send_notify(&client, i);
    }
    stop_server();
    assert_false(spop_client_connect(&others[1], f.path));
    for (uint64_t i = 0; i < 20; i++) {
        expect_ack(&client, i);
    }
    expect_disconnect(&client, SPOP_CODE_NORMAL);
    expect_disconnect(&others[0], SPOP_CODE_NORMAL);
    spop_client_close(&client);
    spop_client_close(&others[0]);
}

/* What makes another server, in place of another process's. */
static struct {
    struct counters *counters[WORKERS]; /* in turns with f.counters */
    _Atomic unsigned n_handed_over;     /* times a server said so */
} g;

/* A server like the first, with the sockets of `inheritance`. */
static struct server *start_another(struct ev_loop *loop,
                                    struct inheritance *inheritance,
                                    struct counters *const *counters)
{
    struct address address;
    char text[80];
    char error[ADDRESS_ERROR_BYTES_MAX];
    (void)snprintf(text, sizeof(text), "unix@%s", f.path);
    assert_true(address_parse(&address, text, error));
    struct server_options options = {
        .n_workers = WORKERS,
        .connections_max = CONNECTIONS_MAX,
        .n_addresses = 1,
        .addresses = &address,
        .inheritance = inheritance,
        .set = f.set,
        .store = f.store,
        .decide_options = &f.options,
        .counters = counters,
    };
    struct server *server = server_start(loop, &options);
    assert_non_null(server);
    return server;
}

static void on_handed_over(void *context)
{
    (void)context;
    g.n_handed_over++;
}

static void wait_for_handed_over(unsigned n)
{
    for (int i = 0; i < 1000 && g.n_handed_over != n; i++) {
        usleep(10000);
    }
    assert_int_equal(g.n_handed_over, n);
}

static uint8_t packet_bytes[CHANNEL_BYTES_MAX];
static struct channel_packet packet;

static void receive(int channel_fd, enum channel_type type)
{
    assert_true(channel_wait(channel_fd, POLLIN, 10000));
    assert_int_equal(channel_receive(channel_fd, packet_bytes, sizeof(packet_bytes),
                                     &packet),
                     CHANNEL_OK);
    assert_int_equal(packet.type, type);
}

/* Another main loop in the place of the one there is; neither runs. */
static void replace_loop(struct loop_thread *next)
{
    loop_thread_fini(&f.main_loop);
    ev_async_stop(next->loop, &next->quit);
    f.main_loop = *next;
    ev_async_start(f.main_loop.loop, &f.main_loop.quit);
}

/* Another server in the place of f.server, with its socket and all its connections. */
static void succeed(struct counters *const *counters)
{
    static struct inheritance inheritance;
    struct loop_thread loop;
    int ends[2];
    unsigned n = server_n_open(f.server);
    assert_true(loop_thread_init(&loop));
    assert_true(channel_pair(ends));
    assert_int_equal(server_send_listeners(f.server, ends[0]), CHANNEL_OK);
    receive(ends[1], CHANNEL_LISTENER);
    assert_true(inheritance_receive(&inheritance, &packet, packet_bytes));
    struct server *successor = start_another(loop.loop, &inheritance, counters);
    inheritance_close(&inheritance, true);
    server_reserve(successor, n);
    g.n_handed_over = 0;
    assert_true(server_hand_over(f.server, ends[0], on_handed_over, NULL));
    for (unsigned i = 0; i < n; i++) {
        receive(ends[1], CHANNEL_CONNECTION);
        struct handover *handover = handover_receive(&packet, packet_bytes);
        assert_non_null(handover);
        server_adopt(successor, handover);
    }
    assert_true(loop_thread_start(&f.main_loop));
    wait_for_handed_over(1);
    loop_thread_stop(&f.main_loop);
    server_own_files(f.server, false);
    server_stop(f.server);
    server_free(f.server);
    f.server = successor;
    replace_loop(&loop);
    server_own_files(f.server, true);
    assert_int_equal(server_n_open(f.server), n);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

enum {
    ASKERS = 8,
    UPGRADES = 20
};

static _Atomic bool is_enough;

/* Two questions at a time; answers NULL when each had its ACK, in its place. */
static void *ask_on(void *arg)
{
    struct spop_client *c = arg;
    for (uint64_t i = 0; !is_enough; i = (i + 2) % 200) {
        uint8_t frames[256];
        size_t len = spop_client_put_notify(frames, sizeof(frames), i, "k", 0);
        len += spop_client_put_notify(frames + len, sizeof(frames) - len, i + 1, "k",
                                      0);
        bool ok = spop_client_send(c, frames, len);
        for (uint64_t id = i; ok && id < i + 2; id++) {
            ok = spop_client_receive(c) && spop_client_frame_type(c) == SPOP_FRAME_ACK
                 && c->frame[9] == id;
        }
        if (!ok) {
            return c;
        }
    }
    return NULL;
}

static void connections_change_servers_and_lose_nothing(void **context)
{
    (void)context;
    pthread_t threads[ASKERS];
    is_enough = false;
    for (int i = 0; i < ASKERS; i++) {
        assert_true(spop_client_open(&others[i], f.path));
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &others[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        g.counters[i] = counters_new(1);
        assert_non_null(g.counters[i]);
    }
    loop_thread_stop(&f.main_loop);
    for (int i = 0; i < UPGRADES; i++) {
        succeed(i % 2 == 0 ? g.counters : f.counters);
        usleep(2000);
    }
    is_enough = true;
    for (int i = 0; i < ASKERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
        spop_client_close(&others[i]);
    }
    assert_int_equal(sum(COUNTER_CONNECTIONS_OPENED), ASKERS * (1 + UPGRADES / 2));
    assert_true(loop_thread_start(&f.main_loop));
    wait_for_open(0);
    assert_true(spop_client_open(&client, f.path)); /* the socket is the same */
    spop_client_close(&client);
    for (int i = 0; i < WORKERS; i++) {
        counters_free(g.counters[i]);
    }
}

/* Nobody is there to take them: they are served on, and new ones are accepted. */
static void called_off_it_serves_on(void **context)
{
    (void)context;
    int ends[2];
    assert_true(spop_client_open(&client, f.path));
    loop_thread_stop(&f.main_loop);
    assert_true(channel_pair(ends));
    (void)close(ends[1]);
    g.n_handed_over = 0;
    assert_true(server_hand_over(f.server, ends[0], on_handed_over, NULL));
    assert_true(loop_thread_start(&f.main_loop));
    assert_true(spop_client_connect(&others[0], f.path)); /* waits in the backlog */
    usleep(100000);
    assert_int_equal(server_n_open(f.server), 1);
    send_notify(&client, 1);
    expect_ack(&client, 1);
    loop_thread_stop(&f.main_loop);
    assert_int_equal(g.n_handed_over, 0);
    server_keep(f.server);
    assert_true(loop_thread_start(&f.main_loop));
    wait_for_open(2);
    send_notify(&client, 2);
    expect_ack(&client, 2);
    (void)close(ends[0]);
    spop_client_close(&client);
    spop_client_close(&others[0]);
}

/* Room for those that another process will bring is left: others wait. */
static void reserved_room_is_left(void **context)
{
    (void)context;
    loop_thread_stop(&f.main_loop);
    server_reserve(f.server, CONNECTIONS_MAX - 1);
    assert_true(loop_thread_start(&f.main_loop));
    assert_true(spop_client_open(&client, f.path));
    assert_true(spop_client_connect(&others[0], f.path));
    usleep(100000);
    assert_int_equal(server_n_open(f.server), 1);
    loop_thread_stop(&f.main_loop);
    server_reserve(f.server, 0);
    assert_true(loop_thread_start(&f.main_loop));
    wait_for_open(2);
    spop_client_close(&client);
    spop_client_close(&others[0]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(answers_each_notify_once_in_its_place),
        TEST(hello_and_notify_in_one_segment),
        TEST(byte_by_byte),
        TEST(largest_frames),
        TEST(fragments_over_the_frame_size),
        TEST(thousand_pipelined),
        TEST(slow_reader_is_held_back_and_loses_nothing),
        TEST(writes_that_stop_anywhere_lose_nothing),
        TEST(health_check_is_hello_and_the_end),
        TEST(disconnect_is_answered_with_its_code),
        TEST(what_is_no_spop_gets_its_answer),
        TEST(malformed_notify_ends_its_connection_only),
        TEST(disconnect_is_not_lost_to_a_reset),
        TEST(half_closed_peer_gets_its_answers),
        TEST(vanished_peers_leave_nothing_behind),
        TEST(connections_beyond_the_limit_wait),
        TEST(out_of_descriptors_and_back),
        TEST(connections_go_to_all_workers),
        TEST(worker_that_stands_still_is_seen),
        TEST(drain_answers_then_disconnects),
        TEST(connections_change_servers_and_lose_nothing),
        TEST(called_off_it_serves_on),
        TEST(reserved_room_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
