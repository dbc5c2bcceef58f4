/* What takes its time: the timers on a real socket, and checks by the million. Timers are
 * asked for no sooner than they may; by when they must is for test_connection.c, whose
 * clock is driven. SCALE=n makes the large numbers n times as large, or 0.1 a tenth. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/mixed.h"

enum {
    HELLO_MS = 5000,
    FRAME_MS = 5000,
    WRITE_MS = 10000,
    SLACK_MS = 20, /* of two clocks */
    CROWD = 10000,
    CREEPERS = 1000,
    CONNECTIONS_MAX = 4096, /* the agent's */
};

static int crowd[CROWD];

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* How many of a check's large number. */
static uint64_t scaled(uint64_t n)
{
    const char *text = getenv("SCALE"); /* NOLINT(concurrency-mt-unsafe) */
    double scale = text != NULL ? strtod(text, NULL) : 1;
    return (uint64_t)((double)n * scale);
}

static void print_seed(struct prng *prng, uint64_t fallback)
{
    uint64_t seed = prng_seed(fallback);
    prng_init(prng, seed);
    (void)printf("SEED=%ju\n", (uintmax_t)seed);
}

/* Wait, asking as the bystander, until something is to be read on `fd`. */
static void wait_readable(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    while (poll(&readable, 1, 100) == 0) {
        bystander_ask();
    }
}

static void expect_time_out(struct spop_client *c, int64_t since_ms, int64_t after_ms)
{
    wait_readable(c->fd);
    assert_true(now_ms() - since_ms >= after_ms - SLACK_MS);
    expect_disconnect(c, WIRE_TIMEOUT);
}

static void check_20_silence_is_ended_by_the_hello_timer(void **state)
{
    (void)state;
    int64_t since_ms = now_ms();
    peer_connect_tcp(&peers[0]);
    expect_time_out(&peers[0], since_ms, HELLO_MS);
    assert_int_equal(log_lines(), 1);
    assert_int_equal(log_lines_at("debug: "), 1);
}

/* The whole number is looked at like the fast one of ack.c. */
static void check_55_a_million_notifies(void **state)
{
    (void)state;
    struct prng prng;
    print_seed(&prng, 1055);
    peer_open(&peers[0]);
    for (uint64_t left = scaled(1000000); left >= 50000; left -= 50000) {
        mixed_ask(&peers[0], &prng, 50000);
        bystander_ask();
    }
}

static void check_59_who_never_reads_is_closed(void **state)
{
    (void)state;
    ssize_t n = 1;
    peer_open(&peers[0]);
    assert_int_equal(fcntl(peers[0].fd, F_SETFL, O_NONBLOCK), 0);
    for (uint64_t i = 0; i < 1000; i++) {
        wire_notify(&wire, i, 1, "k59");
    }
    static struct wire questions;
    wire_bytes(&questions, wire.bytes, wire.len);
    int64_t since_ms = now_ms();
    for (int quiet = 0; n > 0 || errno == EAGAIN; quiet++) {
        n = send(peers[0].fd, questions.bytes, questions.len, MSG_NOSIGNAL);
        (void)usleep(20000);
        if (quiet % 10 == 0) {
            bystander_ask();
        }
    }
    assert_true(now_ms() - since_ms >= WRITE_MS - SLACK_MS);
}

static void check_66_unfinished_fragments_are_ended_by_the_frame_timer(void **state)
{
    (void)state;
    int64_t since_ms = now_ms();
    peer_open(&peers[0]);
    wire_notify(&wire, 1, 1, "k66");
    wire_set_flags(&wire, 0);
    peer_send(&peers[0]);
    expect_time_out(&peers[0], since_ms, FRAME_MS);
}

/* Longer than any other timer; that the idle one ends it after 5 minutes with D 0 is
 * shown by test_connection.c. */
static void check_77_idle_connections_stay(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    (void)ask(&peers[0], "k77");
    (void)usleep(12000000);
    expect_nothing(&peers[0]);
    (void)ask(&peers[0], "k77");
}

/* A connection without waiting for room in the backlog; -1 when there is none. */
static int connect_now(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", f.agent.socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&un, sizeof(un)) != 0) {
        assert_int_equal(errno, EAGAIN);
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Say HELLO on all that can connect. */
static int fill_crowd(int from)
{
    int i = from;
    wire_clear();
    wire_hello(&wire);
    for (; i < CROWD && (crowd[i] = connect_now()) >= 0; i++) {
        assert_int_equal(send(crowd[i], wire.bytes, wire.len, MSG_NOSIGNAL),
                         (ssize_t)wire.len);
    }
    return i;
}

/* The next in the crowd is answered like anybody else, then leaves. */
static void serve_one(int fd)
{
    peers[0].fd = fd;
    peers[0].len = 0;
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    (void)expect_hello(&peers[0]);
    (void)ask(&peers[0], "crowd");
    peer_close(&peers[0]);
}

/* At its limit the agent lets connections wait, in the backlog and before it: nobody is
 * told to go away, and everybody is served when others have left. */
static void check_78_ten_thousand_connections(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < CROWD + 100) {
        (void)printf("only %ju descriptors are allowed\n", (uintmax_t)limit.rlim_max);
        skip();
    }
    allow_memory_of(CONNECTIONS_MAX);
    int n_connected = fill_crowd(0);
    wait_for_metric("connections", CONNECTIONS_MAX);
    (void)printf("%d connected at once\n", n_connected);
    bystander_ask();
    for (int i = 0; i < CROWD; i++) {
        if (i == n_connected) {
            n_connected = fill_crowd(i);
        }
        serve_one(crowd[i]);
        if (i % 500 == 0) {
            n_connected = fill_crowd(n_connected);
            bystander_ask();
        }
    }
}

