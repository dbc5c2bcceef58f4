/*
 * How many NOTIFYs a second an agent answers, and how fast: some connections, each with
 * a fixed number of NOTIFYs under way; an ACK is followed by the next NOTIFY. One
 * thread, so the agent's CPU time a request (--pid) is the figure to go by where this
 * client is the slower of the two.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "spop/bytes.h"
#include "spop/frame.h"
#include "spop/value.h"

enum {
    CONNECTIONS_MAX = 64,
    DEPTH_MAX = 64,
    FRAME_BYTES = 16384, /* what HAProxy announces */
    BUF_BYTES = 65536,
    PAYLOADS_N = 4096, /* of as many clients */
    PAYLOAD_BYTES_MAX = 128,
    LATENCIES_MAX = 1 << 24,
};

struct payload {
    size_t len;
    uint8_t bytes[PAYLOAD_BYTES_MAX];
};

struct connection {
    int fd;
    size_t in_len;
    int64_t sent_ns[DEPTH_MAX]; /* by frame id */
    uint8_t in[BUF_BYTES];
};

struct options {
    unsigned long port;
    unsigned long n_connections;
    unsigned long depth;
    unsigned long seconds;
    unsigned long pid;
};

static struct payload payloads[PAYLOADS_N];
static struct connection connections[CONNECTIONS_MAX];
static uint32_t latencies_ns[LATENCIES_MAX];
static uint64_t n_acks;
static uint64_t n_sent;

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void put_arg(struct spop_writer *w, const char *name, struct spop_value value)
{
    spop_write_string(w, spop_bytes_view(name));
    spop_value_encode(w, &value);
}

static struct spop_value text_value(const char *text)
{
    return (struct spop_value){.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
}

/* The arguments of proxy.sh. */
static void make_payload(struct payload *payload, uint32_t client)
{
    struct spop_writer w;
    uint32_t ip = htonl(0x0a000000 + client);
    struct spop_bytes ip_bytes = {.ptr = (const uint8_t *)&ip, .len = sizeof(ip)};
    spop_writer_init(&w, payload->bytes, sizeof(payload->bytes));
    spop_write_string(&w, spop_bytes_view("ratelimit-check"));
    spop_write_u8(&w, 5);
    put_arg(&w, "ip", (struct spop_value){.type = SPOP_VALUE_IPV4, .bytes = ip_bytes});
    put_arg(&w, "method", text_value("GET"));
    put_arg(&w, "host", text_value("127.0.0.1"));
    put_arg(&w, "path", text_value("/v1/items/42"));
    put_arg(&w, "client",
            (struct spop_value){.type = SPOP_VALUE_INT64, .integer = client});
    payload->len = w.len;
}

static void put_notify(struct spop_writer *w, struct connection *c, uint64_t frame_id)
{
    const struct payload *payload = &payloads[n_sent++ % PAYLOADS_N];
    struct spop_bytes bytes = {.ptr = payload->bytes, .len = payload->len};
    size_t start_off = spop_frame_begin(w, SPOP_FRAME_NOTIFY, (uint64_t)c->fd,
                                        frame_id);
    spop_write_bytes(w, bytes);
    spop_frame_end(w, start_off);
}

static void send_all(const struct connection *c, const struct spop_writer *w)
{
    /* Never more under way than the socket's buffers hold. */
    if (send(c->fd, w->buf, w->len, MSG_NOSIGNAL) != (ssize_t)w->len) {
        die("send");
    }
}

static void put_hello(struct spop_writer *w)
{
    size_t start_off = spop_frame_begin(w, SPOP_FRAME_HAPROXY_HELLO, 0, 0);
    put_arg(w, "supported-versions", text_value("2.0"));
    put_arg(w, "max-frame-size",
            (struct spop_value){.type = SPOP_VALUE_UINT32, .integer = FRAME_BYTES});
    put_arg(w, "capabilities", text_value("pipelining"));
    spop_frame_end(w, start_off);
}

static void open_connection(struct connection *c, unsigned long port)
{
    static uint8_t buf[FRAME_BYTES];
    struct spop_writer w;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        die("connect");
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    spop_writer_init(&w, buf, sizeof(buf));
    put_hello(&w);
    send_all(c, &w);
    if (recv(c->fd, buf, sizeof(buf), 0) <= SPOP_PREFIX_BYTES
        || buf[SPOP_PREFIX_BYTES] != SPOP_FRAME_AGENT_HELLO) {
        die("hello");
    }
}

static void fill_pipeline(struct connection *c, unsigned long depth)
{
    static uint8_t buf[BUF_BYTES];
    struct spop_writer w;
    int64_t now = now_ns();
    spop_writer_init(&w, buf, sizeof(buf));
    for (unsigned long id = 0; id < depth; id++) {
        c->sent_ns[id] = now;
        put_notify(&w, c, id);
    }
    send_all(c, &w);
}

static void note_latency(int64_t ns)
{
    latencies_ns[n_acks++ % LATENCIES_MAX] = (uint32_t)(ns < UINT32_MAX ? ns
                                                                        : UINT32_MAX);
}

/* Take the ACKs that are there; each one's id goes out again as the next NOTIFY. */
static void turn(struct connection *c)
{
    static uint8_t buf[BUF_BYTES];
    struct spop_writer w;
    struct spop_frame frame;
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);
    if (n <= 0) {
        die("recv");
    }
    int64_t now = now_ns();
    struct spop_bytes in = {.ptr = c->in, .len = c->in_len + (size_t)n};
    spop_writer_init(&w, buf, sizeof(buf));
    while (spop_frame_decode(in, FRAME_BYTES, &frame) == SPOP_OK) {
        if (frame.type != SPOP_FRAME_ACK || frame.frame_id >= DEPTH_MAX) {
            die("not an ACK");
        }
        note_latency(now - c->sent_ns[frame.frame_id]);
        c->sent_ns[frame.frame_id] = now;
        put_notify(&w, c, frame.frame_id);
        in.ptr += frame.wire_bytes;
        in.len -= frame.wire_bytes;
    }
    memmove(c->in, in.ptr, in.len);
    c->in_len = in.len;
    if (w.len > 0) {
        send_all(c, &w);
    }
}

