/* Laws of the algorithms over random traces, by clocks that differ by up to 1 s: each
 * step against a slow model that keeps the whole history, exact in 128 bits; what is
 * admitted against the stated bound; retry and reset against the algorithm itself, a
 * microsecond before and at the time. */
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
    TRACES = 3000,
    STEPS = 150,
    BACK_STEPS_MAX = 5,
    WINDOWS = 5000, /* of a calendar: more than a trace lasts */
};

#define LONG_IDLE_US (31 * 86400 * (uint64_t)US_PER_S)
#define START_US     (INT64_C(1800000000) * US_PER_S)

struct event {
    int64_t at_us;
    int64_t cost;
    int64_t goes_us; /* after its delay, in whole ticks */
    int window;      /* of the calendar */
};

/* The history of one trace: what was admitted, in order of time. */
struct history {
    unsigned n;
    struct event events[STEPS];
};

struct trace {
    struct limit limit;
    struct calendar calendar;
    int64_t shortest_us;        /* of its windows */
    int64_t starts_us[WINDOWS]; /* the agent's clock is the wall clock */
    int64_t skew_us;            /* by which clocks differ at most */
    struct history admitted;
    struct limit_state state;
    int64_t now_us;
};

static int64_t per_us_of(const struct limit *limit)
{
    return limit->per_ticks * limit->tick_us;
}

static void make_limit(struct prng *prng, struct limit *limit)
{
    static const int64_t pers_us[] = {
        1000,         10000,         US_PER_S,        1500000,
        7 * US_PER_S, 60 * US_PER_S, 3600 * US_PER_S, 31 * 86400 * US_PER_S};
    static const int64_t amounts[] = {1, 2, 3, 10, 60, 1000, 1000000, 1000000000};
    int64_t per_us = pers_us[prng_below(prng, 8)];
    *limit = (struct limit){
        .algorithm = (enum limit_algorithm)prng_below(prng, LIMIT_ALGORITHMS),
        .requests = amounts[prng_below(prng, 8)],
        .tick_us = 1,
    };
    while (per_us / limit->tick_us > 1000000) {
        limit->tick_us *= 10;
    }
    limit->per_ticks = per_us / limit->tick_us;
    limit->size = limit->requests;
    if (limit->algorithm == LIMIT_TOKEN_BUCKET) {
        limit->size = amounts[prng_below(prng, 8)];
    } else if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        limit->max_delay_ticks = 1
                                 + (int64_t)prng_below(prng,
                                                       (uint64_t)limit->per_ticks);
        limit->size = limit_leaky_size(limit);
    }
}

/* Windows of a calendar: days, where the clocks are changed now and then, or months. */
static void make_calendar(struct prng *prng, struct trace *t)
{
    static const int64_t days_h[] = {24, 24, 24, 24, 24, 24, 23, 25};
    static const int64_t months_h[] = {31 * 24, 31 * 24, 30 * 24, 28 * 24};
    bool has_months = prng_below(prng, 2) == 0;
    const int64_t hour_us = 3600 * US_PER_S;
    t->limit.calendar = &t->calendar;
    t->limit.tick_us = has_months ? 10 * US_PER_S : US_PER_S;
    t->limit.per_ticks = (has_months ? months_h[0] : days_h[7]) * hour_us
                         / t->limit.tick_us;
    t->shortest_us = (has_months ? months_h[3] : days_h[6]) * hour_us;
    t->starts_us[0] = START_US - 86400 * US_PER_S;
    for (int i = 1; i < WINDOWS; i++) {
        int64_t hours = has_months ? months_h[prng_below(prng, 4)]
                                   : days_h[prng_below(prng, 8)];
        t->starts_us[i] = t->starts_us[i - 1] + hours * hour_us;
    }
}

/* The window of a calendar that a moment is in. */
static int find_window(const struct trace *t, int64_t us)
{
    int i = 0;
    while (t->starts_us[i + 1] <= us) {
        i++;
    }
    return i;
}

