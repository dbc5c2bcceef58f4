/* Sliding logs in the local table: exact, moved whole to another table, and bounded. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/local.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

enum {
    MEMORY_BYTES = 4 << 20,
    LOG_BYTES = 1 << 20,
    FEW_BYTES = 32 * 64, /* 31 blocks */
    THREADS = 4,
    IMAGE_BYTES_MAX = 1 << 20,
};

static const uint8_t secret[LOCAL_SECRET_BYTES] = {7};
static const uint8_t limit_ids[2][STORE_LIMIT_ID_BYTES] = {{1}, {2}};

static const struct limit ten = {.algorithm = LIMIT_SLIDING_LOG,
                                 .requests = 10,
                                 .size = 10,
                                 .per_ticks = 1000000,
                                 .tick_us = 1};
static const struct limit thousand = {.algorithm = LIMIT_SLIDING_LOG,
                                      .requests = 1000,
                                      .size = 1000,
                                      .per_ticks = 600000,
                                      .tick_us = 100};
static const struct limit bucket_of_3 = {.algorithm = LIMIT_TOKEN_BUCKET,
                                         .requests = 1,
                                         .size = 3,
                                         .per_ticks = 1000000,
                                         .tick_us = 1};

struct fixture {
    struct store *store;
    struct counters *counters;
};

static void on_done(struct store_take *take)
{
    (void)take;
}

static struct fixture make(size_t log_bytes)
{
    struct fixture f = {local_new(MEMORY_BYTES, log_bytes, secret), counters_new(0)};
    assert_non_null(f.store);
    assert_non_null(f.counters);
    return f;
}

static void end(struct fixture *f)
{
    store_free(f->store);
    counters_free(f->counters);
}

static struct store_charge charge_of(const struct limit *limit, int id, const char *key,
                                     int64_t cost)
{
    return (struct store_charge){
        .limit = limit,
        .limit_id = limit_ids[id],
        .key = (const uint8_t *)key,
        .key_bytes = strlen(key),
        .cost = cost,
    };
}

static bool take_all(const struct fixture *f, struct store_take *take, int64_t now_us)
{
    take->now.us = now_us;
    take->counters = f->counters;
    take->done = on_done;
    store_take(f->store, take);
    return take->is_allowed;
}

static struct store_charge take_one(const struct fixture *f, const struct limit *limit,
                                    const char *key, int64_t now_us, int64_t cost)
{
    struct store_take take = {.n_charges = 1};
    take.charges[0] = charge_of(limit, 0, key, cost);
    bool is_allowed = take_all(f, &take, now_us);
    assert_int_equal(take.charges[0].answer.is_allowed, is_allowed);
    return take.charges[0];
}

static int64_t pass(const struct fixture *f, const struct limit *limit, const char *key,
                    int64_t now_us, int64_t n)
{
    int64_t n_passed = 0;
    for (int64_t i = 0; i < n; i++) {
        n_passed += take_one(f, limit, key, now_us, 1).answer.is_allowed;
    }
    return n_passed;
}

static int64_t left(const struct fixture *f, const struct limit *limit, const char *key,
                    int64_t now_us)
{
    return take_one(f, limit, key, now_us, 0).answer.remaining;
}

static void ten_before_and_ten_after_the_edge(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES);
    int64_t edge = START_US + US_PER_S;
    int64_t n = pass(&f, &ten, "k", edge - 10000, 10);
    n += pass(&f, &ten, "k", edge + 10000, 10);
    assert_int_equal(n, 10);
    struct store_charge charge = take_one(&f, &ten, "k", edge + 10000, 1);
    assert_int_equal(charge.answer.retry_us, US_PER_S - 20000);
    assert_int_equal(pass(&f, &ten, "k", edge - 10000 + US_PER_S - 1, 1), 0);
    assert_int_equal(pass(&f, &ten, "k", edge - 10000 + US_PER_S, 20), 10);
    end(&f);
}

