#include "agent/bench/loader.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/prctl.h>

enum {
    EVENTS_MAX = 256,       /* of one wait */
    CHECK_US = 5000,        /* between two looks at the timers of clients */
    ENDING_US = 1000000,    /* for the agent's DISCONNECT */
    NOTIFIES_A_TURN = 1024, /* open loop: before what came in is looked at again */
};

static const struct timespec one_check = {.tv_nsec = CHECK_US * 1000L};

/* This thread's part of `n` things. */
static uint64_t share_of(const struct bench_plan *plan, unsigned idx, uint64_t n)
{
    return n / plan->n_threads + (idx < n % plan->n_threads);
}

/* In turn, each thread begins with a part of its own. */
static void init_keys(struct loader *loader, const struct bench_plan *plan)
{
    struct keys *keys = &loader->env.keys;
    uint64_t seed = plan->seed + loader->idx;
    if (plan->is_in_turn) {
        keys_init_in_turn(keys, plan->n_keys,
                          plan->n_keys / plan->n_threads * loader->idx, seed);
    } else {
        keys_init(keys, plan->n_keys, plan->zipf_s, seed);
    }
}

struct loader *loader_new(struct bench_run *run, unsigned idx)
{
    const struct bench_plan *plan = run->plan;
    unsigned n_clients = (unsigned)share_of(plan, idx, plan->n_connections);
    struct loader *loader = calloc(1, sizeof(*loader)
                                          + n_clients * sizeof(loader->clients[0]));
    if (loader == NULL) {
        return NULL;
    }
    loader->idx = idx;
    loader->n_clients = n_clients;
    loader->check_at = run->start;
    loader->sending.rate = plan->rate;
    loader->killing.rate = plan->kill_rate;
    loader->env.run = run;
    loader->env.n_left = plan->n_requests > 0 ? share_of(plan, idx, plan->n_requests)
                                              : UINT64_MAX;
    init_keys(loader, plan);
    loader->env.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bool ok = loader->env.epoll_fd >= 0;
    for (unsigned i = 0; i < n_clients; i++) {
        ok = client_init(&loader->clients[i], &loader->env) && ok;
    }
    if (!ok) {
        loader_free(loader);
        return NULL;
    }
    return loader;
}

void loader_free(struct loader *loader)
{
    if (loader == NULL) {
        return;
    }
    for (unsigned i = 0; i < loader->n_clients; i++) {
        client_release(&loader->clients[i]);
    }
    if (loader->env.epoll_fd >= 0) {
        (void)close(loader->env.epoll_fd);
    }
    free(loader);
}

/* The next event of a schedule: threads take turns. */
static struct instant next_of(const struct loader *loader,
                              const struct loader_schedule *schedule)
{
    const struct bench_run *run = loader->env.run;
    uint64_t n = schedule->n_done * run->plan->n_threads + loader->idx;
    uint64_t after_us = n / schedule->rate * (uint64_t)US_PER_S
                        + n % schedule->rate * (uint64_t)US_PER_S / schedule->rate;
    return instant_add_us(run->start, (int64_t)after_us);
}

static bool is_due(const struct loader *loader, const struct loader_schedule *schedule,
                   struct instant now)
{
    return schedule->rate > 0 && instant_diff_us(now, next_of(loader, schedule)) >= 0;
}

/* Open loop: whose turn it is, of those with room; NULL when nobody has any. */
static struct client *take_turn(struct loader *loader)
{
    for (unsigned i = 0; i < loader->n_clients; i++) {
        struct client *c = &loader->clients[loader->next_client];
        loader->next_client = (loader->next_client + 1) % loader->n_clients;
        if (client_has_room(c)) {
            return c;
        }
    }
    return NULL;
}

/* Send what is due. What finds no room stays due: its latency counts from then. Says
 * whether there is more that may find room. */
static bool send_due(struct loader *loader, struct instant now)
{
    unsigned n_sent = 0;
    struct client *c = NULL;
    while (n_sent < NOTIFIES_A_TURN && is_due(loader, &loader->sending, now)
           && (c = take_turn(loader)) != NULL
           && client_notify(c, next_of(loader, &loader->sending), now)) {
        loader->sending.n_done++;
        n_sent++;
    }
    for (unsigned i = 0; n_sent > 0 && i < loader->n_clients; i++) {
        client_flush(&loader->clients[i], now);
    }
    return n_sent == NOTIFIES_A_TURN;
}

/* Closed loop: as many under way as there may be. */
static void refill(struct client *c, struct instant now)
{
    bool is_written = true;
    while (is_written && client_has_room(c)) {
        is_written = client_notify(c, now, now);
        if (!is_written) {
            client_flush(c, now); /* makes room, or loses the connection */
            is_written = client_has_room(c) && client_notify(c, now, now);
        }
    }
    client_flush(c, now);
}

