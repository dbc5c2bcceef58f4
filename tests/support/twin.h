/**
 * @file tests/support/twin.h  The Lua scripts, run by a real redis-server, for tests that
 *       compare them with C.
 *
 * Model:     a call is sent and its reply read later, in order, so that many are under way.
 *            Scripts of two clocks: the server's, as they are shipped, and one that a test
 *            sets. twin_take and twin_settle stand for limit_take and limit_settle: they
 *            bring a state into a key, run the script, and read the key back.
 * Ownership: twin_start / twin_stop; a take that was sent stays in place until it is read.
 * Threads:   one.
 * Errors:    fail the test.
 */
#ifndef TESTS_SUPPORT_TWIN_H
#define TESTS_SUPPORT_TWIN_H

#include "agent/redis/script.h"

#include "tests/support/redis_server.h"

/** The scripts on the clock of tests; made by the build. */
extern const struct script script_take_at;
extern const struct script script_settle_at;
extern const struct script script_lease_at;
extern const struct script script_sync_at;

enum twin_clock {
    TWIN_SERVER = 0, /* redis/clock.lua */
    TWIN_TEST,       /* support/clock.lua: the time is the `now` of the call */
};

enum twin_script {
    TWIN_TAKE = 0,
    TWIN_SETTLE,
    TWIN_LEASE,
    TWIN_SYNC,
    TWIN_SCRIPTS_N,
};

enum {
    TWIN_KEYS_MAX = SCRIPT_LEASE_KEYS_MAX,
    TWIN_NUMBERS_MAX = SCRIPT_LEASE_REPLY_NUMBERS_MAX, /* the longest of all replies */
};

struct twin_key {
    const char *text;
    size_t len;
};

/** Who calls, when, and how long what that leaves is kept. */
struct twin_from {
    const uint8_t *host;
    int64_t kept_ms;
    struct instant now;
};

struct twin_call {
    enum twin_script script;
    const struct twin_key *keys;
    unsigned n_keys;
    struct twin_key argument;
    struct instant now;
};

struct twin {
    struct redis_server server;
    struct script_repairs repairs; /* what all replies said since they were looked at */
};

void twin_start(struct twin *twin);
void twin_stop(struct twin *twin);

/** Send a call with its argument as it is. */
void twin_send(struct twin *twin, enum twin_clock clock, const struct twin_call *call);
/** The numbers of the next reply. @return how many of TWIN_NUMBERS_MAX */
size_t twin_get(struct twin *twin, int64_t *numbers);

/** Send a take, its charges' counters in these keys. */
void twin_send_take(struct twin *twin, enum twin_clock clock,
                    const struct store_take *take, const struct twin_key *keys);
/** Fill a take from the next reply. */
void twin_get_take(struct twin *twin, struct store_take *take);

void twin_send_settlement(struct twin *twin, enum twin_clock clock,
                          const struct store_settlement *settlement,
                          const struct twin_key *key);
/** @return whether anything was changed, by the next reply */
bool twin_get_settled(struct twin *twin);

/** Send leases, by a host, of counters in these keys. */
void twin_send_lease(struct twin *twin, enum twin_clock clock, struct twin_from from,
                     const struct script_lease_order *orders, unsigned n_orders,
                     const struct twin_key *keys);
/** Fill the replies to these orders from the next reply. */
void twin_get_lease(struct twin *twin, const struct script_lease_order *orders,
                    unsigned n_orders, struct script_lease_reply *replies);

void twin_send_sync(struct twin *twin, enum twin_clock clock, struct twin_from from,
                    const struct script_sync_order *orders, unsigned n_orders,
                    const struct twin_key *keys);
void twin_get_sync(struct twin *twin, const struct script_sync_order *orders,
                   unsigned n_orders, struct script_sync_reply *replies);

/** limit_align and limit_take in Lua, on the server that twin_group_start started. */
bool twin_take(const struct limit *limit, struct limit_state *state, struct instant now,
               int64_t cost, struct limit_answer *answer);

/** limit_settle in Lua, likewise. */
bool twin_settle(const struct limit *limit, struct limit_state *state,
                 struct instant now, const struct limit_correction *correction);

/** Setup and teardown of a group of tests. */
int twin_group_start(void **context);
int twin_group_stop(void **context);

#endif
