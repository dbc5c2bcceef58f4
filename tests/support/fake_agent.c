#include "tests/support/fake_agent.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "spop/ack.h"
#include "spop/bytes.h"
#include "spop/disconnect.h"
#include "spop/frame.h"
#include "spop/hello.h"
#include "spop/session.h"

enum {
    CONNECTIONS_MAX = 32,
    IN_BYTES = SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX,
    OUT_BYTES = 8192,
    TENTH = 10,
    WAIT_MS = 10,
};

struct connection {
    int fd;
    struct fake_agent *agent;
    struct spop_session session;
    unsigned n_notifies;
    size_t in_len;
    struct spop_writer out;
    uint8_t in[IN_BYTES];
    uint8_t out_buf[OUT_BYTES];
    uint8_t lent[SPOP_REASSEMBLY_BYTES_MAX];
};

static void put_hello(struct connection *c)
{
    static const char old[] = "\0\0\0\x2e\x65\0\0\0\1\0\0\7version\x08\3"
                              "1.0\x0emax-frame-size\3\xf0\1\x0c"
                              "capabilities\x08";
    struct spop_agent_hello hello = {
        .frame_bytes_max = c->agent->manners == FAKE_SMALL ? SPOP_FRAME_SIZE_MIN
                                                           : c->session.frame_bytes_max,
    };
    c->out.len = 0; /* instead of the session's */
    if (c->agent->manners == FAKE_OLD) {
        struct spop_bytes bytes = {(const uint8_t *)old, sizeof(old)};
        spop_write_bytes(&c->out, bytes);
        spop_writer_patch_be32(&c->out, 0, sizeof(old) - SPOP_PREFIX_BYTES);
    } else {
        spop_hello_encode(&c->out, &hello);
    }
}

static void put_ack(struct connection *c, const struct spop_event *event)
{
    struct spop_ack ack;
    struct spop_variable deny;
    struct spop_variable action;
    enum fake_manners manners = c->agent->manners;
    spop_variable_init(&deny, SPOP_SCOPE_TXN, "deny");
    spop_variable_init(&action, SPOP_SCOPE_TXN, "action");
    spop_ack_begin(&ack, &c->out, event->stream_id, event->frame_id,
                   SPOP_FRAME_SIZE_MIN);
    if (manners == FAKE_DENYING) {
        const char *const texts[] = {"reject", "allow", "degrade"};
        const char *text = texts[c->n_notifies % 3];
        spop_ack_set_string(&ack, &action, spop_bytes_view(text));
    } else if (manners != FAKE_WITHOUT_VERDICT) {
        spop_ack_set_bool(&ack, &deny, false);
    }
    spop_ack_end(&ack);
    if (manners == FAKE_BAD_ACTIONS && c->n_notifies == TENTH) {
        c->out.buf[c->out.len - 1] = 0xff; /* a type that there is not */
    }
}

static void answer(struct connection *c, const struct spop_event *event)
{
    enum fake_manners manners = c->agent->manners;
    bool is_tenth = ++c->n_notifies == TENTH;
    atomic_fetch_add(&c->agent->n_notifies, 1);
    if (is_tenth && manners == FAKE_DISCONNECTING) {
        spop_session_disconnect(&c->session, SPOP_CODE_RESOURCE, &c->out);
    } else if (!is_tenth || (manners != FAKE_DROPPING && manners != FAKE_CLOSING)) {
        put_ack(c, event);
    }
    if (is_tenth && manners == FAKE_TWICE) {
        put_ack(c, event);
    }
}

static bool flush(struct connection *c)
{
    ssize_t n = send(c->fd, c->out.buf, c->out.len, MSG_NOSIGNAL);
    bool ok = n == (ssize_t)c->out.len;
    c->out.len = 0;
    return ok;
}

/* One event of the session; false when the connection is over. */
static bool step(struct connection *c, struct spop_bytes *in, bool *has_more)
{
    struct spop_event event;
    unsigned n_before = c->n_notifies;
    size_t n = spop_session_next(&c->session, *in, &c->out, &event);
    *in = (struct spop_bytes){.ptr = in->ptr + n, .len = in->len - n};
    *has_more = event.type != SPOP_EVENT_MORE;
    if (event.type == SPOP_EVENT_HELLO
        && (c->agent->manners == FAKE_OLD || c->agent->manners == FAKE_SMALL
            || c->agent->manners == FAKE_NOT_PIPELINING)) {
        put_hello(c);
    } else if (event.type == SPOP_EVENT_FRAGMENTED) {
        spop_session_lend(&c->session, c->lent, sizeof(c->lent));
    } else if (event.type == SPOP_EVENT_NOTIFY) {
        if (c->agent->manners == FAKE_NOT_PIPELINING && in->len > 0) {
            abort(); /* another one, before the ACK */
        }
        answer(c, &event);
    }
    bool is_over = event.type == SPOP_EVENT_CLOSE
                   || c->session.state == SPOP_SESSION_CLOSED
                   || (c->agent->manners == FAKE_CLOSING && c->n_notifies > n_before
                       && c->n_notifies == TENTH);
    bool is_sent = c->out.len == 0 || flush(c);
    return is_sent && !is_over;
}

