/* The table against a map with perfect memory, over random requests of one to three
 * charges, by clocks that differ: while nothing was evicted every answer is the same;
 * after that the table refuses nothing that the map would allow. The map is charged with
 * what the table admitted. Some charges are lenient, some of these tied. Now and then all
 * counters move to a table of another size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/limit/sliding_log.h"
#include "agent/store/local.h"

#include "tests/support/prng.h"

enum {
    TRACES = 60,
    STEPS = 4000,
    LIMITS = 6,
    LOG = 5, /* the one of them that is a log */
    LOG_EVENTS_MAX = 64,
    LOG_BYTES = LOCAL_MEMORY_BYTES_MIN / 4,
    KEYS_MAX = 4000,
    SKEW_US_MAX = 1000000
};

#define START_US (INT64_C(1800000000) * US_PER_S)

static const uint8_t secret[LOCAL_SECRET_BYTES] = {1, 2, 3};
static const uint8_t limit_ids[LIMITS][STORE_LIMIT_ID_BYTES] = {{1}, {2}, {3},
                                                                {4}, {5}, {6}};
static const struct limit limits[LIMITS] = {
    {.algorithm = LIMIT_SLIDING_WINDOW,
     .requests = 10,
     .size = 10,
     .per_ticks = 600000,
     .tick_us = 100}, /* 10 in 60 s */
    {.algorithm = LIMIT_TOKEN_BUCKET,
     .requests = 1,
     .size = 3,
     .per_ticks = 1000000,
     .tick_us = 1}, /* 3 at once, one a second */
    {.algorithm = LIMIT_SLIDING_WINDOW,
     .requests = 2,
     .size = 2,
     .per_ticks = 100000,
     .tick_us = 1}, /* 2 in 100 ms */
    {.algorithm = LIMIT_TOKEN_BUCKET,
     .requests = 100,
     .size = 20,
     .per_ticks = 360000,
     .tick_us = 10000}, /* 20 at once, 100 an hour */
    {.algorithm = LIMIT_FIXED_WINDOW,
     .requests = 5,
     .size = 5,
     .per_ticks = 100000,
     .tick_us = 100}, /* 5 in 10 s */
    {.algorithm = LIMIT_SLIDING_LOG,
     .requests = 10,
     .size = 10,
     .per_ticks = 300000,
     .tick_us = 100}, /* 10 in any 30 s */
};

/* What a log has, as plainly as can be. */
struct list {
    unsigned n;
    uint64_t events[LOG_EVENTS_MAX];
};

/* One run: the table, and what a perfect memory holds for each counter. */
static struct {
    struct prng prng;
    struct store *store;
    struct counters *counters;
    struct limit_state map[LIMITS][KEYS_MAX];
    struct list logs[KEYS_MAX];
    uint32_t n_keys;
    uint64_t n_refused;
    uint64_t n_evicted;
    uint64_t n_held_back; /* for the sake of a charge they are tied to */
} t;

static void on_done(struct store_take *take)
{
    (void)take;
}

static void write_to_reader(struct image_reader *reader, const void *bytes, size_t len)
{
    assert_true(image_read(reader, bytes, len) <= IMAGE_END);
}

static bool write_piece(void *context, const void *bytes, size_t len)
{
    write_to_reader(context, bytes, len);
    return true;
}

struct importing {
    struct store *store;
    struct instant now;
};

static void add_records(void *context, enum image_kind kind,
                        const struct image_record *records, size_t n_records)
{
    const struct importing *to = context;
    local_import(to->store, kind, records, n_records, to->now, t.counters);
}

/* As a restart does it, but without a file between. */
static void move(struct instant now)
{
    static struct image_reader reader;
    static struct image_writer writer;
    size_t bytes = LOCAL_MEMORY_BYTES_MIN * (1 + prng_below(&t.prng, 4));
    struct importing to = {.store = local_new(bytes, LOG_BYTES, local_secret(t.store)),
                           .now = now};
    struct image_origin origin = {.agent_at = now};
    assert_non_null(to.store);
    image_reader_init(&reader, add_records, &to);
    image_writer_init(&writer, &origin, write_piece, &reader);
    local_export(t.store, now, &writer);
    assert_true(image_write_end(&writer));
    assert_int_equal(reader.status, IMAGE_END);
    store_free(t.store);
    t.store = to.store;
}

