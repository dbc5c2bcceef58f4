#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/local.h"

#include "tests/support/prng.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const uint8_t secret[LOCAL_SECRET_BYTES] = {1, 2, 3};
static const uint8_t limit_ids[4][STORE_LIMIT_ID_BYTES] = {{1}, {2}, {3}, {4}};

/* 10 in 60 s; 3 at once, one a second. */
static const struct limit ten = {.algorithm = LIMIT_SLIDING_WINDOW,
                                 .requests = 10,
                                 .size = 10,
                                 .per_ticks = 600000,
                                 .tick_us = 100};
static const struct limit three = {.algorithm = LIMIT_TOKEN_BUCKET,
                                   .requests = 1,
                                   .size = 3,
                                   .per_ticks = 1000000,
                                   .tick_us = 1};

static unsigned n_done;

static void on_done(struct store_take *take)
{
    (void)take;
    n_done++;
}

static struct store_charge charge_of(const struct limit *limit, int id, const char *key)
{
    return (struct store_charge){
        .limit = limit,
        .limit_id = limit_ids[id],
        .key = (const uint8_t *)key,
        .key_bytes = strlen(key),
        .cost = 1,
    };
}

struct fixture {
    struct store *store;
    struct counters *counters;
};

static int set_up(void **context)
{
    static struct fixture f;
    f.store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN, secret);
    f.counters = counters_new(0);
    *context = &f;
    return f.store == NULL || f.counters == NULL;
}

static int tear_down(void **context)
{
    struct fixture *f = *context;
    store_free(f->store);
    counters_free(f->counters);
    return 0;
}

/* Take the charges of `take` at `now`; answers whether all enforced ones passed. */
static bool take_all(struct fixture *f, struct store_take *take, int64_t now_us)
{
    unsigned before = n_done;
    take->now.us = now_us;
    take->counters = f->counters;
    take->done = on_done;
    store_take(f->store, take);
    assert_int_equal(n_done, before + 1); /* exactly once, before take returns */
    return take->is_allowed;
}

static bool take_one(struct fixture *f, const struct limit *limit, int id,
                     const char *key, int64_t now_us)
{
    struct store_take take = {.n_charges = 1, .charges = {charge_of(limit, id, key)}};
    return take_all(f, &take, now_us);
}

static void counts_each_key_and_each_limit_apart(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(take_one(f, &ten, 0, "a", START_US), i < 10);
    }
    assert_true(take_one(f, &ten, 0, "b", START_US));
    assert_true(take_one(f, &ten, 1, "a", START_US));
    assert_false(take_one(f, &ten, 0, "a", START_US));
}

static void refused_request_is_charged_nowhere(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 3; i++) {
        assert_true(take_one(f, &three, 1, "k", START_US));
    }
    for (int i = 0; i < 20; i++) {
        struct store_take both = {
            .n_charges = 2,
            .charges = {charge_of(&ten, 0, "k"), charge_of(&three, 1, "k")},
        };
        assert_false(take_all(f, &both, START_US));
        assert_true(both.charges[0].answer.is_allowed);
        assert_false(both.charges[0].is_charged);
        assert_false(both.charges[1].answer.is_allowed);
    }
    struct store_take peek = {.n_charges = 1, .charges = {charge_of(&ten, 0, "k")}};
    assert_true(take_all(f, &peek, START_US));
    assert_int_equal(peek.charges[0].answer.remaining, 9);
}

static struct store_take peek_at(struct fixture *f, const struct limit *limit, int id,
                                 const char *key, int64_t cost, int64_t now_us)
{
    struct store_take peek = {
        .n_charges = 1,
        .is_peek = true,
        .charges = {charge_of(limit, id, key)},
    };
    peek.charges[0].cost = cost;
    (void)take_all(f, &peek, now_us);
    return peek;
}

static void peek_answers_a_take_and_what_is_held(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 3; i++) {
        assert_true(take_one(f, &ten, 0, "k", START_US));
    }
    for (int i = 0; i < 3; i++) {
        struct store_take peek = peek_at(f, &ten, 0, "k", 4, START_US);
        assert_true(peek.is_allowed);
        assert_false(peek.charges[0].is_charged);
        assert_true(peek.charges[0].answer.is_allowed);
        assert_int_equal(peek.charges[0].answer.remaining, 3);
        assert_true(peek.held[0].is_allowed);
        assert_int_equal(peek.held[0].remaining, 7);
        peek = peek_at(f, &ten, 0, "k", 8, START_US);
        assert_false(peek.is_allowed);
        assert_true(peek.charges[0].answer.retry_us > 0);
        assert_int_equal(peek.held[0].retry_us, peek.charges[0].answer.retry_us);
        assert_int_equal(peek.held[0].remaining, 7);
    }
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_FILLED), 1);
}

