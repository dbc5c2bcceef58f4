/* upgrade.c with successors that behave in all ways: this program, started once more. And
 * takeover.c, with the test as the agent before. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/control/takeover.h"

#include "tests/support/spop_client.h"

/* NOLINTBEGIN(concurrency-mt-unsafe): the environment is the main thread's */

enum {
    CONNECTIONS_MAX = 20,
    COUNTERS = 1000, /* more than one block of an image */
    CLOCK_OFFSET_US = 1234567
};

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 1000, per: 1h }\n";

static const uint8_t store_secret[LOCAL_SECRET_BYTES] = {1, 2, 3};
static const uint8_t jitter_secret[RETRY_SECRET_BYTES] = {4, 5, 6};

static struct {
    char dir[32];
    char path[64];
    char text[80];
    struct ev_loop *loop;
    struct address address;
    struct decide_options options;
    struct decide_set *set;
    struct store *store;
    struct counters *counters[2]; /* of the one worker, and of this thread */
    struct server *server;
    struct upgrade upgrade;
    unsigned n_sendings;
    unsigned n_over;
    int ends[2]; /* of a channel that a test speaks through by itself */
} f;

static uint8_t buf[CHANNEL_BYTES_MAX];
static struct channel_packet packet;
static struct spop_client client;
static struct spop_client other;

/* How far the clocks are ahead: nobody waits here for seconds to pass. */
static _Atomic int64_t ahead_s;

/* In place of libc's, for libev too. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    long rc = syscall(SYS_clock_gettime, id, ts);
    ts->tv_sec += ahead_s;
    return (int)rc;
}

static void on_sending(void *context)
{
    assert_ptr_equal(context, &f);
    f.n_sendings++;
}

static void on_over(void *context)
{
    assert_ptr_equal(context, &f);
    f.n_over++;
}

static bool start_server(struct inheritance *inheritance)
{
    struct server_options options = {
        .n_workers = 1,
        .connections_max = CONNECTIONS_MAX,
        .n_addresses = 1,
        .addresses = &f.address,
        .inheritance = inheritance,
        .set = f.set,
        .store = f.store,
        .decide_options = &f.options,
        .counters = f.counters,
    };
    f.server = server_start(f.loop, &options);
    return f.server != NULL;
}

static bool make_parts(void)
{
    static struct rules_diags diags;
    char error[ADDRESS_ERROR_BYTES_MAX];
    rules_diags_init(&diags, "test.yaml");
    struct rules_bytes text = {.ptr = (const uint8_t *)rules_text,
                               .len = strlen(rules_text)};
    struct rules_set *rules = rules_load(&(struct rules_source){.name = "test.yaml",
                                                                .text = text},
                                         &diags);
    f.set = rules != NULL ? decide_set_new(rules, "rl") : NULL;
    f.store = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, store_secret);
    decide_options_init(&f.options, VARIABLE_BIT(VARIABLES_N) - 1);
    f.counters[0] = counters_new(1);
    f.counters[1] = counters_new(1);
    return f.set != NULL && f.store != NULL && f.counters[0] != NULL
           && f.counters[1] != NULL && address_parse(&f.address, f.text, error);
}

static int set_up(void **context)
{
    (void)context;
    memset(&f, 0, sizeof(f));
    f.ends[0] = -1;
    f.ends[1] = -1;
    client.fd = -1;
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_upgrade.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/s", f.dir);
    (void)snprintf(f.text, sizeof(f.text), "unix@%s", f.path);
    f.loop = ev_default_loop(EVFLAG_NOENV);
    return f.loop == NULL || !make_parts();
}

static void stop_server(void)
{
    if (f.server != NULL) {
        server_stop(f.server);
        server_free(f.server);
        f.server = NULL;
    }
}

static int tear_down(void **context)
{
    (void)context;
    spop_client_close(&client);
    stop_server();
    for (int i = 0; i < 2; i++) {
        counters_free(f.counters[i]);
        if (f.ends[i] >= 0) {
            (void)close(f.ends[i]);
        }
    }
    store_free(f.store);
    decide_set_free(f.set);
    return rmdir(f.dir); /* the socket is gone */
}

