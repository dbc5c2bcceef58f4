#include "agent/redis/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include <ev.h>

#include "agent/redis/transport.h"

enum {
    READ_BYTES = 16384,
    READS_MAX = 8, /* of one turn, so that one node does not keep the loop */
    WHY_BYTES_MAX = 320,
    GREETING_STEPS_MAX = 4 + LINK_SCRIPTS_MAX,
    PRIORITY = 1, /* replies that are there are read before any deadline is looked at */
};

enum link_state {
    LINK_DOWN = 0,
    LINK_CONNECTING,
    LINK_SECURING,
    LINK_GREETING,
    LINK_READY,
};

/* What is asked when greeting; its reply is checked in order. */
enum greeting {
    GREETING_AUTH = 0,
    GREETING_SELECT,
    GREETING_SETNAME,
    GREETING_ROLE,
    GREETING_SCRIPT, /* the first of the scripts, the others follow */
};

/* A timer is later than that when it was the loop that stood still. */
#define STALL_US (100 * US_PER_MS)

struct link {
    struct ev_loop *loop;
    const struct link_options *options;
    struct link_owner owner;
    enum link_state state;
    struct transport transport;
    struct ev_io io;           /* active unless down */
    struct ev_timer timer;     /* down: connect; ready: silence; else: too long */
    struct instant timer_at;   /* when it is due */
    struct ev_prepare prepare; /* active while there is something to write or to drop */
    struct reply_reader *reader;
    struct seam_request *first;
    struct seam_request **last;
    unsigned n_requests;
    struct instant ready_at;
    const char *dropped; /* why it is to end */
    unsigned n_steps;    /* of the greeting */
    unsigned n_answered;
    uint8_t steps[GREETING_STEPS_MAX];
    char host[ENDPOINT_HOST_BYTES_MAX];
    unsigned n_addresses;
    unsigned address_idx;
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX];
    int64_t backoff_us;
    uint64_t random;
    size_t out_pos; /* written up to here */
    size_t out_len;
    char why[WHY_BYTES_MAX];
    char out[LINK_OUT_BYTES_MAX];
};

static void on_io(struct ev_loop *loop, struct ev_io *io, int events);
static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events);
static void on_prepare(struct ev_loop *loop, struct ev_prepare *prepare, int events);

struct link *link_new(struct ev_loop *loop, const struct link_options *options,
                      struct link_owner owner, uint64_t seed)
{
    ENSURE(options->n_scripts <= LINK_SCRIPTS_MAX);
    struct link *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->reader = reply_reader_new(&options->reply_limits);
    if (l->reader == NULL) {
        free(l);
        return NULL;
    }
    l->loop = loop;
    l->options = options;
    l->owner = owner;
    l->transport.fd = -1;
    l->last = &l->first;
    l->backoff_us = LINK_BACKOFF_US_MIN;
    l->random = seed;
    ev_init(&l->io, on_io);
    ev_set_priority(&l->io, PRIORITY);
    ev_timer_init(&l->timer, on_timer, 0., 0.);
    ev_prepare_init(&l->prepare, on_prepare);
    l->io.data = l;
    l->timer.data = l;
    l->prepare.data = l;
    return l;
}

static void set_timer(struct link *l, int64_t us)
{
    l->timer_at = instant_add_us(clock_now(), us);
    ev_timer_stop(l->loop, &l->timer);
    ev_timer_set(&l->timer, (double)us / (double)US_PER_S, 0.);
    ev_timer_start(l->loop, &l->timer);
}

static void wait_for(struct link *l, int events)
{
    if (ev_is_active(&l->io) && l->io.events == events) {
        return;
    }
    ev_io_stop(l->loop, &l->io);
    ev_io_set(&l->io, l->transport.fd, events);
    ev_io_start(l->loop, &l->io);
}

/* From half of the back-off to all of it; the next one is twice as long. */
static int64_t next_backoff_us(struct link *l)
{
    l->random = l->random * UINT64_C(6364136223846793005)
                + UINT64_C(1442695040888963407);
    int64_t half_us = l->backoff_us / 2;
    int64_t us = half_us + (int64_t)((l->random >> 33) % (uint64_t)(half_us + 1));
    l->backoff_us *= 2;
    l->backoff_us = l->backoff_us < LINK_BACKOFF_US_MAX ? l->backoff_us
                                                        : LINK_BACKOFF_US_MAX;
    return us;
}

static void disconnect(struct link *l)
{
    ev_io_stop(l->loop, &l->io);
    ev_timer_stop(l->loop, &l->timer);
    ev_prepare_stop(l->loop, &l->prepare);
    transport_close(&l->transport);
    explicit_bzero(l->out, l->state == LINK_GREETING ? l->out_len : 0);
    l->state = LINK_DOWN;
    l->out_pos = 0;
    l->out_len = 0;
    l->dropped = NULL;
}