static void run(int epoll_fd, int64_t until_ns)
{
    struct epoll_event events[CONNECTIONS_MAX];
    while (now_ns() < until_ns) {
        int n = epoll_wait(epoll_fd, events, CONNECTIONS_MAX, 1000);
        for (int i = 0; i < n; i++) {
            turn(events[i].data.ptr);
        }
    }
}

/* User and system time of a process, in seconds. */
static double cpu_s_of(unsigned long pid)
{
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long system = 0;
    (void)snprintf(path, sizeof(path), "/proc/%lu/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(text, sizeof(text), file) == NULL) {
        die(path);
    }
    (void)fclose(file);
    const char *rest = strrchr(text, ')'); /* a name may hold blanks */
    if (rest == NULL
        || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                  &system)
               != 2) {
        die("stat");
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void print_latencies(void)
{
    size_t n = n_acks < LATENCIES_MAX ? (size_t)n_acks : LATENCIES_MAX;
    qsort(latencies_ns, n, sizeof(latencies_ns[0]), compare);
    (void)printf("NOTIFY to ACK, us: p50 %.0f, p99 %.0f\n", latencies_ns[n / 2] / 1e3,
                 latencies_ns[n - 1 - n / 100] / 1e3);
}

static void measure(int epoll_fd, const struct options *options)
{
    run(epoll_fd, now_ns() + 500000000); /* warm-up */
    n_acks = 0;
    double cpu_s = options->pid > 0 ? cpu_s_of(options->pid) : 0;
    int64_t began_ns = now_ns();
    run(epoll_fd, began_ns + (int64_t)options->seconds * 1000000000);
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    (void)printf("ACK/s: %.0f\n", (double)n_acks / seconds);
    if (options->pid > 0) {
        cpu_s = cpu_s_of(options->pid) - cpu_s;
        (void)printf("agent CPU: %.3f us a request, %.0f %% of one core\n",
                     cpu_s * 1e6 / (double)n_acks, cpu_s * 100 / seconds);
    }
    print_latencies();
}

/* The number that follows option `name`. */
static unsigned long option(int argc, char **argv, const char *name,
                            unsigned long fallback)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoul(argv[i + 1], NULL, 10);
        }
    }
    return fallback;
}

int main(int argc, char **argv)
{
    struct options options = {
        .port = option(argc, argv, "--connect", 0),
        .n_connections = option(argc, argv, "--connections", 8),
        .depth = option(argc, argv, "--depth", 20),
        .seconds = option(argc, argv, "--seconds", 4),
        .pid = option(argc, argv, "--pid", 0),
    };
    if (options.port < 1 || options.port > 65535 || options.n_connections < 1
        || options.n_connections > CONNECTIONS_MAX || options.depth < 1
        || options.depth > DEPTH_MAX) {
        (void)fprintf(stderr,
                      "usage: notify_rate --connect PORT [--connections 1..%d] "
                      "[--depth 1..%d] [--seconds N] [--pid AGENT]\n",
                      (int)CONNECTIONS_MAX, (int)DEPTH_MAX);
        return 2;
    }
    for (uint32_t i = 0; i < PAYLOADS_N; i++) {
        make_payload(&payloads[i], i);
    }
    int epoll_fd = epoll_create1(0);
    for (unsigned long i = 0; i < options.n_connections; i++) {
        struct connection *c = &connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};
        open_connection(c, options.port);
        (void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
        fill_pipeline(c, options.depth);
    }
    measure(epoll_fd, &options);
    return EXIT_SUCCESS;
}