/* Ahead of need, as the agent does it: from the window on of who is last. */
static void keep_calendar(struct trace *t)
{
    struct calendar_start starts[CALENDAR_STARTS];
    int first = find_window(t, t->now_us - t->skew_us);
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t us = t->starts_us[first + i];
        starts[i] = (struct calendar_start){.number = us / US_PER_S, .us = us};
    }
    calendar_fill(&t->calendar, starts);
}

static bool is_window(const struct limit *limit)
{
    return limit->algorithm == LIMIT_SLIDING_WINDOW
           || limit->algorithm == LIMIT_FIXED_WINDOW;
}

/* Used tokens x W at a tick, from the whole history: max-plus, nothing cut. */
static wide bucket_level(const struct trace *t, int64_t now_ticks)
{
    wide level = 0;
    int64_t at = 0;
    for (unsigned i = 0; i <= t->admitted.n; i++) {
        bool is_last = i == t->admitted.n;
        int64_t tick = is_last ? now_ticks
                               : t->admitted.events[i].at_us / t->limit.tick_us;
        level -= (wide)(tick - at) * t->limit.requests;
        level = level > 0 ? level : 0;
        level += is_last ? 0 : (wide)t->admitted.events[i].cost * t->limit.per_ticks;
        at = tick;
    }
    return level;
}

/* What its own window holds x W, from the whole history. */
static wide calendar_used(const struct trace *t, int64_t now_us)
{
    wide used = 0;
    int window = find_window(t, now_us);
    for (unsigned i = 0; i < t->admitted.n; i++) {
        const struct event *event = &t->admitted.events[i];
        used += event->window == window ? event->cost : 0;
    }
    return used * t->limit.per_ticks;
}

/* Estimate x W at a tick, from the whole history. */
static wide window_used(const struct trace *t, int64_t now_ticks)
{
    int64_t per = t->limit.per_ticks;
    int64_t window = now_ticks / per;
    wide prev = 0;
    wide curr = 0;
    for (unsigned i = 0; i < t->admitted.n; i++) {
        int64_t of = t->admitted.events[i].at_us / t->limit.tick_us / per;
        prev += of == window - 1 ? t->admitted.events[i].cost : 0;
        curr += of == window ? t->admitted.events[i].cost : 0;
    }
    prev = t->limit.algorithm == LIMIT_SLIDING_WINDOW ? prev : 0;
    return prev * (per - now_ticks % per) + curr * per;
}

/* Clocks of workers differ: a time a little before what was last admitted is taken as
 * that, by a bucket; as the start of the window it was admitted in, by a window. */
static int64_t effective_us(const struct trace *t)
{
    if (t->admitted.n == 0) {
        return t->now_us;
    }
    int64_t stamp_us = t->admitted.events[t->admitted.n - 1].at_us;
    if (t->limit.calendar != NULL) {
        stamp_us = t->starts_us[t->admitted.events[t->admitted.n - 1].window];
    } else if (is_window(&t->limit)) {
        stamp_us -= stamp_us % per_us_of(&t->limit);
    }
    return t->now_us > stamp_us ? t->now_us : stamp_us;
}

static wide model_used(const struct trace *t)
{
    int64_t now_ticks = effective_us(t) / t->limit.tick_us;
    if (t->limit.calendar != NULL) {
        return calendar_used(t, effective_us(t));
    }
    return is_window(&t->limit) ? window_used(t, now_ticks)
                                : bucket_level(t, now_ticks);
}

/* What `used` x W may be at most for a cost to pass. */
static wide model_room(const struct limit *limit, int64_t cost)
{
    if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        return (wide)limit->requests * limit->max_delay_ticks
               - (wide)(cost - 1) * limit->per_ticks;
    }
    return (wide)(limit->size - cost) * limit->per_ticks;
}

/* The largest cost that passes, by trying: the room falls as the cost rises. */
static int64_t model_remaining(const struct limit *limit, wide used)
{
    int64_t passes = 0;
    int64_t fails = limit->size + 1;
    while (fails - passes > 1) {
        int64_t cost = passes + (fails - passes) / 2;
        if (used <= model_room(limit, cost)) {
            passes = cost;
        } else {
            fails = cost;
        }
    }
    return passes;
}

