#include "agent/net/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/log.h"
#include "agent/net/connection.h"
#include "agent/thread.h"

static void set_sweep_ms(struct worker *worker, int ms)
{
    worker->sweep.repeat = ms / 1000.0;
    ev_timer_again(worker->loop, &worker->sweep);
}

/* epoll knows a connection until all its descriptors are closed, the successor's too: an
 * event for one that is closed here would name a number that may be another's by now. So
 * they are closed when epoll has gone, or when the successor has. */
static void close_handed(struct worker *worker)
{
    while (worker->n_handed > 0) {
        (void)close(worker->handed_fds[--worker->n_handed]);
    }
}

static void end_handing_over(struct worker *worker)
{
    if (worker->is_handing_over) {
        worker->is_handing_over = false;
        (void)close(worker->channel_fd);
        set_sweep_ms(worker, WORKER_SWEEP_MS);
    }
}

/* Hand over what can be now; tell main once there is nothing left. */
static void hand_over(struct worker *worker)
{
    bool is_all = true;
    struct connection *next = NULL;
    for (struct connection *c = worker->connections; c != NULL; c = next) {
        next = connection_next(c);
        is_all = connection_hand_over(c) && is_all;
    }
    if (is_all) {
        end_handing_over(worker);
        /* Main reads what this thread counted: all of it comes before. */
        atomic_store_explicit(&worker->handed_over, worker->upgrade,
                              memory_order_release);
        ev_async_send(worker->gone->main_loop, &worker->gone->async);
    }
}

/* Where the loop stood still, what peers sent or ended meanwhile is to be read first: nobody
 * is late for a moment. The next turn alone would not do, since it reads a part of the
 * descriptors, and looks at this timer again before them. */
static void check_timers(struct worker *worker, struct instant now)
{
    struct connection *next = NULL;
    if (instant_diff_us(now, worker->swept_at) >= WORKER_STALL_US) {
        worker->patient_until = instant_add_us(now, WORKER_PATIENCE_US);
    }
    worker->swept_at = now;
    bool is_patient = instant_diff_us(now, worker->patient_until) < 0;
    for (struct connection *c = worker->connections; c != NULL && !is_patient;
         c = next) {
        next = connection_next(c);
        connection_check_timers(c, now);
    }
}

static void on_sweep(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct worker *worker = CONTAINER_OF(timer, struct worker, sweep);
    (void)events;
    (void)atomic_fetch_add_explicit(&worker->n_turns, 1, memory_order_relaxed);
    check_timers(worker, clock_now());
    if (worker->is_handing_over) {
        hand_over(worker);
    }
    if (worker->is_draining && worker->connections == NULL && worker->n_pending == 0
        && store_finish(worker->decide.store)) {
        ev_break(loop, EVBREAK_ALL);
    }
}

static void begin_drain(struct worker *worker, int64_t read_us)
{
    if (worker->is_draining) {
        return;
    }
    worker->is_draining = true;
    worker->drain_began = clock_now();
    worker->drain_read_us = read_us;
    set_sweep_ms(worker, WORKER_DRAIN_MS);
}

static void begin_handing_over(struct worker *worker, int channel_fd, unsigned upgrade)
{
    worker->is_handing_over = true;
    worker->channel_fd = channel_fd;
    worker->upgrade = upgrade;
    set_sweep_ms(worker, WORKER_DRAIN_MS);
    hand_over(worker);
}

static void tell_changed(struct worker *worker)
{
    store_leave(worker->decide.store);
    atomic_store_explicit(&worker->changed, worker->change, memory_order_release);
    ev_async_send(worker->gone->main_loop, &worker->gone->async);
}

/* The old set is left when the last request that it was begun under has its answer. Main
 * makes no other change before that. */
static void change_rules(struct worker *worker, const struct letter *letter)
{
    ENSURE(worker->n_pending_old == 0);
    decide_change(&worker->decide, letter->set, letter->clients, letter->counters);
    worker->change = letter->change;
    worker->n_pending_old = worker->n_pending;
    if (worker->n_pending_old == 0) {
        tell_changed(worker);
    }
}

static void count_ended(struct worker *worker, unsigned change)
{
    worker->n_pending--;
    if (change != worker->change && --worker->n_pending_old == 0) {
        tell_changed(worker);
    }
}

void worker_end_pending(struct worker *worker, struct pending *pending)
{
    count_ended(worker, pending->change);
    pendings_put(&worker->pendings, pending);
}

static void on_asked(struct store_take *take)
{
    struct ask *ask = CONTAINER_OF(take, struct ask, take);
    struct worker *worker = ask->worker;
    unsigned change = ask->change;
    ask_return(ask);
    ev_async_send(worker->gone->main_loop, &worker->gone->async);
    count_ended(worker, change);
}

/* Main asks what the store would say: as long as it may take, from now. */
static void begin_ask(struct worker *worker, struct ask *ask)
{
    struct store_take *take = &ask->take;
    int64_t left_us = instant_diff_us(take->deadline, take->now);
    ask->worker = worker;
    ask->change = worker->change;
    worker->n_pending++;
    take->now = clock_now();
    take->deadline = instant_add_us(take->now, left_us);
    take->counters = worker->decide.counters;
    take->done = on_asked;
    store_take(worker->decide.store, take);
}

