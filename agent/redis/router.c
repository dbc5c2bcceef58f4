#include "agent/redis/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/slots.h"

#define TIMER_LAG_US (1 * US_PER_MS) /* what a timer of the loop may be late by */

enum {
    HEAD_BYTES_MAX = 32
                     + LINK_SHA_BYTES, /* EVALSHA and a script's name, with lengths */
    REPLY_BYTES_MAX = 512 * 1024,
};

struct router_node {
    struct router *router;
    unsigned number;
    struct link *link; /* NULL: the node is not in use */
};

struct router {
    struct seam seam;
    struct redis *redis;
    enum redis_mode mode;
    struct ev_loop *loop;
    struct redis_watcher watcher;
    struct ev_timer alarm;    /* of the first deadline or timer */
    struct instant alarm_at;  /* us = 0: not set */
    struct seam_timer calls;  /* a ring, by time: deadlines of calls */
    struct seam_timer timers; /* likewise: the stores' timers */
    uint64_t random;
    struct link_options link_options;
    size_t head_bytes[LINK_SCRIPTS_MAX];
    char heads[LINK_SCRIPTS_MAX][HEAD_BYTES_MAX];
    struct router_node nodes[SEAM_NODES_MAX];
    struct redis_map map;
};

static struct router *router_of(struct seam *seam)
{
    return CONTAINER_OF(seam, struct router, seam);
}

/* ---- timers ---- */

static void set_alarm(struct router *r, struct instant at)
{
    int64_t us = instant_diff_us(at, clock_now());
    r->alarm_at = at;
    ev_timer_stop(r->loop, &r->alarm);
    ev_timer_set(&r->alarm, us > 0 ? (double)us / (double)US_PER_S : 0., 0.);
    ev_timer_start(r->loop, &r->alarm);
}

static void remove_timer(struct seam_timer *timer)
{
    timer->prev->next = timer->next;
    timer->next->prev = timer->prev;
    timer->prev = NULL;
    timer->next = NULL;
}

static void insert_timer(struct router *r, struct seam_timer *ring,
                         struct seam_timer *timer)
{
    struct seam_timer *before = ring->prev;
    while (before != ring && instant_diff_us(before->at, timer->at) > 0) {
        before = before->prev;
    }
    timer->prev = before;
    timer->next = before->next;
    before->next->prev = timer;
    before->next = timer;
    if (r->alarm_at.us == 0 || instant_diff_us(timer->at, r->alarm_at) < 0) {
        set_alarm(r, timer->at);
    }
}

static void fire_due(struct seam_timer *ring, struct instant now)
{
    while (ring->next != ring && instant_diff_us(ring->next->at, now) <= 0) {
        struct seam_timer *timer = ring->next;
        remove_timer(timer);
        timer->fire(timer);
    }
}

static void on_alarm(struct ev_loop *loop, struct ev_timer *alarm, int events)
{
    struct router *r = alarm->data;
    struct instant now = clock_now();
    (void)loop;
    (void)events;
    r->alarm_at = now; /* what is set meanwhile sets no alarm of its own */
    fire_due(&r->calls, now);
    fire_due(&r->timers, now);
    const struct seam_timer *first = r->calls.next;
    if (first == &r->calls
        || (r->timers.next != &r->timers
            && instant_diff_us(r->timers.next->at, first->at) < 0)) {
        first = r->timers.next;
    }
    r->alarm_at.us = 0;
    if (first != &r->timers) {
        set_alarm(r, first->at);
    }
}

static void timer_set_op(struct seam *seam, struct seam_timer *timer)
{
    struct router *r = router_of(seam);
    if (timer->prev != NULL) {
        remove_timer(timer);
    }
    insert_timer(r, &r->timers, timer);
}

static void timer_stop_op(struct seam *seam, struct seam_timer *timer)
{
    (void)seam;
    if (timer->prev != NULL) {
        remove_timer(timer);
    }
}

/* ---- calls ---- */

static void complete(struct seam_call *call, enum seam_outcome outcome,
                     const struct seam_reply *reply)
{
    call->outcome = outcome;
    if (call->is_over) {
        call->late(call, reply);
        return;
    }
    call->is_over = true;
    if (call->timer.prev != NULL) {
        remove_timer(&call->timer);
    }
    call->done(call, reply);
}

