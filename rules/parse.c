#include <string.h>

#include "rules/ast.h"
#include "rules/code.h"
#include "rules/fields.h"
#include "rules/unique.h"
#include "rules/units.h"

static void required_field_check(struct rules_parse *parse,
                                 const struct yamltree_node *node)
{
    if (rules_node_is(parse, node, YAMLTREE_SCALAR, "a field to require")
        && !rules_is_rule_field(node->text)) {
        RULES_FAIL(parse, node->mark, rules_code_bad_choice,
                   "'%.64s' is no field of a rule", node->text);
    }
}

static void on_duplicate_field(void *context, const struct rules_unique_item *first,
                               const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;

    RULES_FAIL(parse, again->mark, rules_code_duplicate_value,
               "the same field already stands in line %u, column %u", first->mark.line,
               first->mark.column);
}

/** @return whether `require` is a list of different fields; reported when not */
static bool require_check(struct rules_parse *parse, const struct yamltree_node *node)
{
    uint32_t n_errors = parse->diags->n_errors;
    struct rules_unique_item *items;
    size_t n = 0;

    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "require")) {
        return false;
    }
    items = rules_parse_array(parse, node->n_children, sizeof *items);
    for (const struct yamltree_node *it = node->first; items != NULL && it != NULL;
         it = it->next) {
        required_field_check(parse, it);
        items[n].text = rules_node_bytes(it);
        items[n++].mark = it->mark;
    }
    if (parse->diags->n_errors == n_errors) {
        rules_unique_check(items, n, on_duplicate_field, parse);
    }
    return parse->diags->n_errors == n_errors;
}

static void required_keep(struct rules_parse *parse, const struct yamltree_node *node)
{
    struct rules_ast *ast = parse->ast;

    ast->required = rules_parse_array(parse, node->n_children, sizeof *ast->required);
    if (ast->required == NULL) {
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        ast->required[ast->n_required++] = it->text;
    }
}

static void on_duplicate_name(void *context, const struct rules_unique_item *first,
                              const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;
    char place[RULES_PLACE_BYTES_MAX];

    RULES_FAIL(parse, again->mark, rules_code_duplicate_name,
               "a rule '%s' already stands in %s", (const char *)again->text.ptr,
               rules_place_print(parse, first->mark, again->mark, place));
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

static void variants_check(struct rules_parse *parse, const struct yamltree_node *node)
{
    uint32_t n = rules_ast_variants(parse->ast);

    for (uint32_t i = 0; i < parse->ast->n_rules; i++) {
        n += parse->ast->rules[i].n_limits;
    }
    if (n > RULES_VARIANTS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_plans,
                   "%u limits with those that plans make; at most %d are allowed", n,
                   RULES_VARIANTS_MAX);
    }
}

static void read_rules(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_ast *ast = into;

    parse->has_rules = true;
    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "rules")) {
        return;
    }
    if (node->n_children == 0) {
        RULES_FAIL(parse, node->mark, rules_code_no_rules,
                   "at least one rule is needed");
        return;
    }
    if (node->n_children > parse->n_rules_max - ast->n_rules) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_rules,
                   "%u rules; at most %d are allowed", ast->n_rules + node->n_children,
                   RULES_RULES_MAX);
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        rules_rule_read(parse, it, &ast->rules[ast->n_rules++]);
    }
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

static void read_same_domain(struct rules_parse *parse,
                             const struct yamltree_node *node, void *into)
{
    const struct rules_ast *ast = into;
    const char *domain = rules_name_read(parse, node);

    if (domain != NULL && ast->domain != NULL && strcmp(domain, ast->domain) != 0) {
        RULES_FAIL(parse, node->mark, rules_code_other_domain,
                   "the file that includes this one is of the domain '%s'",
                   ast->domain);
    }
}

static void refuse_field(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    (void)into;
    RULES_FAIL(parse, node->key_mark, rules_code_main_file_only,
               "'%s' belongs in the file that includes this one", node->key);
}