/* In ticks: all that is in front has drained. */
static wide model_delay(const struct limit *limit, wide used)
{
    return limit->algorithm == LIMIT_LEAKY_BUCKET
               ? (used + limit->requests - 1) / limit->requests
               : 0;
}

static bool would_pass(const struct trace *t, int64_t at_us, int64_t cost)
{
    struct limit_state copy = t->state;
    struct limit_answer answer;
    return limit_take(&t->limit, &copy, (struct instant){.us = at_us}, cost, &answer);
}

static struct limit_answer look(const struct trace *t, int64_t at_us)
{
    struct limit_state copy = t->state;
    struct limit_answer answer;
    (void)limit_take(&t->limit, &copy, (struct instant){.us = at_us}, 0, &answer);
    return answer;
}

static void check_waits(const struct trace *t, const struct limit_answer *answer,
                        int64_t cost)
{
    if (!answer->is_allowed && answer->retry_us != LIMIT_NEVER
        && answer->retry_us < LIMIT_WAIT_US_MAX / 2) {
        assert_true(answer->retry_us > 0);
        assert_true(would_pass(t, t->now_us + answer->retry_us, cost));
        assert_false(would_pass(t, t->now_us + answer->retry_us - 1, cost));
    }
    if (answer->reset_us > 0 && answer->reset_us < LIMIT_WAIT_US_MAX / 2) {
        assert_int_equal(look(t, t->now_us + answer->reset_us).reset_us, 0);
        assert_int_equal(look(t, t->now_us + answer->reset_us).remaining,
                         t->limit.size);
        assert_true(look(t, t->now_us + answer->reset_us - 1).reset_us > 0);
    }
}

static void step(struct trace *t, int64_t cost)
{
    struct limit_state before = t->state;
    struct limit_answer answer;
    limit_align(&t->limit, &t->state, (struct instant){.us = t->now_us});
    assert_memory_equal(&before, &t->state, sizeof(before)); /* no step of the clock */
    wide used = model_used(t);
    bool want = cost == 0 || used <= model_room(&t->limit, cost);

    bool is_allowed = limit_take(&t->limit, &t->state,
                                 (struct instant){.us = t->now_us}, cost, &answer);
    assert_int_equal(is_allowed, want);
    assert_int_equal(answer.is_allowed, want);
    if (!is_allowed || cost == 0) {
        assert_memory_equal(&before, &t->state, sizeof(before));
        assert_int_equal(answer.delay_us, 0);
    }
    if (!is_allowed) {
        assert_int_equal(answer.retry_us == LIMIT_NEVER, cost > t->limit.size);
    }
    if (is_allowed && cost > 0) {
        wide delay_us = model_delay(&t->limit, used) * t->limit.tick_us;
        assert_true(answer.delay_us == delay_us);
        assert_true(answer.delay_us <= t->limit.max_delay_ticks * t->limit.tick_us);
        struct event event = {.at_us = effective_us(t), .cost = cost};
        event.window = t->limit.calendar != NULL ? find_window(t, event.at_us) : 0;
        event.goes_us = event.at_us / t->limit.tick_us * t->limit.tick_us
                        + answer.delay_us;
        t->admitted.events[t->admitted.n++] = event;
        used += (wide)cost * t->limit.per_ticks;
    }
    assert_int_equal(answer.remaining, model_remaining(&t->limit, used));
    check_waits(t, &answer, cost);
}

/* What may be admitted from one event on until another, which is of `cost`, x W. Ticks
 * are those between the two, and one that is cut off. */
static wide most_between(const struct limit *limit, int64_t ticks, int64_t cost)
{
    wide flow = (wide)ticks * limit->requests;
    switch (limit->algorithm) {
    case LIMIT_TOKEN_BUCKET:
        return (wide)limit->size * limit->per_ticks + flow;
    case LIMIT_LEAKY_BUCKET: /* by the time it is let go */
        return flow + (wide)cost * limit->per_ticks;
    case LIMIT_SLIDING_WINDOW: /* below, not at */
        return 2 * (wide)limit->size * limit->per_ticks - 1;
    case LIMIT_FIXED_WINDOW:
        return 2 * (wide)limit->size * limit->per_ticks;
    case LIMIT_SLIDING_LOG: /* prop_log.c */
        break;
    }
    fail();
    return 0;
}

