/**
 * @file rules/facts.h  A request as the rules see it, and what one rule makes of it.
 *
 * Model:     the path in its normal form, addresses canonical. What eval.c asks of the rules
 *            that its tables find, and explain.c of all of them: conditions, key, cost, plan.
 * Ownership: facts borrow the set, the request and the room of the result; they stay where
 *            they were initialised, since `ip` may point into them.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef RULES_FACTS_H
#define RULES_FACTS_H

#include "rules/program.h"

struct rules_facts {
    const struct rules_set *set;
    const struct rules_request *request;
    struct rules_value path;
    struct rules_value ip;
    struct rules_address ip_parsed; /* what `ip` points to when it came as text */
};

/** @param result  its room gets the normal path; what is counted on the way begins at 0 */
void rules_facts_init(struct rules_facts *facts, const struct rules_set *set,
                      const struct rules_request *request, struct rules_result *result);

/** @return the value with its address canonical; absent when it holds nothing */
static inline struct rules_value rules_value_canonical(const struct rules_value *value)
{
    if (value->type == RULES_ADDRESS) {
        struct rules_bytes bytes = rules_address_canonical(value->bytes);

        return bytes.len > 0 ? (struct rules_value){RULES_ADDRESS, bytes}
                             : (struct rules_value){0};
    }
    return value->bytes.len > 0 ? *value : (struct rules_value){0};
}

/** @return what a descriptor is */
static inline struct rules_value rules_facts_view(const struct rules_facts *facts,
                                                  uint32_t slot)
{
    if (slot == RULES_SLOT_IP) {
        return facts->ip;
    }
    if ((int)slot == facts->set->slot_path) {
        return facts->path;
    }
    return rules_value_canonical(&facts->request->values[slot]);
}

/** The address that a value is; a text is read as one. @return len 0 for none */
struct rules_address rules_value_address(struct rules_value view);

/** @return whether one of the first `n_ways` ways of a condition matches a value that is
 *  there */
bool rules_ways_match(const struct rules_condition *condition, uint32_t n_ways,
                      struct rules_value view);

bool rules_condition_holds(const struct rules_facts *facts,
                           const struct rules_condition *condition);

static inline bool rules_conditions_hold(const struct rules_facts *facts,
                                         const struct rules_condition *conditions,
                                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!rules_condition_holds(facts, &conditions[i])) {
            return false;
        }
    }
    return true;
}

/** @return the first descriptor of a part that is present, or NULL */
static inline const struct rules_link *rules_link_find(const struct rules_facts *facts,
                                                       const struct rules_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (rules_facts_view(facts, part->links[i].slot).type != RULES_ABSENT) {
            return &part->links[i];
        }
    }
    return NULL;
}

/** @return whether a request has all parts of a key */
bool rules_key_is_whole(const struct rules_facts *facts,
                        const struct rules_matcher *matcher);

/** Without an address nothing can stand in for a missing part. */
static inline bool rules_key_is_possible(const struct rules_facts *facts,
                                         const struct rules_matcher *matcher)
{
    return (facts->ip.type != RULES_ABSENT && matcher->no_key == RULES_NO_KEY_IP)
           || rules_key_is_whole(facts, matcher);
}

/**
 * Write the key of a rule, which is possible.
 *
 * @param key  room for RULES_KEY_BYTES_MAX
 * @param hit  key and is_address_standing_in are set
 */
void rules_key_write(const struct rules_facts *facts,
                     const struct rules_matcher *matcher, uint8_t *key,
                     struct rules_hit *hit);

/** @return what a request costs; counted in `result` where an argument had to be changed */
int64_t rules_cost_find(const struct rules_facts *facts, const struct rules_cost *cost,
                        struct rules_result *result);

/** @return what a request that a rule applies to takes */
static inline int64_t rules_taken_find(const struct rules_facts *facts,
                                       const struct rules_matcher *matcher,
                                       struct rules_result *result)
{
    return matcher->taken >= 0 ? matcher->taken
                               : rules_cost_find(facts, &matcher->cost, result);
}

/** @return what a charge should have been; `amount` where no cost is truer than that */
int64_t rules_truth_find(const struct rules_facts *facts,
                         const struct rules_matcher *matcher, int64_t amount,
                         struct rules_result *result);

/** @return whether a rule is enforced for a key, which only shares of keys look at */
bool rules_is_enforced(const struct rules_rule *rule, struct rules_bytes key);

/** @return the limits of a rule that has plans, for that of the request; NULL: none */
const struct rules_limit *rules_plan_limits_find(const struct rules_facts *facts,
                                                 uint32_t rule);

/** @return the limits of a rule for the plan of the request; NULL: it has none */
static inline const struct rules_limit *rules_limits_find(
    const struct rules_facts *facts, uint32_t rule)
{
    return facts->set->matchers[rule].has_plans ? rules_plan_limits_find(facts, rule)
                                                : facts->set->rules[rule].limits;
}

#endif
