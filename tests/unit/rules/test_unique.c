#include "rules/unique.h"

#include "tests/unit/rules/support.h"

struct seen {
    uint32_t n;
    uint32_t first_line;
    uint32_t lines;
};

static void on_found(void *context, const struct rules_unique_item *first,
                     const struct rules_unique_item *again)
{
    struct seen *seen = context;

    seen->n++;
    seen->first_line = first->mark.line;
    seen->lines += again->mark.line;
}

static void test_duplicates(void **state)
{
    struct rules_unique_item items[] = {
        {bytes_of("b"), {.line = 5, .column = 1}},
        {bytes_of("a"), {.line = 4, .column = 1}},
        {bytes_of("b"), {.line = 1, .column = 1, .file = 1}},
        {bytes_of("b"), {.line = 2, .column = 9}},
        {bytes_of("ba"), {.line = 6, .column = 1}},
        {bytes_of("b"), {.line = 2, .column = 1}},
    };
    struct seen seen = {0};

    (void)state;
    rules_unique_check(items, 6, on_found, &seen);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.first_line, 2);
    assert_int_equal(seen.lines, 8);
    seen.n = 0;
    rules_unique_check(items, 0, on_found, &seen);
    rules_unique_check(items, 1, on_found, &seen);
    assert_int_equal(seen.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_duplicates)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
