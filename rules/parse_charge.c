#include "rules/code.h"
#include "rules/fields.h"
#include "rules/units.h"

static void read_after(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    (void)into; /* there is one choice: not at all is what a rule without charge has */
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "after")) {
        return;
    }
    if (strcmp(node->text, "response") != 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_choice,
                   "'%.64s' is not one of the values of 'after': response", node->text);
    }
}

static void read_reserve(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    struct rules_ast_charge *charge = into;

    charge->has_reserve = true;
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "reserve")) {
        return;
    }
    if (rules_amount_parse(rules_node_bytes(node), &charge->reserve) != RULES_UNITS_OK
        || charge->reserve == 0) {
        RULES_FAIL(
            parse, node->mark, rules_code_bad_amount,
            "reserve must be a whole number from 1 to 1000000000, in digits: what "
            "reserves nothing is never refused");
    }
}

static void read_when(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    struct rules_ast_charge *charge = into;

    rules_match_read(parse, node, &charge->when);
}

void rules_field_charge(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    static const struct rules_field fields[] = {{"after", read_after, true},
                                                {"reserve", read_reserve, false},
                                                {"when", read_when, false}};
    struct rules_ast_rule *rule = into;
    struct rules_ast_charge charge = {.is_settled = true, .mark = node->mark};

    if (rules_fields_read(parse, node, "charge", fields,
                          sizeof fields / sizeof fields[0], &charge)) {
        rule->charge = charge;
    }
}

/** @return whether the response could change nothing */
static bool is_idle(const struct rules_ast_rule *rule)
{
    const struct rules_ast_charge *charge = &rule->charge;
    bool is_corrected = rule->cost.is_from_slot
                        || (charge->has_reserve && charge->reserve != rule->cost.min);

    return charge->when.n_conditions == 0 && (rule->n_costs > 0 || !is_corrected);
}

void rules_charge_check(struct rules_parse *parse, const struct yamltree_node *node,
                        const struct rules_ast_rule *rule)
{
    bool has_reserve = rule->charge.has_reserve;

    if (!rule->charge.is_settled) {
        return;
    }
    if (has_reserve && rule->n_costs > 0) {
        RULES_FAIL(parse, node->mark, rules_code_one_of_two,
                   "a rule has 'costs' or a 'reserve', not both");
    } else if (!has_reserve && rule->n_costs == 0 && rule->cost.min == 0) {
        RULES_FAIL(parse, node->mark, rules_code_nothing_reserved,
                   "a cost that may be 0 reserves nothing, so nothing is ever refused: "
                   "charge needs 'reserve'");
    } else if (is_idle(rule)) {
        RULES_FAIL(
            parse, node->mark, rules_code_nothing_to_settle,
            "the response changes nothing: charge needs 'when', or a 'cost' taken "
            "from an argument");
    }
}
