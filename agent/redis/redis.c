#include "agent/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/log.h"
#include "agent/redis/scout.h"
#include "agent/thread.h"

#define PERIOD_CLUSTER_US  (10 * US_PER_S)
#define PERIOD_SENTINEL_US (1 * US_PER_S)
#define PERIOD_SINGLE_US   (30 * US_PER_S) /* a name may come to stand for another */
#define PERIOD_FAILED_US   (500 * US_PER_MS)
#define NOTE_US            (60 * US_PER_S) /* between two lines of the same text */

enum {
    NOTE_BYTES_MAX = 512,
    NOTES_MAX = SEAM_NODES_MAX + 1, /* and one of the scout */
};

/* What people were told last. */
struct note {
    struct instant at;
    bool is_down;
    char why[NOTE_BYTES_MAX];
};

struct redis {
    struct redis_options options;
    pthread_t thread;
    _Atomic bool is_woken;
    _Atomic unsigned n_ups; /* how often a connection was there */
    pthread_mutex_t lock;
    /* guarded by lock: */
    bool is_resolving;
    bool is_orphan; /* the scout outlives redis_free, and frees the rest */
    struct redis_watcher *watchers;
    struct redis_map map;
    unsigned n_hints;
    struct endpoint hints[REDIS_HINTS_MAX];
    struct note notes[NOTES_MAX];
    /* the scout's own */
    struct scout scout;
};

