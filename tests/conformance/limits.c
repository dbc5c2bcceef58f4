/* Checks 79, 82, 86 and 87 of README.md: descriptors, what HAProxy really sent, and where
 * the agent listens. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/conformance/fixture.h"
#include "tests/support/hex.h"

enum {
    WAITING = 20, /* connections beyond what there are descriptors for */
};

/* Connect and say HELLO, on which nothing comes for now. */
static void begin_waiting(void)
{
    for (int i = 0; i < WAITING; i++) {
        wire_clear();
        wire_hello(&wire);
        peer_connect(&peers[i]);
        peer_send(&peers[i]);
    }
}

static unsigned count_answered(void)
{
    unsigned n = 0;
    for (int i = 0; i < WAITING; i++) {
        uint8_t byte = 0;
        n += recv(peers[i].fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
    }
    return n;
}

static void end_waiting(void)
{
    for (int i = 0; i < WAITING; i++) {
        (void)expect_hello(&peers[i]);
        (void)ask(&peers[i], "k79");
        peer_close(&peers[i]);
    }
}

static void expect_no_spin(void)
{
    unsigned long before = agent_process_ticks(&f.agent);
    (void)usleep(1000000);
    assert_in_range(agent_process_ticks(&f.agent) - before, 0, 10);
}

static void set_descriptors(rlim_t n)
{
    struct rlimit limit = {.rlim_cur = n, .rlim_max = 1024};
    assert_int_equal(prlimit(f.agent.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* The number that the agent's next descriptor would have. */
static rlim_t next_descriptor(void)
{
    char path[64];
    rlim_t n = 0;
    do {
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%ju", (int)f.agent.pid,
                       (uintmax_t)n);
        n++;
    } while (access(path, F_OK) == 0);
    return n - 1;
}

/* The limit falls below what is open: nobody is turned away, nothing spins, and it goes on
 * when there are descriptors. */
static void check_79_out_of_descriptors_and_back(void **state)
{
    (void)state;
    set_descriptors(next_descriptor());
    begin_waiting();
    expect_no_spin();
    assert_int_equal(count_answered(), 0);
    bystander_ask();
    set_descriptors(1024);
    end_waiting();
    assert_int_equal(log_lines_at("warning: not accepting"), 1);
}

/* Started with few: it says how many connections that makes, and keeps to it. */
static void check_79_few_descriptors_from_the_start(void **state)
{
    (void)state;
    struct agent_process_options few = f.options;
    struct agent_process usual = f.agent;
    few.n_descriptors = 32 + 2 * 4 + 16 + WAITING / 2;
    few.listen[0] = NULL;
    assert_true(agent_process_init(&f.agent, &few));
    assert_true(agent_process_start(&f.agent, &few));
    size_t log_bytes = f.log_bytes;
    f.log_bytes = 0;
    assert_int_equal(log_lines_at("warning: only 66 descriptors"), 1);
    begin_waiting();
    expect_no_spin();
    assert_int_equal(count_answered(), WAITING / 2);
    end_waiting();
    assert_int_equal(agent_process_stop(&f.agent, SIGTERM), 0);
    assert_true(agent_process_fini(&f.agent));
    f.agent = usual;
    f.log_bytes = log_bytes;
}

enum {
    LINE_CAP = 1 << 17
};

/* Expect what answers the frame, one of HAProxy's; false when that is the end. */
static bool expect_answer(const struct wire_frame *asked, struct spop_client *c)
{
    static const char check[] = "healthcheck";
    bool is_final = (asked->flags & WIRE_FIN) != 0;
    switch (asked->type) {
    case WIRE_HAPROXY_HELLO:
        (void)expect_hello(c);
        return memmem(asked->payload, asked->payload_len, check, sizeof(check) - 1)
               == NULL;
    case WIRE_HAPROXY_DISCONNECT: /* status-code is the first, of one byte */
        expect_disconnect(c, asked->payload[13]);
        return false;
    case WIRE_NOTIFY:
    case WIRE_UNSET:
        if (is_final) {
            expect_ack(c, asked->stream_id, asked->frame_id);
            assert_true(ack.is_neutral || wire_ack_is(&ack, "action", "allow"));
        }
        return true;
    default:
        fail_msg("HAProxy sent a frame of type %u", asked->type);
        return false;
    }
}

static void replay_connection(const char *line)
{
    bool is_open = true;
    wire_clear();
    wire_hex(&wire, line);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    assert_int_equal(shutdown(peers[0].fd, SHUT_WR), 0);
    for (size_t at = 0; is_open && at < wire.len;) {
        const uint8_t *frame = wire.bytes + at;
        size_t len = WIRE_PREFIX_BYTES
                     + ((size_t)frame[0] << 24 | (size_t)frame[1] << 16
                        | (size_t)frame[2] << 8 | frame[3]);
        struct wire_frame asked;
        (void)wire_read_frame(frame, len, &asked);
        is_open = expect_answer(&asked, &peers[0]);
        at += len;
    }
    expect_end(&peers[0]);
    peer_close(&peers[0]);
}

static void check_82_captures_are_answered(void **state)
{
    (void)state;
    static const char *const paths[] = {"tests/golden/spop/2.6.12.hex",
                                        "tests/golden/spop/3.0.0.hex",
                                        "tests/golden/spop/3.2.0.hex"};
    static char line[LINE_CAP];
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        FILE *file = fopen(paths[i], "re");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof(line), file)); /* a comment */
        while (fgets(line, sizeof(line), file) != NULL) {
            replay_connection(line);
        }
        assert_int_equal(fclose(file), 0);
    }
    wait_for_fds(f.n_fds);
    assert_int_equal(log_lines(), log_lines_at("debug: "));
}