/* Where two counts estimate 590 and refuse falsely, or allow falsely, the log counts. */
static void sliding_windows_false_cases_are_right(void **context)
{
    (void)context;
    static const struct {
        int64_t came_at_s;
        int64_t passes;
    } cases[] = {{5, 770}, {55, 290}};
    struct limit limit = thousand;
    for (int i = 0; i < 2; i++) {
        struct fixture f = make(LOG_BYTES);
        limit.requests = 1000;
        assert_int_equal(pass(&f, &limit, "k", START_US + cases[i].came_at_s * US_PER_S,
                              480),
                         480);
        assert_int_equal(pass(&f, &limit, "k", START_US + 75 * US_PER_S, 230), 230);
        assert_int_equal(pass(&f, &limit, "k", START_US + 75 * US_PER_S, 1000),
                         cases[i].passes);
        end(&f);
    }
}

static void largest_log_is_exact(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pass(&f, &thousand, "k", START_US + i * 1000, 1), 1);
    }
    assert_int_equal(pass(&f, &thousand, "k", START_US + 999000, 1), 0);
    for (int i = 0; i < 1000; i++) { /* each leaves when it is a minute old */
        int64_t at_us = START_US + i * 1000 + 60 * US_PER_S;
        assert_int_equal(left(&f, &thousand, "k", at_us - 1), i);
        assert_int_equal(left(&f, &thousand, "k", at_us), i + 1);
    }
    end(&f);
}

static void refused_request_is_charged_nowhere(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES);
    for (int i = 0; i < 5; i++) {
        struct store_take take = {.n_charges = 2};
        take.charges[0] = charge_of(&ten, 0, "k", 1);
        take.charges[1] = charge_of(&bucket_of_3, 1, "k", 1);
        assert_int_equal(take_all(&f, &take, START_US), i < 3);
        assert_int_equal(take.charges[0].is_charged, i < 3);
    }
    assert_int_equal(left(&f, &ten, "k", START_US), 7);
    end(&f);
}

static void cost_is_one_event(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    assert_int_equal(take_one(&f, &thousand, "k", START_US, 999).answer.remaining, 1);
    assert_false(take_one(&f, &thousand, "k", START_US, 2).answer.is_allowed);
    struct store_charge never = take_one(&f, &thousand, "k", START_US, 1001);
    assert_true(never.answer.retry_us == LIMIT_NEVER);
    assert_int_equal(pass(&f, &thousand, "k", START_US, 2), 1);
    end(&f);
}

static void settle(const struct fixture *f, const char *key,
                   const struct store_charge *charge, int64_t truth)
{
    const struct store_settlement settlement = {
        .limit = charge->limit,
        .limit_id = charge->limit_id,
        .key = (const uint8_t *)key,
        .key_bytes = strlen(key),
        .correction = {charge->place, charge->cost, truth},
        .now = {.us = charge->place},
        .counters = f->counters,
    };
    store_settle(f->store, &settlement);
}

static void given_back_is_gone(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    for (int i = 0; i < 100; i++) {
        struct store_charge charge = take_one(&f, &ten, "k", START_US + i, 2);
        assert_true(charge.is_charged);
        assert_int_equal(charge.place, START_US + i);
        settle(&f, "k", &charge, i < 6);
    }
    assert_int_equal(left(&f, &ten, "k", START_US + 100), 4);
    assert_int_equal(left(&f, &ten, "k", START_US + US_PER_S + 100), 10);
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVENTS_LOST), 0);
    end(&f);
}

static void memory_of_what_is_given_back_serves_others(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    for (int i = 0; i < 500; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        struct store_charge charge = take_one(&f, &ten, key, START_US, 1);
        settle(&f, key, &charge, 0);
    }
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVENTS_LOST), 0);
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVICTED), 0);
    end(&f);
}

/* Counters push logs out of the table: their blocks serve the next logs. */
static void pushed_out_logs_give_their_memory_back(void **context)
{
    (void)context;
    struct fixture f = {local_new(LOCAL_MEMORY_BYTES_MIN, FEW_BYTES * 4, secret),
                        counters_new(0)};
    for (int i = 0; i < 100; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "log %d", i);
        assert_int_equal(pass(&f, &ten, key, START_US, 10), 10);
        for (int j = 0; j < 2000; j++) {
            (void)snprintf(key, sizeof(key), "%d %d", i, j);
            (void)take_one(&f, &bucket_of_3, key, START_US, 1);
        }
    }
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVENTS_LOST), 0);
    end(&f);
}

