#include "agent/store/syncs.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    WORKERS_MAX = 64,
    AGES_DOUBLED_MAX = 10, /* intervals without an exchange that weigh more and more */
};

struct pool {
    bool is_begun;            /* the clock of Redis is known, or guessed */
    bool is_heard;            /* an exchange has told what Redis has */
    bool is_left;             /* by its watcher, as soon as there is another */
    bool is_sent;             /* an exchange is under way, or nobody heard of it */
    uint32_t watcher;         /* 0: none */
    uint32_t seq;             /* of the last exchange */
    int64_t sent;             /* charged here: what it brings */
    int64_t delta;            /* charged here since */
    int64_t ahead_us;         /* of Redis' clock before ours */
    struct limit_state known; /* as the last exchange brought it, on Redis' clock */
    struct limit_state state; /* the same with what was charged here since */
    struct instant exchanged_at;
    struct instant used_at;
};

struct syncs {
    int64_t interval_us;
    struct table table;       /* of pools */
    _Atomic int64_t ahead_us; /* as the last exchange of any pool found it */
    _Atomic uint32_t seq;
    _Atomic uint64_t n_exchanges;
    _Atomic uint64_t drift;
    _Atomic int64_t ages_us[WORKERS_MAX];
};

/* By the calendar Redis is in the window that it was told of, whatever our clock shows. */
static struct instant server_now(const struct pool *pool, const struct limit *limit,
                                 struct instant now)
{
    struct instant then = instant_add_us(now, pool->ahead_us);
    return limit->calendar == NULL ? then
                                   : calendar_of_wall(limit->calendar, now, then);
}

static int64_t lost_us(const struct syncs *syncs)
{
    int64_t us = 10 * syncs->interval_us;
    return us > SYNC_LOST_US ? us : SYNC_LOST_US;
}

static bool pool_may_go(struct table *table, void *entry, struct instant now)
{
    const struct pool *pool = entry;
    (void)table;
    (void)now;
    return pool->watcher == 0;
}

/* --- deciding --- */

static int64_t remaining(const struct limit *limit, const struct limit_state *state,
                         struct instant then)
{
    struct limit_state copy = *state;
    struct limit_answer answer;
    (void)limit_take(limit, &copy, then, 0, &answer);
    return answer.remaining;
}

/* Whether the part of this host of what is left, as far as it is known, covers a cost: one
 * request always. What comes back between exchanges is shared like all else. */
static bool pool_affords(struct pool *pool, const struct limit *limit,
                         unsigned n_agents, struct instant then, int64_t cost)
{
    int64_t spent = pool->sent + pool->delta;
    limit_align(limit, &pool->known, then);
    int64_t left = remaining(limit, &pool->known, then);
    return spent + cost <= left / n_agents || (spent == 0 && cost <= left);
}

static void pool_look(struct pool *pool, const struct limit *limit, struct instant now,
                      struct limit_answer *answer)
{
    struct limit_state copy = pool->state;
    (void)limit_take(limit, &copy, server_now(pool, limit, now), 0, answer);
}

/* Who is to exchange it early; 0: nobody, it is too early, or done already. */
static uint32_t exchanger_of(const struct syncs *syncs, const struct pool *pool,
                             struct instant now)
{
    bool is_due = !pool->is_sent
                  && instant_diff_us(now, pool->exchanged_at)
                         >= syncs->interval_us / SYNC_EARLY_MAX;
    return is_due ? pool->watcher : 0;
}

/* There may be enough, but only the next exchange can say more. */
static void pool_put_off(const struct syncs *syncs, struct pool *pool,
                         struct instant now, struct store_charge *charge,
                         struct sync_errand *errand)
{
    struct limit_answer *answer = &charge->answer;
    int64_t wait_us = syncs->interval_us - instant_diff_us(now, pool->exchanged_at);
    pool_look(pool, charge->limit, now, answer);
    answer->is_allowed = false;
    answer->remaining = 0;
    answer->retry_us = wait_us > US_PER_MS ? wait_us : US_PER_MS;
    errand->exchanger = exchanger_of(syncs, pool, now);
}

static enum sync_verdict pool_charge(const struct syncs *syncs, struct pool *pool,
                                     const struct sync_caller *caller,
                                     struct store_charge *charge,
                                     struct sync_errand *errand)
{
    const struct limit *limit = charge->limit;
    struct instant then = server_now(pool, limit, caller->now);
    limit_align(limit, &pool->state, then);
    if (charge->cost > 0
        && !pool_affords(pool, limit, caller->n_agents, then, charge->cost)) {
        struct limit_state copy = pool->state;
        if (limit_take(limit, &copy, then, charge->cost, &charge->answer)) {
            pool_put_off(syncs, pool, caller->now, charge, errand);
        }
        return SYNC_REFUSED;
    }
    if (!limit_take(limit, &pool->state, then, charge->cost, &charge->answer)) {
        return SYNC_REFUSED;
    }
    charge->is_charged = charge->cost > 0;
    charge->place = limit_place(limit, &pool->state);
    pool->delta += charge->cost;
    return SYNC_ALLOWED;
}

