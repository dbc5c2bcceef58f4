#include <string.h>

#include "rules/ast.h"
#include "rules/code.h"
#include "rules/fields.h"
#include "rules/unique.h"

enum {
    OWNER_BYTES_MAX = 128
};

struct choice {
    const char *name;
    int value; /* -1: planned, not built yet */
};

/** @return the value, or -1 (reported) */
static int choice_read(struct rules_parse *parse, const struct yamltree_node *node,
                       const struct choice *choices, size_t n)
{
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(node->text, choices[i].name) != 0) {
            continue;
        }
        if (choices[i].value < 0) {
            RULES_FAIL(parse, node->mark, rules_code_not_yet,
                       "'%s: %s' is planned but not built yet", node->key, node->text);
        }
        return choices[i].value;
    }
    RULES_FAIL(parse, node->mark, rules_code_bad_choice,
               "'%.64s' is not one of the values of '%s': %s%s%s", node->text,
               node->key, choices[0].name, n > 1 && choices[1].value >= 0 ? ", " : "",
               n > 1 && choices[1].value >= 0 ? choices[1].name : "");
    return -1;
}

#define CHOICE_READ(parse, node, choices) \
    choice_read(parse, node, choices, sizeof(choices) / sizeof(choices)[0])

static void read_rule_name(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct rules_ast_rule *rule = into;

    rule->name = rules_name_read(parse, node);
    rule->name_mark = node->mark;
}

static void read_owner(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_ast_rule *rule = into;
    bool is_good;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "owner")) {
        return;
    }
    is_good = node->text_len > 0 && node->text_len <= OWNER_BYTES_MAX;
    for (size_t i = 0; i < node->text_len; i++) {
        is_good = is_good && node->text[i] >= 0x20 && node->text[i] < 0x7f;
    }
    if (!is_good) {
        RULES_FAIL(parse, node->mark, rules_code_bad_text,
                   "owner must be 1 to %d printable ASCII characters", OWNER_BYTES_MAX);
        return;
    }
    rule->owner = node->text;
}

static void read_mode(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    static const struct choice modes[] = {{"enforce", RULES_ENFORCE},
                                          {"shadow", RULES_SHADOW}};
    struct rules_ast_rule *rule = into;
    int value;

    if (node->kind == YAMLTREE_MAPPING) {
        RULES_FAIL(parse, node->mark, rules_code_not_yet,
                   "a 'mode' in percent is planned but not built yet");
        return;
    }
    value = CHOICE_READ(parse, node, modes);
    rule->mode = value == RULES_SHADOW ? RULES_SHADOW : RULES_ENFORCE;
}

static void read_advertise(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    static const struct choice choices[] = {{"true", 1}, {"false", 0}};
    struct rules_ast_rule *rule = into;

    rule->is_advertised = CHOICE_READ(parse, node, choices) == 1;
}

static void read_no_key(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    static const struct choice choices[] = {{"ip", 0}, {"skip", 1}, {"reject", -1}};
    struct rules_ast_rule *rule = into;

    rule->is_skipped_keyless = CHOICE_READ(parse, node, choices) == 1;
}

static void read_store(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    static const struct choice stores[] = {{"local", 0},
                                           {"redis", -1},
                                           {"lease", -1},
                                           {"sync", -1}};

    (void)into; /* there is one store so far */
    (void)CHOICE_READ(parse, node, stores);
}

static const struct rules_field rule_fields[] = {
    {"name", read_rule_name, true},
    {"owner", read_owner, false},
    {"match", rules_field_match, false},
    {"key", rules_field_key, true},
    {"no_key", read_no_key, false},
    {"ip_prefix", rules_field_ip_prefix, false},
    {"limit", rules_field_limit, false},
    {"limits", rules_field_limits, false},
    {"mode", read_mode, false},
    {"advertise", read_advertise, false},
    {"store", read_store, false},
    {"review_by", NULL, false},
    {"expires", NULL, false},
    {"plans", NULL, false},
    {"cost", NULL, false},
    {"costs", NULL, false},
    {"charge", NULL, false},
    {"soft", NULL, false},
    {"action", NULL, false},
    {"overrides", NULL, false},
    {"on_store_failure", NULL, false},
    {"tag", NULL, false},
    {"shards", NULL, false},
    {"key_text", NULL, false},
};