static void peek_makes_no_counter(void **context)
{
    struct fixture *f = *context;
    struct store_take peek = peek_at(f, &ten, 0, "new", 1, START_US);
    assert_true(peek.is_allowed);
    assert_int_equal(peek.held[0].remaining, 10);
    assert_int_equal(peek.held[0].reset_us, 0);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_FILLED), 0);
}

/* A step back is put right for the answer; the counter waits for a take. */
static void peek_by_a_clock_stepped_back_leaves_the_stamp(void **context)
{
    struct fixture *f = *context;
    int64_t hour_us = 3600 * US_PER_S;
    for (int i = 0; i < 3; i++) {
        assert_true(take_one(f, &three, 1, "k", START_US));
    }
    struct store_take peek = peek_at(f, &three, 1, "k", 1, START_US - hour_us);
    assert_false(peek.is_allowed);
    assert_int_equal(peek.charges[0].answer.retry_us, US_PER_S);
    peek = peek_at(f, &three, 1, "k", 1, START_US + US_PER_S);
    assert_true(peek.is_allowed);
    assert_int_equal(peek.held[0].remaining, 1);
}

/* One request under ip 1000/min, user 100/min, endpoint 20/min, global 1 M/s. */
static void four_limits_the_21st_refused_by_one(void **context)
{
    struct fixture *f = *context;
    static const struct limit ip = {.algorithm = LIMIT_SLIDING_WINDOW,
                                    .requests = 1000,
                                    .size = 1000,
                                    .per_ticks = 600000,
                                    .tick_us = 100};
    static const struct limit user = {.algorithm = LIMIT_SLIDING_WINDOW,
                                      .requests = 100,
                                      .size = 100,
                                      .per_ticks = 600000,
                                      .tick_us = 100};
    static const struct limit endpoint = {.algorithm = LIMIT_SLIDING_WINDOW,
                                          .requests = 20,
                                          .size = 20,
                                          .per_ticks = 600000,
                                          .tick_us = 100};
    static const struct limit global = {.algorithm = LIMIT_SLIDING_WINDOW,
                                        .requests = 1000000,
                                        .size = 1000000,
                                        .per_ticks = 1000000,
                                        .tick_us = 1};
    struct store_take take = {0};
    for (int i = 1; i <= 21; i++) {
        take = (struct store_take){
            .n_charges = 4,
            .charges = {charge_of(&ip, 0, "ip"), charge_of(&user, 1, "user"),
                        charge_of(&endpoint, 2, "endpoint"), charge_of(&global, 3, "")},
        };
        assert_int_equal(take_all(f, &take, START_US), i <= 20);
    }
    assert_false(take.charges[2].answer.is_allowed);
    assert_int_equal(take.charges[0].answer.remaining, 1000 - 20);
    assert_int_equal(take.charges[1].answer.remaining, 100 - 20);
    assert_int_equal(take.charges[3].answer.remaining, 1000000 - 20);
}

static void shadow_is_charged_as_if_enforced_and_refuses_nobody(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 5; i++) {
        struct store_take take = {
            .n_charges = 2,
            .charges = {charge_of(&ten, 0, "k"), charge_of(&three, 1, "k")},
        };
        take.charges[1].is_lenient = true;
        assert_true(take_all(f, &take, START_US));
        assert_true(take.charges[0].is_charged);
        assert_int_equal(take.charges[1].is_charged, i < 3);
        assert_int_equal(take.charges[1].answer.is_allowed, i < 3);
    }
}

static void tied_charges_are_made_together_or_not_at_all(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 5; i++) {
        struct store_take take = {
            .n_charges = 4,
            .charges = {charge_of(&ten, 0, "k"), charge_of(&ten, 1, "k"),
                        charge_of(&three, 2, "k"), charge_of(&ten, 3, "k")},
        };
        for (int j = 1; j < 4; j++) {
            take.charges[j].is_lenient = true;
            take.charges[j].tie = j < 3;
        }
        assert_true(take_all(f, &take, START_US));
        assert_true(take.charges[0].is_charged);
        assert_int_equal(take.charges[1].is_charged, i < 3);
        assert_true(take.charges[1].answer.is_allowed);
        assert_int_equal(take.charges[1].answer.remaining, i < 3 ? 9 - i : 7);
        assert_int_equal(take.charges[2].answer.is_allowed, i < 3);
        assert_true(take.charges[3].is_charged);
    }
}

static void shadow_is_not_charged_for_a_refused_request(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 10; i++) {
        struct store_take take = {
            .n_charges = 2,
            .charges = {charge_of(&three, 0, "k"), charge_of(&ten, 1, "k")},
        };
        take.charges[1].is_lenient = true;
        assert_int_equal(take_all(f, &take, START_US), i < 3);
        assert_int_equal(take.charges[1].is_charged, i < 3);
    }
}

