#include "agent/store/redis.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/script.h"
#include "agent/store/lease_calls.h"
#include "agent/store/probe.h"
#include "agent/store/shards.h"
#include "agent/store/sync_calls.h"

struct context;

/** The charges of a take that are in one slot. */
struct call {
    struct seam_call seam;
    struct context *context;
    unsigned slot;
    unsigned first; /* of its charges, in the context's order */
    unsigned n;
    bool is_waited_for;
    enum store_failure failure; /* if any: policies decide; an answer may come yet */
    bool has_answer;
    bool is_allowed; /* its answer */
    bool is_second;  /* other shards were tried before */
    struct seam_bytes arg;
};

/** What a charge leaves behind when its take is over. */
struct trace {
    unsigned at; /* in the take */
    uint32_t count_idx;
    bool is_lenient;
    bool is_shadow;
    bool is_charged;
    bool is_allowed;
    struct limit limit; /* without its calendar, which is the set's */
    int64_t cost;
    int64_t place;
};

/** What is answered before Redis is asked, and what is left to ask. */
struct ahead {
    uint32_t asked;  /* bit i: charge i is asked about */
    uint32_t synced; /* charged to pools that are exchanged */
    uint32_t cut;    /* of such pools that are cut off: policies decide */
    struct lease_spending spending;
};

/** A take with calls under way, or a settlement. */
struct context {
    struct redis_store *store;
    struct store_take *take;   /* NULL: it is over */
    struct counters *counters; /* NULL: gone */
    struct instant began_at;
    bool is_peek;

    struct ahead ahead;
    struct sharding sharding;
    bool is_refused;    /* the take, when it was over */
    unsigned n_waiting; /* calls that the take waits for */
    unsigned n_open;    /* calls with the seam */
    unsigned n_calls;
    struct context *next; /* of those that are free */
    struct call calls[STORE_CHARGES_MAX];
    struct trace traces[STORE_CHARGES_MAX]; /* by call */
    struct seam_bytes names[STORE_CHARGES_MAX];
    uint8_t args[STORE_CHARGES_MAX * (SCRIPT_CHARGE_BYTES_MAX + 1)];
    uint8_t settle_args[STORE_CHARGES_MAX * SCRIPT_SETTLEMENT_BYTES_MAX];
    size_t n_kept;
    uint8_t kept[STORE_CHARGES_MAX * STORE_KEY_BYTES_MAX]; /* names and keys */
};

struct redis_store {
    struct store store;
    struct store *local;
    struct seam *seam;
    struct health *health;
    bool is_finishing;
    struct lease_calls *leases; /* NULL: charges of that kind are asked about */
    struct sync_calls *syncs;   /* likewise */
    struct refusals *refusals;
    struct hot *hot; /* or NULL */
    struct prober prober;
    unsigned n_under_way;
    unsigned n_used; /* of contexts, ever */
    struct context *free;
    struct context contexts[REDIS_TAKES_MAX];
};

static struct redis_store *to_redis(struct store *store)
{
    return CONTAINER_OF(store, struct redis_store, store);
}

static uint32_t draw(struct redis_store *redis)
{
    return (uint32_t)seam_random(redis->seam);
}

/* --- contexts --- */

/* Nothing of it is cleared that is not read: it is large. */
static struct context *context_take(struct redis_store *redis,
                                    struct counters *counters)
{
    struct context *context = redis->free;
    if (context != NULL) {
        redis->free = context->next;
    } else if (redis->n_used < REDIS_TAKES_MAX) {
        context = &redis->contexts[redis->n_used++];
    } else {
        return NULL;
    }
    redis->n_under_way++;
    health_begin(redis->health);
    context->store = redis;
    context->counters = counters;
    context->take = NULL;
    context->is_peek = false;
    context->is_refused = false;
    context->n_waiting = 0;
    context->n_open = 0;
    context->n_calls = 0;
    context->n_kept = 0;
    return context;
}

static void context_put_if_over(struct context *context)
{
    struct redis_store *redis = context->store;
    if (context->take == NULL && context->n_open == 0) {
        context->next = redis->free;
        redis->free = context;
        redis->n_under_way--;
        health_end(redis->health);
    }
}

/* Keep bytes that go when the take was begun. @return where they stand */
static uint8_t *context_keep(struct context *context, const void *bytes, size_t n)
{
    ENSURE(n <= sizeof(context->kept) - context->n_kept);
    uint8_t *to = context->kept + context->n_kept;
    memcpy(to, bytes, n);
    context->n_kept += n;
    return to;
}

/* --- the local store, at once --- */

static void ignore_done(struct store_take *take)
{
    (void)take;
}

static void sub_begin(struct store_take *sub, const struct store_take *take)
{
    sub->now = take->now;
    sub->deadline = take->deadline;
    sub->is_peek = take->is_peek;
    sub->counters = take->counters;
    sub->done = ignore_done;
    sub->n_charges = 0;
}

static void sub_answer(const struct store_take *sub, unsigned i,
                       struct store_take *take, unsigned at)
{
    struct store_charge *charge = &take->charges[at];
    charge->is_charged = sub->charges[i].is_charged;
    charge->place = sub->charges[i].place;
    charge->answer = sub->charges[i].answer;
    if (take->is_peek) {
        take->held[at] = sub->held[i];
    }
}

