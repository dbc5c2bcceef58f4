#include "rules/file.h"
#include "rules/imply.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

typedef bool relation_fn(const struct rules_ast_match *a,
                         const struct rules_ast_match *b, int64_t *n_steps);

/* Of two matches as they stand between braces. */
static bool holds(relation_fn *relation, const char *narrow, const char *wide,
                  int64_t n_steps)
{
    static char text[4096];
    struct rules_file *file;
    bool is_held;

    (void)
        snprintf(text, sizeof text,
                 "version: 1\ndomain: d\nrules:\n"
                 "- {name: a, key: [], limit: {requests: 10, per: 1s}, match: {%s}}\n"
                 "- {name: b, key: [], limit: {requests: 10, per: 1s}, match: {%s}}\n",
                 narrow, wide);
    rules_diags_init(&diags, "test.yaml");
    file = rules_file_read(&(struct rules_source){.name = "test.yaml",
                                                  .text = bytes_of(text)},
                           &diags);
    if (file == NULL) {
        rules_diags_print(&diags, stderr);
    }
    assert_non_null(file);
    is_held = relation(&rules_file_ast(file)->rules[0].match,
                       &rules_file_ast(file)->rules[1].match, &n_steps);
    rules_file_free(file);
    return is_held;
}

static bool implies_within(const char *narrow, const char *wide, int64_t n_steps)
{
    return holds(rules_match_implies, narrow, wide, n_steps);
}

/* Which is the first does not matter. */
static bool excludes(const char *a, const char *b)
{
    bool is_excluded = holds(rules_match_excludes, a, b, 1000);

    assert_int_equal(holds(rules_match_excludes, b, a, 1000), is_excluded);
    return is_excluded;
}

static bool implies(const char *narrow, const char *wide)
{
    return implies_within(narrow, wide, 1000);
}

static void test_conditions(void **state)
{
    (void)state;
    assert_true(implies("", ""));
    assert_true(implies("a: x", ""));
    assert_false(implies("", "a: x"));
    assert_true(implies("a: x, b: y", "b: y"));
    assert_false(implies("a: x", "a: x, b: y"));
    assert_true(implies("a: x", "a: [y, x]"));
    assert_false(implies("a: [y, x]", "a: x"));
    assert_true(implies("a: x", "a: present"));
    assert_false(implies("a: present", "a: x"));
    assert_false(implies("a: {not: x}", "a: present"));
    assert_false(implies("a: absent", "a: present"));
    assert_true(implies("a: absent", "a: absent"));
    assert_false(implies("a: x", "a: absent"));
}

static void test_negations(void **state)
{
    (void)state;
    assert_true(implies("a: absent", "a: {not: x}"));
    assert_true(implies("a: y", "a: {not: x}"));
    assert_false(implies("a: [y, x]", "a: {not: x}"));
    assert_false(implies("a: present", "a: {not: x}"));
    assert_true(implies("a: {not: [x, y]}", "a: {not: x}"));
    assert_false(implies("a: {not: x}", "a: {not: [x, y]}"));
    assert_true(implies("a: {not: x*}", "a: {not: [xx, xyz*]}"));
    assert_true(implies("a: xy*", "a: x*"));
    assert_false(implies("a: x*", "a: x**")); /* whose prefix has a star */
    assert_true(implies("a: x**", "a: x*"));
    assert_false(implies("a: {not: x}", "a: absent"));
    assert_false(implies("a: xx", "a: {not: x*}"));
    assert_true(implies("path: /b", "path: {not: /a/**}"));
    /* Texts that may mean one address are not known to differ. */
    assert_false(implies("ip: '::1'", "ip: {not: '::2'}"));
    assert_false(implies("ip: 10.0.0.1", "ip: {not: 11.0.0.0/8}"));
}