enum {
    N_RULE_FIELDS = sizeof rule_fields / sizeof rule_fields[0]
};
_Static_assert((size_t)N_RULE_FIELDS <= (size_t)RULES_FIELDS_MAX,
               "a table of fields is too long");

static void on_duplicate_name(void *context, const struct rules_unique_item *first,
                              const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;

    RULES_FAIL(parse, again->mark, rules_code_duplicate_name,
               "a rule '%s' already stands in line %u", (const char *)again->text.ptr,
               first->mark.line);
}

static void names_check(struct rules_parse *parse)
{
    const struct rules_ast *ast = parse->ast;
    struct rules_unique_item *items = rules_parse_array(parse, ast->n_rules,
                                                        sizeof *items);
    size_t n = 0;

    if (items == NULL) {
        return;
    }
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        const char *name = ast->rules[i].name;

        if (name != NULL) {
            items[n].text = (struct rules_bytes){(const uint8_t *)name, strlen(name)};
            items[n++].mark = ast->rules[i].name_mark;
        }
    }
    rules_unique_check(items, n, on_duplicate_name, parse);
}

/** A rule has `limit` or `limits`. */
static void limits_check(struct rules_parse *parse, const struct yamltree_node *node)
{
    bool has_limit = yamltree_child(node, "limit") != NULL;
    const struct yamltree_node *limits = yamltree_child(node, "limits");

    if (has_limit && limits != NULL) {
        RULES_FAIL(parse, limits->key_mark, rules_code_limit_and_limits,
                   "a rule has 'limit' or 'limits', not both");
    } else if (!has_limit && limits == NULL) {
        RULES_FAIL(parse, node->mark, rules_code_missing_field,
                   "rule needs 'limit' or 'limits'");
    }
}

static void read_rules(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_ast *ast = into;

    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "rules")) {
        return;
    }
    if (node->n_children == 0) {
        RULES_FAIL(parse, node->mark, rules_code_no_rules,
                   "at least one rule is needed");
        return;
    }
    if (node->n_children > RULES_RULES_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_rules,
                   "%u rules; at most %d are allowed", node->n_children,
                   RULES_RULES_MAX);
        return;
    }
    ast->rules = rules_parse_array(parse, node->n_children, sizeof *ast->rules);
    if (ast->rules == NULL) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        struct rules_ast_rule *rule = &ast->rules[ast->n_rules++];

        rule->is_advertised = true;
        rule->ip_prefix = RULES_IP_PREFIX_DEFAULT;
        if (rules_fields_read(parse, it, "rule", rule_fields, N_RULE_FIELDS, rule)) {
            limits_check(parse, it);
        }
    }
    names_check(parse);
}

static void read_version(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    (void)into;
    if (node->kind != YAMLTREE_SCALAR || strcmp(node->text, "1") != 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_version, "version must be 1");
    }
}

static void read_domain(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    struct rules_ast *ast = into;

    ast->domain = rules_name_read(parse, node);
}

static const struct rules_field file_fields[] = {
    {"version", read_version, true}, {"domain", read_domain, true},
    {"rules", read_rules, true},     {"require", NULL, false},
    {"include", NULL, false},        {"defaults", NULL, false},
    {"lists", NULL, false},          {"clients", NULL, false},
};

enum {
    N_FILE_FIELDS = sizeof file_fields / sizeof file_fields[0]
};

void rules_ast_parse(const struct yamltree *tree, struct rules_arena *arena,
                     struct rules_diags *diags, struct rules_ast *ast)
{
    static const struct rules_bytes ip = {(const uint8_t *)"ip", 2};
    struct rules_parse parse = {.tree = tree,
                                .diags = diags,
                                .arena = arena,
                                .ast = ast};

    *ast = (struct rules_ast){.slot_path = -1};
    ast->slots[RULES_SLOT_IP] = ip;
    ast->n_slots = 1;
    (void)rules_fields_read(&parse, yamltree_root(tree), "file", file_fields,
                            N_FILE_FIELDS, ast);
}
