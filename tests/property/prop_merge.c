/* Laws of limit_merge. Two counters of one limit each got a part of the same requests, at
 * times that interleave; a third got them all. What is merged is what the third holds:
 * exactly, for windows; for buckets never more, and less by no more than the second
 * bucket drained while both were in use, so exactly where that is no time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/limit/limit.h"

#include "tests/support/prng.h"

enum {
    TRACES = 20000,
    STEPS = 40,
    COST_MAX = 1000000 /* all together stay below LIMIT_AMOUNT_MAX: nothing refused */
};

#define START_US (INT64_C(1800000000) * US_PER_S)

struct trace {
    struct limit limit;
    struct limit_state parts[2];
    struct limit_state whole;
    int64_t began_us[2]; /* first charge of each part; INT64_MAX without one */
    int64_t now_us;
};

static void make_limit(struct prng *prng, struct limit *limit)
{
    static const int64_t pers_us[] = {1000, US_PER_S, 60 * US_PER_S, 3600 * US_PER_S,
                                      31 * 86400 * US_PER_S};
    static const int64_t requests[] = {1, 10, 1000, LIMIT_AMOUNT_MAX};
    int64_t per_us = pers_us[prng_below(prng, 5)];
    *limit = (struct limit){
        .algorithm = (enum limit_algorithm)prng_below(prng, LIMIT_ALGORITHMS),
        .requests = requests[prng_below(prng, 4)],
        .size = LIMIT_AMOUNT_MAX,
        .tick_us = 1,
    };
    while (per_us / limit->tick_us > 1000000) {
        limit->tick_us *= 10;
    }
    limit->per_ticks = per_us / limit->tick_us;
    limit->max_delay_ticks = limit->per_ticks;
    if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        limit->requests = LIMIT_AMOUNT_MAX; /* they say how much it takes at once */
        limit->size = limit_leaky_size(limit);
    }
}

static void charge(const struct trace *t, struct limit_state *state, int64_t cost)
{
    struct limit_answer answer;
    struct instant now = {.us = t->now_us};
    assert_true(limit_take(&t->limit, state, now, cost, &answer));
}

static void run(struct trace *t, struct prng *prng, bool is_one_moment)
{
    int64_t per_us = t->limit.per_ticks * t->limit.tick_us;
    for (int i = 0; i < STEPS; i++) {
        size_t part = prng_below(prng, 2);
        int64_t cost = 1 + (int64_t)prng_below(prng, COST_MAX);
        charge(t, &t->parts[part], cost);
        charge(t, &t->whole, cost);
        if (t->began_us[part] > t->now_us) {
            t->began_us[part] = t->now_us;
        }
        if (!is_one_moment && prng_below(prng, 2) == 0) {
            t->now_us += (int64_t)prng_below(prng, (uint64_t)per_us / 4 + 1);
        }
    }
}

static struct limit_state merged(const struct trace *t, int first)
{
    struct limit_state state = t->parts[first];
    limit_merge(&t->limit, &state, &t->parts[1 - first]);
    return state;
}

static struct limit_answer look(const struct trace *t, const struct limit_state *state,
                                int64_t at_us)
{
    struct limit_state copy = *state;
    struct limit_answer answer;
    (void)limit_take(&t->limit, &copy, (struct instant){.us = at_us}, 0, &answer);
    return answer;
}

/* What a bucket drained while both parts were in use. */
static int64_t drained_twice(const struct trace *t)
{
    int64_t from_us = t->began_us[0] > t->began_us[1] ? t->began_us[0] : t->began_us[1];
    int64_t ticks = from_us < t->now_us
                        ? t->now_us / t->limit.tick_us - from_us / t->limit.tick_us
                        : 0;
    return ticks * t->limit.requests;
}

static void check_bucket(const struct trace *t, const struct limit_state *state)
{
    int64_t whole = t->whole.bucket.level;
    int64_t level = state->bucket.level;
    assert_int_equal(state->bucket.at_ticks, t->whole.bucket.at_ticks);
    assert_true(level <= whole);
    assert_true(level + drained_twice(t) >= whole);
    assert_true(look(t, state, t->now_us).remaining
                <= look(t, &t->parts[0], t->now_us).remaining);
    assert_true(look(t, state, t->now_us).remaining
                <= look(t, &t->parts[1], t->now_us).remaining);
}

static void check_window(const struct trace *t, const struct limit_state *state)
{
    int64_t per_us = t->limit.per_ticks * t->limit.tick_us;
    for (int i = 0; i < 9; i++) {
        int64_t at_us = t->now_us + i * per_us / 4;
        struct limit_answer want = look(t, &t->whole, at_us);
        struct limit_answer got = look(t, state, at_us);
        assert_int_equal(got.remaining, want.remaining);
        assert_int_equal(got.reset_us, want.reset_us);
    }
}

static void check_identity(const struct trace *t, const struct limit_state *state)
{
    struct limit_state same = *state;
    struct limit_state from_nothing = {0};
    const struct limit_state nothing = {0};
    limit_merge(&t->limit, &same, &nothing);
    assert_memory_equal(&same, state, sizeof(same));
    limit_merge(&t->limit, &from_nothing, state);
    assert_memory_equal(&from_nothing, state, sizeof(from_nothing));
}

static void merged_is_what_one_counter_would_hold(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        struct trace t = {.began_us = {INT64_MAX, INT64_MAX}, .now_us = START_US};
        t.now_us += (int64_t)prng_below(&prng, 86400 * (uint64_t)US_PER_S);
        make_limit(&prng, &t.limit);
        run(&t, &prng, i % 4 == 0);
        struct limit_state state = merged(&t, 0);
        struct limit_state other_way = merged(&t, 1);
        assert_memory_equal(&state, &other_way, sizeof(state));
        check_identity(&t, &state);
        if (t.limit.algorithm == LIMIT_TOKEN_BUCKET
            || t.limit.algorithm == LIMIT_LEAKY_BUCKET) {
            check_bucket(&t, &state);
        } else {
            check_window(&t, &state);
        }
    }
}

/* However often the largest counts are added, a take stays exact and refuses. */
static void sums_are_cut_where_products_stay_exact(void **context)
{
    (void)context;
    struct prng prng;
    prng_init(&prng, prng_seed(20261130));
    for (int i = 0; i < 1000; i++) {
        struct trace t = {.now_us = START_US};
        struct limit_answer answer;
        struct instant now = {.us = START_US};
        make_limit(&prng, &t.limit);
        charge(&t, &t.whole, LIMIT_AMOUNT_MAX);
        struct limit_state sum = t.whole;
        for (int j = 0; j < 40; j++) {
            limit_merge(&t.limit, &sum, &sum);
        }
        assert_false(limit_take(&t.limit, &sum, now, LIMIT_AMOUNT_MAX, &answer));
        assert_int_equal(answer.remaining, 0);
        assert_true(answer.retry_us > 0 && answer.reset_us >= answer.retry_us);
        struct limit_state twice = t.whole;
        limit_merge(&t.limit, &twice, &t.whole);
        assert_memory_equal(&sum, &twice, sizeof(sum));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_is_what_one_counter_would_hold),
        cmocka_unit_test(sums_are_cut_where_products_stay_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