static void turn(void)
{
    for (int i = 0; i < 5; i++) {
        ev_run(f.loop, EVRUN_NOWAIT);
        usleep(1000);
    }
}

/* A NOTIFY, and its ACK. */
static void ask(void)
{
    uint8_t frame[256];
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    assert_true(spop_client_send(&client, frame, len));
    assert_true(spop_client_receive(&client));
    assert_int_equal(spop_client_frame_type(&client), SPOP_FRAME_ACK);
}

/* ---- the agent that is replaced ---- */

/* How a successor behaves: an argument of this program. */
static const char be_successor[] = "--successor";

static int channel_in_environment(void)
{
    const char *text = getenv(PROGRAM_CHANNEL_VARIABLE);
    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

static bool is_right_hello(void)
{
    struct upgrade_hello hello;
    if (packet.len != sizeof(hello)) {
        return false;
    }
    memcpy(&hello, buf, sizeof(hello));
    return hello.version == UPGRADE_VERSION && hello.n_listeners == 1
           && memcmp(hello.store_secret, store_secret, sizeof(store_secret)) == 0
           && memcmp(hello.jitter_secret, jitter_secret, sizeof(jitter_secret)) == 0
           && hello.clock_offset_us == CLOCK_OFFSET_US;
}

/* Take all there is; answers whether it was all that should be. */
static bool take_all(int fd)
{
    unsigned n_of_type[CHANNEL_DONE + 1] = {0};
    struct upgrade_taken taken = {.n_connections = 1, .n_counters = 1};
    struct iovec part = {.iov_base = &taken, .iov_len = sizeof(taken)};
    do {
        if (!channel_wait(fd, POLLIN, 10000)
            || channel_receive(fd, buf, sizeof(buf), &packet) != CHANNEL_OK) {
            return false;
        }
        if (packet.type == CHANNEL_HELLO && !is_right_hello()) {
            return false;
        }
        n_of_type[packet.type]++;
    } while (packet.type != CHANNEL_END);
    return n_of_type[CHANNEL_HELLO] == 1 && n_of_type[CHANNEL_LISTENER] == 1
           && n_of_type[CHANNEL_CONNECTIONS] == 1 && n_of_type[CHANNEL_CONNECTION] == 1
           && n_of_type[CHANNEL_COUNTERS] >= 2
           && channel_send(fd, CHANNEL_DONE, &part, 1, -1) == CHANNEL_OK
           && channel_wait(fd, POLLIN, 10000)
           && channel_receive(fd, buf, sizeof(buf), &packet) == CHANNEL_ENDED;
}

static int succeed(const char *role)
{
    int fd = channel_in_environment();
    if (fd < 0 || getenv("WATCHDOG_PID") != NULL || getenv("LISTEN_PID") != NULL) {
        return 4;
    }
    if (strcmp(role, "exits") == 0) {
        return 3;
    }
    bool ok = true;
    if (strcmp(role, "babbles") == 0) {
        ok = channel_send(fd, CHANNEL_DONE, NULL, 0, -1) == CHANNEL_OK;
    } else if (strcmp(role, "sends no packet") == 0) {
        ok = send(fd, "?", 1, 0) == 1;
    } else if (strcmp(role, "says nothing") != 0) {
        ok = channel_send(fd, CHANNEL_READY, NULL, 0, -1) == CHANNEL_OK;
    }
    if (!ok || strcmp(role, "dies ready") == 0) {
        return 5;
    }
    if (strcmp(role, "takes all") == 0) {
        return take_all(fd) ? 0 : 6;
    }
    sleep(60);
    return 7;
}

static char role_arg[32];

static void begin_upgrade(const char *role)
{
    static char name[] = "test_upgrade";
    static char successor_arg[sizeof(be_successor)];
    static char *argv[] = {name, successor_arg, role_arg, NULL};
    struct upgrade_parts parts = {
        .loop = f.loop,
        .server = f.server,
        .store = f.store,
        .jitter_secret = jitter_secret,
        .sending = on_sending,
        .over = on_over,
        .context = &f,
    };
    memcpy(successor_arg, be_successor, sizeof(be_successor));
    (void)snprintf(role_arg, sizeof(role_arg), "%s", role);
    assert_true(upgrade_init(&f.upgrade, &parts));
    assert_string_equal(f.upgrade.program.argv[0], program_invocation_name);
    free(f.upgrade.program.argv);
    f.upgrade.program.argv = argv;
    upgrade_begin(&f.upgrade);
}

static void end_upgrade(void)
{
    f.upgrade.program.argv = NULL;
    upgrade_fini(&f.upgrade);
}

static void run_until(enum upgrade_state state)
{
    for (int i = 0; i < 2000 && f.upgrade.state != state; i++) {
        turn();
    }
    assert_int_equal(f.upgrade.state, state);
}

/* Gone, and no zombie. */
static void expect_reaped(pid_t pid)
{
    for (int i = 0; i < 2000 && kill(pid, 0) == 0; i++) {
        turn();
    }
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void expect_served_on(void)
{
    ask();
    assert_true(spop_client_connect(&other, f.path));
    for (int i = 0; i < 2000 && server_n_open(f.server) != 2; i++) {
        turn();
    }
    assert_int_equal(server_n_open(f.server), 2);
    spop_client_close(&other);
}

static void open_client(void)
{
    uint8_t hello[512];
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, false);
    assert_true(spop_client_connect(&client, f.path));
    assert_true(spop_client_send(&client, hello, len));
    turn();
    assert_true(spop_client_receive(&client));
    ask();
}

static void successors_that_fail_change_nothing(void **context)
{
    (void)context;
    static const char *const roles[] = {"exits", "babbles", "sends no packet"};
    assert_true(start_server(NULL));
    open_client();
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        begin_upgrade(roles[i]);
        assert_int_equal(f.upgrade.state, UPGRADE_STARTING);
        pid_t pid = f.upgrade.pid;
        upgrade_begin(&f.upgrade); /* not twice */
        assert_int_equal(f.upgrade.pid, pid);
        run_until(UPGRADE_IDLE);
        expect_reaped(pid);
        end_upgrade();
    }
    assert_int_equal(f.n_over, 0);
    expect_served_on();
}

