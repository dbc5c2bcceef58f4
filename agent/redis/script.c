#include <string.h>

#include "agent/redis/script_parts.h"

/* assemble.cmake numbers them so, too. */
_Static_assert(LIMIT_SLIDING_WINDOW == 0 && LIMIT_TOKEN_BUCKET == 1
                   && LIMIT_FIXED_WINDOW == 2 && LIMIT_LEAKY_BUCKET == 3
                   && LIMIT_SLIDING_LOG == 4,
               "scripts know algorithms by number");

enum {
    TAKES = 0,
    PEEKS = 1,
};

/* Of a limit in an argument. */
enum {
    FLAG_LENIENT = 1,
    FLAG_CALENDAR = 128,
};

uint8_t *script_put_byte(uint8_t *out, unsigned value)
{
    *out = (uint8_t)value;
    return out + 1;
}

uint8_t *script_put_number(uint8_t *out, int64_t value, unsigned n_bytes)
{
    ENSURE(value >= 0 && (n_bytes == 8 || value >> 8 * n_bytes == 0));
    for (unsigned i = 0; i < n_bytes; i++) {
        out[i] = (uint8_t)(value >> 8 * (n_bytes - 1 - i));
    }
    return out + n_bytes;
}

uint8_t *script_put_limit(uint8_t *out, const struct limit *limit, struct instant now,
                          unsigned flags)
{
    flags |= limit->calendar != NULL ? FLAG_CALENDAR : 0;
    out = script_put_byte(out, limit->algorithm);
    out = script_put_byte(out, flags);
    out = script_put_number(out, limit->requests, 4);
    out = script_put_number(out, limit->size, 4);
    out = script_put_number(out, limit->per_ticks, 4);
    out = script_put_number(out, limit->tick_us, 4);
    out = script_put_number(out, limit->max_delay_ticks, 4);
    if (limit->calendar != NULL) {
        int64_t starts[CALENDAR_UPCOMING];
        calendar_upcoming(limit->calendar, now, starts);
        for (unsigned i = 0; i < CALENDAR_UPCOMING; i++) {
            out = script_put_number(out, starts[i], 8);
        }
    }
    return out;
}

size_t script_encode_take(const struct store_take *take, uint8_t *out)
{
    ENSURE(take->n_charges > 0 && take->n_charges <= STORE_CHARGES_MAX);
    uint8_t *at = script_put_byte(out, take->is_peek ? PEEKS : TAKES);
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        at = script_put_limit(at, charge->limit, take->now,
                              charge->is_lenient ? FLAG_LENIENT : 0);
        at = script_put_byte(at, charge->tie);
        at = script_put_number(at, charge->cost, 4);
    }
    return (size_t)(at - out);
}

size_t script_encode_settlement(const struct store_settlement *settlement, uint8_t *out)
{
    const struct limit_correction *correction = &settlement->correction;
    uint8_t *at = script_put_limit(out, settlement->limit, settlement->now, 0);
    at = script_put_number(at, correction->place, 8);
    at = script_put_number(at, correction->amount, 4);
    at = script_put_number(at, correction->truth, 4);
    return (size_t)(at - out);
}

static size_t limit_bytes(const uint8_t *record)
{
    return (record[1] & FLAG_CALENDAR) != 0 ? SCRIPT_LIMIT_BYTES_MAX
                                            : SCRIPT_LIMIT_BYTES_MIN;
}

size_t script_encode_giving_back(const uint8_t *take, unsigned idx, int64_t place,
                                 int64_t amount, uint8_t *out)
{
    const uint8_t *record = take + 1;
    for (unsigned i = 0; i < idx; i++) {
        record += limit_bytes(record) + SCRIPT_CHARGE_MORE_BYTES;
    }
    memcpy(out, record, limit_bytes(record));
    uint8_t *at = script_put_number(out + limit_bytes(record), place, 8);
    at = script_put_number(at, amount, 4);
    at = script_put_number(at, 0, 4);
    return (size_t)(at - out);
}

void script_count_repairs(int64_t flags, struct script_repairs *repairs)
{
    repairs->n_values += (flags & SCRIPT_FLAG_REPAIRED_VALUE) != 0;
    repairs->n_ttls += (flags & SCRIPT_FLAG_REPAIRED_TTL) != 0;
}

static bool is_wait(int64_t number)
{
    return number >= SCRIPT_NEVER && number <= SCRIPT_EXACT_MAX;
}

bool script_is_flags(int64_t number, int64_t all)
{
    return (number & ~all) == 0;
}

int64_t script_to_wait(int64_t number)
{
    return number == SCRIPT_NEVER ? LIMIT_NEVER : number;
}