/* It never was exchanged, or was used since, or has something to exchange. */
static bool pool_wants_exchange(const struct pool *pool)
{
    return !pool->is_heard || pool->is_sent || pool->delta > 0
           || instant_diff_us(pool->used_at, pool->exchanged_at) >= 0;
}

/* What is known of a pool that has not wanted an exchange may be old, not wrong: it has as
 * much left as came back meanwhile. */
static void pool_begin(const struct syncs *syncs, struct pool *pool, struct instant now)
{
    if (!pool->is_begun) {
        pool->ahead_us = atomic_load_explicit(&syncs->ahead_us, memory_order_relaxed);
        pool->is_begun = true;
    }
    pool->known = pool->state;
    pool->exchanged_at = now;
}

static bool pool_is_cut_off(const struct syncs *syncs, const struct pool *pool,
                            struct instant now)
{
    return instant_diff_us(now, pool->exchanged_at) > lost_us(syncs);
}

static enum sync_verdict pool_decide(const struct syncs *syncs, struct pool *pool,
                                     const struct sync_caller *caller,
                                     struct store_charge *charge,
                                     struct sync_errand *errand)
{
    if (pool_is_cut_off(syncs, pool, caller->now)) {
        return SYNC_UNKNOWN;
    }
    /* All may be spent: no part of a limit is to pass again when a host starts, or a pool
     * was pushed out. */
    if (!pool->is_heard && charge->cost > 0) {
        errand->exchanger = exchanger_of(syncs, pool, caller->now);
        return SYNC_UNHELD;
    }
    return pool_charge(syncs, pool, caller, charge, errand);
}

enum sync_verdict syncs_charge(struct syncs *syncs, const struct table_key *key,
                               const struct sync_caller *caller,
                               struct store_charge *charge, struct sync_errand *errand)
{
    struct instant now = caller->now;
    enum sync_verdict verdict = SYNC_UNHELD;
    struct table_set *set = table_lock(&syncs->table, key);
    struct pool *pool = table_use(&syncs->table, set, key, now);
    errand->exchanger = 0;
    errand->is_alone = pool != NULL && caller->can_watch
                       && (pool->watcher == 0 || pool->is_left);
    if (pool != NULL && (pool->watcher != 0 || caller->can_watch)) {
        if (pool->watcher == 0 || !pool_wants_exchange(pool)) {
            pool_begin(syncs, pool, now);
        }
        pool->used_at = now;
        verdict = pool_decide(syncs, pool, caller, charge, errand);
    }
    table_unlock(set);
    return verdict;
}

void syncs_give_back(struct syncs *syncs, const struct table_key *key,
                     const struct store_charge *charge, struct instant now)
{
    struct table_set *set = table_lock(&syncs->table, key);
    struct pool *pool = table_find(&syncs->table, set, key);
    if (pool != NULL && pool->delta >= charge->cost) {
        struct limit_correction correction = {charge->place, charge->cost, 0};
        struct instant then = server_now(pool, charge->limit, now);
        (void)limit_settle(charge->limit, &pool->state, then, &correction);
        pool->delta -= charge->cost;
    }
    table_unlock(set);
}

/* --- exchanging --- */

bool syncs_watch(struct syncs *syncs, const struct table_key *key, uint32_t watcher,
                 struct instant now)
{
    struct table_set *set = table_lock(&syncs->table, key);
    struct pool *pool = table_find(&syncs->table, set, key);
    bool is_new = pool != NULL && (pool->watcher == 0 || pool->is_left);
    if (is_new) {
        pool->exchanged_at = pool->watcher == 0 ? now : pool->exchanged_at;
        pool->watcher = watcher;
        pool->is_left = false;
    }
    table_unlock(set);
    return is_new;
}

static bool pool_is_idle(const struct pool *pool, struct instant now)
{
    return !pool->is_sent && pool->delta == 0
           && instant_diff_us(now, pool->used_at) > SYNC_IDLE_US;
}

uint64_t syncs_need(struct syncs *syncs, const struct table_key *key, uint32_t watcher,
                    struct instant now, int64_t *age_us)
{
    uint64_t need = UINT64_MAX;
    struct table_set *set = table_lock(&syncs->table, key);
    const struct pool *pool = table_find(&syncs->table, set, key);
    *age_us = 0;
    if (pool != NULL && pool->watcher == watcher && !pool->is_left
        && !pool_is_idle(pool, now)) {
        *age_us = instant_diff_us(now, pool->exchanged_at);
        int64_t age = *age_us / syncs->interval_us;
        need = pool_wants_exchange(pool)
                   ? (uint64_t)(1 + pool->sent + pool->delta)
                         << (age < AGES_DOUBLED_MAX ? age : AGES_DOUBLED_MAX)
                   : 0;
    }
    table_unlock(set);
    return need;
}

/* Later than all before, also of pools that were pushed out. */
static uint32_t next_seq(struct syncs *syncs)
{
    return atomic_fetch_add_explicit(&syncs->seq, 1, memory_order_relaxed) + 1;
}

