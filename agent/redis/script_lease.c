#include <string.h>

#include "agent/redis/script_parts.h"

bool script_may_lease(const struct limit *limit)
{
    return limit->algorithm == LIMIT_SLIDING_WINDOW
           || limit->algorithm == LIMIT_TOKEN_BUCKET
           || limit->algorithm == LIMIT_FIXED_WINDOW;
}

/* Whose call it is, and how long what it leaves is kept. */
static uint8_t *put_host(uint8_t *out, const uint8_t *host, int64_t kept_ms)
{
    ENSURE(kept_ms > 0 && kept_ms <= SCRIPT_KEPT_MS_MAX);
    memcpy(out, host, SCRIPT_HOST_BYTES);
    return script_put_number(out + SCRIPT_HOST_BYTES, kept_ms, 4);
}

static uint8_t *put_amount(uint8_t *out, int64_t amount)
{
    ENSURE(amount <= LIMIT_AMOUNT_MAX);
    return script_put_number(out, amount, 4);
}

static uint8_t *put_lease_order(uint8_t *out, const struct script_lease_order *order,
                                struct instant now)
{
    ENSURE(script_may_lease(order->limit) && order->divisor > 0
           && order->n_reports <= SCRIPT_LEASE_REPORTS_MAX);
    out = script_put_limit(out, order->limit, now, 0);
    out = put_amount(out, order->want);
    out = put_amount(out, order->cap);
    out = script_put_number(out, order->divisor, 2);
    out = script_put_number(out, order->new_seq, 4);
    out = script_put_byte(out, order->n_reports);
    for (unsigned i = 0; i < order->n_reports; i++) {
        out = script_put_number(out, order->reports[i].seq, 4);
        out = put_amount(out, order->reports[i].spent);
    }
    return out;
}

size_t script_encode_lease(const uint8_t *host, int64_t ttl_ms, struct instant now,
                           const struct script_lease_order *orders, unsigned n_orders,
                           uint8_t *out)
{
    ENSURE(n_orders > 0 && n_orders <= SCRIPT_LEASE_KEYS_MAX);
    uint8_t *at = put_host(out, host, ttl_ms);
    for (unsigned i = 0; i < n_orders; i++) {
        at = put_lease_order(at, &orders[i], now);
    }
    return (size_t)(at - out);
}

static bool decode_lease(const int64_t *numbers, const struct script_lease_order *order,
                         struct script_lease_reply *reply)
{
    enum {
        FLAGS,
        GRANT,
        PLACE,
        REMAINING,
        RESET,
        WINDOW_END,
        OUT,
        ACCEPTED
    };
    const int64_t grant = numbers[GRANT];
    const int64_t place = numbers[PLACE];
    const int64_t out_max = SCRIPT_RECORDS_MAX * LIMIT_AMOUNT_MAX;
    if (!script_is_flags(numbers[FLAGS], SCRIPT_FLAGS_REPAIRED)
        || (grant != 0 && (grant < SCRIPT_LEASE_LEAST || grant > order->want))
        || place < 0 || place > (grant != 0 ? SCRIPT_EXACT_MAX : 0)
        || !script_are_levels(order->limit, numbers[REMAINING], numbers[RESET],
                              numbers[WINDOW_END])
        || numbers[OUT] < grant || numbers[OUT] > out_max
        || !script_is_flags(numbers[ACCEPTED], (INT64_C(1) << order->n_reports) - 1)) {
        return false;
    }
    *reply = (struct script_lease_reply){
        .grant = grant,
        .place = place,
        .remaining = numbers[REMAINING],
        .reset_us = script_to_wait(numbers[RESET]),
        .window_end_us = numbers[WINDOW_END],
        .out = numbers[OUT],
        .accepted = (unsigned)numbers[ACCEPTED],
    };
    return true;
}

enum script_status script_decode_lease(const int64_t *numbers, size_t n_numbers,
                                       const struct script_lease_order *orders,
                                       unsigned n_orders,
                                       struct script_lease_reply *replies,
                                       struct script_repairs *repairs)
{
    if (n_numbers != (size_t)n_orders * SCRIPT_LEASE_NUMBERS) {
        return SCRIPT_BAD_LENGTH;
    }
    for (size_t i = 0; i < n_orders; i++) {
        if (!decode_lease(numbers + i * SCRIPT_LEASE_NUMBERS, &orders[i],
                          &replies[i])) {
            return SCRIPT_BAD_NUMBER;
        }
    }
    for (size_t i = 0; i < n_orders; i++) {
        script_count_repairs(numbers[i * SCRIPT_LEASE_NUMBERS], repairs);
    }
    return SCRIPT_OK;
}

