#include "rules/code.h"
#include "rules/fields.h"
#include "rules/units.h"

/** @return a cost, or -1 (reported) */
static int64_t amount_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    int64_t amount = -1;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return -1;
    }
    if (rules_amount_parse(rules_node_bytes(node), &amount) != RULES_UNITS_OK) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount,
                   "%s must be a whole number from 0 to 1000000000, in digits",
                   node->key);
        return -1;
    }
    return amount;
}

static void read_from(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    struct rules_ast_cost *cost = into;
    int slot;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "from")) {
        return;
    }
    slot = rules_parse_slot(parse, rules_node_bytes(node), node->mark);
    cost->is_from_slot = slot >= 0;
    cost->slot = slot >= 0 ? (uint32_t)slot : 0;
}

static void read_min(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct rules_ast_cost *cost = into;

    cost->min = amount_read(parse, node);
}

static void read_max(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct rules_ast_cost *cost = into;

    cost->max = amount_read(parse, node);
}

void rules_field_cost(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    static const struct rules_field fields[] = {{"from", read_from, true},
                                                {"min", read_min, false},
                                                {"max", read_max, true}};
    struct rules_ast_rule *rule = into;
    struct rules_ast_cost cost = {.min = 1, .max = -1};

    if (node->kind == YAMLTREE_SCALAR) {
        cost.min = amount_read(parse, node);
        cost.max = cost.min;
    } else if (!rules_fields_read(parse, node, "cost", fields,
                                  sizeof fields / sizeof fields[0], &cost)) {
        return;
    }
    if (cost.max >= 0 && cost.min > cost.max) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount, "min is above max");
    }
    rule->cost = cost;
    rule->n_costs = 0; /* those of `defaults` */
}

static void read_item_match(struct rules_parse *parse, const struct yamltree_node *node,
                            void *into)
{
    struct rules_ast_costs_item *item = into;

    rules_match_read(parse, node, &item->match);
}

static void read_item_cost(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct rules_ast_costs_item *item = into;

    item->cost = amount_read(parse, node);
}

void rules_field_costs(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    static const struct rules_field fields[] = {{"match", read_item_match, true},
                                                {"cost", read_item_cost, true}};
    struct rules_ast_rule *rule = into;

    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "costs")) {
        return;
    }
    if (node->n_children > RULES_COSTS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_costs,
                   "a rule can have at most %d costs", RULES_COSTS_MAX);
        return;
    }
    rule->costs = rules_parse_array(parse, node->n_children, sizeof *rule->costs);
    if (rule->costs == NULL) {
        return;
    }
    rule->n_costs = 0;
    rule->cost = (struct rules_ast_cost){.min = 1, .max = 1}; /* the same */
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        (void)rules_fields_read(parse, it, "an item of costs", fields,
                                sizeof fields / sizeof fields[0],
                                &rule->costs[rule->n_costs++]);
    }
}

int64_t rules_ast_largest_cost(const struct rules_ast_rule *rule)
{
    int64_t most = rule->cost.max;

    for (uint32_t i = 0; i < rule->n_costs; i++) {
        most = rule->costs[i].cost > most ? rule->costs[i].cost : most;
    }
    return rule->charge.has_reserve && rule->charge.reserve > most
               ? rule->charge.reserve
               : most;
}