/* What stores answered in this turn of the loop is written before the next. */
static void on_prepare(struct ev_loop *loop, struct ev_prepare *prepare, int events)
{
    struct worker *worker = CONTAINER_OF(prepare, struct worker, prepare);
    (void)loop;
    (void)events;
    if (worker->answered != NULL) {
        connection_flush_answered(worker, clock_now());
    }
}

static void on_letter(struct ev_loop *loop, struct ev_async *async, int events)
{
    struct worker *worker = CONTAINER_OF(async, struct worker, async);
    (void)loop;
    (void)events;
    struct letter letter;
    while (mailbox_get(&worker->mailbox, &letter)) {
        switch (letter.type) {
        case LETTER_CONNECTION:
            connection_open(worker, letter.fd);
            break;
        case LETTER_ASK:
            begin_ask(worker, letter.ask);
            break;
        case LETTER_RULES:
            change_rules(worker, &letter);
            break;
        case LETTER_ADOPT:
            connection_adopt(worker, letter.handover);
            break;
        case LETTER_HAND_OVER:
            begin_handing_over(worker, letter.fd, letter.upgrade);
            break;
        case LETTER_KEEP:
            end_handing_over(worker);
            close_handed(worker);
            break;
        case LETTER_DRAIN:
            end_handing_over(worker);
            begin_drain(worker, WORKER_DRAIN_READ_US);
            break;
        case LETTER_LEAVE:
            end_handing_over(worker);
            begin_drain(worker, WORKER_LEAVE_READ_US);
            break;
        }
    }
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    char name[16];
    (void)snprintf(name, sizeof(name), "worker-%u", worker->idx);
    (void)pthread_setname_np(pthread_self(), name); /* for top -H */
    ev_run(worker->loop, 0);
    return NULL;
}

/* False: there is none, which was said. */
static bool attach_store(struct worker *worker)
{
    if (worker->stores != NULL) {
        worker->decide.store = worker->stores->attach(worker->stores->context,
                                                      worker->idx, worker->loop);
    }
    return worker->decide.store != NULL;
}

static void detach_store(struct worker *worker)
{
    if (worker->stores != NULL) {
        worker->stores->detach(worker->stores->context, worker->idx);
    }
}

static void watch_loop(struct worker *worker)
{
    ev_async_init(&worker->async, on_letter);
    ev_async_start(worker->loop, &worker->async);
    ev_prepare_init(&worker->prepare, on_prepare);
    ev_prepare_start(worker->loop, &worker->prepare);
    worker->swept_at = clock_now();
    ev_timer_init(&worker->sweep, on_sweep, WORKER_SWEEP_MS / 1000.0,
                  WORKER_SWEEP_MS / 1000.0);
    ev_timer_start(worker->loop, &worker->sweep);
}

struct worker *worker_start(unsigned idx, const struct decide *decide,
                            const struct worker_stores *stores,
                            struct worker_gone *gone, struct reassembly *reassembly)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        log_error("worker %u: out of memory", idx);
        return NULL;
    }
    worker->idx = idx;
    worker->decide = *decide;
    worker->stores = stores;
    worker->gone = gone;
    worker->reassembly = reassembly;
    mailbox_init(&worker->mailbox);
    /* NOENV: no environment variable chooses our backend. */
    worker->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV | EVFLAG_NOSIGMASK);
    if (worker->loop == NULL) {
        log_error("worker %u: cannot make an event loop", idx);
        goto out;
    }
    if (!attach_store(worker)) {
        goto out;
    }
    watch_loop(worker);
    if (thread_start(&worker->thread, run, worker) != 0) {
        log_error("worker %u: cannot start a thread", idx);
        goto out;
    }
    return worker;
out:
    detach_store(worker);
    if (worker->loop != NULL) {
        ev_loop_destroy(worker->loop);
    }
    mailbox_fini(&worker->mailbox);
    free(worker);
    return NULL;
}

void worker_post(struct worker *worker, struct letter letter)
{
    mailbox_put(&worker->mailbox, letter);
    ev_async_send(worker->loop, &worker->async);
}

uint32_t worker_n_turns(const struct worker *worker)
{
    return atomic_load_explicit(&worker->n_turns, memory_order_relaxed);
}

bool worker_has_handed_over(const struct worker *worker, unsigned upgrade)
{
    return atomic_load_explicit(&worker->handed_over, memory_order_acquire) == upgrade;
}

bool worker_has_changed(const struct worker *worker, unsigned change)
{
    return atomic_load_explicit(&worker->changed, memory_order_acquire) == change;
}

void worker_join(struct worker *worker)
{
    (void)pthread_join(worker->thread, NULL);
    detach_store(worker);
    ev_loop_destroy(worker->loop);
    close_handed(worker);
    mailbox_fini(&worker->mailbox);
    free(worker);
}
