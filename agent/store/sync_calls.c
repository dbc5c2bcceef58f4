#include "agent/store/sync_calls.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/script.h"
#include "agent/store/courier.h"
#include "agent/store/notebook.h"
#include "agent/store/redis.h"

enum {
    NEEDS = 64 /* as many as a need has bits */
};

_Static_assert((int)COURIER_ITEMS_MAX <= (int)SCRIPT_SYNC_KEYS_MAX
                   && (int)COURIER_ARG_BYTES_MAX
                          >= SCRIPT_HOST_BYTES + 4
                                 + (int)COURIER_ITEMS_MAX * (SCRIPT_LIMIT_BYTES_MAX + 8)
                   && (int)COURIER_NUMBERS_MAX
                          >= 1 + SCRIPT_SYNC_NUMBERS * (int)COURIER_ITEMS_MAX,
               "what is exchanged fits into a call");

/* All pools are weighed, then those that need it most exchanged; both in steps. */
struct round {
    struct seam_timer timer;
    struct instant begun_at;
    bool is_weighed;
    uint32_t next; /* note to see to; at `end`: all have been */
    uint32_t end;
    unsigned n_of[NEEDS + 1]; /* needs of so many bits */
    int64_t oldest_us;        /* since an exchange */
    unsigned bits;    /* exchanged are those whose need has more bits than these, */
    unsigned n;       /* and so many of these */
    unsigned n_early; /* how many others may be before the next round is weighed */
};

struct sync_calls {
    struct sync_calls_options options;
    struct courier courier;
    struct round round;
    struct notebook book; /* of pools that are watched; looked after unless under way */
    bool is_leaving[NOTEBOOK_NOTES];
    struct sync_order orders[NOTEBOOK_NOTES]; /* the last of each */
    uint8_t needs[NOTEBOOK_NOTES]; /* the bits of each in this round; 0: none */
};

static struct sync_calls *calls_of(struct courier *courier)
{
    return CONTAINER_OF(courier, struct sync_calls, courier);
}

static struct instant calls_now(const struct sync_calls *calls)
{
    return seam_now(calls->options.seam);
}

/* --- exchanges --- */

static void orders_to_script(const struct sync_calls *calls, const uint32_t *items,
                             unsigned n, struct script_sync_order *scripts)
{
    for (unsigned i = 0; i < n; i++) {
        scripts[i] = (struct script_sync_order){
            .limit = notebook_limit(&calls->book, items[i]),
            .seq = calls->orders[items[i]].seq,
            .delta = calls->orders[items[i]].delta,
        };
    }
}

static size_t encode(struct courier *courier, const uint32_t *items, unsigned n,
                     uint8_t *out)
{
    UNCLEARED struct script_sync_order orders[COURIER_ITEMS_MAX];
    const struct sync_calls *calls = calls_of(courier);
    orders_to_script(calls, items, n, orders);
    return script_encode_sync(calls->options.host, SCRIPT_KEPT_MS_MAX, calls_now(calls),
                              orders, n, out);
}

/* It goes on with the next round. */
static void note_end(struct sync_calls *calls, uint32_t idx)
{
    calls->book.look_at[idx] = calls_now(calls);
}

static bool answer(struct courier *courier, const uint32_t *items, unsigned n,
                   const int64_t *numbers, size_t n_numbers, struct instant sent_at)
{
    UNCLEARED struct script_sync_order orders[COURIER_ITEMS_MAX];
    UNCLEARED struct script_sync_reply replies[COURIER_ITEMS_MAX];
    struct sync_calls *calls = calls_of(courier);
    struct script_repairs repairs = {0};
    (void)sent_at;
    ENSURE(n > 0);
    orders_to_script(calls, items, n, orders);
    if (script_decode_sync(numbers, n_numbers, orders, n, replies, &repairs)
        != SCRIPT_OK) {
        return false;
    }
    health_add(calls->options.health, HEALTH_REPAIRED,
               repairs.n_values + repairs.n_ttls);
    for (unsigned i = 0; i < n; i++) {
        struct sync_news news = {replies[i].state, replies[i].now};
        syncs_end(calls->options.syncs, &calls->orders[items[i]],
                  notebook_limit(&calls->book, items[i]), &news, calls_now(calls));
        note_end(calls, items[i]);
    }
    return true;
}

static void end(struct courier *courier, uint32_t item, enum courier_end end)
{
    (void)end; /* under its number it is charged once, however often it is sent */
    note_end(calls_of(courier), item);
}

static void exchange(struct sync_calls *calls, uint32_t idx)
{
    struct table_key key = calls->orders[idx].key;
    if (!syncs_begin(calls->options.syncs, &key,
                     notebook_watcher(calls->options.worker, idx),
                     calls->is_leaving[idx], calls_now(calls), &calls->orders[idx])) {
        notebook_put(&calls->book, idx);
        return;
    }
    calls->book.look_at[idx] = (struct instant){0};
    courier_add(&calls->courier, idx, notebook_name(&calls->book, idx));
}

