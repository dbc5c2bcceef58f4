#include <string.h>

#include "agent/redis/script.h"
#include "agent/store/redis_parts.h"
#include "agent/store/sub_take.h"

/* --- contexts --- */

/* Nothing of it is cleared that is not read: it is large. */
struct context *redis_context_take(struct redis_store *redis, struct counters *counters)
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
    health_begin(redis->policies.health);
    context->store = redis;
    context->counters = counters;
    context->take = NULL;
    context->is_peek = false;
    context->n_refused = 0;
    context->n_waiting = 0;
    context->n_open = 0;
    context->n_calls = 0;
    context->n_kept = 0;
    context->doubt = REFUSALS_N;
    context->n_rounds = 0;
    context->group = REDIS_GROUPS;
    context->n_members = 0;
    ring_init(&context->members);
    ring_init(&context->followers);
    return context;
}

void redis_context_put_if_over(struct context *context)
{
    struct redis_store *redis = context->store;
    if (context->take == NULL && context->n_open == 0) {
        context->next = redis->free;
        redis->free = context;
        redis->n_under_way--;
        health_end(redis->policies.health);
    }
}

uint8_t *redis_context_keep(struct context *context, const void *bytes, size_t n)
{
    ENSURE(n <= sizeof(context->kept) - context->n_kept);
    uint8_t *to = context->kept + context->n_kept;
    memcpy(to, bytes, n);
    context->n_kept += n;
    return to;
}

/* --- replies --- */

bool redis_read_take(const struct seam_reply *reply, struct store_take *take,
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
        settle_charge(redis->policies.local, take, charge);
        store_forget_charge(charge);
    }
}

void redis_call_end(struct call *call)
{
    call->context->n_open--;
    redis_context_put_if_over(call->context);
}

static void on_given_back_late(struct seam_call *seam, const struct seam_reply *reply)
{
    (void)reply;
    redis_call_end(CONTAINER_OF(seam, struct call, seam));
}

bool redis_call_read_settled(struct call *call, const struct seam_reply *reply,
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
        seam_reject(redis->policies.seam, &call->seam);
    }
    health_add(redis->policies.health, HEALTH_REPAIRED,
               repairs.n_values + repairs.n_ttls);
    health_report(redis->policies.health, &call->seam, seam_now(redis->policies.seam));
    return call->seam.outcome == SEAM_OK;
}

static void on_given_back(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    unsigned n_changed = 0;
    bool is_good = redis_call_read_settled(call, reply, &n_changed);
    health_add(call->context->store->policies.health,
               is_good ? HEALTH_GIVEN_BACK : HEALTH_GIVE_BACKS_LOST, seam->n_keys);
    if (seam->outcome != SEAM_TIMEOUT) { /* that ends later */
        redis_call_end(call);
    }
}

/* Where the argument of a call that settles is written. */
static uint8_t *settle_arg(struct call *call)
{
    return call->context->settle_args
           + (size_t)call->first * SCRIPT_SETTLEMENT_BYTES_MAX;
}

void redis_call_settle(struct call *call, unsigned n, size_t arg_bytes,
                       seam_call_fn *done)
{
    struct context *context = call->context;
    struct seam *seam = context->store->policies.seam;
    call->arg = (struct seam_bytes){
        .ptr = settle_arg(call),
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

/* Give back what a call charged for takes that were refused. Nobody waits for it. */
static void give_back(struct call *call)
{
    struct context *context = call->context;
    uint8_t *arg = settle_arg(call);
    size_t arg_bytes = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < call->n; i++) {
        const struct trace *trace = &context->traces[call->first + i];
        if (trace->is_charged) {
            context->names[call->first + n++] = context->names[call->first + i];
            arg_bytes += script_encode_giving_back(call->arg.ptr, i, trace->place,
                                                   trace->cost * context->n_refused,
                                                   arg + arg_bytes);
        }
    }
    if (n > 0) {
        redis_call_settle(call, n, arg_bytes, on_given_back);
    }
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
        int64_t reset_us = charge->answer.reset_us; /* of what Redis has, as ever */
        if ((gone >> i & 1) != 0) {
            settle_charge(&redis->store, take, charge);
        }
        store_forget_charge(charge);
        charge->answer.reset_us = reset_us;
    }
}

void redis_give_back_ahead(struct redis_store *redis, struct store_take *take,
                           const struct ahead *ahead)
{
    give_back_local(redis, take);
    give_back_spent(redis, take, &ahead->spending);
    if (ahead->synced != 0) {
        sync_calls_give_back(redis->syncs, take, ahead->synced);
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
        sub->charges[i].cost = traces[i].cost * call->n_takes;
        sub->charges[i].is_lenient = traces[i].is_lenient;
    }
}

/* Of the rules in force, and of charges that refuse somebody. One that comes late counts from
 * when it was asked for: who waits as long as it says has waited that long already. */
