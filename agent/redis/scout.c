#include "agent/redis/scout.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/redis/slots.h"

/* Answers are large where slots are scattered over many nodes. */
static const struct reply_limits reply_limits = {.values_max = 1 << 16,
                                                 .bytes_max = 1 << 20};

#define RESOLVE_US (5 * US_PER_S) /* how long what a name stands for is believed */

static void say_why(struct scout *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say_why(struct scout *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->why, sizeof(s->why), format, args);
    va_end(args);
}

static void on_wake(struct ev_loop *loop, struct ev_async *wake, int events)
{
    (void)loop; /* what runs it goes on */
    (void)wake;
    (void)events;
}

static void on_waking(struct ev_loop *loop, struct ev_timer *waking, int events)
{
    (void)loop;
    (void)waking;
    (void)events;
}

static void on_up(struct link *l, void *data)
{
    (void)l;
    (void)data;
}

static void on_down(struct link *l, const char *why, void *data)
{
    struct scout *s = data;
    char text[ENDPOINT_TEXT_BYTES_MAX];
    (void)l;
    endpoint_print(&s->asked, text);
    say_why(s, "%s: %s", text, why);
    s->is_link_down = true;
}

bool scout_init(struct scout *scout, const struct redis_options *options)
{
    bool is_sentinel = options->mode == REDIS_SENTINEL;
    scout->options = options;
    scout->link_options = (struct link_options){
        .user = is_sentinel ? options->sentinel_user : options->user,
        .password = is_sentinel ? options->sentinel_password : options->password,
        .client_name = "spoa-ratelimit",
        .tls = options->tls,
        .server_name = options->server_name,
        .reply_limits = reply_limits,
    };
    for (unsigned i = 0; i < SEAM_SLOTS_MAX; i++) {
        scout->draft.slots[i] = SEAM_NO_NODE;
    }
    scout->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV | EVFLAG_NOSIGMASK);
    if (scout->loop == NULL) {
        return false;
    }
    scout->link = link_new(scout->loop, &scout->link_options,
                           (struct link_owner){on_up, on_down, scout}, 0);
    if (scout->link == NULL) {
        ev_loop_destroy(scout->loop);
        return false;
    }
    ev_async_init(&scout->wake, on_wake);
    ev_async_start(scout->loop, &scout->wake);
    ev_timer_init(&scout->waking, on_waking, 0., 0.);
    return true;
}

void scout_fini(struct scout *scout)
{
    link_free(scout->link);
    ev_timer_stop(scout->loop, &scout->waking);
    ev_async_stop(scout->loop, &scout->wake);
    ev_loop_destroy(scout->loop);
}

static bool is_stopping(struct scout *s)
{
    return atomic_load(&s->is_stopping);
}

/* Let the loop turn once, for at most so long. */
static void turn(struct scout *s, int64_t us)
{
    ev_now_update(s->loop);
    ev_timer_set(&s->waking, (double)(us > 0 ? us : 0) / (double)US_PER_S, 0.);
    ev_timer_start(s->loop, &s->waking);
    if (!is_stopping(s)) {
        (void)ev_run(s->loop, EVRUN_ONCE);
    }
    ev_timer_stop(s->loop, &s->waking);
}

void scout_wait(struct scout *scout, int64_t us)
{
    turn(scout, us);
}

/* @return how many addresses; the scout may be stopping when it returns */
static unsigned resolve(struct scout *s, const struct endpoint *endpoint,
                        struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX])
{
    struct endpoint copy = *endpoint; /* which stays, whatever comes meanwhile */
    const char *error = "";
    if (endpoint_numeric(&copy, &addresses[0])) {
        return 1;
    }
    s->resolving(s, true);
    unsigned n = endpoint_resolve(&copy, addresses, &error);
    s->resolving(s, false);
    if (n == 0) {
        say_why(s, "%s: %s", copy.host, error);
    }
    return n;
}

/* The addresses of the endpoints, those known before where a name has none now. */
static void resolve_seeds(struct scout *s)
{
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX];
    for (unsigned i = 0; !is_stopping(s) && i < s->options->n_endpoints; i++) {
        unsigned n = resolve(s, &s->options->endpoints[i], addresses);
        if (n > 0) {
            s->n_seed_addresses[i] = n;
            memcpy(s->seeds[i], addresses, sizeof(addresses));
        }
    }
}