/* Take the charges without a home. @return whether they are allowed */
static bool take_local(struct redis_store *redis, struct store_take *take)
{
    UNCLEARED struct store_take sub;
    unsigned at[STORE_CHARGES_MAX];
    sub_begin(&sub, take);
    for (unsigned i = 0; i < take->n_charges; i++) {
        if (take->charges[i].home == NULL) {
            at[sub.n_charges] = i;
            sub.charges[sub.n_charges++] = take->charges[i];
        }
    }
    if (sub.n_charges == 0) {
        return true;
    }
    store_take(redis->local, &sub);
    for (unsigned i = 0; i < sub.n_charges; i++) {
        sub_answer(&sub, i, take, at[i]);
    }
    return sub.is_allowed;
}

/* --- policies --- */

static void pass(struct store_take *take, unsigned i, enum store_source source)
{
    struct store_charge *charge = &take->charges[i];
    charge->source = source;
    charge->is_charged = false;
    charge->answer = (struct limit_answer){
        .is_allowed = true,
        .remaining = charge->limit->size,
    };
    take->held[i] = charge->answer;
}

/* 1 to 3 s: Redis may be back by then. */
static void refuse(struct redis_store *redis, struct store_take *take, unsigned i)
{
    struct store_charge *charge = &take->charges[i];
    charge->source = STORE_CLOSED;
    charge->is_charged = false;
    charge->answer = (struct limit_answer){
        .retry_us = US_PER_S + draw(redis) % (2 * US_PER_S),
    };
    take->held[i] = charge->answer;
}

/* Charge this host's share. @return whether it allows */
static bool take_share(struct redis_store *redis, struct store_take *take,
                       uint32_t mask)
{
    UNCLEARED struct store_take sub;
    UNCLEARED struct limit limits[STORE_CHARGES_MAX];
    UNCLEARED char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    unsigned at[STORE_CHARGES_MAX];
    unsigned n_agents = health_n_agents(redis->health);
    sub_begin(&sub, take);
    for (; mask != 0; mask &= mask - 1) {
        unsigned i = (unsigned)__builtin_ctz(mask);
        unsigned n = sub.n_charges++;
        const struct store_home *home = take->charges[i].home;
        at[n] = i;
        fallback_limit(&home->fallback, n_agents, home->share, &limits[n]);
        sub.charges[n] = take->charges[i];
        sub.charges[n].limit = &limits[n];
        sub.charges[n].limit_id = home->fallback_id;
        sub.charges[n].home = NULL;
        if (home->n_shards > 1) { /* the host's share is of the whole */
            sub.charges[n].key = (const uint8_t *)names[n];
            sub.charges[n].key_bytes = shards_strip((const char *)take->charges[i].key,
                                                    take->charges[i].key_bytes,
                                                    names[n]);
        }
    }
    store_take(redis->local, &sub);
    for (unsigned i = 0; i < sub.n_charges; i++) {
        sub_answer(&sub, i, take, at[i]);
        take->charges[at[i]].source = STORE_FALLBACK;
    }
    return sub.is_allowed;
}

static void pass_unasked(struct store_take *take, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        pass(take, (unsigned)__builtin_ctz(mask), STORE_UNASKED);
    }
}

/* Charges that nobody answered, by the policies of their rules; those that may refuse
 * without being asked first. @return whether the request is allowed as far as they go */
static bool apply_policies(struct redis_store *redis, struct store_take *take,
                           uint32_t mask)
{
    uint32_t shares = 0;
    bool is_allowed = true;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        const struct store_charge *charge = &take->charges[i];
        switch (charge->home->policy) {
        case STORE_POLICY_LOCAL:
            shares |= UINT32_C(1) << i;
            break;
        case STORE_POLICY_OPEN:
            pass(take, i, STORE_OPEN);
            health_add(redis->health, HEALTH_POLICY_OPEN, 1);
            break;
        case STORE_POLICY_CLOSED:
            if (charge->is_lenient) {
                pass(take, i, STORE_OPEN);
                health_add(redis->health, HEALTH_POLICY_OPEN, 1);
                break;
            }
            refuse(redis, take, i);
            health_add(redis->health, HEALTH_POLICY_CLOSED, 1);
            is_allowed = false;
            break;
        }
    }
    if (shares != 0 && is_allowed) {
        health_add(redis->health, HEALTH_POLICY_LOCAL,
                   (uint64_t)__builtin_popcount(shares));
        return take_share(redis, take, shares);
    }
    pass_unasked(take, shares);
    return is_allowed;
}

/* --- replies --- */

/* Fill a take from the reply to it. @return false: it is none */
static bool read_take(const struct seam_reply *reply, struct store_take *take,
                      struct script_repairs *repairs)
{
    UNCLEARED int64_t numbers[SCRIPT_REPLY_NUMBERS_MAX];
    size_t n = 0;
    return seam_read_numbers(reply, numbers, SCRIPT_REPLY_NUMBERS_MAX, &n)
           && script_decode_take(numbers, n, take, repairs) == SCRIPT_OK;
}

/* --- giving back --- */

