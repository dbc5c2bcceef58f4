#include "tests/simulation/sim.h"

#include <stdlib.h>
#include <string.h>

#include "agent/store/redis.h"

#include "tests/support/prng.h"

#define SILENCE_US (1 * US_PER_S) /* without an answer: the connection ends */

enum event_type {
    EVENT_ARRIVES = 0,
    EVENT_ANSWERED,
    EVENT_DEADLINE,
    EVENT_SILENCE,
};

struct host {
    struct seam seam;
    struct sim *sim;
    int64_t min_us;
    int64_t max_us;
    unsigned loss_permille;
    bool is_cut;
    int64_t skew_us;
    unsigned n_in_flight;
    struct seam_timer *timers;
};

/** Who was heard of when, as beat.lua keeps it. */
struct heard {
    char name[64];
    int64_t at_us;
};

struct node {
    struct centre *centre;
    unsigned n_heard;
    struct heard heard[SIM_HOSTS_MAX];
    enum sim_health health;
    int64_t skew_us;
    uint64_t n_done; /* scripts */
};

/** A call on its way. The bytes are copies: the caller's may go. */
struct flight {
    struct flight *prev;
    struct flight *next;
    struct seam_call *call; /* NULL: the caller has been told the end */
    bool is_timed_out;
    struct host *host;
    unsigned node;
    unsigned script;
    uint64_t tag;
    unsigned n_deeds; /* what the node did */
    struct centre_deed *deeds;
    unsigned n_events; /* that name it */
    bool is_parked;    /* at a stopped node */
    unsigned n_keys;
    struct seam_bytes keys[SCRIPT_LEASE_KEYS_MAX];
    uint8_t *bytes;
    struct seam_bytes arg;
    struct instant sent_at;
    enum seam_outcome outcome;
    enum seam_error error;
    unsigned n_values;
    struct seam_value *values;
};

struct event {
    struct instant at;
    uint64_t number; /* of two at one time the earlier goes first */
    enum event_type type;
    struct flight *flight;
};

struct sim {
    struct prng prng;
    struct instant now;
    unsigned n_nodes;
    unsigned n_hosts;
    struct node nodes[SIM_NODES_MAX];
    struct host hosts[SIM_HOSTS_MAX];
    uint8_t node_of[SEAM_SLOTS_MAX];
    struct flight *flights;
    uint64_t n_scripts[REDIS_SCRIPTS_N];
    struct sim_witness *witness;
    size_t n_events;
    size_t cap_events;
    uint64_t n_ever;
    struct event *events; /* a heap */
};

/* --- events --- */

static bool is_before(const struct event *a, const struct event *b)
{
    int64_t diff = instant_diff_us(a->at, b->at);
    return diff < 0 || (diff == 0 && a->number < b->number);
}

static void swap(struct event *a, struct event *b)
{
    struct event c = *a;
    *a = *b;
    *b = c;
}

static void schedule(struct flight *flight, struct instant at, enum event_type type)
{
    struct sim *sim = flight->host->sim;
    if (sim->n_events == sim->cap_events) {
        sim->cap_events = sim->cap_events * 2 + 64;
        sim->events = realloc(sim->events, sim->cap_events * sizeof(sim->events[0]));
        ENSURE(sim->events != NULL);
    }
    size_t i = sim->n_events++;
    sim->events[i] = (struct event){at, sim->n_ever++, type, flight};
    flight->n_events++;
    for (; i > 0 && is_before(&sim->events[i], &sim->events[(i - 1) / 2]);
         i = (i - 1) / 2) {
        swap(&sim->events[i], &sim->events[(i - 1) / 2]);
    }
}

static struct event next_event(struct sim *sim)
{
    struct event first = sim->events[0];
    sim->events[0] = sim->events[--sim->n_events];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++) {
            if (child < sim->n_events
                && is_before(&sim->events[child], &sim->events[least])) {
                least = child;
            }
        }
        if (least == i) {
            return first;
        }
        swap(&sim->events[i], &sim->events[least]);
        i = least;
    }
}

/* --- nodes --- */