static void more_keys_than_slots_evict_and_stay_generous(void **context)
{
    struct fixture *f = *context;
    size_t n_keys = local_capacity(f->store) * 4;
    for (size_t i = 0; i < n_keys; i++) {
        uint64_t key = i;
        struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 0, "")}};
        take.charges[0].key = (const uint8_t *)&key;
        take.charges[0].key_bytes = sizeof(key);
        assert_true(take_all(f, &take, START_US));
    }
    uint64_t filled = counter_get(f->counters, COUNTER_LOCAL_FILLED);
    uint64_t evicted = counter_get(f->counters, COUNTER_LOCAL_EVICTED);
    assert_true(filled <= local_capacity(f->store));
    assert_int_equal(filled + evicted, n_keys);
}

/* The stated size: a million live counters fit 64 MiB, with under 1 % of them evicted. */
static void million_live_counters_in_64_mib(void **context)
{
    struct fixture *f = *context;
    const uint64_t n_keys = 1000000;
    store_free(f->store);
    f->store = local_new((size_t)64 << 20, LOCAL_LOG_BYTES_MIN, secret);
    assert_non_null(f->store);
    for (uint64_t key = 0; key < n_keys; key++) {
        struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 0, "")}};
        take.charges[0].key = (const uint8_t *)&key;
        take.charges[0].key_bytes = sizeof(key);
        assert_true(take_all(f, &take, START_US));
    }
    assert_true(counter_get(f->counters, COUNTER_LOCAL_EVICTED) < n_keys / 100);
    print_message("evicted: %llu of %llu\n",
                  (unsigned long long)counter_get(f->counters, COUNTER_LOCAL_EVICTED),
                  (unsigned long long)n_keys);
}

/* What is left of TEN for a key after a cost. */
static int64_t left_of(struct fixture *f, uint64_t key, int64_t cost)
{
    struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 0, "")}};
    take.charges[0].key = (const uint8_t *)&key;
    take.charges[0].key_bytes = sizeof(key);
    take.charges[0].cost = cost;
    (void)take_all(f, &take, START_US);
    return take.charges[0].answer.remaining;
}

/* Ten times as many keys as the table has slots go by, each asked for `n_asks` times in a
 * row of eight; one request in 20 is of one of eight clients that have used `n_used` and
 * ask for more. Answers how many of 10 000 of these met their counter. */
static uint64_t kept_in_a_flood(struct fixture *f, int64_t n_used, int64_t more,
                                unsigned n_asks)
{
    enum {
        REGULARS = 8,
        ROW = 8
    };
    struct prng prng;
    uint64_t n_asked = 0;
    uint64_t n_kept = 0;
    prng_init(&prng, prng_seed(7));
    for (uint64_t key = 0; key < REGULARS; key++) {
        assert_int_equal(left_of(f, key, n_used), 10 - n_used);
    }
    for (uint64_t row = ROW; row < 10 * local_capacity(f->store); row += ROW) {
        for (uint64_t i = 0; i < ROW * (uint64_t)n_asks; i++) {
            (void)left_of(f, row + i % ROW, 1);
            if (prng_below(&prng, 19) == 0) {
                n_asked++;
                n_kept += left_of(f, prng_below(&prng, REGULARS), more) == 10 - n_used;
            }
        }
    }
    return n_kept * 10000 / n_asked;
}

/* A client over its limit keeps its counter while a flood of new keys goes by. */
static void refusals_keep_their_counter_in_a_flood(void **context)
{
    assert_true(kept_in_a_flood(*context, 10, 1, 1) >= 9900);
}

/* Also when every key of the flood comes often enough to count as used. */
static void refusals_keep_their_counter_in_a_flood_of_used_keys(void **context)
{
    assert_true(kept_in_a_flood(*context, 10, 1, 6) >= 9900);
}

/* Keys that come once push each other out, not those that come again. */
static void use_keeps_a_counter_in_a_flood(void **context)
{
    assert_true(kept_in_a_flood(*context, 5, 0, 1) >= 9900);
}

/* Its memory is nobody else's before it is full again. */
static void idle_counter_goes_on_where_it_was(void **context)
{
    static const struct limit slow = {
        .algorithm = LIMIT_TOKEN_BUCKET,
        .requests = 1,
        .size = 100,
        .per_ticks = US_PER_S,
        .tick_us = 1,
    };
    struct fixture *f = *context;
    for (int i = 0; i < 101; i++) {
        assert_int_equal(take_one(f, &slow, 0, "spent", START_US), i < 100);
    }
    for (int s = 1; s <= 3; s++) {
        char key[24];
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(key, sizeof(key), "%d-%d", s, i);
            assert_true(take_one(f, &slow, 0, key, START_US + s * US_PER_S));
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(take_one(f, &slow, 0, "spent", START_US + 3 * US_PER_S),
                         i < 3);
    }
}