/* Settle it to nothing. */
static void settle_charge(struct store *store, const struct store_take *take,
                          const struct store_charge *charge)
{
    struct store_settlement settlement = {
        .limit = charge->limit,
        .limit_id = charge->limit_id,
        .key = charge->key,
        .key_bytes = charge->key_bytes,
        .home = charge->home,
        .name = (const char *)charge->key,
        .name_bytes = charge->key_bytes,
        .correction = {charge->place, charge->cost, 0},
        .now = take->now,
        .counters = take->counters,
    };
    store_settle(store, &settlement);
}

/* The same where it was only asked whether it would be charged. */
static void forget_peeked(struct store_take *take)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct limit_answer *answer = &take->charges[i].answer;
        if (answer->is_allowed && take->charges[i].source == STORE_COUNTED) {
            answer->remaining = take->held[i].remaining;
            answer->reset_us = take->held[i].reset_us;
        }
    }
}

static void give_back_local(struct redis_store *redis, struct store_take *take)
{
    if (take->is_peek) {
        forget_peeked(take);
    }
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        if (charge->home != NULL || !charge->is_charged) {
            continue;
        }
        settle_charge(redis->local, take, charge);
        store_forget_charge(charge);
    }
}

static void call_end(struct call *call)
{
    call->context->n_open--;
    context_put_if_over(call->context);
}

static void on_given_back_late(struct seam_call *seam, const struct seam_reply *reply)
{
    (void)reply;
    call_end(CONTAINER_OF(seam, struct call, seam));
}

/* The end of a call that settles. @return whether it came to pass */
static bool read_settled(struct call *call, const struct seam_reply *reply,
                         unsigned *n_changed)
{
    int64_t numbers[STORE_CHARGES_MAX];
    struct redis_store *redis = call->context->store;
    struct script_repairs repairs = {0};
    size_t n = 0;
    if (call->seam.outcome == SEAM_OK
        && (!seam_read_numbers(reply, numbers, STORE_CHARGES_MAX, &n)
            || script_decode_settlements(numbers, n, call->seam.n_keys, n_changed,
                                         &repairs)
                   != SCRIPT_OK)) {
        seam_reject(redis->seam, &call->seam);
    }
    health_add(redis->health, HEALTH_REPAIRED, repairs.n_values + repairs.n_ttls);
    health_report(redis->health, &call->seam, seam_now(redis->seam));
    return call->seam.outcome == SEAM_OK;
}

static void on_given_back(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    unsigned n_changed = 0;
    bool is_good = read_settled(call, reply, &n_changed);
    health_add(call->context->store->health,
               is_good ? HEALTH_GIVEN_BACK : HEALTH_GIVE_BACKS_LOST, seam->n_keys);
    if (seam->outcome != SEAM_TIMEOUT) { /* that ends later */
        call_end(call);
    }
}

/* Begin to settle the first `n` charges of a call, whose argument is written. */
static void call_settle(struct call *call, unsigned n, size_t arg_bytes,
                        seam_call_fn *done)
{
    struct context *context = call->context;
    struct seam *seam = context->store->seam;
    call->arg = (struct seam_bytes){
        .ptr = context->settle_args + call->first * SCRIPT_SETTLEMENT_BYTES_MAX,
        .len = arg_bytes,
    };
    call->seam = (struct seam_call){
        .script = REDIS_SCRIPT_SETTLE,
        .keys = &context->names[call->first],
        .n_keys = n,
        .args = &call->arg,
        .n_args = 1,
        .deadline = instant_add_us(seam_now(seam), REDIS_SETTLE_US),
        .done = done,
        .late = on_given_back_late,
    };
    context->n_open++;
    seam_run(seam, &call->seam);
}

/* Give back what a call charged. Nobody waits for it. */
static void give_back(struct call *call)
{
    struct context *context = call->context;
    uint8_t *arg = context->settle_args + call->first * SCRIPT_SETTLEMENT_BYTES_MAX;
    size_t arg_bytes = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < call->n; i++) {
        const struct trace *trace = &context->traces[call->first + i];
        if (trace->is_charged) {
            context->names[call->first + n++] = context->names[call->first + i];
            arg_bytes += script_encode_giving_back(call->arg.ptr, i, trace->place,
                                                   trace->cost, arg + arg_bytes);
        }
    }
    if (n > 0) {
        call_settle(call, n, arg_bytes, on_given_back);
    }
}

/* --- answers --- */

/* A take of the charges of one call, as far as its answer needs it. */
static void sub_of_call(const struct call *call, struct store_take *sub)
{
    const struct trace *traces = &call->context->traces[call->first];
    sub->is_peek = call->context->is_peek;
    sub->n_charges = call->n;
    for (unsigned i = 0; i < call->n; i++) {
        sub->charges[i].limit = &traces[i].limit;
        sub->charges[i].cost = traces[i].cost;
        sub->charges[i].is_lenient = traces[i].is_lenient;
    }
}

/* Of the rules in force, and those of whom it refuses anybody. */
static void remember_refusal(const struct context *context, struct store_charge *charge,
                             struct seam_bytes name)
{
    struct redis_store *redis = context->store;
    if (!charge->answer.is_allowed && !charge->is_lenient && !context->is_peek
        && context->counters != NULL) {
        charge->name = name.ptr;
        charge->name_bytes = name.len;
        refusals_remember(redis->refusals, charge, context->began_at,
                          seam_now(redis->seam));
    }
}