/* Nothing that is under way will be answered. */
static void end_requests(struct link *l)
{
    struct seam_request *request = l->first;
    l->first = NULL;
    l->last = &l->first;
    l->n_requests = 0;
    while (request != NULL) {
        struct seam_request *next = request->next;
        request->done(request, NULL);
        request = next;
    }
}

static void go_down(struct link *l, const char *why)
{
    bool was_good = l->state == LINK_READY
                    && instant_diff_us(clock_now(), l->ready_at) >= LINK_SILENCE_US;
    if (was_good) {
        l->backoff_us = LINK_BACKOFF_US_MIN;
    }
    disconnect(l);
    l->address_idx = (l->address_idx + 1) % l->n_addresses;
    set_timer(l, next_backoff_us(l));
    end_requests(l);
    l->owner.down(l, why, l->owner.data);
}

/* @return TRANSPORT_OK when all of it is written */
static enum transport_status write_out(struct link *l)
{
    enum transport_status status = TRANSPORT_OK;
    while (status == TRANSPORT_OK && l->out_pos < l->out_len) {
        size_t n = 0;
        status = transport_write(&l->transport, l->out + l->out_pos,
                                 l->out_len - l->out_pos, &n);
        l->out_pos += status == TRANSPORT_OK ? n : 0;
    }
    return status;
}

void link_free(struct link *l)
{
    if (l == NULL) {
        return;
    }
    if (link_is_ready(l)) {
        (void)write_out(l);
    }
    disconnect(l);
    end_requests(l);
    reply_reader_free(l->reader);
    free(l);
}

/* The commands of the greeting, and what is expected of them. */
static void write_greeting(struct link *l)
{
    const struct link_options *o = l->options;
    struct resp resp = resp_in(l->out, sizeof(l->out));
    l->n_steps = 0;
    l->n_answered = 0;
    if (o->password != NULL) {
        resp_command(&resp, o->user != NULL ? 3 : 2);
        resp_text(&resp, "AUTH");
        if (o->user != NULL) {
            resp_text(&resp, o->user);
        }
        resp_text(&resp, o->password);
        l->steps[l->n_steps++] = GREETING_AUTH;
    }
    if (o->database != 0) {
        resp_command(&resp, 2);
        resp_text(&resp, "SELECT");
        resp_number(&resp, o->database);
        l->steps[l->n_steps++] = GREETING_SELECT;
    }
    resp_command(&resp, 3);
    resp_text(&resp, "CLIENT");
    resp_text(&resp, "SETNAME");
    resp_text(&resp, o->client_name);
    l->steps[l->n_steps++] = GREETING_SETNAME;
    if (o->is_primary) {
        resp_command(&resp, 1);
        resp_text(&resp, "ROLE");
        l->steps[l->n_steps++] = GREETING_ROLE;
    }
    for (unsigned i = 0; i < o->n_scripts; i++) {
        resp_command(&resp, 3);
        resp_text(&resp, "SCRIPT");
        resp_text(&resp, "LOAD");
        resp_arg(&resp, o->scripts[i].text, o->scripts[i].text_bytes);
        l->steps[l->n_steps++] = (uint8_t)(GREETING_SCRIPT + i);
    }
    ENSURE(!resp.is_full);
    l->out_len = resp.len;
}

/* Write what is there to be written. */
static void flush(struct link *l)
{
    int events = EV_READ;
    enum transport_status status = write_out(l);
    if (status == TRANSPORT_END) {
        go_down(l, l->transport.why);
        return;
    }
    events |= status == TRANSPORT_WRITABLE ? EV_WRITE : 0;
    if (l->out_pos == l->out_len) {
        /* Of a greeting: the password goes no further. */
        explicit_bzero(l->out, l->state == LINK_GREETING ? l->out_len : 0);
        l->out_pos = 0;
        l->out_len = 0;
    }
    wait_for(l, events);
}

static void greet(struct link *l)
{
    if (!reply_reader_reset(l->reader)) {
        go_down(l, "out of memory");
        return;
    }
    l->state = LINK_GREETING;
    write_greeting(l);
    flush(l);
}

static void secure(struct link *l)
{
    const struct link_options *o = l->options;
    if (o->tls == NULL) {
        greet(l);
        return;
    }
    l->state = LINK_SECURING;
    enum transport_status status = transport_secure(
        &l->transport, o->tls, o->server_name != NULL ? o->server_name : l->host);
    if (status == TRANSPORT_OK) {
        greet(l);
    } else if (status == TRANSPORT_END) {
        (void)snprintf(l->why, sizeof(l->why), "TLS: %s", l->transport.why);
        go_down(l, l->why);
    } else {
        wait_for(l, status == TRANSPORT_READABLE ? EV_READ : EV_WRITE);
    }
}