bool syncs_begin(struct syncs *syncs, const struct table_key *key, uint32_t watcher,
                 bool is_leaving, struct instant now, struct sync_order *order)
{
    bool is_begun = false;
    struct table_set *set = table_lock(&syncs->table, key);
    struct pool *pool = table_find(&syncs->table, set, key);
    if (pool != NULL && pool->watcher == watcher) {
        bool is_over = pool_is_idle(pool, now)
                       || (is_leaving && !pool->is_sent && pool->delta == 0);
        pool->is_left = is_leaving;
        pool->watcher = is_over ? 0 : watcher;
        is_begun = !is_over;
        if (is_begun && !pool->is_sent) {
            pool->is_sent = true;
            pool->seq = next_seq(syncs);
            pool->sent = pool->delta; /* no more than was left once: fits a call */
            pool->delta = 0;
        }
        *order = (struct sync_order){*key, pool->seq, pool->sent};
    }
    table_unlock(set);
    return is_begun;
}

static int64_t difference(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Charge what has been spent, up to a debt of one size. */
static void charge_by_force(const struct limit *limit, struct limit_state *state,
                            struct instant now, int64_t amount)
{
    struct limit doubled = *limit;
    struct limit_answer answer;
    doubled.size = 2 * limit->size;
    (void)limit_take(&doubled, state, now, 0, &answer);
    (void)limit_take(&doubled, state, now,
                     amount < answer.remaining ? amount : answer.remaining, &answer);
}

/* What Redis has and what was charged here since. */
static void pool_take_over(struct syncs *syncs, struct pool *pool,
                           const struct limit *limit, const struct sync_news *news,
                           struct instant now)
{
    int64_t before = remaining(limit, &pool->state, server_now(pool, limit, now));
    pool->ahead_us = instant_diff_us(news->server, now);
    struct instant then = server_now(pool, limit, now);
    pool->is_heard = true;
    pool->known = news->state;
    pool->state = news->state;
    if (pool->delta > 0) {
        charge_by_force(limit, &pool->state, then, pool->delta);
    }
    int64_t after = remaining(limit, &pool->state, then);
    atomic_store_explicit(&syncs->ahead_us, pool->ahead_us, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&syncs->n_exchanges, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&syncs->drift, (uint64_t)difference(before, after),
                                    memory_order_relaxed);
}

void syncs_end(struct syncs *syncs, const struct sync_order *order,
               const struct limit *limit, const struct sync_news *news,
               struct instant now)
{
    struct table_set *set = table_lock(&syncs->table, &order->key);
    struct pool *pool = table_find(&syncs->table, set, &order->key);
    if (pool != NULL && pool->is_sent && pool->seq == order->seq) {
        pool->is_sent = false;
        pool->sent = 0;
        pool->exchanged_at = now;
        pool_take_over(syncs, pool, limit, news, now);
    }
    table_unlock(set);
}

/* --- looking --- */

struct sync_held syncs_look(struct syncs *syncs, const struct table_key *key,
                            const struct limit *limit, struct instant now)
{
    struct sync_held held = {0};
    struct table_set *set = table_lock(&syncs->table, key);
    const struct pool *pool = table_find(&syncs->table, set, key);
    if (pool != NULL && pool->watcher != 0 && pool->is_heard) {
        held = (struct sync_held){
            .is_there = true,
            .is_cut_off = pool_wants_exchange(pool)
                          && pool_is_cut_off(syncs, pool, now),
            .remaining = remaining(limit, &pool->state, server_now(pool, limit, now)),
            .unsent = pool->sent + pool->delta,
            .age_us = instant_diff_us(now, pool->exchanged_at),
        };
    }
    table_unlock(set);
    return held;
}

/* --- all pools --- */

struct syncs *syncs_new(int64_t interval_us)
{
    struct syncs *syncs = calloc(1, sizeof(*syncs));
    if (syncs != NULL && !table_init(&syncs->table, sizeof(struct pool), pool_may_go)) {
        free(syncs);
        syncs = NULL;
    }
    if (syncs != NULL) {
        syncs->interval_us = interval_us;
    }
    return syncs;
}

void syncs_free(struct syncs *syncs)
{
    if (syncs != NULL) {
        table_fini(&syncs->table);
        free(syncs);
    }
}

int64_t syncs_interval_us(const struct syncs *syncs)
{
    return syncs->interval_us;
}

struct table_key syncs_key(const struct syncs *syncs, const struct store_charge *charge)
{
    return table_key(&syncs->table, charge);
}

void syncs_set_age(struct syncs *syncs, unsigned worker, int64_t age_us)
{
    ENSURE(worker < WORKERS_MAX);
    atomic_store_explicit(&syncs->ages_us[worker], age_us, memory_order_relaxed);
}

void syncs_read(const struct syncs *syncs, struct sync_totals *totals)
{
    *totals = (struct sync_totals){
        .n_exchanges = atomic_load_explicit(&syncs->n_exchanges, memory_order_relaxed),
        .drift = atomic_load_explicit(&syncs->drift, memory_order_relaxed),
    };
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        int64_t age_us = atomic_load_explicit(&syncs->ages_us[i], memory_order_relaxed);
        totals->age_us = age_us > totals->age_us ? age_us : totals->age_us;
    }
}
