#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"

static void read_path(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    struct rules_ast_clients *clients = into;

    clients->path = rules_path_read(parse, node);
    clients->mark = node->mark;
}

static void read_by(struct rules_parse *parse, const struct yamltree_node *node,
                    void *into)
{
    struct rules_ast_clients *clients = into;
    int slot;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return;
    }
    if (strcmp(node->text, "plan") == 0 || strcmp(node->text, "path") == 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_descriptor,
                   "clients cannot be named by '%s'", node->text);
        return;
    }
    slot = rules_parse_slot(parse, rules_node_bytes(node), node->mark);
    clients->slot = slot < 0 ? 0 : (uint32_t)slot;
}

/** Read FILE, or {file: FILE, by: DESCRIPTOR}. */
void rules_field_clients(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    static const struct rules_field fields[] = {{"file", read_path, true},
                                                {"by", read_by, false}};
    static const struct rules_bytes plan = {(const uint8_t *)"plan", 4};
    static const struct rules_bytes client = {(const uint8_t *)"client", 6};
    struct rules_ast *ast = into;
    int slot = 0;

    if (node->kind == YAMLTREE_MAPPING) {
        (void)rules_fields_read(parse, node, "clients", fields, 2, &ast->clients);
    } else {
        read_path(parse, node, &ast->clients);
    }
    if (node->kind != YAMLTREE_MAPPING || yamltree_child(node, "by") == NULL) {
        slot = rules_parse_slot(parse, client, node->mark);
        ast->clients.slot = slot < 0 ? 0 : (uint32_t)slot;
    }
    ast->slot_plan = rules_parse_slot(parse, plan, node->mark);
}