/* --- rounds --- */

static unsigned bits_of(uint64_t need)
{
    return need == 0 ? 0 : 64 - (unsigned)__builtin_clzll(need);
}

static void round_fit(struct round *round)
{
    round->bits = NEEDS;
    round->n = SYNC_CALLS_ROUND;
    while (round->bits > 0 && round->n_of[round->bits] <= round->n) {
        round->n -= round->n_of[round->bits--];
    }
    round->n_early = round->bits == 0 ? round->n : 0;
}

static void round_begin(struct sync_calls *calls)
{
    struct round *round = &calls->round;
    memset(round->n_of, 0, sizeof(round->n_of));
    round->oldest_us = 0;
    round->is_weighed = false;
    round->next = 0;
    round->end = calls->book.n_used;
    round->begun_at = calls_now(calls);
}

/* Look at one, unless it is under way. */
static void weigh(struct sync_calls *calls, uint32_t idx)
{
    struct round *round = &calls->round;
    int64_t age_us = 0;
    calls->needs[idx] = 0;
    if (calls->book.look_at[idx].us != 0) {
        uint64_t need = syncs_need(calls->options.syncs, &calls->orders[idx].key,
                                   notebook_watcher(calls->options.worker, idx),
                                   calls_now(calls), &age_us);
        calls->needs[idx] = (uint8_t)bits_of(need);
        round->oldest_us = need > 0 && age_us > round->oldest_us ? age_us
                                                                 : round->oldest_us;
    }
    round->n_of[calls->needs[idx]]++;
}

/* A few at a time, lest requests wait. */
static void round_weigh(struct sync_calls *calls)
{
    struct round *round = &calls->round;
    for (unsigned n = 0; n < SYNC_CALLS_WEIGHED && round->next < round->end; n++) {
        weigh(calls, round->next++);
    }
    if (round->next == round->end) {
        syncs_set_age(calls->options.syncs, calls->options.worker, round->oldest_us);
        round_fit(round);
        round->is_weighed = true;
        round->next = 0;
    }
}

/* Whether the round has room for a note. */
static bool round_takes(struct round *round, unsigned bits)
{
    bool is_last = bits > 0 && bits == round->bits && round->n > 0;
    round->n -= is_last;
    return bits > round->bits || is_last;
}

/* A few at a time, so that they neither crowd Redis nor want more calls than there are. */
static void round_step(struct sync_calls *calls)
{
    struct round *round = &calls->round;
    unsigned n = 0;
    while (round->next < round->end) {
        uint32_t i = round->next;
        if (n == SYNC_CALLS_STEP || !courier_has_room(&calls->courier)) {
            break;
        }
        if (calls->book.look_at[i].us != 0 && round_takes(round, calls->needs[i])) {
            exchange(calls, i);
            n++;
        }
        round->next++;
    }
    courier_go(&calls->courier);
}

static void on_round(struct seam_timer *timer)
{
    struct round *round = CONTAINER_OF(timer, struct round, timer);
    struct sync_calls *calls = CONTAINER_OF(round, struct sync_calls, round);
    if (round->next == round->end && round->is_weighed) {
        round_begin(calls);
    }
    if (!round->is_weighed) {
        round_weigh(calls);
    }
    if (round->is_weighed) {
        round_step(calls);
    }
    timer->at = round->next < round->end
                    ? instant_add_us(calls_now(calls), SYNC_CALLS_STEP_US)
                    : instant_add_us(round->begun_at,
                                     syncs_interval_us(calls->options.syncs));
    seam_timer_set(calls->options.seam, timer);
}

void sync_calls_leave(struct sync_calls *calls)
{
    for (uint32_t i = 0; i < calls->book.n_used; i++) {
        calls->is_leaving[i] = true;
        if (calls->book.look_at[i].us != 0 && courier_has_room(&calls->courier)) {
            exchange(calls, i);
        }
    }
    courier_go(&calls->courier);
    notebook_keep(&calls->book);
}

/* --- charges --- */

static void watch(struct sync_calls *calls, const struct table_key *key,
                  const struct store_charge *charge)
{
    struct instant now = calls_now(calls);
    uint32_t idx = notebook_take(&calls->book, charge);
    if (idx == NOTEBOOK_NONE) {
        return;
    }
    if (!syncs_watch(calls->options.syncs, key,
                     notebook_watcher(calls->options.worker, idx), now)) {
        notebook_put(&calls->book, idx);
        return;
    }
    calls->orders[idx] = (struct sync_order){.key = *key};
    calls->is_leaving[idx] = false;
    calls->book.look_at[idx] = now;
}

