#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"

/** An entry of a list while it is read. */
struct entry {
    const struct yamltree_node *value;
    const char *owner;
    const char *reason;
    int64_t expires_s;
};

static void read_value(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct entry *entry = into;

    (void)parse;
    entry->value = node;
}

static void read_owner(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct entry *entry = into;

    entry->owner = rules_text_read(parse, node);
}

static void read_reason(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    struct entry *entry = into;

    entry->reason = rules_text_read(parse, node);
}

static void read_expires(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    struct entry *entry = into;

    rules_moment_read(parse, node, &entry->expires_s);
}

/** Read a value, or {value, owner, reason}. */
static void entry_read(struct rules_parse *parse, const struct yamltree_node *node,
                       const char *descriptor, struct rules_ast_condition *condition)
{
    static const struct rules_field fields[] = {{"value", read_value, true},
                                                {"owner", read_owner, false},
                                                {"reason", read_reason, false},
                                                {"expires", read_expires, false}};
    struct entry entry = {.value = node, .expires_s = RULES_NEVER_S};
    struct rules_ast_value *value = &condition->values[condition->n_values];

    if (node->kind == YAMLTREE_MAPPING) {
        entry.value = NULL;
        (void)rules_fields_read(parse, node, "an entry of a list", fields,
                                sizeof fields / sizeof fields[0], &entry);
    }
    if (entry.value != NULL
        && rules_match_value_read(parse, entry.value, descriptor, value)) {
        value->owner = entry.owner;
        value->reason = entry.reason;
        value->expires_s = entry.expires_s;
        condition->n_values++;
    }
}

static void descriptor_read(struct rules_parse *parse, const struct yamltree_node *node,
                            bool is_block)
{
    struct rules_ast *ast = parse->ast;
    struct rules_ast_list *list = &ast->lists[ast->n_lists];
    struct rules_bytes name = {(const uint8_t *)node->key, strlen(node->key)};
    int slot = rules_parse_slot(parse, name, node->key_mark);

    if (slot < 0 || !rules_node_is(parse, node, YAMLTREE_SEQUENCE, node->key)) {
        return;
    }
    list->is_block = is_block;
    list->condition = (struct rules_ast_condition){.slot = (uint32_t)slot,
                                                   .mark = node->key_mark};
    list->condition.values = rules_parse_array(parse, node->n_children,
                                               sizeof *list->condition.values);
    if (list->condition.values == NULL) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        entry_read(parse, it, node->key, &list->condition);
    }
    rules_match_values_check(parse, &list->condition);
    /* Without values a condition would hold for every one. */
    ast->n_lists += list->condition.n_values > 0;
}

static void list_read(struct rules_parse *parse, const struct yamltree_node *node,
                      bool is_block)
{
    if (!rules_node_is(parse, node, YAMLTREE_MAPPING, node->key)) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        descriptor_read(parse, it, is_block);
    }
}

static void read_block(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    (void)into;
    list_read(parse, node, true);
}

static void read_allow(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    (void)into;
    list_read(parse, node, false);
}

void rules_field_lists(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    static const struct rules_field fields[] = {{"block", read_block, false},
                                                {"allow", read_allow, false}};
    struct rules_ast *ast = into;
    uint32_t n = 0;

    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        n += it->n_children;
    }
    ast->lists = rules_parse_array(parse, n, sizeof *ast->lists);
    if (ast->lists != NULL) {
        (void)rules_fields_read(parse, node, "lists", fields,
                                sizeof fields / sizeof fields[0], ast);
    }
}
