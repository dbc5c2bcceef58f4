/* Arguments and replies of lease and sync, byte by byte and number by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/script.h"

#include "tests/support/limit.h"

#define NOW_US MINUTE_START_US

static const struct instant now = {NOW_US};
static const uint8_t host[SCRIPT_HOST_BYTES] = {1, 2, 3, 4, 5, 6, 7, 255};

static struct limit minute;
static struct limit burst;
static struct limit window;

/* One that wants and reports two, one that only reports. */
static const struct script_lease_order *two_leases(void)
{
    static const struct script_lease_order orders[] = {
        {
            .limit = &minute,
            .want = 258,
            .cap = 1000,
            .divisor = 3,
            .new_seq = 0x01020304,
            .n_reports = 2,
            .reports = {{7, 5}, {0xffffffff, 0}},
        },
        {.limit = &burst, .divisor = 65535, .n_reports = 1, .reports = {{8, 9}}},
    };
    return orders;
}

static void leases_in_bytes(void **context)
{
    (void)context;
    static const uint8_t want[] = {
        1, 2,   3, 4, 5, 6,   7, 255, 0,   0,   7,   208, /* host, ttl */
        0, 0,   0, 0, 3, 232, 0, 0,   3,   232, 0,   9,   39, 192, 0, 0,
        0, 100, 0, 0, 0, 0,           /* limit */
        0, 0,   1, 2, 0, 0,   3, 232, /* want, cap */
        0, 3,   1, 2, 3, 4,   2,      /* divisor, seq, reports */
        0, 0,   0, 7, 0, 0,   0, 5,   255, 255, 255, 255, 0,  0,   0, 0, /* reports */
        1, 0,   0, 0, 0, 10,  0, 0,   0,   20,  0,   9,   39, 192, 0, 0,
        0, 100, 0, 0, 0, 0, /* the other limit */
        0, 0,   0, 0, 0, 0,   0, 0,   255, 255, 0,   0,   0,  0,   1, 0,
        0, 0,   8, 0, 0, 0,   9,
    };
    uint8_t got[SCRIPT_LEASE_BYTES_MAX];
    assert_int_equal(script_encode_lease(host, 2000, now, two_leases(), 2, got),
                     sizeof(want));
    assert_memory_equal(got, want, sizeof(want));
}

static void exchanges_in_bytes(void **context)
{
    (void)context;
    static const uint8_t want[] = {
        1,  2,   3, 4, 5, 6,   7, 255, 0, 0,   234, 96, /* host, keep */
        0,  0,   0, 0, 3, 232, 0, 0,   3, 232, 0,   9,
        39, 192, 0, 0, 0, 100, 0, 0,   0, 0, /* limit */
        0,  1,   0, 1, 0, 0,   0, 9,         /* seq, delta */
    };
    const struct script_sync_order order = {&minute, 0x10001, 9};
    uint8_t got[SCRIPT_SYNC_BYTES_MAX];
    assert_int_equal(script_encode_sync(host, 60000, now, &order, 1, got),
                     sizeof(want));
    assert_memory_equal(got, want, sizeof(want));
}

static void the_largest_calls_fit(void **context)
{
    (void)context;
    static struct calendar calendar;
    static struct script_lease_order leases[SCRIPT_LEASE_KEYS_MAX];
    static struct script_sync_order exchanges[SCRIPT_SYNC_KEYS_MAX];
    struct limit day = window;
    day.calendar = &calendar;
    for (unsigned i = 0; i < SCRIPT_LEASE_KEYS_MAX; i++) {
        leases[i] = (struct script_lease_order){
            .limit = &day,
            .want = LIMIT_AMOUNT_MAX,
            .cap = LIMIT_AMOUNT_MAX,
            .divisor = 1,
            .n_reports = SCRIPT_LEASE_REPORTS_MAX,
        };
        exchanges[i] = (struct script_sync_order){&day, UINT32_MAX, LIMIT_AMOUNT_MAX};
    }
    uint8_t got[SCRIPT_LEASE_BYTES_MAX];
    assert_int_equal(script_encode_lease(host, 1, now, leases, SCRIPT_LEASE_KEYS_MAX,
                                         got),
                     SCRIPT_LEASE_BYTES_MAX);
    assert_int_equal(script_encode_sync(host, 1, now, exchanges, SCRIPT_SYNC_KEYS_MAX,
                                        got),
                     SCRIPT_SYNC_BYTES_MAX);
}

