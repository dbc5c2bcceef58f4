#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/shards.h"

#include "tests/support/limit.h"

static void shards_together_are_the_limit(void **context)
{
    (void)context;
    for (unsigned n = 2; n <= SHARDS_MAX; n++) {
        struct limit whole = bucket(1003, 5077, US_PER_S);
        int64_t requests = 0;
        int64_t size = 0;
        for (unsigned i = 0; i < n; i++) {
            struct limit limit;
            shards_limit(&whole, n, i, &limit);
            assert_in_range(limit.requests, 1003 / n, 1003 / n + 1);
            assert_in_range(limit.size, 5077 / n, 5077 / n + 1);
            assert_int_equal(limit.per_ticks, whole.per_ticks);
            requests += limit.requests;
            size += limit.size;
        }
        assert_int_equal(requests, 1003);
        assert_int_equal(size, 5077);
    }
}

static void leaky_shard_has_the_size_of_its_outflow(void **context)
{
    (void)context;
    struct limit limit;
    struct limit whole = make(LIMIT_LEAKY_BUCKET, 800, 0, US_PER_S);
    whole.max_delay_ticks = whole.per_ticks;
    whole.size = limit_leaky_size(&whole);
    shards_limit(&whole, 8, 3, &limit);
    assert_int_equal(limit.requests, 100);
    assert_int_equal(limit.size, 101);
}

static void check_name(const char *name, unsigned shard, const char *expected)
{
    char out[96];
    size_t n = shards_name(name, strlen(name), shard, out);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(out, expected, n);
}

static void number_stands_at_the_end_of_the_tag(void **context)
{
    (void)context;
    check_name("rl:api:{key=a}:r:s1s", 7, "rl:api:{key=a#07}:r:s1s");
    check_name("rl:api:{key=a#07}:r:s1s", 63, "rl:api:{key=a#63}:r:s1s");
    char out[96];
    const char *sharded = "rl:api:{key=a#63}:r:s1s";
    size_t n = shards_strip(sharded, strlen(sharded), out);
    assert_int_equal(n, strlen("rl:api:{key=a}:r:s1s"));
    assert_memory_equal(out, "rl:api:{key=a}:r:s1s", n);
}

static void places_tell_the_shard(void **context)
{
    (void)context;
    int64_t last = (INT64_C(1) << 53) - 1;
    unsigned shard = 0;
    assert_int_equal(shards_place_in(shards_place(last, 63), &shard), last);
    assert_int_equal(shard, 63);
    assert_int_equal(shards_place_in(shards_place(0, 0), &shard), 0);
    assert_int_equal(shard, 0);
}

static void take_is_of_the_whole_before_and_after(void **context)
{
    (void)context;
    struct limit whole = fixed(1000, US_PER_S);
    struct store_home home = {.n_shards = 8};
    struct store_take take = {.n_charges = 2};
    struct sharding sharding = {0};
    take.charges[0] = (struct store_charge){.limit = &whole};
    take.charges[1] = (struct store_charge){.limit = &whole, .home = &home};
    shards_set(&sharding, &take, 1, 2);
    shards_set(&sharding, &take, 1, 5);
    assert_ptr_equal(take.charges[0].limit, &whole);
    assert_int_equal(take.charges[1].limit->requests, 125);
    take.charges[0].answer.remaining = 3;
    take.charges[1].answer.remaining = 100;
    take.charges[1].place = 9;
    shards_restore(&sharding, &take);
    assert_ptr_equal(take.charges[1].limit, &whole);
    assert_int_equal(take.charges[0].answer.remaining, 3);
    assert_int_equal(take.charges[1].answer.remaining, 800);
    assert_int_equal(take.charges[1].place, 9 * SHARDS_MAX + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_together_are_the_limit),
        cmocka_unit_test(leaky_shard_has_the_size_of_its_outflow),
        cmocka_unit_test(number_stands_at_the_end_of_the_tag),
        cmocka_unit_test(places_tell_the_shard),
        cmocka_unit_test(take_is_of_the_whole_before_and_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
