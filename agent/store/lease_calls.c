#include "agent/store/lease_calls.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/script.h"
#include "agent/store/courier.h"
#include "agent/store/notebook.h"
#include "agent/store/redis.h"

_Static_assert((int)LEASES_REPORTS_MAX == (int)SCRIPT_LEASE_REPORTS_MAX
                   && (int)COURIER_ITEMS_MAX <= (int)SCRIPT_LEASE_KEYS_MAX
                   && (int)COURIER_ARG_BYTES_MAX
                          >= SCRIPT_HOST_BYTES + 4
                                 + (int)COURIER_ITEMS_MAX
                                       * (int)SCRIPT_LEASE_ORDER_BYTES_MAX
                   && (int)COURIER_NUMBERS_MAX
                          >= SCRIPT_LEASE_NUMBERS * (int)COURIER_ITEMS_MAX
                   && (int)LEASE_BLOCK_MIN == (int)SCRIPT_LEASE_LEAST,
               "what is ordered fits into a call");

struct lease_calls {
    struct lease_calls_options options;
    struct courier courier;
    struct seam_timer sweep;
    uint32_t next;                             /* note that the sweep goes on with */
    struct notebook book;                      /* of pools with orders, or watched */
    struct lease_order orders[NOTEBOOK_NOTES]; /* the last of each */
    bool is_leaving[NOTEBOOK_NOTES];           /* returns what it gets */
};

/* Look after its pool then; at 0 no more. */
static void note_watch(struct lease_calls *calls, uint32_t idx, struct instant at)
{
    if (at.us == 0) {
        notebook_put(&calls->book, idx);
    } else {
        calls->book.look_at[idx] = calls->is_leaving[idx]
                                       ? seam_now(calls->options.seam)
                                       : at;
    }
}

static void note_send(struct lease_calls *calls, uint32_t idx)
{
    calls->book.look_at[idx] = (struct instant){0};
    courier_add(&calls->courier, idx, notebook_name(&calls->book, idx));
}

/* --- calls --- */

static struct lease_calls *calls_of(struct courier *courier)
{
    return CONTAINER_OF(courier, struct lease_calls, courier);
}

static void orders_to_script(const struct lease_calls *calls, const uint32_t *items,
                             unsigned n, struct script_lease_order *scripts)
{
    for (unsigned i = 0; i < n; i++) {
        const struct lease_order *order = &calls->orders[items[i]];
        scripts[i] = (struct script_lease_order){
            .limit = notebook_limit(&calls->book, items[i]),
            .want = order->want,
            .cap = order->cap,
            .divisor = order->divisor,
            .new_seq = order->seq,
            .n_reports = order->n_reports,
        };
        for (unsigned r = 0; r < order->n_reports; r++) {
            scripts[i].reports[r].seq = order->reports[r].seq;
            scripts[i].reports[r].spent = order->reports[r].spent;
        }
    }
}

static size_t encode(struct courier *courier, const uint32_t *items, unsigned n,
                     uint8_t *out)
{
    UNCLEARED struct script_lease_order orders[COURIER_ITEMS_MAX];
    const struct lease_calls *calls = calls_of(courier);
    orders_to_script(calls, items, n, orders);
    return script_encode_lease(calls->options.host,
                               leases_ttl_ms(calls->options.leases),
                               seam_now(calls->options.seam), orders, n, out);
}

static void end_order(struct lease_calls *calls, uint32_t item,
                      const struct lease_answer *answer)
{
    note_watch(calls, item,
               leases_end_order(calls->options.leases, &calls->orders[item],
                                notebook_limit(&calls->book, item), answer,
                                seam_now(calls->options.seam),
                                notebook_watcher(calls->options.worker, item)));
}

