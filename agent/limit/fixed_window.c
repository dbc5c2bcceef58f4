/* One count a window: curr + cost <= limit. Windows are multiples of `per` since the
 * epoch, or follow the calendar. */
#include "agent/limit/limit.h"

struct window {
    int64_t number;
    int64_t end_us;
};

static int64_t per_us_of(const struct limit *limit)
{
    return limit->per_ticks * limit->tick_us;
}

static struct window window_numbered(const struct limit *limit, int64_t number)
{
    return (struct window){
        .number = number,
        .end_us = (number + 1) * per_us_of(limit),
    };
}

static struct window window_at(const struct limit *limit, int64_t us)
{
    if (limit->calendar == NULL) {
        return window_numbered(limit, us / per_us_of(limit));
    }
    struct window window = {0};
    window.number = calendar_find(limit->calendar, (struct instant){us},
                                  &window.end_us);
    return window;
}

/* How far the start of the state's window, which is not yet, lies ahead of `now_us`. */
static int64_t ahead_us(const struct limit *limit, const struct limit_state *state,
                        const struct window *window, int64_t now_us)
{
    if (limit->calendar == NULL) {
        return state->fixed.window * per_us_of(limit) - now_us;
    }
    bool is_next = window_at(limit, window->end_us).number == state->fixed.window;
    return is_next ? window->end_us - now_us : LIMIT_WAIT_US_MAX;
}

void fixed_window_align(const struct limit *limit, struct limit_state *state,
                        struct instant now)
{
    struct window window = window_at(limit, now.us);
    if (state->fixed.window > window.number
        && ahead_us(limit, state, &window, now.us) > LIMIT_CLOCK_SLACK_US) {
        state->fixed.window = window.number;
    }
}

void fixed_window_merge(struct limit_state *state, const struct limit_state *other)
{
    if (other->fixed.window == state->fixed.window) {
        state->fixed.count = limit_add_counts(state->fixed.count, other->fixed.count);
    } else if (other->fixed.window > state->fixed.window) {
        *state = *other;
    }
}

/* The window that counts at `now`, of an aligned state. */
static struct window current_window(const struct limit *limit,
                                    const struct limit_state *state, struct instant now)
{
    struct window window = window_at(limit, now.us);
    if (state->fixed.window <= window.number) {
        return window;
    }
    /* a moment before its start: taken to be its start */
    return limit->calendar == NULL ? window_numbered(limit, state->fixed.window)
                                   : window_at(limit, window.end_us);
}

bool fixed_window_settle(const struct limit *limit, struct limit_state *state,
                         struct instant now, const struct limit_correction *correction)
{
    int64_t current = current_window(limit, state, now).number;
    int64_t used = state->fixed.window >= current ? state->fixed.count : 0;
    int64_t change = limit_bound_change(used, correction->truth - correction->amount,
                                        2 * limit->size - used);
    if (correction->place != current || change == 0) {
        return false;
    }
    state->fixed.count = (uint32_t)(used + change);
    state->fixed.window = current;
    return true;
}

bool fixed_window_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer)
{
    struct window window = current_window(limit, state, now);
    int64_t used = state->fixed.window >= window.number ? state->fixed.count : 0;
    int64_t end_us = window.end_us - now.us;

    *answer = (struct limit_answer){
        .is_allowed = cost == 0 || used + cost <= limit->size,
        .window_end_us = end_us,
    };
    if (answer->is_allowed && cost > 0) {
        used += cost;
        state->fixed.count = (uint32_t)used;
        state->fixed.window = window.number;
    }
    answer->remaining = limit->size > used ? limit->size - used : 0;
    answer->reset_us = used > 0 ? end_us : 0;
    if (!answer->is_allowed) {
        answer->retry_us = cost > limit->size ? LIMIT_NEVER : end_us;
    }
    return answer->is_allowed;
}
