#include "agent/decide/retry.h"

#include <string.h>

#include <sodium.h>

_Static_assert((int)RETRY_SECRET_BYTES == (int)crypto_shorthash_KEYBYTES, "its key");

static int64_t jitter_us(const struct retry_jitter *jitter,
                         const struct store_charge *charge, struct instant now)
{
    int64_t most_us = charge->answer.retry_us / 1000 * jitter->permille;
    most_us = most_us < RETRY_JITTER_US_MAX ? most_us : RETRY_JITTER_US_MAX;
    if (most_us <= 0) {
        return 0;
    }
    struct {
        uint8_t key_hash[crypto_shorthash_BYTES];
        uint8_t limit_id[STORE_LIMIT_ID_BYTES];
        int64_t window;
    } drawn;
    uint64_t hash = 0;
    (void)crypto_shorthash(drawn.key_hash, charge->key, charge->key_bytes,
                           jitter->secret);
    memcpy(drawn.limit_id, charge->limit_id, sizeof(drawn.limit_id));
    drawn.window = now.us / (charge->limit->per_ticks * charge->limit->tick_us);
    (void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)&drawn, sizeof(drawn),
                           jitter->secret);
    /* A share of the wait: a remainder would jump about as the wait goes down. */
    return (int64_t)((uint64_t)(most_us + 1) * (hash >> 32) >> 32);
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