/* Read an answer; into the take, too, while that goes on. @return false: it is none */
static bool read_answer(struct call *call, const struct seam_reply *reply)
{
    UNCLEARED struct store_take sub;
    struct context *context = call->context;
    struct script_repairs repairs = {0};
    sub_of_call(call, &sub);
    if (!read_take(reply, &sub, &repairs)) {
        seam_reject(context->store->seam, &call->seam);
        return false;
    }
    health_add(context->store->health, HEALTH_REPAIRED,
               repairs.n_values + repairs.n_ttls);
    for (unsigned i = 0; i < call->n; i++) {
        struct trace *trace = &context->traces[call->first + i];
        trace->is_allowed = sub.charges[i].answer.is_allowed;
        trace->is_charged = sub.charges[i].is_charged;
        trace->place = sub.charges[i].place;
        remember_refusal(context, &sub.charges[i], context->names[call->first + i]);
        if (context->take != NULL && call->failure == STORE_NO_FAILURE) {
            sub_answer(&sub, i, context->take, trace->at);
        }
    }
    call->is_allowed = sub.is_allowed;
    return true;
}

static uint32_t charges_of(const struct call *call)
{
    uint32_t mask = 0;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        mask |= UINT32_C(1) << call->context->traces[i].at;
    }
    return mask;
}

/* Where a lease has been reported meanwhile, Redis knows of the charge. */
static void give_back_spent(struct redis_store *redis, struct store_take *take,
                            const struct lease_spending *spending)
{
    uint32_t mask = spending->mask;
    uint32_t gone = mask != 0
                        ? lease_calls_give_back(redis->leases, take, spending, mask)
                        : 0;
    for (; mask != 0; mask &= mask - 1) {
        unsigned i = (unsigned)__builtin_ctz(mask);
        struct store_charge *charge = &take->charges[i];
        if ((gone >> i & 1) != 0) {
            settle_charge(&redis->store, take, charge);
        }
        store_forget_charge(charge);
    }
}

static void give_back_ahead(struct redis_store *redis, struct store_take *take,
                            const struct ahead *ahead)
{
    give_back_local(redis, take);
    give_back_spent(redis, take, &ahead->spending);
    if (ahead->synced != 0) {
        sync_calls_give_back(redis->syncs, take, ahead->synced);
    }
}

/* Nothing is charged for it, wherever it was. */
static void undo(struct context *context)
{
    struct store_take *take = context->take;
    give_back_ahead(context->store, take, &context->ahead);
    for (unsigned i = 0; i < context->n_calls; i++) {
        struct call *call = &context->calls[i];
        for (uint32_t left = charges_of(call); left != 0; left &= left - 1) {
            struct store_charge *charge = &take->charges[__builtin_ctz(left)];
            if (charge->is_charged) {
                store_forget_charge(charge);
            }
        }
        if (call->has_answer) {
            give_back(call);
        }
    }
}

/* Why policies decide: the gravest reason of what is waited for, else of the rest. */
static enum store_failure find_failure(const struct context *context)
{
    enum store_failure gravest[2] = {STORE_NO_FAILURE, STORE_NO_FAILURE};
    for (unsigned i = 0; i < context->n_calls; i++) {
        const struct call *call = &context->calls[i];
        enum store_failure *so_far = &gravest[call->is_waited_for];
        if (*so_far == STORE_NO_FAILURE
            || (call->failure != STORE_NO_FAILURE && call->failure < *so_far)) {
            *so_far = call->failure;
        }
    }
    return gravest[1] != STORE_NO_FAILURE ? gravest[1] : gravest[0];
}

/* All that the take waits for is there, or given up. */
static void conclude(struct context *context)
{
    struct store_take *take = context->take;
    uint32_t unanswered = context->ahead.cut;
    bool is_allowed = true;
    for (unsigned i = 0; i < context->n_calls; i++) {
        const struct call *call = &context->calls[i];
        if (call->failure != STORE_NO_FAILURE) {
            unanswered |= charges_of(call);
        } else if (call->has_answer) {
            is_allowed = is_allowed && call->is_allowed;
        } else {
            pass_unasked(take,
                         charges_of(call)); /* shadows, whose answers come later */
        }
    }
    if (is_allowed) {
        take->failure = context->ahead.cut != 0 ? STORE_DOWN : find_failure(context);
        is_allowed = apply_policies(context->store, take, unanswered);
    } else {
        pass_unasked(take, unanswered);
    }
    take->is_allowed = is_allowed;
    context->is_refused = !is_allowed;
    if (!is_allowed) {
        undo(context);
    }
    shards_restore(&context->sharding, take);
    context->take = NULL;
    take->done(take);
}

/* A take that is over is told nothing more, but its rules' shadows are counted. */
static void count_afterwards(const struct call *call)
{
    const struct context *context = call->context;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        const struct trace *trace = &context->traces[i];
        if (trace->is_shadow && context->counters != NULL && !context->is_peek) {
            bool is_charged = trace->is_charged && !context->is_refused;
            counter_outcome(context->counters, trace->count_idx,
                            is_charged          ? OUTCOME_CHARGED
                            : trace->is_allowed ? OUTCOME_PASSED
                                                : OUTCOME_WOULD_REFUSE);
        }
    }
}