static void open_connection(struct link *l)
{
    enum transport_status status = transport_open(&l->transport,
                                                  &l->addresses[l->address_idx]);
    if (status == TRANSPORT_END) {
        go_down(l, l->transport.why);
        return;
    }
    set_timer(l, LINK_GREETING_US);
    l->state = LINK_CONNECTING;
    if (status == TRANSPORT_OK) {
        secure(l);
    } else {
        wait_for(l, EV_WRITE);
    }
}

void link_use(struct link *l, const char *host,
              const struct endpoint_address *addresses, unsigned n_addresses)
{
    ENSURE(n_addresses <= ENDPOINT_ADDRESSES_MAX);
    disconnect(l);
    (void)snprintf(l->host, sizeof(l->host), "%s", host);
    l->n_addresses = n_addresses;
    l->address_idx = 0;
    l->backoff_us = LINK_BACKOFF_US_MIN;
    for (unsigned i = 0; i < n_addresses; i++) {
        l->addresses[i] = addresses[i];
    }
    if (n_addresses > 0) {
        set_timer(l, 0);
    }
    end_requests(l);
}

/* A name is for people to read, and may be refused; but not for want of a password. */
static bool is_no_auth(const struct seam_value *error)
{
    static const char word[] = "NOAUTH";
    return error->text_bytes >= sizeof(word) - 1
           && memcmp(error->text, word, sizeof(word) - 1) == 0;
}

/* Whether a reply of the greeting is as it should be; else `why` says what is wrong. */
static bool check_greeting(struct link *l, const struct seam_reply *reply)
{
    static const char *const names[] = {"AUTH", "SELECT", "CLIENT SETNAME", "ROLE",
                                        "SCRIPT LOAD"};
    unsigned step = l->steps[l->n_answered];
    unsigned name = step < GREETING_SCRIPT ? step : GREETING_SCRIPT;
    const struct seam_value *value = &reply->values[0];
    if (value->type == SEAM_ERROR_TEXT) {
        (void)snprintf(l->why, sizeof(l->why), "%s: %.*s", names[name],
                       (int)value->text_bytes, value->text);
        return step == GREETING_SETNAME && !is_no_auth(value);
    }
    (void)snprintf(l->why, sizeof(l->why), "%s: not the reply of a Redis server",
                   names[name]);
    if (step >= GREETING_SCRIPT) {
        return reply_is_text(reply, l->options->scripts[step - GREETING_SCRIPT].sha);
    }
    if (step != GREETING_ROLE) {
        return reply_is_text(reply, "OK");
    }
    if (value->type != SEAM_ARRAY || value->integer < 1) {
        return false;
    }
    (void)snprintf(l->why, sizeof(l->why), "ROLE: it is no primary");
    struct seam_reply role = {.values = value + 1, .n_values = 1};
    return reply_is_text(&role, "master");
}

/* @return false when the connection is down */
static bool take_greeting(struct link *l, const struct seam_reply *reply)
{
    if (!check_greeting(l, reply)) {
        go_down(l, l->why);
        return false;
    }
    if (++l->n_answered == l->n_steps) {
        ev_timer_stop(l->loop, &l->timer);
        l->state = LINK_READY;
        l->ready_at = clock_now();
        l->owner.up(l, l->owner.data);
    }
    return true;
}

/* @return false when the connection is down */
static bool take_reply(struct link *l, const struct seam_reply *reply)
{
    if (l->state == LINK_GREETING) {
        return take_greeting(l, reply);
    }
    struct seam_request *request = l->first;
    if (request == NULL) {
        bool is_error = reply->values[0].type == SEAM_ERROR_TEXT;
        (void)snprintf(l->why, sizeof(l->why), "a reply that nobody asked for%s%.*s",
                       is_error ? ": " : "",
                       is_error ? (int)reply->values[0].text_bytes : 0,
                       is_error ? reply->values[0].text : "");
        go_down(l, l->why);
        return false;
    }
    if (request->n_asides > 0) {
        request->n_asides--;
        return true;
    }
    l->first = request->next;
    if (l->first == NULL) {
        l->last = &l->first;
    }
    l->n_requests--;
    request->done(request, reply);
    return true;
}

/* @return false when the connection is down */
static bool take_replies(struct link *l, const char *bytes, size_t n)
{
    struct seam_reply reply;
    enum reply_status status = reply_feed(l->reader, bytes, n) ? REPLY_OK : REPLY_BAD;
    while (status == REPLY_OK) {
        status = reply_next(l->reader, &reply);
        if (status == REPLY_OK && !take_reply(l, &reply)) {
            return false;
        }
    }
    if (status == REPLY_BAD) {
        go_down(l, "a reply that cannot be read, or is too large");
        return false;
    }
    return true;
}