static void expired_counters_make_room_without_eviction(void **context)
{
    struct fixture *f = *context;
    size_t n_keys = local_capacity(f->store) * 4;
    for (size_t i = 0; i < n_keys; i++) {
        uint64_t key = i;
        struct store_take take = {.n_charges = 1,
                                  .charges = {charge_of(&three, 0, "")}};
        take.charges[0].key = (const uint8_t *)&key;
        take.charges[0].key_bytes = sizeof(key);
        /* a hundred keys in ten seconds: each is as if untouched after one */
        (void)take_all(f, &take, START_US + (int64_t)i * US_PER_S / 10);
    }
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_EVICTED), 0);
}

static void sixteen_new_counters_of_one_take_keep_apart(void **context)
{
    struct fixture *f = *context;
    static const struct limit one = {.algorithm = LIMIT_SLIDING_WINDOW,
                                     .requests = 1,
                                     .size = 1,
                                     .per_ticks = 600000,
                                     .tick_us = 100};
    uint8_t ids[STORE_CHARGES_MAX][STORE_LIMIT_ID_BYTES] = {{0}};
    for (int round = 0; round < 200; round++) {
        struct store_take take = {.n_charges = STORE_CHARGES_MAX};
        for (int i = 0; i < STORE_CHARGES_MAX; i++) {
            ids[i][8] = (uint8_t)i; /* the half that does not choose the set: one set */
            take.charges[i] = charge_of(&one, 0, "");
            take.charges[i].limit_id = ids[i];
            take.charges[i].key = (const uint8_t *)&round;
            take.charges[i].key_bytes = sizeof(round);
        }
        struct store_take again = take;
        assert_true(take_all(f, &take, START_US));
        assert_false(take_all(f, &again, START_US));
        for (int i = 0; i < STORE_CHARGES_MAX; i++) {
            assert_false(again.charges[i].answer.is_allowed);
        }
    }
}

enum {
    RACERS = 4,
    RACES = 20000
};

static struct {
    const struct limit *limit;
    int64_t start_us;
    int64_t step_us; /* between two requests of a thread */
    int64_t skew_us; /* by which the first clock is ahead of the last */
    struct store *store;
    struct counters *counters[RACERS];
    unsigned n_allowed[RACERS];
} race;

static void on_raced(struct store_take *take)
{
    (void)take;
}

static void *racer(void *arg)
{
    size_t idx = (size_t)(uintptr_t)arg;
    int64_t behind_us = race.skew_us * (int64_t)idx / (RACERS - 1);
    for (int i = 0; i < RACES; i++) {
        struct store_take take = {
            .now = {.us = race.start_us - behind_us + i * race.step_us},
            .counters = race.counters[idx],
            .done = on_raced,
            .n_charges = 2,
            .charges = {charge_of(race.limit, i % 2, "hot"),
                        charge_of(race.limit, 1 - i % 2, "hot")},
        };
        store_take(race.store, &take);
        race.n_allowed[idx] += take.is_allowed;
    }
    return NULL;
}

/* How many requests the threads, all at once, get through. */
static unsigned run_race(struct fixture *f, const struct limit *limit, int64_t start_us,
                         int64_t step_us, int64_t skew_us)
{
    pthread_t threads[RACERS];
    race.limit = limit;
    race.start_us = start_us;
    race.step_us = step_us;
    race.skew_us = skew_us;
    store_free(f->store);
    f->store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN, secret);
    assert_non_null(f->store);
    race.store = f->store;
    for (size_t i = 0; i < RACERS; i++) {
        race.n_allowed[i] = 0;
        race.counters[i] = counters_new(0);
        assert_non_null(race.counters[i]);
        int rc = pthread_create(&threads[i], NULL, racer, (void *)(uintptr_t)i);
        assert_int_equal(rc, 0);
    }
    unsigned n_allowed = 0;
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        counters_free(race.counters[i]);
        n_allowed += race.n_allowed[i];
    }
    return n_allowed;
}

static const int64_t skews_us[] = {0, 5 * US_PER_MS, LIMIT_CLOCK_SLACK_US / 2};

