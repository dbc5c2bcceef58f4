#include "agent/store/leases.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "agent/store/fallback.h"

enum lease_state {
    LEASE_NONE = 0,
    LEASE_ASKED,    /* an order for it is under way */
    LEASE_OPEN,     /* it is spent from */
    LEASE_CLOSED,   /* its report is due */
    LEASE_REPORTED, /* its report is under way */
};

struct lease {
    struct instant spend_until;
    struct instant ends_at;
    int64_t place;
    uint32_t seq;
    uint32_t amount;
    uint32_t left;
    uint8_t state;    /* an enum lease_state */
    bool is_reported; /* maybe: a report of it was not answered */
};

struct pool {
    bool is_asking;   /* an order for more is under way */
    bool is_left;     /* by its watcher, as soon as there is another */
    uint32_t watcher; /* 0: none */
    struct instant ask_at;
    int64_t span; /* number of the horizon that is counted in */
    uint32_t prev;
    uint32_t curr;
    int64_t remaining; /* as Redis had it, with what is out here taken */
    struct instant reset_at;
    struct instant window_end_at;
    struct lease leases[LEASES_PER_POOL];
};

struct leases {
    struct leases_options options;
    struct table table; /* of pools */
    _Atomic uint32_t seq;
    _Atomic uint64_t n_granted;
    _Atomic uint64_t n_spent;
    _Atomic uint64_t n_stranded;
    _Atomic uint64_t n_out;
};

static void add(_Atomic uint64_t *to, uint64_t n)
{
    (void)atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t load(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static bool is_past(struct instant at, struct instant now)
{
    return instant_diff_us(now, at) >= 0;
}

static struct instant earlier(struct instant a, struct instant b)
{
    return a.us < b.us ? a : b;
}

/* --- leases --- */

static void lease_end_stranded(struct leases *leases, struct lease *lease)
{
    add(&leases->n_stranded, lease->amount);
    add(&leases->n_out, -(uint64_t)lease->amount);
    *lease = (struct lease){.state = LEASE_NONE};
}

/* Close what is not to be spent any more; let go of what Redis has taken back. */
static void lease_update(struct leases *leases, struct lease *lease, bool is_all,
                         struct instant now)
{
    if (lease->state == LEASE_OPEN
        && (is_all || lease->left == 0 || is_past(lease->spend_until, now))) {
        lease->state = LEASE_CLOSED;
    }
    if (lease->state == LEASE_CLOSED && is_past(lease->ends_at, now)) {
        lease_end_stranded(leases, lease);
    }
}

static struct lease *pool_find_lease(struct pool *pool, uint32_t seq)
{
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        if (pool->leases[i].state != LEASE_NONE && pool->leases[i].seq == seq) {
            return &pool->leases[i];
        }
    }
    return NULL;
}

static struct lease *pool_find_vacant(struct pool *pool)
{
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        if (pool->leases[i].state == LEASE_NONE) {
            return &pool->leases[i];
        }
    }
    return NULL;
}

static int64_t pool_left(const struct pool *pool)
{
    int64_t left = 0;
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        left += pool->leases[i].state == LEASE_OPEN ? pool->leases[i].left : 0;
    }
    return left;
}

/* The lease to spend from: of those that hold enough the one that ends first. */
static struct lease *pool_find_spendable(struct pool *pool, int64_t cost)
{
    struct lease *best = NULL;
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        struct lease *lease = &pool->leases[i];
        if (lease->state == LEASE_OPEN && lease->left >= cost
            && (best == NULL || lease->spend_until.us < best->spend_until.us)) {
            best = lease;
        }
    }
    return best;
}

static void pool_update(struct leases *leases, struct pool *pool, bool is_all,
                        struct instant now)
{
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        lease_update(leases, &pool->leases[i], is_all, now);
    }
}

static bool pool_is_empty(const struct pool *pool)
{
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        if (pool->leases[i].state != LEASE_NONE) {
            return false;
        }
    }
    return true;
}

/* --- pools --- */

/* What holds tokens, or is to report some, stays. */
static bool pool_may_go(struct table *table, void *entry, struct instant now)
{
    struct pool *pool = entry;
    pool_update(CONTAINER_OF(table, struct leases, table), pool, false, now);
    return pool_is_empty(pool);
}

/* --- orders --- */