static void clock_an_hour_back_locks_nobody_out(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    int64_t back_us = START_US - 3600 * US_PER_S;
    assert_int_equal(pass(&f, &ten, "k", START_US, 10), 10);
    struct store_charge charge = take_one(&f, &ten, "k", back_us, 1);
    assert_int_equal(charge.answer.retry_us, US_PER_S);
    assert_int_equal(pass(&f, &ten, "k", back_us + US_PER_S, 20), 10);
    end(&f);
}

static struct {
    size_t len;
    uint8_t bytes[IMAGE_BYTES_MAX];
} image;

static bool keep_bytes(void *context, const void *bytes, size_t len)
{
    (void)context;
    assert_true(len <= sizeof(image.bytes) - image.len);
    memcpy(image.bytes + image.len, bytes, len);
    image.len += len;
    return true;
}

struct importing {
    const struct fixture *to;
    struct instant now;
};

static void add_records(void *context, enum image_kind kind,
                        const struct image_record *records, size_t n_records)
{
    const struct importing *importing = context;
    local_import(importing->to->store, kind, records, n_records, importing->now,
                 importing->to->counters);
}

static void move(const struct fixture *from, const struct fixture *to, int64_t now_us)
{
    static struct image_writer writer;
    static struct image_reader reader;
    struct image_origin origin = {.agent_at = {.us = now_us}, .wall_us = now_us};
    struct importing importing = {to, {.us = now_us}};
    memcpy(origin.secret, secret, sizeof(secret));
    image.len = 0;
    image_writer_init(&writer, &origin, keep_bytes, NULL);
    local_export(from->store, (struct instant){.us = now_us}, &writer);
    assert_true(image_write_end(&writer));
    image_reader_init(&reader, add_records, &importing);
    assert_int_equal(image_read(&reader, image.bytes, image.len), IMAGE_END);
}

static void logs_move_to_another_table(void **context)
{
    (void)context;
    struct fixture old = make(LOG_BYTES);
    struct fixture new = make(LOG_BYTES);
    for (int i = 0; i < 999; i++) {
        assert_int_equal(pass(&old, &thousand, "many", START_US + i * 1000, 1), 1);
    }
    assert_int_equal(pass(&old, &ten, "few", START_US, 3), 3);
    (void)take_one(&old, &bucket_of_3, "no log", START_US, 1);
    move(&old, &new, START_US + US_PER_S - 1);
    assert_int_equal(counter_get(new.counters, COUNTER_LOCAL_RESTORED), 3);
    assert_int_equal(left(&new, &ten, "few", START_US + US_PER_S - 1), 7);
    assert_int_equal(left(&new, &thousand, "many", START_US + US_PER_S), 1);
    assert_int_equal(left(&new, &thousand, "many", START_US + 60 * US_PER_S + 10000),
                     12);
    end(&old);
    end(&new);
}

/* The successor counts while its predecessor does, too; then it gets the events. */
static void inherited_events_are_merged_in_order(void **context)
{
    (void)context;
    struct fixture old = make(LOG_BYTES);
    struct fixture new = make(LOG_BYTES);
    for (int i = 0; i < 400; i++) {
        const struct fixture *f = i % 2 == 0 ? &old : &new;
        assert_int_equal(pass(f, &thousand, "k", START_US + i * 1000, 1), 1);
    }
    move(&old, &new, START_US + US_PER_S);
    assert_int_equal(left(&new, &thousand, "k", START_US + US_PER_S), 600);
    for (int i = 0; i < 400; i++) {
        int64_t at_us = START_US + i * 1000 + 60 * US_PER_S;
        assert_int_equal(left(&new, &thousand, "k", at_us - 1), 600 + i);
    }
    move(&old, &new, START_US + US_PER_S); /* whatever comes: no more than two limits */
    move(&old, &new, START_US + US_PER_S);
    assert_int_equal(left(&new, &thousand, "k", START_US + US_PER_S), 200);
    end(&old);
    end(&new);
}