/* The stated bound, over every span that begins with an event. */
static void check_bound(const struct trace *t)
{
    for (unsigned i = 0; i < t->admitted.n; i++) {
        wide sum = 0;
        for (unsigned j = i; j < t->admitted.n; j++) {
            const struct event *from = &t->admitted.events[i];
            const struct event *to = &t->admitted.events[j];
            bool goes_later = t->limit.algorithm == LIMIT_LEAKY_BUCKET;
            int64_t span_us = goes_later ? to->goes_us - from->goes_us
                                         : to->at_us - from->at_us;
            sum += to->cost;
            if (is_window(&t->limit) && span_us >= t->shortest_us) {
                break;
            }
            assert_true(
                sum * t->limit.per_ticks
                <= most_between(&t->limit, span_us / t->limit.tick_us + 1, to->cost));
        }
    }
}

static int64_t random_pause_us(struct prng *prng, const struct limit *limit)
{
    int64_t per_us = per_us_of(limit);
    int64_t one_us = per_us / limit->requests + 1;
    switch (prng_below(prng, 6)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)prng_below(prng, (uint64_t)per_us) + 1;
    case 2:
        return (int64_t)prng_below(prng, 3 * (uint64_t)per_us);
    case 3:
        return prng_below(prng, 20) > 0 ? limit->tick_us
                                        : (int64_t)prng_below(prng, LONG_IDLE_US);
    default:
        return (int64_t)prng_below(prng, 2 * (uint64_t)one_us);
    }
}

static int64_t random_cost(struct prng *prng, const struct limit *limit)
{
    switch (prng_below(prng, 8)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)prng_below(prng, (uint64_t)limit->size) + 1;
    case 2:
        return limit->size + (limit->size < 1000000000);
    case 3:
        return limit->size;
    default:
        return 1;
    }
}

/* Time goes on; by the calendar often to where a window turns. */
static int64_t next_us(struct prng *prng, const struct trace *t)
{
    if (t->limit.calendar != NULL && prng_below(prng, 4) == 0) {
        return t->starts_us[find_window(t, t->now_us) + 1]
               + (int64_t)prng_below(prng, (uint64_t)t->skew_us);
    }
    return t->now_us + random_pause_us(prng, &t->limit);
}

static void begin_trace(struct prng *prng, struct trace *t)
{
    t->now_us = START_US + (int64_t)prng_below(prng, 86400 * (uint64_t)US_PER_S);
    t->admitted.n = 0;
    t->state = (struct limit_state){0};
    make_limit(prng, &t->limit);
    t->shortest_us = per_us_of(&t->limit);
    if (t->limit.algorithm == LIMIT_FIXED_WINDOW && prng_below(prng, 2) == 0) {
        make_calendar(prng, t);
    }
}

static void traces_agree_with_the_model_and_keep_the_bounds(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261129);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    static struct trace t;
    for (int i = 0; i < prng_traces(TRACES); i++) {
        begin_trace(&prng, &t);
        t.skew_us = i % 2 == 0 ? 5 * US_PER_MS : LIMIT_CLOCK_SLACK_US;
        for (int j = 0; j < STEPS; j++) {
            int64_t now_us = t.now_us;
            if (t.limit.calendar != NULL) {
                keep_calendar(&t);
            }
            t.now_us -= (int64_t)(prng_below(&prng, 2)
                                  * prng_below(&prng, (uint64_t)t.skew_us + 1));
            step(&t, random_cost(&prng, &t.limit));
            t.now_us = now_us;
            t.now_us = next_us(&prng, &t);
        }
        check_bound(&t);
    }
}

/* The longest that a counter at its limit makes the smallest cost wait. */
static int64_t longest_wait_us(const struct limit *limit)
{
    if (is_window(limit)) {
        return 2 * per_us_of(limit);
    }
    return limit_ticks_to_us(limit,
                             div_up(limit->size * limit->per_ticks, limit->requests));
}

