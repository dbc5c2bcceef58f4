#include "agent/command/check_plans.h"

#include <string.h>

#include "rules/ast.h"

#include "agent/command/check_code.h"

/* What is looked for: one plan, or, where it has no bytes, what may mean any. */
struct sought {
    uint32_t slot; /* of the descriptor `plan` */
    struct rules_bytes plan;
};

static bool is_equal(struct rules_bytes a, struct rules_bytes b)
{
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

static bool is_in_values(const struct sought *sought,
                         const struct rules_ast_condition *condition)
{
    for (uint32_t i = 0; i < condition->n_values; i++) {
        const struct rules_ast_value *value = &condition->values[i];
        bool is_exact = value->kind == RULES_AST_EXACT;
        if (sought->plan.len == 0 ? !is_exact
                                  : is_exact && is_equal(value->text, sought->plan)) {
            return true;
        }
    }
    return false;
}

static bool is_in_condition(const struct sought *sought,
                            const struct rules_ast_condition *condition)
{
    if (condition->slot != sought->slot) {
        return false;
    }
    bool is_any = condition->is_negated || condition->n_values == 0;
    return (is_any && sought->plan.len == 0) || is_in_values(sought, condition);
}

static bool is_in_match(const struct sought *sought,
                        const struct rules_ast_match *match)
{
    for (uint32_t i = 0; i < match->n_conditions; i++) {
        if (is_in_condition(sought, &match->conditions[i])) {
            return true;
        }
    }
    return false;
}

static bool is_in_part(const struct sought *sought, const struct rules_ast_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (part->slots[i] == sought->slot) {
            return true;
        }
    }
    return false;
}

static bool is_in_key(const struct sought *sought, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        if (is_in_part(sought, &rule->key[i])) {
            return true;
        }
    }
    return false;
}

static bool is_in_plans(const struct sought *sought, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        const char *name = rule->plans[i].name;
        struct rules_bytes bytes = {(const uint8_t *)name, strlen(name)};
        if (is_equal(bytes, sought->plan)) {
            return true;
        }
    }
    return false;
}

static bool is_in_rule(const struct sought *sought, const struct rules_ast_rule *rule)
{
    if (is_in_match(sought, &rule->match) || is_in_plans(sought, rule)
        || is_in_match(sought, &rule->charge.when)
        || (sought->plan.len == 0 && is_in_key(sought, rule))) {
        return true;
    }
    for (uint32_t i = 0; i < rule->n_costs; i++) {
        if (is_in_match(sought, &rule->costs[i].match)) {
            return true;
        }
    }
    return false;
}

static bool is_in_rules(const struct sought *sought, const struct rules_ast *ast)
{
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        if (is_in_rule(sought, &ast->rules[i])) {
            return true;
        }
    }
    for (uint32_t i = 0; i < ast->n_lists; i++) {
        if (is_in_condition(sought, &ast->lists[i].condition)) {
            return true;
        }
    }
    return false;
}

void check_plans_find(const struct rules_file *file,
                      const struct rules_clients *clients, struct rules_diags *diags)
{
    const struct rules_ast *ast = rules_file_ast(file);
    struct sought sought = {.slot = (uint32_t)ast->slot_plan};
    if (is_in_rules(&sought, ast)) {
        return;
    }
    for (uint32_t i = 0; i < rules_clients_n_plans(clients); i++) {
        sought.plan = rules_clients_plan(clients, i);
        if (!is_in_rules(&sought, ast)) {
            rules_file_diag(
                file, diags, RULES_WARNING, ast->clients.mark, check_code_unknown_plan,
                "no rule knows plan '%.64s' of %.128s: its clients have the "
                "numbers of none; name it in 'plans' or 'match' of a rule",
                (const char *)sought.plan.ptr, ast->clients.path);
        }
    }
}