/* What had moved is lost with it; what is left is served, and what comes. */
static void a_successor_dies_once_it_is_ready(void **context)
{
    (void)context;
    assert_true(start_server(NULL));
    open_client();
    begin_upgrade("dies ready");
    pid_t pid = f.upgrade.pid;
    run_until(UPGRADE_IDLE);
    expect_reaped(pid);
    end_upgrade();
    assert_int_equal(f.n_over, 0);
    spop_client_close(&client);
    for (int i = 0; i < 2000 && server_n_open(f.server) != 0; i++) {
        turn();
    }
    open_client();
    expect_served_on();
}

static void silent_successors_are_ended(void **context)
{
    (void)context;
    assert_true(start_server(NULL));
    open_client();
    begin_upgrade("says nothing");
    pid_t pid = f.upgrade.pid;
    turn();
    assert_true(ev_timer_remaining(f.loop, &f.upgrade.deadline) <= UPGRADE_WAIT_S);
    ev_feed_event(f.loop, &f.upgrade.deadline, EV_TIMER);
    run_until(UPGRADE_IDLE);
    expect_reaped(pid);
    end_upgrade();
    begin_upgrade("is ready and no more");
    pid = f.upgrade.pid;
    run_until(UPGRADE_CONFIRMING);
    ev_feed_event(f.loop, &f.upgrade.deadline, EV_TIMER);
    run_until(UPGRADE_IDLE);
    expect_reaped(pid);
    end_upgrade();
    assert_int_equal(f.n_over, 0);
    assert_false(spop_client_receive(&client)); /* it went with the successor */
    spop_client_close(&client);
    open_client();
    expect_served_on();
}

