/**
 * @file agent/store/redis.h  Counters in Redis, beside those of this host.
 *
 * Model:     what Redis refused a moment ago (refusals.h) is refused at once; nothing is
 *            charged, and the other charges are answered as unasked. When that is over, one
 *            take asks for all that want the counter; they wait for its answer, and ask one
 *            by one for as long as each is allowed, or as many as there is room for. Who has
 *            waited for half of its time asks anyhow.
 *
 *            Takes that want the same cost of one counter wait for one another, too, where
 *            that takes little of their time: one call is under way, and the next one asks for
 *            all that came meanwhile, or for as many as the last answer leaves room for.
 *
 *            Else the charges of a take that have no home are taken from the local store;
 *            a refusal there ends the take before anything is sent. The others go out
 *            together, one call for each slot of the cluster (without one: exactly one
 *            call), and their answers make the take. Where one refuses, what others charged
 *            is given back; that is begun before `done` and waited for by nobody. A call of
 *            shadow charges only is not waited for.
 *
 *            Charges of kind lease are spent from the pools of this process (leases.h), after
 *            the local store and before anything is sent; those that cannot be are asked
 *            about like all others. Charges of kind sync are decided by the pools of syncs.h,
 *            before that; a refusal there ends the take.
 *
 *            Where a node does not answer in time, or its breaker (health.h) is open, the
 *            policy of each charge decides: a bucket in the local store, pass, or refuse.
 *            What only warns, degrades or is in shadow passes where the policy is to refuse.
 *            An answer that comes late changes nothing: where it charged what was refused,
 *            that is given back; where the policy allowed, it stays charged.
 * Ownership: redis_store_new / store_free. Borrows the local store, the seam and the health.
 *            The seam goes first: what is under way then ends, which the store hears.
 * Threads:   one store for each worker, on whose thread its seam lives. Health and local
 *            store are shared.
 * Errors:    policies; counts in health.
 * Limits:    REDIS_TAKES_MAX takes with calls under way, late ones included; beyond these
 *            policies decide. No allocation after redis_store_new.
 */
#ifndef AGENT_STORE_REDIS_H
#define AGENT_STORE_REDIS_H

#include "agent/store/health.h"
#include "agent/store/hot.h"
#include "agent/store/leases.h"
#include "agent/store/refusals.h"
#include "agent/store/seam.h"
#include "agent/store/store.h"
#include "agent/store/syncs.h"

enum {
    REDIS_TAKES_MAX = 2048
};

/** What the seam must run as which script. */
enum redis_script {
    REDIS_SCRIPT_TAKE = 0,
    REDIS_SCRIPT_SETTLE,
    REDIS_SCRIPT_BEAT, /* beat.h */
    REDIS_SCRIPT_LEASE,
    REDIS_SCRIPT_SYNC,
    REDIS_SCRIPTS_N,
};

/** Before the deadline of a take, since timers are late by up to 1 ms. */
#define REDIS_RESERVE_US (1 * US_PER_MS)

#define REDIS_SETTLE_US  (1 * US_PER_S) /* in which what is given back is sent */
#define REDIS_FINISH_US \
    (1 * US_PER_S) /* in which what is held is returned, when the store is to finish */

struct redis_store_options {
    struct store *local;
    struct seam *seam;
    struct health *health;
    const char *prefix;    /* of keys; of probes here */
    const uint8_t *secret; /* REFUSALS_SECRET_BYTES */
    /* Of the process. NULL: charges of these kinds are asked about like all others. */
    struct leases *leases;
    struct syncs *syncs;
    struct hot *hot;     /* of the process; NULL: what is hot is not noted */
    const uint8_t *host; /* SCRIPT_HOST_BYTES: names the process among all */
    uint32_t worker;
};

/** @return the store, or NULL when memory is short */
MUST_USE struct store *redis_store_new(const struct redis_store_options *options);

/** Takes with calls under way, late ones included: 0 before it may be freed. */
unsigned redis_store_n_under_way(struct store *store);

#endif
