#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/units.h"

static bool is_link(const struct rules_ast_part *part, uint32_t slot)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (part->slots[i] == slot) {
            return true;
        }
    }
    return false;
}

static bool is_part(const struct rules_ast_rule *rule,
                    const struct rules_ast_part *part)
{
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        const struct rules_ast_part *other = &rule->key[i];

        if (other->n_links == part->n_links
            && memcmp(other->slots, part->slots, part->n_links * sizeof part->slots[0])
                   == 0) {
            return true;
        }
    }
    return false;
}

static struct rules_bytes blanks_strip(struct rules_bytes text)
{
    while (text.len > 0 && text.ptr[0] == ' ') {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && text.ptr[text.len - 1] == ' ') {
        text.len--;
    }
    return text;
}

/** @return whether the descriptor was added; reported when not */
static bool link_add(struct rules_parse *parse, const struct yamltree_node *node,
                     struct rules_bytes name, struct rules_ast_part *part)
{
    int slot = rules_parse_slot(parse, blanks_strip(name), node->mark);

    if (slot < 0) {
        return false;
    }
    if (is_link(part, (uint32_t)slot)) {
        RULES_FAIL(parse, node->mark, rules_code_duplicate_key_part,
                   "a descriptor stands twice in the chain '%.128s'", node->text);
        return false;
    }
    if (part->n_links == RULES_KEY_LINKS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_key_parts,
                   "a chain can have at most %d descriptors", RULES_KEY_LINKS_MAX);
        return false;
    }
    part->slots[part->n_links++] = (uint32_t)slot;
    return true;
}

/** Read "a" or "a | b | c". @return false when it is wrong (reported) */
static bool chain_read(struct rules_parse *parse, const struct yamltree_node *node,
                       struct rules_ast_part *part)
{
    struct rules_bytes rest = rules_node_bytes(node);

    for (;;) {
        const uint8_t *bar = rest.len > 0 ? memchr(rest.ptr, '|', rest.len) : NULL;
        size_t len = bar != NULL ? (size_t)(bar - rest.ptr) : rest.len;

        if (!link_add(parse, node, (struct rules_bytes){rest.ptr, len}, part)) {
            return false;
        }
        if (bar == NULL) {
            return true;
        }
        rest.ptr += len + 1;
        rest.len -= len + 1;
    }
}

static void part_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    struct rules_ast_part part = {0};

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "a part of key")
        || !chain_read(parse, node, &part)) {
        return;
    }
    if (is_part(rule, &part)) {
        RULES_FAIL(parse, node->mark, rules_code_duplicate_key_part,
                   "'%.128s' is already a part of this key", node->text);
        return;
    }
    rule->key[rule->n_key_parts++] = part;
}

void rules_field_key(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct rules_ast_rule *rule = into;

    rule->key_mark = node->mark;
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

static void bits_read(struct rules_parse *parse, const struct yamltree_node *node,
                      int64_t most, uint8_t *bits)
{
    int64_t amount = 0;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return;
    }
    if (rules_amount_parse(rules_node_bytes(node), &amount) != RULES_UNITS_OK
        || amount < 1 || amount > most) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount,
                   "%s must be a number of bits from 1 to %d", node->key, (int)most);
        return;
    }
    *bits = (uint8_t)amount;
}

static void read_v4(struct rules_parse *parse, const struct yamltree_node *node,
                    void *into)
{
    struct rules_ip_prefix *prefix = into;

    bits_read(parse, node, 32, &prefix->v4_bits);
}

static void read_v6(struct rules_parse *parse, const struct yamltree_node *node,
                    void *into)
{
    struct rules_ip_prefix *prefix = into;

    bits_read(parse, node, 128, &prefix->v6_bits);
}

void rules_field_ip_prefix(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    static const struct rules_field prefix_fields[] = {{"v4", read_v4, false},
                                                       {"v6", read_v6, false}};
    struct rules_ast_rule *rule = into;

    (void)rules_fields_read(parse, node, "ip_prefix", prefix_fields,
                            sizeof prefix_fields / sizeof prefix_fields[0],
                            &rule->ip_prefix);
}