static void a_program_that_is_not_there_is_no_upgrade(void **context)
{
    (void)context;
    assert_true(start_server(NULL));
    open_client();
    begin_upgrade("exits");
    run_until(UPGRADE_IDLE);
    (void)snprintf(f.upgrade.program.path, sizeof(f.upgrade.program.path), "%s/gone",
                   f.dir);
    upgrade_begin(&f.upgrade);
    assert_int_equal(f.upgrade.state, UPGRADE_IDLE);
    end_upgrade();
    expect_served_on();
}

static void all_is_taken(void **context)
{
    (void)context;
    clock_start_at(CLOCK_OFFSET_US);
    assert_true(start_server(NULL));
    open_client();
    assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
    assert_int_equal(setenv("LISTEN_PID", "1", 1), 0);
    begin_upgrade("takes all");
    pid_t pid = f.upgrade.pid;
    run_until(UPGRADE_DONE);
    assert_int_equal(f.n_over, 1);
    assert_true(f.n_sendings > 0);
    assert_true(upgrade_is_done(&f.upgrade));
    assert_true(upgrade_may_stop(&f.upgrade));
    end_upgrade();
    expect_reaped(pid);
    stop_server();
    assert_int_equal(unlink(f.path), 0); /* it was the successor's */
}

/* Before it is ready a successor is no reason to go on; then all moves first. */
static void asked_to_stop_meanwhile(void **context)
{
    (void)context;
    assert_true(start_server(NULL));
    open_client();
    begin_upgrade("says nothing");
    pid_t pid = f.upgrade.pid;
    assert_true(upgrade_may_stop(&f.upgrade));
    assert_int_equal(f.upgrade.state, UPGRADE_IDLE);
    expect_reaped(pid);
    end_upgrade();
    begin_upgrade("is ready and no more");
    run_until(UPGRADE_CONFIRMING);
    assert_false(upgrade_may_stop(&f.upgrade));
    assert_int_equal(f.n_over, 0);
    ev_feed_event(f.loop, &f.upgrade.deadline, EV_TIMER);
    run_until(UPGRADE_IDLE);
    assert_int_equal(f.n_over, 1);
    assert_false(upgrade_is_done(&f.upgrade));
    end_upgrade();
}

/* ---- the successor ---- */

static void set_variable(int fd)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", fd);
    assert_int_equal(setenv(PROGRAM_CHANNEL_VARIABLE, text, 1), 0);
}

static void send_hello(uint32_t version, uint32_t n_listeners, size_t len)
{
    struct upgrade_hello hello = {.version = version,
                                  .n_listeners = n_listeners,
                                  .clock_offset_us = 42};
    memcpy(hello.store_secret, store_secret, sizeof(hello.store_secret));
    memcpy(hello.jitter_secret, jitter_secret, sizeof(hello.jitter_secret));
    struct iovec part = {.iov_base = &hello, .iov_len = len};
    assert_int_equal(channel_send(f.ends[0], CHANNEL_HELLO, &part, 1, -1), CHANNEL_OK);
}

static void open_channel(void)
{
    for (int i = 0; i < 2; i++) {
        if (f.ends[i] >= 0) {
            (void)close(f.ends[i]);
        }
    }
    assert_true(channel_pair(f.ends));
}

/* The successor's end is the takeover's now. */
static bool open_takeover(struct takeover **takeover)
{
    set_variable(f.ends[1]);
    bool ok = takeover_open(takeover);
    f.ends[1] = -1;
    assert_null(getenv(PROGRAM_CHANNEL_VARIABLE));
    return ok;
}