static void test_values(void **state)
{
    (void)state;
    assert_true(implies("a: abc", "a: ab*"));
    assert_true(implies("a: abc*", "a: ab*"));
    assert_false(implies("a: a*", "a: ab*"));
    assert_false(implies("a: a", "a: ab*"));
    assert_false(implies("a: 10.0.0.1", "a: 10*")); /* in binary form it has no text */
    assert_true(implies("ip: 10.1.0.0/16", "ip: 10.0.0.0/8"));
    assert_true(implies("ip: 10.1.2.3", "ip: 10.0.0.0/8"));
    assert_false(implies("ip: 11.1.2.3", "ip: 10.0.0.0/8"));
    assert_false(implies("ip: 10.0.0.0/8", "ip: 10.1.0.0/16"));
    assert_false(implies("ip: '::/0'", "ip: 0.0.0.0/0"));
    assert_false(implies("ip: 10.1.2.3", "ip: '::/0'"));
    assert_true(implies("path: /a/b", "path: /a/*"));
    assert_true(implies("path: /a/*/c", "path: /a/**"));
    assert_true(implies("path: /a/b/**", "path: /a/**"));
    assert_true(implies("path: /a/b/**", "path: /a/*/**"));
    assert_false(implies("path: /a/**", "path: /a/b/**"));
    assert_false(implies("path: /a/**", "path: /a/*"));
    assert_false(implies("path: /a/**", "path: /a/*/**")); /* /a itself */
    assert_false(implies("path: /a/*", "path: /a/b"));
}

static void test_steps(void **state)
{
    (void)state;
    assert_true(implies_within("a: x", "a: [v, w, x]", 4));
    assert_false(implies_within("a: x", "a: [v, w, x]", 3));
    assert_false(implies_within("a: z", "a: {not: [v, w, x]}", 3));
    assert_false(implies_within("a: x, b: y", "a: x, b: y", 3));
}

static void test_exclusion(void **state)
{
    (void)state;
    assert_false(excludes("", ""));
    assert_false(excludes("a: x", ""));
    assert_false(excludes("a: x", "b: y"));
    assert_true(excludes("a: x", "a: y"));
    assert_true(excludes("a: x, b: z", "a: y, b: z"));
    assert_false(excludes("a: [x, y]", "a: [y, z]"));
    assert_true(excludes("a: [x, y]", "a: [z, w]"));
    assert_false(excludes("a: x*", "a: xy"));
    assert_true(excludes("a: x*", "a: yx"));
    assert_true(excludes("a: x*", "a: y*"));
    assert_false(excludes("a: x*", "a: xy*"));
    assert_true(excludes("path: \"/a/**\"", "path: \"/b/**\""));
    assert_false(excludes("path: \"/a/**\"", "path: \"/a\""));
    assert_false(excludes("path: \"/a/**\"", "path: \"/*/b/*\""));
    assert_true(excludes("path: \"/a/*\"", "path: \"/*/*/*\""));
    assert_true(excludes("path: \"/a/*\"", "path: \"/*\""));
    assert_true(excludes("path: \"/*/a\"", "path: \"/*/b/**\""));
    assert_false(excludes("a: present", "a: x"));
    assert_true(excludes("a: present", "a: absent"));
    assert_true(excludes("a: x", "a: absent"));
    assert_false(excludes("a: absent", "a: absent"));
    assert_true(excludes("a: x", "a: {not: x}"));
    assert_true(excludes("a: x", "a: {not: [x, y]}"));
    assert_false(excludes("a: [x, z]", "a: {not: x}"));
    assert_false(excludes("a: present", "a: {not: x}"));
    assert_false(excludes("a: absent", "a: {not: x}"));
    assert_true(excludes("path: /a", "path: \"/b/**\""));
    assert_false(excludes("path: /b/c", "path: \"/b/**\""));
    assert_false(excludes("path: \"/a/*\"", "path: \"/*/b\""));
    assert_true(excludes("ip: 10.0.0.0/8", "ip: 11.0.0.1"));
    assert_false(excludes("ip: 10.0.0.0/8", "ip: 10.0.0.0/30"));
    assert_true(excludes("ip: 10.0.0.0/30", "ip: 10.0.1.0/30"));
    assert_true(excludes("ip: 10.0.0.0/8", "ip: \"2001:db8::/32\""));
    assert_false(excludes("a: \"::1\"", "a: \"0:0::1\"")); /* one address */
    assert_false(holds(rules_match_excludes, "a: x", "a: y", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exclusion), cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_negations), cmocka_unit_test(test_values),
        cmocka_unit_test(test_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
