/**
 * @file agent/store/policy.h  What rules say for when Redis does not answer.
 *
 * Model:     local: a bucket in the local store, of this host's share (fallback.h); open:
 *            passes; closed: refuses, for 1 to 3 s, by which time Redis may be back. What only
 *            warns, degrades or is in shadow passes where the policy is to refuse.
 * Ownership: borrows.
 * Threads:   that of the seam.
 * Errors:    none.
 */
#ifndef AGENT_STORE_POLICY_H
#define AGENT_STORE_POLICY_H

#include "agent/store/health.h"
#include "agent/store/seam.h"
#include "agent/store/store.h"

struct policies {
    struct store *local;
    struct seam *seam; /* of its random numbers */
    struct health *health;
};

/** Answer charges of a take that nobody is asked about, since it is refused elsewhere, or
 * who is not waited for. @param mask  bit i: charge i */
void policy_pass_unasked(struct store_take *take, uint32_t mask);

/**
 * Answer charges of a take by the policies of their rules: first those that may refuse
 * without being asked.
 *
 * @param mask  bit i: charge i, which has a home
 * @return whether the request is allowed as far as they go
 */
MUST_USE bool policies_apply(const struct policies *policies, struct store_take *take,
                             uint32_t mask);

#endif
