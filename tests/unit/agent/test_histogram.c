#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/observe/histogram.h"

#include "tests/support/prng.h"

static struct histogram h;
static struct histogram other;

static int clear(void **state)
{
    (void)state;
    memset(&h, 0, sizeof(h));
    memset(&other, 0, sizeof(other));
    return 0;
}

/* Buckets follow one another without a gap, each value is in the one that says so. */
static void every_value_has_its_bucket(void **state)
{
    (void)state;
    uint64_t first = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS_N; i++) {
        uint64_t last = histogram_bucket_max(i);
        assert_true(last >= first);
        assert_int_equal(histogram_bucket(first), i);
        assert_int_equal(histogram_bucket(last), i);
        first = last + 1;
    }
    assert_true(first == UINT64_C(1) << HISTOGRAM_VALUE_BITS);
    assert_int_equal(histogram_bucket(first), HISTOGRAM_BUCKETS_N - 1);
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS_N - 1);
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Against the sorted values themselves: never too small, less than 1/128 too large. */
static void quantiles_are_near_the_true_ones(void **state)
{
    (void)state;
    enum {
        N = 5000
    };
    static const uint32_t wanted[] = {1, 500000, 900000, 990000, 999000, 1000000};
    static uint64_t values[N];
    struct prng p;
    prng_init(&p, prng_seed(20261130));
    for (size_t i = 0; i < N; i++) {
        values[i] = prng_next(&p) >> (32 + prng_below(&p, 32));
        histogram_add(i % 2 == 0 ? &h : &other, values[i]);
    }
    histogram_merge(&h, &other);
    qsort(values, N, sizeof(values[0]), compare);
    assert_int_equal(histogram_count(&h), N);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        uint64_t rank = ((uint64_t)N * wanted[i] + 999999) / 1000000;
        uint64_t exact = values[rank - 1];
        uint64_t got = histogram_quantile(&h, wanted[i]);
        assert_true(got >= exact && got - exact <= exact / HISTOGRAM_SUB_N);
    }
    assert_int_equal(histogram_quantile(&h, 1000000), values[N - 1]);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    for (uint64_t value = 1; value <= 100; value++) {
        histogram_add(&h, value);
    }
    assert_int_equal(histogram_quantile(&h, 500000), 50);
    assert_int_equal(histogram_quantile(&h, 990000), 99);
    assert_int_equal(histogram_quantile(&h, 990001), 100);
    assert_int_equal(atomic_load(&h.sum), 5050);
}

static void nothing_counted_is_zero(void **state)
{
    (void)state;
    assert_int_equal(histogram_count(&h), 0);
    assert_int_equal(histogram_quantile(&h, 1000000), 0);
}

static void a_huge_value_is_the_largest(void **state)
{
    (void)state;
    histogram_add(&h, 1);
    histogram_add(&h, UINT64_MAX / 2);
    assert_int_equal(histogram_quantile(&h, 500000), 1);
    assert_true(histogram_quantile(&h, 999999) == UINT64_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_value_has_its_bucket, clear),
        cmocka_unit_test_setup(quantiles_are_near_the_true_ones, clear),
        cmocka_unit_test_setup(small_values_are_exact, clear),
        cmocka_unit_test_setup(nothing_counted_is_zero, clear),
        cmocka_unit_test_setup(a_huge_value_is_the_largest, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
