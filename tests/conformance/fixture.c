#include "tests/conformance/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    RSS_SLACK_KIB = 16 * 1024, /* the table of counters, the allocator's moods */
    WAIT_US = 2000,
    WAITS_MAX = 5000, /* 10 s */
};

static const char rules[] = "version: 1\n"
                            "domain: conformance\n"
                            "rules:\n"
                            "  - name: per_key\n"
                            "    match: { route: key }\n"
                            "    key: [key]\n"
                            "    limit: { requests: 1000000000, per: 31d }\n"
                            "  - name: per_address\n"
                            "    match: { route: address }\n"
                            "    key: [ip]\n"
                            "    limit: { requests: 1000000000, per: 31d }\n"
                            "  - name: small\n"
                            "    match: { route: small }\n"
                            "    key: [key]\n"
                            "    limit: { requests: 3, per: 31d }\n"
                            "  - name: flag\n"
                            "    match: { route: flag, flag: \"true\" }\n"
                            "    key: [key]\n"
                            "    limit: { requests: 1000000000, per: 31d }\n";

static const char config[] = "workers: 2\n"
                             "memory: 4MiB\n"
                             "retry_jitter: 0\n"
                             "headers: [draft-8, x-ratelimit]\n"
                             "log: { level: debug }\n";

struct fixture f;
struct spop_client peers[PEERS];
struct wire wire;
struct wire_ack ack;
size_t agreed_size = WIRE_SIZE;

int listen_on_free_port(uint16_t *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0
        || listen(fd, 4096) != 0
        || getsockname(fd, (struct sockaddr *)&in, &len) != 0) {
        perror("a free port");
        return -1;
    }
    *port = ntohs(in.sin_port);
    return fd;
}

int group_set_up(void **state)
{
    static char listen_fd[16];
    (void)state;
    for (int i = 0; i < PEERS; i++) {
        peers[i].fd = -1;
    }
    f.tcp_fd = listen_on_free_port(&f.tcp_port);
    (void)snprintf(listen_fd, sizeof(listen_fd), "fd@%d", f.tcp_fd);
    f.options = (struct agent_process_options){
        .program = AGENT_PROGRAM,
        .rules = rules,
        .config = config,
        .listen = {listen_fd},
    };
    if (!agent_process_init(&f.agent, &f.options)
        || !agent_process_start(&f.agent, &f.options)) {
        return 1;
    }
    peer_open(&f.bystander);
    return 0;
}

static void take_bearings(void)
{
    f.n_fds = agent_process_n_fds(&f.agent);
    f.rss_kib = agent_process_rss_kib(&f.agent);
    f.log_bytes = agent_process_log_bytes(&f.agent);
}

void group_restart(void)
{
    for (int i = 0; i < PEERS; i++) {
        peer_close(&peers[i]);
    }
    peer_close(&f.bystander);
    assert_int_equal(agent_process_stop(&f.agent, SIGTERM), 0);
    assert_true(agent_process_start(&f.agent, &f.options));
    peer_open(&f.bystander);
    f.n_asked = 0;
    take_bearings();
}

/* It ends well, which is also what a leak found by a sanitizer would keep it from. */
int group_tear_down(void **state)
{
    (void)state;
    peer_close(&f.bystander);
    int code = agent_process_stop(&f.agent, SIGTERM);
    (void)close(f.tcp_fd);
    bool is_clean = agent_process_fini(&f.agent);
    return code != 0 || !is_clean;
}

int check_set_up(void **state)
{
    (void)state;
    wire_clear();
    agreed_size = WIRE_SIZE;
    f.rss_slack_kib = RSS_SLACK_KIB;
    bystander_ask();
    take_bearings();
    return 0;
}

static void expect_books_to_balance(void)
{
    uint64_t n_notifies = agent_process_metric(&f.agent, "notifies_total");
    uint64_t n_acks = agent_process_metric(&f.agent, "acks_total");
    uint64_t n_malformed = agent_process_metric(&f.agent, "notifies_malformed_total");
    uint64_t n_aborted = agent_process_metric(&f.agent, "notifies_aborted_total");
    assert_int_equal(n_notifies, n_acks + n_malformed + n_aborted);
    wait_for_metric("connections", 1);
}

void allow_memory_of(unsigned n_connections)
{
    f.rss_slack_kib += (size_t)n_connections * 128;
}

/* A sanitizer keeps what was freed. */
void expect_memory_as_before(void)
{
    size_t rss_kib = agent_process_rss_kib(&f.agent);
    if (!FIXTURE_IS_SANITIZED) {
        assert_in_range(rss_kib, 0, f.rss_kib + f.rss_slack_kib);
    }
}

int check_tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < PEERS; i++) {
        peer_close(&peers[i]);
    }
    assert_true(agent_process_is_running(&f.agent));
    wait_for_fds(f.n_fds);
    bystander_ask();
    expect_books_to_balance();
    wait_for_fds(f.n_fds);
    expect_memory_as_before();
    assert_int_equal(log_lines_at("error"), 0);
    return 0;
}

void wire_clear(void)
{
    wire.len = 0;
}

void peer_connect(struct spop_client *c)
{
    assert_true(spop_client_connect(c, f.agent.socket_path));
}

void peer_connect_tcp(struct spop_client *c)
{
    assert_true(spop_client_connect_tcp(c, f.tcp_port));
}

