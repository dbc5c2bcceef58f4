/**
 * @file agent/redis/script_parts.h  What arguments and replies of all scripts are made of;
 *       for script*.c.
 */
#ifndef AGENT_REDIS_SCRIPT_PARTS_H
#define AGENT_REDIS_SCRIPT_PARTS_H

#include "agent/redis/script.h"

#define SCRIPT_NEVER     INT64_C(-1) /* LIMIT_NEVER, in a reply */
#define SCRIPT_EXACT_MAX ((INT64_C(1) << 53) - 1)

/* Of a counter in a reply. */
enum {
    SCRIPT_FLAG_ALLOWED = 1,
    SCRIPT_FLAG_CHANGED = 2,
    SCRIPT_FLAG_REPAIRED_VALUE = 4,
    SCRIPT_FLAG_REPAIRED_TTL = 8,
    SCRIPT_FLAGS_REPAIRED = SCRIPT_FLAG_REPAIRED_VALUE | SCRIPT_FLAG_REPAIRED_TTL,
};

/** Each answers what is behind what it wrote. */
uint8_t *script_put_byte(uint8_t *out, unsigned value);
uint8_t *script_put_number(uint8_t *out, int64_t value, unsigned n_bytes);
/** @param flags  beside those that the limit has itself */
uint8_t *script_put_limit(uint8_t *out, const struct limit *limit, struct instant now,
                          unsigned flags);

/** Whether a number has no other bits than those of `all`. */
bool script_is_flags(int64_t number, int64_t all);
/** Add what the flags of a charge, an order or an exchange say was repaired. */
void script_count_repairs(int64_t flags, struct script_repairs *repairs);

/** Whether a counter of that limit may have these. */
bool script_are_levels(const struct limit *limit, int64_t remaining, int64_t reset,
                       int64_t window_end);

/** A wait of a reply as the store says it. */
int64_t script_to_wait(int64_t number);

#endif