static void read_replies(struct link *l)
{
    char buf[READ_BYTES] UNCLEARED;
    enum transport_status status = TRANSPORT_OK;
    for (unsigned i = 0; i < READS_MAX; i++) {
        size_t n = 0;
        status = transport_read(&l->transport, buf, sizeof(buf), &n);
        if (status != TRANSPORT_OK) {
            break;
        }
        if (!take_replies(l, buf, n)) {
            return;
        }
        if (n < sizeof(buf) && l->transport.session == NULL) {
            break; /* that was all there is */
        }
    }
    if (status == TRANSPORT_END) {
        go_down(l, l->transport.why);
        return;
    }
    if (status == TRANSPORT_WRITABLE) {
        wait_for(l, EV_READ | EV_WRITE);
    } else if (transport_has_more(&l->transport)) {
        ev_feed_event(l->loop, &l->io, EV_READ);
    }
}

static void on_io(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct link *l = io->data;
    (void)loop;
    switch (l->state) {
    case LINK_DOWN:
        NEVER("an event of a socket that is closed");
    case LINK_CONNECTING:
        if (transport_connected(&l->transport) == TRANSPORT_OK) {
            secure(l);
        } else {
            go_down(l, l->transport.why);
        }
        return;
    case LINK_SECURING:
        secure(l);
        return;
    case LINK_GREETING:
    case LINK_READY:
        break;
    }
    if (events & EV_WRITE) {
        flush(l);
    }
    if (l->state >= LINK_GREETING) {
        read_replies(l);
    }
}

/* Does the request that waits longest wait too long? */
static void check_silence(struct link *l)
{
    if (l->first == NULL) {
        return;
    }
    struct instant now = clock_now();
    if (instant_diff_us(now, l->timer_at) > STALL_US) {
        set_timer(l, LINK_SILENCE_US); /* what was sent may only just have gone out */
        return;
    }
    int64_t waits_us = instant_diff_us(now, l->first->sent_at);
    if (waits_us >= LINK_SILENCE_US) {
        go_down(l, "no reply for a second");
        return;
    }
    set_timer(l, LINK_SILENCE_US - waits_us);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct link *l = timer->data;
    (void)loop;
    (void)events;
    switch (l->state) {
    case LINK_DOWN:
        open_connection(l);
        return;
    case LINK_CONNECTING:
        go_down(l, "connecting takes too long");
        return;
    case LINK_SECURING:
        go_down(l, "TLS: no answer to the handshake; is TLS spoken there?");
        return;
    case LINK_GREETING:
        go_down(l, "no answer to the greeting");
        return;
    case LINK_READY:
        check_silence(l);
        return;
    }
}

static void on_prepare(struct ev_loop *loop, struct ev_prepare *prepare, int events)
{
    struct link *l = prepare->data;
    (void)events;
    ev_prepare_stop(loop, prepare);
    if (l->dropped != NULL) {
        go_down(l, l->dropped);
        return;
    }
    if ((l->io.events & EV_WRITE) == 0) {
        flush(l);
    }
}

bool link_is_ready(const struct link *l)
{
    return l->state == LINK_READY && l->dropped == NULL;
}

void link_drop(struct link *l, const char *why)
{
    if (l->state != LINK_DOWN) {
        l->dropped = why;
        ev_prepare_start(l->loop, &l->prepare);
    }
}

unsigned link_n_requests(const struct link *l)
{
    return l->n_requests;
}

struct resp link_commands(struct link *l)
{
    /* Only after a write that could not take all is there something in front. */
    if (l->out_pos > 0) {
        memmove(l->out, l->out + l->out_pos, l->out_len - l->out_pos);
        l->out_len -= l->out_pos;
        l->out_pos = 0;
    }
    return resp_in(l->out + l->out_len, sizeof(l->out) - l->out_len);
}

bool link_send(struct link *l, const struct resp *commands,
               struct seam_request *request)
{
    if (!link_is_ready(l) || commands->is_full || l->n_requests == LINK_REQUESTS_MAX) {
        return false;
    }
    if (!ev_is_active(&l->timer)) {
        set_timer(l, LINK_SILENCE_US);
    }
    l->out_len += commands->len;
    request->next = NULL;
    request->sent_at = clock_now();
    *l->last = request;
    l->last = &request->next;
    l->n_requests++;
    ev_prepare_start(l->loop, &l->prepare);
    return true;
}

void link_script_name(struct link_script *script)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    ENSURE(EVP_Digest(script->text, script->text_bytes, digest, &n, EVP_sha1(), NULL)
               == 1
           && n * 2 == LINK_SHA_BYTES);
    for (size_t i = 0; i < n; i++) {
        script->sha[2 * i] = digits[digest[i] >> 4];
        script->sha[2 * i + 1] = digits[digest[i] & 15];
    }
    script->sha[LINK_SHA_BYTES] = '\0';
}
