/* Where many want the same of one counter at one time: one asks, the others wait for its answer,
 * and then one of them asks for all. A call costs Redis the same whatever it charges, so one
 * counter that is asked for all the time keeps nobody else waiting for long. */
#include <limits.h>

#include "agent/store/redis_parts.h"

enum {
    WAITS = 4 /* a round trip is at most that part of the time there is, if any waits */
};

/* The only charge that a member of a group asks about. */
static struct store_charge *charge_of(const struct context *context)
{
    return &context->take->charges[__builtin_ctz(context->ahead.asked)];
}

/* One charge that refuses where it is refused, of a counter from which any part of what was
 * charged may be given back. */
static bool may_be_grouped(const struct context *context)
{
    uint32_t asked = context->ahead.asked;
    const struct store_charge *charge = charge_of(context);
    return (asked & (asked - 1)) == 0 && !context->is_peek && !charge->is_lenient
           && !charge->is_shadow && charge->cost > 0 && charge->home->n_shards <= 1
           && script_may_lease(charge->limit);
}

static bool is_same(const struct context *a, const struct context *b)
{
    return a->counter.lo == b->counter.lo && a->counter.hi == b->counter.hi
           && charge_of(a)->cost == charge_of(b)->cost;
}

struct context *redis_group_find(struct context *context)
{
    struct redis_store *redis = context->store;
    const struct store_take *take = context->take;
    if (!may_be_grouped(context)) {
        return NULL;
    }
    context->counter = refusals_counter(redis->refusals, charge_of(context));
    unsigned group = (unsigned)(context->counter.lo % REDIS_GROUPS);
    struct context *asker = redis->groups[group];
    if (asker != NULL && !is_same(asker, context)) {
        return NULL; /* another counter of the same group: it goes by itself */
    }
    context->group = group;
    bool has_time = WAITS * redis->round_trip_us <= redis_time_left_us(take, take->now);
    return has_time ? asker : NULL;
}

void redis_group_begin(struct context *context)
{
    struct redis_store *redis = context->store;
    if (context->group != REDIS_GROUPS && redis->groups[context->group] == NULL) {
        redis->groups[context->group] = context;
    }
}

void redis_group_end(struct context *context)
{
    struct redis_store *redis = context->store;
    if (context->group != REDIS_GROUPS && redis->groups[context->group] == context) {
        redis->groups[context->group] = NULL;
    }
}

unsigned redis_group_room(const struct context *context)
{
    if (context->group == REDIS_GROUPS) {
        return 0;
    }
    const struct store_charge *charge = charge_of(context);
    if (charge->source != STORE_COUNTED) {
        return UINT_MAX;
    }
    int64_t room = charge->answer.remaining / charge->cost - context->n_members;
    return room > 1 ? (unsigned)room : 1;
}

struct context *redis_group_add(struct context *leader, struct context *context,
                                unsigned room)
{
    const struct store_charge *charge = charge_of(context);
    if (leader == NULL) {
        return context;
    }
    if (leader->n_members + 1 < room
        && (leader->n_members + 2) * charge->cost <= charge->limit->size) {
        redis_plan_calls(context);
        ring_add(&leader->members, &context->place);
        leader->n_members++;
        health_add(context->store->policies.health, HEALTH_JOINED, 1);
    } else {
        redis_follow(context, &leader->followers);
    }
    return leader;
}

void redis_group_answer(struct context *leader, const struct store_take *answer)
{
    if (leader->n_members == 0) {
        return;
    }
    struct store_charge *first = charge_of(leader);
    int64_t left = answer->charges[0].answer.remaining
                   + leader->n_members * first->cost;
    first->answer.remaining = left;
    for (struct ring *at = leader->members.next; at != &leader->members;
         at = at->next) {
        const struct context *member = CONTAINER_OF(at, struct context, place);
        struct store_charge *charge = charge_of(member);
        left -= charge->cost;
        charge->is_charged = true;
        charge->place = first->place;
        charge->answer = first->answer;
        charge->answer.remaining = left;
    }
}

void redis_group_split(struct context *leader)
{
    while (leader->n_members > 0) {
        struct context *last = CONTAINER_OF(leader->members.prev, struct context,
                                            place);
        ring_remove(&last->place);
        leader->n_members--;
        redis_follow(last, leader->followers.next);
    }
}

void redis_group_conclude(struct context *leader)
{
    const struct call *call = &leader->calls[0];
    while (leader->n_members > 0) {
        struct context *member = CONTAINER_OF(leader->members.next, struct context,
                                              place);
        ring_remove(&member->place);
        leader->n_members--;
        member->calls[0].has_answer = call->has_answer;
        member->calls[0].is_allowed = call->is_allowed;
        member->calls[0].failure = call->failure;
        redis_conclude(member);
        leader->n_refused += member->n_refused;
        redis_context_put_if_over(member);
    }
}
