#include "agent/net/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <ev.h>

#include "spop/session.h"

#include "agent/log.h"
#include "agent/net/handover.h"
#include "agent/net/reassembly.h"
#include "agent/net/worker.h"

/* Frames are read while there is room for an ACK and, after it, a frame of our own. */
enum {
    OUT_ROOM_MIN = DECIDE_ACK_BYTES_MAX + SPOP_SESSION_ROOM_MIN
};

_Static_assert((int)CONNECTION_OUT_BYTES >= 2 * (int)OUT_ROOM_MIN, "room for two ACKs");

enum phase {
    PHASE_OPEN = 0,
    PHASE_ENDING,    /* the output's last frame is written; then half-close */
    PHASE_LINGERING, /* half-closed: read and discard */
};

struct connection {
    struct ev_io io;
    struct worker *worker;
    struct connection *prev;
    struct connection *next;
    struct spop_session session;
    enum phase phase;
    bool is_input_ended; /* the peer half-closed */
    struct instant opened_at;
    struct instant frame_at;    /* last whole frame; before it, accept */
    struct instant begun_at;    /* first byte of the frame in `in` */
    struct instant fragment_at; /* first of the fragments being put together */
    struct instant written_at;  /* last byte taken by the peer, or output begun */
    struct instant ended_at;    /* half-close */
    size_t discarded_bytes;
    size_t in_len; /* bytes of an unfinished frame, or held back by back-pressure */
    size_t in_cap;
    uint8_t *in;
    uint8_t *fragments;      /* the buffer lent to the session, or NULL */
    struct pending *begun;   /* to be finished once the next is begun; or NULL */
    struct pending *pending; /* requests that wait, or whose ACK does: a list */
    unsigned n_pending;
    unsigned n_decided; /* of these, whose ACK waits for room */
    bool is_answered;   /* in the worker's list of those to be flushed */
    struct connection *next_answered;
    struct spop_writer out; /* not yet taken by the peer from out_off on */
    size_t out_off;
    uint8_t out_buf[CONNECTION_OUT_BYTES];
};

/* Before HELLO as much as one may have; then the largest frame, if that is more. */
size_t connection_in_bytes(const struct spop_session *session)
{
    size_t frame_bytes = session->receive_bytes_max;
    return SPOP_PREFIX_BYTES
           + (frame_bytes > SPOP_HELLO_BYTES_MAX ? frame_bytes : SPOP_HELLO_BYTES_MAX);
}

struct connection *connection_next(const struct connection *c)
{
    return c->next;
}

static void give_fragments_back(struct connection *c)
{
    if (c->fragments != NULL) {
        reassembly_give(c->worker->reassembly, c->fragments);
        c->fragments = NULL;
    }
}

/* One connection less: main may have been waiting for it. */
static void tell_gone(struct worker_gone *gone)
{
    (void)atomic_fetch_sub_explicit(&gone->n_open, 1, memory_order_relaxed);
    ev_async_send(gone->main_loop, &gone->async);
}

static void unlink_pending(struct pending *pending)
{
    struct connection *c = pending->connection;
    if (pending->prev != NULL) {
        pending->prev->next = pending->next;
    } else {
        c->pending = pending->next;
    }
    if (pending->next != NULL) {
        pending->next->prev = pending->prev;
    }
    c->n_pending--;
    c->n_decided -= pending->state == PENDING_DECIDED;
}

static void link_pending(struct connection *c, struct pending *pending)
{
    pending->state = PENDING_WAITING;
    pending->change = c->worker->change;
    pending->prev = NULL;
    pending->next = c->pending;
    if (pending->next != NULL) {
        pending->next->prev = pending;
    }
    c->pending = pending;
    c->n_pending++;
    c->worker->n_pending++;
}