static void on_deadline(struct seam_timer *timer)
{
    complete(CONTAINER_OF(timer, struct seam_call, timer), SEAM_TIMEOUT, NULL);
}

static void write_call(const struct router *r, const struct seam_call *call,
                       struct resp *resp)
{
    resp_command(resp, 3 + (size_t)call->n_keys + call->n_args);
    resp_raw(resp, r->heads[call->script], r->head_bytes[call->script]);
    resp_number(resp, call->n_keys);
    for (unsigned i = 0; i < call->n_keys; i++) {
        resp_arg(resp, call->keys[i].ptr, call->keys[i].len);
    }
    for (unsigned i = 0; i < call->n_args; i++) {
        resp_arg(resp, call->args[i].ptr, call->args[i].len);
    }
}

/* @return SEAM_OK when it is on its way */
static enum seam_outcome send_call(struct router *r, struct seam_call *call,
                                   unsigned number)
{
    struct link *l = number < SEAM_NODES_MAX ? r->nodes[number].link : NULL;
    call->node = number;
    if (l == NULL || !link_is_ready(l)) {
        return SEAM_DOWN;
    }
    struct resp resp = link_commands(l);
    call->request.n_asides = 0;
    if (call->is_loading) {
        const struct link_script *script = &r->link_options.scripts[call->script];
        resp_command(&resp, 3);
        resp_text(&resp, "SCRIPT");
        resp_text(&resp, "LOAD");
        resp_arg(&resp, script->text, script->text_bytes);
        call->request.n_asides++;
    }
    if (call->is_asking) { /* holds for the next command only */
        resp_command(&resp, 1);
        resp_text(&resp, "ASKING");
        call->request.n_asides++;
    }
    write_call(r, call, &resp);
    return link_send(l, &resp, &call->request) ? SEAM_OK : SEAM_FULL;
}

static bool is_cluster(const struct router *r)
{
    return r->mode == REDIS_CLUSTER;
}

/* The node that a redirect leads to. @return SEAM_NO_NODE where it is not known yet */
static unsigned follow(struct router *r, const struct seam_call *call,
                       const struct reply_redirect *to)
{
    const char *host = to->host_bytes > 0 ? to->host
                                          : r->map.nodes[call->node].endpoint.host;
    size_t host_bytes = to->host_bytes > 0 ? to->host_bytes : strlen(host);
    struct endpoint endpoint;
    if (!endpoint_make(&endpoint, host, host_bytes, to->port)) {
        return SEAM_NO_NODE;
    }
    unsigned number = redis_find_node(&r->map, &endpoint);
    if (number == SEAM_NO_NODE || r->nodes[number].link == NULL) {
        redis_hint(r->redis, &endpoint);
        return SEAM_NO_NODE;
    }
    return number;
}

/* @return whether the call is under way again */
static bool redirect(struct router *r, struct seam_call *call,
                     const struct seam_reply *reply, bool has_time)
{
    struct reply_redirect to;
    if (!is_cluster(r) || !reply_redirect(reply, &to)) {
        return false;
    }
    unsigned number = follow(r, call, &to);
    if (!to.is_ask) {
        redis_look(r->redis);
        if (number != SEAM_NO_NODE) {
            r->map.slots[to.slot] = (uint16_t)number;
        }
    }
    if (!has_time || call->has_moved || number == SEAM_NO_NODE
        || number == call->node) {
        return false;
    }
    call->has_moved = true;
    call->is_asking = to.is_ask;
    unsigned from = call->node;
    if (send_call(r, call, number) == SEAM_OK) {
        return true;
    }
    call->node = from; /* which is alive, and has said where else to ask */
    return false;
}

/* @return whether the call is under way again */
static bool load(struct router *r, struct seam_call *call, bool has_time)
{
    if (!has_time || call->is_loading) {
        return false;
    }
    call->is_loading = true;
    return send_call(r, call, call->node) == SEAM_OK;
}

