/* The cache of refusals beside a list of all of them. It refuses nothing that the list would
 * not, with the same answer; while its counters are no more than fit one set, it refuses
 * exactly what the list does; and always what it was told last. What was refused within the
 * last second is in doubt, each counter in one of its own. It is over when every refusal is
 * and every doubt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/refusals.h"

#include "tests/support/limit.h"
#include "tests/support/prng.h"

enum {
    TRACES = 60,
    STEPS = 20000,
    LIMITS = 4,
    COUNTERS_MAX = 20000,
    NAME_BYTES = 24,
};

struct told {
    bool is_there;
    int64_t cost;
    struct instant ends_at;
    struct instant at;
    struct limit_answer answer;
};

static struct {
    struct prng prng;
    struct refusals *refusals;
    struct limit limits[LIMITS];
    unsigned n_counters;
    int64_t stride_us;
    struct instant now;
    struct instant last_ends_at;
    struct told list[COUNTERS_MAX];
    uint64_t n_found;
    uint64_t n_missed;
} t;

static int64_t below(int64_t n)
{
    return (int64_t)prng_below(&t.prng, (uint64_t)n);
}

/* Counters are names and limits: some have one name. */
static struct store_charge charge_of(unsigned counter, char *name)
{
    int n = snprintf(name, NAME_BYTES, "rl:{%u}", counter / LIMITS);
    return (struct store_charge){
        .limit = &t.limits[counter % LIMITS],
        .key = (const uint8_t *)name,
        .key_bytes = (size_t)n,
    };
}

static bool is_expected(const struct told *told, int64_t cost)
{
    return told->is_there && cost >= told->cost && told->ends_at.us > t.now.us;
}

static int64_t less(int64_t wait_us, int64_t gone_us)
{
    return wait_us == LIMIT_NEVER ? LIMIT_NEVER : wait_us - gone_us;
}

static void check_answer(const struct told *told, const struct store_charge *charge)
{
    const struct limit_answer *answer = &charge->answer;
    int64_t gone_us = t.now.us - told->at.us;
    gone_us = gone_us > 0 ? gone_us : 0;
    assert_false(answer->is_allowed);
    assert_int_equal(answer->remaining, told->answer.remaining);
    assert_true(answer->reset_us == less(told->answer.reset_us, gone_us));
    if (charge->cost <= charge->limit->size) {
        assert_true(answer->retry_us == less(told->answer.retry_us, gone_us));
        assert_true(answer->retry_us > 0);
    }
    if (told->answer.window_end_us > gone_us) {
        assert_int_equal(answer->window_end_us, told->answer.window_end_us - gone_us);
    }
}

static void check_doubt(const struct told *told, bool has_none, unsigned doubt)
{
    bool is_recent = told->is_there && t.now.us < told->ends_at.us + REFUSALS_US_MAX;
    if (has_none || !is_recent) {
        assert_int_equal(doubt, REFUSALS_N);
        return;
    }
    assert_true(doubt < REFUSALS_N || t.n_counters > REFUSALS_WAYS);
    if (doubt < REFUSALS_N) { /* no other's */
        assert_null(refusals_asker(t.refusals, doubt));
        refusals_set_asker(t.refusals, doubt, NULL);
    }
}

static bool ask(unsigned counter, int64_t cost)
{
    char name[NAME_BYTES];
    const struct told *told = &t.list[counter];
    struct store_charge charge = charge_of(counter, name);
    charge.cost = cost;
    unsigned doubt = 0;
    bool is_refused = refusals_answer(t.refusals, &charge, t.now, &doubt);
    check_doubt(told, is_refused || cost == 0, doubt);
    if (is_refused) {
        assert_true(is_expected(told, cost));
        check_answer(told, &charge);
    }
    return is_refused;
}

static void tell(unsigned counter)
{
    char name[NAME_BYTES];
    struct told *told = &t.list[counter];
    struct store_charge charge = charge_of(counter, name);
    int64_t retry_us = below(20) == 0 ? LIMIT_NEVER : 1 + below(3 * US_PER_S);
    struct instant at = {.us = t.now.us - (below(10) == 0 ? below(5000) : 0)};
    charge.cost = 1 + below(12);
    charge.answer = (struct limit_answer){
        .remaining = below(charge.cost),
        .retry_us = retry_us,
        .reset_us = retry_us == LIMIT_NEVER ? LIMIT_NEVER : retry_us + below(1000),
        .window_end_us = below(MINUTE_US),
    };
    refusals_remember(t.refusals, &charge, at);
    int64_t holds_us = retry_us < US_PER_S ? retry_us : US_PER_S;
    *told = (struct told){
        .is_there = true,
        .cost = charge.cost,
        .ends_at = {.us = at.us + holds_us},
        .at = at,
        .answer = charge.answer,
    };
    t.last_ends_at.us = told->ends_at.us > t.last_ends_at.us ? told->ends_at.us
                                                             : t.last_ends_at.us;
    assert_int_equal(ask(counter, charge.cost), told->ends_at.us > t.now.us);
}

static void forget(void)
{
    refusals_clear(t.refusals);
    memset(t.list, 0, sizeof(t.list));
    t.last_ends_at.us = 0;
}

static void step(void)
{
    unsigned counter = (unsigned)below(t.n_counters);
    if (below(4) == 0) {
        t.now.us += below(1000) == 0 ? below(2 * US_PER_S) : below(t.stride_us);
    }
    if (below(3) == 0) {
        tell(counter);
    } else if (below(5000) == 0) {
        forget();
    }
    counter = (unsigned)below(t.n_counters);
    int64_t cost = below(14);
    bool is_refused = ask(counter, cost);
    if (is_expected(&t.list[counter], cost)) {
        *(is_refused ? &t.n_found : &t.n_missed) += 1;
        assert_true(is_refused || t.n_counters > REFUSALS_WAYS);
    }
    assert_int_equal(refusals_are_over(t.refusals, t.now),
                     t.last_ends_at.us + REFUSALS_US_MAX <= t.now.us);
}

static void trace(void)
{
    uint8_t secret[REFUSALS_SECRET_BYTES];
    prng_fill(&t.prng, secret, sizeof(secret));
    t.refusals = refusals_new(secret);
    assert_non_null(t.refusals);
    t.n_counters = (unsigned)(below(2) == 0 ? 1 + below(REFUSALS_WAYS)
                                            : 1 + below(COUNTERS_MAX));
    t.stride_us = below(2) == 0 ? 20000 : 20;
    t.now.us = MINUTE_START_US;
    forget();
    for (int i = 0; i < STEPS; i++) {
        step();
    }
    refusals_free(t.refusals);
}

static void refuses_what_a_list_refuses(void **context)
{
    uint64_t seed = prng_seed(20261130);
    int n = prng_traces(TRACES);
    (void)context;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    t.limits[0] = sliding(10, MINUTE_US);
    t.limits[1] = sliding(11, MINUTE_US);
    t.limits[2] = fixed(10, MINUTE_US);
    t.limits[3] = bucket(10, 10, MINUTE_US);
    for (int i = 0; i < n; i++) {
        prng_init(&t.prng, seed + (uint64_t)i);
        trace();
    }
    print_message("%llu refused, %llu forgotten\n", (unsigned long long)t.n_found,
                  (unsigned long long)t.n_missed);
    assert_true(t.n_found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_what_a_list_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
