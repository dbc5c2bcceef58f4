#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdlib.h>

#include "rules/file.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

struct part {
    const char *path;
    const char *text; /* NULL: cannot be read */
};

static char *read_part(void *context, const char *path, size_t bytes_max, size_t *len,
                       const char **error)
{
    for (const struct part *part = context; part->path != NULL; part++) {
        if (strcmp(part->path, path) == 0 && part->text != NULL) {
            *len = strlen(part->text);
            assert_true(*len <= bytes_max);
            return strdup(part->text);
        }
    }
    *error = "there is none";
    return NULL;
}

/** Read a file of this name and text; the others lie where `parts` says. */
static struct rules_file *read_main(const char *name, const char *text,
                                    struct part *parts)
{
    rules_diags_init(&diags, name);
    return rules_file_read(&(struct rules_source){.name = name,
                                                  .text = bytes_of(text),
                                                  .read = read_part,
                                                  .context = parts},
                           &diags);
}

static struct rules_file *read_good(const char *name, const char *text,
                                    struct part *parts)
{
    struct rules_file *file = read_main(name, text, parts);

    rules_diags_print(&diags, stderr);
    assert_non_null(file);
    return file;
}

#define HEAD       "version: 1\ndomain: d\n"
#define LIMIT      "key: [ip], limit: {requests: 1, per: 1s}"
#define RULE(more) "{" LIMIT ", " more "}"

static void test_rules(void **state)
{
    struct part parts[] = {{"/etc/x/b.yaml", HEAD "rules: [" RULE("name: b1") ", " RULE(
                                                 "name: b2, overrides: m1") "]\n"},
                           {"/a.yaml",
                            HEAD "defaults: {owner: a, mode: shadow}\nrules: [" RULE(
                                "name: a1, overrides: b2") "]\n"},
                           {NULL, NULL}};
    struct rules_file *file = read_good("/etc/x/main.yaml",
                                        HEAD "include: [b.yaml, /a.yaml]\n"
                                             "defaults: {soft: 50%}\n"
                                             "rules: [" RULE("name: m1") "]\n",
                                        parts);
    static const char *const names[] = {"m1", "b1", "b2", "a1"};
    const struct rules_ast *ast = rules_file_ast(file);

    (void)state;
    assert_int_equal(ast->n_rules, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(ast->rules[i].name, names[i]);
    }
    assert_int_equal(ast->rules[0].soft_permyriad, 5000);
    assert_int_equal(ast->rules[1].soft_permyriad, 0); /* defaults are of one file */
    assert_string_equal(ast->rules[3].owner, "a");
    assert_null(ast->rules[2].owner);
    assert_int_equal(ast->rules[2].overrides[0].rule, 0);
    assert_int_equal(ast->rules[3].overrides[0].rule, 2);
    assert_int_equal(rules_file_n_trees(file), 3);
    assert_string_equal(rules_file_name(file, 0), "/etc/x/main.yaml");
    assert_string_equal(rules_file_name(file, 1), "/etc/x/b.yaml");
    assert_string_equal(rules_file_name(file, 2), "/a.yaml");
    rules_file_diag(file, &diags, RULES_WARNING, ast->rules[3].name_mark, "odd", "x");
    rules_file_diag(file, &diags, RULES_WARNING, ast->rules[0].name_mark, "odd", "y");
    assert_string_equal(rules_diag_file(&diags, &diags.kept[0]), "/etc/x/main.yaml");
    assert_string_equal(rules_diag_file(&diags, &diags.kept[1]), "/a.yaml");
    rules_file_free(file);
}

static void test_only_includes(void **state)
{
    struct part parts[] = {{"a", HEAD "rules: [" RULE("name: a") "]\n"}, {NULL, NULL}};

    (void)state;
    rules_file_free(read_good("main", HEAD "include: [a]\n", parts));
}