static void only_states_of_a_fixed_size_are_leased(void **context)
{
    (void)context;
    struct limit queue = leaky(10, MINUTE_US, US_PER_S);
    struct limit log = make(LIMIT_SLIDING_LOG, 10, 10, MINUTE_US);
    assert_true(script_may_lease(&minute) && script_may_lease(&burst)
                && script_may_lease(&window));
    assert_false(script_may_lease(&queue) || script_may_lease(&log));
}

/* Granted 60, one of two reports accepted; the other has none. */
static const int64_t good_leases[2 * SCRIPT_LEASE_NUMBERS] = {
    0, 60, 30000000, 940, 100000000, 40000000, 960, 2, 4, 0, 0, 20, 0, 0, 0, 0,
};

static enum script_status decode_leases(const int64_t *numbers, size_t n,
                                        struct script_lease_reply *replies)
{
    struct script_repairs repairs = {0};
    enum script_status status = script_decode_lease(numbers, n, two_leases(), 2,
                                                    replies, &repairs);
    assert_int_equal(repairs.n_values, status == SCRIPT_OK);
    return status;
}

static void a_reply_to_leases(void **context)
{
    (void)context;
    struct script_lease_reply replies[2];
    assert_int_equal(decode_leases(good_leases, ARRAY_LEN(good_leases), replies),
                     SCRIPT_OK);
    assert_int_equal(replies[0].grant, 60);
    assert_int_equal(replies[0].place, 30000000);
    assert_int_equal(replies[0].remaining, 940);
    assert_int_equal(replies[0].reset_us, 100000000);
    assert_int_equal(replies[0].window_end_us, 40000000);
    assert_int_equal(replies[0].out, 960);
    assert_int_equal(replies[0].accepted, 2);
    assert_int_equal(replies[1].grant, 0);
    assert_int_equal(replies[1].remaining, 20);
    int64_t numbers[ARRAY_LEN(good_leases)];
    memcpy(numbers, good_leases, sizeof(numbers));
    numbers[4] = -1;
    assert_int_equal(decode_leases(numbers, ARRAY_LEN(numbers), replies), SCRIPT_OK);
    assert_true(replies[0].reset_us == LIMIT_NEVER);
}

static void leases_that_no_script_grants_are_refused(void **context)
{
    (void)context;
    static const struct {
        unsigned idx;
        int64_t number;
    } cases[] = {
        {0, 1},
        {0, 2},
        {0, 16},
        {0, -1}, /* flags */
        {1, -1},
        {1, 1},
        {1, 259},
        {1, INT64_MAX}, /* grant */
        {1, 0},         /* a place, and no grant */
        {2, -1},
        {2, INT64_C(1) << 53}, /* place */
        {3, -1},
        {3, 1001}, /* remaining */
        {4, -2},
        {4, INT64_C(1) << 53}, /* reset */
        {5, -1},
        {5, INT64_MAX}, /* window_end */
        {6, -1},
        {6, 59},
        {6, 256 * LIMIT_AMOUNT_MAX + 1}, /* out */
        {7, -1},
        {7, 4}, /* accepted */
        {9, 2}, /* not wanted */
        {10, 1},
        {15, 2},
    };
    struct script_lease_reply replies[2];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t numbers[ARRAY_LEN(good_leases)];
        memcpy(numbers, good_leases, sizeof(numbers));
        numbers[cases[i].idx] = cases[i].number;
        assert_int_equal(decode_leases(numbers, ARRAY_LEN(numbers), replies),
                         SCRIPT_BAD_NUMBER);
    }
    size_t n = ARRAY_LEN(good_leases);
    assert_int_equal(decode_leases(good_leases, n - 1, replies), SCRIPT_BAD_LENGTH);
    assert_int_equal(decode_leases(good_leases, n / 2, replies), SCRIPT_BAD_LENGTH);
    assert_int_equal(decode_leases(good_leases, 0, replies), SCRIPT_BAD_LENGTH);
}