/* A damaged image could give a counter the name of a log. */
static void what_is_no_log_is_not_read_as_one(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES);
    assert_int_equal(pass(&f, &bucket_of_3, "k", START_US, 5), 3);
    assert_int_equal(pass(&f, &ten, "k", START_US, 20), 10);
    assert_int_equal(pass(&f, &bucket_of_3, "k", START_US, 1), 0);
    assert_int_equal(left(&f, &ten, "k", START_US), 0);
    end(&f);
}

static void expired_logs_give_their_memory_to_others(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    for (int round = 0; round < 50; round++) {
        int64_t at_us = START_US + round * 3 * US_PER_S;
        for (int i = 0; i < 15; i++) { /* two blocks each: 30 of 31 */
            char key[24];
            (void)snprintf(key, sizeof(key), "%d-%d", round, i);
            assert_int_equal(pass(&f, &ten, key, at_us, 11), 10);
        }
    }
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVENTS_LOST), 0);
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_EVICTED), 0);
    end(&f);
}

/* New keys push out those that are not used again; one that refuses stays. */
static void flood_of_keys_evicts_and_loses_no_refusal(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES / 16);
    int64_t n_passed = pass(&f, &ten, "victim", START_US, 10);
    assert_int_equal(n_passed, 10);
    for (int i = 0; i < 20000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        (void)take_one(&f, &ten, key, START_US + i, 1);
        if (i % 100 == 0) {
            n_passed += pass(&f, &ten, "victim", START_US + i, 1);
        }
    }
    assert_int_equal(n_passed, 10);
    assert_true(counter_get(f.counters, COUNTER_LOCAL_EVICTED) > 10000);
    assert_true(counter_get(f.counters, COUNTER_LOCAL_EVENTS_LOST) < 1000);
    end(&f);
}

struct racer {
    pthread_t thread;
    struct fixture f;
    int64_t n_passed;
    int n_keys;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    for (int i = 0; i < 4000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i % racer->n_keys);
        racer->n_passed += take_one(&racer->f, &thousand, key, START_US + i, 1)
                               .answer.is_allowed;
    }
    return NULL;
}

static int64_t race_all(const struct fixture *f, int n_keys)
{
    struct racer racers[THREADS];
    int64_t n_passed = 0;
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.f = *f, .n_keys = n_keys};
        racers[i].f.counters = counters_new(0);
        assert_non_null(racers[i].f.counters);
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        n_passed += racers[i].n_passed;
        counters_free(racers[i].f.counters);
    }
    return n_passed;
}

static void threads_on_one_log_are_exact(void **context)
{
    (void)context;
    struct fixture f = make(LOG_BYTES);
    assert_int_equal(race_all(&f, 1), 1000);
    end(&f);
}

static void threads_fight_for_few_blocks(void **context)
{
    (void)context;
    struct fixture f = make(FEW_BYTES);
    assert_true(race_all(&f, 500) <= THREADS * 4000);
    struct fixture new = make(FEW_BYTES);
    move(&f, &new, START_US + US_PER_S);
    end(&f);
    end(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_before_and_ten_after_the_edge),
        cmocka_unit_test(sliding_windows_false_cases_are_right),
        cmocka_unit_test(largest_log_is_exact),
        cmocka_unit_test(refused_request_is_charged_nowhere),
        cmocka_unit_test(cost_is_one_event),
        cmocka_unit_test(given_back_is_gone),
        cmocka_unit_test(memory_of_what_is_given_back_serves_others),
        cmocka_unit_test(pushed_out_logs_give_their_memory_back),
        cmocka_unit_test(clock_an_hour_back_locks_nobody_out),
        cmocka_unit_test(logs_move_to_another_table),
        cmocka_unit_test(inherited_events_are_merged_in_order),
        cmocka_unit_test(what_is_no_log_is_not_read_as_one),
        cmocka_unit_test(expired_logs_give_their_memory_to_others),
        cmocka_unit_test(flood_of_keys_evicts_and_loses_no_refusal),
        cmocka_unit_test(threads_on_one_log_are_exact),
        cmocka_unit_test(threads_fight_for_few_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
