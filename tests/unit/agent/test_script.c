/* Arguments and replies of the scripts, byte by byte and number by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/script.h"

static const struct limit window = {
    .algorithm = LIMIT_SLIDING_WINDOW,
    .requests = 60,
    .size = 60,
    .per_ticks = 600000,
    .tick_us = 100,
};

static const struct limit queue = {
    .algorithm = LIMIT_LEAKY_BUCKET,
    .requests = 1000000000,
    .size = 500000001,
    .per_ticks = 1000000,
    .tick_us = 1,
    .max_delay_ticks = 500000,
};

static struct store_take two_charges(void)
{
    struct store_take take = {.n_charges = 2};
    take.charges[0] = (struct store_charge){.limit = &window, .cost = 258};
    take.charges[1] = (struct store_charge){.limit = &queue,
                                            .cost = 1,
                                            .is_lenient = true,
                                            .tie = 3};
    return take;
}

static void a_take_in_bytes(void **context)
{
    (void)context;
    static const uint8_t
        want[] =
            {
                0, /* no peek */
                0, 0, 0,  0,   0,   60, 0,   0,   0,   60, 0, 9,  39, 192,
                0, 0, 0,  100,                       /* limit */
                0, 0, 0,  0,   0,   0,  0,   1,   2, /* tie, cost */
                3, 1, 59, 154, 202, 0,  29,  205, 101, 1,  0, 15, 66, 64,
                0, 0, 0,  1,   0,   7,  161, 32,  3,   0,  0, 0,  1,
            };
    uint8_t got[SCRIPT_TAKE_BYTES_MAX];
    struct store_take take = two_charges();
    assert_int_equal(script_encode_take(&take, got), sizeof(want));
    assert_memory_equal(got, want, sizeof(want));
    take.is_peek = true;
    assert_int_equal(script_encode_take(&take, got), sizeof(want));
    assert_int_equal(got[0], 1);
    assert_memory_equal(got + 1, want + 1, sizeof(want) - 1);
}

static void a_settlement_in_bytes(void **context)
{
    (void)context;
    static const uint8_t want[] = {
        0, 0, 0, 0, 0, 60, 0, 0, 0,   60,  0,   9, 39, 192, 0,  0, 0, 100, 0,
        0, 0, 0, 0, 0, 0,  0, 1, 201, 195, 128, 0, 0,  0,   20, 0, 0, 1,   0,
    };
    uint8_t got[SCRIPT_SETTLEMENT_BYTES_MAX];
    const struct store_settlement settlement = {
        .limit = &window,
        .correction = {.place = 30000000, .amount = 20, .truth = 256},
    };
    assert_int_equal(script_encode_settlement(&settlement, got), sizeof(want));
    assert_memory_equal(got, want, sizeof(want));
}

/* The window that now is in and the next two; near the end of what is known the last. */
static void starts_of_a_calendar(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct calendar_start starts[CALENDAR_STARTS];
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        starts[i].number = 1800000000 + i * 86400;
        starts[i].us = starts[i].number * US_PER_S + 5; /* another clock */
    }
    calendar_fill(&calendar, starts);
    static const struct {
        int64_t day;
        int first;
    } cases[] = {{-1, 0},  {0, 0},   {1, 1},   {60, 60},
                 {61, 61}, {62, 61}, {63, 61}, {99, 61}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t numbers[CALENDAR_UPCOMING];
        struct instant now = {.us = (1800000000 + cases[i].day * 86400) * US_PER_S + 5};
        calendar_upcoming(&calendar, now, numbers);
        for (int j = 0; j < CALENDAR_UPCOMING; j++) {
            assert_int_equal(numbers[j], starts[cases[i].first + j].number);
        }
    }
    struct limit limit = window;
    limit.algorithm = LIMIT_FIXED_WINDOW;
    limit.calendar = &calendar;
    struct store_take take = {.now = {.us = starts[1].us}, .n_charges = 1};
    take.charges[0] = (struct store_charge){.limit = &limit, .cost = 1};
    uint8_t got[SCRIPT_TAKE_BYTES_MAX];
    assert_int_equal(script_encode_take(&take, got), 1 + SCRIPT_LIMIT_BYTES_MAX + 5);
    assert_int_equal(got[2], 128);
    static const uint8_t want[] = {0,  0,   0, 0, 107, 75, 35, 128, 0,  0,   0,  0, 107,
                                   76, 117, 0, 0, 0,   0,  0,  107, 77, 198, 128};
    assert_memory_equal(got + 1 + 22, want, sizeof(want));
}

