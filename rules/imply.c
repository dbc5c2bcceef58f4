#include "rules/imply.h"

#include "rules/bytes.h"
#include "rules/path.h"

static bool network_holds(const struct rules_network *wide,
                          const struct rules_network *narrow)
{
    uint8_t wide_key[RULES_NETWORK_KEY_BYTES_MAX];
    uint8_t narrow_key[RULES_NETWORK_KEY_BYTES_MAX];

    if (narrow->address.len == 0 || narrow->address.len != wide->address.len
        || narrow->bits < wide->bits) {
        return false;
    }
    return rules_bytes_equal(
        (struct rules_bytes){wide_key,
                             rules_network_key(rules_address_bytes(&wide->address),
                                               wide->bits, wide_key)},
        (struct rules_bytes){narrow_key,
                             rules_network_key(rules_address_bytes(&narrow->address),
                                               wide->bits, narrow_key)});
}

static uint32_t segments_count(struct rules_bytes text, bool *has_rest)
{
    struct rules_segments it = {.text = text};
    struct rules_bytes seg;
    uint32_t n = 0;

    *has_rest = false;
    while (rules_segments_next(&it, &seg)) {
        *has_rest = rules_segment_kind(seg) == RULES_SEGMENT_REST;
        n++;
    }
    return n;
}

/** A star of the narrow pattern reads as a segment like any other; what its ** may leave
 * out or add, only a ** of the wide one allows. */
static bool pattern_holds(struct rules_bytes wide, struct rules_bytes narrow)
{
    bool is_wide_open;
    bool is_narrow_open;
    uint32_t n_wide = segments_count(wide, &is_wide_open);
    uint32_t n_narrow = segments_count(narrow, &is_narrow_open);

    return rules_pattern_matches(wide, narrow)
           && (!is_narrow_open || (is_wide_open && n_wide <= n_narrow));
}

static bool prefix_holds(const struct rules_ast_value *wide,
                         const struct rules_ast_value *narrow)
{
    size_t len = wide->text.len - 1; /* without the star */
    size_t narrow_len = narrow->text.len - (narrow->kind == RULES_AST_PREFIX);

    return narrow_len >= len
           && rules_bytes_equal((struct rules_bytes){wide->text.ptr, len},
                                (struct rules_bytes){narrow->text.ptr, len});
}

/** @return whether all that matches `narrow` matches `wide` */
static bool value_holds(const struct rules_ast_value *wide,
                        const struct rules_ast_value *narrow)
{
    bool is_address = narrow->network.address.len > 0;

    if (wide->kind == narrow->kind && rules_bytes_equal(wide->text, narrow->text)) {
        return true;
    }
    switch (wide->kind) {
    case RULES_AST_EXACT:
        break;
    case RULES_AST_PATTERN:
        return (narrow->kind == RULES_AST_EXACT || narrow->kind == RULES_AST_PATTERN)
               && pattern_holds(wide->text, narrow->text);
    case RULES_AST_PREFIX:
        /* An exact address also comes in binary form, which no prefix matches. */
        return (narrow->kind == RULES_AST_PREFIX
                || (narrow->kind == RULES_AST_EXACT && !is_address))
               && prefix_holds(wide, narrow);
    case RULES_AST_NETWORK:
        return network_holds(&wide->network, &narrow->network);
    }
    return false;
}

/** @return whether nothing that matches an exact text matches `value` too */
static bool value_excludes(const struct rules_ast_value *value,
                           const struct rules_ast_value *exact)
{
    return exact->kind == RULES_AST_EXACT && exact->network.address.len == 0
           && (value->kind == RULES_AST_EXACT || value->kind == RULES_AST_PATTERN
               || value->kind == RULES_AST_PREFIX)
           && !value_holds(value, exact);
}

static bool value_is_within(const struct rules_ast_value *value,
                            const struct rules_ast_condition *outer, int64_t *n_steps)
{
    for (uint32_t i = 0; i < outer->n_values; i++) {
        if (--*n_steps < 0) {
            return false;
        }
        if (value_holds(&outer->values[i], value)) {
            return true;
        }
    }
    return false;
}

/** @return whether each value of `inner` is within one of `outer` */
static bool values_hold(const struct rules_ast_condition *outer,
                        const struct rules_ast_condition *inner, int64_t *n_steps)
{
    for (uint32_t i = 0; i < inner->n_values; i++) {
        if (!value_is_within(&inner->values[i], outer, n_steps)) {
            return false;
        }
    }
    return true;
}

static bool value_is_outside(const struct rules_ast_value *value,
                             const struct rules_ast_condition *outer, int64_t *n_steps)
{
    for (uint32_t i = 0; i < outer->n_values; i++) {
        if (--*n_steps < 0 || !value_excludes(&outer->values[i], value)) {
            return false;
        }
    }
    return true;
}

/** @return whether each value of `inner` is an exact text in none of `outer` */
static bool values_exclude(const struct rules_ast_condition *outer,
                           const struct rules_ast_condition *inner, int64_t *n_steps)
{
    for (uint32_t i = 0; i < inner->n_values; i++) {
        if (!value_is_outside(&inner->values[i], outer, n_steps)) {
            return false;
        }
    }
    return true;
}

