/* Two counts, the window before weighted by what of it the last `per` still covers:
 * prev x (W - e) + (curr + cost) x W <= limit x W, e = ticks into the window. */
#include "agent/limit/limit.h"

void sliding_window_align(const struct limit *limit, struct limit_state *state,
                          struct instant now)
{
    /* Not in ticks: a tick may be longer than clocks differ. */
    int64_t per_us = limit->per_ticks * limit->tick_us;
    if (state->sliding.window * per_us - now.us > LIMIT_CLOCK_SLACK_US) {
        state->sliding.window = now.us / per_us;
    }
}

/* Bring the two counts to a window that is not before theirs. */
static void turn(struct limit_state *state, int64_t window)
{
    if (window == state->sliding.window) {
        return;
    }
    bool is_next = window == state->sliding.window + 1;
    state->sliding.prev = is_next ? state->sliding.curr : 0;
    state->sliding.curr = 0;
    state->sliding.window = window;
}

/* Bring the two counts to the window that `now_ticks` is in; returns e. Mostly they are
 * there already, which is seen without a division. */
static int64_t roll(const struct limit *limit, struct limit_state *state,
                    int64_t now_ticks)
{
    int64_t into = now_ticks - state->sliding.window * limit->per_ticks;
    if (into < 0) {
        return 0; /* a moment before its start: taken to be its start */
    }
    if (into < limit->per_ticks) {
        return into;
    }
    turn(state, now_ticks / limit->per_ticks);
    return now_ticks % limit->per_ticks;
}

void sliding_window_merge(struct limit_state *state, const struct limit_state *other)
{
    struct limit_state more = *other;
    if (more.sliding.window < state->sliding.window) {
        turn(&more, state->sliding.window);
    } else {
        turn(state, more.sliding.window);
    }
    state->sliding.prev = limit_add_counts(state->sliding.prev, more.sliding.prev);
    state->sliding.curr = limit_add_counts(state->sliding.curr, more.sliding.curr);
}

/* The tick of a window from which `weighed x (W - tick) <= room x W` holds. */
static int64_t tick_of_room(int64_t weighed, int64_t room, int64_t per)
{
    if (weighed <= room) {
        return 0;
    }
    return per - room * per / weighed;
}

/* Ticks from `into` until `cost` alone would pass; cost is at most the limit. */
static int64_t ticks_to_retry(const struct limit *limit,
                              const struct limit_state *state, int64_t into,
                              int64_t cost)
{
    int64_t per = limit->per_ticks;
    int64_t prev = state->sliding.prev;
    int64_t curr = state->sliding.curr;
    int64_t room = limit->size - curr - cost;
    if (room >= 0) {
        return tick_of_room(prev, room, per) - into;
    }
    return per - into + tick_of_room(curr, limit->size - cost, per);
}

bool sliding_window_take(const struct limit *limit, struct limit_state *state,
                         struct instant now, int64_t cost, struct limit_answer *answer)
{
    int64_t per = limit->per_ticks;
    struct limit_state rolled = *state;
    int64_t into = roll(limit, &rolled, now.us / limit->tick_us);
    int64_t used = rolled.sliding.prev * (per - into) + rolled.sliding.curr * per;
    int64_t size = limit->size * per;

    answer->is_allowed = cost == 0 || used + cost * per <= size;
    if (answer->is_allowed && cost > 0) {
        rolled.sliding.curr += (uint32_t)cost;
        used += cost * per;
        *state = rolled;
    }
    answer->remaining = size > used ? (size - used) / per : 0;

    int64_t start_us = rolled.sliding.window * per * limit->tick_us;
    int64_t per_us = per * limit->tick_us;
    answer->window_end_us = start_us + per_us - now.us;
    answer->reset_us = rolled.sliding.curr > 0   ? answer->window_end_us + per_us
                       : rolled.sliding.prev > 0 ? answer->window_end_us
                                                 : 0;
    answer->retry_us = 0;
    answer->delay_us = 0;
    if (!answer->is_allowed) {
        int64_t at_us = start_us + into * limit->tick_us;
        answer->retry_us = cost > limit->size
                               ? LIMIT_NEVER
                               : at_us - now.us
                                     + ticks_to_retry(limit, &rolled, into, cost)
                                           * limit->tick_us;
    }
    return answer->is_allowed;
}

bool sliding_window_settle(const struct limit *limit, struct limit_state *state,
                           struct instant now,
                           const struct limit_correction *correction)
{
    int64_t per = limit->per_ticks;
    struct limit_state rolled = *state;
    int64_t into = roll(limit, &rolled, now.us / limit->tick_us);
    int64_t used = rolled.sliding.prev * (per - into) + rolled.sliding.curr * per;
    bool is_curr = correction->place == rolled.sliding.window;
    if (!is_curr && correction->place != rolled.sliding.window - 1) {
        return false;
    }
    uint32_t *count = is_curr ? &rolled.sliding.curr : &rolled.sliding.prev;
    int64_t weight = is_curr ? per : per - into;
    int64_t change = limit_bound_change(*count, correction->truth - correction->amount,
                                        (2 * limit->size * per - used) / weight);
    if (change == 0) {
        return false;
    }
    *count = (uint32_t)(*count + change);
    *state = rolled;
    return true;
}