/* What HAProxy does when a backend is declared in the wrong order: a connection a
 * question, ended by a reset. As fast as one thread can, for a minute. */
static void check_80_a_connection_for_each_question(void **state)
{
    (void)state;
    uint64_t n = 0;
    int64_t since_ms = now_ms();
    int64_t until_ms = since_ms + (int64_t)scaled(60000);
    allow_memory_of(100);
    for (; now_ms() < until_ms; n++) {
        peer_connect_tcp(&peers[0]);
        wire_clear();
        wire_hello(&wire);
        wire_notify(&wire, 1, 1, "k80");
        peer_send(&peers[0]);
        (void)expect_hello(&peers[0]);
        expect_allowed(&peers[0], 1, 1);
        peer_reset(&peers[0]);
        if (n % 10000 == 0) {
            bystander_ask();
        }
    }
    (void)printf("%ju connections in %jd ms\n", (uintmax_t)n,
                 (intmax_t)(now_ms() - since_ms));
}

/* Read until the end; whatever comes. */
static void drain(struct spop_client *c)
{
    static uint8_t bytes[65536];
    while (recv(c->fd, bytes, sizeof(bytes), 0) > 0) {
    }
}

/* Most frames are good, so that the bad one at the end of each batch meets an agent at
 * work. */
static void check_81_ten_million_frames(void **state)
{
    (void)state;
    enum {
        BATCH = 250
    };
    struct prng prng;
    print_seed(&prng, 81);
    allow_memory_of(100);
    uint64_t n_batches = scaled(10000000) / BATCH;
    for (uint64_t batch = 0; batch < n_batches; batch++) {
        peer_open(&peers[0]);
        for (uint64_t i = 1; i < BATCH; i++) {
            mixed_put(&prng, i);
        }
        size_t last = wire.len;
        mixed_put(&prng, 0);
        for (uint64_t i = prng_below(&prng, 8); i > 0; i--) {
            wire.bytes[last + prng_below(&prng, wire.len - last)] = (uint8_t)prng_next(
                &prng);
        }
        peer_send(&peers[0]);
        assert_int_equal(shutdown(peers[0].fd, SHUT_WR), 0);
        drain(&peers[0]);
        peer_close(&peers[0]);
        if (batch % 1000 == 0) {
            bystander_ask();
        }
    }
}

/* A thousand that send a byte now and then: ended when their HELLO is late. */
static void check_83_slow_loris(void **state)
{
    (void)state;
    static struct wire hello;
    hello.len = 0;
    wire_hello(&hello);
    allow_memory_of(CREEPERS);
    int64_t since_ms = now_ms();
    for (int i = 0; i < CREEPERS; i++) {
        peer_connect(&peers[0]);
        crowd[i] = peers[0].fd;
        peers[0].fd = -1;
    }
    for (int i = 0; i < 4; i++) { /* a byte now and then, and questions meanwhile */
        for (int j = 0; j < 5; j++) {
            bystander_ask();
            (void)usleep(100000);
        }
        for (int j = 0; j < CREEPERS; j++) {
            assert_int_equal(send(crowd[j], hello.bytes + i, 1, MSG_NOSIGNAL), 1);
        }
    }
    for (int i = 0; i < CREEPERS; i++) {
        peers[0].fd = crowd[i];
        peers[0].len = 0;
        wait_readable(crowd[i]);
        expect_disconnect(&peers[0], WIRE_TIMEOUT);
        peer_close(&peers[0]);
    }
    assert_true(now_ms() - since_ms >= HELLO_MS - SLACK_MS);
}

/* The same within a NOTIFY. */
static void check_83_slow_loris_after_hello(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    wire_notify(&wire, 1, 1, "k83");
    int64_t since_ms = now_ms();
    for (int i = 0; i < 4; i++) {
        peer_send_part(&peers[0], (size_t)i, (size_t)i + 1);
        (void)usleep(500000);
    }
    expect_time_out(&peers[0], since_ms, FRAME_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_20_silence_is_ended_by_the_hello_timer),
        CHECK(check_55_a_million_notifies),
        CHECK(check_59_who_never_reads_is_closed),
        CHECK(check_66_unfinished_fragments_are_ended_by_the_frame_timer),
        CHECK(check_77_idle_connections_stay),
        CHECK(check_78_ten_thousand_connections),
        CHECK(check_80_a_connection_for_each_question),
        CHECK(check_81_ten_million_frames),
        CHECK(check_83_slow_loris),
        CHECK(check_83_slow_loris_after_hello),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
