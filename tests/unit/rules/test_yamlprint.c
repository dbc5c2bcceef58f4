#include <stdlib.h>

#include "rules/yamlprint.h"

#include "tests/unit/rules/support.h"

static const struct {
    const char *text;
    const char *want;
} cases[] = {
    {"abc_1-2.3/x+5%*", "abc_1-2.3/x+5%*"},
    {"/", "/"},
    {"5", "5"},
    {"true", "true"},
    {"", "\"\""},
    {"-a", "\"-a\""},
    {"*a", "\"*a\""},
    {".a", "\".a\""},
    {"a b", "\"a b\""},
    {"a:b", "\"a:b\""},
    {"a,b]}", "\"a,b]}\""},
    {"present", "\"present\""},
    {"absent", "\"absent\""},
    {"absents", "absents"},
    {"\"\\", "\"\\\"\\\\\""},
    {"\n\x7f", "\"\\x0a\\x7f\""},
    {"\xc3\xa9\xc2\x85", "\"\\xe9\\x85\""},
    {"\xe2\x80\xa8\xef\xbb\xbf", "\"\\u2028\\ufeff\""},
    {"\xf0\x9f\x98\x80", "\"\\U0001f600\""},
};

static void test_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct yamlprint print = {0};

        yamlprint_string(&print, cases[i].text);
        assert_string_equal(print.bytes, cases[i].want);
        assert_int_equal(print.len, strlen(cases[i].want));
        assert_int_equal(print.n_events, 1);
        free(print.bytes);
    }
}

static void test_flow(void **state)
{
    struct yamlprint print = {0};
    struct yamlflow map = yamlflow_begin(&print, false);
    struct yamlflow list;

    (void)state;
    yamlflow_number(&map, "a", INT64_C(1000000000));
    yamlflow_string(&map, "b", "x y");
    yamlflow_field(&map, "c");
    list = yamlflow_begin(&print, true);
    yamlflow_item(&list);
    yamlprint_number(&print, 1);
    yamlflow_item(&list);
    yamlprint_number(&print, 2);
    yamlflow_end(&list);
    yamlflow_field(&map, "d");
    list = yamlflow_begin(&print, true);
    yamlflow_end(&list);
    yamlflow_field(&map, "e");
    list = yamlflow_begin(&print, false);
    yamlflow_end(&list);
    yamlflow_end(&map);
    assert_string_equal(print.bytes,
                        "{ a: 1000000000, b: \"x y\", c: [1, 2], d: [], e: {} }");
    assert_int_equal(print.n_events, 8 + 5 + 4);
    free(print.bytes);
}

static void test_growth(void **state)
{
    struct yamlprint print = {0};

    (void)state;
    for (size_t i = 0; i < 100000; i++) {
        yamlprint_raw(&print, "0123456789");
        assert_int_equal(print.bytes[print.len], '\0');
    }
    assert_int_equal(print.len, 1000000);
    assert_memory_equal(print.bytes + 999990, "0123456789", 11);
    free(print.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_flow),
        cmocka_unit_test(test_growth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
