#include "rules/table.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    N_ENTRIES = 500
};

/** Whatever is put is found under its tag, and nothing else is. */
static void test_put_and_find(void **state)
{
    static uint8_t room[N_ENTRIES][24];
    struct rules_arena arena = {NULL};
    struct rules_table table;
    struct prng prng;

    (void)state;
    prng_init(&prng, prng_seed(1));
    assert_true(rules_table_init(&table, &arena, N_ENTRIES));
    for (uint32_t i = 0; i < N_ENTRIES; i++) {
        struct rules_bytes bytes = {room[i], i % 24};

        prng_fill(&prng, room[i], 24);
        if (bytes.len < 3) {
            continue;
        }
        assert_int_equal(*rules_table_put(&table, i % 3, bytes, i), i);
        assert_int_equal(*rules_table_put(&table, i % 3, bytes, 7777), i);
    }
    for (uint32_t i = 0; i < N_ENTRIES; i++) {
        struct rules_bytes bytes = {room[i], i % 24};
        uint32_t want = bytes.len < 3 ? RULES_NONE : i;

        assert_int_equal(rules_table_find(&table, i % 3, bytes), want);
        assert_int_equal(rules_table_find(&table, i % 3 + 1, bytes), RULES_NONE);
        room[i][0] ^= 1;
        assert_int_equal(rules_table_find(&table, i % 3, bytes), RULES_NONE);
    }
    rules_arena_fini(&arena);
}

static void test_empty(void **state)
{
    struct rules_arena arena = {NULL};
    struct rules_table table;

    (void)state;
    assert_true(rules_table_init(&table, &arena, 0));
    assert_int_equal(rules_table_find(&table, 0, bytes_of("")), RULES_NONE);
    assert_int_equal(rules_table_find(&table, 0, bytes_of("x")), RULES_NONE);
    rules_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_find),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
