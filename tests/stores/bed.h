/**
 * @file tests/stores/bed.h  A store under test, and what is behind it.
 *
 * Model:     a bed is started once for all cases and traces of a run. Its clock is the
 *            test's, on this host and where the counters are. A new store comes with a bed
 *            of its own, and a line in stores.c.
 * Ownership: `start` makes all of it, `stop` ends all of it, also after a start that failed.
 * Threads:   one.
 * Errors:    fail the test.
 */
#ifndef TESTS_STORES_BED_H
#define TESTS_STORES_BED_H

#include "agent/store/store.h"

#include "tests/support/trace.h"

enum {
    BED_COUNTED = 16 /* outcomes of so many rules */
};

#define BED_START_US (INT64_C(1800000000) * US_PER_S) /* a minute begins */

struct bed {
    const char *name;
    struct trace_target target; /* the store; set by start */
    struct counters *counters;  /* likewise */
    bool has_slots;             /* names may be in different slots */
    enum store_kind kind;       /* of homes. But for redis: cases only */
    void (*start)(struct bed *bed);
    void (*stop)(struct bed *bed);
    /* Let what is behind answer nothing, or go on; NULL: nothing is behind. */
    void (*stall)(struct bed *bed, bool is_stalled);
    /* Scripts that were run behind it; NULL: likewise. */
    uint64_t (*n_calls)(struct bed *bed);
    /* Let some time pass, in which what is under way may come to pass. */
    void (*run)(struct bed *bed);
};

/** The table of this host. */
extern struct bed bed_local;
/** The store of Redis, over one simulated node, and over eight. */
extern struct bed bed_simulated;
extern struct bed bed_simulated_cluster;
/** The store of Redis, over a real redis-server, and over a real cluster. */
extern struct bed bed_server;
extern struct bed bed_cluster;
/** The same as bed_simulated and bed_server, of the other kinds. */
extern struct bed bed_lease_simulated;
extern struct bed bed_lease_server;
extern struct bed bed_sync_simulated;
extern struct bed bed_sync_server;

#endif
