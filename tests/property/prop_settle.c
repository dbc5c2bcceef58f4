/* Laws of limit_settle over random traces of takes and settlements, in any order and by
 * clocks that differ: against a model that keeps the whole history and, when a charge is
 * settled, changes what was taken then. Windows equal it. A bucket is never emptier than
 * the model, and fuller by no more than what drained before each settlement. Whatever a
 * correction says, nothing goes below zero, and debt is at most one size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/limit/limit.h"

#include "tests/support/prng.h"

__extension__ typedef __int128 wide;

enum {
    TRACES = 4000,
    STEPS = 120,
};

#define START_US (INT64_C(1800000000) * US_PER_S)

struct event {
    int64_t place;
    int64_t cost; /* as it is settled */
    int64_t taken;
    bool is_settled;
};

struct trace {
    struct limit limit;
    struct limit_state state;
    int64_t now_us;
    wide slack; /* by which a bucket may be fuller than the model */
    unsigned n;
    struct event events[STEPS];
};

static void make_limit(struct prng *prng, struct limit *limit)
{
    static const int64_t pers_us[] = {1000, US_PER_S, 60 * US_PER_S, 3600 * US_PER_S,
                                      INT64_C(31) * 86400 * US_PER_S};
    static const int64_t amounts[] = {1, 3, 10, 60, 1000, LIMIT_AMOUNT_MAX};
    int64_t per_us = pers_us[prng_below(prng, 5)];
    *limit = (struct limit){
        .algorithm = (enum limit_algorithm)prng_below(prng, LIMIT_ALGORITHMS),
        .requests = amounts[prng_below(prng, 6)],
        .tick_us = 1,
    };
    while (per_us / limit->tick_us > 1000000) {
        limit->tick_us *= 10;
    }
    limit->per_ticks = per_us / limit->tick_us;
    limit->size = limit->algorithm == LIMIT_TOKEN_BUCKET ? amounts[prng_below(prng, 6)]
                                                         : limit->requests;
    if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        limit->max_delay_ticks = 1
                                 + (int64_t)prng_below(prng,
                                                       (uint64_t)limit->per_ticks);
        limit->size = limit_leaky_size(limit);
    }
}

static bool is_bucket(const struct trace *t)
{
    return t->limit.algorithm == LIMIT_TOKEN_BUCKET
           || t->limit.algorithm == LIMIT_LEAKY_BUCKET;
}

/* For how many windows more a count weighs. */
static int64_t windows_after(const struct limit *limit)
{
    return limit->algorithm == LIMIT_SLIDING_WINDOW;
}

/* Time does not go back behind what the counter has seen. */
static int64_t now_place(const struct trace *t)
{
    int64_t place = t->now_us / t->limit.tick_us;
    int64_t stamp = limit_place(&t->limit, &t->state);
    place = is_bucket(t) ? place : place / t->limit.per_ticks;
    return place > stamp ? place : stamp;
}

/* Used x W now, by the history alone. */
static wide model_used(const struct trace *t)
{
    int64_t per = t->limit.per_ticks;
    int64_t place = now_place(t);
    wide used = 0;
    if (is_bucket(t)) {
        int64_t at = 0;
        for (unsigned i = 0; i <= t->n; i++) {
            int64_t next = i < t->n ? t->events[i].place : place;
            used -= (wide)(next - at) * t->limit.requests;
            used = used > 0 ? used : 0;
            used += i < t->n ? (wide)t->events[i].cost * per : 0;
            at = next;
        }
        return used;
    }
    int64_t tick = t->now_us / t->limit.tick_us;
    int64_t into = tick / per < place ? 0 : tick % per;
    for (unsigned i = 0; i < t->n; i++) {
        int64_t age = place - t->events[i].place;
        used += age == 0 ? (wide)t->events[i].cost * per
                : age == windows_after(&t->limit)
                    ? (wide)t->events[i].cost * (per - into)
                    : 0;
    }
    return used;
}

static struct limit_answer look(const struct trace *t)
{
    struct limit_state copy = t->state;
    struct limit_answer answer;
    (void)limit_take(&t->limit, &copy, (struct instant){.us = t->now_us}, 0, &answer);
    return answer;
}