/* What is done with each counter by one script. */
static void tell(const struct flight *flight, enum sim_step step,
                 const struct centre_deed *deeds, unsigned n_deeds)
{
    struct sim *sim = flight->host->sim;
    for (unsigned i = 0; sim->witness != NULL && i < n_deeds; i++) {
        const struct centre_deed *deed = &deeds[i];
        const struct sim_tale tale = {
            .step = step,
            .script = flight->script,
            .tag = flight->tag,
            .key = flight->keys[deed->key_idx],
            .act = deed->act,
            .amount = deed->amount,
            .spent = deed->spent,
            .host = deed->host,
            .seq = deed->seq,
        };
        sim->witness->see(sim->witness, &tale);
    }
}

/* Who heard the answer heard nothing of what the node took back from others. */
static void tell_heard(const struct flight *flight)
{
    for (unsigned i = 0; i < flight->n_deeds; i++) {
        if (flight->deeds[i].act != CENTRE_TAKE_BACK) {
            tell(flight, SIM_HEARD, &flight->deeds[i], 1);
        }
    }
}

/* The reply: an integer, or an array of them. */
static void say(struct flight *flight, const int64_t *numbers, unsigned n,
                bool is_array)
{
    free(flight->values);
    flight->values = calloc(n + 1, sizeof(flight->values[0]));
    ENSURE(flight->values != NULL);
    flight->n_values = n + is_array;
    flight->values[0] = (struct seam_value){.type = SEAM_ARRAY, .integer = n};
    for (unsigned i = 0; i < n; i++) {
        flight->values[i + is_array] = (struct seam_value){
            .type = SEAM_INTEGER,
            .integer = numbers[i],
        };
    }
}

static struct centre_call call_of(const struct flight *flight, struct instant now)
{
    return (struct centre_call){
        .script = flight->script,
        .keys = flight->keys,
        .n_keys = flight->n_keys,
        .arg = flight->arg,
        .now = now,
    };
}

static void keep_deeds(struct flight *flight, const struct centre_deeds *deeds)
{
    ENSURE(flight->deeds == NULL);
    flight->n_deeds = deeds->n;
    flight->deeds = calloc(deeds->n + 1, sizeof(flight->deeds[0]));
    ENSURE(flight->deeds != NULL);
    if (deeds->n > 0) {
        memcpy(flight->deeds, deeds->list, deeds->n * sizeof(flight->deeds[0]));
    }
}

static void carry_out_counters(struct flight *flight, struct centre *centre,
                               struct instant now)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    const struct centre_call call = call_of(flight, now);
    unsigned n = centre_run(centre, &call, numbers);
    say(flight, numbers, n, true);
    keep_deeds(flight, centre_deeds(centre));
    tell(flight, SIM_DONE, flight->deeds, flight->n_deeds);
}

static void forget_heard(struct node *node, unsigned i)
{
    node->heard[i] = node->heard[--node->n_heard];
}

/* What beat.lua does, on the one key that there is of it. */
static void carry_out_beat(struct flight *flight, struct node *node, struct instant now)
{
    static const int64_t lives_us = 3 * US_PER_S;
    const char *text = flight->arg.ptr;
    struct heard heard = {.at_us = now.us};
    ENSURE(flight->n_keys == 1 && flight->arg.len >= 1
           && flight->arg.len <= sizeof(heard.name));
    memcpy(heard.name, text + 1, flight->arg.len - 1);
    for (unsigned i = node->n_heard; i-- > 0;) {
        int64_t age_us = now.us - node->heard[i].at_us;
        if (age_us >= lives_us || age_us <= -lives_us
            || strcmp(node->heard[i].name, heard.name) == 0) {
            forget_heard(node, i);
        }
    }
    if (text[0] == '+') {
        ENSURE(node->n_heard < SIM_HOSTS_MAX);
        node->heard[node->n_heard++] = heard;
    }
    const int64_t n_heard = node->n_heard;
    say(flight, &n_heard, 1, false);
}

static unsigned host_slot(struct seam *seam, struct seam_bytes key);

/* @return SEAM_ERROR_NONE where the node does what it is told */
static enum seam_error refusal(const struct flight *flight)
{
    struct sim *sim = flight->host->sim;
    if (sim->nodes[flight->node].health == SIM_FAILING) {
        return SEAM_ERROR_LOADING;
    }
    unsigned slot = host_slot(&flight->host->seam, flight->keys[0]);
    bool is_here = sim->node_of[slot] == flight->node
                   && sim->nodes[flight->node].health != SIM_MISTAKEN;
    return is_here ? SEAM_ERROR_NONE : SEAM_ERROR_MOVED;
}