/* Count what is asked of the pool. @return what it was asked for in the last horizon */
static int64_t pool_count(const struct leases *leases, struct pool *pool, int64_t cost,
                          struct instant now)
{
    int64_t horizon_us = leases->options.horizon_us;
    int64_t span = now.us / horizon_us;
    int64_t to_come_us = horizon_us - now.us % horizon_us;
    if (span > pool->span) {
        pool->prev = span == pool->span + 1 ? pool->curr : 0;
        pool->curr = 0;
        pool->span = span;
    }
    pool->curr = limit_add_counts(pool->curr, (uint32_t)cost);
    return pool->curr + pool->prev * to_come_us / horizon_us;
}

static int64_t share_of(const struct leases *leases, const struct limit *limit)
{
    int64_t most = limit->requests < limit->size ? limit->requests : limit->size;
    return most * leases->options.share / FALLBACK_SHARE_WHOLE;
}

static void order_add_reports(struct pool *pool, struct lease_order *order)
{
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        struct lease *lease = &pool->leases[i];
        if (lease->state == LEASE_CLOSED) {
            lease->state = LEASE_REPORTED;
            order->reports[order->n_reports++] = (struct lease_report){
                .seq = lease->seq,
                .spent = lease->amount - lease->left,
            };
        }
    }
}

static uint32_t next_seq(struct leases *leases)
{
    return atomic_fetch_add_explicit(&leases->seq, 1, memory_order_relaxed) + 1;
}

/* Order what fills the pool up to a block, when half of one is gone. */
static void order_more(struct leases *leases, struct pool *pool, int64_t block,
                       struct instant now, struct lease_order *order)
{
    int64_t left = pool_left(pool);
    struct lease *lease = pool_find_vacant(pool);
    if (block < LEASE_BLOCK_MIN || 2 * left > block || block - left < LEASE_BLOCK_MIN
        || pool->is_asking || lease == NULL || !is_past(pool->ask_at, now)) {
        return;
    }
    pool->is_asking = true;
    *lease = (struct lease){.state = LEASE_ASKED, .seq = next_seq(leases)};
    order->want = block - left;
    order->seq = lease->seq;
    order_add_reports(pool, order);
}

/* --- spending --- */

static int64_t from_now_us(struct instant at, struct instant now)
{
    int64_t us = instant_diff_us(at, now);
    return us > 0 ? us : 0;
}

static void pool_answer(const struct pool *pool, const struct limit *limit,
                        struct instant now, struct limit_answer *answer)
{
    int64_t remaining = pool->remaining + pool_left(pool);
    *answer = (struct limit_answer){
        .is_allowed = true,
        .remaining = remaining < limit->size ? remaining : limit->size,
        .reset_us = from_now_us(pool->reset_at, now),
        .window_end_us = from_now_us(pool->window_end_at, now),
    };
}

static bool pool_spend(struct pool *pool, struct instant now,
                       struct store_charge *charge, uint32_t *seq)
{
    struct lease *lease = pool_find_spendable(pool, charge->cost);
    if (lease == NULL) {
        return false;
    }
    lease->left -= (uint32_t)charge->cost;
    *seq = lease->seq;
    charge->is_charged = true;
    charge->place = lease->place;
    pool_answer(pool, charge->limit, now, &charge->answer);
    return true;
}

bool leases_cover(const struct leases *leases, const struct limit *limit,
                  unsigned n_agents)
{
    return share_of(leases, limit) / n_agents >= LEASE_BLOCK_MIN;
}

struct table_key leases_key(const struct leases *leases,
                            const struct store_charge *charge)
{
    return table_key(&leases->table, charge);
}

bool leases_spend(struct leases *leases, unsigned n_agents, struct instant now,
                  struct store_charge *charge, uint32_t *seq, struct lease_order *order)
{
    const struct table_key key = order->key;
    int64_t share = share_of(leases, charge->limit);
    bool is_spent = false;
    *order = (struct lease_order){
        .key = key,
        .cap = share,
        .divisor = n_agents + 1,
    };
    struct table_set *set = table_lock(&leases->table, &key);
    struct pool *pool = table_use(&leases->table, set, &key, now);
    if (pool != NULL) {
        int64_t asked = pool_count(leases, pool, charge->cost, now);
        int64_t most = share / n_agents;
        pool_update(leases, pool, false, now);
        is_spent = pool_spend(pool, now, charge, seq);
        order_more(leases, pool, asked < most ? asked : most, now, order);
    }
    table_unlock(set);
    return is_spent;
}

