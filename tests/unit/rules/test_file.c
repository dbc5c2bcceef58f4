#include "rules/file.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

static const char text[] = "version: 1\n"
                           "domain: shop\n"
                           "rules:\n"
                           "- name: all\n"
                           "  expires: 2027-01-01\n"
                           "  key: []\n"
                           "  limit: {requests: 100, per: 1s}\n";

static struct rules_file *read_file(const char *from)
{
    rules_diags_init(&diags, "test.yaml");
    return rules_file_read(&(struct rules_source){.name = "test.yaml",
                                                  .text = bytes_of(from)},
                           &diags);
}

static void test_compile(void **state)
{
    struct rules_file *file = read_file(text);
    int64_t ends_s = rules_file_ast(file)->rules[0].expires_s;
    struct rules_set *before = rules_file_compile(file, ends_s - 1, &diags);
    struct rules_set *after = rules_file_compile(file, ends_s, &diags);

    (void)state;
    rules_file_free(file); /* the sets are their own */
    assert_int_equal(rules_set_n_expired(before), 0);
    assert_int_equal(rules_set_n_expired(after), 1);
    assert_string_equal(rules_set_domain(before), "shop");
    assert_string_equal(rules_set_name(after), "test.yaml");
    rules_set_free(before);
    rules_set_free(after);
}

static void test_warning(void **state)
{
    struct rules_file *file = read_file(text);
    const struct rules_ast_rule *rule = &rules_file_ast(file)->rules[0];

    (void)state;
    assert_int_equal(rules_file_tree(file, 0) != NULL, true);
    rules_file_diag(file, &diags, RULES_WARNING, rule->expires_mark, "odd", "%s", "x");
    rules_file_free(file);
    assert_int_equal(diags.n_warnings, 1);
    assert_int_equal(diags.kept[0].mark.line, 5);
    assert_string_equal(diags.kept[0].source, "  expires: 2027-01-01");
    assert_string_equal(rules_diag_file(&diags, &diags.kept[0]), "test.yaml");
}

static void test_bad(void **state)
{
    (void)state;
    assert_null(read_file("version: 2\n"));
    assert_int_equal(diags.n_errors, 3);
    assert_null(read_file("{"));
    assert_int_equal(diags.n_errors, 1);
    rules_file_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
