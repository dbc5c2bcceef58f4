/* Two tables get the same takes; one of them is also peeked at, at these moments and
 * others. A peek answers what the take of the same moment answers, and what the counters
 * hold before it; and both tables give the same answers, push the same counters out and
 * are the same image in the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/limit/sliding_log.h"
#include "agent/store/local.h"

#include "tests/support/limit.h"
#include "tests/support/prng.h"

enum {
    TRACES = 40,
    STEPS = 3000,
    LIMITS = 6,
    CHARGES_MAX = 3,
    LOG_BYTES = LOCAL_MEMORY_BYTES_MIN / 4,
    KEYS_MAX = 4000,
    IMAGE_BYTES_MAX = 1 << 20,
};

static const uint8_t secret[LOCAL_SECRET_BYTES] = {1, 2, 3};
static const uint8_t limit_ids[LIMITS][STORE_LIMIT_ID_BYTES] = {{1}, {2}, {3},
                                                                {4}, {5}, {6}};
static struct limit limits[LIMITS];

struct table {
    struct store *store;
    struct counters *counters;
    size_t image_bytes;
    uint8_t image[IMAGE_BYTES_MAX];
};

static struct {
    struct prng prng;
    struct table plain;
    struct table peeked;
    uint32_t n_keys;
    uint32_t keys[CHARGES_MAX];
    uint64_t n_refused;
    uint64_t n_evicted;
    uint64_t n_tied;
} t;

static void on_done(struct store_take *take)
{
    (void)take;
}

static void open_table(struct table *table)
{
    table->store = local_new(LOCAL_MEMORY_BYTES_MIN, LOG_BYTES, secret);
    table->counters = counters_new(0);
    assert_non_null(table->store);
    assert_non_null(table->counters);
    table->image_bytes = 0;
}

static void close_table(struct table *table)
{
    store_free(table->store);
    counters_free(table->counters);
}

static void fill(struct store_take *take, int64_t now_us)
{
    size_t first = prng_below(&t.prng, LIMITS); /* all are different */
    *take = (struct store_take){
        .now = {.us = now_us},
        .done = on_done,
        .n_charges = 1 + (unsigned)prng_below(&t.prng, CHARGES_MAX),
    };
    for (unsigned i = 0; i < take->n_charges; i++) {
        size_t limit_idx = (first + i) % LIMITS;
        t.keys[i] = (uint32_t)prng_below(&t.prng, t.n_keys);
        take->charges[i] = (struct store_charge){
            .limit = &limits[limit_idx],
            .limit_id = limit_ids[limit_idx],
            .key = (const uint8_t *)&t.keys[i],
            .key_bytes = sizeof(t.keys[i]),
            .cost = (int64_t)prng_below(&t.prng, 4),
            .is_lenient = prng_below(&t.prng, 3) == 0,
        };
        if (take->charges[i].is_lenient) {
            take->charges[i].tie = (uint8_t)prng_below(&t.prng, 3);
        }
    }
}

static struct store_take take_from(struct table *table, const struct store_take *asked,
                                   bool is_peek)
{
    struct store_take take = *asked;
    take.is_peek = is_peek;
    take.counters = table->counters;
    store_take(table->store, &take);
    return take;
}

static void assert_numbers_are(const struct limit_answer *a,
                               const struct limit_answer *b)
{
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->reset_us, b->reset_us);
    assert_int_equal(a->window_end_us, b->window_end_us);
}

static void assert_waits_are(const struct limit_answer *a, const struct limit_answer *b)
{
    assert_int_equal(a->is_allowed, b->is_allowed);
    assert_int_equal(a->retry_us, b->retry_us);
    assert_int_equal(a->delay_us, b->delay_us);
}

static void assert_same(const struct store_take *a, const struct store_take *b)
{
    assert_int_equal(a->is_allowed, b->is_allowed);
    for (unsigned i = 0; i < a->n_charges; i++) {
        assert_waits_are(&a->charges[i].answer, &b->charges[i].answer);
        assert_numbers_are(&a->charges[i].answer, &b->charges[i].answer);
    }
}

/* What a take that costs nothing finds is what the counters hold. It is done on the
 * table that is peeked at: it must not mark what the other does not. */