static bool answer(struct courier *courier, const uint32_t *items, unsigned n,
                   const int64_t *numbers, size_t n_numbers, struct instant sent_at)
{
    UNCLEARED struct script_lease_order orders[COURIER_ITEMS_MAX];
    UNCLEARED struct script_lease_reply replies[COURIER_ITEMS_MAX];
    struct lease_calls *calls = calls_of(courier);
    struct script_repairs repairs = {0};
    orders_to_script(calls, items, n, orders);
    if (script_decode_lease(numbers, n_numbers, orders, n, replies, &repairs)
        != SCRIPT_OK) {
        return false;
    }
    health_add(calls->options.health, HEALTH_REPAIRED,
               repairs.n_values + repairs.n_ttls);
    for (unsigned i = 0; i < n; i++) {
        const struct lease_answer heard = {
            .end = LEASE_ANSWERED,
            .sent_at = sent_at,
            .amount = replies[i].grant,
            .place = replies[i].place,
            .remaining = replies[i].remaining,
            .reset_us = replies[i].reset_us,
            .window_end_us = replies[i].window_end_us,
            .accepted = replies[i].accepted,
        };
        end_order(calls, items[i], &heard);
    }
    return true;
}

static void end(struct courier *courier, uint32_t item, enum courier_end end)
{
    const struct lease_answer none = {
        .end = end == COURIER_NOT_DONE ? LEASE_NOT_DONE : LEASE_UNHEARD,
    };
    end_order(calls_of(courier), item, &none);
}

/* --- spending --- */

static void send(struct lease_calls *calls, const struct store_charge *charge,
                 const struct lease_order *order)
{
    const struct lease_answer none = {.end = LEASE_NOT_DONE};
    uint32_t idx = notebook_take(&calls->book, charge);
    if (idx == NOTEBOOK_NONE) {
        (void)leases_end_order(calls->options.leases, order, charge->limit, &none,
                               seam_now(calls->options.seam), 0);
        return;
    }
    calls->orders[idx] = *order;
    calls->is_leaving[idx] = false;
    note_send(calls, idx);
}

static void spend(struct lease_calls *calls, struct store_take *take, unsigned i,
                  struct lease_spending *spending)
{
    UNCLEARED struct lease_order order;
    struct store_charge *charge = &take->charges[i];
    struct leases *leases = calls->options.leases;
    unsigned n_agents = health_n_agents(calls->options.health);
    if (charge->home == NULL || charge->home->kind != STORE_KIND_LEASE
        || charge->cost == 0 || !leases_cover(leases, charge->limit, n_agents)) {
        return;
    }
    order.key = leases_key(leases, charge);
    spending->keys[i] = order.key;
    if (leases_spend(leases, n_agents, take->now, charge, &spending->seqs[i], &order)) {
        charge->source = STORE_COUNTED;
        spending->mask |= UINT32_C(1) << i;
    }
    if (order.want > 0) {
        send(calls, charge, &order);
    }
}

/* Whether it is tied to one that is not spent. */
static bool is_torn(const struct store_take *take, unsigned i, uint32_t spent)
{
    const struct store_charge *charges = take->charges;
    for (unsigned j = 0; charges[i].tie != 0 && j < take->n_charges; j++) {
        if (charges[j].tie == charges[i].tie && charges[j].home != NULL
            && (spent >> j & 1) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t find_torn(const struct store_take *take, uint32_t spent)
{
    uint32_t torn = 0;
    for (uint32_t left = spent; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        torn |= (uint32_t)is_torn(take, i, spent) << i;
    }
    return torn;
}

void lease_calls_spend(struct lease_calls *calls, struct store_take *take,
                       struct lease_spending *spending)
{
    spending->mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        spend(calls, take, i, spending);
    }
    uint32_t torn = find_torn(take, spending->mask);
    if (torn != 0) {
        uint32_t gone = lease_calls_give_back(calls, take, spending, torn);
        health_add(calls->options.health, HEALTH_GIVE_BACKS_LOST,
                   (uint64_t)__builtin_popcount(gone));
        spending->mask &= ~torn;
    }
}

static bool would_spend(const struct lease_calls *calls,
                        const struct store_charge *charge, struct instant now)
{
    struct leases *leases = calls->options.leases;
    if (charge->home == NULL || charge->home->kind != STORE_KIND_LEASE
        || charge->cost == 0) {
        return false;
    }
    struct table_key key = leases_key(leases, charge);
    return leases_look(leases, &key, now).most >= charge->cost;
}

uint32_t lease_calls_look(const struct lease_calls *calls,
                          const struct store_take *take)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        mask |= (uint32_t)would_spend(calls, &take->charges[i], take->now) << i;
    }
    return mask;
}