static int64_t left_of(const struct limit *limit, wide used)
{
    wide size = (wide)limit->size * limit->per_ticks;
    wide most = (wide)limit->requests * limit->max_delay_ticks;
    if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        return used <= most ? (int64_t)((most - used) / limit->per_ticks) + 1 : 0;
    }
    return used < size ? (int64_t)((size - used) / limit->per_ticks) : 0;
}

/* What the counter says against what the model says. */
static void check(const struct trace *t)
{
    wide used = model_used(t);
    int64_t remaining = look(t).remaining;
    assert_true(remaining <= left_of(&t->limit, used));
    assert_true(remaining >= left_of(&t->limit, used + (is_bucket(t) ? t->slack : 0)));
}

static void take(struct trace *t, int64_t cost)
{
    struct limit_answer answer;
    if (!limit_take(&t->limit, &t->state, (struct instant){.us = t->now_us}, cost,
                    &answer)) {
        return;
    }
    struct event event = {.place = limit_place(&t->limit, &t->state)};
    event.cost = cost;
    event.taken = cost;
    assert_int_equal(event.place, now_place(t));
    t->events[t->n++] = event;
}

/* Used x W as the state itself has it, at a moment that is not before its stamp. */
static wide state_used(const struct trace *t)
{
    struct limit_state copy = t->state;
    const struct limit_correction none = {.place = limit_place(&t->limit, &copy)};
    assert_false(
        limit_settle(&t->limit, &copy, (struct instant){.us = t->now_us}, &none));
    int64_t per = t->limit.per_ticks;
    int64_t tick = t->now_us / t->limit.tick_us;
    if (is_bucket(t)) {
        int64_t elapsed = tick - copy.bucket.at_ticks;
        wide level = copy.bucket.level
                     - (wide)(elapsed > 0 ? elapsed : 0) * t->limit.requests;
        return level > 0 ? level : 0;
    }
    int64_t age = tick / per - limit_place(&t->limit, &copy);
    int64_t weight = age < 0 ? per : per - tick % per;
    if (t->limit.algorithm == LIMIT_FIXED_WINDOW) {
        return age <= 0 ? (wide)copy.fixed.count * per : 0;
    }
    wide prev = age <= 0 ? copy.sliding.prev : age == 1 ? copy.sliding.curr : 0;
    wide curr = age <= 0 ? copy.sliding.curr : 0;
    return prev * weight + curr * per;
}

static wide drained_since(const struct trace *t, const struct event *event)
{
    return (wide)(now_place(t) - event->place) * t->limit.requests;
}

/* What is counted in the window of an event. */
static int64_t counted_with(const struct trace *t, const struct event *event)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < t->n; i++) {
        sum += t->events[i].place == event->place ? t->events[i].cost : 0;
    }
    return sum;
}

/* What of `wanted` a counter has room for: debt is at most one size, and a count at most
 * twice the largest amount. */
static int64_t room_for(const struct trace *t, const struct event *event, wide before,
                        int64_t wanted)
{
    int64_t per = t->limit.per_ticks;
    int64_t tick = t->now_us / t->limit.tick_us;
    bool is_prev = !is_bucket(t) && event->place + 1 == now_place(t);
    int64_t weight = is_prev && tick / per == now_place(t) ? per - tick % per : per;
    wide room = (2 * (wide)t->limit.size * per - before) / weight;
    wide most = 2 * LIMIT_AMOUNT_MAX - counted_with(t, event);
    room = is_bucket(t) || room < most ? room : most;
    room = room > 0 ? room : 0;
    return room < wanted ? (int64_t)room : wanted;
}

static void settle(struct trace *t, struct event *event, int64_t truth)
{
    struct limit_correction correction = {event->place, event->taken, truth};
    struct instant now = {.us = t->now_us};
    struct limit_state was = t->state;
    bool is_late = !is_bucket(t)
                   && now_place(t) - event->place > windows_after(&t->limit);
    int64_t change = truth - event->taken;
    change = room_for(t, event, state_used(t), change);
    bool is_changed = limit_settle(&t->limit, &t->state, now, &correction);
    event->is_settled = true;
    if (is_late || !is_changed) {
        assert_false(is_late && is_changed);
        assert_memory_equal(&was, &t->state, sizeof(was));
    }
    if (!is_late) {
        wide drained = drained_since(t, event);
        wide moved = (wide)(change < 0 ? -change : change) * t->limit.per_ticks;
        t->slack += moved < drained ? moved : drained;
        event->cost += change;
    }
}