static void racing_threads_admit_exactly_the_limit(void **context)
{
    static const struct limit many = {.algorithm = LIMIT_SLIDING_WINDOW,
                                      .requests = 5000,
                                      .size = 5000,
                                      .per_ticks = 600000,
                                      .tick_us = 100};
    static const struct limit full = {.algorithm = LIMIT_TOKEN_BUCKET,
                                      .requests = 1,
                                      .size = 5000,
                                      .per_ticks = 1000000,
                                      .tick_us = 1000000};
    for (size_t i = 0; i < ARRAY_LEN(skews_us); i++) {
        int64_t within_us = START_US + 30 * US_PER_S;
        assert_int_equal(run_race(*context, &many, within_us, 0, skews_us[i]), 5000);
        assert_int_equal(run_race(*context, &full, within_us, 0, skews_us[i]), 5000);
    }
}

/* Half a second goes by on each clock, however the threads take turns: with what they
 * differ by no more than a second. What is allowed is what a single clock would have
 * allowed in that time. */
static void racing_threads_of_skewed_clocks_stay_within_the_limit(void **context)
{
    static const struct limit window = {.algorithm = LIMIT_SLIDING_WINDOW,
                                        .requests = 5000,
                                        .size = 5000,
                                        .per_ticks = 600000,
                                        .tick_us = 100};
    static const struct limit bucket = {.algorithm = LIMIT_TOKEN_BUCKET,
                                        .requests = 20000,
                                        .size = 100,
                                        .per_ticks = 1000000,
                                        .tick_us = 1};
    const int64_t step_us = US_PER_S / 2 / RACES;
    for (size_t i = 0; i < ARRAY_LEN(skews_us); i++) {
        int64_t span_us = skews_us[i] + US_PER_S / 2;
        /* from the end of a window into the next */
        unsigned n = run_race(*context, &window, START_US, step_us, skews_us[i]);
        assert_in_range(n, 5000, 5000 + 5000 * span_us / (60 * US_PER_S) + 1);
        n = run_race(*context, &bucket, START_US, step_us, skews_us[i]);
        assert_in_range(n, 100, 100 + 20000 * span_us / US_PER_S + 1);
    }
}

/* An image of a table's counters, as it goes from one table to another. */
static struct {
    uint8_t bytes[LOCAL_MEMORY_BYTES_MIN * 2];
    size_t len;
} image;

static bool keep_bytes(void *context, const void *bytes, size_t len)
{
    (void)context;
    assert_true(len <= sizeof(image.bytes) - image.len);
    memcpy(image.bytes + image.len, bytes, len);
    image.len += len;
    return true;
}

/* Write the live counters of a table; answers how many. */
static uint64_t export_all(struct store *store, int64_t now_us)
{
    static struct image_writer writer;
    struct image_origin origin = {.agent_at = {.us = now_us}, .wall_us = now_us};
    memcpy(origin.secret, local_secret(store), sizeof(origin.secret));
    image.len = 0;
    image_writer_init(&writer, &origin, keep_bytes, NULL);
    local_export(store, (struct instant){.us = now_us}, &writer);
    assert_true(image_write_end(&writer));
    return image_writer_n_records(&writer);
}

struct importing {
    struct store *store;
    struct counters *counters;
    struct instant now;
};

static void add_records(void *context, enum image_kind kind,
                        const struct image_record *records, size_t n_records)
{
    const struct importing *to = context;
    local_import(to->store, kind, records, n_records, to->now, to->counters);
}

static void import_all(struct store *store, struct counters *counters, int64_t now_us)
{
    static struct image_reader reader;
    struct importing to = {store, counters, {.us = now_us}};
    image_reader_init(&reader, add_records, &to);
    assert_int_equal(image_read(&reader, image.bytes, image.len), IMAGE_END);
}

/* Into tables of other sizes; the secret that places them goes with them. */
static void counters_move_to_another_table(void **context)
{
    struct fixture *f = *context;
    const size_t sizes[] = {LOCAL_MEMORY_BYTES_MIN, (size_t)1 << 20, 100000};
    for (int i = 0; i < 200; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        for (int j = 0; j < 1 + i % 12; j++) {
            assert_int_equal(take_one(f, &ten, 0, key, START_US), j < 10);
        }
    }
    assert_true(take_one(f, &three, 1, "soon full again", START_US));
    assert_int_equal(export_all(f->store, START_US), 201);
    assert_int_equal(export_all(f->store, START_US + 2 * US_PER_S), 200);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fixture to = {local_new(sizes[i], LOCAL_LOG_BYTES_MIN, secret),
                             f->counters};
        import_all(to.store, f->counters, START_US + 2 * US_PER_S);
        for (int k = 0; k < 200; k++) {
            char key[16];
            struct store_take look = {.n_charges = 1};
            (void)snprintf(key, sizeof(key), "%d", k);
            look.charges[0] = charge_of(&ten, 0, key);
            look.charges[0].cost = 0;
            assert_true(take_all(&to, &look, START_US));
            assert_int_equal(look.charges[0].answer.remaining,
                             k % 12 < 10 ? 9 - k % 12 : 0);
        }
        store_free(to.store);
    }
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_RESTORED), 600);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_EVICTED), 0);
}

