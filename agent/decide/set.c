#include "agent/decide/set.h"

#include <stdlib.h>

#include "agent/decide/text.h"

static enum limit_algorithm algorithm_of(enum rules_algorithm algorithm)
{
    switch (algorithm) {
    case RULES_SLIDING_WINDOW:
        return LIMIT_SLIDING_WINDOW;
    case RULES_TOKEN_BUCKET:
        return LIMIT_TOKEN_BUCKET;
    }
    NEVER("algorithm");
}

/* draft-ietf-httpapi-ratelimit-headers-11, section 3.1; the burst of a bucket whose
 * filling time is no whole number of seconds goes into a parameter of our own. */
static size_t print_policy(char *buf, const struct decide_limit *limit)
{
    struct text text = text_in(buf, DECIDE_ITEM_BYTES_MAX);
    text_add(&text, "\"");
    text_add(&text, limit->name);
    text_add(&text, "\";q=");
    text_add_int64(&text, limit->policy.quota);
    if (limit->policy.window_s > 0) {
        text_add(&text, ";w=");
        text_add_int64(&text, limit->policy.window_s);
    }
    if (limit->policy.burst > 0) {
        text_add(&text, ";spoa-burst=");
        text_add_int64(&text, limit->policy.burst);
    }
    ENSURE(!text.is_cut);
    return text.len;
}

/* What stands before the numbers of a RateLimit item (section 4.1). */
static size_t print_item_head(char *buf, const struct decide_limit *limit)
{
    struct text text = text_in(buf, DECIDE_ITEM_BYTES_MAX);
    text_add(&text, "\"");
    text_add(&text, limit->name);
    text_add(&text, "\";r=");
    ENSURE(!text.is_cut);
    return text.len;
}

static enum action action_of(enum rules_action action)
{
    switch (action) {
    case RULES_REJECT:
        return ACTION_REJECT;
    case RULES_WARN:
        return ACTION_WARN;
    case RULES_DEGRADE:
        return ACTION_DEGRADE;
    case RULES_BLOCK:
        return ACTION_BLOCK;
    }
    NEVER("action");
}

/* size x permyriad is at most 10^13. */
static int64_t soft_amount_of(const struct rules_rule *rule, int64_t size)
{
    return rule->soft_permyriad > 0 ? size * rule->soft_permyriad / 10000 : -1;
}

static void prepare_limit(struct decide_limit *limit, const struct rules_limit *rules)
{
    const struct rules_rule *rule = rules->rule;
    limit->name = rules->name;
    limit->base_idx = rules->base_idx;
    limit->limit = (struct limit){
        .algorithm = algorithm_of(rules->algorithm),
        .requests = rules->requests,
        .size = rules->algorithm == RULES_TOKEN_BUCKET ? rules->burst : rules->requests,
        .per_ticks = rules->per_ticks,
        .tick_us = rules->tick_us,
    };
    limit->exceeded = action_of(rule->action);
    limit->soft_amount = soft_amount_of(rule, limit->limit.size);
    limit_describe(&limit->limit, &limit->policy);
    limit->policy_item_len = print_policy(limit->policy_item, limit);
    limit->item_head_len = print_item_head(limit->item_head, limit);
}

struct decide_set *decide_set_new(struct rules_set *rules)
{
    uint32_t n_variants = rules_set_n_variants(rules);
    struct decide_set *set = calloc(1,
                                    sizeof(*set) + n_variants * sizeof(set->limits[0]));
    if (set == NULL) {
        rules_set_free(rules);
        return NULL;
    }
    set->rules = rules;
    set->domain = rules_set_domain(rules);
    set->n_limits = rules_set_n_limits(rules);
    for (uint32_t i = 0; i < n_variants; i++) {
        prepare_limit(&set->limits[i], rules_set_limit(rules, i));
    }
    return set;
}

void decide_set_free(struct decide_set *set)
{
    if (set == NULL) {
        return;
    }
    rules_set_free(set->rules);
    free(set);
}