static void the_least_and_the_most_of_a_lease(void **context)
{
    (void)context;
    static const struct {
        unsigned idx;
        int64_t number;
    } cases[] = {
        {1, 2},    {1, 258},
        {2, 0},    {2, (INT64_C(1) << 53) - 1},
        {3, 0},    {3, 1000},
        {4, 0},    {4, (INT64_C(1) << 53) - 1},
        {5, 0},    {5, (INT64_C(1) << 53) - 1},
        {6, 60},   {6, 256 * LIMIT_AMOUNT_MAX},
        {6, 1001}, /* of another host's cap */
        {7, 0},    {7, 3},
        {15, 1},
    };
    struct script_lease_reply replies[2];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t numbers[ARRAY_LEN(good_leases)];
        memcpy(numbers, good_leases, sizeof(numbers));
        numbers[cases[i].idx] = cases[i].number;
        assert_int_equal(decode_leases(numbers, ARRAY_LEN(numbers), replies),
                         SCRIPT_OK);
    }
}

static const struct script_sync_order *three_exchanges(void)
{
    static const struct script_sync_order orders[] = {
        {&minute, 1, 5},
        {&burst, 1, 5},
        {&window, 1, 0},
    };
    return orders;
}

#define MINUTE_NUMBER (NOW_US / MINUTE_US)
#define TICK_NUMBER   (NOW_US / 100)

static const int64_t good_exchanges[1 + 3 * SCRIPT_SYNC_NUMBERS] = {
    NOW_US,
    2,
    7,
    2 * LIMIT_AMOUNT_MAX,
    MINUTE_NUMBER,
    6,
    2000000000 * INT64_C(1000000),
    TICK_NUMBER,
    0,
    8,
    9,
    MINUTE_NUMBER,
    0,
};

static enum script_status decode_exchanges(const int64_t *numbers, size_t n,
                                           struct script_sync_reply *replies)
{
    struct script_repairs repairs = {0};
    enum script_status status = script_decode_sync(numbers, n, three_exchanges(), 3,
                                                   replies, &repairs);
    assert_int_equal(repairs.n_values, status == SCRIPT_OK);
    assert_int_equal(repairs.n_ttls, status == SCRIPT_OK);
    for (int i = 0; status == SCRIPT_OK && i < 3; i++) {
        assert_int_equal(replies[i].now.us, numbers[0]);
    }
    return status;
}

static void a_reply_to_exchanges(void **context)
{
    (void)context;
    struct script_sync_reply replies[3];
    assert_int_equal(decode_exchanges(good_exchanges, ARRAY_LEN(good_exchanges),
                                      replies),
                     SCRIPT_OK);
    assert_true(replies[0].is_charged && replies[1].is_charged
                && !replies[2].is_charged);
    assert_int_equal(replies[0].state.sliding.prev, 7);
    assert_int_equal(replies[0].state.sliding.curr, 2 * LIMIT_AMOUNT_MAX);
    assert_int_equal(replies[0].state.sliding.window, MINUTE_NUMBER);
    assert_int_equal(replies[1].state.bucket.level, 2000000000 * INT64_C(1000000));
    assert_int_equal(replies[1].state.bucket.at_ticks, TICK_NUMBER);
    assert_int_equal(replies[2].state.fixed.count, 9);
    assert_int_equal(replies[2].state.fixed.window, MINUTE_NUMBER);
    assert_int_equal(replies[2].state.fixed.zero, 0);
}

static void exchanges_that_no_script_answers_are_refused(void **context)
{
    (void)context;
    static const int64_t too_many = 2 * LIMIT_AMOUNT_MAX + 1;
    static const struct {
        unsigned idx;
        int64_t number;
    } cases[] = {
        {0, 0},
        {0, -1},
        {0, INT64_C(1) << 53}, /* now */
        {0, NOW_US - 1000001}, /* and stamps too far ahead of it */
        {1, 1},
        {1, 16},
        {1, -1}, /* flags */
        {2, -1},
        {2, too_many},
        {2, INT64_MAX}, /* prev */
        {3, -1},
        {3, too_many}, /* curr */
        {4, -1},
        {4, MINUTE_NUMBER + 1}, /* window */
        {6, -1},
        {6, 2000000000 * INT64_C(1000000) + 1}, /* level */
        {7, -1},
        {7, TICK_NUMBER + 10001}, /* at */
        {8, 1},                   /* nothing */
        {9, 10},                  /* no delta, yet charged */
        {10, -1},
        {10, too_many}, /* count */
        {11, -1},
        {11, MINUTE_NUMBER + 1}, /* window */
        {12, 1},                 /* nothing */
    };
    struct script_sync_reply replies[3];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t numbers[ARRAY_LEN(good_exchanges)];
        memcpy(numbers, good_exchanges, sizeof(numbers));
        numbers[cases[i].idx] = cases[i].number;
        assert_int_equal(decode_exchanges(numbers, ARRAY_LEN(numbers), replies),
                         SCRIPT_BAD_NUMBER);
    }
    size_t n = ARRAY_LEN(good_exchanges);
    assert_int_equal(decode_exchanges(good_exchanges, n - 1, replies),
                     SCRIPT_BAD_LENGTH);
    assert_int_equal(decode_exchanges(good_exchanges, n - SCRIPT_SYNC_NUMBERS, replies),
                     SCRIPT_BAD_LENGTH);
    assert_int_equal(decode_exchanges(good_exchanges, 0, replies), SCRIPT_BAD_LENGTH);
}

