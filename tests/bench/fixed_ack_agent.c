/*
 * An agent that decides nothing: each NOTIFY gets one ACK with the variables that the
 * real agent sends for an allowed request, made once at start. What the real agent
 * takes longer than this one is what deciding costs.
 *
 * Its I/O has the shape of the real one's: one acceptor hands connections to workers in
 * turn; readable -> one recv -> all whole frames -> one send. A peer that does not read
 * its ACKs is cut off.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <ev.h>

#include "spop/ack.h"
#include "spop/bytes.h"
#include "spop/frame.h"
#include "spop/session.h"

#include "tests/support/variable.h"

enum {
    WORKERS_MAX = 16,
    IN_BYTES = SPOP_PREFIX_BYTES + SPOP_HELLO_BYTES_MAX, /* HAProxy's frame size */
    OUT_BYTES = 65536,
    OUT_ROOM_MIN = 1024, /* one ACK, or one frame of the session */
};

struct worker {
    struct ev_loop *loop;
    struct ev_io letters; /* descriptors from the acceptor */
    int letter_fd;        /* its end of the pipe */
    uint8_t in[IN_BYTES];
    uint8_t out[OUT_BYTES];
};

struct connection {
    struct ev_io io;
    struct worker *worker;
    struct spop_session session;
    size_t in_len; /* the beginning of a frame */
    uint8_t in[IN_BYTES];
};

struct acceptor {
    struct ev_io io;
    unsigned n_workers;
    unsigned next_worker;
    struct worker workers[WORKERS_MAX];
};

static uint8_t actions_buf[512];
static struct spop_bytes actions; /* of every ACK */

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static void set_text(struct spop_ack *ack, const char *name, const char *text)
{
    spop_ack_set_string(ack, variable(SPOP_SCOPE_TXN, name), spop_bytes_view(text));
}

/* What the two rules of proxy.sh make of a request, with the default variables. */
static void make_actions(void)
{
    struct spop_writer w;
    struct spop_ack ack;
    struct spop_frame frame;
    spop_writer_init(&w, actions_buf, sizeof(actions_buf));
    spop_ack_begin(&ack, &w, 0, 0, SPOP_HELLO_BYTES_MAX);
    set_text(&ack, "action", "allow");
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "deny"), false);
    set_text(&ack, "rule", "per_address");
    set_text(&ack, "ratelimit",
             "\"per_address\";r=999999999;t=60, \"per_client\";r=9999999;t=60");
    set_text(&ack, "policy",
             "\"per_address\";q=1000000000;w=60, \"per_client\";q=10000000;w=60");
    spop_ack_end(&ack);
    struct spop_bytes bytes = {.ptr = w.buf, .len = w.len};
    if (spop_frame_decode(bytes, SPOP_HELLO_BYTES_MAX, &frame) != SPOP_OK) {
        die("actions");
    }
    actions = frame.payload;
}

static void put_ack(struct spop_writer *out, const struct spop_event *event)
{
    size_t start_off = spop_frame_begin(out, SPOP_FRAME_ACK, event->stream_id,
                                        event->frame_id);
    spop_write_bytes(out, actions);
    spop_frame_end(out, start_off);
}