static void kill_due(struct loader *loader, struct instant now)
{
    while (is_due(loader, &loader->killing, now)) {
        uint64_t random = keys_random(&loader->env.keys);
        struct client *c = &loader->clients[(random >> 1) % loader->n_clients];
        if (c->state == CLIENT_OPEN) {
            client_kill(c, random % 2 == 0, now);
        }
        loader->killing.n_done++;
    }
}

static void check_clients(struct loader *loader, struct instant now)
{
    if (instant_diff_us(now, loader->check_at) < 0) {
        return;
    }
    loader->check_at = instant_add_us(now, CHECK_US);
    for (unsigned i = 0; i < loader->n_clients; i++) {
        client_check(&loader->clients[i], now);
    }
}

static bool is_running(const struct loader *loader, struct instant now)
{
    const struct bench_run *run = loader->env.run;
    return loader->env.n_left > 0
           && now.us < atomic_load_explicit(&run->measure_to_us, memory_order_relaxed)
           && !atomic_load_explicit(&run->is_given_up, memory_order_relaxed);
}

/* How long there is nothing to do unless something comes in. */
static struct timespec time_to_wait(const struct loader *loader, struct instant now)
{
    const long ns_per_us = 1000;
    int64_t wait_us = instant_diff_us(loader->check_at, now);
    if (loader->sending.rate > 0) {
        int64_t due_us = instant_diff_us(next_of(loader, &loader->sending), now);
        /* What is due already waits for room, and so for an ACK. */
        wait_us = due_us > 0 && due_us < wait_us ? due_us : wait_us;
    }
    wait_us = wait_us > 0 ? wait_us : 0;
    return (struct timespec){.tv_nsec = wait_us * ns_per_us};
}

/* Take what comes in within `wait`; `may_send`: and send what may follow. */
static void take_events(struct loader *loader, struct timespec wait, bool may_send)
{
    UNCLEARED struct epoll_event events[EVENTS_MAX];
    bool is_closed_loop = loader->sending.rate == 0;
    int n = epoll_pwait2(loader->env.epoll_fd, events, EVENTS_MAX, &wait, NULL);
    for (int i = 0; i < n; i++) {
        struct client *c = events[i].data.ptr;
        struct instant now = clock_now();
        client_event(c, events[i].events, now);
        if (may_send && is_closed_loop) {
            refill(c, now);
        }
    }
}

static void run_load(struct loader *loader)
{
    struct instant now = clock_now();
    for (; is_running(loader, now); now = clock_now()) {
        check_clients(loader, now);
        kill_due(loader, now);
        bool has_more = send_due(loader, now);
        struct timespec at_once = {0};
        take_events(loader, has_more ? at_once : time_to_wait(loader, clock_now()),
                    true);
    }
    now.us = atomic_load(&loader->env.run->measure_to_us) - 1; /* due before the end */
    while (loader->env.n_left > 0 && is_due(loader, &loader->sending, now)) {
        tally_add(&loader->env.tally, TALLY_UNSENT, 1);
        loader->env.n_left--;
        loader->sending.n_done++;
    }
    atomic_fetch_sub(&loader->env.run->n_loading, 1);
}

static unsigned count_under_way(const struct loader *loader)
{
    unsigned n = 0;
    for (unsigned i = 0; i < loader->n_clients; i++) {
        n += loader->clients[i].n_under_way;
    }
    return n;
}

static void drain(struct loader *loader)
{
    struct instant now = clock_now();
    struct instant give_up_at = instant_add_us(now, loader->env.run->plan->timeout_us);
    while (count_under_way(loader) > 0 && instant_diff_us(now, give_up_at) < 0) {
        take_events(loader, one_check, false);
        now = clock_now();
    }
}

static bool is_down(const struct loader *loader)
{
    for (unsigned i = 0; i < loader->n_clients; i++) {
        if (loader->clients[i].state != CLIENT_DOWN) {
            return false;
        }
    }
    return true;
}

static void end(struct loader *loader)
{
    struct instant now = clock_now();
    struct instant give_up_at = instant_add_us(now, ENDING_US);
    for (unsigned i = 0; i < loader->n_clients; i++) {
        client_end(&loader->clients[i], now);
    }
    while (!is_down(loader) && instant_diff_us(now, give_up_at) < 0) {
        take_events(loader, one_check, false);
        now = clock_now();
    }
    for (unsigned i = 0; i < loader->n_clients; i++) {
        client_release(&loader->clients[i]);
        loader->clients[i] = (struct client){.fd = -1};
    }
}

void *loader_run(void *arg)
{
    struct loader *loader = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1UL); /* ns: what is due is sent when it is due */
    run_load(loader);
    drain(loader);
    end(loader);
    return NULL;
}