/* Where that is a note of this worker's, and rounds leave room. */
static void exchange_early(struct sync_calls *calls, uint32_t watcher)
{
    uint32_t idx = notebook_watched(calls->options.worker, watcher);
    if (idx != NOTEBOOK_NONE && calls->book.look_at[idx].us != 0
        && calls->round.n_early > 0) {
        calls->round.n_early--;
        exchange(calls, idx);
    }
}

static enum sync_verdict charge_one(struct sync_calls *calls, struct store_take *take,
                                    unsigned i)
{
    struct store_charge *charge = &take->charges[i];
    struct syncs *syncs = calls->options.syncs;
    struct table_key key = syncs_key(syncs, charge);
    struct sync_errand errand;
    const struct sync_caller caller = {
        .now = take->now,
        .n_agents = health_n_agents(calls->options.health),
        .can_watch = notebook_has_room(&calls->book),
    };
    enum sync_verdict verdict = syncs_charge(syncs, &key, &caller, charge, &errand);
    charge->source = STORE_COUNTED;
    if (errand.is_alone) {
        watch(calls, &key, charge);
    }
    if (errand.exchanger != 0) {
        exchange_early(calls, errand.exchanger);
    }
    return verdict;
}

/* Those of some charges that are tied to one. */
static uint32_t tied_to(const struct store_take *take, unsigned i, uint32_t among)
{
    uint32_t tied = 0;
    for (; take->charges[i].tie != 0 && among != 0; among &= among - 1) {
        unsigned j = (unsigned)__builtin_ctz(among);
        tied |= (uint32_t)(take->charges[j].tie == take->charges[i].tie) << j;
    }
    return tied;
}

/* Those that are tied to one of others. */
static uint32_t tied_to_any(const struct store_take *take, uint32_t others,
                            uint32_t among)
{
    uint32_t tied = 0;
    for (; others != 0; others &= others - 1) {
        tied |= tied_to(take, (unsigned)__builtin_ctz(others), among);
    }
    return tied;
}

bool sync_calls_charge(struct sync_calls *calls, struct store_take *take,
                       uint32_t *charged, uint32_t *unknown, uint32_t *unheld)
{
    uint32_t refused = 0;
    bool is_allowed = true;
    *charged = 0;
    *unknown = 0;
    *unheld = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        uint32_t bit = UINT32_C(1) << i;
        if (charge->home == NULL || charge->home->kind != STORE_KIND_SYNC) {
            continue;
        }
        switch (charge_one(calls, take, i)) {
        case SYNC_ALLOWED:
            *charged |= bit;
            break;
        case SYNC_REFUSED:
            refused |= bit;
            is_allowed = is_allowed && charge->is_lenient;
            break;
        case SYNC_UNKNOWN:
            *unknown |= bit;
            break;
        case SYNC_UNHELD:
            *unheld |= bit;
            break;
        }
    }
    uint32_t asked = tied_to_any(take, *unheld, *charged | *unknown | refused);
    uint32_t torn = *charged & (asked | tied_to_any(take, refused, *charged));
    sync_calls_give_back(calls, take, torn);
    *charged &= ~torn;
    *unknown &= ~asked;
    *unheld |= asked;
    return is_allowed;
}

void sync_calls_give_back(struct sync_calls *calls, struct store_take *take,
                          uint32_t charged)
{
    for (; charged != 0; charged &= charged - 1) {
        struct store_charge *charge = &take->charges[__builtin_ctz(charged)];
        struct table_key key = syncs_key(calls->options.syncs, charge);
        syncs_give_back(calls->options.syncs, &key, charge, take->now);
        store_forget_charge(charge);
    }
}

/* --- all --- */

unsigned sync_calls_n_held(const struct sync_calls *calls)
{
    return calls->book.n_taken;
}

unsigned sync_calls_n_under_way(const struct sync_calls *calls)
{
    return calls->courier.n_under_way;
}

struct sync_calls *sync_calls_new(const struct sync_calls_options *options)
{
    static const struct courier_ops ops = {
        .script = REDIS_SCRIPT_SYNC,
        .limit_us = SYNC_CALLS_LIMIT_US,
        .encode = encode,
        .answer = answer,
        .end = end,
    };
    struct sync_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        return NULL;
    }
    calls->options = *options;
    notebook_init(&calls->book);
    courier_init(&calls->courier, &ops, options->seam, options->health);
    calls->round.n_early = SYNC_CALLS_ROUND;
    calls->round.is_weighed = true;
    calls->round.timer.fire = on_round;
    calls->round.timer.at = instant_add_us(seam_now(options->seam),
                                           syncs_interval_us(options->syncs));
    seam_timer_set(options->seam, &calls->round.timer);
    return calls;
}

void sync_calls_free(struct sync_calls *calls)
{
    free(calls);
}