static void destroy(struct redis *r)
{
    scout_fini(&r->scout);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static void resolving(struct scout *scout, bool begins)
{
    struct redis *r = CONTAINER_OF(scout, struct redis, scout);
    (void)pthread_mutex_lock(&r->lock);
    r->is_resolving = begins;
    (void)pthread_mutex_unlock(&r->lock);
}

/* @return whether the text is to be told: another one, or the same after a while */
static bool note(struct redis *r, unsigned number, const char *why)
{
    struct note *note = &r->notes[number];
    struct instant now = clock_now();
    (void)pthread_mutex_lock(&r->lock);
    bool is_told = note->at.us == 0 || instant_diff_us(now, note->at) >= NOTE_US
                   || strncmp(note->why, why, sizeof(note->why) - 1) != 0;
    if (is_told) {
        note->at = now;
        note->is_down = true;
        (void)snprintf(note->why, sizeof(note->why), "%s", why);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return is_told;
}

/* @return whether people were told that it was down */
static bool unnote(struct redis *r, unsigned number)
{
    (void)pthread_mutex_lock(&r->lock);
    bool was_down = r->notes[number].is_down;
    r->notes[number].is_down = false;
    (void)pthread_mutex_unlock(&r->lock);
    return was_down;
}

void redis_note_down(struct redis *redis, unsigned node,
                     const struct endpoint *endpoint, const char *why)
{
    char text[ENDPOINT_TEXT_BYTES_MAX];
    if (note(redis, node, why)) {
        endpoint_print(endpoint, text);
        log_warning("redis %s: %s", text, why);
    }
}

void redis_note_up(struct redis *redis, unsigned node, const struct endpoint *endpoint)
{
    char text[ENDPOINT_TEXT_BYTES_MAX];
    (void)atomic_fetch_add(&redis->n_ups, 1);
    if (unnote(redis, node)) {
        endpoint_print(endpoint, text);
        log_info("redis %s: connected", text);
    }
}

/* As far as the nodes are known. */
static bool are_connected(struct redis *r, unsigned n_workers)
{
    unsigned n_nodes = 0;
    (void)pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < r->map.n_nodes; i++) {
        n_nodes += r->map.nodes[i].is_used;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return n_nodes > 0 && atomic_load(&r->n_ups) >= n_nodes * n_workers;
}

void redis_await(struct redis *redis, unsigned n_workers, int64_t us)
{
    static const struct timespec pause = {.tv_nsec = 2000000};
    struct instant began = clock_now();
    while (!are_connected(redis, n_workers)
           && instant_diff_us(clock_now(), began) < us) {
        (void)nanosleep(&pause, NULL);
    }
}

static bool has_address(const struct redis_node *node,
                        const struct endpoint_address *address)
{
    for (unsigned i = 0; i < node->n_addresses; i++) {
        if (node->addresses[i].sockaddr_len == address->sockaddr_len
            && memcmp(&node->addresses[i].sockaddr, &address->sockaddr,
                      address->sockaddr_len)
                   == 0) {
            return true;
        }
    }
    return false;
}

bool redis_is_same_node(const struct redis_node *a, const struct redis_node *b)
{
    bool is_same = endpoint_equals(&a->endpoint, &b->endpoint)
                   && a->n_addresses == b->n_addresses;
    for (unsigned i = 0; is_same && i < a->n_addresses; i++) {
        is_same = has_address(b, &a->addresses[i]);
    }
    return is_same;
}

static bool is_same_map(const struct redis_map *a, const struct redis_map *b)
{
    bool is_same = a->n_nodes == b->n_nodes
                   && memcmp(a->slots, b->slots, sizeof(a->slots)) == 0;
    for (unsigned i = 0; is_same && i < a->n_nodes; i++) {
        is_same = a->nodes[i].is_used == b->nodes[i].is_used
                  && redis_is_same_node(&a->nodes[i], &b->nodes[i]);
    }
    return is_same;
}

static void publish(struct redis *r)
{
    (void)pthread_mutex_lock(&r->lock);
    if (!is_same_map(&r->map, &r->scout.draft)) {
        r->map = r->scout.draft;
        for (struct redis_watcher *w = r->watchers; w != NULL; w = w->next) {
            ev_async_send(w->loop, &w->changed);
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static void hear_hints(struct redis *r)
{
    struct endpoint hints[REDIS_HINTS_MAX];
    (void)pthread_mutex_lock(&r->lock);
    unsigned n = r->n_hints;
    memcpy(hints, r->hints, n * sizeof(hints[0]));
    r->n_hints = 0;
    (void)pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < n && !atomic_load(&r->scout.is_stopping); i++) {
        if (!scout_hear(&r->scout, &hints[i], clock_now())
            && note(r, NOTES_MAX - 1, r->scout.why)) {
            log_warning("redis %s", r->scout.why);
        }
    }
}

static int64_t period_us(enum redis_mode mode)
{
    switch (mode) {
    case REDIS_SINGLE:
        return PERIOD_SINGLE_US;
    case REDIS_CLUSTER:
        return PERIOD_CLUSTER_US;
    case REDIS_SENTINEL:
        return PERIOD_SENTINEL_US;
    }
    NEVER("a mode of no Redis");
}

/* Sleep until the next look is due; where somebody asks for one, it is due sooner. */
static void wait_for_next(struct redis *r, struct instant began, int64_t wait_us)
{
    while (!atomic_load(&r->scout.is_stopping)) {
        int64_t due_us = atomic_load(&r->is_woken) ? REDIS_LOOK_US_MIN : wait_us;
        int64_t left_us = due_us - instant_diff_us(clock_now(), began);
        if (left_us <= 0) {
            return;
        }
        scout_wait(&r->scout, left_us);
    }
}

static void look(struct redis *r, enum redis_mode mode)
{
    struct instant began = clock_now();
    atomic_store(&r->is_woken, false);
    hear_hints(r);
    bool ok = scout_look(&r->scout, began);
    if (atomic_load(&r->scout.is_stopping)) {
        return;
    }
    if (ok) {
        (void)unnote(r, NOTES_MAX - 1);
    } else if (note(r, NOTES_MAX - 1, r->scout.why)) {
        log_warning("redis %s", r->scout.why);
    }
    publish(r); /* also where only a hint was new */
    wait_for_next(r, began, ok ? period_us(mode) : PERIOD_FAILED_US);
}

static void *run(void *data)
{
    struct redis *r = data;
    enum redis_mode mode = r->options.mode;
    while (!atomic_load(&r->scout.is_stopping)) {
        look(r, mode);
    }
    (void)pthread_mutex_lock(&r->lock);
    bool is_orphan = r->is_orphan;
    (void)pthread_mutex_unlock(&r->lock);
    if (is_orphan) {
        destroy(r);
    }
    return NULL;
}

struct redis *redis_new(const struct redis_options *options)
{
    ENSURE(options->n_endpoints >= 1 && options->n_endpoints <= REDIS_ENDPOINTS_MAX
           && options->n_networks <= REDIS_NETWORKS_MAX);
    struct redis *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->options = *options;
    r->scout.resolving = resolving;
    if (!scout_init(&r->scout, &r->options)) {
        free(r);
        return NULL;
    }
    r->map = r->scout.draft;
    (void)pthread_mutex_init(&r->lock, NULL);
    if (thread_start(&r->thread, run, r) != 0) {
        destroy(r);
        return NULL;
    }
    return r;
}

void redis_free(struct redis *redis)
{
    if (redis == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&redis->lock);
    ENSURE(redis->watchers == NULL);
    pthread_t thread = redis->thread;
    bool is_orphan = redis->is_resolving;
    redis->is_orphan = is_orphan; /* nobody waits for a resolver */
    atomic_store(&redis->scout.is_stopping, true);
    ev_async_send(redis->scout.loop, &redis->scout.wake);
    (void)pthread_mutex_unlock(&redis->lock);
    if (is_orphan) {
        (void)pthread_detach(thread);
        return;
    }
    (void)pthread_join(thread, NULL);
    destroy(redis);
}

const struct redis_options *redis_options(const struct redis *redis)
{
    return &redis->options;
}

void redis_watch(struct redis *redis, struct redis_watcher *watcher)
{
    (void)pthread_mutex_lock(&redis->lock);
    watcher->next = redis->watchers;
    redis->watchers = watcher;
    ev_async_send(watcher->loop, &watcher->changed);
    (void)pthread_mutex_unlock(&redis->lock);
}

void redis_unwatch(struct redis *redis, struct redis_watcher *watcher)
{
    (void)pthread_mutex_lock(&redis->lock);
    struct redis_watcher **at = &redis->watchers;
    while (*at != watcher) {
        at = &(*at)->next;
    }
    *at = watcher->next;
    (void)pthread_mutex_unlock(&redis->lock);
}

void redis_copy_map(struct redis *redis, struct redis_map *map)
{
    (void)pthread_mutex_lock(&redis->lock);
    *map = redis->map;
    (void)pthread_mutex_unlock(&redis->lock);
}

unsigned redis_find_node(const struct redis_map *map, const struct endpoint *endpoint)
{
    for (unsigned i = 0; i < map->n_nodes; i++) {
        if (endpoint_equals(&map->nodes[i].endpoint, endpoint)) {
            return i;
        }
    }
    return SEAM_NO_NODE;
}

void redis_look(struct redis *redis)
{
    if (!atomic_exchange(&redis->is_woken, true)) {
        ev_async_send(redis->scout.loop, &redis->scout.wake);
    }
}

void redis_hint(struct redis *redis, const struct endpoint *endpoint)
{
    (void)pthread_mutex_lock(&redis->lock);
    bool is_known = false;
    for (unsigned i = 0; i < redis->n_hints; i++) {
        is_known = is_known || endpoint_equals(&redis->hints[i], endpoint);
    }
    if (!is_known && redis->n_hints < REDIS_HINTS_MAX) {
        redis->hints[redis->n_hints++] = *endpoint;
    }
    (void)pthread_mutex_unlock(&redis->lock);
    redis_look(redis);
}