size_t script_encode_sync(const uint8_t *host, int64_t keep_ms, struct instant now,
                          const struct script_sync_order *orders, unsigned n_orders,
                          uint8_t *out)
{
    ENSURE(n_orders > 0 && n_orders <= SCRIPT_SYNC_KEYS_MAX);
    uint8_t *at = put_host(out, host, keep_ms);
    for (unsigned i = 0; i < n_orders; i++) {
        ENSURE(script_may_lease(orders[i].limit));
        at = script_put_limit(at, orders[i].limit, now, 0);
        at = script_put_number(at, orders[i].seq, 4);
        at = put_amount(at, orders[i].delta);
    }
    return (size_t)(at - out);
}

/* What a script takes for a state: so much in the shortest ticks. */
#define LEVEL_MAX (2 * LIMIT_AMOUNT_MAX * INT64_C(1000000))

static bool is_count(int64_t number)
{
    return number >= 0 && number <= 2 * LIMIT_AMOUNT_MAX;
}

/* A number of windows or ticks since the epoch. The script leaves none that lies further
 * ahead than clocks differ, but a calendar's, whose starts come from the hosts' clocks. */
static bool is_stamp(const struct limit *limit, int64_t number, int64_t length_us,
                     struct instant now)
{
    if (number < 0 || number > SCRIPT_EXACT_MAX) {
        return false;
    }
    return limit->calendar != NULL
           || number <= (now.us + LIMIT_CLOCK_SLACK_US) / length_us;
}

static bool decode_state(const int64_t *numbers, const struct limit *limit,
                         struct instant now, struct limit_state *state)
{
    const int64_t per_us = limit->per_ticks * limit->tick_us;
    *state = (struct limit_state){0};
    if (limit->algorithm == LIMIT_SLIDING_WINDOW) {
        state->sliding.prev = (uint32_t)numbers[0];
        state->sliding.curr = (uint32_t)numbers[1];
        state->sliding.window = numbers[2];
        return is_count(numbers[0]) && is_count(numbers[1])
               && is_stamp(limit, numbers[2], per_us, now);
    }
    if (limit->algorithm == LIMIT_FIXED_WINDOW) {
        state->fixed.count = (uint32_t)numbers[0];
        state->fixed.window = numbers[1];
        return is_count(numbers[0]) && is_stamp(limit, numbers[1], per_us, now)
               && numbers[2] == 0;
    }
    state->bucket.level = numbers[0];
    state->bucket.at_ticks = numbers[1];
    return numbers[0] >= 0 && numbers[0] <= LEVEL_MAX
           && is_stamp(limit, numbers[1], limit->tick_us, now) && numbers[2] == 0;
}

/* A delta of 0 is never charged. */
static bool decode_sync(const int64_t *numbers, const struct script_sync_order *order,
                        struct instant now, struct script_sync_reply *reply)
{
    reply->now = now;
    reply->is_charged = (numbers[0] & SCRIPT_FLAG_CHANGED) != 0;
    return script_is_flags(numbers[0], SCRIPT_FLAG_CHANGED | SCRIPT_FLAGS_REPAIRED)
           && (!reply->is_charged || order->delta > 0)
           && decode_state(numbers + 1, order->limit, now, &reply->state);
}

enum script_status script_decode_sync(const int64_t *numbers, size_t n_numbers,
                                      const struct script_sync_order *orders,
                                      unsigned n_orders,
                                      struct script_sync_reply *replies,
                                      struct script_repairs *repairs)
{
    if (n_numbers != 1 + (size_t)n_orders * SCRIPT_SYNC_NUMBERS) {
        return SCRIPT_BAD_LENGTH;
    }
    if (numbers[0] <= 0 || numbers[0] > SCRIPT_EXACT_MAX) {
        return SCRIPT_BAD_NUMBER;
    }
    const struct instant now = {numbers[0]};
    const int64_t *first = numbers + 1;
    for (size_t i = 0; i < n_orders; i++) {
        if (!decode_sync(first + i * SCRIPT_SYNC_NUMBERS, &orders[i], now,
                         &replies[i])) {
            return SCRIPT_BAD_NUMBER;
        }
    }
    for (size_t i = 0; i < n_orders; i++) {
        script_count_repairs(first[i * SCRIPT_SYNC_NUMBERS], repairs);
    }
    return SCRIPT_OK;
}