static void close_end(void)
{
    (void)shutdown(f.ends[0], SHUT_RDWR);
}

static void whom_nobody_started_is_no_successor(void **context)
{
    (void)context;
    struct takeover *takeover = NULL;
    assert_int_equal(unsetenv(PROGRAM_CHANNEL_VARIABLE), 0);
    assert_true(takeover_open(&takeover));
    assert_null(takeover);
    assert_false(takeover_is_under_way(takeover));
    assert_true(takeover_may_stop(takeover));
    takeover_close(takeover);
}

static void what_is_no_channel_is_refused(void **context)
{
    (void)context;
    static const char *const cases[] = {"", "x", "-1", "0", "99999999999", "3x"};
    struct takeover *takeover = NULL;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(setenv(PROGRAM_CHANNEL_VARIABLE, cases[i], 1), 0);
        assert_false(takeover_open(&takeover));
        assert_null(takeover);
        assert_null(getenv(PROGRAM_CHANNEL_VARIABLE));
    }
}

static void hellos_that_are_none_are_refused(void **context)
{
    (void)context;
    struct takeover *takeover = NULL;
    static const struct {
        uint32_t version;
        uint32_t n_listeners;
        size_t len;
    } cases[] = {
        {UPGRADE_VERSION + 1, 0, sizeof(struct upgrade_hello)},
        {UPGRADE_VERSION, 0, sizeof(struct upgrade_hello) - 1},
        {UPGRADE_VERSION, 0, 3},
        {UPGRADE_VERSION, 0, 0},
        {UPGRADE_VERSION, 1, sizeof(struct upgrade_hello)}, /* it does not come */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_channel();
        send_hello(cases[i].version, cases[i].n_listeners, cases[i].len);
        close_end();
        assert_false(open_takeover(&takeover));
    }
    open_channel();
    assert_int_equal(channel_send(f.ends[0], CHANNEL_END, NULL, 0, -1), CHANNEL_OK);
    assert_false(open_takeover(&takeover));
    open_channel();
    close_end();
    assert_false(open_takeover(&takeover));
}

/* An agent that has received its first packets and serves. */
static struct takeover *begin_takeover_of(const struct listening *listening)
{
    struct takeover *takeover = NULL;
    open_channel();
    send_hello(UPGRADE_VERSION, listening != NULL, sizeof(struct upgrade_hello));
    assert_true(listening == NULL
                || inheritance_send(f.ends[0], f.text, listening) == CHANNEL_OK);
    assert_true(open_takeover(&takeover));
    assert_memory_equal(takeover_hello(takeover)->store_secret, store_secret,
                        sizeof(store_secret));
    assert_int_equal(takeover_hello(takeover)->clock_offset_us, 42);
    assert_true(start_server(takeover_inheritance(takeover)));
    struct takeover_parts parts = {
        .loop = f.loop,
        .server = f.server,
        .store = f.store,
        .counters = f.counters[1],
        .over = on_over,
        .context = &f,
    };
    takeover_begin(takeover, &parts);
    assert_true(takeover_is_under_way(takeover));
    assert_int_equal(channel_receive(f.ends[0], buf, sizeof(buf), &packet), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_READY);
    return takeover;
}

static struct takeover *begin_takeover(void)
{
    return begin_takeover_of(NULL);
}

static void send_number(uint32_t n)
{
    struct iovec part = {.iov_base = &n, .iov_len = sizeof(n)};
    assert_int_equal(channel_send(f.ends[0], CHANNEL_CONNECTIONS, &part, 1, -1),
                     CHANNEL_OK);
}