static void expired_counters_are_not_taken_over(void **context)
{
    struct fixture *f = *context;
    assert_true(take_one(f, &ten, 0, "k", START_US));
    assert_int_equal(export_all(f->store, START_US), 1);
    import_all(f->store, f->counters, START_US + 600 * US_PER_S);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_RESTORED), 0);
    assert_int_equal(export_all(f->store, START_US + 600 * US_PER_S), 0);
}

/* 3 on the old agent, 4 on the new one while the old one went on, then the old one's
 * again from a third: all are added at the next request, once. */
static void inherited_counts_are_added_once(void **context)
{
    struct fixture *f = *context;
    struct fixture old = {local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                    secret),
                          f->counters};
    for (int i = 0; i < 3; i++) {
        assert_true(take_one(&old, &ten, 0, "k", START_US));
    }
    assert_int_equal(export_all(old.store, START_US), 1);
    store_free(old.store);
    for (int i = 0; i < 4; i++) {
        assert_true(take_one(f, &ten, 0, "k", START_US));
    }
    import_all(f->store, f->counters, START_US);
    assert_int_equal(export_all(f->store, START_US), 2);
    struct store_take look = {.n_charges = 1, .charges = {charge_of(&ten, 0, "k")}};
    assert_true(take_all(f, &look, START_US)); /* the eighth */
    assert_int_equal(look.charges[0].answer.remaining, 2);
    assert_int_equal(export_all(f->store, START_US), 1);
    import_all(f->store, f->counters, START_US); /* 8 again, beside 8 */
    assert_false(take_one(f, &ten, 0, "k", START_US));
    /* in debt by 6: the window after next weighs what this one still allows */
    assert_int_equal(export_all(f->store, START_US + 119 * US_PER_S), 1);
    assert_false(take_one(f, &ten, 0, "k", START_US + 60 * US_PER_S));
    assert_true(take_one(f, &ten, 0, "k", START_US + 119 * US_PER_S));
}

static unsigned n_same_hash;

static void count_same_hash(void *context, enum image_kind kind,
                            const struct image_record *records, size_t n_records)
{
    const struct image_record *wanted = context;
    assert_int_equal(kind, IMAGE_COUNTERS);
    for (size_t i = 0; i < n_records; i++) {
        n_same_hash += records[i].hash_hi == wanted->hash_hi;
    }
}

/* How many slots the counter of that record has. */
static unsigned slots_of(struct store *store, struct image_record *record)
{
    static struct image_reader reader;
    n_same_hash = 0;
    (void)export_all(store, START_US);
    image_reader_init(&reader, count_same_hash, record);
    assert_int_equal(image_read(&reader, image.bytes, image.len), IMAGE_END);
    return n_same_hash;
}

/* The counter of the table is pushed out before the two could meet. */
static void inherited_alone_becomes_the_counter(void **context)
{
    struct fixture *f = *context;
    struct image_record record;
    assert_true(take_one(f, &ten, 0, "k", START_US));
    (void)export_all(f->store, START_US);
    memcpy(&record, image.bytes + IMAGE_HEAD_BYTES + 16, sizeof(record));
    import_all(f->store, f->counters, START_US);
    assert_int_equal(slots_of(f->store, &record), 2);
    for (uint64_t key = 0; slots_of(f->store, &record) == 2; key++) {
        struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 1, "")}};
        take.charges[0].key = (const uint8_t *)&key;
        take.charges[0].key_bytes = sizeof(key);
        assert_true(take_all(f, &take, START_US));
    }
    assert_int_equal(n_same_hash, 1);
    for (int i = 8; i >= 0; i--) {
        struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 0, "k")}};
        assert_true(take_all(f, &take, START_US));
        assert_int_equal(take.charges[0].answer.remaining, i);
    }
    assert_false(take_one(f, &ten, 0, "k", START_US));
}

/* 2 used beside 2 used of a bucket of 3: in debt, and kept until that is waited out, though
 * all that comes meanwhile is refused. */
static void merged_counter_lives_as_long_as_both_together(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 2; i++) {
        assert_true(take_one(f, &three, 0, "k", START_US));
    }
    (void)export_all(f->store, START_US);
    import_all(f->store, f->counters, START_US);
    assert_false(take_one(f, &three, 0, "k", START_US));
    assert_int_equal(export_all(f->store, START_US + 3 * US_PER_S), 1);
    assert_int_equal(export_all(f->store, START_US + 5 * US_PER_S), 0);
}