/* There will be no ACK for these: stores that answer them later find nobody. */
static void orphan_pending(struct connection *c)
{
    while (c->pending != NULL) {
        struct pending *pending = c->pending;
        unlink_pending(pending);
        pending->connection = NULL;
        counter_add(pending->request.counters, COUNTER_NOTIFIES_ORPHANED, 1);
        if (pending->state == PENDING_DECIDED) {
            worker_end_pending(c->worker, pending);
        }
    }
}

static void forget_answered(struct connection *c)
{
    struct connection **at = &c->worker->answered;
    while (c->is_answered && *at != c) {
        at = &(*at)->next_answered;
    }
    if (c->is_answered) {
        *at = c->next_answered;
    }
}

/* Let go of all but the descriptor, which is answered. */
static int release(struct connection *c)
{
    struct worker *worker = c->worker;
    int fd = c->io.fd;
    ev_io_stop(worker->loop, &c->io); /* before close: the number may be reused */
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        worker->connections = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    orphan_pending(c);
    forget_answered(c);
    give_fragments_back(c);
    free(c->in);
    free(c);
    return fd;
}

static void connection_close(struct connection *c)
{
    struct worker *worker = c->worker;
    (void)close(release(c));
    counter_add(worker->decide.counters, COUNTER_CONNECTIONS_CLOSED, 1);
    tell_gone(worker->gone);
}

static size_t out_pending(const struct connection *c)
{
    return c->out.len - c->out_off;
}

static bool has_out_room(const struct connection *c)
{
    size_t owed = c->begun != NULL ? DECIDE_ACK_BYTES_MAX : 0;
    return c->out.cap - c->out.len >= OUT_ROOM_MIN + owed;
}

/* Whether a frame may be taken. Who is handed over, or ends, takes none while others wait. */
static bool can_take(const struct connection *c)
{
    unsigned n_pending = c->n_pending + (c->begun != NULL);
    return c->phase == PHASE_OPEN && has_out_room(c)
           && n_pending < CONNECTION_PENDINGS_MAX
           && !(c->worker->is_handing_over && n_pending > 0);
}