/* Remaining, reset and the window's end as they are answered for a charge. */
bool script_are_levels(const struct limit *limit, int64_t remaining, int64_t reset,
                       int64_t window_end)
{
    return remaining >= 0 && remaining <= limit->size && is_wait(reset)
           && window_end >= 0 && window_end <= SCRIPT_EXACT_MAX;
}

static bool decode_charge(const int64_t *numbers, bool is_peek,
                          struct store_charge *charge)
{
    enum {
        FLAGS,
        REMAINING,
        RESET,
        RETRY,
        WINDOW_END,
        DELAY,
        PLACE
    };
    int64_t flags = numbers[FLAGS];
    bool is_allowed = (flags & SCRIPT_FLAG_ALLOWED) != 0;
    bool is_charged = (flags & SCRIPT_FLAG_CHANGED) != 0;
    if (!script_is_flags(flags, SCRIPT_FLAG_ALLOWED | SCRIPT_FLAG_CHANGED
                                    | SCRIPT_FLAG_REPAIRED_VALUE
                                    | SCRIPT_FLAG_REPAIRED_TTL)
        || !script_are_levels(charge->limit, numbers[REMAINING], numbers[RESET],
                              numbers[WINDOW_END])
        || !is_wait(numbers[RETRY]) || (numbers[RETRY] == 0) != is_allowed
        || numbers[DELAY] < 0 || numbers[DELAY] > SCRIPT_EXACT_MAX || numbers[PLACE] < 0
        || numbers[PLACE] > SCRIPT_EXACT_MAX
        || (is_charged && (!is_allowed || is_peek))) {
        return false;
    }
    charge->is_charged = is_charged;
    charge->place = numbers[PLACE];
    charge->answer = (struct limit_answer){
        .is_allowed = is_allowed,
        .remaining = numbers[REMAINING],
        .reset_us = script_to_wait(numbers[RESET]),
        .retry_us = script_to_wait(numbers[RETRY]),
        .window_end_us = numbers[WINDOW_END],
        .delay_us = numbers[DELAY],
    };
    return true;
}

/* What the counter holds, beside what the peek would have been answered. */
static bool decode_held(const int64_t *numbers, const struct store_charge *charge,
                        struct limit_answer *held)
{
    if (!script_are_levels(charge->limit, numbers[0], numbers[1], numbers[2])) {
        return false;
    }
    *held = charge->answer;
    held->remaining = numbers[0];
    held->reset_us = script_to_wait(numbers[1]);
    held->window_end_us = numbers[2];
    return true;
}

/* Whether the verdict is the one that the charges have. */
static bool is_consistent(const struct store_take *take)
{
    bool is_allowed = true;
    bool is_charged = false;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        is_allowed = is_allowed && (charge->answer.is_allowed || charge->is_lenient);
        is_charged = is_charged || charge->is_charged;
    }
    return take->is_allowed == is_allowed && (is_allowed || !is_charged);
}

enum script_status script_decode_take(const int64_t *numbers, size_t n_numbers,
                                      struct store_take *take,
                                      struct script_repairs *repairs)
{
    size_t stride = take->is_peek ? SCRIPT_PEEK_NUMBERS : SCRIPT_CHARGE_NUMBERS;
    if (n_numbers != 1 + take->n_charges * stride) {
        return SCRIPT_BAD_LENGTH;
    }
    if (!script_is_flags(numbers[0], SCRIPT_FLAG_ALLOWED)) {
        return SCRIPT_BAD_NUMBER;
    }
    take->is_allowed = numbers[0] != 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const int64_t *at = numbers + 1 + i * stride;
        struct store_charge *charge = &take->charges[i];
        if (!decode_charge(at, take->is_peek, charge)
            || (take->is_peek
                && !decode_held(at + SCRIPT_CHARGE_NUMBERS, charge, &take->held[i]))) {
            return SCRIPT_BAD_NUMBER;
        }
    }
    if (!is_consistent(take)) {
        return SCRIPT_BAD_NUMBER;
    }
    for (unsigned i = 0; i < take->n_charges; i++) {
        script_count_repairs(numbers[1 + i * stride], repairs);
    }
    return SCRIPT_OK;
}

enum script_status script_decode_settlements(const int64_t *numbers, size_t n_numbers,
                                             size_t n, unsigned *n_changed,
                                             struct script_repairs *repairs)
{
    if (n_numbers != n) {
        return SCRIPT_BAD_LENGTH;
    }
    for (size_t i = 0; i < n; i++) {
        if (!script_is_flags(numbers[i],
                             SCRIPT_FLAG_CHANGED | SCRIPT_FLAG_REPAIRED_VALUE)) {
            return SCRIPT_BAD_NUMBER;
        }
    }
    *n_changed = 0;
    for (size_t i = 0; i < n; i++) {
        *n_changed += (numbers[i] & SCRIPT_FLAG_CHANGED) != 0;
        script_count_repairs(numbers[i], repairs);
    }
    return SCRIPT_OK;
}