static bool is_seed(const struct scout *s, unsigned i,
                    const struct endpoint_address *address)
{
    for (unsigned k = 0; k < s->n_seed_addresses[i]; k++) {
        if (endpoint_is_same_host(address, &s->seeds[i][k])) {
            return true;
        }
    }
    return false;
}

/* Whether a password may be sent there: where endpoints are, or in a network. */
static bool is_allowed(const struct scout *s, const struct endpoint_address *address)
{
    bool is_ok = false;
    for (unsigned i = 0; !is_ok && i < s->options->n_endpoints; i++) {
        is_ok = is_seed(s, i, address);
    }
    for (unsigned i = 0; !is_ok && i < s->options->n_networks; i++) {
        is_ok = endpoint_is_in(address, &s->options->networks[i]);
    }
    return is_ok;
}

/* A number for a node: its own, a new one, or one that nobody uses any more. */
static unsigned number_node(struct redis_map *map, const struct endpoint *endpoint)
{
    unsigned number = redis_find_node(map, endpoint);
    if (number != SEAM_NO_NODE) {
        return number;
    }
    if (map->n_nodes < SEAM_NODES_MAX) {
        number = map->n_nodes++;
    }
    for (unsigned i = 0; number == SEAM_NO_NODE && i < map->n_nodes; i++) {
        number = map->nodes[i].is_used ? number : i;
    }
    if (number != SEAM_NO_NODE) {
        map->nodes[number] = (struct redis_node){.endpoint = *endpoint};
    }
    return number;
}

/* Find the addresses of a node that somebody named. @return its number, or SEAM_NO_NODE */
static unsigned admit(struct scout *s, struct redis_map *map,
                      const struct endpoint *endpoint)
{
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX];
    char text[ENDPOINT_TEXT_BYTES_MAX];
    unsigned number = redis_find_node(map, endpoint);
    if (number != SEAM_NO_NODE && map->nodes[number].n_addresses > 0
        && s->resolved_at.us != 0) {
        map->nodes[number].is_used = true;
        return number;
    }
    unsigned n = resolve(s, endpoint, addresses);
    if (n == 0 || is_stopping(s)) {
        return SEAM_NO_NODE;
    }
    unsigned n_allowed = 0;
    for (unsigned i = 0; i < n; i++) {
        if (is_allowed(s, &addresses[i])) {
            addresses[n_allowed++] = addresses[i];
        }
    }
    endpoint_print(endpoint, text);
    if (n_allowed == 0) {
        say_why(s,
                "%s: outside of node_networks: it is not asked, and slots that it has "
                "are without a node",
                text);
        return SEAM_NO_NODE;
    }
    number = number_node(map, endpoint);
    if (number == SEAM_NO_NODE) {
        say_why(s, "%s: more than %d nodes", text, SEAM_NODES_MAX);
        return SEAM_NO_NODE;
    }
    struct redis_node *node = &map->nodes[number];
    node->is_used = true;
    node->n_addresses = n_allowed;
    memcpy(node->addresses, addresses, n_allowed * sizeof(addresses[0]));
    return number;
}

/* ---- asking ---- */

static void on_reply(struct seam_request *request, const struct seam_reply *reply);

/* Connect to an endpoint, unless the link is there already. */
static bool reach(struct scout *s, const struct endpoint *endpoint,
                  const struct endpoint_address *addresses, unsigned n_addresses,
                  struct instant deadline)
{
    char text[ENDPOINT_TEXT_BYTES_MAX];
    if (!endpoint_equals(&s->asked, endpoint) || !link_is_ready(s->link)) {
        s->asked = *endpoint;
        s->is_link_down = false;
        endpoint_print(endpoint, text);
        say_why(s, "%s: no answer", text);
        link_use(s->link, endpoint->host, addresses, n_addresses);
    }
    while (!link_is_ready(s->link) && !s->is_link_down && !is_stopping(s)) {
        int64_t left_us = instant_diff_us(deadline, clock_now());
        if (left_us <= 0) {
            break;
        }
        turn(s, left_us);
    }
    return link_is_ready(s->link);
}

