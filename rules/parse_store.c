#include <string.h>

#include "rules/bytes.h"
#include "rules/code.h"
#include "rules/fields.h"
#include "rules/unique.h"
#include "rules/units.h"

void rules_field_store(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    static const struct rules_choice stores[] = {{"local", RULES_STORE_LOCAL},
                                                 {"redis", RULES_STORE_REDIS},
                                                 {"lease", RULES_STORE_LEASE},
                                                 {"sync", RULES_STORE_SYNC}};
    struct rules_ast_rule *rule = into;
    int value = RULES_CHOICE_READ(parse, node, stores);

    rule->store_mark = node->mark;
    rule->store = value < 0 ? RULES_STORE_LOCAL : (enum rules_store)value;
}

static void read_local(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_failure *failure = into;
    int32_t permyriad = -1;

    rules_share_read(parse, node, &permyriad);
    if (permyriad == 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_share,
                   "a share of 0%% refuses everything: say closed");
    }
    failure->share_permyriad = permyriad > 0 ? permyriad : failure->share_permyriad;
}

/** Read local, open, closed, or {local: share}. */
void rules_field_on_store_failure(struct rules_parse *parse,
                                  const struct yamltree_node *node, void *into)
{
    static const struct rules_choice policies[] = {{"local", RULES_FAILURE_LOCAL},
                                                   {"open", RULES_FAILURE_OPEN},
                                                   {"closed", RULES_FAILURE_CLOSED}};
    static const struct rules_field fields[] = {{"local", read_local, true}};
    struct rules_ast_rule *rule = into;
    struct rules_failure *failure = &rule->on_store_failure;
    int policy;

    rule->on_store_failure_mark = node->mark;
    *failure = (struct rules_failure){.share_permyriad = 10000};
    if (node->kind == YAMLTREE_MAPPING) {
        (void)rules_fields_read(parse, node, "on_store_failure", fields, 1, failure);
        return;
    }
    policy = RULES_CHOICE_READ(parse, node, policies);
    failure->policy = policy < 0 ? RULES_FAILURE_LOCAL
                                 : (enum rules_failure_policy)policy;
}

void rules_field_key_text(struct rules_parse *parse, const struct yamltree_node *node,
                          void *into)
{
    static const struct rules_choice texts[] = {{"readable", 0}, {"hashed", 1}};
    struct rules_ast_rule *rule = into;

    rule->key_text_mark = node->mark;
    rule->is_key_hashed = RULES_CHOICE_READ(parse, node, texts) == 1;
}

static void on_duplicate(void *context, const struct rules_unique_item *first,
                         const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;

    RULES_FAIL(parse, again->mark, rules_code_duplicate_value,
               "the same descriptor already stands in line %u, column %u",
               first->mark.line, first->mark.column);
}

/** Read a list of descriptors; the key is looked at when the whole rule is read. */
void rules_field_tag(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct rules_unique_item items[RULES_KEY_PARTS_MAX];
    struct rules_ast_rule *rule = into;

    rule->tag_mark = node->mark;
    rule->n_tag = 0;
    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "tag")) {
        return;
    }
    if (node->n_children > RULES_KEY_PARTS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_key_parts,
                   "a tag can have at most %d descriptors", RULES_KEY_PARTS_MAX);
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        const char *name = NULL;

        if (rules_node_is(parse, it, YAMLTREE_SCALAR, "a descriptor of tag")) {
            name = it->text;
        }
        if (name == NULL || !rules_name_is_valid(rules_node_bytes(it))) {
            RULES_FAIL(parse, it->mark, rules_code_bad_descriptor,
                       "a tag is a list of descriptors");
            continue;
        }
        items[rule->n_tag].text = rules_node_bytes(it);
        items[rule->n_tag].mark = it->mark;
        rule->tag[rule->n_tag++] = name;
    }
    rules_unique_check(items, rule->n_tag, on_duplicate, parse);
}

uint32_t rules_ast_tag_parts(const struct rules_ast *ast,
                             const struct rules_ast_rule *rule)
{
    uint32_t parts = 0;

    for (uint32_t i = 0; i < rule->n_tag; i++) {
        struct rules_bytes name = {(const uint8_t *)rule->tag[i], strlen(rule->tag[i])};
        uint32_t part = 0;

        while (part < rule->n_key_parts
               && (rule->key[part].n_links != 1
                   || !rules_bytes_equal(ast->slots[rule->key[part].slots[0]], name))) {
            part++;
        }
        if (part == rule->n_key_parts) {
            return 0;
        }
        parts |= UINT32_C(1) << part;
    }
    return parts;
}

void rules_tag_check(struct rules_parse *parse, const struct yamltree_node *node,
                     struct rules_ast_rule *rule)
{
    if (rule->n_tag == 0 || rules_ast_tag_parts(parse->ast, rule) != 0) {
        return;
    }
    if (node != NULL) {
        RULES_FAIL(parse, node->mark, rules_code_tag_not_in_key,
                   "every descriptor of a tag must be a part of the key, alone in it");
    }
    rule->n_tag = 0;
}

void rules_field_shards(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    struct rules_ast_rule *rule = into;
    int64_t n = 0;

    rule->n_shards = 1;
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "shards")) {
        return;
    }
    if (rules_amount_parse(rules_node_bytes(node), &n) != RULES_UNITS_OK || n == 0
        || n > RULES_SHARDS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount,
                   "shards must be a whole number from 1 to %d, in digits",
                   RULES_SHARDS_MAX);
        return;
    }
    rule->n_shards = (uint32_t)n;
}
