/**
 * @file agent/command/check_bound.h  What a limit lets through at most.
 *
 * Model:     the bounds that the algorithms keep (rules/README.md), as numbers.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    exact for all that a rules file can say.
 */
#ifndef AGENT_COMMAND_CHECK_BOUND_H
#define AGENT_COMMAND_CHECK_BOUND_H

#include <stdio.h>

#include "rules/ast.h"

#include "agent/base.h"

/** The numbers of a limit: its own, or those of a plan. */
struct check_numbers {
    int64_t requests;
    int64_t burst;
};

/** For one key, counted in what requests cost. */
struct check_bound {
    int64_t at_once; /* at one moment; of a leaky bucket with those it makes wait */
    int64_t
        in_any_per; /* in the worst span of `per`; of a leaky bucket what flows out */
    int64_t steady; /* in a span of `per` under steady load */
};

/**
 * Find the bound of a limit by its algorithm.
 *
 * @param largest_cost  that its rule can charge
 */
void check_bound_find(const struct rules_ast_limit *limit,
                      const struct check_numbers *numbers, int64_t largest_cost,
                      struct check_bound *bound);

/** How hosts share what they count together. */
struct check_fleet {
    int64_t n_hosts;
    int64_t n_workers;   /* of each, like what follows as agent.yaml says */
    int32_t lease_share; /* in 1/10000 */
    int64_t lease_horizon_us;
    int64_t sync_interval_us;
};

/** What hosts let through before all of them know, with store lease or sync. */
struct check_ahead {
    int64_t beyond;  /* the bound of the algorithm; of lease 0: nothing is leased */
    int64_t of_host; /* lease: in the blocks of one; sync: at once through one */
};

/** @return whether there is such a thing; not of store local and redis, and of limits of 0 */
bool check_ahead_find(const struct rules_ast_rule *rule,
                      const struct check_numbers *numbers,
                      const struct check_fleet *fleet, struct check_ahead *ahead);

/** What becomes of requests while the store of their rule fails. */
enum check_failure {
    CHECK_FAILURE_BOUND = 0, /* each host counts for itself, within a bound */
    CHECK_FAILURE_ALL,       /* all go through */
    CHECK_FAILURE_NONE,      /* none does */
};

/** @return whether `on_store_failure` of a rule decides anything */
bool check_has_policy(const struct rules_ast_rule *rule);

/**
 * The same while the store of a rule fails.
 *
 * @param bound  of `n_hosts` together, on top of what was let through before; filled for
 *               CHECK_FAILURE_BOUND
 */
enum check_failure check_failure_find(const struct rules_ast_rule *rule,
                                      const struct rules_ast_limit *limit,
                                      const struct check_numbers *numbers,
                                      int64_t n_hosts, struct check_bound *bound);

/** Write a bound in words, of `n_hosts` that count for themselves. */
void check_bound_print(const struct rules_ast_limit *limit,
                       const struct check_bound *bound, int64_t n_hosts, FILE *out);

/** Write the same in words. */
void check_ahead_print(const struct rules_ast_rule *rule,
                       const struct check_ahead *ahead, const struct check_fleet *fleet,
                       FILE *out);

/** Write in words what goes through while a store fails. */
void check_failure_print(const struct rules_ast_limit *limit,
                         enum check_failure failure, const struct check_bound *bound,
                         FILE *out);

#endif