/* In a full table a record makes room beside its own counter, never in its place. */
static void inherited_never_pushes_out_its_own_counter(void **context)
{
    struct fixture *f = *context;
    const struct instant now = {.us = START_US};
    for (uint64_t key = 0; key < 10 * local_capacity(f->store); key++) {
        struct store_take take = {.n_charges = 1, .charges = {charge_of(&ten, 0, "")}};
        take.charges[0].key = (const uint8_t *)&key;
        take.charges[0].key_bytes = sizeof(key);
        assert_true(take_all(f, &take, START_US));
    }
    for (int i = 0; i < 200; i++) {
        struct image_record record;
        (void)export_all(f->store, START_US);
        memcpy(&record,
               image.bytes + IMAGE_HEAD_BYTES + 16 + (size_t)i * sizeof(record),
               sizeof(record));
        if (slots_of(f->store, &record) > 1) {
            continue;
        }
        local_import(f->store, IMAGE_COUNTERS, &record, 1, now, f->counters);
        assert_int_equal(slots_of(f->store, &record), 2);
    }
}

static void *mover(void *arg)
{
    struct fixture *f = arg;
    struct fixture other = {local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                      secret),
                            counters_new(0)};
    for (int i = 0; i < 200; i++) { /* there and back, while the others count */
        (void)export_all(f->store, START_US);
        import_all(other.store, other.counters, START_US);
        if (i % 20 == 0) {
            (void)export_all(other.store, START_US);
            import_all(f->store, f->counters, START_US);
        }
    }
    store_free(other.store);
    counters_free(other.counters);
    return NULL;
}

/* What comes back was counted before, so less is left; it never gives anything. */
static void counters_move_while_threads_race(void **context)
{
    struct fixture *f = *context;
    static const struct limit many = {.algorithm = LIMIT_SLIDING_WINDOW,
                                      .requests = 60000,
                                      .size = 60000,
                                      .per_ticks = 600000,
                                      .tick_us = 100};
    pthread_t thread;
    race.limit = &many;
    race.start_us = START_US;
    race.step_us = 0;
    race.skew_us = 0;
    race.store = f->store;
    race.counters[0] = counters_new(0);
    race.n_allowed[0] = 0;
    assert_non_null(race.counters[0]);
    assert_int_equal(pthread_create(&thread, NULL, mover, f), 0);
    (void)racer((void *)(uintptr_t)0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    counters_free(race.counters[0]);
    assert_in_range(race.n_allowed[0], 1, RACES);
    struct store_take look = {.n_charges = 1, .charges = {charge_of(&many, 0, "hot")}};
    (void)take_all(f, &look, START_US);
    assert_true(look.charges[0].answer.remaining < 60000 - race.n_allowed[0]);
}

static void clock_stepped_back_is_no_lock_out(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 3; i++) {
        assert_true(take_one(f, &three, 0, "k", START_US));
    }
    int64_t back = START_US - 3600 * US_PER_S;
    assert_false(take_one(f, &three, 0, "k", back)); /* its stamp becomes now */
    assert_true(take_one(f, &three, 0, "k", back + US_PER_S));
}

static void too_little_memory_is_refused(void **context)
{
    (void)context;
    assert_null(local_new(1000, LOCAL_LOG_BYTES_MIN, secret));
}

static void settle(struct fixture *f, const struct store_charge *charge, int64_t truth,
                   int64_t now_us)
{
    struct store_settlement settlement = {
        .limit = charge->limit,
        .limit_id = charge->limit_id,
        .key = charge->key,
        .key_bytes = charge->key_bytes,
        .correction = {charge->place, charge->cost, truth},
        .now = {.us = now_us},
        .counters = f->counters,
    };
    store_settle(f->store, &settlement);
}

static int64_t remaining(struct fixture *f, const struct limit *limit, int id,
                         const char *key, int64_t now_us)
{
    struct store_take peek = {.n_charges = 1, .charges = {charge_of(limit, id, key)}};
    peek.charges[0].cost = 0;
    (void)take_all(f, &peek, now_us);
    return peek.charges[0].answer.remaining;
}

static void settled_charge_is_given_back_or_corrected_where_it_was_taken(void **context)
{
    struct fixture *f = *context;
    const struct limit *limits[] = {&ten, &three};
    for (int i = 0; i < 2; i++) {
        int64_t size = limits[i]->size;
        struct store_take take = {.n_charges = 1,
                                  .charges = {charge_of(limits[i], i, "k")}};
        assert_true(take_all(f, &take, START_US));
        assert_int_equal(remaining(f, limits[i], i, "k", START_US), size - 1);
        settle(f, &take.charges[0], 0, START_US);
        assert_int_equal(remaining(f, limits[i], i, "k", START_US), size);
        settle(f, &take.charges[0], 0, START_US); /* again: never below zero */
        assert_int_equal(remaining(f, limits[i], i, "k", START_US), size);
        settle(f, &take.charges[0], 3, START_US);
        assert_int_equal(remaining(f, limits[i], i, "k", START_US), size - 2);
        settle(f, &take.charges[0], 0, START_US + 600 * US_PER_S);
    }
    assert_int_equal(counter_get(f->counters, COUNTER_SETTLED_TOO_LATE), 4);
}

