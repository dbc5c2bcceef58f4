/* Where Redis refused a moment ago: who is refused again, who asks, and who waits for the
 * answer to another. */
#include <limits.h>

#include "agent/store/redis_parts.h"

enum {
    ROUNDS_MAX = 10 /* in a row, each of twice as many takes as the one before */
};

struct finding redis_find_refusals(struct redis_store *redis, struct store_take *take,
                                   uint32_t mask, struct instant now)
{
    struct finding finding = {.doubt = REFUSALS_N};
    if (take->is_peek || refusals_are_over(redis->refusals, now)) {
        return finding;
    }
    for (; mask != 0; mask &= mask - 1) {
        unsigned i = (unsigned)__builtin_ctz(mask);
        struct store_charge *charge = &take->charges[i];
        unsigned doubt = REFUSALS_N;
        if (charge->is_lenient) {
            continue;
        }
        if (refusals_answer(redis->refusals, charge, now, &doubt)) {
            charge->source = STORE_COUNTED;
            charge->is_charged = false;
            finding.refused |= UINT32_C(1) << i;
        } else if (finding.doubt == REFUSALS_N && charge->home->n_shards <= 1) {
            finding.doubt = doubt;
            finding.at = i;
        }
    }
    return finding;
}

/* --- one asks, and others wait for the answer --- */

/* For all whose counter is in the same doubt, too. */
static void ask_now(struct context *context)
{
    struct redis_store *redis = context->store;
    context->asked_at = seam_now(redis->policies.seam);
    if (context->doubt != REFUSALS_N) {
        refusals_set_asker(redis->refusals, context->doubt, context);
    }
    redis_group_begin(context);
    redis_plan_calls(context);
    context->n_waiting++; /* none concludes before all are asked */
    for (unsigned i = 0; i < context->n_calls; i++) {
        redis_call_ask(&context->calls[i]);
    }
    if (--context->n_waiting == 0) {
        redis_conclude(context);
    }
    redis_context_put_if_over(context);
}

static void stop_waiting(struct context *context)
{
    ring_remove(&context->place);
    seam_timer_stop(context->store->policies.seam, &context->patience);
}

static void context_end(struct context *context)
{
    context->take = NULL;
    redis_context_put_if_over(context);
}

static bool has_time(const struct context *context)
{
    struct instant now = seam_now(context->store->policies.seam);
    return redis_time_left_us(context->take, now) > 0;
}

static void give_up(struct context *context)
{
    redis_conclude_unasked(context->store, context->take, &context->ahead,
                           &context->sharding);
    context_end(context);
}

/* Ask, after having waited. */
static void go_on(struct context *context)
{
    stop_waiting(context);
    if (has_time(context)) {
        ask_now(context);
    } else {
        give_up(context);
    }
}

static void on_impatient(struct seam_timer *timer)
{
    go_on(CONTAINER_OF(timer, struct context, patience));
}

/* The other half of the time is for asking. */
void redis_follow(struct context *context, struct ring *before)
{
    const struct store_take *take = context->take;
    ring_add(before, &context->place);
    context->patience.fire = on_impatient;
    context->patience.at = instant_add_us(take->now,
                                          redis_time_left_us(take, take->now) / 2);
    seam_timer_set(context->store->policies.seam, &context->patience);
}

/* Who asks for all in a doubt, if anybody does. */
static struct context *find_asker(const struct redis_store *redis, unsigned doubt)
{
    return doubt != REFUSALS_N ? refusals_asker(redis->refusals, doubt) : NULL;
}

void redis_ask_or_follow(struct context *context, const struct finding *finding)
{
    bool is_in_doubt = finding->doubt != REFUSALS_N
                       && (context->ahead.asked >> finding->at & 1) != 0;
    struct context *asker = is_in_doubt ? find_asker(context->store, finding->doubt)
                                        : redis_group_find(context);
    if (asker != NULL) {
        redis_follow(context, &asker->followers);
        return;
    }
    if (is_in_doubt) {
        context->doubt = finding->doubt;
        context->doubtful_at = finding->at;
    }
    ask_now(context);
}

/* All where it has no answer; where it was refused, one that the same refusal does not answer.
 * Where it was allowed, as many as there is room for; and since there may be more by then,
 * one, two, four and so on in a row. */
unsigned redis_count_askers(struct context *context)
{
    if (context->doubt == REFUSALS_N) {
        return redis_group_room(context);
    }
    const struct store_charge *charge = &context->take->charges[context->doubtful_at];
    if (charge->source != STORE_COUNTED) {
        return UINT_MAX;
    }
    if (!charge->answer.is_allowed) {
        return 1;
    }
    int64_t room = charge->answer.remaining / charge->cost;
    int64_t least = INT64_C(1) << context->n_rounds;
    context->n_rounds += context->n_rounds < ROUNDS_MAX;
    return (unsigned)(room > least ? room : least);
}

/* What is remembered of a take that has waited. */
static struct finding find_again(struct context *context)
{
    struct redis_store *redis = context->store;
    return redis_find_refusals(redis, context->take, context->ahead.asked,
                               seam_now(redis->policies.seam));
}

/* A follower of a take that is over. @return whether it asks */
static bool let_go(struct context *context, const struct finding *found, bool is_asker,
                   unsigned n_rounds)
{
    struct redis_store *redis = context->store;
    struct finding finding = *found;
    struct context *asker = find_asker(redis, finding.doubt);
    if (finding.refused != 0) {
        stop_waiting(context);
        health_add(redis->policies.health, HEALTH_REFUSED_AGAIN, 1);
        redis_refuse_ahead(redis, context->take, &context->ahead, &context->sharding,
                           finding.refused);
        context_end(context);
        return false;
    }
    if (asker != NULL && !is_asker) {
        ring_remove(&context->place);
        ring_add(&asker->followers, &context->place);
        return false;
    }
    context->doubt = finding.doubt;
    context->doubtful_at = finding.at;
    context->n_rounds = n_rounds;
    go_on(context);
    return true;
}

static bool is_grouped(const struct context *context, const struct finding *finding)
{
    return context->group != REDIS_GROUPS && finding->refused == 0
           && finding->doubt == REFUSALS_N;
}

void redis_let_followers_go(struct context *context, unsigned n_askers)
{
    struct redis_store *redis = context->store;
    struct ring *followers = &context->followers;
    if (find_asker(redis, context->doubt) == context) {
        refusals_set_asker(redis->refusals, context->doubt, NULL);
    }
    bool has_answer = n_askers != UINT_MAX;
    struct context *leader = NULL;
    while (followers->next != followers) {
        struct context *first = CONTAINER_OF(followers->next, struct context, place);
        struct finding finding = find_again(first);
        bool is_asker = n_askers > 0;
        if (has_answer && is_grouped(first, &finding) && has_time(first)) {
            stop_waiting(first);
            leader = redis_group_add(leader, first, n_askers);
        } else if (let_go(first, &finding, is_asker, context->n_rounds)) {
            n_askers -= is_asker;
        }
    }
    if (leader != NULL) {
        ask_now(leader);
    }
}