static void remember_refusal(const struct call *call, struct store_charge *charge,
                             struct seam_bytes name)
{
    const struct context *context = call->context;
    struct redis_store *redis = context->store;
    bool is_late = call->failure != STORE_NO_FAILURE;
    if (!charge->answer.is_allowed && !charge->is_lenient && !context->is_peek
        && context->counters != NULL && call->n_takes == 1) {
        charge->key = name.ptr;
        charge->key_bytes = name.len;
        refusals_remember(redis->refusals, charge,
                          is_late ? context->asked_at : seam_now(redis->policies.seam));
    }
}

/* What a check would spend from leases passes, whatever Redis has left. */
static void pass_held(const struct call *call, struct store_take *sub)
{
    const struct context *context = call->context;
    sub->is_allowed = true;
    for (unsigned i = 0; i < call->n; i++) {
        struct store_charge *charge = &sub->charges[i];
        if ((context->ahead.held >> context->traces[call->first + i].at & 1) != 0) {
            charge->answer.is_allowed = true;
            charge->answer.retry_us = 0;
        }
        sub->is_allowed = sub->is_allowed
                          && (charge->answer.is_allowed || charge->is_lenient);
    }
}

/* Read an answer; into the take, too, while that goes on. @return false: it is none */
static bool read_answer(struct call *call, const struct seam_reply *reply)
{
    UNCLEARED struct store_take sub;
    struct context *context = call->context;
    struct script_repairs repairs = {0};
    sub_of_call(call, &sub);
    if (!redis_read_take(reply, &sub, &repairs)) {
        seam_reject(context->store->policies.seam, &call->seam);
        return false;
    }
    health_add(context->store->policies.health, HEALTH_REPAIRED,
               repairs.n_values + repairs.n_ttls);
    if (context->ahead.held != 0) {
        pass_held(call, &sub);
    }
    for (unsigned i = 0; i < call->n; i++) {
        struct trace *trace = &context->traces[call->first + i];
        trace->is_allowed = sub.charges[i].answer.is_allowed;
        trace->is_charged = sub.charges[i].is_charged;
        trace->place = sub.charges[i].place;
        remember_refusal(call, &sub.charges[i], context->names[call->first + i]);
        if (context->take != NULL && call->failure == STORE_NO_FAILURE) {
            sub_take_answer(&sub, i, context->take, trace->at);
        }
    }
    call->is_allowed = sub.is_allowed;
    if (sub.is_allowed) {
        redis_group_answer(context, &sub);
    }
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

static void forget_charges(struct store_take *take, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        struct store_charge *charge = &take->charges[__builtin_ctz(mask)];
        if (charge->is_charged) {
            store_forget_charge(charge);
        }
    }
}

/* Nothing is charged for it, wherever it was. */
static void undo(struct context *context)
{
    struct store_take *take = context->take;
    redis_give_back_ahead(context->store, take, &context->ahead);
    for (unsigned i = 0; i < context->n_calls; i++) {
        struct call *call = &context->calls[i];
        forget_charges(take, charges_of(call));
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

void redis_conclude(struct context *context)
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
        } else { /* shadows, whose answers come later */
            policy_pass_unasked(take, charges_of(call));
        }
    }
    if (is_allowed) {
        take->failure = context->ahead.cut != 0 ? STORE_DOWN : find_failure(context);
        is_allowed = policies_apply(&context->store->policies, take, unanswered);
    } else {
        policy_pass_unasked(take, unanswered);
    }
    take->is_allowed = is_allowed;
    context->n_refused = !is_allowed;
    if (!is_allowed) {
        undo(context);
    }
    unsigned n_askers = redis_count_askers(context);
    shards_restore(&context->sharding, take);
    context->take = NULL;
    redis_group_end(context);
    take->done(take);
    redis_group_conclude(context);
    redis_let_followers_go(context, n_askers);
}