/* The table may have lost the counter: nothing is given back, a debt is not forgiven. */
static void settling_an_evicted_counter_makes_it_only_when_something_is_added(
    void **context)
{
    struct fixture *f = *context;
    struct store_charge charge = charge_of(&ten, 0, "gone");
    charge.place = START_US / (60 * US_PER_S);
    settle(f, &charge, 0, START_US);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_FILLED), 0);
    settle(f, &charge, 15, START_US);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_FILLED), 1);
    assert_false(take_one(f, &ten, 0, "gone", START_US));
    settle(f, &charge, 15, START_US);
    assert_int_equal(counter_get(f->counters, COUNTER_LOCAL_FILLED), 1);
}

/* Three at once, given back at once: no more than three are ever taken together. */
static struct {
    struct store *store;
    struct counters *counters[RACERS];
    _Atomic int n_taken;
    _Atomic int n_beyond;
} giving;

static void *giver(void *context)
{
    size_t idx = (size_t)(uintptr_t)context;
    struct fixture f = {.store = giving.store, .counters = giving.counters[idx]};
    for (int i = 0; i < 20000; i++) {
        struct store_take take = {
            .now = {.us = START_US},
            .counters = f.counters,
            .done = on_raced,
            .n_charges = 1,
            .charges = {charge_of(&three, 0, "hot")},
        };
        store_take(f.store, &take);
        if (!take.is_allowed) {
            continue;
        }
        int n_taken = atomic_fetch_add(&giving.n_taken, 1) + 1;
        atomic_fetch_add(&giving.n_beyond, n_taken > 3);
        atomic_fetch_sub(&giving.n_taken, 1);
        settle(&f, &take.charges[0], 0, START_US);
    }
    return NULL;
}

static void racing_threads_take_and_give_back_and_nothing_is_left(void **context)
{
    struct fixture *f = *context;
    pthread_t threads[RACERS];
    giving.store = f->store;
    for (size_t i = 0; i < RACERS; i++) {
        giving.counters[i] = counters_new(0);
        assert_non_null(giving.counters[i]);
        int rc = pthread_create(&threads[i], NULL, giver, (void *)(uintptr_t)i);
        assert_int_equal(rc, 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(counter_get(giving.counters[i], COUNTER_SETTLED_TOO_LATE), 0);
        counters_free(giving.counters[i]);
    }
    assert_int_equal(giving.n_beyond, 0);
    assert_int_equal(remaining(f, &three, 0, "hot", START_US), 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(counts_each_key_and_each_limit_apart),
        TEST(refused_request_is_charged_nowhere),
        TEST(peek_answers_a_take_and_what_is_held),
        TEST(peek_makes_no_counter),
        TEST(peek_by_a_clock_stepped_back_leaves_the_stamp),
        TEST(four_limits_the_21st_refused_by_one),
        TEST(shadow_is_charged_as_if_enforced_and_refuses_nobody),
        TEST(tied_charges_are_made_together_or_not_at_all),
        TEST(shadow_is_not_charged_for_a_refused_request),
        TEST(more_keys_than_slots_evict_and_stay_generous),
        TEST(million_live_counters_in_64_mib),
        TEST(refusals_keep_their_counter_in_a_flood),
        TEST(refusals_keep_their_counter_in_a_flood_of_used_keys),
        TEST(use_keeps_a_counter_in_a_flood),
        TEST(idle_counter_goes_on_where_it_was),
        TEST(expired_counters_make_room_without_eviction),
        TEST(sixteen_new_counters_of_one_take_keep_apart),
        TEST(racing_threads_admit_exactly_the_limit),
        TEST(racing_threads_of_skewed_clocks_stay_within_the_limit),
        TEST(counters_move_to_another_table),
        TEST(expired_counters_are_not_taken_over),
        TEST(inherited_counts_are_added_once),
        TEST(inherited_alone_becomes_the_counter),
        TEST(merged_counter_lives_as_long_as_both_together),
        TEST(inherited_never_pushes_out_its_own_counter),
        TEST(counters_move_while_threads_race),
        TEST(clock_stepped_back_is_no_lock_out),
        TEST(too_little_memory_is_refused),
        TEST(settled_charge_is_given_back_or_corrected_where_it_was_taken),
        TEST(racing_threads_take_and_give_back_and_nothing_is_left),
        TEST(settling_an_evicted_counter_makes_it_only_when_something_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