static void on_late_answer(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    struct context *context = call->context;
    health_add(context->store->health, HEALTH_LATE, reply != NULL);
    call->has_answer = reply != NULL && read_answer(call, reply);
    /* A take that still waits for others sees to it when it is over. */
    if (call->has_answer && context->take == NULL && context->is_refused) {
        give_back(call);
    }
    call_end(call);
}

static enum store_failure failure_of(enum seam_outcome outcome)
{
    switch (outcome) {
    case SEAM_TIMEOUT:
        return STORE_DEADLINE;
    case SEAM_FULL:
        return STORE_SLOW;
    case SEAM_DOWN:
    case SEAM_LOST:
    case SEAM_ERROR:
        return STORE_DOWN;
    case SEAM_OK:
        break;
    }
    NEVER("outcome");
}

/* --- another shard --- */

static void run_call(struct call *call);

/* Of the charges of a refused call those that another shard may have room for; 0: one is
 * refused for good, so that there is no use. */
static uint32_t find_refused_shards(const struct call *call)
{
    const struct context *context = call->context;
    uint32_t mask = 0;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        const struct trace *trace = &context->traces[i];
        if (trace->is_allowed || trace->is_lenient) {
            continue;
        }
        if ((context->sharding.mask >> trace->at & 1) == 0) {
            return 0;
        }
        mask |= UINT32_C(1) << trace->at;
    }
    return mask;
}

static void move_shard(struct context *context, unsigned i, unsigned by)
{
    UNCLEARED char name[STORE_NAME_BYTES_MAX];
    struct store_charge *charge = &context->take->charges[i];
    unsigned n_shards = charge->home->n_shards;
    unsigned shard = (context->sharding.shards[i] + by) % n_shards;
    size_t n = shards_name((const char *)charge->key, charge->key_bytes, shard, name);
    ENSURE(n == charge->key_bytes);
    memcpy(context->kept + (charge->key - context->kept), name, n);
    shards_set(&context->sharding, context->take, i, shard);
}

/* Whether the charges of a call are still in one slot; then it is the call's. */
static bool call_has_slot(struct call *call)
{
    const struct context *context = call->context;
    struct seam *seam = context->store->seam; /* names are the same bytes, moved */
    unsigned slot = seam_slot(seam, context->names[call->first]);
    for (unsigned i = 1; i < call->n; i++) {
        if (seam_slot(seam, context->names[call->first + i]) != slot) {
            return false;
        }
    }
    call->slot = slot;
    return true;
}

static bool is_passed(const struct call *call)
{
    struct redis_store *redis = call->context->store;
    return health_passes(redis->health, seam_node(redis->seam, call->slot),
                         seam_now(redis->seam), draw(redis));
}

static bool has_time_again(const struct call *call)
{
    const struct context *context = call->context;
    struct instant back = instant_add_us(seam_now(context->store->seam),
                                         call->seam.round_trip_us + REDIS_RESERVE_US);
    return instant_diff_us(context->take->deadline, back) > 0;
}

/* Where shards refused, try once more, with others. @return whether it is under way */
static bool try_others(struct call *call)
{
    struct context *context = call->context;
    struct redis_store *redis = context->store;
    if (!call->has_answer || call->is_allowed || call->is_second
        || context->take == NULL || context->is_peek
        || call->failure != STORE_NO_FAILURE) {
        return false;
    }
    uint32_t refused = find_refused_shards(call);
    if (refused == 0 || !has_time_again(call)) {
        return false;
    }
    for (uint32_t left = refused; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        unsigned n_others = context->take->charges[i].home->n_shards - 1;
        move_shard(context, i, 1 + draw(redis) % n_others);
    }
    if (!call_has_slot(call) || !is_passed(call)) {
        return false;
    }
    call->is_second = true;
    call->has_answer = false;
    run_call(call);
    return true;
}

static void on_answer(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    struct context *context = call->context;
    struct redis_store *redis = context->store;
    call->has_answer = seam->outcome == SEAM_OK && read_answer(call, reply);
    health_report(redis->health, seam, seam_now(redis->seam));
    if (!call->has_answer) {
        call->failure = failure_of(seam->outcome);
    }
    if (try_others(call)) {
        call_end(call); /* the first one */
        return;
    }
    if (context->take == NULL) { /* a shadow's */
        if (call->has_answer) {
            count_afterwards(call);
        }
        if (call->has_answer && context->is_refused) {
            give_back(call);
        }
    }
    if (call->is_waited_for && --context->n_waiting == 0) {
        conclude(context);
    }
    if (seam->outcome != SEAM_TIMEOUT) {
        call_end(call);
    }
}

/* --- asking --- */

static struct call *call_of_slot(struct context *context, unsigned slot)
{
    for (unsigned i = 0; i < context->n_calls; i++) {
        if (context->calls[i].slot == slot) {
            return &context->calls[i];
        }
    }
    struct call *call = &context->calls[context->n_calls++];
    call->context = context;
    call->slot = slot;
    call->n = 0;
    call->is_waited_for = false;
    call->failure = STORE_NO_FAILURE;
    call->has_answer = false;
    call->is_second = false;
    return call;
}

