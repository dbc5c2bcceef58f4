/**
 * @file agent/decide/retry.h  When a refused client is told to come back.
 *
 * Model:     the least wait, rounded up to whole seconds, plus jitter: a share of the wait
 *            that is only ever added, the same for one key in one window, so that a client
 *            that asks again does not draw again.
 * Ownership: none.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef AGENT_DECIDE_RETRY_H
#define AGENT_DECIDE_RETRY_H

#include <stdint.h>

#include "agent/store/store.h"

enum {
    RETRY_SECRET_BYTES = 16
};

/** The longest wait that jitter adds. */
#define RETRY_JITTER_US_MAX (30 * US_PER_S)

struct retry_jitter {
    int32_t permille; /* of the wait, 0 to 1000 */
    uint8_t secret[RETRY_SECRET_BYTES];
};

/**
 * The value of Retry-After for a refused charge.
 *
 * @return seconds, at least 1 (clients take 0 for "no value"); 0 when no wait helps
 */
int64_t retry_after_s(const struct retry_jitter *jitter,
                      const struct store_charge *charge, struct instant now);

#endif
