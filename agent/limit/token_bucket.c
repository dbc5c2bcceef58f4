/* The bucket is kept by what is used, not by what is left: `level` is used tokens x W
 * and falls by `requests` each tick, so that all of it is whole numbers. */
#include "agent/limit/limit.h"

static int64_t to_ticks(const struct limit *limit, struct instant at)
{
    return at.us / limit->tick_us;
}

void token_bucket_align(const struct limit *limit, struct limit_state *state,
                        struct instant now)
{
    /* Not in ticks: a tick may be longer than clocks differ. */
    int64_t ahead_us = state->bucket.at_ticks * limit->tick_us - now.us;
    if (ahead_us > LIMIT_CLOCK_SLACK_US) {
        state->bucket.at_ticks = to_ticks(limit, now);
    }
}

/* At a tick that is not before the state's. */
static int64_t level_at(const struct limit *limit, const struct limit_state *state,
                        int64_t at)
{
    int64_t level = state->bucket.level;
    if (limit->requests == 0) {
        return level;
    }
    /* Cut first: elapsed x requests would not be exact after a long time. */
    int64_t elapsed = at - state->bucket.at_ticks;
    int64_t until_empty = div_up(level, limit->requests);
    return elapsed >= until_empty ? 0 : level - elapsed * limit->requests;
}

int64_t token_bucket_level_now(const struct limit *limit,
                               const struct limit_state *state, struct instant now,
                               int64_t *at)
{
    *at = to_ticks(limit, now);
    if (*at < state->bucket.at_ticks) {
        *at = state->bucket.at_ticks;
    }
    return level_at(limit, state, *at);
}

void token_bucket_merge(const struct limit *limit, struct limit_state *state,
                        const struct limit_state *other)
{
    int64_t most = 2 * LIMIT_AMOUNT_MAX * limit->per_ticks;
    int64_t at = state->bucket.at_ticks > other->bucket.at_ticks
                     ? state->bucket.at_ticks
                     : other->bucket.at_ticks;
    int64_t level = level_at(limit, state, at) + level_at(limit, other, at);
    state->bucket.level = level < most ? level : most;
    state->bucket.at_ticks = at;
}

/* What of `amount`, taken at tick `from`, has not drained by tick `to`, x W. */
static int64_t undrained(const struct limit *limit, int64_t amount, int64_t from,
                         int64_t to)
{
    struct limit_state taken = {.bucket = {amount * limit->per_ticks, from}};
    return level_at(limit, &taken, to > from ? to : from);
}

bool token_bucket_settle(const struct limit *limit, struct limit_state *state,
                         struct instant now, const struct limit_correction *correction)
{
    int64_t per = limit->per_ticks;
    int64_t at = 0;
    int64_t level = token_bucket_level_now(limit, state, now, &at);
    int64_t change = (correction->truth - correction->amount) * per;
    if (change < 0) {
        int64_t left = undrained(limit, correction->amount, correction->place, at);
        left = left < level ? left : level;
        change = change > -left ? change : -left;
    } else {
        int64_t room = 2 * limit->size - div_up(level, per);
        room = room > 0 ? room * per : 0;
        change = change < room ? change : room;
    }
    if (change == 0) {
        return false;
    }
    state->bucket.level = level + change;
    state->bucket.at_ticks = at;
    return true;
}

bool token_bucket_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer)
{
    int64_t per = limit->per_ticks;
    int64_t at = 0;
    int64_t level = token_bucket_level_now(limit, state, now, &at);
    bool fits = level + cost * per <= limit->size * per;
    answer->is_allowed = cost == 0 || fits;
    if (answer->is_allowed && cost > 0) {
        level += cost * per;
        state->bucket.level = level;
        state->bucket.at_ticks = at;
    }
    int64_t free_level = limit->size * per - level;
    answer->remaining = free_level > 0 ? free_level / per : 0;
    answer->window_end_us = 0;
    answer->retry_us = 0;
    answer->delay_us = 0;
    if (limit->requests == 0) {
        answer->reset_us = level > 0 ? LIMIT_NEVER : 0;
        answer->retry_us = answer->is_allowed ? 0 : LIMIT_NEVER;
        return answer->is_allowed;
    }
    int64_t since_tick_us = now.us - at * limit->tick_us;
    int64_t reset_ticks = div_up(level, limit->requests);
    answer->reset_us = level > 0 ? limit_ticks_to_us(limit, reset_ticks) - since_tick_us
                                 : 0;
    if (!answer->is_allowed) {
        int64_t excess = level - (limit->size - cost) * per;
        int64_t wait_ticks = div_up(excess, limit->requests);
        answer->retry_us = cost > limit->size
                               ? LIMIT_NEVER
                               : limit_ticks_to_us(limit, wait_ticks) - since_tick_us;
    }
    return answer->is_allowed;
}
