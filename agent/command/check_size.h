/**
 * @file agent/command/check_size.h  What a host needs to count for so many clients.
 *
 * Model:     every rule with a key has all the keys at the same time, on every host; a
 *            sliding log of each has as many events as its limit, or as the rate brings.
 *            What is in Redis has a counter on the host where it counts for itself while
 *            Redis fails; what is counted ahead of it lies in tables of its own
 *            (store/table.h), whose size is fixed. Plans are left out: they make limits larger
 *            for few.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    none; what is beyond INT64_MAX is that.
 * Limits:    CHECK_RATE_MAX and the like.
 */
#ifndef AGENT_COMMAND_CHECK_SIZE_H
#define AGENT_COMMAND_CHECK_SIZE_H

#include "rules/ast.h"

#include "agent/base.h"

#define CHECK_RATE_MAX INT64_C(1000000000) /* requests a second */
#define CHECK_KEYS_MAX INT64_C(1000000000)

/** What is to be carried. */
struct check_load {
    int64_t rate;   /* requests a second, of all hosts together */
    int64_t n_keys; /* clients with counters at the same time; 0: nobody asked */
    int64_t n_hosts;
};

/** Of one host. */
struct check_size {
    int64_t n_counters;    /* in use as a rule */
    int64_t n_fallbacks;   /* and while Redis fails */
    int64_t counter_bytes; /* of both */
    int64_t n_events;      /* of sliding logs */
    int64_t event_bytes;
    int64_t memory_bytes; /* for `memory` of agent.yaml */
};

/** @param load  of all hosts together; n_hosts is at least 1 */
void check_size_find(const struct rules_ast *ast, const struct check_load *load,
                     struct check_size *size);

#endif
