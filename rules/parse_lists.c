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

/** @return the list of that descriptor, or where a new one goes */
static struct rules_ast_list *list_find(struct rules_ast *ast, bool is_block,
                                        uint32_t slot)
{
    struct rules_ast_list *list = ast->lists;

    while (list < ast->lists + ast->n_lists
           && (list->is_block != is_block || list->condition.slot != slot)) {
        list++;
    }
    return list;
}

/** Make room for more values. @return false when memory ran out (reported) */
static bool values_grow(struct rules_parse *parse,
                        struct rules_ast_condition *condition, uint32_t n_more)
{
    struct rules_ast_value *values = rules_parse_array(parse,
                                                       condition->n_values + n_more,
                                                       sizeof *values);

    for (uint32_t i = 0; values != NULL && i < condition->n_values; i++) {
        values[i] = condition->values[i];
    }
    if (values != NULL) {
        condition->values = values;
    }
    return values != NULL;
}

/** Files add to a list what each has of it. */
static void descriptor_read(struct rules_parse *parse, const struct yamltree_node *node,
                            bool is_block)
{
    struct rules_ast *ast = parse->ast;
    struct rules_bytes name = {(const uint8_t *)node->key, strlen(node->key)};
    int slot = rules_parse_slot(parse, name, node->key_mark);
    struct rules_ast_list *list;

    if (slot < 0 || !rules_node_is(parse, node, YAMLTREE_SEQUENCE, node->key)) {
        return;
    }
    list = list_find(ast, is_block, (uint32_t)slot);
    if (list == ast->lists + ast->n_lists) {
        list->is_block = is_block;
        list->condition = (struct rules_ast_condition){.slot = (uint32_t)slot,
                                                       .mark = node->key_mark};
    }
    if (!values_grow(parse, &list->condition, node->n_children)) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        entry_read(parse, it, node->key, &list->condition);
    }
    /* Without values a condition would hold for every one. */
    if (list == ast->lists + ast->n_lists && list->condition.n_values > 0) {
        ast->n_lists++;
    }
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
    struct rules_ast_list *lists;
    uint32_t n = ast->n_lists;

    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        n += it->n_children;
    }
    lists = rules_parse_array(parse, n, sizeof *lists);
    if (lists == NULL) {
        return;
    }
    for (uint32_t i = 0; i < ast->n_lists; i++) {
        lists[i] = ast->lists[i];
    }
    ast->lists = lists;
    (void)rules_fields_read(parse, node, "lists", fields,
                            sizeof fields / sizeof fields[0], ast);
}

void rules_lists_check(struct rules_parse *parse)
{
    for (uint32_t i = 0; i < parse->ast->n_lists; i++) {
        rules_match_values_check(parse, &parse->ast->lists[i].condition);
    }
}
