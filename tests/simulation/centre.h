/**
 * @file tests/simulation/centre.h  What a Redis server does with the scripts, in C.
 *
 * Model:     the twin of the scripts as wholes: the same argument on the same counters at
 *            the same time gives the same numbers. Counters are states of the algorithms in
 *            C, beside each what hosts hold of it, in no order. Keys never end: what lived
 *            long enough is as if untouched.
 *
 *            Beside the numbers there is what was done to the counters, and what a call is
 *            to do as far as that can be read from it.
 * Ownership: centre_new / centre_free. What a call did lives until the next call.
 * Threads:   one.
 * Errors:    an argument that no encoder writes aborts.
 */
#ifndef TESTS_SIMULATION_CENTRE_H
#define TESTS_SIMULATION_CENTRE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/redis/script.h"
#include "agent/store/seam.h"

enum {
    CENTRE_NUMBERS_MAX =
        SCRIPT_LEASE_REPLY_NUMBERS_MAX, /* the longest of all replies */
};

enum centre_act {
    CENTRE_CHARGE = 0, /* by take: amount */
    CENTRE_SETTLE,     /* amount is what is given back, below 0 what is added */
    CENTRE_GRANT,      /* of a lease of amount */
    CENTRE_REPORT,     /* a lease of amount, of which spent was spent, has ended */
    CENTRE_TAKE_BACK,  /* a lease of amount has ended that nobody reported */
    CENTRE_SYNC,       /* amount was added */
};

/** What was done to one counter, in the order of doing. */
struct centre_deed {
    enum centre_act act;
    unsigned key_idx; /* of the call */
    int64_t amount;
    int64_t spent;
    uint8_t host[SCRIPT_HOST_BYTES]; /* of leases and exchanges */
    uint32_t seq;
};

struct centre_deeds {
    unsigned n;
    unsigned cap;
    struct centre_deed *list;
};

struct centre_call {
    unsigned script; /* enum redis_script, but REDIS_SCRIPT_BEAT */
    const struct seam_bytes *keys;
    unsigned n_keys;
    struct seam_bytes arg;
    struct instant now; /* by the server's clock */
};

struct centre;

struct centre *centre_new(void);
void centre_free(struct centre *centre);

/** Forget all counters. */
void centre_flush(struct centre *centre);

/** Carry out a script.
 *
 * @param numbers  room for CENTRE_NUMBERS_MAX
 * @return how many the reply has
 */
unsigned centre_run(struct centre *centre, const struct centre_call *call,
                    int64_t *numbers);

/** What the last call did. */
const struct centre_deeds *centre_deeds(const struct centre *centre);

/** What a call is to do that the host has decided: settlements, reports (their amounts are
 *  not told) and exchanges. Live until the next call. */
const struct centre_deeds *centre_intents(struct centre *centre,
                                          const struct centre_call *call);

/** What a counter would be found to hold. */
int64_t centre_used(struct centre *centre, const struct limit *limit,
                    struct seam_bytes key, struct instant now);

#endif