static void close_connection(struct connection *c)
{
    if (c != NULL) {
        (void)close(c->fd);
        free(c);
    }
}

static bool receive(struct connection *c)
{
    static const char http[] = "HTTP/1.1 400 Bad request\r\n\r\n";
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);
    bool ok = n > 0;
    bool has_more = ok && c->agent->manners != FAKE_SILENT;
    if (ok && c->agent->manners == FAKE_NO_SPOP) {
        (void)send(c->fd, http, sizeof(http) - 1, MSG_NOSIGNAL);
        return false;
    }
    struct spop_bytes in = {.ptr = c->in, .len = c->in_len + (size_t)(ok ? n : 0)};
    if (c->agent->manners == FAKE_SILENT) {
        in.len = 0;
    }
    while (ok && has_more) {
        ok = step(c, &in, &has_more);
    }
    memmove(c->in, in.ptr, in.len);
    c->in_len = in.len;
    return ok;
}

/* What is there to be read is answered; NULL when the connection is over. */
static struct connection *serve(struct connection *c)
{
    if (receive(c)) {
        return c;
    }
    close_connection(c);
    return NULL;
}

static struct connection *accept_connection(struct fake_agent *agent)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        abort();
    }
    c->fd = accept(agent->listening_fd, NULL, NULL);
    c->agent = agent;
    spop_session_init(&c->session);
    spop_writer_init(&c->out, c->out_buf, sizeof(c->out_buf));
    return c;
}

/* Connections that are there, and the listening socket behind them. */
static void wait_for_any(const struct fake_agent *agent,
                         struct connection *const *connections, struct pollfd *fds)
{
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        int fd = connections[i] != NULL ? connections[i]->fd : -1;
        fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    fds[CONNECTIONS_MAX] = (struct pollfd){.fd = agent->listening_fd, .events = POLLIN};
    (void)poll(fds, CONNECTIONS_MAX + 1, WAIT_MS);
}

/* Wait and look at everybody once. */
static void turn(struct fake_agent *agent, struct connection **connections)
{
    struct pollfd fds[CONNECTIONS_MAX + 1];
    wait_for_any(agent, connections, fds);
    bool is_waiting = fds[CONNECTIONS_MAX].revents != 0;
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        if (connections[i] != NULL && fds[i].revents != 0) {
            connections[i] = serve(connections[i]);
        } else if (connections[i] == NULL && is_waiting) {
            connections[i] = accept_connection(agent);
            is_waiting = false;
        }
    }
}

static void *run(void *arg)
{
    struct fake_agent *agent = arg;
    struct connection *connections[CONNECTIONS_MAX] = {NULL};
    while (!atomic_load(&agent->is_stopping)) {
        turn(agent, connections);
    }
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        close_connection(connections[i]);
    }
    return NULL;
}

bool fake_agent_start(struct fake_agent *agent, enum fake_manners manners)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memset(agent, 0, sizeof(*agent));
    agent->manners = manners;
    (void)snprintf(agent->dir, sizeof(agent->dir), "/tmp/fake_agent.XXXXXX");
    if (mkdtemp(agent->dir) == NULL) {
        return false;
    }
    (void)snprintf(agent->path, sizeof(agent->path), "%s/sock", agent->dir);
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", agent->path);
    agent->listening_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return agent->listening_fd >= 0
           && bind(agent->listening_fd, (struct sockaddr *)&un, sizeof(un)) == 0
           && listen(agent->listening_fd, CONNECTIONS_MAX) == 0
           && pthread_create(&agent->thread, NULL, run, agent) == 0;
}

void fake_agent_stop(struct fake_agent *agent)
{
    atomic_store(&agent->is_stopping, true);
    (void)pthread_join(agent->thread, NULL);
    (void)close(agent->listening_fd);
    (void)unlink(agent->path);
    (void)rmdir(agent->dir);
}