uint32_t lease_calls_give_back(struct lease_calls *calls, const struct store_take *take,
                               const struct lease_spending *spending, uint32_t mask)
{
    uint32_t gone = 0;
    for (uint32_t left = mask & spending->mask; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        if (!leases_give_back(calls->options.leases, &spending->keys[i],
                              spending->seqs[i], take->charges[i].cost)) {
            gone |= UINT32_C(1) << i;
        }
    }
    return gone;
}

/* --- looking after pools --- */

static void look_after(struct lease_calls *calls, uint32_t idx)
{
    struct lease_order *order = &calls->orders[idx];
    struct table_key key = order->key;
    struct instant at = leases_retire(calls->options.leases, &key,
                                      calls->is_leaving[idx],
                                      seam_now(calls->options.seam),
                                      notebook_watcher(calls->options.worker, idx),
                                      order);
    if (order->n_reports > 0) {
        note_send(calls, idx);
    } else {
        note_watch(calls, idx, at);
    }
}

/* A few at a time, lest requests wait, and as far as there is room for calls.
 * @return whether all have been seen to */
static bool sweep_step(struct lease_calls *calls, struct instant now)
{
    unsigned n = 0;
    while (calls->next < calls->book.n_used) {
        struct instant at = calls->book.look_at[calls->next];
        bool is_due = at.us != 0 && instant_diff_us(now, at) >= 0;
        if (is_due && (n == LEASE_CALLS_STEP || !courier_has_room(&calls->courier))) {
            return false;
        }
        if (is_due) {
            look_after(calls, calls->next);
            n++;
        }
        calls->next++;
    }
    calls->next = 0;
    return true;
}

static void on_sweep(struct seam_timer *timer)
{
    struct lease_calls *calls = CONTAINER_OF(timer, struct lease_calls, sweep);
    struct instant now = seam_now(calls->options.seam);
    bool is_over = sweep_step(calls, now);
    timer->at = instant_add_us(now,
                               is_over ? LEASE_CALLS_SWEEP_US : LEASE_CALLS_STEP_US);
    seam_timer_set(calls->options.seam, timer);
}

void lease_calls_return(struct lease_calls *calls)
{
    for (uint32_t i = 0; i < calls->book.n_used; i++) {
        calls->is_leaving[i] = true;
        if (calls->book.look_at[i].us == 0) {
            continue;
        }
        if (courier_has_room(&calls->courier)) {
            look_after(calls, i);
        } else { /* soon */
            calls->book.look_at[i] = seam_now(calls->options.seam);
        }
    }
    courier_go(&calls->courier);
    notebook_keep(&calls->book);
}

/* --- all --- */

unsigned lease_calls_n_held(const struct lease_calls *calls)
{
    return calls->book.n_taken;
}

unsigned lease_calls_n_under_way(const struct lease_calls *calls)
{
    return calls->courier.n_under_way;
}

struct lease_calls *lease_calls_new(const struct lease_calls_options *options)
{
    static const struct courier_ops ops = {
        .script = REDIS_SCRIPT_LEASE,
        .limit_us = LEASE_CALLS_LIMIT_US,
        .encode = encode,
        .answer = answer,
        .end = end,
    };
    struct lease_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        return NULL;
    }
    calls->options = *options;
    notebook_init(&calls->book);
    courier_init(&calls->courier, &ops, options->seam, options->health);
    calls->sweep.fire = on_sweep;
    calls->sweep.at = instant_add_us(seam_now(options->seam), LEASE_CALLS_SWEEP_US);
    seam_timer_set(options->seam, &calls->sweep);
    return calls;
}

void lease_calls_free(struct lease_calls *calls)
{
    free(calls);
}