/* Which charge belongs to which call; their order is that of the calls. */
static void plan_calls(struct context *context)
{
    const struct store_take *take = context->take;
    struct call *calls[STORE_CHARGES_MAX] = {NULL};
    unsigned n_traces = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        if ((context->ahead.asked >> i & 1) != 0) {
            struct seam_bytes name = {.ptr = charge->key, .len = charge->key_bytes};
            calls[i] = call_of_slot(context, seam_slot(context->store->seam, name));
            calls[i]->is_waited_for = calls[i]->is_waited_for || !charge->is_shadow;
        }
    }
    for (unsigned c = 0; c < context->n_calls; c++) {
        struct call *call = &context->calls[c];
        call->first = n_traces;
        for (unsigned i = 0; i < take->n_charges; i++) {
            if (calls[i] == call) {
                context->traces[n_traces++].at = i;
                call->n++;
            }
        }
        context->n_waiting += call->is_waited_for;
    }
}

static void trace_charge(struct context *context, unsigned idx)
{
    struct trace *trace = &context->traces[idx];
    const struct store_charge *charge = &context->take->charges[trace->at];
    trace->count_idx = charge->count_idx;
    trace->is_lenient = charge->is_lenient;
    trace->is_shadow = charge->is_shadow;
    trace->is_charged = false;
    trace->cost = charge->cost;
    trace->limit = *charge->limit;
    trace->limit.calendar = NULL;
    context->names[idx] = (struct seam_bytes){.ptr = charge->key,
                                              .len = charge->key_bytes};
}

/* The argument of a call, in its part of the context's. */
static void encode_call(struct call *call)
{
    UNCLEARED struct store_take sub;
    struct context *context = call->context;
    const struct store_take *take = context->take;
    uint8_t *arg = context->args + call->first * (SCRIPT_CHARGE_BYTES_MAX + 1);
    sub_begin(&sub, take);
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        sub.charges[sub.n_charges++] = take->charges[context->traces[i].at];
    }
    call->arg = (struct seam_bytes){.ptr = arg, .len = script_encode_take(&sub, arg)};
}

static void note_hot(const struct context *context, unsigned idx)
{
    struct redis_store *redis = context->store;
    const struct seam_bytes *name = &context->names[idx];
    if (redis->hot != NULL && draw(redis) % HOT_SAMPLE == 0) {
        hot_note(redis->hot, name->ptr, name->len, context->take->now);
    }
}

static void run_call(struct call *call)
{
    struct context *context = call->context;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        trace_charge(context, i);
        note_hot(context, i);
    }
    encode_call(call);
    call->seam = (struct seam_call){
        .script = REDIS_SCRIPT_TAKE,
        .keys = &context->names[call->first],
        .n_keys = call->n,
        .args = &call->arg,
        .n_args = 1,
        .deadline = context->take->deadline,
        .done = on_answer,
        .late = on_late_answer,
    };
    context->n_open++;
    seam_run(context->store->seam, &call->seam);
}

/* Send it, where its node is asked at all. */
static void ask(struct call *call)
{
    struct context *context = call->context;
    struct redis_store *redis = context->store;
    struct instant now = context->take->now;
    unsigned node = seam_node(redis->seam, call->slot);
    if (health_passes(redis->health, node, now, draw(redis))) {
        run_call(call);
        return;
    }
    call->failure = health_is_slow(redis->health, node, now) ? STORE_SLOW : STORE_DOWN;
    context->n_waiting -= call->is_waited_for;
}

/* Keys and names are the caller's no longer than this call. */
static void keep_keys(struct context *context)
{
    struct store_take *take = context->take;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        charge->key = context_keep(context, charge->key, charge->key_bytes);
    }
}

/* Names are the keys of what has a home, here and in the bucket of its share. */
static bool use_names(struct store_take *take)
{
    bool has_homes = false;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        if (charge->home != NULL) {
            charge->key = (const uint8_t *)charge->name;
            charge->key_bytes = charge->name_bytes;
            has_homes = true;
        }
    }
    return has_homes;
}

static uint32_t all_with_homes(const struct store_take *take)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        mask |= (uint32_t)(take->charges[i].home != NULL) << i;
    }
    return mask;
}

/* What Redis refused a moment ago. Charges that refuse nobody are asked, since whether they
 * are charged hangs on it; and peeks, which tell what counters hold. */
static uint32_t answer_refused(struct redis_store *redis, struct store_take *take)
{
    uint32_t refused = 0;
    if (take->is_peek || refusals_are_over(redis->refusals, take->now)) {
        return 0;
    }
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        if (charge->home != NULL && !charge->is_lenient
            && refusals_answer(redis->refusals, charge, take->now)) {
            charge->source = STORE_COUNTED;
            charge->is_charged = false;
            refused |= UINT32_C(1) << i;
        }
    }
    return refused;
}

/* Nothing is charged, and nobody else is asked. */
static void conclude_refused(struct store_take *take, uint32_t unasked,
                             const struct sharding *sharding)
{
    pass_unasked(take, unasked);
    take->is_allowed = false;
    shards_restore(sharding, take);
    take->done(take);
}

