#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/path.h"
#include "rules/unique.h"

/** Reads one value of a descriptor. @return false when it is wrong (reported) */
typedef bool value_fn(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_value *value);

static bool pattern_check(struct rules_parse *parse, const struct yamltree_node *node,
                          struct rules_ast_value *value)
{
    const char *fault = NULL;

    switch (rules_pattern_kind(value->text)) {
    case RULES_PATTERN_LITERAL:
        break;
    case RULES_PATTERN_WILD:
        value->kind = RULES_AST_PATTERN;
        break;
    case RULES_PATTERN_BAD_STAR:
        fault = "* and ** stand for whole segments, between slashes";
        break;
    case RULES_PATTERN_BAD_REST:
        fault = "** can only be the last segment";
        break;
    case RULES_PATTERN_TOO_LONG:
        fault = "a pattern can have at most 64 segments";
        break;
    }
    if (fault != NULL) {
        RULES_FAIL(parse, node->mark, rules_code_bad_pattern, "%s", fault);
    }
    return fault == NULL;
}

static bool read_route(struct rules_parse *parse, const struct yamltree_node *node,
                       struct rules_ast_value *value)
{
    return pattern_check(parse, node, value);
}

static bool read_path(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_value *value)
{
    size_t len = value->text.len;
    size_t room = len < RULES_PATH_BYTES_MAX ? len : RULES_PATH_BYTES_MAX;
    uint8_t *normal = rules_parse_array(parse, room, 1);

    if (normal == NULL) {
        return false;
    }
    if (strpbrk(node->text, "?#") != NULL) {
        RULES_FAIL(parse, node->mark, rules_code_bad_path,
                   "a path ends before ? and #: what follows is never compared");
        return false;
    }
    if (!rules_path_normalise(value->text, normal, &len)) {
        RULES_FAIL(parse, node->mark, rules_code_bad_path,
                   "this path has no normal form: it must start with /, have %%XX for "
                   "every %% and at most %d bytes",
                   RULES_PATH_BYTES_MAX);
        return false;
    }
    value->text = (struct rules_bytes){normal, len};
    return pattern_check(parse, node, value);
}

/** Read a network, if it is one. @return false when it is an ill-formed one (reported) */
static bool network_read(struct rules_parse *parse, const struct yamltree_node *node,
                         struct rules_ast_value *value)
{
    char right[RULES_ADDRESS_PRINT_BYTES];

    switch (rules_network_parse(value->text, &value->network)) {
    case RULES_NETWORK_OK:
        value->kind = RULES_AST_NETWORK;
        break;
    case RULES_NETWORK_NONE:
        break;
    case RULES_NETWORK_BITS:
        RULES_FAIL(parse, node->mark, rules_code_bad_address,
                   "'%.64s' is no network: an IPv4 address has 32 bits, an IPv6 "
                   "address 128",
                   node->text);
        return false;
    case RULES_NETWORK_HOST_BITS:
        rules_address_print(&value->network.address, right);
        RULES_FAIL(parse, node->mark, rules_code_bad_address,
                   "'%.64s' is an address inside a network: the network is %s/%u",
                   node->text, right, value->network.bits);
        return false;
    }
    return true;
}

static bool read_plain(struct rules_parse *parse, const struct yamltree_node *node,
                       struct rules_ast_value *value)
{
    if (value->text.ptr[value->text.len - 1] == '*') {
        value->kind = RULES_AST_PREFIX;
        if (value->text.len == 1) {
            RULES_FAIL(parse, node->mark, rules_code_bad_pattern,
                       "a star alone is every value: say present");
        }
        return value->text.len > 1;
    }
    if (!network_read(parse, node, value)) {
        return false;
    }
    if (value->kind == RULES_AST_EXACT) {
        value->network.address = rules_address_parse(value->text);
        value->network.bits = (uint8_t)(value->network.address.len * 8);
    }
    return true;
}

static bool read_ip(struct rules_parse *parse, const struct yamltree_node *node,
                    struct rules_ast_value *value)
{
    if (!read_plain(parse, node, value)) {
        return false;
    }
    if (value->network.address.len == 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_address,
                   "'%.64s' is no address and no network", node->text);
        return false;
    }
    return true;
}

static const struct {
    const char *descriptor;
    value_fn *read;
} readers[] = {{"path", read_path}, {"route", read_route}, {"ip", read_ip}};

static value_fn *reader_find(const char *descriptor)
{
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (strcmp(readers[i].descriptor, descriptor) == 0) {
            return readers[i].read;
        }
    }
    return read_plain;
}

bool rules_match_value_read(struct rules_parse *parse, const struct yamltree_node *node,
                            const char *descriptor, struct rules_ast_value *value)
{
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "a value to match")) {
        return false;
    }
    if (node->text_len == 0) {
        RULES_FAIL(parse, node->mark, rules_code_empty_value,
                   "an empty value never matches: empty is absent");
        return false;
    }
    *value = (struct rules_ast_value){.text = rules_node_bytes(node),
                                      .mark = node->mark,
                                      .expires_s = RULES_NEVER_S};
    return reader_find(descriptor)(parse, node, value);
}