bool leases_give_back(struct leases *leases, const struct table_key *key, uint32_t seq,
                      int64_t cost)
{
    struct table_set *set = table_lock(&leases->table, key);
    struct pool *pool = table_find(&leases->table, set, key);
    struct lease *lease = pool != NULL ? pool_find_lease(pool, seq) : NULL;
    bool is_held = lease != NULL
                   && (lease->state == LEASE_OPEN || lease->state == LEASE_CLOSED);
    if (is_held) {
        lease->left += (uint32_t)cost;
    }
    table_unlock(set);
    return is_held;
}

/* --- the ends of orders --- */

static void end_report(struct leases *leases, struct pool *pool,
                       const struct lease_report *report, bool is_accepted)
{
    struct lease *lease = pool_find_lease(pool, report->seq);
    if (lease == NULL) {
        return;
    }
    if (!is_accepted && !lease->is_reported) {
        lease_end_stranded(leases, lease);
        return;
    }
    add(&leases->n_spent, (uint64_t)report->spent);
    add(&leases->n_out, -(uint64_t)lease->amount);
    *lease = (struct lease){.state = LEASE_NONE};
}

/* Its report is due again. */
static void reopen_report(struct pool *pool, const struct lease_report *report,
                          bool is_uncertain)
{
    struct lease *lease = pool_find_lease(pool, report->seq);
    if (lease != NULL) {
        lease->state = LEASE_CLOSED;
        lease->is_reported = lease->is_reported || is_uncertain;
    }
}

static void end_reports(struct leases *leases, struct pool *pool,
                        const struct lease_order *order,
                        const struct lease_answer *answer)
{
    for (unsigned i = 0; i < order->n_reports; i++) {
        if (answer->end == LEASE_ANSWERED) {
            end_report(leases, pool, &order->reports[i],
                       (answer->accepted >> i & 1) != 0);
        } else {
            reopen_report(pool, &order->reports[i], answer->end == LEASE_UNHEARD);
        }
    }
}

static void lease_open(struct leases *leases, struct pool *pool, struct lease *lease,
                       const struct limit *limit, const struct lease_answer *answer)
{
    int64_t ttl_us = leases->options.ttl_us;
    lease->state = LEASE_OPEN;
    lease->amount = (uint32_t)answer->amount;
    lease->left = lease->amount;
    lease->place = answer->place;
    lease->ends_at = instant_add_us(answer->sent_at, ttl_us);
    lease->spend_until = instant_add_us(answer->sent_at,
                                        ttl_us * LEASE_SPEND_PERCENT / 100);
    if (limit->algorithm == LIMIT_FIXED_WINDOW) {
        lease->spend_until = earlier(lease->spend_until, pool->window_end_at);
    }
    add(&leases->n_granted, (uint64_t)answer->amount);
    add(&leases->n_out, (uint64_t)answer->amount);
}

/* Of the lease that was wanted. */
static void end_wish(struct leases *leases, struct pool *pool, uint32_t seq,
                     const struct limit *limit, const struct lease_answer *answer,
                     struct instant now)
{
    struct lease *lease = pool_find_lease(pool, seq);
    pool->is_asking = false;
    if (lease == NULL) {
        return;
    }
    if (answer->end == LEASE_ANSWERED && answer->amount > 0) {
        lease_open(leases, pool, lease, limit, answer);
        return;
    }
    pool->ask_at = instant_add_us(now, LEASE_PAUSE_US);
    if (answer->end == LEASE_UNHEARD) { /* it may be out: nothing of it is spent */
        lease->state = LEASE_CLOSED;
        lease->ends_at = instant_add_us(now, leases->options.ttl_us);
        lease->is_reported = true;
    } else {
        lease->state = LEASE_NONE;
    }
}

static void pool_learn(struct pool *pool, const struct lease_answer *answer)
{
    int64_t reset_us = answer->reset_us < LIMIT_WAIT_US_MAX ? answer->reset_us
                                                            : LIMIT_WAIT_US_MAX;
    pool->remaining = answer->remaining;
    pool->reset_at = instant_add_us(answer->sent_at, reset_us);
    pool->window_end_at = instant_add_us(answer->sent_at, answer->window_end_us);
}

/* --- watching --- */