/* What passes at most in so much time, with all that a new counter has at once. */
static wide most_in(const struct limit *limit, int64_t passed_us, int n_stamps)
{
    wide periods = passed_us / per_us_of(limit) + 2;
    if (is_window(limit)) {
        return limit->size * periods + (wide)limit->size * n_stamps;
    }
    /* at each stamp less than a tick is rounded to one */
    wide refill = (wide)limit->requests * (passed_us / limit->tick_us + 1 + n_stamps);
    return (wide)(limit->size + 1) * (1 + n_stamps) + refill / limit->per_ticks + 1;
}

/* One trace by a clock that is stepped back a few times, by more than clocks differ. */
static void step_clock_back(struct prng *prng, const struct limit *limit)
{
    struct limit_state state = {0};
    struct limit_answer answer;
    struct instant now = {.us = INT64_C(1800000000) * US_PER_S};
    int64_t passed_us = 0;
    int n_back = 0;
    wide admitted = 0;
    for (int j = 0; j < STEPS; j++) {
        int64_t pause_us = random_pause_us(prng, limit);
        now = instant_add_us(now, pause_us);
        passed_us += pause_us;
        if (n_back < BACK_STEPS_MAX && prng_below(prng, 20) == 0) {
            int64_t back_us = (int64_t)prng_below(prng, 3600 * (uint64_t)US_PER_S);
            now = instant_add_us(now, -LIMIT_CLOCK_SLACK_US - back_us);
            n_back++;
        }
        limit_align(limit, &state, now);
        int64_t cost = prng_below(prng, 2) == 0
                           ? 1
                           : 1 + (int64_t)prng_below(prng, (uint64_t)limit->size);
        admitted += limit_take(limit, &state, now, cost, &answer) ? cost : 0;
        assert_true(admitted <= most_in(limit, passed_us, n_back));
        if (!limit_take(limit, &state, now, 1, &answer)) {
            assert_true(answer.retry_us
                        <= longest_wait_us(limit) + LIMIT_CLOCK_SLACK_US);
        } else {
            admitted++;
        }
    }
}

static void clock_stepped_back_gives_one_size_more_and_locks_nobody_out(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        struct limit limit;
        make_limit(&prng, &limit);
        step_clock_back(&prng, &limit);
    }
}

/* What an answer is to be once its charge is given back, against the state before it. */
static void forget_a_charge(struct prng *prng, const struct limit *limit)
{
    struct limit_state state = {0};
    struct instant now = {START_US};
    int64_t late_us = is_window(limit) ? per_us_of(limit) : limit->tick_us;
    for (int i = 0; i < 20; i++) {
        struct limit_answer answer;
        struct limit_answer before;
        int64_t cost = 1 + (int64_t)prng_below(prng, (uint64_t)limit->size);
        now = instant_add_us(now,
                             (int64_t)prng_below(prng, (uint64_t)per_us_of(limit)));
        (void)limit_take(limit, &state, now, 0, &before);
        if (!limit_take(limit, &state, now, cost, &answer)) {
            continue;
        }
        bool is_cut = answer.reset_us > LIMIT_WAIT_US_MAX - limit->tick_us;
        limit_forget(limit, cost, &answer);
        assert_int_equal(answer.remaining, before.remaining);
        assert_true(answer.reset_us >= before.reset_us);
        assert_true(is_cut || answer.reset_us <= before.reset_us + late_us);
        assert_true(!is_window(limit) || before.reset_us > 0 || answer.reset_us == 0);
    }
}

static void a_charge_that_is_given_back_leaves_no_trace_in_the_answer(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261201);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        struct limit limit;
        make_limit(&prng, &limit);
        forget_a_charge(&prng, &limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_stepped_back_gives_one_size_more_and_locks_nobody_out),
        cmocka_unit_test(a_charge_that_is_given_back_leaves_no_trace_in_the_answer),
        cmocka_unit_test(traces_agree_with_the_model_and_keep_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