static void on_duplicate_value(void *context, const struct rules_unique_item *first,
                               const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;
    char place[RULES_PLACE_BYTES_MAX];

    RULES_FAIL(parse, again->mark, rules_code_duplicate_value,
               "the same value already stands in %s",
               rules_place_print(parse, first->mark, again->mark, place));
}

/** Values are the same when they match the same: after normalisation. */
void rules_match_values_check(struct rules_parse *parse,
                              const struct rules_ast_condition *condition)
{
    struct rules_unique_item *items = rules_parse_array(parse, condition->n_values,
                                                        sizeof *items);
    uint8_t(*keys)[RULES_NETWORK_KEY_BYTES_MAX] = rules_parse_array(parse,
                                                                    condition->n_values,
                                                                    sizeof *keys);

    if (items == NULL || keys == NULL) {
        return;
    }
    for (uint32_t i = 0; i < condition->n_values; i++) {
        const struct rules_ast_value *value = &condition->values[i];

        items[i].text = value->text;
        items[i].mark = value->mark;
        if (condition->slot == RULES_SLOT_IP) {
            items[i].text.ptr = keys[i];
            items[i].text.len = rules_network_key(rules_address_bytes(
                                                      &value->network.address),
                                                  value->network.bits, keys[i]);
        }
    }
    rules_unique_check(items, condition->n_values, on_duplicate_value, parse);
}

static void values_read(struct rules_parse *parse, const struct yamltree_node *node,
                        const char *descriptor, struct rules_ast_condition *condition)
{
    bool is_list = node->kind == YAMLTREE_SEQUENCE;
    uint32_t n = is_list ? node->n_children : 1;
    const struct yamltree_node *it = is_list ? node->first : node;

    if (n == 0) {
        RULES_FAIL(parse, node->mark, rules_code_empty_value,
                   "an empty list never matches");
        return;
    }
    condition->values = rules_parse_array(parse, n, sizeof *condition->values);
    if (condition->values == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++, it = it->next) {
        if (rules_match_value_read(parse, it, descriptor,
                                   &condition->values[condition->n_values])) {
            condition->n_values++;
        }
    }
    rules_match_values_check(parse, condition);
}

/** present and absent are words of the language where they stand alone, unquoted. */
static bool word_read(const struct yamltree_node *node,
                      struct rules_ast_condition *condition)
{
    bool is_absent;

    if (node->kind != YAMLTREE_SCALAR || node->is_quoted) {
        return false;
    }
    is_absent = strcmp(node->text, "absent") == 0;
    if (is_absent) {
        condition->is_negated = !condition->is_negated;
    }
    return is_absent || strcmp(node->text, "present") == 0;
}

/** What {not: ...} holds. @return NULL when the mapping is another (reported) */
static const struct yamltree_node *negated_find(struct rules_parse *parse,
                                                const struct yamltree_node *node)
{
    if (node->n_children != 1 || strcmp(node->first->key, "not") != 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_condition,
                   "'%s' must be a value, a list of values, or {not: ...}", node->key);
        return NULL;
    }
    return node->first;
}

static void condition_read(struct rules_parse *parse, const struct yamltree_node *node,
                           struct rules_ast_condition *condition)
{
    const char *descriptor = node->key;

    if (node->kind == YAMLTREE_MAPPING) {
        node = negated_find(parse, node);
        if (node == NULL) {
            return;
        }
        condition->is_negated = true;
    }
    if (!word_read(node, condition)) {
        values_read(parse, node, descriptor, condition);
    }
}

void rules_match_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_match *match)
{
    bool is_nothing = node->kind == YAMLTREE_SCALAR && node->text_len == 0
                      && !node->is_quoted;

    if (is_nothing || !rules_node_is(parse, node, YAMLTREE_MAPPING, "match")) {
        return;
    }
    match->conditions = rules_parse_array(parse, node->n_children,
                                          sizeof *match->conditions);
    if (match->conditions == NULL) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        struct rules_bytes name = {(const uint8_t *)it->key, strlen(it->key)};
        struct rules_ast_condition *condition = &match->conditions[match->n_conditions];
        int slot;

        if (strcmp(it->key, "not") == 0) {
            RULES_FAIL(parse, it->key_mark, rules_code_bad_condition,
                       "'not' belongs to one descriptor: {auth: {not: anonymous}}");
            continue;
        }
        slot = rules_parse_slot(parse, name, it->key_mark);
        if (slot < 0) {
            continue;
        }
        match->n_conditions++;
        condition->slot = (uint32_t)slot;
        condition->mark = it->key_mark;
        condition_read(parse, it, condition);
    }
}

void rules_field_match(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_ast_rule *rule = into;

    rule->match_mark = node->mark;
    rules_match_read(parse, node, &rule->match);
}