/* Ask one, and take in what it says. @return whether it said what is to be known */
static bool ask(struct scout *s, const struct endpoint *endpoint,
                const struct endpoint_address *addresses, unsigned n_addresses)
{
    struct instant deadline = instant_add_us(clock_now(), SCOUT_ANSWER_US);
    s->is_answered = false;
    s->is_good = false;
    if (n_addresses > 0 && reach(s, endpoint, addresses, n_addresses, deadline)) {
        struct resp resp = link_commands(s->link);
        bool is_sentinel = s->options->mode == REDIS_SENTINEL;
        resp_command(&resp, is_sentinel ? 3 : 2);
        resp_text(&resp, is_sentinel ? "SENTINEL" : "CLUSTER");
        resp_text(&resp, is_sentinel ? "GET-MASTER-ADDR-BY-NAME" : "SLOTS");
        if (is_sentinel) {
            resp_text(&resp, s->options->primary_name);
        }
        s->request = (struct seam_request){.done = on_reply};
        bool is_sent = link_send(s->link, &resp, &s->request);
        while (is_sent && !s->is_answered && !is_stopping(s)
               && instant_diff_us(deadline, clock_now()) > 0) {
            turn(s, instant_diff_us(deadline, clock_now()));
        }
    }
    if (!s->is_good) {
        link_use(s->link, "", NULL, 0); /* which ends what is under way */
    }
    return s->is_good;
}

/* ---- a cluster ---- */

static void take_range(const struct slots_range *range, void *data)
{
    struct scout *s = data;
    struct endpoint endpoint;
    const char *host = range->host_bytes > 0 ? range->host : s->asked.host;
    size_t host_bytes = range->host_bytes > 0 ? range->host_bytes : strlen(host);
    if (is_stopping(s) || !endpoint_make(&endpoint, host, host_bytes, range->port)) {
        return;
    }
    unsigned number = admit(s, &s->trial, &endpoint);
    for (unsigned i = range->first; i <= range->last; i++) {
        s->trial.slots[i] = (uint16_t)number;
    }
}

static unsigned count_slots(const struct redis_map *map)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SEAM_SLOTS_MAX; i++) {
        n += map->slots[i] != SEAM_NO_NODE;
    }
    return n;
}

static void begin_trial(struct scout *s)
{
    s->trial = s->draft;
    for (unsigned i = 0; i < s->trial.n_nodes; i++) {
        s->trial.nodes[i].is_used = instant_diff_us(clock_now(), s->heard_at[i])
                                    < SCOUT_HEARD_US;
    }
    for (unsigned i = 0; i < SEAM_SLOTS_MAX; i++) {
        s->trial.slots[i] = SEAM_NO_NODE;
    }
}

/* A node that was cut off or is new knows little; what it says needs a second one. */
static bool take_slots(struct scout *s, const struct seam_reply *reply)
{
    char text[ENDPOINT_TEXT_BYTES_MAX];
    endpoint_print(&s->asked, text);
    say_why(s, "%s: not the slots of a cluster", text);
    begin_trial(s);
    if (!slots_read(reply, take_range, s)) {
        return false;
    }
    unsigned n = count_slots(&s->trial);
    if (n == 0 || n < count_slots(&s->draft) / 2) {
        bool is_confirmed = n > 0 && s->is_meagre_seen;
        s->is_meagre_seen = true;
        say_why(s, "%s: knows a node for %u slots only", text, n);
        return is_confirmed;
    }
    return true;
}

static bool look_at_cluster(struct scout *s)
{
    s->is_meagre_seen = false;
    for (unsigned i = 0; i < s->draft.n_nodes && !is_stopping(s); i++) {
        const struct redis_node
            *node = &s->draft.nodes[(i + s->n_asked) % s->draft.n_nodes];
        if (node->is_used
            && ask(s, &node->endpoint, node->addresses, node->n_addresses)) {
            return true;
        }
    }
    for (unsigned i = 0; !is_stopping(s) && i < s->options->n_endpoints; i++) {
        if (ask(s, &s->options->endpoints[i], s->seeds[i], s->n_seed_addresses[i])) {
            return true;
        }
    }
    return false;
}

/* ---- Sentinel ---- */

