/* A token bucket's level, read as a queue: what is allowed is held back until all before
 * it has drained, and nothing is held back for longer than D = max_delay:
 * level + (cost - 1) x W <= requests x D. */
#include "agent/limit/limit.h"

int64_t limit_leaky_size(const struct limit *limit)
{
    return limit->requests > 0
               ? limit->requests * limit->max_delay_ticks / limit->per_ticks + 1
               : 0;
}

/* Ticks in which a level above `room` falls to it. */
static int64_t ticks_to_fall(const struct limit *limit, int64_t level, int64_t room)
{
    return level > room ? div_up(level - room, limit->requests) : 0;
}

/* What a limit of 0 says: nothing passes, nothing drains. */
static bool refuse_all(int64_t level, int64_t cost, struct limit_answer *answer)
{
    *answer = (struct limit_answer){
        .is_allowed = cost == 0,
        .reset_us = level > 0 ? LIMIT_NEVER : 0,
        .retry_us = cost == 0 ? 0 : LIMIT_NEVER,
    };
    return answer->is_allowed;
}

bool leaky_bucket_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer)
{
    int64_t at = 0;
    int64_t level = token_bucket_level_now(limit, state, now, &at);
    if (limit->requests == 0) {
        return refuse_all(level, cost, answer);
    }
    int64_t per = limit->per_ticks;
    int64_t most = limit->requests * limit->max_delay_ticks;
    int64_t since_tick_us = now.us - at * limit->tick_us;

    *answer = (struct limit_answer){
        .is_allowed = cost == 0 || level + (cost - 1) * per <= most,
    };
    if (!answer->is_allowed) {
        int64_t ticks = ticks_to_fall(limit, level, most - (cost - 1) * per);
        answer->retry_us = cost > limit->size
                               ? LIMIT_NEVER
                               : limit_ticks_to_us(limit, ticks) - since_tick_us;
    } else if (cost > 0) {
        answer->delay_us = limit_ticks_to_us(limit, ticks_to_fall(limit, level, 0));
        level += cost * per;
        state->bucket.level = level;
        state->bucket.at_ticks = at;
    }
    answer->remaining = level <= most ? (most - level) / per + 1 : 0;
    answer->reset_us = level > 0
                           ? limit_ticks_to_us(limit, ticks_to_fall(limit, level, 0))
                                 - since_tick_us
                           : 0;
    return answer->is_allowed;
}
