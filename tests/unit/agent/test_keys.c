#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/bench/keys.h"

enum {
    N_KEYS = 100,
    N_DRAWS = 200000,
};

static unsigned counts[N_KEYS];

static void draw(double zipf_s, uint64_t n_keys)
{
    struct keys keys;
    memset(counts, 0, sizeof(counts));
    keys_init(&keys, n_keys, zipf_s, 7);
    for (unsigned i = 0; i < N_DRAWS; i++) {
        uint64_t key = keys_next(&keys);
        assert_true(key < n_keys);
        counts[key]++;
    }
}

/* Each share within five standard deviations of what the law says. */
static void expect_share(double zipf_s, uint64_t key, double share)
{
    double deviation = sqrt(N_DRAWS * share * (1 - share));
    double distance = fabs(counts[key] - N_DRAWS * share);
    if (distance > 5 * deviation + 1) {
        fail_msg("s = %g, key %u: %u draws instead of %g", zipf_s, (unsigned)key,
                 counts[key], N_DRAWS * share);
    }
}

static void expect_law(double zipf_s, uint64_t n_keys)
{
    double sum = 0;
    draw(zipf_s, n_keys);
    for (uint64_t key = 0; key < n_keys; key++) {
        sum += pow((double)key + 1, -zipf_s);
    }
    for (uint64_t key = 0; key < n_keys; key++) {
        expect_share(zipf_s, key, pow((double)key + 1, -zipf_s) / sum);
    }
}

static void keys_follow_their_law(void **state)
{
    static const double exponents[] = {0, 0.5, 0.99, 1, 1.0000001, 1.5, 3};
    (void)state;
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
        expect_law(exponents[i], N_KEYS);
        expect_law(exponents[i], 2);
        expect_law(exponents[i], 1);
    }
}

static void the_same_seed_gives_the_same_keys(void **state)
{
    struct keys a;
    struct keys b;
    struct keys c;
    unsigned n_same = 0;
    (void)state;
    keys_init(&a, 1000000, 1.1, 1);
    keys_init(&b, 1000000, 1.1, 1);
    keys_init(&c, 1000000, 1.1, 2);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t key = keys_next(&a);
        assert_int_equal(key, keys_next(&b));
        n_same += key == keys_next(&c);
    }
    assert_true(n_same < 500);
}

static void keys_in_turn_come_round(void **state)
{
    struct keys keys;
    (void)state;
    keys_init_in_turn(&keys, 3, 2, 1);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(keys_next(&keys), (2 + i) % 3);
    }
}

/* With very many keys nothing overflows, and the tail is reached. */
static void a_million_million_keys(void **state)
{
    struct keys keys;
    uint64_t max = 0;
    (void)state;
    keys_init(&keys, UINT64_C(1000000000000), 0.5, 1);
    for (unsigned i = 0; i < N_DRAWS; i++) {
        uint64_t key = keys_next(&keys);
        assert_true(key < UINT64_C(1000000000000));
        max = key > max ? key : max;
    }
    assert_true(max > UINT64_C(990000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_follow_their_law),
        cmocka_unit_test(the_same_seed_gives_the_same_keys),
        cmocka_unit_test(keys_in_turn_come_round),
        cmocka_unit_test(a_million_million_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