static const struct rules_field main_fields[] = {
    {"version", read_version, true},      {"domain", read_domain, true},
    {"rules", read_rules, false},         {"require", rules_field_skip, false},
    {"include", rules_field_skip, false}, {"defaults", rules_field_skip, false},
    {"lists", rules_field_lists, false},  {"clients", rules_field_clients, false},
};

static const struct rules_field included_fields[] = {
    {"version", read_version, true},     {"domain", read_same_domain, true},
    {"rules", read_rules, false},        {"require", refuse_field, false},
    {"include", refuse_field, false},    {"defaults", rules_field_skip, false},
    {"lists", rules_field_lists, false}, {"clients", refuse_field, false},
};

enum {
    N_FILE_FIELDS = sizeof main_fields / sizeof main_fields[0]
};
_Static_assert(sizeof main_fields == sizeof included_fields, "both know all fields");

/** Read a file of rules; what holds for all of them first, wherever it stands in it. */
static void root_read(struct rules_parse *parse, const struct yamltree_node *root,
                      const struct rules_field *fields)
{
    rules_defaults_read(parse, yamltree_child(root, "defaults"));
    (void)rules_fields_read(parse, root, "file", fields, N_FILE_FIELDS, parse->ast);
}

static void main_read(struct rules_parse *parse, const struct yamltree_node *root)
{
    const struct yamltree_node *require = yamltree_child(root, "require");

    if (require != NULL && require_check(parse, require)) {
        required_keep(parse, require);
    }
    root_read(parse, root, main_fields);
    if (root->kind == YAMLTREE_MAPPING && yamltree_child(root, "rules") == NULL
        && yamltree_child(root, "include") == NULL) {
        RULES_FAIL(parse, root->mark, rules_code_missing_field, "file needs 'rules'");
    }
}

static void included_read(struct rules_parse *parse, const struct yamltree_node *root)
{
    root_read(parse, root, included_fields);
    if (root->kind == YAMLTREE_MAPPING && yamltree_child(root, "rules") == NULL
        && yamltree_child(root, "lists") == NULL) {
        RULES_FAIL(parse, root->mark, rules_code_missing_field,
                   "file needs 'rules' or 'lists'");
    }
}

/** What only shows when all files are read. */
static void whole_check(struct rules_parse *parse, const struct yamltree_node *root)
{
    const struct yamltree_node *include = yamltree_child(root, "include");

    if (include != NULL && !parse->has_rules) {
        RULES_FAIL(parse, include->mark, rules_code_no_rules,
                   "at least one rule is needed, here or in an included file");
    }
    variants_check(parse, root);
    names_check(parse);
    rules_overrides_resolve(parse);
    rules_lists_check(parse);
}

/** @return how many rules the files have room for, as far as they are allowed */
static uint32_t rules_count(const struct rules_file *file)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < rules_file_n_trees(file); i++) {
        const struct yamltree_node *root = yamltree_root(rules_file_tree(file, i));
        const struct yamltree_node *rules = yamltree_child(root, "rules");

        n += rules != NULL ? rules->n_children : 0;
    }
    return n < RULES_RULES_MAX ? n : RULES_RULES_MAX;
}

void rules_ast_parse(const struct rules_file *file, struct rules_arena *arena,
                     struct rules_diags *diags, struct rules_ast *ast)
{
    static const struct rules_bytes ip = {(const uint8_t *)"ip", 2};
    const struct yamltree_node *root = yamltree_root(rules_file_tree(file, 0));
    struct rules_parse parse = {.file = file,
                                .diags = diags,
                                .arena = arena,
                                .ast = ast,
                                .n_rules_max = rules_count(file)};

    *ast = (struct rules_ast){.slot_path = -1, .slot_plan = -1};
    ast->slots[RULES_SLOT_IP] = ip;
    ast->n_slots = 1;
    ast->rules = rules_parse_array(&parse, parse.n_rules_max, sizeof *ast->rules);
    if (ast->rules == NULL) {
        return;
    }
    main_read(&parse, root);
    for (uint32_t i = 1; i < rules_file_n_trees(file); i++) {
        included_read(&parse, yamltree_root(rules_file_tree(file, i)));
    }
    whole_check(&parse, root);
}
