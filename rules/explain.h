/**
 * @file rules/explain.h  Why rules apply to a request, and why others do not.
 *
 * Model:     a walk over all rules, which says of each what rules_eval only acts on. What it
 *            says applies is what rules_eval finds.
 * Ownership: rules_explain / rules_explanation_free. Views point into the set, the request
 *            and the explanation.
 * Threads:   no shared state.
 * Errors:    NULL when memory is short.
 * Limits:    grows with the rules: for people, not for requests.
 */
#ifndef RULES_EXPLAIN_H
#define RULES_EXPLAIN_H

#include "rules/rules.h"

enum {
    RULES_WANTED_BYTES_MAX = 128, /* of the text that says what a condition wants */
};

/** What a rule does with a request. */
enum rules_why {
    RULES_APPLIES = 0,  /* with `hit` */
    RULES_EXPIRED,      /* its time is over */
    RULES_UNMET,        /* a condition does not hold: `descriptor`, `value`, `wanted` */
    RULES_KEY_MISSING,  /* skipped: `descriptor`, and no address to stand in for it */
    RULES_KEY_REQUIRED, /* refuses (no_key: reject): `descriptor` is missing */
    RULES_OVERRIDDEN,   /* `by` takes it out */
    RULES_PLAN_EXEMPT,  /* the plan of the request is unlimited */
    RULES_BEYOND_MATCHES, /* matches after RULES_MATCHES_MAX others */
    RULES_BEYOND_HITS,    /* would apply after RULES_HITS_MAX limits of others */
};

/** Where a cost comes from. */
enum rules_cost_from {
    RULES_COST_FIXED = 0, /* the number of the rule, or 1 */
    RULES_COST_ITEM,      /* item `cost_item` of its costs */
    RULES_COST_ARGUMENT,  /* descriptor `cost_argument` */
    RULES_COST_RAISED,    /* the same, to min: missing, ill-formed or below */
    RULES_COST_LOWERED,   /* the same, to max */
    RULES_COST_RESERVED,  /* what is taken before the response */
};

struct rules_explained {
    const struct rules_rule *rule;
    enum rules_why why;
    struct rules_bytes descriptor;
    struct rules_value value;
    const char *wanted; /* printable ASCII, at most RULES_WANTED_BYTES_MAX */
    const struct rules_rule *by;
    /* APPLIES; of those kept out by overrides or plans key and cost are told too */
    struct rules_hit hit;
    struct rules_bytes stood_in_for; /* the first part that the address stands in for */
    bool is_by_plan;                 /* the limits are those of the request's plan */
    enum rules_cost_from cost_from;
    uint32_t cost_item; /* from 1 */
    struct rules_bytes cost_argument;
    uint32_t draw; /* of the key, where mode is PERCENT: enforced when below */
};

struct rules_explanation {
    enum rules_listed listed;         /* then no rule counts */
    struct rules_bytes list;          /* the descriptor that is on it */
    struct rules_bytes plan;          /* of the request; empty: none */
    struct rules_bytes path;          /* in its normal form; empty: none, or not used */
    bool is_path_as_it_stands;        /* it has no normal form */
    const struct rules_rule *keyless; /* refuses for want of its key */
    uint32_t n_rules;
    struct rules_explained *rules; /* in file order */
};

/** Explain a request, which has to stay in place. */
RULES_MUST_USE struct rules_explanation *rules_explain(
    const struct rules_set *set, const struct rules_request *request);

/** NULL is fine. */
void rules_explanation_free(struct rules_explanation *explanation);

#endif
