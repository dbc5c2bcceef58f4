#include "agent/decide/retry.h"

#include <string.h>

#include <sodium.h>

_Static_assert((int)RETRY_SECRET_BYTES == (int)crypto_shorthash_KEYBYTES, "its key");
_Static_assert(sizeof(uint64_t) == crypto_shorthash_BYTES, "one word");

/* Uniform over keys, since the hash is keyed; each window moves every key by the same
 * odd number (the golden ratio of 2^64), so that nobody keeps a bad draw. */
static uint64_t draw(const struct retry_jitter *jitter,
                     const struct store_charge *charge, struct instant now)
{
    int64_t window = now.us / (charge->limit->per_ticks * charge->limit->tick_us);
    uint64_t hash = 0;
    uint64_t limit_id = 0;
    (void)crypto_shorthash((uint8_t *)&hash, charge->key, charge->key_bytes,
                           jitter->secret);
    memcpy(&limit_id, charge->limit_id, sizeof(limit_id));
    return (hash ^ limit_id) + (uint64_t)window * UINT64_C(0x9e3779b97f4a7c15);
}

static int64_t jitter_us(const struct retry_jitter *jitter,
                         const struct store_charge *charge, struct instant now)
{
    int64_t most_us = charge->answer.retry_us / 1000 * jitter->permille;
    most_us = most_us < RETRY_JITTER_US_MAX ? most_us : RETRY_JITTER_US_MAX;
    if (most_us <= 0) {
        return 0;
    }
    /* A share of the wait: a remainder would jump about as the wait goes down. */
    return (int64_t)((uint64_t)(most_us + 1) * (draw(jitter, charge, now) >> 32) >> 32);
}

int64_t retry_after_s(const struct retry_jitter *jitter,
                      const struct store_charge *charge, struct instant now)
{
    if (charge->answer.retry_us == LIMIT_NEVER) {
        return 0;
    }
    int64_t wait_us = charge->answer.retry_us + jitter_us(jitter, charge, now);
    int64_t wait_s = us_to_s_up(wait_us);
    return wait_s > 1 ? wait_s : 1;
}