/* A take that is over is told nothing more, but its rules' shadows are counted. */
static void count_afterwards(const struct call *call)
{
    const struct context *context = call->context;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        const struct trace *trace = &context->traces[i];
        if (trace->is_shadow && context->counters != NULL && !context->is_peek) {
            bool is_charged = trace->is_charged && context->n_refused == 0;
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
    health_add(context->store->policies.health, HEALTH_LATE, reply != NULL);
    call->has_answer = reply != NULL && read_answer(call, reply);
    /* A take that still waits for others sees to it when it is over. */
    if (call->has_answer && context->take == NULL && context->n_refused > 0) {
        give_back(call);
    }
    redis_call_end(call);
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
    struct seam *seam = context->store->policies.seam;
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
    return health_passes(redis->policies.health,
                         seam_node(redis->policies.seam, call->slot),
                         seam_now(redis->policies.seam), redis_draw(redis));
}

static bool has_time_again(const struct call *call)
{
    const struct context *context = call->context;
    struct instant back = instant_add_us(seam_now(context->store->policies.seam),
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
        move_shard(context, i, 1 + redis_draw(redis) % n_others);
    }
    if (!call_has_slot(call) || !is_passed(call)) {
        return false;
    }
    call->is_second = true;
    call->has_answer = false;
    run_call(call);
    return true;
}

/* --- one take of several --- */

/* Where there is not enough for all, the first of them asks for itself. @return whether that
 * is under way */
static bool try_alone(struct call *call)
{
    struct context *context = call->context;
    if (call->n_takes == 1 || !call->has_answer || call->is_allowed) {
        return false;
    }
    redis_group_split(context);
    call->has_answer = false;
    if (!has_time_again(call) || !is_passed(call)) {
        call->failure = STORE_DEADLINE;
        return false;
    }
    run_call(call);
    return true;
}

static void on_answer(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    struct context *context = call->context;
    struct redis_store *redis = context->store;
    redis->round_trip_us = seam->outcome == SEAM_OK ? seam->round_trip_us
                                                    : redis->round_trip_us;
    call->has_answer = seam->outcome == SEAM_OK && read_answer(call, reply);
    health_report(redis->policies.health, seam, seam_now(redis->policies.seam));
    if (!call->has_answer) {
        call->failure = failure_of(seam->outcome);
    }
    if (try_alone(call) || try_others(call)) {
        redis_call_end(call); /* the first one */
        return;
    }
    if (context->take == NULL) { /* a shadow's */
        if (call->has_answer) {
            count_afterwards(call);
        }
        if (call->has_answer && context->n_refused > 0) {
            give_back(call);
        }
    }
    if (call->is_waited_for && --context->n_waiting == 0) {
        redis_conclude(context);
    }
    if (seam->outcome != SEAM_TIMEOUT) {
        redis_call_end(call);
    }
}

/* --- asking --- */

struct call *redis_call_of_slot(struct context *context, unsigned slot)
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
    call->n_takes = 1;
    call->is_waited_for = false;
    call->failure = STORE_NO_FAILURE;
    call->has_answer = false;
    call->is_second = false;
    return call;
}

/* Which charges are a call's: those whose entry in `calls` it is. */
static void call_take_charges(struct call *call, unsigned first,
                              struct call *const calls[STORE_CHARGES_MAX])
{
    call->first = first;
    for (unsigned i = 0; i < STORE_CHARGES_MAX; i++) {
        if (calls[i] == call) {
            call->context->traces[first + call->n++].at = i;
        }
    }
}

void redis_plan_calls(struct context *context)
{
    const struct store_take *take = context->take;
    struct call *calls[STORE_CHARGES_MAX] = {NULL};
    unsigned n_traces = 0;
    context->n_calls = 0;
    context->n_waiting = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        if ((context->ahead.asked >> i & 1) != 0) {
            struct seam_bytes name = {.ptr = charge->key, .len = charge->key_bytes};
            calls[i] = redis_call_of_slot(context,
                                          seam_slot(context->store->policies.seam,
                                                    name));
            calls[i]->is_waited_for = calls[i]->is_waited_for || !charge->is_shadow;
        }
    }
    for (unsigned c = 0; c < context->n_calls; c++) {
        struct call *call = &context->calls[c];
        call_take_charges(call, n_traces, calls);
        n_traces += call->n;
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
    uint8_t *arg = context->args + (size_t)call->first * (SCRIPT_CHARGE_BYTES_MAX + 1);
    sub_take_begin(&sub, take);
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        sub.charges[sub.n_charges] = take->charges[context->traces[i].at];
        sub.charges[sub.n_charges++].cost *= call->n_takes;
    }
    call->arg = (struct seam_bytes){.ptr = arg, .len = script_encode_take(&sub, arg)};
}

static void note_hot(const struct context *context, unsigned idx)
{
    struct redis_store *redis = context->store;
    const struct seam_bytes *name = &context->names[idx];
    if (redis->hot != NULL && redis_draw(redis) % HOT_SAMPLE == 0) {
        hot_note(redis->hot, name->ptr, name->len, context->take->now);
    }
}

static void run_call(struct call *call)
{
    struct context *context = call->context;
    call->n_takes = 1 + context->n_members;
    for (unsigned i = call->first; i < call->first + call->n; i++) {
        trace_charge(context, i);
        for (unsigned n = 0; n < call->n_takes; n++) {
            note_hot(context, i);
        }
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
    seam_run(context->store->policies.seam, &call->seam);
}

void redis_call_ask(struct call *call)
{
    struct context *context = call->context;
    struct redis_store *redis = context->store;
    struct instant now = context->take->now;
    unsigned node = seam_node(redis->policies.seam, call->slot);
    if (health_passes(redis->policies.health, node, now, redis_draw(redis))) {
        run_call(call);
        return;
    }
    call->failure = health_is_slow(redis->policies.health, node, now) ? STORE_SLOW
                                                                      : STORE_DOWN;
    context->n_waiting -= call->is_waited_for;
}