/* What Redis refused may be had elsewhere, or soon. @return as load */
static bool try_again(struct router *r, struct seam_call *call,
                      const struct seam_reply *reply)
{
    bool has_time = !call->is_over && instant_diff_us(call->timer.at, clock_now()) > 0;
    switch (call->error) {
    case SEAM_ERROR_MOVED:
        return redirect(r, call, reply, has_time);
    case SEAM_ERROR_NO_SCRIPT:
        return load(r, call, has_time);
    case SEAM_ERROR_READ_ONLY:
        if (r->mode == REDIS_SENTINEL) {
            link_drop(r->nodes[call->node].link, "READONLY: it is no primary any more");
        }
        redis_look(r->redis);
        return false;
    case SEAM_ERROR_CLUSTER_DOWN:
    case SEAM_ERROR_LOADING:
        redis_look(r->redis);
        return false;
    case SEAM_ERROR_NONE:
    case SEAM_ERROR_TRYAGAIN:
    case SEAM_ERROR_BUSY:
    case SEAM_ERROR_DENIED:
    case SEAM_ERROR_OUT_OF_MEMORY:
    case SEAM_ERROR_NO_WRITES:
    case SEAM_ERROR_WRONG_TYPE:
    case SEAM_ERROR_OTHER:
        return false;
    }
    NEVER("an error of no kind");
}

static void on_reply(struct seam_request *request, const struct seam_reply *reply)
{
    struct seam_call *call = CONTAINER_OF(request, struct seam_call, request);
    struct router *r = call->owner;
    if (reply == NULL) {
        complete(call, SEAM_LOST, NULL);
        return;
    }
    call->error = reply_error(reply);
    if (call->error != SEAM_ERROR_NONE && try_again(r, call, reply)) {
        return;
    }
    call->round_trip_us = instant_diff_us(clock_now(), call->request.sent_at);
    bool ok = call->error == SEAM_ERROR_NONE;
    complete(call, ok ? SEAM_OK : SEAM_ERROR, ok ? reply : NULL);
}

static unsigned slot_op(struct seam *seam, struct seam_bytes key)
{
    return is_cluster(router_of(seam)) ? slots_of_key(key.ptr, key.len) : 0;
}

static unsigned node_op(struct seam *seam, unsigned slot)
{
    return router_of(seam)->map.slots[slot];
}

static void run_op(struct seam *seam, struct seam_call *call)
{
    struct router *r = router_of(seam);
    ENSURE(call->script < r->link_options.n_scripts && call->n_keys > 0);
    call->owner = r;
    call->error = SEAM_ERROR_NONE;
    call->is_over = false;
    call->is_loading = false;
    call->is_asking = false;
    call->has_moved = false;
    call->request.done = on_reply;
    call->timer.fire = on_deadline;
    call->timer.at = instant_add_us(call->deadline, -TIMER_LAG_US);
    unsigned number = node_op(seam, slot_op(seam, call->keys[0]));
    enum seam_outcome outcome = send_call(r, call, number);
    if (outcome != SEAM_OK) {
        complete(call, outcome, NULL);
        return;
    }
    insert_timer(r, &r->calls, &call->timer);
}

static void reject_op(struct seam *seam, const struct seam_call *call)
{
    struct router *r = router_of(seam);
    struct link *l = r->nodes[call->node].link;
    if (l != NULL) {
        link_drop(l, "a reply that its script does not say");
    }
}

static struct instant now_op(struct seam *seam)
{
    (void)seam;
    return clock_now();
}

