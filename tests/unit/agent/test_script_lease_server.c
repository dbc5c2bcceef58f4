/* What lease and sync do to the keys of a real redis-server, and what the other scripts do
 * with what they leave there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/limit.h"
#include "tests/support/twin.h"

enum {
    KINDS = LIMIT_FIXED_WINDOW + 1,
    RECORD_BYTES = 32,
};

#define SIZE       INT64_C(100) /* of each limit */
#define TTL_MS     INT64_C(2000)

#define KEPT_MS    INT64_C(3600000) /* as clock.lua of tests says */
#define TTL_US     (TTL_MS * US_PER_MS)
#define MONTH_US   (INT64_C(31) * 24 * 60 * MINUTE_US)
#define LONGEST_US ((int64_t)SCRIPT_KEPT_MS_MAX * US_PER_MS)

static struct twin twin;
static const struct twin_key keys[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
static const uint8_t one[SCRIPT_HOST_BYTES] = {1};
static const uint8_t two[SCRIPT_HOST_BYTES] = {2};
static int64_t now_us;

static struct redis_server *server(void)
{
    return &twin.server;
}

/* Nothing drains within ten seconds: that is its tick. */
static struct limit limit_of(int kind)
{
    return make((enum limit_algorithm)kind, SIZE, SIZE, MONTH_US);
}

static struct script_lease_order wanted(const struct limit *limit, uint32_t seq,
                                        int64_t want)
{
    return (struct script_lease_order){
        .limit = limit,
        .want = want,
        .cap = limit->size,
        .divisor = 1,
        .new_seq = seq,
    };
}

static struct script_lease_order reported(const struct limit *limit, uint32_t seq,
                                          int64_t spent)
{
    return (struct script_lease_order){
        .limit = limit,
        .divisor = 1,
        .n_reports = 1,
        .reports = {{seq, spent}},
    };
}

static struct script_lease_reply order(const uint8_t *host,
                                       struct script_lease_order ordered)
{
    struct script_lease_reply reply;
    struct twin_from from = {host, TTL_MS, {now_us}};
    twin_send_lease(&twin, TWIN_TEST, from, &ordered, 1, keys);
    twin_get_lease(&twin, &ordered, 1, &reply);
    return reply;
}

static struct script_lease_reply lease(const uint8_t *host, const struct limit *limit,
                                       uint32_t seq, int64_t want)
{
    return order(host, wanted(limit, seq, want));
}

static struct script_sync_reply exchange(const uint8_t *host, const struct limit *limit,
                                         uint32_t seq, int64_t delta)
{
    struct script_sync_order ordered = {limit, seq, delta};
    struct script_sync_reply reply;
    struct twin_from from = {host, TTL_MS, {now_us}};
    twin_send_sync(&twin, TWIN_TEST, from, &ordered, 1, keys);
    twin_get_sync(&twin, &ordered, 1, &reply);
    assert_true(reply.now.us == now_us);
    return reply;
}

static struct store_charge take_one(const struct limit *limit, int64_t cost,
                                    bool is_peek)
{
    struct store_take taken = {.now = {now_us}, .n_charges = 1, .is_peek = is_peek};
    taken.charges[0] = (struct store_charge){.limit = limit, .cost = cost};
    twin_send_take(&twin, TWIN_TEST, &taken, keys);
    twin_get_take(&twin, &taken);
    if (is_peek) {
        taken.charges[0].answer = taken.held[0];
    }
    return taken.charges[0];
}

static bool correct(const struct limit *limit, int64_t place, int64_t amount,
                    int64_t truth)
{
    const struct store_settlement settlement = {
        .limit = limit,
        .now = {now_us},
        .correction = {place, amount, truth},
    };
    twin_send_settlement(&twin, TWIN_TEST, &settlement, keys);
    return twin_get_settled(&twin);
}

/* Ends nothing: it is no script. */
static int64_t n_records(int kind)
{
    int64_t state_bytes = kind == LIMIT_FIXED_WINDOW ? 13 : 17;
    int64_t len = redis_server_ask_number(server(), "STRLEN a");
    assert_int_equal(len == 0 ? 0 : (len - state_bytes) % RECORD_BYTES, 0);
    return len == 0 ? 0 : (len - state_bytes) / RECORD_BYTES;
}

/* By a call that leaves all as it is, but for what has ended. */
static int64_t used(const struct limit *limit)
{
    return limit->size - take_one(limit, 0, false).answer.remaining;
}

static void expect_no_repairs(void)
{
    assert_int_equal(twin.repairs.n_values, 0);
    assert_int_equal(twin.repairs.n_ttls, 0);
}

static void a_lease_is_charged_at_once(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        assert_true(take_one(&limit, 10, false).is_charged);
        struct script_lease_reply reply = lease(one, &limit, 1, 40);
        assert_int_equal(reply.grant, 40);
        assert_int_equal(reply.remaining, 50);
        assert_int_equal(reply.out, 40);
        assert_int_equal(reply.accepted, 0);
        struct store_charge charge = take_one(&limit, 1, false);
        assert_int_equal(charge.answer.remaining, 49);
        assert_int_equal(charge.place, reply.place);
        assert_int_equal(n_records(i), 1);
        reply = lease(two, &limit, 1, 40);
        assert_int_equal(reply.grant, 40);
        assert_int_equal(reply.out, 80);
        assert_int_equal(reply.remaining, 9);
        assert_true(reply.reset_us > 0);
        assert_int_equal(n_records(i), 2);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

static void a_report_gives_back_what_was_not_spent(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        (void)lease(one, &limit, 1, 40);
        (void)lease(two, &limit, 1, 20);
        struct script_lease_reply reply = order(one, reported(&limit, 1, 15));
        assert_int_equal(reply.accepted, 1);
        assert_int_equal(reply.grant, 0);
        assert_int_equal(reply.remaining, SIZE - 20 - 15);
        assert_int_equal(reply.out, 20);
        reply = order(two, reported(&limit, 1, 20));
        assert_int_equal(reply.accepted, 1);
        assert_int_equal(reply.out, 0);
        assert_int_equal(used(&limit), 15 + 20);
        assert_int_equal(n_records(i), 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

/* A report, and what is wanted next, in one call: what it gives back can be had again. */
static void a_refill_reports(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        (void)lease(one, &limit, 1, 50);
        (void)lease(one, &limit, 2, 50);
        struct script_lease_order refill = wanted(&limit, 3, SIZE);
        refill.n_reports = 3;
        refill.reports[0] = (struct script_lease_report){9, 50}; /* there is none */
        refill.reports[1] = (struct script_lease_report){1, 20};
        refill.reports[2] = (struct script_lease_report){2, 30};
        struct script_lease_reply reply = order(one, refill);
        assert_int_equal(reply.accepted, 6);
        assert_int_equal(reply.grant, 50);
        assert_int_equal(reply.out, 50);
        assert_int_equal(reply.remaining, 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void by_peek(const struct limit *limit)
{
    assert_int_equal(take_one(limit, 1, true).answer.remaining, SIZE - 7);
}

static void by_settlement(const struct limit *limit)
{
    assert_false(correct(limit, 0, 0, 0));
}

static void by_lease(const struct limit *limit)
{
    struct script_lease_reply reply = lease(two, limit, 1, 1);
    assert_int_equal(reply.remaining, SIZE - 7);
    assert_int_equal(reply.out, 0);
}

static void by_report(const struct limit *limit)
{
    struct script_lease_reply reply = order(one, reported(limit, 1, 40));
    assert_int_equal(reply.accepted, 0);
    assert_int_equal(reply.remaining, SIZE - 7);
}

static void by_exchange(const struct limit *limit)
{
    assert_false(exchange(one, limit, 1, 0).is_charged);
}

/* Whoever opens it first. */
static void a_lease_that_is_not_reported_is_taken_back(void **context)
{
    (void)context;
    static void (*const first[])(const struct limit *limit) = {
        by_peek, by_settlement, by_lease, by_report, by_exchange,
    };
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        for (size_t j = 0; j < ARRAY_LEN(first); j++) {
            now_us = MINUTE_START_US;
            assert_true(take_one(&limit, 7, false).is_charged);
            (void)lease(one, &limit, 1, 40);
            now_us += TTL_US - 1;
            assert_int_equal(used(&limit), 47);
            assert_int_equal(n_records(i), 1);
            now_us++;
            first[j](&limit);
            assert_int_equal(n_records(i), 0);
            assert_int_equal(used(&limit), 7);
            freeReplyObject(redis_server_ask(server(), "DEL a"));
        }
    }
    expect_no_repairs();
}

/* What a refused request finds is written, too. */
static void a_take_takes_back_first(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        (void)lease(one, &limit, 1, SIZE);
        assert_false(take_one(&limit, 1, false).is_charged);
        now_us += TTL_US;
        assert_false(take_one(&limit, SIZE + 1, false).is_charged);
        assert_int_equal(n_records(i), 0);
        (void)lease(one, &limit, 1, SIZE);
        now_us += TTL_US;
        struct store_charge charge = take_one(&limit, SIZE, false);
        assert_true(charge.is_charged);
        assert_int_equal(n_records(i), 0);
        assert_int_equal(used(&limit), SIZE);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

/* What it leaves is kept as long as that needs, not as long as what was peeked for. */
static void a_peek_takes_back_and_no_more(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        (void)lease(one, &limit, 1, 40);
        assert_int_equal(take_one(&limit, 5, true).answer.remaining, SIZE - 40);
        assert_int_equal(n_records(i), 1);
        now_us += TTL_US;
        assert_int_equal(take_one(&limit, 5, true).answer.remaining, SIZE);
        assert_int_equal(n_records(i), 0);
        assert_true(redis_server_ask_number(server(), "PTTL a") <= KEPT_MS);
        assert_int_equal(used(&limit), 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

/* Those that end first are first, whatever the order they came in. */
static void leases_end_one_by_one(void **context)
{
    (void)context;
    static const int64_t ttls_ms[] = {3000, 1000, 2000, 4000, 1000};
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        for (uint32_t j = 0; j < ARRAY_LEN(ttls_ms); j++) {
            struct script_lease_order ordered = wanted(&limit, j, 10 + j);
            struct script_lease_reply reply;
            struct twin_from from = {one, ttls_ms[j], {now_us}};
            twin_send_lease(&twin, TWIN_TEST, from, &ordered, 1, keys);
            twin_get_lease(&twin, &ordered, 1, &reply);
            assert_int_equal(reply.grant, 10 + j);
        }
        static const int64_t left[] = {60, 35, 23, 13, 0};
        for (size_t j = 0; j < ARRAY_LEN(left); j++) {
            assert_int_equal(used(&limit), left[j]);
            now_us += US_PER_S;
        }
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

struct bounds {
    int64_t used;
    int64_t out; /* of it by a lease */
    int64_t want;
    int64_t cap;
    unsigned divisor;
    int64_t grant;
};

static void grant_within(const struct limit *limit, const struct bounds *bounds)
{
    if (bounds->out > 0) {
        assert_int_equal(lease(two, limit, 1, bounds->out).grant, bounds->out);
    }
    (void)take_one(limit, bounds->used - bounds->out, false);
    struct script_lease_order ordered = wanted(limit, 1, bounds->want);
    ordered.cap = bounds->cap;
    ordered.divisor = bounds->divisor;
    struct script_lease_reply reply = order(one, ordered);
    assert_int_equal(reply.grant, bounds->grant);
    assert_int_equal(reply.out, bounds->out + bounds->grant);
    assert_int_equal(reply.remaining, SIZE - bounds->used - bounds->grant);
    assert_true(reply.grant > 0 || reply.place == 0);
    freeReplyObject(redis_server_ask(server(), "DEL a"));
}

static void what_is_granted_is_bounded(void **context)
{
    (void)context;
    static const struct bounds cases[] = {
        {0, 0, 40, SIZE, 1, 40},   {0, 0, 2, SIZE, 1, 2},
        {0, 0, 1, SIZE, 1, 0}, /* not worth it */
        {0, 0, 0, SIZE, 1, 0},     {0, 0, 200, 200, 1, SIZE},
        {98, 0, 40, SIZE, 1, 2},   {99, 0, 40, SIZE, 1, 0},
        {0, 0, 40, 30, 1, 30},     {25, 20, 40, 30, 1, 10},
        {28, 28, 40, 30, 1, 2},    {29, 29, 40, 30, 1, 0},
        {50, 50, 40, 30, 1, 0}, /* a cap that was lowered */
        {0, 0, 40, 0, 1, 0},       {0, 0, 40, SIZE, 3, 33},
        {50, 30, 40, SIZE, 10, 5}, {50, 30, 40, SIZE, 25, 2},
        {50, 30, 40, SIZE, 26, 0}, {0, 0, 40, SIZE, 65535, 0},
    };
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        for (size_t j = 0; j < ARRAY_LEN(cases); j++) {
            grant_within(&limit, &cases[j]);
        }
    }
    expect_no_repairs();
}

static void a_call_that_comes_twice_changes_nothing_more(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        (void)lease(one, &limit, 1, 40);
        struct script_lease_order refill = wanted(&limit, 2, 30);
        refill.n_reports = 1;
        refill.reports[0] = (struct script_lease_report){1, 15};
        struct script_lease_reply first = order(one, refill);
        now_us += 5;
        struct script_lease_reply again = order(one, refill);
        assert_int_equal(first.grant, 30);
        assert_int_equal(again.grant, 30);
        assert_int_equal(again.place, first.place);
        assert_int_equal(first.accepted, 1);
        assert_int_equal(again.accepted, 0);
        assert_int_equal(again.out, 30);
        assert_int_equal(used(&limit), 15 + 30);
        assert_int_equal(n_records(i), 1);
        /* the same number of another host is another lease */
        assert_int_equal(lease(two, &limit, 2, 10).grant, 10);
        assert_int_equal(order(two, reported(&limit, 1, 0)).accepted, 0);
        assert_int_equal(used(&limit), 15 + 30 + 10);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void too_many_leases_are_none(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = make((enum limit_algorithm)i, 1000, 1000, MONTH_US);
        for (uint32_t seq = 0; seq < SCRIPT_RECORDS_MAX; seq++) {
            assert_int_equal(lease(one, &limit, seq, 2).grant, 2);
        }
        struct script_lease_order more = wanted(&limit, 1000, 2);
        assert_int_equal(order(one, more).grant, 0);
        assert_int_equal(lease(one, &limit, 7, 2).grant, 2); /* had before */
        assert_int_equal(used(&limit), 2 * (int64_t)SCRIPT_RECORDS_MAX);
        more.n_reports = 1;
        more.reports[0] = (struct script_lease_report){100, 0};
        struct script_lease_reply reply = order(one, more);
        assert_int_equal(reply.accepted, 1);
        assert_int_equal(reply.grant, 2);
        assert_int_equal(reply.out, 2 * (int64_t)SCRIPT_RECORDS_MAX);
        assert_int_equal(n_records(i), SCRIPT_RECORDS_MAX);
        assert_true(exchange(two, &limit, 1, 5).is_charged);
        assert_true(
            exchange(two, &limit, 1, 5).is_charged); /* there is no memory of it */
        assert_int_equal(used(&limit), 2 * (int64_t)SCRIPT_RECORDS_MAX + 10);
        now_us += TTL_US;
        assert_int_equal(used(&limit), 10);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

/* Of a lease of an hour's bucket nothing has drained; of a second's all has. */
static void what_has_drained_is_not_given_back(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 100, US_PER_S);
    assert_int_equal(lease(one, &limit, 1, 50).grant, 50);
    assert_true(take_one(&limit, 40, false).is_charged);
    now_us += US_PER_S; /* 80 of 90; 40 of the lease */
    assert_int_equal(order(one, reported(&limit, 1, 5)).remaining, 20 + 40);
    assert_int_equal(lease(one, &limit, 2, 20).grant, 20);
    now_us += TTL_US; /* 40 of 60; nothing of the lease */
    assert_int_equal(used(&limit), 40);
}

static void a_window_that_is_over_takes_nothing_back(void **context)
{
    (void)context;
    struct limit minute = fixed(SIZE, MINUTE_US);
    struct limit last = sliding(SIZE, MINUTE_US);
    now_us = MINUTE_START_US + MINUTE_US - US_PER_S;
    (void)lease(one, &minute, 1, 40);
    now_us += 2 * US_PER_S;
    assert_true(take_one(&minute, 3, false).is_charged);
    assert_int_equal(used(&minute), 3);
    freeReplyObject(redis_server_ask(server(), "DEL a"));
    now_us = MINUTE_START_US + MINUTE_US - US_PER_S;
    (void)lease(one, &last, 1, 60);
    now_us += US_PER_S; /* it counts in the window before */
    assert_int_equal(used(&last), 60);
    assert_int_equal(order(one, reported(&last, 1, 20)).remaining, SIZE - 20);
}

/* The key outlives its window where a lease does. */
static void a_key_lives_as_long_as_its_leases(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = make((enum limit_algorithm)i, SIZE, SIZE, 100 * US_PER_MS);
        struct script_lease_order ordered = wanted(&limit, 1, 40);
        struct script_lease_reply reply;
        struct twin_from from = {.host = one, .kept_ms = 30000};
        twin_send_lease(&twin, TWIN_SERVER, from, &ordered, 1, keys);
        twin_get_lease(&twin, &ordered, 1, &reply);
        assert_int_equal(reply.grant, 40);
        int64_t ends_ms = redis_server_ask_number(server(), "PEXPIRETIME a");
        assert_true(redis_server_ask_number(server(), "PTTL a") > 30000);
        struct store_take taken = {.n_charges = 1};
        taken.charges[0] = (struct store_charge){.limit = &limit, .cost = 1};
        twin_send_take(&twin, TWIN_SERVER, &taken, keys);
        twin_get_take(&twin, &taken);
        /* the lease is not longer for it */
        int64_t later_ms = redis_server_ask_number(server(), "PEXPIRETIME a") - ends_ms;
        assert_true(later_ms >= -1 && later_ms <= 1);
        ordered = reported(&limit, 1, 40);
        twin_send_lease(&twin, TWIN_SERVER, from, &ordered, 1, keys);
        twin_get_lease(&twin, &ordered, 1, &reply);
        assert_int_equal(reply.accepted, 1);
        assert_true(redis_server_ask_number(server(), "PTTL a") < 2000);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void a_key_without_a_time_to_live_gets_one(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        (void)lease(one, &limit, 1, SIZE);
        assert_int_equal(redis_server_ask_number(server(), "PERSIST a"), 1);
        assert_int_equal(lease(two, &limit, 1, 40).grant, 0);
        assert_int_equal(twin.repairs.n_ttls, 1);
        assert_int_equal(redis_server_ask_number(server(), "PERSIST a"), 1);
        assert_false(exchange(two, &limit, 1, 0).is_charged);
        assert_int_equal(twin.repairs.n_ttls, 2);
        assert_int_equal(redis_server_ask_number(server(), "PERSIST a"), 1);
        assert_false(take_one(&limit, 1, false).is_charged);
        assert_int_equal(twin.repairs.n_ttls, 3);
        twin.repairs.n_ttls = 0;
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

/* An end in times that are far gone by: of a clock that was put right since. */
static void a_clock_that_is_stepped_back_keeps_no_lease(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US + 100 * MINUTE_US;
        (void)lease(one, &limit, 1, 40);
        (void)lease(one, &limit, 2, 20);
        now_us -= LONGEST_US - TTL_US + 1; /* by little, then by more */
        assert_int_equal(used(&limit), 60);
        now_us += LONGEST_US;
        assert_int_equal(used(&limit), 0);
        (void)lease(one, &limit, 1, 40);
        (void)lease(one, &limit, 2, 20);
        now_us = MINUTE_START_US;
        assert_int_equal(used(&limit), 60);
        now_us += LONGEST_US - 1;
        assert_int_equal(used(&limit), 60);
        now_us++;
        assert_int_equal(used(&limit), 0);
        assert_int_equal(n_records(i), 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

static void set(const char *state, size_t state_bytes, size_t n_bytes, int filler)
{
    char text[17 + 257 * RECORD_BYTES];
    memcpy(text, state, state_bytes);
    memset(text + state_bytes, filler, n_bytes);
    freeReplyObject(
        redis_server_ask(server(), "SET a %b", text, state_bytes + n_bytes));
}

static void records_are_not_trusted(void **context)
{
    (void)context;
    static const char states[KINDS][17] = {"s\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0",
                                           "b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                                           "f\0\0\0\5\0\0\0\0\0\0\0\0"};
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        size_t n = i == LIMIT_FIXED_WINDOW ? 13 : 17;
        static const size_t no_records[] = {1, 31, 33, 257 * (size_t)RECORD_BYTES};
        for (size_t j = 0; j < ARRAY_LEN(no_records); j++) {
            set(states[i], n, no_records[j], 0xff);
            assert_int_equal(lease(one, &limit, 1, 40).grant, 40);
            assert_int_equal(twin.repairs.n_values, 1);
            assert_int_equal(n_records(i), 1);
            twin.repairs.n_values = 0;
            set(states[i], n, no_records[j], 0);
            assert_true(exchange(one, &limit, 1, 40).is_charged);
            assert_int_equal(twin.repairs.n_values, 1);
            twin.repairs.n_values = 0;
        }
        /* no state before sound records */
        set("s\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", n,
            RECORD_BYTES, 0);
        assert_int_equal(lease(one, &limit, 1, 40).grant, 40);
        assert_int_equal(twin.repairs.n_values, 1);
        twin.repairs.n_values = 0;
        /* the largest numbers there are: no more than may be */
        set(states[i], n, 256 * (size_t)RECORD_BYTES, 0xff);
        struct script_lease_reply reply = lease(one, &limit, 1, 40);
        assert_int_equal(reply.grant, 0);
        assert_true(reply.out == 256 * LIMIT_AMOUNT_MAX);
        static const uint8_t its[SCRIPT_HOST_BYTES] = {255, 255, 255, 255,
                                                       255, 255, 255, 255};
        reply = lease(its, &limit, UINT32_MAX, LIMIT_AMOUNT_MAX);
        assert_true(reply.grant == LIMIT_AMOUNT_MAX);
        assert_true(take_one(&limit, 1, false).is_charged);
        now_us += LONGEST_US;
        assert_in_range(used(&limit), 0, 1);
        assert_int_equal(n_records(i), 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

/* The bytes of a host and its number may stand anywhere. */
static void a_lease_is_found_where_records_begin(void **context)
{
    (void)context;
    struct limit limit = limit_of(LIMIT_FIXED_WINDOW);
    static const uint8_t like_an_amount[SCRIPT_HOST_BYTES] = {0, 0, 0, 40};
    struct script_lease_reply reply = lease(one, &limit, 1, 40);
    uint32_t like_a_place = (uint32_t)reply.place;
    assert_int_equal(order(like_an_amount, reported(&limit, like_a_place, 0)).accepted,
                     0);
    assert_int_equal(lease(like_an_amount, &limit, like_a_place, 30).grant, 30);
    assert_int_equal(order(like_an_amount, reported(&limit, like_a_place, 0)).accepted,
                     1);
    assert_int_equal(used(&limit), 40);
}

static void a_report_alone_wants_nothing(void **context)
{
    (void)context;
    struct limit limit = limit_of(0);
    assert_int_equal(lease(one, &limit, 0, 40).grant, 40);
    struct script_lease_reply reply = order(one, reported(&limit, 1, 0));
    assert_int_equal(reply.grant, 0);
    assert_int_equal(reply.out, 40);
}

/* Two counters of one call, each with its own orders. */
static void a_call_has_many_counters(void **context)
{
    (void)context;
    const struct limit limits[] = {limit_of(0), limit_of(1), limit_of(2)};
    struct script_lease_order orders[3];
    struct script_lease_reply replies[3];
    struct twin_from from = {one, TTL_MS, {now_us}};
    for (uint32_t i = 0; i < 3; i++) {
        orders[i] = wanted(&limits[i], 10 + i, INT64_C(10) * (i + 1));
    }
    twin_send_lease(&twin, TWIN_TEST, from, orders, 3, keys);
    twin_get_lease(&twin, orders, 3, replies);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(replies[i].grant, orders[i].want);
        orders[i] = reported(&limits[i], 10 + i, i);
    }
    orders[1].n_reports = 0;
    twin_send_lease(&twin, TWIN_TEST, from, orders, 3, keys);
    twin_get_lease(&twin, orders, 3, replies);
    static const int64_t remaining[] = {SIZE, SIZE - 20, SIZE - 2};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(replies[i].accepted, i != 1);
        assert_int_equal(replies[i].remaining, remaining[i]);
    }
    struct script_sync_order exchanges[3];
    struct script_sync_reply states[3];
    for (uint32_t i = 0; i < 3; i++) {
        exchanges[i] = (struct script_sync_order){&limits[i], 1, i};
    }
    twin_send_sync(&twin, TWIN_TEST, from, exchanges, 3, keys);
    twin_get_sync(&twin, exchanges, 3, states);
    assert_false(states[0].is_charged);
    assert_true(states[1].is_charged && states[2].is_charged);
    assert_int_equal(states[1].state.bucket.level, 21 * limits[1].per_ticks);
    assert_int_equal(states[2].state.fixed.count, 4);
}

static int64_t used_of(const struct limit *limit, const struct limit_state *state)
{
    struct limit_state copy = *state;
    struct limit_answer answer;
    struct instant now = {now_us};
    (void)limit_take(limit, &copy, now, 0, &answer);
    return limit->size - answer.remaining;
}

static void an_exchange_is_charged_once(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        struct script_sync_reply reply = exchange(one, &limit, 5, 10);
        assert_true(reply.is_charged);
        assert_int_equal(used_of(&limit, &reply.state), 10);
        now_us++;
        reply = exchange(one, &limit, 5, 10); /* it comes again */
        assert_false(reply.is_charged);
        assert_int_equal(used_of(&limit, &reply.state), 10);
        assert_true(exchange(two, &limit, 5, 7).is_charged);
        assert_true(exchange(one, &limit, 6, 3).is_charged);
        assert_false(exchange(one, &limit, 5, 10).is_charged); /* overtaken */
        assert_false(exchange(one, &limit, 6, 3).is_charged);
        reply = exchange(one, &limit, 7, 0); /* who only asks */
        assert_false(reply.is_charged);
        assert_int_equal(used_of(&limit, &reply.state), 20);
        assert_int_equal(n_records(i), 2);
        assert_true(exchange(one, &limit, 7, 1).is_charged);
        assert_int_equal(used(&limit), 21);
        assert_int_equal(n_records(i), 2);
        now_us += TTL_US; /* their records end, and take nothing back */
        assert_int_equal(used(&limit), 21);
        assert_int_equal(n_records(i), 0);
        assert_true(exchange(one, &limit, 5, 2).is_charged);
        assert_int_equal(used(&limit), 23);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

/* As of a client whose plan changes: its numbers under one are not those under the other. */
static void exchanges_by_another_limit_are_apart(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        struct limit plan = make((enum limit_algorithm)i, 2 * SIZE, 2 * SIZE, MONTH_US);
        assert_true(exchange(one, &plan, 6, 10).is_charged);
        assert_true(exchange(one, &limit, 5, 1).is_charged);
        assert_true(exchange(one, &limit, 7, 1).is_charged);
        assert_false(exchange(one, &plan, 6, 10).is_charged);
        assert_false(exchange(one, &limit, 6, 1).is_charged);
        assert_int_equal(n_records(i), 2);
        plan.size++;
        assert_true(exchange(one, &plan, 6, 3).is_charged);
        plan.requests++;
        assert_true(exchange(one, &plan, 6, 5).is_charged);
        assert_int_equal(n_records(i), 4);
        assert_int_equal(used(&limit), 20);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

/* As where each answer is too late for its host. */
static void an_exchange_that_comes_again_is_kept_longer(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        assert_true(exchange(one, &limit, 5, 10).is_charged);
        for (int n = 0; n < 3; n++) {
            now_us += TTL_US - 1;
            assert_false(exchange(one, &limit, 5, 10).is_charged);
        }
        assert_int_equal(n_records(i), 1);
        now_us += TTL_US;
        assert_true(exchange(one, &limit, 5, 10).is_charged);
        assert_int_equal(used(&limit), 20);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_no_repairs();
}

static void numbers_of_exchanges_go_round(void **context)
{
    (void)context;
    struct limit limit = limit_of(0);
    assert_true(exchange(one, &limit, UINT32_MAX, 1).is_charged);
    assert_true(exchange(one, &limit, 0, 1).is_charged);
    assert_false(exchange(one, &limit, UINT32_MAX, 1).is_charged);
    assert_true(exchange(one, &limit, 0x7fffffff, 1).is_charged);
    assert_false(exchange(one, &limit, 0, 1).is_charged);
    assert_false(exchange(one, &limit, UINT32_MAX, 1).is_charged); /* half way round */
    assert_true(exchange(one, &limit, 0xfffffffe, 1).is_charged);
}

/* What hosts spent is spent; twice the size at most, as where charges are settled. */
static void an_exchange_is_never_refused(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        assert_true(take_one(&limit, SIZE, false).is_charged);
        assert_true(exchange(one, &limit, 1, 30).is_charged);
        struct script_sync_reply reply = exchange(two, &limit, 1, 50);
        assert_int_equal(used_of(&limit, &reply.state), SIZE);
        limit.size = 3 * SIZE; /* so that the debt is seen */
        limit.requests = i == LIMIT_TOKEN_BUCKET ? limit.requests : 3 * SIZE;
        assert_int_equal(used(&limit), SIZE + 80);
        limit.size = SIZE;
        limit.requests = SIZE;
        assert_true(exchange(two, &limit, 2, LIMIT_AMOUNT_MAX).is_charged);
        assert_true(exchange(two, &limit, 3, 5).is_charged); /* there is no room */
        limit.size = 3 * SIZE;
        limit.requests = i == LIMIT_TOKEN_BUCKET ? limit.requests : 3 * SIZE;
        assert_int_equal(used(&limit), 2 * SIZE);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

/* A counter may have both, while a rule changes from one to the other. */
static void a_lease_and_an_exchange_of_one_number(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        assert_true(exchange(one, &limit, 7, 10).is_charged);
        assert_int_equal(lease(one, &limit, 7, 20).grant, 20);
        assert_false(exchange(one, &limit, 7, 10).is_charged);
        assert_true(exchange(one, &limit, 8, 1).is_charged);
        assert_int_equal(n_records(i), 2);
        struct script_lease_reply reply = order(one, reported(&limit, 8, 0));
        assert_int_equal(reply.accepted, 0);
        assert_int_equal(reply.out, 20);
        assert_int_equal(order(one, reported(&limit, 7, 5)).accepted, 1);
        assert_int_equal(n_records(i), 1);
        assert_int_equal(used(&limit), 16);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void who_only_asks_leaves_nothing(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        assert_int_equal(lease(one, &limit, 1, 0).remaining, SIZE);
        assert_int_equal(lease(one, &limit, 1, 1).remaining, SIZE);
        assert_int_equal(order(one, reported(&limit, 1, 5)).accepted, 0);
        assert_false(exchange(one, &limit, 1, 0).is_charged);
        struct limit nothing = limit;
        nothing.requests = 0;
        nothing.size = 0;
        assert_int_equal(lease(one, &nothing, 1, 10).grant, 0);
        assert_int_equal(redis_server_ask_number(server(), "DBSIZE"), 0);
    }
}

static void commands_are_those_that_are_listed(void **context)
{
    (void)context;
    freeReplyObject(redis_server_ask(
        server(), "ACL SETUSER agent on >secret ~a resetchannels -@all +evalsha +time "
                  "+mget +set +pttl +pexpire +del"));
    freeReplyObject(redis_server_ask(server(), "AUTH agent secret"));
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of(i);
        now_us = MINUTE_START_US;
        assert_int_equal(lease(one, &limit, 1, SIZE).grant, SIZE);
        assert_int_equal(lease(two, &limit, 1, SIZE).grant, 0);
        assert_int_equal(order(one, reported(&limit, 1, 0)).accepted, 1);
        assert_true(exchange(one, &limit, 1, SIZE).is_charged);
        assert_false(exchange(one, &limit, 1, SIZE).is_charged);
    }
    twin.repairs = (struct script_repairs){0};
    redisFree(server()->context);
    server()->context = redisConnectUnix(server()->socket);
    assert_int_equal(server()->context->err, 0);
}

static int start(void **context)
{
    (void)context;
    twin_start(&twin);
    return 0;
}

static int flush(void **context)
{
    (void)context;
    now_us = MINUTE_START_US;
    freeReplyObject(redis_server_ask(server(), "FLUSHALL"));
    return 0;
}

static int stop(void **context)
{
    (void)context;
    twin_stop(&twin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lease_is_charged_at_once, flush),
        cmocka_unit_test_setup(a_report_gives_back_what_was_not_spent, flush),
        cmocka_unit_test_setup(a_refill_reports, flush),
        cmocka_unit_test_setup(a_lease_that_is_not_reported_is_taken_back, flush),
        cmocka_unit_test_setup(a_take_takes_back_first, flush),
        cmocka_unit_test_setup(a_peek_takes_back_and_no_more, flush),
        cmocka_unit_test_setup(a_lease_is_found_where_records_begin, flush),
        cmocka_unit_test_setup(a_report_alone_wants_nothing, flush),
        cmocka_unit_test_setup(leases_end_one_by_one, flush),
        cmocka_unit_test_setup(what_is_granted_is_bounded, flush),
        cmocka_unit_test_setup(a_call_that_comes_twice_changes_nothing_more, flush),
        cmocka_unit_test_setup(too_many_leases_are_none, flush),
        cmocka_unit_test_setup(what_has_drained_is_not_given_back, flush),
        cmocka_unit_test_setup(a_window_that_is_over_takes_nothing_back, flush),
        cmocka_unit_test_setup(a_key_lives_as_long_as_its_leases, flush),
        cmocka_unit_test_setup(a_key_without_a_time_to_live_gets_one, flush),
        cmocka_unit_test_setup(a_clock_that_is_stepped_back_keeps_no_lease, flush),
        cmocka_unit_test_setup(records_are_not_trusted, flush),
        cmocka_unit_test_setup(a_call_has_many_counters, flush),
        cmocka_unit_test_setup(an_exchange_is_charged_once, flush),
        cmocka_unit_test_setup(exchanges_by_another_limit_are_apart, flush),
        cmocka_unit_test_setup(an_exchange_that_comes_again_is_kept_longer, flush),
        cmocka_unit_test_setup(numbers_of_exchanges_go_round, flush),
        cmocka_unit_test_setup(an_exchange_is_never_refused, flush),
        cmocka_unit_test_setup(a_lease_and_an_exchange_of_one_number, flush),
        cmocka_unit_test_setup(who_only_asks_leaves_nothing, flush),
        cmocka_unit_test_setup(commands_are_those_that_are_listed, flush),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