/* An open connection; its other end in `client`. */
static void send_connection(void)
{
    int fds[2];
    struct handover handover = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    handover.fd = fds[0];
    spop_session_init(&handover.session);
    handover.session.state = SPOP_SESSION_OPEN;
    handover.session.frame_bytes_max = 16380;
    assert_int_equal(handover_send(f.ends[0], &handover), CHANNEL_OK);
    (void)close(fds[0]);
    spop_client_close(&client);
    client.fd = fds[1];
    client.len = 0;
}

static bool send_piece(void *context, const void *bytes, size_t len)
{
    (void)context;
    assert_true(len <= sizeof(buf));
    memcpy(buf, bytes, len);
    struct iovec part = {.iov_base = buf, .iov_len = len};
    while (channel_send(f.ends[0], CHANNEL_COUNTERS, &part, 1, -1) == CHANNEL_LATER) {
        turn();
    }
    return true;
}

static void send_counters(bool is_whole)
{
    struct image_writer writer;
    struct image_origin origin = {.clock_offset_us = 42};
    memcpy(origin.secret, store_secret, sizeof(origin.secret));
    image_writer_init(&writer, &origin, send_piece, NULL);
    for (uint32_t i = 0; i < COUNTERS; i++) {
        struct image_record record = {
            .hash_hi = UINT64_C(0x9e3779b97f4a7c15) * (i + 1),
            .hash_lo = UINT32_C(0x9e3779b9) * (i + 1),
            .expires_s = UINT32_MAX,
            .state = {.sliding = {.curr = 1, .window = 1}},
        };
        image_write(&writer, IMAGE_COUNTERS, &record);
    }
    if (is_whole) {
        assert_true(image_write_end(&writer));
    }
}

static void takes_all_and_is_alone(void **context)
{
    (void)context;
    struct upgrade_taken taken;
    struct takeover *takeover = begin_takeover();
    send_number(3);
    send_connection();
    send_connection();
    send_counters(true);
    assert_int_equal(channel_send(f.ends[0], CHANNEL_END, NULL, 0, -1), CHANNEL_OK);
    for (int i = 0; i < 2000 && !channel_wait(f.ends[0], POLLIN, 0); i++) {
        turn();
    }
    assert_int_equal(channel_receive(f.ends[0], (uint8_t *)&taken, sizeof(taken),
                                     &packet),
                     CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_DONE);
    assert_int_equal(packet.len, sizeof(taken));
    assert_int_equal(taken.n_connections, 2);
    assert_int_equal(taken.n_counters, COUNTERS);
    assert_int_equal(counter_get(f.counters[1], COUNTER_LOCAL_FILLED), COUNTERS);
    ask(); /* the second connection */
    assert_int_equal(f.n_over, 0);
    assert_true(takeover_is_under_way(takeover));
    close_end();
    turn();
    assert_int_equal(f.n_over, 1);
    assert_false(takeover_is_under_way(takeover));
    assert_true(takeover_may_stop(takeover));
    takeover_close(takeover);
}

/* Whatever comes that should not: it serves with what it has, and the other end hears of
 * it. */