static bool flush(struct connection *c, struct spop_writer *out)
{
    ssize_t n = send(c->io.fd, out->buf, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool is_sent = n == (ssize_t)out->len;
    out->len = 0;
    return is_sent;
}

/* Answers all whole frames of `in`; false when the connection is over. */
static bool answer(struct connection *c, struct spop_bytes in)
{
    struct spop_writer out;
    struct spop_event event = {.type = SPOP_EVENT_IGNORED};
    bool is_open = true;
    spop_writer_init(&out, c->worker->out, sizeof(c->worker->out));
    while (is_open && event.type != SPOP_EVENT_MORE) {
        size_t n = spop_session_next(&c->session, in, &out, &event);
        in = (struct spop_bytes){.ptr = in.ptr + n, .len = in.len - n};
        if (event.type == SPOP_EVENT_NOTIFY) {
            put_ack(&out, &event);
        }
        is_open = event.type != SPOP_EVENT_CLOSE;
        if (spop_writer_room(&out) < OUT_ROOM_MIN) {
            is_open = flush(c, &out) && is_open;
        }
    }
    if (in.len > sizeof(c->in)) {
        return false;
    }
    memcpy(c->in, in.ptr, in.len);
    c->in_len = in.len;
    return (out.len == 0 || flush(c, &out)) && is_open;
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct connection *c = (struct connection *)(void *)io;
    uint8_t *buf = c->worker->in;
    (void)events;
    memcpy(buf, c->in, c->in_len);
    ssize_t n = recv(io->fd, buf + c->in_len, IN_BYTES - c->in_len, MSG_DONTWAIT);
    struct spop_bytes in = {.ptr = buf, .len = c->in_len + (size_t)(n > 0 ? n : 0)};
    if (n <= 0 || !answer(c, in)) {
        ev_io_stop(loop, io);
        (void)close(io->fd);
        free(c);
    }
}

static void on_letter(struct ev_loop *loop, struct ev_io *io, int events)
{
    int fd = -1;
    (void)events;
    if (read(io->fd, &fd, sizeof(fd)) != (ssize_t)sizeof(fd)) {
        return;
    }
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        die("calloc");
    }
    c->worker = (struct worker *)io->data;
    spop_session_init(&c->session);
    ev_io_init(&c->io, on_readable, fd, EV_READ);
    ev_io_start(loop, &c->io);
}

static void on_acceptable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct acceptor *acceptor = (struct acceptor *)(void *)io;
    int on = 1;
    (void)loop;
    (void)events;
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int letter_fd = acceptor->workers[acceptor->next_worker].letter_fd;
    acceptor->next_worker = (acceptor->next_worker + 1) % acceptor->n_workers;
    if (write(letter_fd, &fd, sizeof(fd)) != (ssize_t)sizeof(fd)) {
        die("write");
    }
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    ev_run(worker->loop, 0);
    return NULL;
}

static void start_worker(struct worker *worker)
{
    int fds[2];
    pthread_t thread;
    worker->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (worker->loop == NULL || pipe(fds) != 0) {
        die("worker");
    }
    worker->letter_fd = fds[1];
    ev_io_init(&worker->letters, on_letter, fds[0], EV_READ);
    worker->letters.data = worker;
    ev_io_start(worker->loop, &worker->letters);
    if (pthread_create(&thread, NULL, run_worker, worker) != 0) {
        die("pthread_create");
    }
}

static int listen_on(unsigned long port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0
        || listen(fd, SOMAXCONN) != 0) {
        die("listen");
    }
    return fd;
}

/* The number that follows option `name`; 0 where it is missing. */
static unsigned long option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoul(argv[i + 1], NULL, 10);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct acceptor acceptor;
    unsigned long port = option(argc, argv, "--listen");
    unsigned long n_workers = option(argc, argv, "--workers");
    if (port < 1 || port > 65535 || n_workers < 1 || n_workers > WORKERS_MAX) {
        (void)fprintf(stderr, "usage: fixed_ack_agent --listen PORT --workers 1..%d\n",
                      (int)WORKERS_MAX);
        return 2;
    }
    make_actions();
    acceptor.n_workers = (unsigned)n_workers;
    for (unsigned i = 0; i < acceptor.n_workers; i++) {
        start_worker(&acceptor.workers[i]);
    }
    struct ev_loop *loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV);
    ev_io_init(&acceptor.io, on_acceptable, listen_on(port), EV_READ);
    ev_io_start(loop, &acceptor.io);
    (void)printf("ready\n");
    (void)fflush(stdout);
    ev_run(loop, 0);
    return EXIT_SUCCESS;
}