struct want {
    bool is_allowed;
    uint32_t key;
    size_t limit_idx;
    struct limit_answer answers[2]; /* without the charge, with it */
};

static void ask_list(struct want *want, struct instant now, int64_t cost)
{
    struct log_block blocks[2 + LOG_EVENTS_MAX / LOG_BLOCK_EVENTS];
    struct limit_state state = {0};
    uint32_t n_blocks = 0;
    const struct list *list = &t.logs[want->key];
    for (unsigned i = 0; i < list->n; i++) {
        n_blocks += sliding_log_is_full(&state);
        sliding_log_add(blocks, &state, sliding_log_is_full(&state) ? n_blocks : 0,
                        list->events[i]);
    }
    (void)sliding_log_look(&limits[LOG], blocks, &state, now, 0, &want->answers[0]);
    want->is_allowed = sliding_log_look(&limits[LOG], blocks, &state, now, cost,
                                        &want->answers[1]);
}

static void charge_list(struct list *list, struct instant now, int64_t cost)
{
    int64_t per_us = limits[LOG].per_ticks * limits[LOG].tick_us;
    int64_t now_us = now.us;
    unsigned n = 0;
    if (list->n > 0 && log_event_us(list->events[list->n - 1]) > now_us) {
        now_us = log_event_us(list->events[list->n - 1]);
    }
    for (unsigned i = 0; i < list->n; i++) {
        if (now_us - log_event_us(list->events[i]) < per_us) {
            list->events[n++] = list->events[i];
        }
    }
    assert_true(n < LOG_EVENTS_MAX);
    list->events[n++] = log_event(now_us, cost);
    list->n = n;
}

/* What the map answers: on copies, whatever the request's other charges say. */
static void ask_map(struct want *want, struct instant now, int64_t cost)
{
    const struct limit *limit = &limits[want->limit_idx];
    struct limit_state *held = &t.map[want->limit_idx][want->key];
    struct limit_state state = *held;
    if (want->limit_idx == LOG) {
        ask_list(want, now, cost);
        return;
    }
    (void)limit_take(limit, &state, now, 0, &want->answers[0]);
    want->is_allowed = limit_take(limit, &state, now, cost, &want->answers[1]);
}

static void charge_map(const struct want *want, struct instant now, int64_t cost)
{
    struct limit wide = limits[want->limit_idx]; /* admits what the table admitted */
    struct limit_answer answer;
    if (want->limit_idx == LOG) {
        charge_list(&t.logs[want->key], now, cost);
        return;
    }
    wide.size = LIMIT_AMOUNT_MAX;
    assert_true(
        limit_take(&wide, &t.map[want->limit_idx][want->key], now, cost, &answer));
}

static void assert_same_answer(const struct store_charge *charge,
                               const struct want *want, bool is_made)
{
    const struct limit_answer *answer = &want->answers[is_made || !want->is_allowed];
    assert_int_equal(charge->answer.is_allowed, answer->is_allowed);
    assert_int_equal(charge->answer.remaining, answer->remaining);
    assert_int_equal(charge->answer.reset_us, answer->reset_us);
    assert_int_equal(charge->answer.retry_us, answer->retry_us);
}

static void fill(struct store_take *take, struct want *wants)
{
    size_t first = prng_below(&t.prng, LIMITS); /* all are different */
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct want *want = &wants[i];
        *want = (struct want){
            .key = (uint32_t)prng_below(&t.prng, t.n_keys),
            .limit_idx = (first + i) % LIMITS,
        };
        take->charges[i] = (struct store_charge){
            .limit = &limits[want->limit_idx],
            .limit_id = limit_ids[want->limit_idx],
            .key = (const uint8_t *)&want->key,
            .key_bytes = sizeof(want->key),
            .cost = (int64_t)prng_below(&t.prng, 4),
            .is_lenient = prng_below(&t.prng, 3) == 0,
        };
        if (take->charges[i].is_lenient) {
            take->charges[i].tie = (uint8_t)prng_below(&t.prng, 3);
        }
        ask_map(want, take->now, take->charges[i].cost);
    }
}

