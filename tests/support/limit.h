/**
 * @file tests/support/limit.h  Limits made in a line, and what they answer: by the functions
 *       in C or, where LIMITS_IN_LUA is defined, by their Lua twins in a real redis-server.
 */
#ifndef TESTS_SUPPORT_LIMIT_H
#define TESTS_SUPPORT_LIMIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/limit/limit.h"

#ifdef LIMITS_IN_LUA
#    include "tests/support/twin.h"
#    define LIMITS_START twin_group_start
#    define LIMITS_STOP  twin_group_stop
#else
#    define LIMITS_START NULL
#    define LIMITS_STOP  NULL
#endif

#define MINUTE_US (60 * US_PER_S)

/* A moment at which a minute begins. */
#define MINUTE_START_US (INT64_C(1800000000) * US_PER_S)

static inline struct limit make(enum limit_algorithm algorithm, int64_t requests,
                                int64_t size, int64_t per_us)
{
    int64_t tick_us = 1;
    while (per_us / tick_us > 1000000) {
        tick_us *= 10;
    }
    return (struct limit){
        .algorithm = algorithm,
        .requests = requests,
        .size = size,
        .per_ticks = per_us / tick_us,
        .tick_us = tick_us,
    };
}

static inline struct limit sliding(int64_t requests, int64_t per_us)
{
    return make(LIMIT_SLIDING_WINDOW, requests, requests, per_us);
}

static inline struct limit bucket(int64_t requests, int64_t burst, int64_t per_us)
{
    return make(LIMIT_TOKEN_BUCKET, requests, burst, per_us);
}

static inline struct limit fixed(int64_t requests, int64_t per_us)
{
    return make(LIMIT_FIXED_WINDOW, requests, requests, per_us);
}

static inline struct limit leaky(int64_t requests, int64_t per_us, int64_t max_delay_us)
{
    struct limit limit = make(LIMIT_LEAKY_BUCKET, requests, 0, per_us);
    limit.max_delay_ticks = max_delay_us / limit.tick_us;
    limit.size = limit_leaky_size(&limit);
    return limit;
}

static inline struct limit_answer take(const struct limit *limit,
                                       struct limit_state *state, int64_t now_us,
                                       int64_t cost)
{
    struct limit_answer answer;
    struct instant now = {.us = now_us};
#ifdef LIMITS_IN_LUA
    bool is_allowed = twin_take(limit, state, now, cost, &answer);
#else
    limit_align(limit, state, now);
    bool is_allowed = limit_take(limit, state, now, cost, &answer);
#endif
    assert_int_equal(is_allowed, answer.is_allowed);
    return answer;
}

/* limit_settle. */
static inline bool settle(const struct limit *limit, struct limit_state *state,
                          int64_t now_us, int64_t place, int64_t amount, int64_t truth)
{
    const struct limit_correction correction = {place, amount, truth};
    struct instant now = {.us = now_us};
#ifdef LIMITS_IN_LUA
    return twin_settle(limit, state, now, &correction);
#else
    return limit_settle(limit, state, now, &correction);
#endif
}

/* How many of `n` costs of 1 pass at one moment. */
static inline int64_t pass(const struct limit *limit, struct limit_state *state,
                           int64_t now_us, int64_t n)
{
    int64_t n_passed = 0;
    for (int64_t i = 0; i < n; i++) {
        n_passed += take(limit, state, now_us, 1).is_allowed;
    }
    return n_passed;
}

#endif