static int64_t random_pause_us(struct prng *prng, const struct limit *limit)
{
    int64_t per_us = limit->per_ticks * limit->tick_us;
    switch (prng_below(prng, 5)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)prng_below(prng, 2 * (uint64_t)per_us);
    case 2:
        return (int64_t)prng_below(prng, (uint64_t)per_us / 4 + 1);
    default:
        return (int64_t)prng_below(prng, (uint64_t)(per_us / limit->requests) + 2);
    }
}

static int64_t random_cost(struct prng *prng, const struct limit *limit)
{
    return prng_below(prng, 2) == 0
               ? 1
               : 1 + (int64_t)prng_below(prng, (uint64_t)limit->size);
}

static int64_t random_truth(struct prng *prng, const struct event *event,
                            const struct limit *limit)
{
    switch (prng_below(prng, 4)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)prng_below(prng, (uint64_t)event->taken + 1);
    case 2:
        return (int64_t)prng_below(prng, LIMIT_AMOUNT_MAX + 1);
    default:
        return event->taken + (int64_t)prng_below(prng, (uint64_t)limit->size) / 4;
    }
}

/* A take, or the settlement of a charge that has none yet, by a clock that may lag. */
static void step(struct trace *t, struct prng *prng)
{
    int64_t now_us = t->now_us;
    t->now_us -= (int64_t)prng_below(prng, 2)
                 * (int64_t)prng_below(prng, LIMIT_CLOCK_SLACK_US);
    struct event *event = t->n > 0 ? &t->events[prng_below(prng, t->n)] : NULL;
    if (event != NULL && !event->is_settled && prng_below(prng, 2) == 0) {
        int64_t truth = random_truth(prng, event, &t->limit);
        settle(t, event, truth < LIMIT_AMOUNT_MAX ? truth : LIMIT_AMOUNT_MAX);
    } else {
        take(t, random_cost(prng, &t->limit));
    }
    check(t);
    t->now_us = now_us;
}

static void settled_is_as_if_it_had_been_taken_so(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    static struct trace t;
    for (int i = 0; i < prng_traces(TRACES); i++) {
        t = (struct trace){.now_us = START_US};
        t.now_us += (int64_t)prng_below(&prng, 86400 * (uint64_t)US_PER_S);
        make_limit(&prng, &t.limit);
        for (int j = 0; j < STEPS; j++) {
            step(&t, &prng);
            t.now_us += random_pause_us(&prng, &t.limit);
        }
    }
}

static struct limit_correction random_correction(struct prng *prng,
                                                 const struct trace *t)
{
    int64_t place = limit_place(&t->limit, &t->state);
    struct limit_correction c = {.place = place + (int64_t)prng_below(prng, 4) - 2};
    if (prng_below(prng, 4) == 0) {
        c.place = (int64_t)prng_below(prng, UINT64_C(10000000000000000));
    }
    c.place = c.place > 0 ? c.place : 0;
    c.amount = (int64_t)prng_below(prng, LIMIT_AMOUNT_MAX + 1);
    c.truth = (int64_t)prng_below(prng, LIMIT_AMOUNT_MAX + 1);
    return c;
}

/* Receipts replayed and made up: bounded by nothing but the counter itself. */
static void no_correction_goes_below_zero_or_beyond_one_size_of_debt(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        struct trace t = {.now_us = START_US};
        make_limit(&prng, &t.limit);
        wide most = 2 * (wide)t.limit.size * t.limit.per_ticks;
        for (int j = 0; j < STEPS; j++) {
            struct limit_correction c = random_correction(&prng, &t);
            struct limit_answer answer;
            struct instant now = {.us = t.now_us};
            wide before = state_used(&t);
            (void)limit_settle(&t.limit, &t.state, now, &c);
            wide after = state_used(&t);
            assert_true(after >= 0 && after <= most);
            wide change = (wide)(c.truth - c.amount) * t.limit.per_ticks;
            assert_true(change < 0 ? after <= before && after >= before + change
                                   : after >= before && after <= before + change);
            (void)limit_take(&t.limit, &t.state, now, random_cost(&prng, &t.limit),
                             &answer);
            assert_true(answer.remaining >= 0 && answer.remaining <= t.limit.size);
            t.now_us += random_pause_us(&prng, &t.limit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settled_is_as_if_it_had_been_taken_so),
        cmocka_unit_test(no_correction_goes_below_zero_or_beyond_one_size_of_debt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