/* Whether no charge is over its limit that is tied to this one. */
static bool is_tie_whole(const struct store_take *take, uint8_t tie)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        if (tie != 0 && charge->tie == tie && !charge->answer.is_allowed) {
            return false;
        }
    }
    return true;
}

static void check_charge(const struct store_take *take, unsigned i,
                         const struct want *want, bool is_exact)
{
    const struct store_charge *charge = &take->charges[i];
    bool is_whole = is_tie_whole(take, charge->tie);
    bool is_made = take->is_allowed && charge->answer.is_allowed && is_whole;
    assert_int_equal(charge->is_charged, is_made && charge->cost > 0);
    assert_true(charge->answer.is_allowed || !want->is_allowed);
    if (is_exact) {
        assert_same_answer(charge, want, is_made);
    }
    if (charge->is_charged) {
        charge_map(want, take->now, charge->cost);
    }
    t.n_held_back += take->is_allowed && charge->answer.is_allowed && !is_whole;
}

static void step(struct instant now)
{
    struct want wants[3];
    struct store_take take = {
        .now = now,
        .counters = t.counters,
        .done = on_done,
        .n_charges = 1 + (unsigned)prng_below(&t.prng, 3),
    };
    fill(&take, wants);
    bool is_allowed = true;
    for (unsigned i = 0; i < take.n_charges; i++) {
        is_allowed = is_allowed && (wants[i].is_allowed || take.charges[i].is_lenient);
    }
    store_take(t.store, &take);
    bool is_exact = counter_get(t.counters, COUNTER_LOCAL_EVICTED) == 0
                    && counter_get(t.counters, COUNTER_LOCAL_EVENTS_LOST) == 0;
    assert_true(is_exact ? take.is_allowed == is_allowed
                         : take.is_allowed || !is_allowed);
    for (unsigned i = 0; i < take.n_charges; i++) {
        check_charge(&take, i, &wants[i], is_exact);
    }
    t.n_refused += !take.is_allowed;
}

static void run_trace(uint32_t n_keys)
{
    int64_t now_us = START_US;
    t.n_keys = n_keys;
    t.store = local_new(LOCAL_MEMORY_BYTES_MIN, LOG_BYTES, secret);
    t.counters = counters_new(0);
    assert_non_null(t.store);
    assert_non_null(t.counters);
    memset(t.map, 0, sizeof(t.map));
    memset(t.logs, 0, sizeof(t.logs));
    int64_t skew_us = prng_below(&t.prng, 2) == 0 ? 0 : SKEW_US_MAX;
    for (int i = 0; i < STEPS; i++) {
        int64_t behind_us = (int64_t)prng_below(&t.prng, (uint64_t)skew_us + 1);
        step((struct instant){.us = now_us - behind_us});
        now_us += (int64_t)prng_below(&t.prng, 20000);
        if (prng_below(&t.prng, 500) == 0) {
            now_us += (int64_t)prng_below(&t.prng, 200) * US_PER_S;
            /* no counter that a clock still behind might ask for is left out */
            move((struct instant){.us = now_us - skew_us});
        }
    }
    t.n_evicted += counter_get(t.counters, COUNTER_LOCAL_EVICTED);
    store_free(t.store);
    counters_free(t.counters);
}

static void table_is_a_map_then_errs_generously(void **context)
{
    (void)context;
    static const uint32_t n_keys[] = {3, 50, KEYS_MAX};
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    for (int i = 0; i < TRACES; i++) {
        run_trace(n_keys[i % 3]);
    }
    assert_true(t.n_refused > 0 && t.n_evicted > 0 && t.n_held_back > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_a_map_then_errs_generously),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
