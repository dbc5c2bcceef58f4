#include <stdlib.h>
#include <time.h>

#include "rules/yamltree.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

static struct yamltree *parse(const char *text, size_t len)
{
    rules_diags_init(&diags, "t");
    return yamltree_parse(text, len, &diags);
}

static void test_tree(void **state)
{
    static const char text[] =
        "a: 1\nb:\n  - 'x'\n  - [y, {z: no}]\nc: |\n  two\n  lines\n";
    struct yamltree *tree = parse(text, sizeof text - 1);
    const struct yamltree_node *node;

    (void)state;
    assert_non_null(tree);
    node = yamltree_root(tree);
    assert_int_equal(node->kind, YAMLTREE_MAPPING);
    assert_int_equal(node->n_children, 3);
    node = node->first;
    assert_string_equal(node->key, "a");
    assert_string_equal(node->text, "1");
    assert_false(node->is_quoted);
    assert_int_equal(node->mark.column, 4);
    node = node->next;
    assert_string_equal(node->key, "b");
    assert_int_equal(node->key_mark.line, 2);
    assert_int_equal(node->kind, YAMLTREE_SEQUENCE);
    assert_true(node->first->is_quoted);
    assert_null(node->first->key);
    assert_string_equal(node->first->next->first->next->first->text, "no");
    assert_null(node->first->next->next);
    node = node->next;
    assert_string_equal(node->text, "two\nlines\n");
    assert_int_equal(node->text_len, 10);
    assert_null(node->next);
    yamltree_free(tree);
    yamltree_free(NULL);
}

static void test_roots(void **state)
{
    struct yamltree *tree = parse("x", 1);

    (void)state;
    assert_int_equal(yamltree_root(tree)->kind, YAMLTREE_SCALAR);
    yamltree_free(tree);
    tree = parse("---\n", 4);
    assert_string_equal(yamltree_root(tree)->text, "");
    yamltree_free(tree);
}

static void test_all_duplicates(void **state)
{
    static const char text[] = "a: 1\nb: {c: 1, c: 2}\na: 3\na: 4\n";

    (void)state;
    assert_null(parse(text, sizeof text - 1));
    assert_int_equal(diags.n_errors, 3);
}

static void test_encoding(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } texts[] = {
        {"a: \0", 4},
        {"a: \x80", 4},
        {"a: \xc1\xbf", 5},
        {"a: \xe0\x9f\xbf", 6},
        {"a: \xed\xa0\x80", 6},
        {"a: \xf0\x8f\xbf\xbf", 7},
        {"a: \xf4\x90\x80\x80", 7},
        {"a: \xf5\x80\x80\x80", 7},
        {"a: \xe2\x82", 5},
        {"a: \xe2\x82z", 6},
        {"\xff\xfe"
         "a\0",
         4},
        {"\xfe\xff\0a", 4},
        {"a: \xef\xbb\xbf", 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_null(parse(texts[i].bytes, texts[i].len));
        assert_string_equal(diags.kept[0].code, "yaml-encoding");
    }

    struct yamltree *tree = parse("\xc3\xa4: \xf4\x8f\xbf\xbd", 8);

    assert_non_null(tree);
    yamltree_free(tree);
}

enum {
    LARGE_BYTES = RULES_FILE_BYTES_MAX
};

/* Processor time: what other processes do does not count. Sanitizers cost their share. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
static const double seconds_most = 5.0;
#else
static const double seconds_most = 1.0;
#endif

static double seconds_now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/** Fill a file of the largest size with a pattern; it must be refused soon. */
static void hostile(const char *head, const char *unit)
{
    char *text = malloc(LARGE_BYTES);
    size_t n = strlen(unit);
    size_t start = strlen(head);
    double begin = seconds_now();

    assert_non_null(text);
    memcpy(text, head, start);
    for (size_t i = start; i < LARGE_BYTES; i++) {
        text[i] = unit[(i - start) % n];
    }
    assert_null(parse(text, LARGE_BYTES));
    assert_true(diags.n_errors > 0);
    if (seconds_now() - begin > seconds_most) {
        fail_msg("%s%s... took %.2f s", head, unit, seconds_now() - begin);
    }
    free(text);
}

static void test_hostile(void **state)
{
    (void)state;
    hostile("", "[");
    hostile("", "{");
    hostile("", "[\n");
    hostile("", "{a: ");
    hostile("", "- ");
    hostile("", "? ");
    hostile("", "a: ");
    hostile("", "[[],");
    hostile("[", "a,");
    hostile("[", "a: b,");
    hostile("", "- a\n");
    hostile("", "a: 1\n");
    hostile("a: '", "x");
    hostile("a: \"", "\\x41");
    hostile("a: ", "x");
    hostile("a: |\n", " x\n");
    hostile("", "\n\n\n\n#");
    hostile("", "&a ");
    hostile("", "!");
    hostile("", "*a ");
    hostile("a: &a [x]\nb: ", "[*a, *a], ");
    hostile("%TAG ", "! a\n%TAG ");
    hostile("", "\t");
    hostile("", "---\n");
    hostile("", "]");
    hostile("", "'");
    hostile("", "\xff");
}

/** As many different keys as a file can have are compared fast. */
static void test_many_keys(void **state)
{
    char *text = malloc(LARGE_BYTES);
    size_t len = 0;
    double begin = seconds_now();
    struct yamltree *tree;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 99990; i++) {
        len += (size_t)snprintf(text + len, LARGE_BYTES - len, "k%d: 1\n", i);
    }
    tree = parse(text, len);
    assert_non_null(tree);
    assert_true(seconds_now() - begin < seconds_most);
    yamltree_free(tree);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),           cmocka_unit_test(test_roots),
        cmocka_unit_test(test_all_duplicates), cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_hostile),        cmocka_unit_test(test_many_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
