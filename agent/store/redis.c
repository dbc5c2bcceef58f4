#include "agent/store/redis.h"

#include <stdlib.h>
#include <string.h>

#include "agent/redis/script.h"
#include "agent/store/redis_parts.h"
#include "agent/store/sub_take.h"

static struct redis_store *to_redis(struct store *store)
{
    return CONTAINER_OF(store, struct redis_store, store);
}

/* --- before Redis is asked --- */

/* Take the charges without a home. @return whether they are allowed */
static bool take_local(struct redis_store *redis, struct store_take *take)
{
    UNCLEARED struct store_take sub;
    unsigned at[STORE_CHARGES_MAX];
    sub_take_begin(&sub, take);
    for (unsigned i = 0; i < take->n_charges; i++) {
        if (take->charges[i].home == NULL) {
            at[sub.n_charges] = i;
            sub.charges[sub.n_charges++] = take->charges[i];
        }
    }
    if (sub.n_charges == 0) {
        return true;
    }
    store_take(redis->policies.local, &sub);
    for (unsigned i = 0; i < sub.n_charges; i++) {
        sub_take_answer(&sub, i, take, at[i]);
    }
    return sub.is_allowed;
}

static uint32_t all_with_homes(const struct store_take *take)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        mask |= (uint32_t)(take->charges[i].home != NULL) << i;
    }
    return mask;
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

static void choose_shard(struct redis_store *redis, struct store_take *take, unsigned i,
                         struct sharding *sharding, char *name)
{
    struct store_charge *charge = &take->charges[i];
    unsigned n_shards = charge->home->n_shards;
    unsigned shard = redis_draw(redis) % n_shards;
    ENSURE(charge->name_bytes <= STORE_NAME_BYTES_MAX - SHARDS_NAME_MORE);
    for (unsigned n_tries = 0; n_tries < 2; n_tries++) {
        shards_set(sharding, take, i, shard);
        charge->key_bytes = shards_name(charge->name, charge->name_bytes, shard, name);
        charge->key = (const uint8_t *)name;
        if (redis_find_refusals(redis, take, UINT32_C(1) << i, take->now).refused
            == 0) {
            return;
        }
        shard = (shard + 1 + redis_draw(redis) % (n_shards - 1)) % n_shards;
    }
}

/* Any shard for each counter that has some, and another where that refused a moment ago; names
 * are the caller's room. */
static void choose_shards(struct redis_store *redis, struct store_take *take,
                          struct sharding *sharding, char names[][STORE_NAME_BYTES_MAX])
{
    sharding->mask = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_home *home = take->charges[i].home;
        if (home != NULL && home->n_shards > 1) {
            choose_shard(redis, take, i, sharding, names[i]);
        }
    }
}

static uint32_t all_charges(const struct store_take *take)
{
    return (UINT32_C(1) << take->n_charges) - 1;
}

/* Nothing is charged, and nobody else is asked. */
static void conclude_refused(struct store_take *take, uint32_t unasked,
                             const struct sharding *sharding)
{
    policy_pass_unasked(take, unasked);
    take->is_allowed = false;
    shards_restore(sharding, take);
    take->done(take);
}

void redis_refuse_ahead(struct redis_store *redis, struct store_take *take,
                        const struct ahead *ahead, const struct sharding *sharding,
                        uint32_t refused)
{
    redis_give_back_ahead(redis, take, ahead);
    conclude_refused(take, (ahead->asked | ahead->cut) & ~refused, sharding);
}

/* What this process can answer by itself. @return false: it refuses */
static bool go_ahead(struct redis_store *redis, struct store_take *take,
                     struct ahead *ahead)
{
    bool is_allowed = take_local(redis, take);
    ahead->asked = all_with_homes(take);
    ahead->synced = 0;
    ahead->cut = 0;
    ahead->held = 0;
    ahead->spending.mask = 0;
    if (is_allowed && take->is_peek && redis->leases != NULL) {
        ahead->held = lease_calls_look(redis->leases, take);
    }
    if (!is_allowed || take->is_peek) {
        return is_allowed;
    }
    uint32_t synced = all_of_kind(take, STORE_KIND_SYNC);
    if (redis->syncs != NULL && synced != 0) {
        uint32_t unheld = 0;
        is_allowed = sync_calls_charge(redis->syncs, take, &ahead->synced, &ahead->cut,
                                       &unheld);
        ahead->asked &= ~synced | unheld;
    }
    if (redis->leases != NULL && is_allowed) {
        lease_calls_spend(redis->leases, take, &ahead->spending);
        ahead->asked &= ~ahead->spending.mask;
    }
    return is_allowed;
}

/* --- asking --- */

