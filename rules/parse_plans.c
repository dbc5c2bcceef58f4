#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/units.h"

/** What is done to a number of requests: it becomes `amount`, or grows. */
struct change {
    bool is_factor;
    int64_t amount;
    struct rules_factor factor;
};

/** Read N or Nx. @return false when it is neither (reported) */
static bool change_read(struct rules_parse *parse, const struct yamltree_node *node,
                        struct change *change)
{
    struct rules_bytes text = rules_node_bytes(node);

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "a number of a plan")) {
        return false;
    }
    change->is_factor = rules_factor_parse(text, &change->factor) == RULES_UNITS_OK;
    if (!change->is_factor
        && rules_amount_parse(text, &change->amount) != RULES_UNITS_OK) {
        RULES_FAIL(parse, node->mark, rules_code_bad_plan,
                   "'%.64s' is no number of requests, and no factor such as 2.5x",
                   node->text);
        return false;
    }
    return true;
}

/** @return what becomes of an amount of a limit; a burst changes like its requests */
static int64_t changed(const struct change *change, int64_t amount, int64_t requests)
{
    if (change->is_factor) {
        return rules_factor_apply(change->factor, amount);
    }
    return requests > 0 ? rules_amount_scale(amount, change->amount, requests)
                        : change->amount;
}

static void change_apply(struct rules_parse *parse, const struct yamltree_node *node,
                         const struct rules_ast_limit *limit,
                         struct rules_ast_plan *plan, uint32_t idx)
{
    struct change change;
    int64_t requests;
    int64_t burst;

    if (limit->requests < 0 || !change_read(parse, node, &change)) {
        return; /* a limit that is wrong itself is reported there */
    }
    requests = changed(&change, limit->requests, limit->requests);
    burst = changed(&change, limit->burst, limit->requests);
    if (requests < 1 || requests > RULES_AMOUNT_MAX || burst < 1
        || burst > RULES_AMOUNT_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_bad_plan,
                   "with this plan the limit would be 0 or over 1000000000");
        return;
    }
    if (limit->algorithm == RULES_SLIDING_LOG && requests > RULES_LOG_REQUESTS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_log_too_large,
                   "with this plan the sliding_log would have more than %d requests",
                   (int)RULES_LOG_REQUESTS_MAX);
        return;
    }
    plan->numbers[idx].requests = requests;
    plan->numbers[idx].burst = burst;
    plan->numbers[idx].is_changed = true;
    plan->numbers[idx].is_factor = change.is_factor;
    plan->numbers[idx].thousandths = change.is_factor ? change.factor.thousandths : 0;
}

/** @return the limit of that name, or -1 (reported) */
static int limit_find(struct rules_parse *parse, const struct yamltree_node *node,
                      const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const char *name = rule->limits[i].name;

        if (name != NULL && strcmp(name, node->key) == 0) {
            return (int)i;
        }
    }
    RULES_FAIL(parse, node->key_mark, rules_code_bad_plan,
               "the rule has no limit '%.64s'", node->key);
    return -1;
}

static void numbers_read(struct rules_parse *parse, const struct yamltree_node *node,
                         const struct rules_ast_rule *rule, struct rules_ast_plan *plan)
{
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        int idx = limit_find(parse, it, rule);

        if (idx >= 0) {
            change_apply(parse, it, &rule->limits[idx], plan, (uint32_t)idx);
        }
    }
}

/** N is for a rule with one limit; a factor, and unlimited, for all of them. */
static void scalar_read(struct rules_parse *parse, const struct yamltree_node *node,
                        const struct rules_ast_rule *rule, struct rules_ast_plan *plan)
{
    struct change change;

    plan->is_unlimited = strcmp(node->text, "unlimited") == 0;
    if (plan->is_unlimited || !change_read(parse, node, &change)) {
        return;
    }
    if (!change.is_factor && rule->n_limits > 1) {
        RULES_FAIL(parse, node->mark, rules_code_bad_plan,
                   "the rule has several limits: say which, as in {%s: %.32s}",
                   rule->limits[0].name != NULL ? rule->limits[0].name : "name",
                   node->text);
        return;
    }
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        change_apply(parse, node, &rule->limits[i], plan, i);
    }
}

static void plan_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    struct rules_ast_plan *plan = &rule->plans[rule->n_plans];
    struct rules_bytes name = {(const uint8_t *)node->key, strlen(node->key)};

    if (!rules_name_is_valid(name)) {
        RULES_FAIL(parse, node->key_mark, rules_code_bad_name,
                   "'%.64s' is no name of a plan: a small letter, then up to 63 of a-z "
                   "0-9 _ -",
                   node->key);
        return;
    }
    plan->name = node->key;
    plan->mark = node->key_mark;
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        plan->numbers[i].requests = rule->limits[i].requests;
        plan->numbers[i].burst = rule->limits[i].burst;
    }
    rule->n_plans++;
    if (node->kind == YAMLTREE_SCALAR) {
        scalar_read(parse, node, rule, plan);
    } else if (rules_node_is(parse, node, YAMLTREE_MAPPING, "a plan")) {
        numbers_read(parse, node, rule, plan);
    }
}

void rules_plans_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    static const struct rules_bytes name = {(const uint8_t *)"plan", 4};

    if (!rules_node_is(parse, node, YAMLTREE_MAPPING, "plans")) {
        return;
    }
    if (node->n_children > RULES_PLANS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_plans,
                   "a rule can have at most %d plans", RULES_PLANS_MAX);
        return;
    }
    rule->plans = rules_parse_array(parse, node->n_children, sizeof *rule->plans);
    parse->ast->slot_plan = rules_parse_slot(parse, name, node->mark);
    if (rule->plans == NULL || parse->ast->slot_plan < 0) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        plan_read(parse, it, rule);
    }
}

uint32_t rules_ast_variants(const struct rules_ast *ast)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        for (uint32_t j = 0; j < ast->rules[i].n_plans; j++) {
            n += ast->rules[i].plans[j].is_unlimited ? 0 : ast->rules[i].n_limits;
        }
    }
    return n;
}