static void the_largest_take_fits(void **context)
{
    (void)context;
    static struct calendar calendar;
    struct limit limit = window;
    limit.calendar = &calendar;
    struct store_take take = {.n_charges = STORE_CHARGES_MAX};
    for (unsigned i = 0; i < STORE_CHARGES_MAX; i++) {
        take.charges[i] = (struct store_charge){.limit = &limit, .cost = 1};
    }
    uint8_t got[SCRIPT_TAKE_BYTES_MAX];
    assert_int_equal(script_encode_take(&take, got), SCRIPT_TAKE_BYTES_MAX);
}

enum {
    NUMBERS = 1 + 2 * SCRIPT_CHARGE_NUMBERS
};

/* Allowed; the second charge, a lenient one, is not. */
static const int64_t good[NUMBERS] = {1,        3,  59,       100000000, 0,
                                      40000000, 0,  30000000, 0,         0,
                                      1000000,  -1, 0,        0,         0};

static enum script_status decode(const int64_t *numbers, size_t n,
                                 struct store_take *take)
{
    struct script_repairs repairs = {0};
    *take = two_charges();
    enum script_status status = script_decode_take(numbers, n, take, &repairs);
    assert_int_equal(repairs.n_values + repairs.n_ttls, 0);
    return status;
}

static void a_reply_to_a_take(void **context)
{
    (void)context;
    struct store_take take;
    assert_int_equal(decode(good, NUMBERS, &take), SCRIPT_OK);
    assert_true(take.is_allowed);
    const struct store_charge *charge = &take.charges[0];
    assert_true(charge->is_charged && charge->answer.is_allowed);
    assert_int_equal(charge->place, 30000000);
    assert_int_equal(charge->answer.remaining, 59);
    assert_int_equal(charge->answer.reset_us, 100000000);
    assert_int_equal(charge->answer.window_end_us, 40000000);
    assert_int_equal(charge->answer.retry_us, 0);
    charge = &take.charges[1];
    assert_false(charge->is_charged || charge->answer.is_allowed);
    assert_true(charge->answer.retry_us == LIMIT_NEVER);
}

static void what_no_script_says_is_refused(void **context)
{
    (void)context;
    static const struct {
        unsigned idx;
        int64_t number;
    } cases[] = {
        {0, 2},  {0, -1},
        {0, 0}, /* the verdict is another */
        {1, 16}, {1, -1},
        {1, 2},  {1, 0},  /* charged, not allowed */
        {2, 61}, {2, -1}, /* remaining */
        {3, -2}, {3, INT64_C(1) << 53},
        {4, 1},  {4, -1}, /* reset; a wait though allowed */
        {5, -1}, {5, INT64_MAX},
        {6, -1}, {6, INT64_MAX},
        {7, -1}, {7, INT64_C(1) << 53},
        {8, 1},  {8, 2},   /* waits though allowed */
        {11, 0}, {11, -2}, /* refused without a wait */
    };
    struct store_take take;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t numbers[NUMBERS];
        memcpy(numbers, good, sizeof(numbers));
        numbers[cases[i].idx] = cases[i].number;
        assert_int_equal(decode(numbers, NUMBERS, &take), SCRIPT_BAD_NUMBER);
    }
    assert_int_equal(decode(good, NUMBERS - 1, &take), SCRIPT_BAD_LENGTH);
    assert_int_equal(decode(good, NUMBERS - SCRIPT_CHARGE_NUMBERS, &take),
                     SCRIPT_BAD_LENGTH);
    assert_int_equal(decode(good, 0, &take), SCRIPT_BAD_LENGTH);
}