static uint32_t all_charges(const struct store_take *take)
{
    return (UINT32_C(1) << take->n_charges) - 1;
}

/* Nobody is asked: there is no need, no time, or too much is under way. */
static void conclude_unasked(struct redis_store *redis, struct store_take *take,
                             const struct ahead *ahead, const struct sharding *sharding)
{
    uint32_t unanswered = ahead->cut | ahead->asked;
    take->is_allowed = true;
    if (unanswered != 0) {
        take->failure = ahead->cut != 0 ? STORE_DOWN : STORE_SLOW;
        take->is_allowed = apply_policies(redis, take, unanswered);
    }
    if (!take->is_allowed) {
        give_back_ahead(redis, take, ahead);
    }
    shards_restore(sharding, take);
    take->done(take);
}

/* Where charges have limits of shards, these are the context's now. */
static void keep_sharding(struct context *context, const struct sharding *sharding)
{
    context->sharding = *sharding;
    for (uint32_t left = sharding->mask; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        context->take->charges[i].limit = &context->sharding.limits[i];
    }
}

static void ask_all(struct redis_store *redis, struct store_take *take,
                    const struct ahead *ahead, const struct sharding *sharding)
{
    bool has_time = instant_diff_us(take->deadline, take->now) > REDIS_RESERVE_US;
    bool is_needed = ahead->asked != 0;
    struct context *context = is_needed && has_time
                                  ? context_take(redis, take->counters)
                                  : NULL;
    if (context == NULL) {
        conclude_unasked(redis, take, ahead, sharding);
        return;
    }
    context->take = take;
    context->began_at = take->now;
    context->is_peek = take->is_peek;
    context->ahead = *ahead;
    keep_sharding(context, sharding);
    keep_keys(context);
    plan_calls(context);
    context->n_waiting++; /* none concludes before all are asked */
    for (unsigned i = 0; i < context->n_calls; i++) {
        ask(&context->calls[i]);
    }
    if (--context->n_waiting == 0) {
        conclude(context);
    }
    context_put_if_over(context);
}

static uint32_t all_of_kind(const struct store_take *take, enum store_kind kind)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_home *home = take->charges[i].home;
        mask |= (uint32_t)(home != NULL && home->kind == kind) << i;
    }
    return mask;
}

/* A refusal before Redis was asked. */
static void refuse_ahead(struct redis_store *redis, struct store_take *take,
                         const struct ahead *ahead, const struct sharding *sharding)
{
    give_back_ahead(redis, take, ahead);
    conclude_refused(take, ahead->asked | ahead->cut, sharding);
}

/* What this process can answer by itself. @return false: it refuses */
static bool go_ahead(struct redis_store *redis, struct store_take *take,
                     struct ahead *ahead)
{
    bool is_allowed = take_local(redis, take);
    ahead->asked = all_with_homes(take);
    ahead->synced = 0;
    ahead->cut = 0;
    ahead->spending.mask = 0;
    if (!is_allowed || take->is_peek) {
        return is_allowed;
    }
    uint32_t synced = all_of_kind(take, STORE_KIND_SYNC);
    if (redis->syncs != NULL && synced != 0) {
        ahead->asked &= ~synced;
        is_allowed = sync_calls_charge(redis->syncs, take, &ahead->synced, &ahead->cut);
    }
    if (redis->leases != NULL && is_allowed) {
        lease_calls_spend(redis->leases, take, &ahead->spending);
        ahead->asked &= ~ahead->spending.mask;
    }
    return is_allowed;
}

/* Any shard for each counter that has some; names are the caller's room. */
static void choose_shards(struct redis_store *redis, struct store_take *take,
                          struct sharding *sharding, char names[][STORE_NAME_BYTES_MAX])
{
    sharding->mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        if (charge->home == NULL || charge->home->n_shards <= 1) {
            continue;
        }
        unsigned shard = draw(redis) % charge->home->n_shards;
        ENSURE(charge->key_bytes <= STORE_NAME_BYTES_MAX - SHARDS_NAME_MORE);
        shards_set(sharding, take, i, shard);
        charge->key_bytes = shards_name((const char *)charge->key, charge->key_bytes,
                                        shard, names[i]);
        charge->key = (const uint8_t *)names[i];
    }
}

static void redis_take(struct store *store, struct store_take *take)
{
    struct redis_store *redis = to_redis(store);
    UNCLEARED struct ahead ahead;
    UNCLEARED struct sharding sharding;
    UNCLEARED char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    ENSURE(take->n_charges <= STORE_CHARGES_MAX);
    if (!use_names(take)) {
        store_take(redis->local, take);
        return;
    }
    choose_shards(redis, take, &sharding, names);
    uint32_t refused = answer_refused(redis, take);
    if (refused != 0) {
        health_add(redis->health, HEALTH_REFUSED_AGAIN, 1);
        conclude_refused(take, all_charges(take) & ~refused, &sharding);
    } else if (go_ahead(redis, take, &ahead)) {
        ask_all(redis, take, &ahead, &sharding);
    } else {
        refuse_ahead(redis, take, &ahead, &sharding);
    }
}

/* --- settling --- */