static void carry_out(struct flight *flight)
{
    struct sim *sim = flight->host->sim;
    struct node *node = &sim->nodes[flight->node];
    struct instant now = instant_add_us(sim->now, node->skew_us);
    sim->n_scripts[flight->script]++;
    sim->nodes[flight->node].n_done++;
    flight->error = refusal(flight);
    if (flight->error != SEAM_ERROR_NONE) {
        flight->outcome = SEAM_ERROR;
        return;
    }
    flight->outcome = SEAM_OK;
    if (node->health == SIM_BABBLING) {
        static const int64_t babble = 7;
        say(flight, &babble, 1, true);
    } else if (flight->script == REDIS_SCRIPT_BEAT) {
        carry_out_beat(flight, node, now);
    } else {
        carry_out_counters(flight, node->centre, now);
    }
}

/* --- the network --- */

static int64_t latency(struct host *host)
{
    uint64_t spread = (uint64_t)(host->max_us - host->min_us) + 1;
    return host->min_us + (int64_t)prng_below(&host->sim->prng, spread);
}

static bool is_lost(struct host *host)
{
    return prng_below(&host->sim->prng, 1000) < host->loss_permille;
}

static void flight_free_if_over(struct flight *flight)
{
    struct sim *sim = flight->host->sim;
    if (flight->call != NULL || flight->n_events > 0 || flight->is_parked) {
        return;
    }
    if (flight->prev != NULL) {
        flight->prev->next = flight->next;
    } else {
        sim->flights = flight->next;
    }
    if (flight->next != NULL) {
        flight->next->prev = flight->prev;
    }
    free(flight->bytes);
    free(flight->values);
    free(flight->deeds);
    free(flight);
}

/* Tell the caller the end. */
static void land(struct flight *flight, enum seam_outcome outcome)
{
    struct seam_call *call = flight->call;
    struct seam_reply reply = {flight->values, flight->n_values};
    if (call == NULL) {
        return;
    }
    flight->call = NULL;
    flight->host->n_in_flight--;
    call->node = flight->node;
    call->round_trip_us = instant_diff_us(flight->host->sim->now, flight->sent_at);
    bool has_reply = outcome == SEAM_OK;
    if (has_reply) {
        tell_heard(flight);
    }
    if (flight->is_timed_out) {
        if (call->late != NULL) {
            call->late(call, has_reply ? &reply : NULL);
        }
        return;
    }
    call->outcome = outcome;
    call->error = outcome == SEAM_ERROR ? flight->error : SEAM_ERROR_NONE;
    call->done(call, has_reply ? &reply : NULL);
}

static void arrive(struct flight *flight)
{
    struct host *host = flight->host;
    struct node *node = &host->sim->nodes[flight->node];
    if (host->is_cut) {
        return;
    }
    if (node->health == SIM_DOWN || is_lost(host)) {
        land(flight, SEAM_LOST);
        return;
    }
    if (node->health == SIM_STOPPED) {
        flight->is_parked = true;
        return;
    }
    carry_out(flight);
    schedule(flight, instant_add_us(host->sim->now, latency(host)), EVENT_ANSWERED);
}

static void time_out(struct flight *flight)
{
    struct seam_call *call = flight->call;
    if (call == NULL) {
        return;
    }
    flight->is_timed_out = true;
    call->outcome = SEAM_TIMEOUT;
    call->node = flight->node;
    call->done(call, NULL);
}

static void happen(struct event *event)
{
    struct flight *flight = event->flight;
    flight->n_events--;
    switch (event->type) {
    case EVENT_ARRIVES:
        arrive(flight);
        break;
    case EVENT_ANSWERED:
        if (!flight->host->is_cut) {
            land(flight, is_lost(flight->host) ? SEAM_LOST : flight->outcome);
        }
        break;
    case EVENT_DEADLINE:
        time_out(flight);
        break;
    case EVENT_SILENCE:
        land(flight, SEAM_LOST);
        break;
    }
    flight_free_if_over(flight);
}