static void shake_hands(struct spop_client *c)
{
    wire_clear();
    wire_hello(&wire);
    peer_send(c);
    struct wire_hello_answer answer = expect_hello(c);
    assert_int_equal(answer.size, WIRE_SIZE);
    assert_true(answer.is_pipelining);
    wire_clear();
}

void peer_open(struct spop_client *c)
{
    peer_connect(c);
    shake_hands(c);
}

void peer_open_tcp(struct spop_client *c)
{
    peer_connect_tcp(c);
    shake_hands(c);
}

void peer_close(struct spop_client *c)
{
    if (c->fd >= 0) {
        spop_client_close(c);
    }
    c->fd = -1;
}

void peer_reset(struct spop_client *c)
{
    struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once,
                                sizeof(at_once)),
                     0);
    peer_close(c);
}

void peer_send(struct spop_client *c)
{
    peer_send_part(c, 0, wire.len);
}

void peer_send_part(struct spop_client *c, size_t from, size_t to)
{
    assert_true(spop_client_send(c, wire.bytes + from, to - from));
}

void peer_wait_taken(const struct spop_client *c)
{
    int n_waiting = 1;
    for (int i = 0; i < WAITS_MAX && n_waiting > 0; i++) {
        assert_int_equal(ioctl(c->fd, TIOCOUTQ, &n_waiting), 0);
        if (n_waiting > 0) {
            (void)usleep(50);
        }
    }
    assert_int_equal(n_waiting, 0);
}

static void receive(struct spop_client *c)
{
    if (!spop_client_receive(c)) {
        fail_msg("no frame came: errno %d", errno);
    }
}

static void no_fault(const char *fault)
{
    if (fault != NULL) {
        fail_msg("the agent sent %s", fault);
    }
}

struct wire_hello_answer expect_hello(struct spop_client *c)
{
    struct wire_hello_answer answer = {0};
    receive(c);
    no_fault(wire_read_hello(c->frame, c->frame_len, &answer));
    return answer;
}

void expect_ack(struct spop_client *c, uint64_t stream_id, uint64_t frame_id)
{
    receive(c);
    no_fault(wire_read_ack(c->frame, c->frame_len, agreed_size, &ack));
    assert_true(ack.stream_id == stream_id);
    assert_true(ack.frame_id == frame_id);
}

void expect_allowed(struct spop_client *c, uint64_t stream_id, uint64_t frame_id)
{
    expect_ack(c, stream_id, frame_id);
    assert_true(wire_ack_is(&ack, "action", "allow"));
    assert_int_equal(wire_ack_number(&ack, "deny"), 0);
}

void expect_neutral(struct spop_client *c, uint64_t stream_id, uint64_t frame_id)
{
    expect_ack(c, stream_id, frame_id);
    assert_true(ack.is_neutral);
}

void expect_disconnect(struct spop_client *c, uint64_t code)
{
    uint64_t got = UINT64_MAX;
    receive(c);
    no_fault(wire_read_disconnect(c->frame, c->frame_len, &got));
    assert_int_equal(got, code);
    expect_end(c);
}

void expect_end(struct spop_client *c)
{
    assert_true(spop_client_at_eof(c));
}

void expect_nothing(const struct spop_client *c)
{
    uint8_t byte = 0;
    assert_int_equal(c->len, 0);
    assert_int_equal(recv(c->fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

void expect_refused(uint64_t code)
{
    struct spop_client *c = &peers[PEERS - 1];
    peer_connect(c);
    peer_send(c);
    expect_disconnect(c, code);
    peer_close(c);
    wire_clear();
}

void expect_refused_later(uint64_t code)
{
    static struct wire kept;
    struct spop_client *c = &peers[PEERS - 1];
    kept.len = 0;
    wire_bytes(&kept, wire.bytes, wire.len);
    peer_open(c);
    wire_bytes(&wire, kept.bytes, kept.len);
    peer_send(c);
    expect_disconnect(c, code);
    peer_close(c);
    wire_clear();
}

int64_t ask(struct spop_client *c, const char *key)
{
    wire_clear();
    wire_notify(&wire, 7, 1, key);
    peer_send(c);
    expect_allowed(c, 7, 1);
    assert_true(wire_ack_is(&ack, "rule", "per_key"));
    assert_int_equal(wire_ack_number(&ack, "limit"), FIXTURE_LARGE);
    wire_clear();
    return wire_ack_number(&ack, "remaining");
}

void bystander_ask(void)
{
    int64_t left = ask(&f.bystander, "bystander");
    f.n_asked++;
    assert_int_equal(left, FIXTURE_LARGE - (int64_t)f.n_asked);
}

unsigned log_lines(void)
{
    return log_lines_at("");
}

unsigned log_lines_at(const char *level)
{
    return agent_process_log_lines(&f.agent, f.log_bytes, level);
}

void expect_silence(void)
{
    if (log_lines() > 0) {
        agent_process_show_log(&f.agent, f.log_bytes);
        fail_msg("the agent logged something");
    }
}

void wait_for_metric(const char *name, uint64_t value)
{
    uint64_t now = agent_process_metric(&f.agent, name);
    for (int i = 0; i < WAITS_MAX && now != value; i++) {
        (void)usleep(WAIT_US);
        now = agent_process_metric(&f.agent, name);
    }
    assert_int_equal(now, value);
}

void wait_for_fds(unsigned n)
{
    unsigned now = agent_process_n_fds(&f.agent);
    for (int i = 0; i < WAITS_MAX && now != n; i++) {
        (void)usleep(WAIT_US);
        now = agent_process_n_fds(&f.agent);
    }
    assert_int_equal(now, n);
}
