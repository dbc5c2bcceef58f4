#include <stdalign.h>

#include "rules/arena.h"

#include "tests/unit/rules/support.h"

static void test_pieces(void **state)
{
    struct rules_arena arena = {NULL};

    (void)state;
    for (size_t n = 0; n < 3000; n++) {
        uint8_t *piece = rules_arena_array(&arena, n, 1);

        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(piece[i], 0);
        }
        memset(piece, 0xff, n);
    }
    assert_non_null(rules_arena_array(&arena, 1000000, 8));
    assert_string_equal(rules_arena_dup(&arena, "abc", 3), "abc");
    assert_string_equal(rules_arena_dup(&arena, NULL, 0), "");
    rules_arena_fini(&arena);
    rules_arena_fini(&arena);
}

static void test_too_much(void **state)
{
    struct rules_arena arena = {NULL};

    (void)state;
    assert_null(rules_arena_array(&arena, SIZE_MAX, 2));
    assert_null(rules_arena_array(&arena, SIZE_MAX / 2, 2));
    assert_null(rules_arena_dup(&arena, "", SIZE_MAX));
    rules_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_too_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