static struct seam_timer *earliest_timer(struct sim *sim, struct host **owner)
{
    struct seam_timer *first = NULL;
    int64_t first_us = 0;
    for (unsigned i = 0; i < sim->n_hosts; i++) {
        struct host *host = &sim->hosts[i];
        for (struct seam_timer *t = host->timers; t != NULL; t = t->next) {
            int64_t at_us = t->at.us - host->skew_us;
            if (first == NULL || at_us < first_us) {
                first = t;
                first_us = at_us;
                *owner = host;
            }
        }
    }
    return first;
}

/* --- the seam --- */

static struct host *host_of(struct seam *seam)
{
    return CONTAINER_OF(seam, struct host, seam);
}

/* The part in braces counts, as in Redis Cluster; which slot that is, is another matter. */
static unsigned host_slot(struct seam *seam, struct seam_bytes key)
{
    const char *text = key.ptr;
    const char *open = memchr(text, '{', key.len);
    const char *close = open != NULL
                            ? memchr(open, '}', key.len - (size_t)(open - text))
                            : NULL;
    if (close != NULL && close > open + 1) {
        text = open + 1;
        key.len = (size_t)(close - text);
    }
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    }
    return host_of(seam)->sim->n_nodes == 1 ? 0 : hash % SEAM_SLOTS_MAX;
}

static unsigned host_node(struct seam *seam, unsigned slot)
{
    return host_of(seam)->sim->node_of[slot];
}

static struct instant host_now(struct seam *seam)
{
    struct host *host = host_of(seam);
    return instant_add_us(host->sim->now, host->skew_us);
}

static void host_timer_stop(struct seam *seam, struct seam_timer *timer)
{
    struct host *host = host_of(seam);
    for (struct seam_timer **at = &host->timers; *at != NULL; at = &(*at)->next) {
        if (*at == timer) {
            *at = timer->next;
            return;
        }
    }
}

static void host_timer_set(struct seam *seam, struct seam_timer *timer)
{
    struct host *host = host_of(seam);
    host_timer_stop(seam, timer);
    timer->next = host->timers;
    host->timers = timer;
}

static uint64_t host_random(struct seam *seam)
{
    return prng_next(&host_of(seam)->sim->prng);
}

static uint64_t tag_of(struct sim *sim, const struct seam_call *call)
{
    return sim->witness != NULL && sim->witness->tag != NULL
               ? sim->witness->tag(sim->witness, call)
               : 0;
}

/* Scripts read all counters before they write any: a key that a call has twice would lose
 * what was done to it first. */
static void check_keys(struct host *host, const struct seam_call *call)
{
    unsigned slot = host_slot(&host->seam, call->keys[0]);
    for (unsigned i = 0; i < call->n_keys; i++) {
        ENSURE(host_slot(&host->seam, call->keys[i]) == slot);
        for (unsigned j = 0; j < i; j++) {
            ENSURE(call->keys[i].len != call->keys[j].len
                   || memcmp(call->keys[i].ptr, call->keys[j].ptr, call->keys[i].len)
                          != 0);
        }
    }
}

static struct flight *take_off(struct host *host, struct seam_call *call, unsigned node)
{
    struct flight *flight = calloc(1, sizeof(*flight));
    size_t n_bytes = call->args[0].len;
    ENSURE(flight != NULL && call->n_args == 1 && call->n_keys >= 1
           && call->n_keys <= SCRIPT_LEASE_KEYS_MAX);
    for (unsigned i = 0; i < call->n_keys; i++) {
        n_bytes += call->keys[i].len;
    }
    flight->bytes = malloc(n_bytes + 1);
    ENSURE(flight->bytes != NULL);
    uint8_t *at = flight->bytes;
    check_keys(host, call);
    for (unsigned i = 0; i < call->n_keys; i++) {
        memcpy(at, call->keys[i].ptr, call->keys[i].len);
        flight->keys[i] = (struct seam_bytes){at, call->keys[i].len};
        at += call->keys[i].len;
    }
    memcpy(at, call->args[0].ptr, call->args[0].len);
    flight->arg = (struct seam_bytes){at, call->args[0].len};
    flight->n_keys = call->n_keys;
    flight->call = call;
    flight->host = host;
    flight->node = node;
    flight->script = call->script;
    flight->tag = tag_of(host->sim, call);
    flight->sent_at = host->sim->now;
    flight->next = host->sim->flights;
    if (flight->next != NULL) {
        flight->next->prev = flight;
    }
    host->sim->flights = flight;
    return flight;
}

