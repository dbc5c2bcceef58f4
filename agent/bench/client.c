#include "agent/bench/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "spop/actions.h"
#include "spop/bytes.h"

enum {
    OUT_BYTES_MIN = 16384,
    /* Kept free for DISCONNECT, and for what the engine wants to see free after it. */
    OUT_BYTES_RESERVED = 2 * SPOP_ENGINE_ROOM_MIN,
    LAST_READS_MAX = 64, /* of what a peer left that takes nothing any more */
};

static void note_error(struct client *c, struct instant now, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note_error(struct client *c, struct instant now, const char *format, ...)
{
    struct tally *tally = &c->env->tally;
    if (tally->first_error[0] != '\0') {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(tally->first_error, sizeof(tally->first_error), format, args);
    va_end(args);
    tally->first_error_at = now;
}

/* The bytes of a NOTIFY at most, cut into the smallest fragments there can be. */
static size_t notify_bytes_max(const struct shape *shape)
{
    size_t payload_bytes = shape_bytes_max(shape);
    size_t n_frames = payload_bytes / (SPOP_FRAME_SIZE_MIN - SPOP_ENGINE_HEAD_BYTES_MAX)
                      + 1;
    return payload_bytes + n_frames * SPOP_ENGINE_HEAD_BYTES_MAX;
}

bool client_init(struct client *c, struct client_env *env)
{
    const struct bench_plan *plan = env->run->plan;
    size_t notify_bytes = notify_bytes_max(&plan->shape);
    *c = (struct client){.env = env, .fd = -1, .backoff_us = CLIENT_BACKOFF_MIN_US};
    c->in_cap = SPOP_PREFIX_BYTES + plan->frame_bytes_max;
    c->out_cap = 2 * notify_bytes + OUT_BYTES_RESERVED;
    c->out_cap = c->out_cap > OUT_BYTES_MIN ? c->out_cap : OUT_BYTES_MIN;
    c->retry_at = env->run->start;
    c->slots = calloc(plan->depth, sizeof(*c->slots));
    c->in = malloc(c->in_cap);
    c->out = malloc(c->out_cap);
    return c->slots != NULL && c->in != NULL && c->out != NULL;
}

/* The connection is over; its NOTIFYs under way are counted as `unanswered`. */
static void go_down(struct client *c, enum tally_counter unanswered)
{
    if (c->fd >= 0) {
        (void)close(c->fd); /* and leaves epoll */
    }
    tally_add(&c->env->tally, unanswered, c->n_under_way);
    c->fd = -1;
    c->state = CLIENT_DOWN;
    c->n_under_way = 0;
    c->in_len = 0;
    c->out_len = 0;
    c->wants_writable = false;
}

static void lose(struct client *c, enum tally_counter reason, struct instant now)
{
    struct bench_run *run = c->env->run;
    go_down(c, TALLY_UNANSWERED);
    tally_add(&c->env->tally, reason, 1);
    c->retry_at = instant_add_us(now, c->backoff_us);
    c->backoff_us *= 2;
    if (c->backoff_us > CLIENT_BACKOFF_MAX_US) {
        c->backoff_us = CLIENT_BACKOFF_MAX_US;
    }
    if (!atomic_load(&run->has_opened)) {
        atomic_store(&run->is_given_up, true);
    }
}

static void lose_errno(struct client *c, enum tally_counter reason, const char *call,
                       struct instant now)
{
    char buf[64];
    const char *text = strerror_r(errno, buf, sizeof(buf));
    note_error(c, now, "%s: %s", call, text);
    lose(c, reason, now);
}

void client_release(struct client *c)
{
    if (c->slots != NULL) {
        go_down(c, TALLY_UNANSWERED);
    }
    free(c->slots);
    free(c->in);
    free(c->out);
}

static struct spop_writer output(struct client *c)
{
    struct spop_writer w;
    spop_writer_init(&w, c->out + c->out_len, c->out_cap - c->out_len);
    return w;
}

static void want_writable(struct client *c, bool wanted)
{
    if (c->wants_writable == wanted) {
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0),
                                .data = {.ptr = c}};
    (void)epoll_ctl(c->env->epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
    c->wants_writable = wanted;
}

static void say_hello(struct client *c, struct instant now)
{
    const struct bench_plan *plan = c->env->run->plan;
    struct spop_haproxy_hello hello = {.frame_bytes_max = plan->frame_bytes_max,
                                       .is_pipelining = true};
    struct spop_writer w = output(c);
    spop_engine_start(&c->engine, &hello, &w);
    c->out_len += w.len;
    c->state = CLIENT_GREETING;
    client_flush(c, now);
}

static void open_connection(struct client *c, struct instant now)
{
    const struct bench_plan *plan = c->env->run->plan;
    int on = 1;
    c->fd = socket(plan->sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                   0);
    if (c->fd < 0) {
        lose_errno(c, TALLY_LOST_CONNECT, "socket", now);
        return;
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* of TCP */
    int rc = connect(c->fd, (const struct sockaddr *)&plan->sockaddr,
                     plan->sockaddr_len);
    if (rc != 0 && errno == EAGAIN) { /* a UNIX socket's queue is full: no error yet */
        go_down(c, TALLY_UNANSWERED);
        c->retry_at = instant_add_us(now, CLIENT_BACKOFF_MIN_US);
        return;
    }
    if (rc != 0 && errno != EINPROGRESS) {
        lose_errno(c, TALLY_LOST_CONNECT, "connect", now);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data = {.ptr = c}};
    if (epoll_ctl(c->env->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0) {
        lose_errno(c, TALLY_LOST_CONNECT, "epoll_ctl", now);
        return;
    }
    c->wants_writable = true;
    c->state = CLIENT_CONNECTING;
    c->heard_at = now;
}

static void finish_connecting(struct client *c, struct instant now)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        errno = error;
        lose_errno(c, TALLY_LOST_CONNECT, "connect", now);
        return;
    }
    say_hello(c, now);
}

void client_check(struct client *c, struct instant now)
{
    const struct bench_plan *plan = c->env->run->plan;
    if (c->state == CLIENT_DOWN) {
        if (instant_diff_us(now, c->retry_at) >= 0) {
            open_connection(c, now);
        }
        return;
    }
    bool is_owed = c->state != CLIENT_OPEN || c->n_under_way > 0;
    if (is_owed && instant_diff_us(now, c->heard_at) >= plan->timeout_us) {
        note_error(c, now, "the agent was silent for %.1f s",
                   (double)plan->timeout_us / US_PER_S);
        lose(c, TALLY_LOST_TIMEOUT, now);
    }
}

/* The agent broke the protocol: tell it why, if that goes out at once. */
static void lose_protocol(struct client *c, const char *fault, struct instant now)
{
    struct spop_writer w = output(c);
    note_error(c, now, "the agent broke the protocol: %s", fault);
    spop_engine_disconnect(&c->engine, SPOP_CODE_INVALID, &w);
    (void)send(c->fd, c->out, c->out_len + w.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    lose(c, TALLY_LOST_PROTOCOL, now);
}

static bool is_settled(struct client *c, struct instant now)
{
    const struct bench_plan *plan = c->env->run->plan;
    size_t payload_bytes = c->engine.frame_bytes_max - SPOP_ENGINE_HEAD_BYTES_MAX;
    if (c->engine.is_fragmentation || shape_bytes_max(&plan->shape) <= payload_bytes) {
        return true;
    }
    note_error(c, now,
               "a request may have %zu bytes; the agent takes %zu and no fragments",
               shape_bytes_max(&plan->shape), payload_bytes);
    lose(c, TALLY_LOST_PROTOCOL, now);
    return false;
}

static void take_hello(struct client *c, struct instant now)
{
    struct bench_run *run = c->env->run;
    if (!is_settled(c, now)) {
        return;
    }
    atomic_store(&run->has_opened, true);
    for (unsigned i = 0; i < run->plan->depth; i++) {
        c->slots[i] = (struct client_slot){.stream_id = i};
    }
    c->state = CLIENT_OPEN;
    c->depth = c->engine.is_pipelining ? run->plan->depth : 1;
    tally_add(&c->env->tally, TALLY_OPENED, 1);
    tally_add(&c->env->tally, TALLY_REOPENED, c->was_open);
    c->was_open = true;
}

bool client_notify(struct client *c, struct instant due, struct instant now)
{
    const struct bench_plan *plan = c->env->run->plan;
    unsigned idx = c->next_slot % c->depth;
    while (c->slots[idx].is_used) {
        idx = (idx + 1) % c->depth;
    }
    struct client_slot *slot = &c->slots[idx];
    struct spop_writer payload;
    struct spop_writer w;
    spop_writer_init(&w, c->out, c->out_cap - OUT_BYTES_RESERVED);
    w.len = c->out_len;
    spop_writer_init(&payload, c->env->payload, sizeof(c->env->payload));
    shape_write(&plan->shape, &payload, keys_next(&c->env->keys));
    ENSURE(payload.status == SPOP_OK);
    struct spop_bytes bytes = {.ptr = payload.buf, .len = payload.len};
    if (spop_engine_notify(&c->engine, &w, slot->stream_id, 1, bytes) != SPOP_OK) {
        return false;
    }
    c->out_len = w.len;
    c->heard_at = c->n_under_way == 0 ? now : c->heard_at;
    c->next_slot = idx + 1;
    c->n_under_way++;
    c->env->n_left--;
    slot->due = due;
    slot->is_used = true;
    tally_add(&c->env->tally, TALLY_NOTIFIES, 1);
    return true;
}

enum verdict {
    VERDICT_NONE = 0,
    VERDICT_ALLOW,
    VERDICT_DENY,
};

/* The others, as warn and delay, let the request go on. */
static bool is_refusal(struct spop_bytes action)
{
    return spop_bytes_is(action, "reject") || spop_bytes_is(action, "block");
}

/* `deny`, or without it `action`; false when the actions cannot be read. */
static bool read_verdict(struct spop_bytes payload, enum verdict *verdict)
{
    struct spop_actions it;
    struct spop_action action;
    enum spop_status status = SPOP_OK;
    bool has_deny = false;
    *verdict = VERDICT_NONE;
    spop_actions_init(&it, payload);
    while ((status = spop_actions_next(&it, &action)) == SPOP_OK) {
        if (action.value.type == SPOP_VALUE_BOOL
            && spop_bytes_is(action.name, "deny")) {
            *verdict = action.value.boolean ? VERDICT_DENY : VERDICT_ALLOW;
            has_deny = true;
        } else if (!has_deny && action.value.type == SPOP_VALUE_STRING
                   && spop_bytes_is(action.name, "action")) {
            *verdict = is_refusal(action.value.bytes) ? VERDICT_DENY : VERDICT_ALLOW;
        }
    }
    return status == SPOP_END;
}

static const char *judge_ack(struct client *c, const struct spop_engine_event *event,
                             enum verdict *verdict)
{
    const struct client_slot *slot = &c->slots[event->stream_id % c->depth];
    if (!slot->is_used || slot->stream_id != event->stream_id || event->frame_id != 1) {
        return "an ACK that no NOTIFY waits for";
    }
    if (!read_verdict(event->payload, verdict)) {
        return "an ACK whose actions cannot be read";
    }
    return NULL;
}

static void take_ack(struct client *c, const struct spop_engine_event *event,
                     struct instant now)
{
    static const enum tally_counter counters[] = {
        [VERDICT_NONE] = TALLY_WITHOUT_VERDICT,
        [VERDICT_ALLOW] = TALLY_ALLOWED,
        [VERDICT_DENY] = TALLY_DENIED,
    };
    struct tally *tally = &c->env->tally;
    enum verdict verdict = VERDICT_NONE;
    const char *fault = judge_ack(c, event, &verdict);
    if (fault != NULL) {
        lose_protocol(c, fault, now);
        return;
    }
    struct client_slot *slot = &c->slots[event->stream_id % c->depth];
    if (instant_diff_us(slot->due, c->env->run->measure_from) >= 0) {
        histogram_add(&tally->latency_us, (uint64_t)instant_diff_us(now, slot->due));
    }
    slot->is_used = false;
    slot->stream_id += c->depth;
    c->n_under_way--;
    c->backoff_us = CLIENT_BACKOFF_MIN_US;
    tally_add(tally, TALLY_ACKS, 1);
    tally_add(tally, counters[verdict], 1);
}

static void take_close(struct client *c, const struct spop_engine_event *event,
                       struct instant now)
{
    if (c->state == CLIENT_ENDING) {
        go_down(c, TALLY_UNANSWERED);
    } else if (event->is_agent_ending) {
        note_error(c, now, "the agent sent DISCONNECT %u: %s", (unsigned)event->code,
                   spop_code_text(event->code));
        lose(c, TALLY_LOST_DISCONNECT, now);
    } else {
        lose_protocol(c, spop_code_text(event->code), now);
    }
}

static void take_event(struct client *c, const struct spop_engine_event *event,
                       struct instant now)
{
    switch (event->type) {
    case SPOP_ENGINE_MORE:
    case SPOP_ENGINE_IGNORED:
        break;
    case SPOP_ENGINE_HELLO:
        take_hello(c, now);
        break;
    case SPOP_ENGINE_ACK:
        take_ack(c, event, now);
        break;
    case SPOP_ENGINE_CLOSE:
        take_close(c, event, now);
        break;
    }
}

/* Take the whole frames of the input; the client may be lost by it. */
static void take_frames(struct client *c, struct instant now)
{
    struct spop_bytes in = {.ptr = c->in, .len = c->in_len};
    struct spop_engine_event event = {.type = SPOP_ENGINE_IGNORED};
    while (c->state != CLIENT_DOWN && event.type != SPOP_ENGINE_MORE) {
        struct spop_writer w = output(c);
        size_t taken = spop_engine_next(&c->engine, in, &w, &event);
        in = (struct spop_bytes){.ptr = in.ptr + taken, .len = in.len - taken};
        c->out_len += w.len;
        take_event(c, &event, now);
    }
    if (c->state != CLIENT_DOWN) {
        memmove(c->in, in.ptr, in.len);
        c->in_len = in.len;
    }
}

/* Returns whether something came and the connection is still there. */
static bool receive(struct client *c, struct instant now)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0 && c->state == CLIENT_ENDING) {
        go_down(c, TALLY_UNANSWERED);
    } else if (n < 0) {
        lose_errno(c, TALLY_LOST_CLOSED, "recv", now);
    } else if (n == 0) {
        note_error(c, now, "the agent closed the connection");
        lose(c, TALLY_LOST_CLOSED, now);
    } else {
        c->heard_at = now;
        c->in_len += (size_t)n;
        take_frames(c, now);
    }
    return c->state != CLIENT_DOWN;
}

/* A peer that is gone may have said why, and sent ACKs, before it went. */
static void lose_writing(struct client *c, struct instant now)
{
    int error = errno;
    for (unsigned i = 0; i < LAST_READS_MAX && receive(c, now); i++) {
    }
    if (c->state == CLIENT_ENDING) {
        go_down(c, TALLY_UNANSWERED);
    } else if (c->state != CLIENT_DOWN) {
        errno = error;
        lose_errno(c, TALLY_LOST_CLOSED, "send", now);
    }
}

void client_flush(struct client *c, struct instant now)
{
    if (c->out_len == 0 || c->state == CLIENT_DOWN || c->state == CLIENT_CONNECTING) {
        return;
    }
    ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        lose_writing(c, now);
        return;
    }
    if (n > 0) {
        c->out_len -= (size_t)n;
        memmove(c->out, c->out + n, c->out_len);
    }
    want_writable(c, c->out_len > 0);
}

void client_event(struct client *c, uint32_t events, struct instant now)
{
    if (c->state == CLIENT_CONNECTING) {
        finish_connecting(c, now);
        return;
    }
    if (c->state != CLIENT_DOWN && (events & ~(uint32_t)EPOLLOUT) != 0) {
        (void)receive(c, now);
    }
    client_flush(c, now);
}

void client_kill(struct client *c, bool with_reset, struct instant now)
{
    struct linger linger = {.l_onoff = with_reset, .l_linger = 0};
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    go_down(c, TALLY_UNANSWERED_CLOSED);
    tally_add(&c->env->tally, TALLY_CLOSED, 1);
    c->retry_at = now;
}

void client_end(struct client *c, struct instant now)
{
    if (c->state != CLIENT_OPEN) {
        go_down(c, TALLY_UNANSWERED);
        return;
    }
    struct spop_writer w = output(c);
    spop_engine_disconnect(&c->engine, SPOP_CODE_NORMAL, &w);
    c->out_len += w.len;
    c->state = CLIENT_ENDING;
    client_flush(c, now);
}