static mode_t socket_mode(void)
{
    struct stat st;
    assert_int_equal(stat(f.agent.socket_path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    return st.st_mode & 07777;
}

static void check_86_unix_socket(void **state)
{
    (void)state;
    assert_int_equal(socket_mode(), 0660);
    /* What a killed agent leaves is taken over. */
    peer_close(&f.bystander);
    assert_int_equal(agent_process_stop(&f.agent, SIGKILL), 128 + SIGKILL);
    assert_int_equal(socket_mode(), 0660);
    assert_true(agent_process_start(&f.agent, &f.options));
    f.n_asked = 0;
    peer_open(&f.bystander);
    /* What is served is left alone, and goes on being served. */
    struct agent_process second = f.agent;
    assert_false(agent_process_start(&second, &f.options));
    (void)ask(&f.bystander, "k86");
    peer_open(&peers[0]);
    peer_close(&peers[0]);
    /* A file that is no socket stays, and nothing is served. */
    peer_close(&f.bystander);
    assert_int_equal(agent_process_stop(&f.agent, SIGTERM), 0);
    assert_int_equal(access(f.agent.socket_path, F_OK), -1); /* removed at exit */
    int fd = open(f.agent.socket_path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_false(agent_process_start(&f.agent, &f.options));
    assert_int_equal(unlink(f.agent.socket_path), 0); /* it is still there */
    assert_true(agent_process_start(&f.agent, &f.options));
    peer_open(&f.bystander);
    check_set_up(NULL);
}

/* Its first line on standard error when it is told to listen on `address`. */
static int run_with(const char *address, char *line, size_t cap)
{
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "%s serve --rules %s/rules.yaml --listen %s 2>&1", f.options.program,
                   f.agent.dir, address);
    FILE *out = popen(command, "re"); /* NOLINT(cert-env33-c): the test's own words */
    assert_non_null(out);
    if (fgets(line, (int)cap, out) == NULL) {
        line[0] = '\0';
    }
    return pclose(out);
}

static void check_86_path_over_107_bytes(void **state)
{
    (void)state;
    char address[160] = "unix@/tmp/";
    char line[512];
    memset(address + strlen(address), 'x', 108 - strlen("/tmp/"));
    assert_int_not_equal(run_with(address, line, sizeof(line)), 0);
    assert_non_null(strstr(line, "107 bytes"));
    assert_non_null(strstr(line, "unix@/tmp/xxx"));
}

/* Connect and shake hands; false where there is nobody. */
static bool is_served(const struct sockaddr *address, socklen_t len)
{
    bool is_connected = false;
    peers[0].len = 0;
    peers[0].fd = socket(address->sa_family, SOCK_STREAM, 0);
    is_connected = peers[0].fd >= 0 && connect(peers[0].fd, address, len) == 0;
    if (is_connected) {
        wire_clear();
        wire_hello(&wire);
        peer_send(&peers[0]);
        (void)expect_hello(&peers[0]);
        (void)ask(&peers[0], "k87");
    }
    peer_close(&peers[0]);
    return is_connected;
}

static bool is_served_v4(uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return is_served((struct sockaddr *)&in, sizeof(in));
}

static bool is_served_v6(uint16_t port)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    in6.sin6_addr = in6addr_loopback;
    return is_served((struct sockaddr *)&in6, sizeof(in6));
}

/* Start the agent on HOST and some free port, which another may have taken meanwhile. */
static uint16_t start_on(const char *host)
{
    static char address[64];
    struct agent_process_options options = f.options;
    bool is_started = false;
    uint16_t port = 0;
    for (int i = 0; i < 10 && !is_started; i++) {
        int fd = listen_on_free_port(&port);
        (void)close(fd);
        (void)snprintf(address, sizeof(address), "%s:%u", host, port);
        options.listen[0] = address;
        is_started = agent_process_start(&f.agent, &options);
    }
    assert_true(is_started);
    return port;
}

static void check_87_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool is_v4;
        bool is_v6;
        bool is_remote;
    } cases[] = {
        {"127.0.0.1", true, false, false},
        {"0.0.0.0", true, false, true},
        {"[::1]", false, true, false},
        {"[::]", true, true, true},
        {"[::ffff:127.0.0.1]", true, false, false},
    };
    peer_close(&f.bystander);
    assert_int_equal(agent_process_stop(&f.agent, SIGTERM), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f.log_bytes = agent_process_log_bytes(&f.agent);
        uint16_t port = start_on(cases[i].host);
        assert_int_equal(is_served_v4(port), cases[i].is_v4);
        assert_int_equal(is_served_v6(port), cases[i].is_v6);
        unsigned n_warnings = log_lines_at("warning: ");
        assert_int_equal(n_warnings, cases[i].is_remote);
        assert_int_equal(agent_process_stop(&f.agent, SIGTERM), 0);
    }
    assert_true(agent_process_start(&f.agent, &f.options));
    peer_open(&f.bystander);
    f.n_asked = 0;
    check_set_up(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_79_out_of_descriptors_and_back),
        CHECK(check_79_few_descriptors_from_the_start),
        CHECK(check_82_captures_are_answered),
        CHECK(check_86_unix_socket),
        CHECK(check_86_path_over_107_bytes),
        CHECK(check_87_addresses),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