/* What the host has decided, also where it never arrives. */
static void tell_sent(const struct flight *flight)
{
    const struct centre_call call = call_of(flight, (struct instant){0});
    if (flight->script != REDIS_SCRIPT_BEAT) {
        struct centre *any = flight->host->sim->nodes[flight->node].centre;
        const struct centre_deeds *intents = centre_intents(any, &call);
        tell(flight, SIM_SENT, intents->list, intents->n);
    }
}

static void host_run(struct seam *seam, struct seam_call *call)
{
    struct host *host = host_of(seam);
    struct sim *sim = host->sim;
    unsigned node = sim->node_of[host_slot(seam, call->keys[0])];
    call->node = node;
    call->error = SEAM_ERROR_NONE;
    struct flight *flight = take_off(host, call, node);
    tell_sent(flight);
    if (sim->nodes[node].health == SIM_DOWN || host->n_in_flight == SIM_IN_FLIGHT_MAX) {
        flight->call = NULL;
        flight_free_if_over(flight);
        call->outcome = host->n_in_flight == SIM_IN_FLIGHT_MAX ? SEAM_FULL : SEAM_DOWN;
        call->done(call, NULL);
        return;
    }
    host->n_in_flight++;
    struct instant deadline = instant_add_us(call->deadline, -host->skew_us);
    schedule(flight, instant_add_us(sim->now, latency(host)), EVENT_ARRIVES);
    schedule(flight, deadline, EVENT_DEADLINE);
    schedule(flight, instant_add_us(sim->now, SILENCE_US), EVENT_SILENCE);
}

static void host_reject(struct seam *seam, const struct seam_call *call)
{
    struct host *host = host_of(seam);
    for (struct flight *flight = host->sim->flights; flight != NULL;
         flight = flight->next) {
        if (flight->host == host && flight->node == call->node) {
            schedule(flight, host->sim->now, EVENT_SILENCE);
        }
    }
}

/* --- the world --- */