static void nonsense_ends_it(void **context)
{
    (void)context;
    for (int which = 0; which < 9; which++) {
        struct takeover *takeover = begin_takeover();
        struct iovec part = {.iov_base = buf, .iov_len = 1};
        bool is_sent = true;
        f.n_over = 0;
        switch (which) {
        case 0: /* no number before */
            send_connection();
            break;
        case 1: /* more than it says */
            send_number(1);
            send_connection();
            send_connection();
            break;
        case 2:
            send_number(SERVER_CONNECTIONS_MAX + 1);
            break;
        case 3: /* the end of what has not come */
            send_number(0);
            send_counters(false);
            is_sent = channel_send(f.ends[0], CHANNEL_END, NULL, 0, -1) == CHANNEL_OK;
            break;
        case 4: /* no image */
            memset(buf, 'x', sizeof(buf));
            part.iov_len = 1000;
            is_sent = channel_send(f.ends[0], CHANNEL_COUNTERS, &part, 1, -1)
                      == CHANNEL_OK;
            break;
        case 5:
            is_sent = channel_send(f.ends[0], CHANNEL_CONNECTIONS, &part, 1, -1)
                      == CHANNEL_OK;
            break;
        case 6:
            is_sent = channel_send(f.ends[0], CHANNEL_READY, NULL, 0, -1) == CHANNEL_OK;
            break;
        case 7:
            is_sent = channel_send(f.ends[0], CHANNEL_LISTENER, NULL, 0, 0)
                      == CHANNEL_OK;
            break;
        default:
            is_sent = send(f.ends[0], "?", 1, 0) == 1;
            break;
        }
        assert_true(is_sent);
        for (int i = 0; i < 2000 && f.n_over == 0; i++) {
            turn();
        }
        assert_int_equal(f.n_over, 1);
        assert_false(takeover_is_under_way(takeover));
        assert_int_equal(channel_receive(f.ends[0], buf, sizeof(buf), &packet),
                         CHANNEL_ENDED);
        spop_client_close(&client);
        open_client(); /* it serves */
        spop_client_close(&client);
        takeover_close(takeover);
        stop_server();
    }
}

static void the_agent_before_dies(void **context)
{
    (void)context;
    struct takeover *takeover = begin_takeover();
    send_number(2);
    send_connection();
    close_end();
    for (int i = 0; i < 2000 && f.n_over == 0; i++) {
        turn();
    }
    assert_int_equal(f.n_over, 1);
    ask();
    assert_true(takeover_may_stop(takeover));
    takeover_close(takeover);
}

/* Asked to stop in the middle of it: not before it is over. */
static void stops_when_it_has_all(void **context)
{
    (void)context;
    struct takeover *takeover = begin_takeover();
    assert_false(takeover_is_stop_wanted(takeover));
    assert_false(takeover_may_stop(takeover));
    assert_false(takeover_may_stop(takeover));
    assert_true(takeover_is_stop_wanted(takeover));
    close_end();
    turn();
    assert_int_equal(f.n_over, 1);
    takeover_close(takeover);
}

/* An agent before that hangs may go on, by the sockets that it has. */
static void who_hangs_keeps_the_files_of_its_sockets(void **context)
{
    (void)context;
    for (int is_ended = 0; is_ended < 2; is_ended++) {
        char error[ADDRESS_ERROR_BYTES_MAX];
        struct listening before;
        assert_true(address_listen(&f.address, &before, error));
        struct takeover *takeover = begin_takeover_of(&before);
        f.n_over = 0;
        assert_false(takeover_may_stop(takeover));
        if (is_ended) {
            close_end();
        } else {
            ahead_s += UPGRADE_WAIT_S + 1;
        }
        for (int i = 0; i < 2000 && f.n_over == 0; i++) {
            turn();
        }
        assert_int_equal(f.n_over, 1);
        takeover_close(takeover);
        stop_server();
        assert_int_equal(access(f.path, F_OK), is_ended ? -1 : 0);
        address_unlisten(&before);
    }
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(successors_that_fail_change_nothing),
        TEST(a_successor_dies_once_it_is_ready),
        TEST(silent_successors_are_ended),
        TEST(a_program_that_is_not_there_is_no_upgrade),
        TEST(all_is_taken),
        TEST(asked_to_stop_meanwhile),
        TEST(whom_nobody_started_is_no_successor),
        TEST(what_is_no_channel_is_refused),
        TEST(hellos_that_are_none_are_refused),
        TEST(takes_all_and_is_alone),
        TEST(nonsense_ends_it),
        TEST(the_agent_before_dies),
        TEST(stops_when_it_has_all),
        TEST(who_hangs_keeps_the_files_of_its_sockets),
    };
    if (argc == 3 && strcmp(argv[1], be_successor) == 0) {
        return succeed(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* NOLINTEND(concurrency-mt-unsafe) */
