/**
 * @file agent/decide/set.h  A rule set made ready to decide with.
 *
 * Model:     the compiled rules, and for each of their limits its arithmetic and the
 *            texts that never change. Immutable once made, but for where the windows of
 *            calendars begin: that is kept ahead of need.
 * Ownership: owns the rules_set it was made from.
 * Threads:   any number of threads read it.
 * Errors:    decide_set_new answers NULL when memory is short.
 */
#ifndef AGENT_DECIDE_SET_H
#define AGENT_DECIDE_SET_H

#include "rules/rules.h"
#include "spop/ack.h"

#include "agent/decide/key.h"
#include "agent/decide/verdict.h"
#include "agent/limit/limit.h"

enum {
    DECIDE_ITEM_BYTES_MAX = 224
}; /* of one RateLimit-Policy item */

#define CALENDARS_PERIOD_US (60 * US_PER_S)

/** By so much the two clocks may drift apart before that is looked at. */
#define CALENDARS_STEP_US (20 * US_PER_MS)

/** What is said of a limit whatever its numbers are. */
struct decide_label {
    struct spop_constant rule; /* that sets variable `rule` to the name */
    size_t item_head_len;
    size_t quoted_len;
    char item_head[DECIDE_ITEM_BYTES_MAX]; /* "name";r= of which "name" is quoted_len */
};

/** A limit that is not counted on this host alone. */
struct decide_home {
    struct store_home home;
    struct key_form form; /* of the names of its counters */
    uint32_t tag_parts;   /* of their keys: bit i is part i; 0: all of them */
    bool is_hashed;
};

struct decide_limit {
    const char *name;
    const struct decide_home *home;   /* NULL: counted on this host */
    const struct decide_label *label; /* plans make no other */
    uint32_t base_idx; /* under which it is counted: of the limit without a plan */
    struct limit limit;
    enum action exceeded; /* what becomes of a request over the limit */
    int64_t soft_amount;  /* used past which an allowed request is warned; -1: never */
    struct limit_policy policy;
    size_t policy_item_len;
    char policy_item[DECIDE_ITEM_BYTES_MAX]; /* "name";q=..;w=.. */
};

struct decide_set {
    struct rules_set *rules;
    const char *domain;
    const char *prefix;
    uint32_t n_calendars;
    struct calendar *calendars;  /* by the idx of the rules' calendars */
    struct instant looked_at;    /* where they begin; 0: not yet */
    int64_t ahead_us;            /* the agent's clock before the wall clock, then */
    uint32_t n_limits;           /* of the rules: base_idx is below it */
    struct decide_label *labels; /* of these */
    uint32_t n_homes;
    struct decide_home *homes;    /* of those that have one */
    struct decide_limit limits[]; /* by the idx of the rules' limits, plans' too */
};

/**
 * Make a set ready.
 *
 * @param rules   taken over; freed with the set, and by a failing call
 * @param prefix  of the names of counters in Redis
 */
MUST_USE struct decide_set *decide_set_new(struct rules_set *rules, const char *prefix);

/**
 * Counters run on the agent's clock, calendars on the wall clock: say where windows begin
 * from now on. That is done the first time, each CALENDARS_PERIOD_US, and when one clock
 * was stepped. Before the first time windows have no end.
 *
 * @param wall_us  of the same moment as `now`
 * @return whether it was time to
 * @thread one at a time; others may decide with the set meanwhile
 */
bool decide_set_keep_calendars(struct decide_set *set, struct instant now,
                               int64_t wall_us);

/** Free a set that no thread can still use. NULL is fine. */
void decide_set_free(struct decide_set *set);

#endif