struct sim *sim_new(uint64_t seed, unsigned n_nodes, unsigned n_hosts)
{
    static const struct seam_ops ops = {
        .run = host_run,
        .reject = host_reject,
        .slot = host_slot,
        .node = host_node,
        .now = host_now,
        .timer_set = host_timer_set,
        .timer_stop = host_timer_stop,
        .random = host_random,
    };
    struct sim *sim = calloc(1, sizeof(*sim));
    ENSURE(sim != NULL && n_nodes <= SIM_NODES_MAX && n_hosts <= SIM_HOSTS_MAX);
    prng_init(&sim->prng, seed);
    sim->now = (struct instant){.us = INT64_C(1800000000) * US_PER_S};
    sim->n_nodes = n_nodes;
    sim->n_hosts = n_hosts;
    for (unsigned i = 0; i < n_nodes; i++) {
        sim->nodes[i].centre = centre_new();
    }
    for (unsigned i = 0; i < n_hosts; i++) {
        sim->hosts[i] = (struct host){
            .seam.ops = &ops,
            .sim = sim,
            .min_us = 100,
            .max_us = 300,
        };
    }
    for (unsigned i = 0; i < SEAM_SLOTS_MAX; i++) {
        sim->node_of[i] = (uint8_t)(i % n_nodes);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    while (sim->flights != NULL) { /* the callers may be gone */
        struct flight *flight = sim->flights;
        flight->call = NULL;
        flight->n_events = 0;
        flight->is_parked = false;
        flight_free_if_over(flight);
    }
    for (unsigned i = 0; i < sim->n_nodes; i++) {
        centre_free(sim->nodes[i].centre);
    }
    free(sim->events);
    free(sim);
}

struct seam *sim_seam(struct sim *sim, unsigned host)
{
    return &sim->hosts[host].seam;
}

struct instant sim_now(const struct sim *sim)
{
    return sim->now;
}

void sim_run(struct sim *sim, int64_t us)
{
    struct instant until = instant_add_us(sim->now, us);
    for (;;) {
        struct host *host = NULL;
        struct seam_timer *timer = earliest_timer(sim, &host);
        struct instant at = timer != NULL ? instant_add_us(timer->at, -host->skew_us)
                                          : until;
        bool is_event = sim->n_events > 0
                        && (timer == NULL
                            || instant_diff_us(sim->events[0].at, at) <= 0);
        at = is_event ? sim->events[0].at : at;
        if (instant_diff_us(at, until) > 0 || (!is_event && timer == NULL)) {
            break;
        }
        sim->now = instant_diff_us(at, sim->now) > 0 ? at : sim->now;
        if (is_event) {
            struct event event = next_event(sim);
            happen(&event);
        } else {
            host_timer_stop(&host->seam, timer);
            timer->fire(timer);
        }
    }
    sim->now = until;
}

void sim_set_latency(struct sim *sim, unsigned host, int64_t min_us, int64_t max_us)
{
    sim->hosts[host].min_us = min_us;
    sim->hosts[host].max_us = max_us;
}

void sim_set_loss(struct sim *sim, unsigned host, unsigned permille)
{
    sim->hosts[host].loss_permille = permille;
}

void sim_set_cut(struct sim *sim, unsigned host, bool is_cut)
{
    sim->hosts[host].is_cut = is_cut;
}

void sim_set_host_skew(struct sim *sim, unsigned host, int64_t us)
{
    sim->hosts[host].skew_us = us;
}

/* What waited at a node that goes on is carried out now; who asked may be gone. */
static void release_parked(struct sim *sim, unsigned node)
{
    struct flight *next = NULL;
    for (struct flight *flight = sim->flights; flight != NULL; flight = next) {
        next = flight->next;
        if (flight->is_parked && flight->node == node) {
            flight->is_parked = false;
            carry_out(flight);
            schedule(flight, instant_add_us(sim->now, latency(flight->host)),
                     EVENT_ANSWERED);
        }
    }
}

/* Connections break: nothing that is on its way there arrives. */
static void break_connections(struct sim *sim, unsigned node)
{
    for (bool is_again = true; is_again;) {
        is_again = false;
        for (struct flight *flight = sim->flights; flight != NULL;
             flight = flight->next) {
            if (flight->node != node || (flight->call == NULL && !flight->is_parked)) {
                continue;
            }
            flight->is_parked = false;
            land(flight, SEAM_LOST);
            flight_free_if_over(flight);
            is_again = true; /* callbacks may have changed the list */
            break;
        }
    }
}

void sim_set_health(struct sim *sim, unsigned node, enum sim_health health)
{
    sim->nodes[node].health = health;
    if (health == SIM_DOWN) {
        break_connections(sim, node);
    } else if (health != SIM_STOPPED) {
        release_parked(sim, node);
    }
}

void sim_heal(struct sim *sim)
{
    for (unsigned i = 0; i < sim->n_hosts; i++) {
        sim->hosts[i].is_cut = false;
        sim->hosts[i].loss_permille = 0;
        sim->hosts[i].min_us = 100;
        sim->hosts[i].max_us = 300;
    }
    for (unsigned i = 0; i < sim->n_nodes; i++) {
        sim_set_health(sim, i, SIM_UP);
    }
}

void sim_set_node_skew(struct sim *sim, unsigned node, int64_t us)
{
    sim->nodes[node].skew_us = us;
}

void sim_flush(struct sim *sim, unsigned node)
{
    centre_flush(sim->nodes[node].centre);
    sim->nodes[node].n_heard = 0;
}

void sim_move_slot(struct sim *sim, unsigned slot, unsigned node)
{
    sim->node_of[slot] = (uint8_t)node;
}

void sim_set_witness(struct sim *sim, struct sim_witness *witness)
{
    sim->witness = witness;
}

int64_t sim_used(struct sim *sim, const struct limit *limit, const char *key)
{
    struct seam_bytes name = {key, strlen(key)};
    const struct node
        *node = &sim->nodes[sim->node_of[host_slot(&sim->hosts[0].seam, name)]];
    return centre_used(node->centre, limit, name,
                       instant_add_us(sim->now, node->skew_us));
}

uint64_t sim_n_done(const struct sim *sim, unsigned node)
{
    return sim->nodes[node].n_done;
}

uint64_t sim_n_scripts(const struct sim *sim, unsigned script)
{
    return sim->n_scripts[script];
}

unsigned sim_n_in_flight(const struct sim *sim)
{
    unsigned n = 0;
    for (unsigned i = 0; i < sim->n_hosts; i++) {
        n += sim->hosts[i].n_in_flight;
    }
    return n;
}
