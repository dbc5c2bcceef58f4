#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/table.h"

void rules_field_overrides(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct rules_ast_rule *rule = into;
    bool is_list = node->kind == YAMLTREE_SEQUENCE;
    uint32_t n = is_list ? node->n_children : 1;
    const struct yamltree_node *it = is_list ? node->first : node;

    if (n > RULES_OVERRIDES_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_overrides,
                   "a rule can override at most %d others", RULES_OVERRIDES_MAX);
        return;
    }
    rule->overrides = rules_parse_array(parse, n, sizeof *rule->overrides);
    for (uint32_t i = 0; rule->overrides != NULL && i < n; i++, it = it->next) {
        if (rules_node_is(parse, it, YAMLTREE_SCALAR, "a rule to override")) {
            rule->overrides[rule->n_overrides++] = (struct rules_ast_override){
                it->text, it->mark, RULES_NONE};
        }
    }
}

static struct rules_bytes name_bytes(const char *name)
{
    return (struct rules_bytes){(const uint8_t *)name, strlen(name)};
}

static void name_resolve(struct rules_parse *parse, const struct rules_table *names,
                         struct rules_ast_override *override)
{
    override->rule = rules_table_find(names, 0, name_bytes(override->name));
    if (override->rule == RULES_NONE) {
        RULES_FAIL(parse, override->mark, rules_code_unknown_rule,
                   "there is no rule '%.64s'", override->name);
    }
}

static void names_resolve(struct rules_parse *parse, const struct rules_table *names)
{
    struct rules_ast *ast = parse->ast;

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        for (uint32_t j = 0; j < ast->rules[i].n_overrides; j++) {
            name_resolve(parse, names, &ast->rules[i].overrides[j]);
        }
    }
}

/** Where a walk along overrides stands. */
struct step {
    uint32_t rule;
    uint32_t next; /* of its overrides */
};

enum color {
    UNSEEN = 0,
    ON_THE_WAY,
    DONE,
};

/** Walk from one rule, depth first; each rule is entered once in all walks. */
static void cycles_find(struct rules_parse *parse, uint32_t start, uint8_t *colors,
                        struct step *steps)
{
    const struct rules_ast *ast = parse->ast;
    uint32_t n = 0;

    if (colors[start] != UNSEEN) {
        return;
    }
    colors[start] = ON_THE_WAY;
    steps[n++] = (struct step){start, 0};
    while (n > 0) {
        struct step *step = &steps[n - 1];
        const struct rules_ast_rule *rule = &ast->rules[step->rule];
        const struct rules_ast_override *override;

        if (step->next == rule->n_overrides) {
            colors[step->rule] = DONE;
            n--;
            continue;
        }
        override = &rule->overrides[step->next++];
        if (override->rule == RULES_NONE || colors[override->rule] == DONE) {
            continue;
        }
        if (colors[override->rule] == ON_THE_WAY) {
            RULES_FAIL(parse, override->mark, rules_code_override_cycle,
                       "'%s' overrides '%s', which overrides it again", rule->name,
                       override->name);
            continue;
        }
        colors[override->rule] = ON_THE_WAY;
        steps[n++] = (struct step){override->rule, 0};
    }
}

void rules_overrides_resolve(struct rules_parse *parse)
{
    struct rules_ast *ast = parse->ast;
    struct rules_table names;
    uint8_t *colors = rules_parse_array(parse, ast->n_rules, sizeof *colors);
    struct step *steps = rules_parse_array(parse, ast->n_rules, sizeof *steps);

    if (colors == NULL || steps == NULL
        || !rules_table_init(&names, parse->arena, ast->n_rules)) {
        rules_memory_tell(parse);
        return;
    }
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        if (ast->rules[i].name != NULL) {
            (void)rules_table_put(&names, 0, name_bytes(ast->rules[i].name), i);
        }
    }
    names_resolve(parse, &names);
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        cycles_find(parse, i, colors, steps);
    }
}