/* When somebody is to look after a pool: a lease is over, or a report is due again. */
static struct instant pool_look_at(const struct pool *pool, struct instant now)
{
    struct instant at = {.us = INT64_MAX};
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        const struct lease *lease = &pool->leases[i];
        if (lease->state == LEASE_OPEN) {
            at = earlier(at, lease->spend_until);
        } else if (lease->state == LEASE_CLOSED) {
            at = earlier(at, instant_add_us(now, LEASE_PAUSE_US));
        }
    }
    return at;
}

/* @return when the watcher is to look again, where it is the one */
static struct instant pool_watch(struct pool *pool, struct instant now,
                                 uint32_t watcher)
{
    struct instant never = {0};
    struct instant at = pool_look_at(pool, now);
    bool is_free = pool->watcher == 0 || (pool->is_left && watcher != 0);
    if (!is_free && pool->watcher != watcher) {
        return never;
    }
    pool->is_left = pool->is_left && pool->watcher == watcher;
    pool->watcher = at.us == INT64_MAX ? 0 : watcher;
    return pool->watcher != 0 ? at : never;
}

struct instant leases_end_order(struct leases *leases, const struct lease_order *order,
                                const struct limit *limit,
                                const struct lease_answer *answer, struct instant now,
                                uint32_t watcher)
{
    struct instant look_at = {0};
    struct table_set *set = table_lock(&leases->table, &order->key);
    struct pool *pool = table_find(&leases->table, set, &order->key);
    if (pool != NULL) {
        end_reports(leases, pool, order, answer);
        if (answer->end == LEASE_ANSWERED) {
            pool_learn(pool, answer);
        }
        if (order->want > 0) {
            end_wish(leases, pool, order->seq, limit, answer, now);
        }
        look_at = pool_watch(pool, now, watcher);
    }
    table_unlock(set);
    return look_at;
}

struct instant leases_retire(struct leases *leases, const struct table_key *key,
                             bool is_all, struct instant now, uint32_t watcher,
                             struct lease_order *order)
{
    struct instant look_at = {0};
    *order = (struct lease_order){.key = *key, .divisor = 1};
    struct table_set *set = table_lock(&leases->table, key);
    struct pool *pool = table_find(&leases->table, set, key);
    if (pool != NULL && pool->watcher == watcher) {
        pool->is_left = pool->is_left || is_all;
        pool_update(leases, pool, is_all, now);
        order_add_reports(pool, order);
        if (order->n_reports == 0) {
            look_at = pool_watch(pool, now, watcher);
        }
    }
    table_unlock(set);
    return look_at;
}

/* --- looking --- */

static struct lease_held pool_look(const struct pool *pool, struct instant now)
{
    struct lease_held held = {0};
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        const struct lease *lease = &pool->leases[i];
        int64_t spend_us = from_now_us(lease->spend_until, now);
        if (lease->state == LEASE_OPEN && lease->left > 0 && spend_us > 0) {
            held.left += lease->left;
            held.most = lease->left > held.most ? lease->left : held.most;
            held.spend_us = spend_us > held.spend_us ? spend_us : held.spend_us;
        }
    }
    return held;
}

struct lease_held leases_look(struct leases *leases, const struct table_key *key,
                              struct instant now)
{
    struct lease_held held = {0};
    struct table_set *set = table_lock(&leases->table, key);
    const struct pool *pool = table_find(&leases->table, set, key);
    if (pool != NULL) {
        held = pool_look(pool, now);
    }
    table_unlock(set);
    return held;
}

/* --- all pools --- */

struct leases *leases_new(const struct leases_options *options)
{
    struct leases *leases = calloc(1, sizeof(*leases));
    if (leases == NULL) {
        return NULL;
    }
    if (!table_init(&leases->table, sizeof(struct pool), pool_may_go)) {
        free(leases);
        return NULL;
    }
    leases->options = *options;
    return leases;
}

void leases_free(struct leases *leases)
{
    if (leases != NULL) {
        table_fini(&leases->table);
        free(leases);
    }
}

void leases_read(const struct leases *leases, struct leases_totals *totals)
{
    *totals = (struct leases_totals){
        .n_granted = load(&leases->n_granted),
        .n_spent = load(&leases->n_spent),
        .n_stranded = load(&leases->n_stranded),
        .n_out = load(&leases->n_out),
    };
}

unsigned leases_ttl_ms(const struct leases *leases)
{
    return (unsigned)(leases->options.ttl_us / US_PER_MS);
}