/** Of the same descriptor. */
static bool condition_implies(const struct rules_ast_condition *narrow,
                              const struct rules_ast_condition *wide, int64_t *n_steps)
{
    if (!wide->is_negated && narrow->is_negated) {
        return false; /* it may be absent, and then `wide` does not hold */
    }
    if (!wide->is_negated) {
        return wide->n_values == 0
               || (narrow->n_values > 0 && values_hold(wide, narrow, n_steps));
    }
    if (wide->n_values == 0 || narrow->n_values == 0) { /* absent, or present */
        return narrow->is_negated && narrow->n_values == 0;
    }
    return narrow->is_negated ? values_hold(narrow, wide, n_steps)
                              : values_exclude(wide, narrow, n_steps);
}

static const struct rules_ast_condition *condition_find(
    const struct rules_ast_match *match, uint32_t slot)
{
    for (uint32_t i = 0; i < match->n_conditions; i++) {
        if (match->conditions[i].slot == slot) {
            return &match->conditions[i];
        }
    }
    return NULL;
}

bool rules_match_implies(const struct rules_ast_match *narrow,
                         const struct rules_ast_match *wide, int64_t *n_steps)
{
    for (uint32_t i = 0; i < wide->n_conditions; i++) {
        const struct rules_ast_condition *condition = &wide->conditions[i];
        const struct rules_ast_condition *other = condition_find(narrow,
                                                                 condition->slot);

        if (--*n_steps < 0 || other == NULL
            || !condition_implies(other, condition, n_steps)) {
            return false;
        }
    }
    return *n_steps >= 0;
}

/** Up to where one of them lets anything follow. */
static bool patterns_are_apart(struct rules_bytes a, struct rules_bytes b)
{
    struct rules_segments a_it = {.text = a};
    struct rules_segments b_it = {.text = b};
    struct rules_bytes a_seg;
    struct rules_bytes b_seg;

    for (;;) {
        bool is_a = rules_segments_next(&a_it, &a_seg);
        bool is_b = rules_segments_next(&b_it, &b_seg);

        if ((is_a && rules_segment_kind(a_seg) == RULES_SEGMENT_REST)
            || (is_b && rules_segment_kind(b_seg) == RULES_SEGMENT_REST)) {
            return false;
        }
        if (!is_a || !is_b) {
            return is_a != is_b;
        }
        if (rules_segment_kind(a_seg) == RULES_SEGMENT_LITERAL
            && rules_segment_kind(b_seg) == RULES_SEGMENT_LITERAL
            && !rules_bytes_equal(a_seg, b_seg)) {
            return true;
        }
    }
}

/** @return whether nothing is a value of both */
static bool values_are_apart(const struct rules_ast_value *a,
                             const struct rules_ast_value *b)
{
    if (a->network.address.len > 0 && b->network.address.len > 0) {
        return !network_holds(&a->network, &b->network)
               && !network_holds(&b->network, &a->network);
    }
    if (a->kind == RULES_AST_PATTERN && b->kind == RULES_AST_PATTERN) {
        return patterns_are_apart(a->text, b->text);
    }
    if (a->kind == RULES_AST_PREFIX && b->kind == RULES_AST_PREFIX) {
        return !prefix_holds(a, b) && !prefix_holds(b, a);
    }
    return value_excludes(a, b) || value_excludes(b, a);
}

static bool value_is_apart(const struct rules_ast_value *value,
                           const struct rules_ast_condition *other, int64_t *n_steps)
{
    for (uint32_t i = 0; i < other->n_values; i++) {
        if (--*n_steps < 0 || !values_are_apart(value, &other->values[i])) {
            return false;
        }
    }
    return true;
}

static bool all_are_apart(const struct rules_ast_condition *a,
                          const struct rules_ast_condition *b, int64_t *n_steps)
{
    for (uint32_t i = 0; i < a->n_values; i++) {
        if (!value_is_apart(&a->values[i], b, n_steps)) {
            return false;
        }
    }
    return true;
}

/** Of the same descriptor. */
static bool condition_excludes(const struct rules_ast_condition *a,
                               const struct rules_ast_condition *b, int64_t *n_steps)
{
    if (a->is_negated && b->is_negated) {
        return false;
    }
    if (a->is_negated || b->is_negated) {
        const struct rules_ast_condition *not = a->is_negated ? a : b;
        const struct rules_ast_condition *is = a->is_negated ? b : a;

        return not ->n_values == 0
               || (is->n_values > 0 && values_hold(not, is, n_steps));
    }
    return a->n_values > 0 && b->n_values > 0 && all_are_apart(a, b, n_steps);
}

bool rules_match_excludes(const struct rules_ast_match *a,
                          const struct rules_ast_match *b, int64_t *n_steps)
{
    for (uint32_t i = 0; i < a->n_conditions; i++) {
        const struct rules_ast_condition *other = condition_find(b,
                                                                 a->conditions[i].slot);

        if (--*n_steps < 0) {
            return false;
        }
        if (other != NULL && condition_excludes(&a->conditions[i], other, n_steps)) {
            return true;
        }
    }
    return false;
}
