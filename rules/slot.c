#include "rules/slot.h"

uint32_t rules_slot_parts(const struct rules_ast *ast,
                          const struct rules_ast_rule *rule)
{
    uint32_t tag = rules_ast_tag_parts(ast, rule);

    return tag != 0 ? tag : (UINT32_C(1) << rule->n_key_parts) - 1;
}

static bool prefixes_are_equal(const struct rules_ast_rule *a,
                               const struct rules_ast_rule *b)
{
    return a->ip_prefix.v4_bits == b->ip_prefix.v4_bits
           && a->ip_prefix.v6_bits == b->ip_prefix.v6_bits;
}

static bool is_of_address(const struct rules_ast_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (part->slots[i] == RULES_SLOT_IP) {
            return true;
        }
    }
    return false;
}

static bool parts_are_equal(const struct rules_ast_part *a,
                            const struct rules_ast_part *b)
{
    return a->n_links == b->n_links
           && memcmp(a->slots, b->slots, a->n_links * sizeof a->slots[0]) == 0;
}

/** The parts that are marked, of one key as of the other, in the same order. */
static bool marked_are_equal(const struct rules_ast_rule *a, uint32_t a_parts,
                             const struct rules_ast_rule *b, uint32_t b_parts)
{
    uint32_t j = 0;

    for (uint32_t i = 0; i < a->n_key_parts; i++) {
        if ((a_parts >> i & 1) == 0) {
            continue;
        }
        while (j < b->n_key_parts && (b_parts >> j & 1) == 0) {
            j++;
        }
        if (j == b->n_key_parts || !parts_are_equal(&a->key[i], &b->key[j])
            || (is_of_address(&a->key[i]) && !prefixes_are_equal(a, b))) {
            return false;
        }
        j++;
    }
    return b_parts >> j == 0;
}

bool rules_slot_is_same(const struct rules_ast *ast, const struct rules_ast_rule *a,
                        const struct rules_ast_rule *b)
{
    if (a == b) {
        return true;
    }
    return a->n_shards == 1 && b->n_shards == 1 && a->n_key_parts > 0
           && b->n_key_parts > 0 && a->is_key_hashed == b->is_key_hashed
           && marked_are_equal(a, rules_slot_parts(ast, a), b,
                               rules_slot_parts(ast, b));
}

/** @return whether a part alone would do as the tag of both */
static bool part_is_common(const struct rules_ast_part *part,
                           const struct rules_ast_rule *a,
                           const struct rules_ast_rule *b)
{
    uint32_t j = 0;

    while (j < b->n_key_parts && !parts_are_equal(part, &b->key[j])) {
        j++;
    }
    return j < b->n_key_parts && part->n_links == 1
           && (!is_of_address(part) || prefixes_are_equal(a, b));
}

bool rules_slot_mend(const struct rules_ast_rule *a, const struct rules_ast_rule *b,
                     uint32_t *slot)
{
    if (a->is_key_hashed != b->is_key_hashed || a->n_shards > 1 || b->n_shards > 1) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_key_parts; i++) {
        if (part_is_common(&a->key[i], a, b)) {
            *slot = a->key[i].slots[0];
            return true;
        }
    }
    return false;
}