/** Lists of one descriptor become one list. */
static void test_lists(void **state)
{
    struct part parts[] = {
        {"a", HEAD "lists: {block: {user: [u3], ip: [192.0.2.2]}, allow: {ip: ["
                   "192.0.2.1]}}\n"},
        {NULL, NULL}};
    struct rules_file *file = read_good("m",
                                        HEAD "include: [a]\nrules: [" RULE(
                                            "name: a") "]\n"
                                                       "lists: {block: {ip: [192.0.2.1]"
                                                       ", user: [u1, u2]}}\n",
                                        parts);
    const struct rules_ast *ast = rules_file_ast(file);

    (void)state;
    assert_int_equal(ast->n_lists, 3);
    assert_int_equal(ast->lists[0].condition.n_values, 2);
    assert_int_equal(ast->lists[1].condition.n_values, 3);
    assert_memory_equal(ast->lists[1].condition.values[2].text.ptr, "u3", 2);
    assert_false(ast->lists[2].is_block);
    rules_file_free(file);
    parts[0].text = HEAD "lists: {block: {ip: ['192.0.2.1']}}\n";
    assert_null(read_main("m",
                          HEAD "include: [a]\nlists: {block: {ip: [192.0.2.1]}}\n"
                               "rules: [" RULE("name: a") "]\n",
                          parts));
    assert_int_equal(diags.n_errors, 1);
    assert_string_equal(diags.kept[0].text,
                        "the same value already stands in line 4, column 22 of m");
}

/** What the main file requires holds for all rules; other faults are told with it. */
static void test_require(void **state)
{
    struct part parts[] = {{"a", HEAD "rules: [" RULE("name: a") "]\n"}, {NULL, NULL}};

    (void)state;
    assert_null(read_main("main",
                          HEAD "include: [a]\nrequire: [owner]\ndefaults: {owner: o}\n"
                               "rules: [" RULE("name: a") "]\n",
                          parts));
    assert_int_equal(diags.n_errors, 2);
    assert_string_equal(diags.kept[0].code, "missing-field");
    assert_string_equal(diags.kept[1].text,
                        "a rule 'a' already stands in line 6, column 58 of main");
}

/** Bytes and events are bounded in all. */
static void test_bounds(void **state)
{
    enum {
        HALF_BYTES = RULES_FILE_BYTES_MAX / 2,
        HALF_EVENTS = YAMLTREE_EVENTS_MAX / 2
    };
    static char text[HALF_BYTES + 1];
    struct part parts[] = {{"a", text}, {"b", text}, {"c", NULL}, {NULL, NULL}};

    (void)state;
    memset(text, '#', HALF_BYTES);
    memcpy(text, "a: 1\n", 5);
    assert_null(read_main("m", HEAD "include: [a, b, c]\n", parts));
    assert_int_equal(diags.n_errors, 1); /* c is not even read */
    assert_string_equal(diags.kept[0].code, "file-too-large");
    assert_string_equal(rules_diag_file(&diags, &diags.kept[0]), "b");

    text[0] = '\0';
    for (size_t i = 0; i < HALF_EVENTS; i++) {
        memcpy(text + 4 * i, "- 1\n", 5);
    }
    assert_null(read_main("m", HEAD "include: [a, b, c]\n", parts));
    assert_int_equal(diags.n_errors, 1);
    assert_string_equal(diags.kept[0].code, "yaml-events");
    assert_string_equal(rules_diag_file(&diags, &diags.kept[0]), "b");
}

/** Every file that is no YAML is told, and nothing that only seems to be missing. */
static void test_unreadable(void **state)
{
    struct part parts[] = {{"a", "{"},
                           {"b", NULL},
                           {"c", HEAD "lists: {}"},
                           {NULL, NULL}};

    (void)state;
    assert_null(read_main("m", HEAD "include: [a, b, c]\nrules: [{}]\n", parts));
    assert_int_equal(diags.n_errors, 2);
    assert_string_equal(diags.kept[0].text, "cannot read b: there is none");
    assert_string_equal(diags.kept[1].code, "yaml-syntax");
}

/** A main file that leaves no room says so, and is not taken for the whole. */
static void test_full(void **state)
{
    static char text[RULES_FILE_BYTES_MAX + 1];
    static const char head[] = HEAD "include: [a]\nrules: [" RULE("name: m") "]\n";
    struct part parts[] = {{"a", HEAD "rules: [" RULE("name: a") "]\n"}, {NULL, NULL}};

    (void)state;
    memset(text, '#', RULES_FILE_BYTES_MAX);
    memcpy(text, head, sizeof head - 1);
    assert_null(read_main("m", text, parts));
    assert_int_equal(diags.n_errors, 1);
    assert_string_equal(diags.kept[0].code, "file-too-large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),  cmocka_unit_test(test_only_includes),
        cmocka_unit_test(test_lists),  cmocka_unit_test(test_require),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