static void the_least_and_the_most_of_an_exchange(void **context)
{
    (void)context;
    int64_t numbers[ARRAY_LEN(good_exchanges)] = {1, [5] = 4, [9] = 8};
    struct script_sync_reply replies[3];
    assert_int_equal(decode_exchanges(numbers, ARRAY_LEN(numbers), replies), SCRIPT_OK);
    numbers[0] = 0;
    assert_int_equal(decode_exchanges(numbers, ARRAY_LEN(numbers), replies),
                     SCRIPT_BAD_NUMBER);
    numbers[0] = (INT64_C(1) << 53) - 1;
    numbers[2] = numbers[3] = numbers[10] = 2 * LIMIT_AMOUNT_MAX;
    numbers[4] = numbers[11] = (numbers[0] + US_PER_S) / MINUTE_US;
    numbers[7] = (numbers[0] + US_PER_S) / 100;
    assert_int_equal(decode_exchanges(numbers, ARRAY_LEN(numbers), replies), SCRIPT_OK);
}

/* Where clocks differ, by up to a second, a window may be one that is not yet. */
static void the_next_window_just_before_it_begins(void **context)
{
    (void)context;
    int64_t numbers[ARRAY_LEN(good_exchanges)];
    struct script_sync_reply replies[3];
    memcpy(numbers, good_exchanges, sizeof(numbers));
    numbers[0] = NOW_US - 1000000;
    assert_int_equal(decode_exchanges(numbers, ARRAY_LEN(numbers), replies), SCRIPT_OK);
}

/* Where windows begin is what hosts say, whose clocks may be far before the server's. */
static void a_calendar_has_its_own_windows(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit day = window;
    day.calendar = &calendar;
    const struct script_sync_order order = {&day, 1, 1};
    struct script_repairs repairs = {0};
    struct script_sync_reply reply;
    int64_t numbers[] = {NOW_US, 2, 1, NOW_US / US_PER_S + 3600, 0};
    assert_int_equal(script_decode_sync(numbers, 5, &order, 1, &reply, &repairs),
                     SCRIPT_OK);
    assert_int_equal(reply.state.fixed.window, NOW_US / US_PER_S + 3600);
    numbers[3] = (INT64_C(1) << 53) - 1;
    assert_int_equal(script_decode_sync(numbers, 5, &order, 1, &reply, &repairs),
                     SCRIPT_OK);
    numbers[3]++;
    assert_int_equal(script_decode_sync(numbers, 5, &order, 1, &reply, &repairs),
                     SCRIPT_BAD_NUMBER);
}

static int make_limits(void **context)
{
    (void)context;
    minute = sliding(1000, MINUTE_US);
    burst = bucket(10, 20, MINUTE_US);
    window = fixed(1000, MINUTE_US);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_in_bytes),
        cmocka_unit_test(exchanges_in_bytes),
        cmocka_unit_test(the_largest_calls_fit),
        cmocka_unit_test(only_states_of_a_fixed_size_are_leased),
        cmocka_unit_test(a_reply_to_leases),
        cmocka_unit_test(leases_that_no_script_grants_are_refused),
        cmocka_unit_test(the_least_and_the_most_of_a_lease),
        cmocka_unit_test(a_reply_to_exchanges),
        cmocka_unit_test(exchanges_that_no_script_answers_are_refused),
        cmocka_unit_test(the_least_and_the_most_of_an_exchange),
        cmocka_unit_test(the_next_window_just_before_it_begins),
        cmocka_unit_test(a_calendar_has_its_own_windows),
    };
    return cmocka_run_group_tests(tests, make_limits, NULL);
}
