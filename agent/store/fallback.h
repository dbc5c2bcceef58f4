/**
 * @file agent/store/fallback.h  What a limit is on one host while nobody has the whole count.
 *
 * Model:     whatever the algorithm of the limit, a token bucket: its rate is that of the
 *            limit, divided by the live agents, times the share that the rule gives; its size
 *            is the same part of the limit's, or the largest cost that the rule can charge
 *            (as far as the limit itself would pass it), so that no request is refused for
 *            ever. W and ticks do not depend on agents or share, so that tokens used stay
 *            used when these change.
 * Ownership: none.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    the rate is rounded down, by less than 1 in 1 000 up to 100 agents (with a share
 *            of less than 1, up to 100 of these).
 */
#ifndef AGENT_STORE_FALLBACK_H
#define AGENT_STORE_FALLBACK_H

#include "agent/limit/limit.h"

enum {
    FALLBACK_SHARE_WHOLE = 10000 /* hundredths of 1 % */
};

/** What does not change while rules are in force. */
struct fallback {
    struct limit limit; /* a token bucket as for one agent and the whole share */
    int64_t size;       /* the limit's own */
    int64_t cost_max;   /* that the rule can charge, at most its size */
};

/**
 * @param limit         the limit as it is; `requests` may be those of a plan
 * @param base          requests of the rule's own limit: the same for all plans of it, whose
 *                      counters are the same
 * @param cost_max      the largest cost that the rule can charge
 */
void fallback_init(struct fallback *fallback, const struct limit *limit, int64_t base,
                   int64_t cost_max);

/** The bucket for `n_agents` (at least 1) and a share in 1/FALLBACK_SHARE_WHOLE. */
void fallback_limit(const struct fallback *fallback, unsigned n_agents, int share,
                    struct limit *limit);

#endif