static void on_settled(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    struct context *context = call->context;
    unsigned n_changed = 0;
    bool is_good = read_settled(call, reply, &n_changed);
    health_add(context->store->health, HEALTH_SETTLES_LOST, !is_good);
    if (is_good && n_changed == 0 && context->counters != NULL) {
        counter_add(context->counters, COUNTER_SETTLED_TOO_LATE, 1);
    }
    if (seam->outcome != SEAM_TIMEOUT) {
        call_end(call);
    }
}

/* The shard that a charge was made in. */
static void find_shard(struct store_settlement *settlement, struct limit *limit,
                       char *name)
{
    unsigned shard = 0;
    struct limit_correction *correction = &settlement->correction;
    correction->place = shards_place_in(correction->place, &shard);
    shards_limit(settlement->limit, settlement->home->n_shards, shard, limit);
    settlement->limit = limit;
    settlement->name_bytes = shards_name(settlement->name, settlement->name_bytes,
                                         shard, name);
    settlement->name = name;
}

static void redis_settle(struct store *store, const struct store_settlement *settlement)
{
    struct redis_store *redis = to_redis(store);
    if (settlement->home == NULL) {
        store_settle(redis->local, settlement);
        return;
    }
    struct context *context = context_take(redis, settlement->counters);
    if (context == NULL) {
        health_add(redis->health, HEALTH_SETTLES_LOST, 1);
        return;
    }
    UNCLEARED struct limit limit;
    UNCLEARED char name[STORE_NAME_BYTES_MAX];
    struct store_settlement of_shard = *settlement;
    if (settlement->home->n_shards > 1) {
        find_shard(&of_shard, &limit, name);
        settlement = &of_shard;
    }
    context->names[0] = (struct seam_bytes){
        .ptr = context_keep(context, settlement->name, settlement->name_bytes),
        .len = settlement->name_bytes,
    };
    struct call *call = call_of_slot(context,
                                     seam_slot(redis->seam, context->names[0]));
    call->first = 0;
    call->n = 1;
    call_settle(call, 1, script_encode_settlement(settlement, context->settle_args),
                on_settled);
}

/* --- the store --- */

/* Let Redis know all that it does not know yet. */
static void return_all(struct redis_store *redis)
{
    if (redis->leases != NULL) {
        lease_calls_return(redis->leases);
    }
    if (redis->syncs != NULL) {
        sync_calls_leave(redis->syncs);
    }
}

static void redis_leave(struct store *store)
{
    struct redis_store *redis = to_redis(store);
    for (unsigned i = 0; i < redis->n_used; i++) {
        redis->contexts[i].counters = NULL;
    }
    refusals_clear(redis->refusals);
    return_all(redis);
}

static bool redis_finish(struct store *store)
{
    struct redis_store *redis = to_redis(store);
    if (!redis->is_finishing) {
        redis->is_finishing = true;
        return_all(redis);
    }
    return redis_store_n_under_way(store) == redis->prober.n_under_way;
}

static void redis_free(struct store *store)
{
    struct redis_store *redis = to_redis(store);
    lease_calls_free(redis->leases);
    sync_calls_free(redis->syncs);
    refusals_free(redis->refusals);
    free(redis); /* the seam has gone, and forgotten the timers */
}

/* @return false: memory is short */
static bool open_calls(struct redis_store *redis,
                       const struct redis_store_options *options)
{
    struct lease_calls_options leases = {
        .leases = options->leases,
        .seam = options->seam,
        .health = options->health,
        .host = options->host,
        .worker = options->worker,
    };
    struct sync_calls_options syncs = {
        .syncs = options->syncs,
        .seam = options->seam,
        .health = options->health,
        .host = options->host,
        .worker = options->worker,
    };
    redis->leases = options->leases != NULL ? lease_calls_new(&leases) : NULL;
    redis->syncs = options->syncs != NULL ? sync_calls_new(&syncs) : NULL;
    return (redis->leases != NULL || options->leases == NULL)
           && (redis->syncs != NULL || options->syncs == NULL);
}

struct store *redis_store_new(const struct redis_store_options *options)
{
    static const struct store_ops ops = {
        .name = "redis",
        .take = redis_take,
        .settle = redis_settle,
        .leave = redis_leave,
        .finish = redis_finish,
        .free = redis_free,
    };
    struct redis_store *redis = calloc(1, sizeof(*redis));
    if (redis == NULL) {
        return NULL;
    }
    redis->store.ops = &ops;
    redis->local = options->local;
    redis->seam = options->seam;
    redis->health = options->health;
    redis->hot = options->hot;
    redis->refusals = refusals_new(options->secret);
    if (redis->refusals == NULL || !open_calls(redis, options)) {
        redis_free(&redis->store);
        return NULL;
    }
    prober_start(&redis->prober, options->seam, options->health, options->prefix);
    return &redis->store;
}

unsigned redis_store_n_under_way(struct store *store)
{
    const struct redis_store *redis = to_redis(store);
    unsigned n = redis->n_under_way + redis->prober.n_under_way;
    n += redis->leases != NULL ? lease_calls_n_under_way(redis->leases) : 0;
    n += redis->syncs != NULL ? sync_calls_n_under_way(redis->syncs) : 0;
    return n;
}
