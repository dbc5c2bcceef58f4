#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/decide/retry.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const struct limit hourly = {.algorithm = LIMIT_SLIDING_WINDOW,
                                    .requests = 10,
                                    .size = 10,
                                    .per_ticks = 360000,
                                    .tick_us = 10000};
static const struct retry_jitter off = {0};
static const struct retry_jitter tenth = {.permille = 100, .secret = {7}};

static struct store_charge charge_of(const char *key, int64_t retry_us)
{
    static const uint8_t limit_id[STORE_LIMIT_ID_BYTES] = {1};
    return (struct store_charge){
        .limit = &hourly,
        .limit_id = limit_id,
        .key = (const uint8_t *)key,
        .key_bytes = strlen(key),
        .answer = {.retry_us = retry_us},
    };
}

static int64_t wait_s(const struct retry_jitter *jitter, const char *key,
                      int64_t retry_us, int64_t now_us)
{
    struct store_charge charge = charge_of(key, retry_us);
    return retry_after_s(jitter, &charge, (struct instant){.us = now_us});
}

static void whole_seconds_up_and_never_0(void **context)
{
    (void)context;
    assert_int_equal(wait_s(&off, "k", 0, START_US), 1);
    assert_int_equal(wait_s(&off, "k", 1, START_US), 1);
    assert_int_equal(wait_s(&off, "k", 125000, START_US), 1);
    assert_int_equal(wait_s(&off, "k", US_PER_S, START_US), 1);
    assert_int_equal(wait_s(&off, "k", US_PER_S + 1, START_US), 2);
    assert_int_equal(wait_s(&off, "k", 9 * US_PER_S, START_US), 9);
    assert_int_equal(wait_s(&off, "k", LIMIT_NEVER, START_US), 0);
    assert_int_equal(wait_s(&tenth, "k", LIMIT_NEVER, START_US), 0);
}

static void jitter_only_adds_and_has_bounds(void **context)
{
    (void)context;
    int64_t least = INT64_MAX;
    int64_t most = 0;
    for (int i = 0; i < 1000; i++) {
        char key[] = {'k', (char)('a' + i % 26), (char)('a' + i / 26), '\0'};
        int64_t wait = wait_s(&tenth, key, 100 * US_PER_S, START_US);
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
        assert_in_range(wait_s(&tenth, key, 3600 * US_PER_S, START_US), 3600, 3630);
    }
    assert_in_range(least, 100, 102);
    assert_in_range(most, 108, 110);
}

/* A client that asks again is told the same moment, not a new draw. */
static void same_key_and_window_same_share(void **context)
{
    (void)context;
    for (int i = 0; i < 50; i++) {
        char key[] = {'k', (char)('a' + i % 26), (char)('a' + i / 26), '\0'};
        int64_t first = wait_s(&tenth, key, 60 * US_PER_S, START_US);
        for (int64_t s = 1; s < 60; s++) {
            int64_t again = s
                            + wait_s(&tenth, key, (60 - s) * US_PER_S,
                                     START_US + s * US_PER_S);
            assert_in_range(again, 60, (uint64_t)first); /* a share of what is left */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_seconds_up_and_never_0),
        cmocka_unit_test(jitter_only_adds_and_has_bounds),
        cmocka_unit_test(same_key_and_window_same_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