/* Offer what is pending to the peer, once. Answers what send does. */
static ssize_t send_pending(struct connection *c)
{
    ssize_t n = 0;
    do {
        n = send(c->io.fd, c->out_buf + c->out_off, out_pending(c),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* ACKs that waited for room; whether there were any. Nothing comes after a DISCONNECT. */
static bool write_decided(struct connection *c)
{
    struct pending *next = NULL;
    bool has_written = false;
    if (c->phase != PHASE_OPEN) {
        return false;
    }
    for (struct pending *p = c->pending; c->n_decided > 0 && has_out_room(c);
         p = next) {
        next = p->next;
        if (p->state == PENDING_DECIDED) {
            decide_answer(&p->request, &c->out, c->session.frame_bytes_max);
            unlink_pending(p);
            worker_end_pending(c->worker, p);
            has_written = true;
        }
    }
    return has_written;
}

/* Write the output, as far as the peer takes it; false when the connection broke. */
static bool flush_output(struct connection *c, struct instant now)
{
    while (out_pending(c) > 0) {
        ssize_t n = send_pending(c);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            return false;
        }
        c->out_off += (size_t)n;
        c->written_at = now;
    }
    size_t pending = out_pending(c);
    if (pending == 0 || !has_out_room(c)) {
        memmove(c->out_buf, c->out_buf + c->out_off, pending);
        c->out.len = pending;
        c->out_off = 0;
    }
    return true;
}

/* The same, and what waited for room in it. */
static bool flush(struct connection *c, struct instant now)
{
    bool ok = flush_output(c, now);
    while (ok && c->n_decided > 0 && write_decided(c)) {
        ok = flush_output(c, now);
    }
    return ok;
}

/* The store answered later: the ACK is written, or waits for room, or nobody is left. */
static void on_answered_later(struct pending *pending)
{
    struct connection *c = pending->connection;
    if (c == NULL) {
        worker_end_pending(pending->request.context, pending);
        return;
    }
    pending->state = PENDING_DECIDED;
    c->n_decided++;
    if (!c->is_answered) {
        c->is_answered = true;
        c->next_answered = c->worker->answered;
        c->worker->answered = c;
    }
}

static void on_decided(struct decide_request *request)
{
    struct pending *pending = CONTAINER_OF(request, struct pending, request);
    struct connection *c = pending->connection;
    if (pending->state == PENDING_WAITING) {
        on_answered_later(pending);
        return;
    }
    decide_answer(request, &c->out, c->session.frame_bytes_max);
    pending->state = PENDING_ANSWERED;
}

static void count_close(struct connection *c, const struct spop_event *event)
{
    struct counters *counters = c->worker->decide.counters;
    if (event->is_health_check) {
        counter_add(counters, COUNTER_HEALTH_CHECKS, 1);
    } else if (event->is_peer_ending) {
        counter_add(counters, COUNTER_PEER_DISCONNECTS, 1);
        log_debug("connection %d: HAProxy disconnects with code %d", c->io.fd,
                  (int)c->session.peer_code);
    } else {
        counter_add(counters, COUNTER_PROTOCOL_ERRORS, 1);
        log_debug("connection %d: disconnected with code %d, %s", c->io.fd,
                  (int)event->code, spop_code_text(event->code));
    }
}

/* Room for the largest frame that HAProxy announced; false when memory is short. */
static bool grow_in(struct connection *c)
{
    size_t need = connection_in_bytes(&c->session);
    if (need <= c->in_cap) {
        return true;
    }
    uint8_t *grown = realloc(c->in, need);
    if (grown == NULL) {
        return false;
    }
    c->in = grown;
    c->in_cap = need;
    return true;
}

static void end_invalid(struct connection *c, enum spop_code code)
{
    counter_add(c->worker->decide.counters, COUNTER_PROTOCOL_ERRORS, 1);
    log_debug("connection %d: %s", c->io.fd, spop_code_text(code));
    spop_session_disconnect(&c->session, code, &c->out);
    c->phase = PHASE_ENDING;
}

/* The ACK is written now, or the store answers later. */
static void finish_begun(struct connection *c)
{
    struct worker *worker = c->worker;
    struct pending *pending = c->begun;
    if (pending == NULL) {
        return;
    }
    c->begun = NULL;
    decide_finish(&pending->request, on_decided, worker);
    if (pending->state == PENDING_BEGUN) {
        ENSURE(pending != &worker->pendings.last);
        link_pending(c, pending);
    } else {
        pendings_put(&worker->pendings, pending);
    }
}

/* Begin it, and then finish the one before, whose counters are at hand by now. */
static void on_notify(struct connection *c, const struct spop_event *event,
                      struct instant now)
{
    struct worker *worker = c->worker;
    struct counters *counters = worker->decide.counters;
    counter_add(counters, COUNTER_NOTIFIES, 1);
    if (event->is_fragmented) {
        counter_add(counters, COUNTER_NOTIFIES_FRAGMENTED, 1);
    }
    struct pending *pending = pendings_take(&worker->pendings);
    bool may_wait = pending != &worker->pendings.last;
    pending->connection = c;
    pending->request.take.deadline = instant_add_us(
        now, may_wait ? worker->decide.options->deadline_us : 0);
    bool is_begun = decide_begin(&worker->decide, &pending->request, event, now);
    finish_begun(c);
    if (!is_begun) {
        counter_add(counters, COUNTER_NOTIFIES_MALFORMED, 1);
        end_invalid(c, SPOP_CODE_INVALID);
        pendings_put(&worker->pendings, pending);
        return;
    }
    c->begun = pending;
    if (!may_wait) {
        finish_begun(c); /* there is one such request, and the next needs it */
    }
}

/* A NOTIFY begins in fragments: without a buffer left the session refuses it. */
static void lend_buffer(struct connection *c, struct instant now)
{
    c->fragment_at = now;
    c->fragments = reassembly_take(c->worker->reassembly);
    if (c->fragments != NULL) {
        spop_session_lend(&c->session, c->fragments, SPOP_REASSEMBLY_BYTES_MAX);
    }
}

/* The session has answered it. */
static void count_refused(struct counters *counters)
{
    counter_add(counters, COUNTER_NOTIFIES, 1);
    counter_add(counters, COUNTER_NOTIFIES_WITHOUT_ROOM, 1);
    counter_add(counters, COUNTER_ACKS, 1);
    counter_add(counters, COUNTER_ACKS_NEUTRAL, 1);
}

static void on_event(struct connection *c, const struct spop_event *event,
                     struct instant now)
{
    struct counters *counters = c->worker->decide.counters;
    c->frame_at = now;
    switch (event->type) {
    case SPOP_EVENT_MORE:
    case SPOP_EVENT_FRAGMENT:
        return;
    case SPOP_EVENT_HELLO:
        if (!grow_in(c)) {
            end_invalid(c, SPOP_CODE_RESOURCE);
        }
        return;
    case SPOP_EVENT_NOTIFY:
        on_notify(c, event, now);
        return;
    case SPOP_EVENT_FRAGMENTED:
        lend_buffer(c, now);
        return;
    case SPOP_EVENT_REFUSED:
        count_refused(counters);
        return;
    case SPOP_EVENT_ABORTED:
        counter_add(counters, COUNTER_NOTIFIES, 1);
        counter_add(counters, COUNTER_NOTIFIES_ABORTED, 1);
        return;
    case SPOP_EVENT_IGNORED:
        counter_add(counters, COUNTER_FRAMES_IGNORED, 1);
        return;
    case SPOP_EVENT_CLOSE:
        count_close(c, event);
        c->phase = PHASE_ENDING;
        return;
    }
}

/* Keep what is left, which may lie in the connection's own buffer. */
static void keep(struct connection *c, struct spop_bytes left, bool is_other_frame,
                 struct instant now)
{
    if (left.len > 0) {
        memmove(c->in, left.ptr, left.len);
        if (is_other_frame || c->in_len == 0) {
            c->begun_at = now;
        }
    }
    c->in_len = left.len;
}

/* What the session says for itself comes after the ACKs of what came before. */
static size_t next_event(struct connection *c, struct spop_bytes bytes,
                         struct spop_event *event)
{
    UNCLEARED uint8_t buf[SPOP_SESSION_ROOM_MIN];
    struct spop_writer said;
    spop_writer_init(&said, buf, sizeof(buf));
    size_t n_done = spop_session_next(&c->session, bytes, &said, event);
    if (event->type != SPOP_EVENT_NOTIFY) {
        finish_begun(c);
    }
    spop_write_bytes(&c->out, (struct spop_bytes){.ptr = buf, .len = said.len});
    return n_done;
}

/* Act on the whole frames at the beginning of `bytes`, for as long as they may be taken,
 * and move past them; true when it stopped before the last. */
static bool take_frames(struct connection *c, struct spop_bytes *bytes,
                        struct instant now)
{
    while (can_take(c)) {
        struct spop_event event;
        size_t n_done = next_event(c, *bytes, &event);
        if (event.type == SPOP_EVENT_MORE) {
            return false;
        }
        bytes->ptr += n_done;
        bytes->len -= n_done;
        on_event(c, &event, now);
        if (!spop_session_is_assembling(&c->session)) {
            give_fragments_back(c);
        }
    }
    finish_begun(c);
    return c->phase == PHASE_OPEN;
}

/* Act on what was received, and write the answers; false when the connection broke. What
 * is held back waits for the peer to read, or for a store: never while it may be taken. */
static bool process(struct connection *c, struct spop_bytes bytes, struct instant now)
{
    size_t n_received = bytes.len;
    bool is_held = true;
    if (out_pending(c) == 0) {
        c->written_at = now;
    }
    while (is_held && can_take(c)) {
        is_held = take_frames(c, &bytes, now);
        if (!flush(c, now)) {
            return false;
        }
    }
    if (c->phase != PHASE_OPEN) {
        bytes.len = 0; /* nothing after a DISCONNECT is looked at */
    }
    keep(c, bytes, bytes.len < n_received, now);
    return true;
}

static void watch(struct connection *c, int events)
{
    if (c->io.events == events) {
        return;
    }
    ev_io_stop(c->worker->loop, &c->io);
    ev_io_set(&c->io, c->io.fd, events);
    ev_io_start(c->worker->loop, &c->io);
}

static bool is_drain_deaf(const struct connection *c, struct instant now)
{
    return c->worker->is_draining
           && instant_diff_us(now, c->worker->drain_began) >= c->worker->drain_read_us;
}

/* All there is of a connection is in the socket, `in` and the output, but for fragments
 * that are being put together and answers under way: for these we wait, no longer than
 * their time limits. */
bool connection_hand_over(struct connection *c)
{
    if (c->phase != PHASE_OPEN) {
        return true; /* it ends here */
    }
    if (spop_session_is_assembling(&c->session) || c->n_pending > 0) {
        return false;
    }
    struct handover handover = {
        .fd = c->io.fd,
        .session = c->session,
        .in = {.ptr = c->in, .len = c->in_len},
        .out = {.ptr = c->out_buf + c->out_off, .len = out_pending(c)},
    };
    struct worker *worker = c->worker;
    if (handover_send(worker->channel_fd, &handover) != CHANNEL_OK) {
        return false;
    }
    ENSURE(worker->n_handed < SERVER_CONNECTIONS_MAX);
    worker->handed_fds[worker->n_handed++] = release(c);
    counter_add(worker->decide.counters, COUNTER_CONNECTIONS_CLOSED, 1);
    tell_gone(worker->gone);
    return true;
}

/* After anything happened: go on to the next phase, or wait for the right event. */
static void settle(struct connection *c, struct instant now)
{
    size_t pending = out_pending(c);
    if (c->phase != PHASE_OPEN) {
        orphan_pending(c); /* nothing comes after a DISCONNECT */
    }
    if (pending == 0 && c->n_pending == 0 && c->is_input_ended) {
        connection_close(c);
        return;
    }
    if (pending == 0 && c->phase == PHASE_ENDING) {
        (void)shutdown(c->io.fd, SHUT_WR);
        c->phase = PHASE_LINGERING;
        c->ended_at = now;
    }
    if (c->worker->is_handing_over && c->phase == PHASE_OPEN
        && connection_hand_over(c)) {
        return;
    }
    bool wants_read = c->phase == PHASE_LINGERING
                      || (can_take(c) && !c->is_input_ended && !is_drain_deaf(c, now));
    watch(c, (wants_read ? EV_READ : 0) | (pending > 0 ? EV_WRITE : 0));
}

/* Read once. Answers what recv does, 0 for "nothing now" with errno EAGAIN. */
static ssize_t receive(struct connection *c, uint8_t *buf, size_t cap)
{
    ssize_t n = 0;
    do {
        n = recv(c->io.fd, buf, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

static bool is_not_now(ssize_t n)
{
    return n < 0 && errno == EAGAIN;
}

static void on_linger(struct connection *c)
{
    ssize_t n = receive(c, c->worker->read_buf, sizeof(c->worker->read_buf));
    if (is_not_now(n)) {
        return;
    }
    if (n > 0) {
        c->discarded_bytes += (size_t)n;
    }
    if (n <= 0 || c->discarded_bytes > CONNECTION_DISCARD_BYTES_MAX) {
        connection_close(c);
    }
}

static void close_broken(struct connection *c)
{
    counter_add(c->worker->decide.counters, COUNTER_IO_ERRORS, 1);
    log_debug("connection %d: closed by an I/O error", c->io.fd);
    connection_close(c);
}

static void on_readable(struct connection *c, struct instant now)
{
    if (c->phase == PHASE_LINGERING) {
        on_linger(c);
        return;
    }
    uint8_t *buf = c->worker->read_buf;
    memcpy(buf, c->in, c->in_len);
    ssize_t n = receive(c, buf + c->in_len, c->in_cap - c->in_len);
    if (is_not_now(n)) {
        return;
    }
    if (n < 0) {
        close_broken(c);
        return;
    }
    c->is_input_ended = n == 0;
    struct spop_bytes bytes = {.ptr = buf, .len = c->in_len + (size_t)n};
    if (!process(c, bytes, now)) {
        close_broken(c);
        return;
    }
    settle(c, now);
}

/* Write, and go on with what was held back. */
static void go_on(struct connection *c, struct instant now)
{
    bool ok = flush(c, now);
    if (ok && c->worker->is_handing_over && c->phase == PHASE_OPEN
        && connection_hand_over(c)) {
        return; /* with what is held back */
    }
    if (ok && c->in_len > 0 && can_take(c)) {
        struct spop_bytes held = {.ptr = c->in, .len = c->in_len};
        c->begun_at = now; /* nothing was read until now */
        ok = process(c, held, now);
    }
    if (!ok) {
        close_broken(c);
        return;
    }
    settle(c, now);
}

void connection_flush_answered(struct worker *worker, struct instant now)
{
    while (worker->answered != NULL) {
        struct connection *c = worker->answered;
        worker->answered = c->next_answered;
        c->is_answered = false;
        if (out_pending(c) == 0) {
            c->written_at = now;
        }
        go_on(c, now);
    }
}

static void on_io(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct connection *c = CONTAINER_OF(io, struct connection, io);
    (void)loop;
    struct instant now = clock_now();
    if ((events & EV_WRITE) != 0) {
        go_on(c, now);
        return; /* the loop comes back for what is still readable */
    }
    on_readable(c, now);
}

/* The only connections ever closed unheard: there is nothing to serve them with. */
static void refuse_for_memory(struct worker *worker, int fd)
{
    struct instant now = clock_now();
    (void)close(fd);
    counter_add(worker->decide.counters, COUNTER_CONNECTIONS_FAILED, 1);
    tell_gone(worker->gone);
    if (instant_diff_us(now, worker->warned_at) >= WORKER_WARNING_US) {
        worker->warned_at = now;
        log_error("out of memory for connections (said at most once a minute)");
    }
}

/* A connection that is watched; NULL, and `fd` closed, when memory is short. */
static struct connection *start(struct worker *worker, int fd,
                                const struct spop_session *session)
{
    struct connection *c = calloc(1, sizeof(*c));
    size_t in_cap = connection_in_bytes(session);
    uint8_t *in = malloc(in_cap);
    if (c == NULL || in == NULL) {
        free(c);
        free(in);
        refuse_for_memory(worker, fd);
        return NULL;
    }
    c->worker = worker;
    c->in = in;
    c->in_cap = in_cap;
    c->opened_at = clock_now();
    c->frame_at = c->opened_at;
    c->session = *session;
    spop_writer_init(&c->out, c->out_buf, sizeof(c->out_buf));
    c->next = worker->connections;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    worker->connections = c;
    counter_add(worker->decide.counters, COUNTER_CONNECTIONS_OPENED, 1);
    ev_io_init(&c->io, on_io, fd, EV_READ);
    ev_io_start(worker->loop, &c->io);
    return c;
}

void connection_open(struct worker *worker, int fd)
{
    struct spop_session session;
    spop_session_init(&session);
    (void)start(worker, fd, &session);
}

void connection_adopt(struct worker *worker, struct handover *handover)
{
    struct connection *c = start(worker, handover->fd, &handover->session);
    if (c != NULL) {
        c->in_len = handover->in.len;
        memcpy(c->in, handover->in.ptr, handover->in.len);
        c->out.len = handover->out.len;
        memcpy(c->out_buf, handover->out.ptr, handover->out.len);
        c->begun_at = c->opened_at;
        c->written_at = c->opened_at;
        go_on(c, c->opened_at);
    }
    free(handover);
}

static bool is_past(struct instant now, struct instant since, int64_t limit_us)
{
    return instant_diff_us(now, since) >= limit_us;
}

static void end(struct connection *c, enum spop_code code, struct instant now)
{
    if (out_pending(c) == 0) {
        c->written_at = now;
    }
    spop_session_disconnect(&c->session, code, &c->out);
    c->phase = PHASE_ENDING;
    c->in_len = 0;
    give_fragments_back(c);
    if (!flush(c, now)) {
        close_broken(c);
        return;
    }
    settle(c, now);
}

static void time_out(struct connection *c, enum spop_code code, struct instant now)
{
    counter_add(c->worker->decide.counters, COUNTER_TIMEOUTS, 1);
    log_debug("connection %d: timed out", c->io.fd);
    end(c, code, now);
}

/* While draining: DISCONNECT once nothing came for a while (an ACK and a DISCONNECT in
 * one segment cost HAProxy 3.1.0 the ACK); busy connections are read no longer than
 * drain_read_us, so they fall quiet. */
static void check_drain(struct connection *c, struct instant now)
{
    if (is_past(now, c->worker->drain_began, WORKER_DRAIN_US_MAX)) {
        connection_close(c);
        return;
    }
    bool is_quiet = is_past(now, c->frame_at, WORKER_DRAIN_QUIET_US)
                    && is_past(now, c->worker->drain_began, WORKER_DRAIN_QUIET_US);
    if (c->phase == PHASE_OPEN && is_quiet && out_pending(c) == 0
        && c->n_pending == 0) {
        end(c, SPOP_CODE_NORMAL, now);
        return;
    }
    settle(c, now);
}

/* A frame, or a NOTIFY in fragments, was begun too long ago. What is held back is not
 * late. */
static bool is_frame_late(const struct connection *c, struct instant now)
{
    bool is_frame_begun = c->in_len > 0 && can_take(c);
    return (is_frame_begun && is_past(now, c->begun_at, CONNECTION_FRAME_US))
           || (spop_session_is_assembling(&c->session)
               && is_past(now, c->fragment_at, CONNECTION_FRAME_US));
}

/* The peer takes nothing of the output. ACKs that find no room hold requests of the pool,
 * so these wait shorter. */
static bool is_unread(const struct connection *c, struct instant now)
{
    return out_pending(c) > 0
           && is_past(now, c->written_at,
                      c->n_decided > 0 ? CONNECTION_UNREAD_US : CONNECTION_WRITE_US);
}

void connection_check_timers(struct connection *c, struct instant now)
{
    if (is_unread(c, now)) {
        counter_add(c->worker->decide.counters, COUNTER_TIMEOUTS, 1);
        connection_close(c);
        return;
    }
    if (c->phase == PHASE_LINGERING) {
        if (is_past(now, c->ended_at, CONNECTION_LINGER_US)) {
            connection_close(c);
        }
        return;
    }
    if (c->phase == PHASE_OPEN && c->session.state == SPOP_SESSION_NEW
        && is_past(now, c->opened_at, CONNECTION_HELLO_US)) {
        time_out(c, SPOP_CODE_TIMEOUT, now);
        return;
    }
    if (c->phase == PHASE_OPEN && is_frame_late(c, now)) {
        time_out(c, SPOP_CODE_TIMEOUT, now);
        return;
    }
    if (c->phase == PHASE_OPEN && is_past(now, c->frame_at, CONNECTION_IDLE_US)) {
        end(c, SPOP_CODE_NORMAL, now);
        return;
    }
    if (c->worker->is_draining) {
        check_drain(c, now);
    }
}