void redis_conclude_unasked(struct redis_store *redis, struct store_take *take,
                            const struct ahead *ahead, const struct sharding *sharding)
{
    uint32_t unanswered = ahead->cut | ahead->asked;
    take->is_allowed = true;
    if (unanswered != 0) {
        take->failure = ahead->cut != 0 ? STORE_DOWN : STORE_SLOW;
        take->is_allowed = policies_apply(&redis->policies, take, unanswered);
    }
    if (!take->is_allowed) {
        redis_give_back_ahead(redis, take, ahead);
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

/* Keys and names are the caller's no longer than this call. */
static void keep_keys(struct context *context)
{
    struct store_take *take = context->take;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        charge->key = redis_context_keep(context, charge->key, charge->key_bytes);
    }
}

static void ask_all(struct redis_store *redis, struct store_take *take,
                    const struct ahead *ahead, const struct sharding *sharding,
                    const struct finding *finding)
{
    bool has_time = redis_time_left_us(take, take->now) > 0;
    bool is_needed = ahead->asked != 0;
    struct context *context = is_needed && has_time
                                  ? redis_context_take(redis, take->counters)
                                  : NULL;
    if (context == NULL) {
        redis_conclude_unasked(redis, take, ahead, sharding);
        return;
    }
    context->take = take;
    context->is_peek = take->is_peek;
    context->ahead = *ahead;
    keep_sharding(context, sharding);
    keep_keys(context);
    redis_ask_or_follow(context, finding);
}

/* Apart from what is counted on this host alone, which needs none of all this room. */
static NOINLINE void take_shared(struct redis_store *redis, struct store_take *take)
{
    UNCLEARED struct ahead ahead;
    UNCLEARED struct sharding sharding;
    UNCLEARED char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    choose_shards(redis, take, &sharding, names);
    struct finding finding = redis_find_refusals(redis, take, all_with_homes(take),
                                                 take->now);
    if (finding.refused != 0) {
        health_add(redis->policies.health, HEALTH_REFUSED_AGAIN, 1);
        conclude_refused(take, all_charges(take) & ~finding.refused, &sharding);
    } else if (go_ahead(redis, take, &ahead)) {
        ask_all(redis, take, &ahead, &sharding, &finding);
    } else {
        redis_refuse_ahead(redis, take, &ahead, &sharding, 0);
    }
}

static void redis_take(struct store *store, struct store_take *take)
{
    struct redis_store *redis = to_redis(store);
    ENSURE(take->n_charges <= STORE_CHARGES_MAX);
    if (use_names(take)) {
        take_shared(redis, take);
    } else {
        store_take(redis->policies.local, take);
    }
}

/* --- settling --- */

static void on_settled(struct seam_call *seam, const struct seam_reply *reply)
{
    struct call *call = CONTAINER_OF(seam, struct call, seam);
    struct context *context = call->context;
    unsigned n_changed = 0;
    bool is_good = redis_call_read_settled(call, reply, &n_changed);
    health_add(context->store->policies.health, HEALTH_SETTLES_LOST, !is_good);
    if (is_good && n_changed == 0 && context->counters != NULL) {
        counter_add(context->counters, COUNTER_SETTLED_TOO_LATE, 1);
    }
    if (seam->outcome != SEAM_TIMEOUT) {
        redis_call_end(call);
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
        store_settle(redis->policies.local, settlement);
        return;
    }
    struct context *context = redis_context_take(redis, settlement->counters);
    if (context == NULL) {
        health_add(redis->policies.health, HEALTH_SETTLES_LOST, 1);
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
        .ptr = redis_context_keep(context, settlement->name, settlement->name_bytes),
        .len = settlement->name_bytes,
    };
    struct call *call = redis_call_of_slot(context, seam_slot(redis->policies.seam,
                                                              context->names[0]));
    call->first = 0;
    call->n = 1;
    redis_call_settle(call, 1,
                      script_encode_settlement(settlement, context->settle_args),
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

/* Counters of which Redis does not know all yet. */
static unsigned n_held(const struct redis_store *redis)
{
    return (redis->leases != NULL ? lease_calls_n_held(redis->leases) : 0)
           + (redis->syncs != NULL ? sync_calls_n_held(redis->syncs) : 0);
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
    struct instant now = seam_now(redis->policies.seam);
    if (redis->finish_by.us == 0) {
        redis->finish_by = instant_add_us(now, REDIS_FINISH_US);
    }
    bool is_late = instant_diff_us(now, redis->finish_by) >= 0;
    if (!is_late) {
        return_all(redis);
    }
    return redis_store_n_under_way(store) == redis->prober.n_under_way
           && (n_held(redis) == 0 || is_late);
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
    redis->policies.local = options->local;
    redis->policies.seam = options->seam;
    redis->policies.health = options->health;
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
