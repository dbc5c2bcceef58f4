#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <stdlib.h>

#include "rules/code.h"
#include "rules/diag.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

static void expect_print(const char *want)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    rules_diags_print(&diags, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, want);
    free(text);
}

static void add(uint32_t line, uint32_t column, const char *source, const char *text)
{
    struct rules_text lines = {.bytes = source,
                               .len = source != NULL ? strlen(source) : 0};

    rules_diags_add(&diags, RULES_ERROR,
                    (struct rules_mark){.line = line, .column = column}, &lines, "code",
                    "%s", text);
}

static void test_print(void **state)
{
    (void)state;
    rules_diags_init(&diags, "f.yaml");
    add(2, 3, "one\r\n\ttwo\xc3\xa4!\nthree", "wrong\x01\xff");
    rules_diags_add(&diags, RULES_WARNING, (struct rules_mark){.line = 1, .column = 1},
                    &(struct rules_text){.bytes = "one\n", .len = 4}, "odd", "%d", 7);
    add(0, 0, "one", "whole");
    assert_int_equal(diags.n_errors, 2);
    assert_int_equal(diags.n_warnings, 1);
    expect_print("f.yaml: error: whole [code]\n"
                 "f.yaml:1:1: warning: 7 [odd]\n"
                 "    one\n"
                 "    ^\n"
                 "f.yaml:2:3: error: wrong\\x01\\xff [code]\n"
                 "     two?!\n"
                 "      ^\n");
}

static void test_line_breaks(void **state)
{
    static const char source[] = "a\rb\xc2\x85"
                                 "c\xe2\x80\xa8"
                                 "d\xe2\x80\xa9"
                                 "e";
    /* what lies behind the last line is shown at its end */
    static const char *const lines[] = {"a", "b", "c", "d", "e", "e"};

    (void)state;
    rules_diags_init(&diags, "f");
    for (uint32_t i = 0; i < 6; i++) {
        add(i + 1, 1, source, "x");
        assert_string_equal(diags.kept[i].source, lines[i]);
    }
    assert_int_equal(diags.kept[5].mark.line, 5);
    assert_int_equal(diags.kept[5].mark.column, 2);
}

static void test_long_line(void **state)
{
    static char source[1000];

    (void)state;
    memset(source, 'a', sizeof source - 1);
    source[700] = '!';
    rules_diags_init(&diags, "f");
    add(1, 701, source, "x");
    assert_int_equal(diags.kept[0].source[diags.kept[0].caret_off], '!');
    add(1, 5000, source, "past the end");
    assert_int_equal(diags.kept[1].caret_off, 0);
}

static void test_long_text(void **state)
{
    char text[2000];

    (void)state;
    memset(text, '\xff', sizeof text);
    text[sizeof text - 1] = '\0';
    rules_diags_init(&diags, "f");
    add(0, 0, NULL, text);
    assert_true(strlen(diags.kept[0].text) < RULES_DIAG_TEXT_BYTES_MAX);
    assert_true(strlen(diags.kept[0].text) % 4 == 0);
}

static void test_many(void **state)
{
    char *end;

    (void)state;
    rules_diags_init(&diags, "f");
    for (uint32_t i = 0; i < RULES_DIAGS_MAX + 3; i++) {
        add(1000 - i, 1, NULL, "x");
    }
    assert_int_equal(diags.n_errors, RULES_DIAGS_MAX + 3);
    assert_int_equal(diags.n_kept, RULES_DIAGS_MAX);
    for (uint32_t i = 1; i < RULES_DIAGS_MAX; i++) {
        assert_true(diags.kept[i - 1].mark.line < diags.kept[i].mark.line);
    }
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    rules_diags_print(&diags, out);
    assert_int_equal(fclose(out), 0);
    end = strstr(text, "f: 3 more not shown\n");
    assert_non_null(end);
    free(text);
}

/** Between one heading and the next, every code has a row, and there is no other. */
static void expect_rows(const char *heading, const char *const *codes, size_t n)
{
    static char text[65536];
    FILE *file = fopen("rules/README.md", "r");
    size_t n_rows = 0;
    size_t len;
    char *table;
    char *end;

    assert_non_null(file);
    len = fread(text, 1, sizeof text - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_true(len < sizeof text - 1);
    text[len] = '\0';
    table = strstr(text, heading);
    assert_non_null(table);
    end = strstr(table + strlen(heading), "\n##");
    if (end != NULL) {
        *end = '\0';
    }
    for (size_t i = 0; i < n; i++) {
        char row[80];

        (void)snprintf(row, sizeof row, "\n| `%s` |", codes[i]);
        if (strstr(table, row) == NULL) {
            fail_msg("not in rules/README.md: %s", codes[i]);
        }
    }
    for (const char *p = table; (p = strstr(p, "\n| `")) != NULL; p++) {
        n_rows++;
    }
    assert_int_equal(n_rows, n);
}

static void test_codes_are_documented(void **state)
{
    (void)state;
    expect_rows("\n## Diagnostic codes\n", rules_codes, RULES_CODES_COUNT);
    expect_rows("\n### Warnings of check\n", rules_warnings, RULES_WARNINGS_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),     cmocka_unit_test(test_line_breaks),
        cmocka_unit_test(test_long_line), cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_codes_are_documented),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
