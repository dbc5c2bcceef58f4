#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"

static bool is_taken(const struct rules_ast_rule *rule, uint32_t slot)
{
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        if (rule->key_slots[i] == slot) {
            return true;
        }
    }
    return false;
}

static void part_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    int slot;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "a part of key")) {
        return;
    }
    if (strchr(node->text, '|') != NULL) {
        RULES_FAIL(parse, node->mark, rules_code_not_yet,
                   "a chain of descriptors, a | b, is planned but not built yet");
        return;
    }
    slot = rules_parse_slot(parse, rules_node_bytes(node), node->mark);
    if (slot < 0) {
        return;
    }
    if (is_taken(rule, (uint32_t)slot)) {
        RULES_FAIL(parse, node->mark, rules_code_duplicate_key_part,
                   "'%s' is already a part of this key", node->text);
        return;
    }
    rule->key_slots[rule->n_key_parts++] = (uint32_t)slot;
}

void rules_field_key(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct rules_ast_rule *rule = into;

    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "key")) {
        return;
    }
    if (node->n_children > RULES_KEY_PARTS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_key_parts,
                   "a key can have at most %d parts", RULES_KEY_PARTS_MAX);
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        part_read(parse, it, rule);
    }
}