static void assert_holds(const struct store_take *peek)
{
    struct store_take free_of_charge = *peek;
    for (unsigned i = 0; i < peek->n_charges; i++) {
        free_of_charge.charges[i].cost = 0;
        assert_false(peek->charges[i].is_charged);
        assert_waits_are(&peek->held[i], &peek->charges[i].answer);
    }
    struct store_take held = take_from(&t.peeked, &free_of_charge, true);
    assert_true(held.is_allowed);
    for (unsigned i = 0; i < peek->n_charges; i++) {
        assert_numbers_are(&peek->held[i], &held.charges[i].answer);
    }
}

static void look_elsewhere(int64_t now_us)
{
    struct store_take asked;
    int64_t away_us = (int64_t)prng_below(&t.prng, 60 * US_PER_S);
    fill(&asked, now_us - LIMIT_CLOCK_SLACK_US / 2 + away_us);
    (void)take_from(&t.peeked, &asked, true);
}

static void step(int64_t now_us)
{
    struct store_take asked;
    for (uint64_t n = prng_below(&t.prng, 3); n > 0; n--) {
        look_elsewhere(now_us);
    }
    fill(&asked, now_us);
    struct store_take peek = take_from(&t.peeked, &asked, true);
    assert_holds(&peek);
    struct store_take took = take_from(&t.peeked, &asked, false);
    struct store_take plain = take_from(&t.plain, &asked, false);
    assert_same(&peek, &took);
    assert_same(&took, &plain);
    for (unsigned i = 0; i < took.n_charges; i++) {
        assert_int_equal(took.charges[i].is_charged, plain.charges[i].is_charged);
        t.n_tied += took.is_allowed && took.charges[i].answer.is_allowed
                    && took.charges[i].cost > 0 && !took.charges[i].is_charged;
    }
    t.n_refused += !took.is_allowed;
}

static bool keep(void *context, const void *bytes, size_t len)
{
    struct table *table = context;
    assert_true(len <= sizeof(table->image) - table->image_bytes);
    memcpy(table->image + table->image_bytes, bytes, len);
    table->image_bytes += len;
    return true;
}

static void export(struct table *table, struct instant now)
{
    static struct image_writer writer;
    struct image_origin origin = {.agent_at = now};
    image_writer_init(&writer, &origin, keep, table);
    local_export(table->store, now, &writer);
    assert_true(image_write_end(&writer));
}

static void assert_same_tables(int64_t now_us)
{
    static const enum counter counted[] = {
        COUNTER_LOCAL_FILLED,
        COUNTER_LOCAL_EVICTED,
        COUNTER_LOCAL_EVENTS_LOST,
    };
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        assert_int_equal(counter_get(t.plain.counters, counted[i]),
                         counter_get(t.peeked.counters, counted[i]));
    }
    export(&t.plain, (struct instant){.us = now_us});
    export(&t.peeked, (struct instant){.us = now_us});
    assert_int_equal(t.plain.image_bytes, t.peeked.image_bytes);
    assert_memory_equal(t.plain.image, t.peeked.image, t.plain.image_bytes);
}

static void run_trace(uint32_t n_keys)
{
    int64_t now_us = MINUTE_START_US;
    t.n_keys = n_keys;
    open_table(&t.plain);
    open_table(&t.peeked);
    for (int i = 0; i < STEPS; i++) {
        step(now_us);
        now_us += (int64_t)prng_below(&t.prng, 20000);
        if (prng_below(&t.prng, 500) == 0) {
            now_us += (int64_t)prng_below(&t.prng, 200) * US_PER_S;
        }
    }
    assert_same_tables(now_us);
    t.n_evicted += counter_get(t.peeked.counters, COUNTER_LOCAL_EVICTED);
    close_table(&t.plain);
    close_table(&t.peeked);
}

static void peek_predicts_and_changes_nothing(void **context)
{
    (void)context;
    static const uint32_t n_keys[] = {3, 50, KEYS_MAX};
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    limits[0] = sliding(10, MINUTE_US);
    limits[1] = bucket(1, 3, US_PER_S);
    limits[2] = bucket(100, 20, 60 * MINUTE_US);
    limits[3] = fixed(5, 10 * US_PER_S);
    limits[4] = leaky(10, 10 * US_PER_S, 5 * US_PER_S);
    limits[5] = make(LIMIT_SLIDING_LOG, 10, 10, MINUTE_US / 2);
    for (int i = 0; i < TRACES; i++) {
        run_trace(n_keys[i % 3]);
    }
    assert_true(t.n_refused > 0 && t.n_evicted > 0 && t.n_tied > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peek_predicts_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