static uint64_t random_op(struct seam *seam)
{
    struct router *r = router_of(seam);
    r->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = r->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static const struct seam_ops ops = {
    .run = run_op,
    .reject = reject_op,
    .slot = slot_op,
    .node = node_op,
    .now = now_op,
    .timer_set = timer_set_op,
    .timer_stop = timer_stop_op,
    .random = random_op,
};

/* ---- nodes ---- */

static void on_up(struct link *l, void *data)
{
    const struct router_node *node = data;
    struct router *r = node->router;
    (void)l;
    redis_note_up(r->redis, node->number, &r->map.nodes[node->number].endpoint);
}

static void on_down(struct link *l, const char *why, void *data)
{
    const struct router_node *node = data;
    struct router *r = node->router;
    (void)l;
    redis_note_down(r->redis, node->number, &r->map.nodes[node->number].endpoint, why);
    redis_look(r->redis);
}

static void drop_node(struct router *r, unsigned number)
{
    link_free(r->nodes[number].link);
    r->nodes[number].link = NULL;
}

/* Connect to a node as the map has it now; nothing when memory is short. */
static void connect_node(struct router *r, unsigned number)
{
    struct router_node *node = &r->nodes[number];
    const struct redis_node *to = &r->map.nodes[number];
    if (node->link == NULL) {
        node->link = link_new(r->loop, &r->link_options,
                              (struct link_owner){on_up, on_down, node},
                              random_op(&r->seam));
    }
    if (node->link != NULL) {
        link_use(node->link, to->endpoint.host, to->addresses, to->n_addresses);
    }
}

static void on_map_changed(struct ev_loop *loop, struct ev_async *changed, int events)
{
    struct router *r = changed->data;
    struct redis_map *old = malloc(sizeof(*old));
    (void)loop;
    (void)events;
    if (old == NULL) { /* the old map serves on, until the next change */
        return;
    }
    *old = r->map;
    redis_copy_map(r->redis, &r->map);
    for (unsigned i = 0; i < r->map.n_nodes; i++) {
        if (!r->map.nodes[i].is_used) {
            drop_node(r, i);
        } else if (r->nodes[i].link == NULL
                   || !redis_is_same_node(&old->nodes[i], &r->map.nodes[i])) {
            connect_node(r, i);
        }
    }
    free(old);
}

static void write_heads(struct router *r)
{
    for (unsigned i = 0; i < r->link_options.n_scripts; i++) {
        struct resp resp = resp_in(r->heads[i], sizeof(r->heads[i]));
        resp_text(&resp, "EVALSHA");
        resp_arg(&resp, r->link_options.scripts[i].sha, LINK_SHA_BYTES);
        ENSURE(!resp.is_full);
        r->head_bytes[i] = resp.len;
    }
}

struct router *router_new(struct redis *redis, struct ev_loop *loop, uint64_t seed)
{
    const struct redis_options *options = redis_options(redis);
    struct router *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->seam.ops = &ops;
    r->redis = redis;
    r->mode = options->mode;
    r->loop = loop;
    r->random = seed;
    r->calls.prev = r->calls.next = &r->calls;
    r->timers.prev = r->timers.next = &r->timers;
    r->link_options = (struct link_options){
        .user = options->user,
        .password = options->password,
        .client_name = "spoa-ratelimit",
        .database = options->database,
        .is_primary = options->mode == REDIS_SENTINEL,
        .scripts = options->scripts,
        .n_scripts = options->n_scripts,
        .tls = options->tls,
        .server_name = options->server_name,
        .reply_limits = {.values_max = SEAM_VALUES_MAX, .bytes_max = REPLY_BYTES_MAX},
    };
    write_heads(r);
    for (unsigned i = 0; i < SEAM_NODES_MAX; i++) {
        r->nodes[i] = (struct router_node){.router = r, .number = i};
    }
    for (unsigned i = 0; i < SEAM_SLOTS_MAX; i++) {
        r->map.slots[i] = SEAM_NO_NODE;
    }
    ev_timer_init(&r->alarm, on_alarm, 0., 0.);
    r->alarm.data = r;
    r->watcher.loop = loop;
    ev_async_init(&r->watcher.changed, on_map_changed);
    r->watcher.changed.data = r;
    ev_async_start(loop, &r->watcher.changed);
    redis_watch(redis, &r->watcher);
    return r;
}

void router_free(struct router *router)
{
    if (router == NULL) {
        return;
    }
    redis_unwatch(router->redis, &router->watcher);
    ev_async_stop(router->loop, &router->watcher.changed);
    for (unsigned i = 0; i < SEAM_NODES_MAX; i++) {
        drop_node(router, i);
    }
    ev_timer_stop(router->loop, &router->alarm);
    free(router);
}

struct seam *router_seam(struct router *router)
{
    return &router->seam;
}