/* Refused, and yet the first was charged. */
static void a_refused_take_charges_nothing(void **context)
{
    (void)context;
    int64_t numbers[NUMBERS];
    struct script_repairs repairs = {0};
    struct store_take take = two_charges();
    take.charges[1].is_lenient = false;
    memcpy(numbers, good, sizeof(numbers));
    numbers[0] = 0;
    assert_int_equal(script_decode_take(numbers, NUMBERS, &take, &repairs),
                     SCRIPT_BAD_NUMBER);
    numbers[1] = 1;
    assert_int_equal(script_decode_take(numbers, NUMBERS, &take, &repairs), SCRIPT_OK);
    assert_false(take.is_allowed);
}

static void repairs_are_counted(void **context)
{
    (void)context;
    int64_t numbers[NUMBERS];
    struct script_repairs repairs = {0};
    struct store_take take = two_charges();
    memcpy(numbers, good, sizeof(numbers));
    numbers[1] |= 4;
    numbers[8] |= 8;
    assert_int_equal(script_decode_take(numbers, NUMBERS, &take, &repairs), SCRIPT_OK);
    assert_int_equal(repairs.n_values, 1);
    assert_int_equal(repairs.n_ttls, 1);
}

static void a_peek_says_what_is_held(void **context)
{
    (void)context;
    int64_t numbers[1 + SCRIPT_PEEK_NUMBERS] = {1, 1, 59, 5, 0, 4, 0, 0, 60, 0, 7};
    struct script_repairs repairs = {0};
    struct store_take take = two_charges();
    take.n_charges = 1;
    take.is_peek = true;
    assert_int_equal(script_decode_take(numbers, 1 + SCRIPT_PEEK_NUMBERS, &take,
                                        &repairs),
                     SCRIPT_OK);
    assert_int_equal(take.charges[0].answer.remaining, 59);
    assert_int_equal(take.charges[0].answer.reset_us, 5);
    assert_int_equal(take.held[0].remaining, 60);
    assert_int_equal(take.held[0].reset_us, 0);
    assert_int_equal(take.held[0].window_end_us, 7);
    assert_true(take.held[0].is_allowed);
    numbers[8] = 61;
    assert_int_equal(script_decode_take(numbers, 1 + SCRIPT_PEEK_NUMBERS, &take,
                                        &repairs),
                     SCRIPT_BAD_NUMBER);
    numbers[8] = 60;
    numbers[1] = 3; /* charged */
    assert_int_equal(script_decode_take(numbers, 1 + SCRIPT_PEEK_NUMBERS, &take,
                                        &repairs),
                     SCRIPT_BAD_NUMBER);
    assert_int_equal(script_decode_take(numbers, 1 + SCRIPT_CHARGE_NUMBERS, &take,
                                        &repairs),
                     SCRIPT_BAD_LENGTH);
}

static void a_reply_to_settlements(void **context)
{
    (void)context;
    int64_t numbers[] = {2, 0, 6};
    unsigned n_changed = 99;
    struct script_repairs repairs = {0};
    assert_int_equal(script_decode_settlements(numbers, 3, 3, &n_changed, &repairs),
                     SCRIPT_OK);
    assert_int_equal(n_changed, 2);
    assert_int_equal(repairs.n_values, 1);
    assert_int_equal(script_decode_settlements(numbers, 3, 2, &n_changed, &repairs),
                     SCRIPT_BAD_LENGTH);
    numbers[1] = 1;
    assert_int_equal(script_decode_settlements(numbers, 3, 3, &n_changed, &repairs),
                     SCRIPT_BAD_NUMBER);
    assert_int_equal(repairs.n_values, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_take_in_bytes),
        cmocka_unit_test(a_settlement_in_bytes),
        cmocka_unit_test(starts_of_a_calendar),
        cmocka_unit_test(the_largest_take_fits),
        cmocka_unit_test(a_reply_to_a_take),
        cmocka_unit_test(what_no_script_says_is_refused),
        cmocka_unit_test(a_refused_take_charges_nothing),
        cmocka_unit_test(repairs_are_counted),
        cmocka_unit_test(a_peek_says_what_is_held),
        cmocka_unit_test(a_reply_to_settlements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
