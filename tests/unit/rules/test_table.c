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

/** Changes that undo each other where words are mixed without a secret. */
static void test_no_file_aims_at_an_entry(void **state)
{
    enum {
        N_PAIRS = 10
    };
    static uint64_t room[1 << N_PAIRS][2 * N_PAIRS];
    struct rules_arena arena = {NULL};
    struct rules_table table;
    uint32_t first = 0;
    int n_same = 0;

    (void)state;
    assert_true(rules_table_init(&table, &arena, 1));
    for (uint32_t i = 0; i < 1U << N_PAIRS; i++) {
        struct rules_bytes bytes = {(const uint8_t *)room[i], sizeof room[i]};

        for (size_t j = 0; j < N_PAIRS; j++) {
            bool is_changed = (i >> j & 1) != 0;

            room[i][2 * j] = is_changed ? UINT64_C(1) << 63 : 0;
            room[i][2 * j + 1] = is_changed ? UINT64_C(0x8000000080000000) : 0;
        }
        if (i == 0) {
            first = rules_table_hash(&table, 0, bytes);
        }
        n_same += rules_table_hash(&table, 0, bytes) == first;
    }
    assert_in_range(n_same, 1, 2);
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
        cmocka_unit_test(test_no_file_aims_at_an_entry),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
