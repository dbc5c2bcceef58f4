/**
 * @file agent/store/probe.h  Whether a Redis that is not asked would answer again.
 *
 * Model:     breakers (health.h) are looked at every PROBE_WATCH_US; where one wants a probe,
 *            the real script is run on its node, on a key that no rule has.
 * Ownership: the memory is the caller's, zeroed. Borrows seam, health and prefix.
 * Threads:   that of the seam.
 * Errors:    told to the breaker.
 * Limits:    one probe for each node: one that does not answer keeps no other from being
 *            probed.
 */
#ifndef AGENT_STORE_PROBE_H
#define AGENT_STORE_PROBE_H

#include "agent/redis/script.h"
#include "agent/store/health.h"
#include "agent/store/seam.h"

enum {
    PROBE_KEY_BYTES_MAX = 128
};

#define PROBE_WATCH_US   (50 * US_PER_MS)
#define PROBE_TIMEOUT_US (100 * US_PER_MS)

struct prober;

struct probe {
    struct seam_call call;
    struct prober *prober;
    bool is_under_way;
    struct seam_bytes key;
    struct seam_bytes arg;
    char key_text[PROBE_KEY_BYTES_MAX];
    uint8_t arg_buf[1 + SCRIPT_CHARGE_BYTES_MAX];
};

struct prober {
    struct seam *seam;
    struct health *health;
    const char *prefix; /* of keys */
    struct seam_timer watch;
    unsigned n_under_way; /* late ones included */
    struct probe probes[SEAM_NODES_MAX];
};

/** It goes on as long as the seam is there. */
void prober_start(struct prober *prober, struct seam *seam, struct health *health,
                  const char *prefix);

#endif