static bool take_primary(struct scout *s, const struct seam_reply *reply)
{
    const struct seam_value *values = reply->values;
    struct endpoint endpoint;
    char text[ENDPOINT_TEXT_BYTES_MAX];
    unsigned port = 0;
    endpoint_print(&s->asked, text);
    if (values[0].type == SEAM_NIL) {
        say_why(s, "%s: knows no primary of the name %s", text,
                s->options->primary_name);
        return false;
    }
    say_why(s, "%s: not the address of a primary", text);
    if (values[0].type != SEAM_ARRAY || values[0].integer != 2
        || values[1].type != SEAM_STRING || values[2].type != SEAM_STRING) {
        return false;
    }
    for (size_t i = 0; i < values[2].text_bytes && port <= UINT16_MAX; i++) {
        char digit = values[2].text[i];
        port = digit >= '0' && digit <= '9' ? port * 10 + (unsigned)(digit - '0')
                                            : UINT16_MAX + 1U;
    }
    if (port == 0
        || !endpoint_make(&endpoint, values[1].text, values[1].text_bytes, port)) {
        return false;
    }
    begin_trial(s);
    unsigned number = admit(s, &s->trial, &endpoint);
    s->trial.slots[0] = (uint16_t)number;
    return number != SEAM_NO_NODE;
}

static bool look_at_sentinels(struct scout *s)
{
    for (unsigned i = 0; !is_stopping(s) && i < s->options->n_endpoints; i++) {
        unsigned k = (i + s->n_asked) % s->options->n_endpoints;
        if (ask(s, &s->options->endpoints[k], s->seeds[k], s->n_seed_addresses[k])) {
            s->n_asked = k; /* it is asked on */
            return true;
        }
    }
    return false;
}

/* ---- one server ---- */

static bool look_at_one(struct scout *s)
{
    if (is_stopping(s) || s->n_seed_addresses[0] == 0) {
        return false;
    }
    begin_trial(s);
    unsigned number = number_node(&s->trial, &s->options->endpoints[0]);
    struct redis_node *node = &s->trial.nodes[number];
    node->is_used = true;
    node->n_addresses = s->n_seed_addresses[0];
    memcpy(node->addresses, s->seeds[0], sizeof(node->addresses));
    s->trial.slots[0] = (uint16_t)number;
    return true;
}

static void on_reply(struct seam_request *request, const struct seam_reply *reply)
{
    struct scout *s = CONTAINER_OF(request, struct scout, request);
    char text[ENDPOINT_TEXT_BYTES_MAX];
    s->is_answered = true;
    if (reply == NULL || is_stopping(s)) {
        return;
    }
    if (reply_error(reply) != SEAM_ERROR_NONE) {
        endpoint_print(&s->asked, text);
        say_why(s, "%s: %.*s", text, (int)reply->values[0].text_bytes,
                reply->values[0].text);
        return;
    }
    s->is_good = s->options->mode == REDIS_CLUSTER ? take_slots(s, reply)
                                                   : take_primary(s, reply);
}

bool scout_look(struct scout *scout, struct instant now)
{
    enum redis_mode mode = scout->options->mode;
    bool ok = false;
    if (instant_diff_us(now, scout->resolved_at) >= RESOLVE_US) {
        scout->resolved_at.us = 0;
        resolve_seeds(scout);
    }
    switch (mode) {
    case REDIS_SINGLE:
        ok = look_at_one(scout);
        break;
    case REDIS_CLUSTER:
        scout->n_asked++;
        ok = look_at_cluster(scout);
        break;
    case REDIS_SENTINEL:
        ok = look_at_sentinels(scout);
        break;
    }
    if (!ok || is_stopping(scout)) {
        scout->resolved_at.us = 0; /* a name may stand for something else by now */
        return false;
    }
    if (scout->resolved_at.us == 0) {
        scout->resolved_at = now;
    }
    scout->draft = scout->trial;
    return true;
}

bool scout_hear(struct scout *scout, const struct endpoint *endpoint,
                struct instant now)
{
    unsigned number = admit(scout, &scout->draft, endpoint);
    if (number == SEAM_NO_NODE) {
        return false;
    }
    scout->heard_at[number] = now;
    return true;
}
