#include "agent/limit/limit.h"

int64_t limit_ticks_to_us(const struct limit *limit, int64_t ticks)
{
    return ticks > LIMIT_WAIT_US_MAX / limit->tick_us ? LIMIT_WAIT_US_MAX
                                                      : ticks * limit->tick_us;
}

void limit_align(const struct limit *limit, struct limit_state *state,
                 struct instant now)
{
    switch (limit->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        sliding_window_align(limit, state, now);
        return;
    case LIMIT_TOKEN_BUCKET:
    case LIMIT_LEAKY_BUCKET:
        token_bucket_align(limit, state, now);
        return;
    case LIMIT_FIXED_WINDOW:
        fixed_window_align(limit, state, now);
        return;
    case LIMIT_SLIDING_LOG:
        break;
    }
    NEVER("algorithm");
}

bool limit_take(const struct limit *limit, struct limit_state *state,
                struct instant now, int64_t cost, struct limit_answer *answer)
{
    switch (limit->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return sliding_window_take(limit, state, now, cost, answer);
    case LIMIT_TOKEN_BUCKET:
        return token_bucket_take(limit, state, now, cost, answer);
    case LIMIT_FIXED_WINDOW:
        return fixed_window_take(limit, state, now, cost, answer);
    case LIMIT_LEAKY_BUCKET:
        return leaky_bucket_take(limit, state, now, cost, answer);
    case LIMIT_SLIDING_LOG:
        break;
    }
    NEVER("algorithm");
}

void limit_merge(const struct limit *limit, struct limit_state *state,
                 const struct limit_state *other)
{
    switch (limit->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        sliding_window_merge(state, other);
        return;
    case LIMIT_TOKEN_BUCKET:
    case LIMIT_LEAKY_BUCKET:
        token_bucket_merge(limit, state, other);
        return;
    case LIMIT_FIXED_WINDOW:
        fixed_window_merge(state, other);
        return;
    case LIMIT_SLIDING_LOG:
        break;
    }
    NEVER("algorithm");
}

static bool is_bucket(const struct limit *limit)
{
    return limit->algorithm == LIMIT_TOKEN_BUCKET
           || limit->algorithm == LIMIT_LEAKY_BUCKET;
}

void limit_forget(const struct limit *limit, int64_t cost, struct limit_answer *answer)
{
    int64_t remaining = answer->remaining + cost;
    answer->remaining = remaining < limit->size ? remaining : limit->size;
    if (limit->algorithm != LIMIT_LEAKY_BUCKET && remaining >= limit->size) {
        answer->reset_us = 0;
    } else if (is_bucket(limit) && limit->requests > 0
               && answer->reset_us <= LIMIT_WAIT_US_MAX - limit->tick_us) {
        int64_t ticks = cost * limit->per_ticks / limit->requests;
        int64_t reset_us = answer->reset_us - limit_ticks_to_us(limit, ticks);
        answer->reset_us = reset_us > 0 ? reset_us : 0;
    }
}

int64_t limit_place(const struct limit *limit, const struct limit_state *state)
{
    switch (limit->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return state->sliding.window;
    case LIMIT_FIXED_WINDOW:
        return state->fixed.window;
    case LIMIT_TOKEN_BUCKET:
    case LIMIT_LEAKY_BUCKET:
        return state->bucket.at_ticks;
    case LIMIT_SLIDING_LOG:
        break;
    }
    NEVER("algorithm");
}

bool limit_settle(const struct limit *limit, struct limit_state *state,
                  struct instant now, const struct limit_correction *correction)
{
    switch (limit->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return sliding_window_settle(limit, state, now, correction);
    case LIMIT_FIXED_WINDOW:
        return fixed_window_settle(limit, state, now, correction);
    case LIMIT_TOKEN_BUCKET:
    case LIMIT_LEAKY_BUCKET:
        return token_bucket_settle(limit, state, now, correction);
    case LIMIT_SLIDING_LOG:
        break;
    }
    NEVER("algorithm");
}

/* A bucket's w is the time to fill it, where that is a whole number of seconds (and not
 * beyond a thousand times `per`, so that products with it stay exact); else the least
 * whole w in which at least one request is refilled. */
static void describe_bucket(const struct limit *limit, struct limit_policy *policy)
{
    enum {
        PERIODS_MAX = 1000
    };
    int64_t per_us = limit->per_ticks * limit->tick_us;
    /* size x per / requests in two parts: as one product it would not fit 64 bits. */
    int64_t periods = limit->size / limit->requests;
    int64_t part_ticks = limit->size % limit->requests * limit->per_ticks;
    if (periods <= PERIODS_MAX && part_ticks % limit->requests == 0) {
        int64_t fill_us = periods * per_us
                          + part_ticks / limit->requests * limit->tick_us;
        if (fill_us >= US_PER_S && fill_us % US_PER_S == 0) {
            policy->quota = limit->size;
            policy->window_s = fill_us / US_PER_S;
            return;
        }
    }
    policy->window_s = us_to_s_up(div_up(per_us, limit->requests));
    policy->quota = policy->window_s * US_PER_S * limit->requests / per_us;
    policy->burst = limit->size;
}

/* Days of 23 and 25 hours, months of 28 to 31 days. */
static bool has_uneven_windows(const struct limit *limit)
{
    return limit->calendar != NULL && !calendar_is_even(limit->calendar);
}

void limit_describe(const struct limit *limit, struct limit_policy *policy)
{
    *policy = (struct limit_policy){.quota = limit->size};
    if (is_bucket(limit) && limit->requests > 0) {
        describe_bucket(limit, policy);
        return;
    }
    int64_t per_us = limit->per_ticks * limit->tick_us;
    bool is_true = per_us % US_PER_S == 0 && !has_uneven_windows(limit);
    policy->window_s = is_true ? per_us / US_PER_S : 0;
}

void limit_advertise(const struct limit *limit, const struct limit_policy *policy,
                     const struct limit_answer *answer, int64_t *available,
                     int64_t *effective_s)
{
    *available = answer->remaining;
    if (!answer->is_allowed && answer->retry_us != LIMIT_NEVER) {
        *effective_s = us_to_s_up(answer->retry_us);
        *effective_s = *effective_s > 1 ? *effective_s : 1;
        if (policy->window_s > 0 && *effective_s < policy->window_s) {
            int64_t most = *effective_s * policy->quota / policy->window_s;
            *available = *available < most ? *available : most;
        }
        return;
    }
    if (is_bucket(limit) && policy->quota > 0) {
        *effective_s = div_up(*available * policy->window_s, policy->quota);
    } else {
        *effective_s = us_to_s_up(answer->window_end_us);
    }
    *effective_s = *effective_s > 1 ? *effective_s : 1;
}
