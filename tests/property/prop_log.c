/* Laws of the sliding log over random traces, by clocks that differ by up to 1 s: each
 * step, each settlement and each merge against a model that keeps the whole history; never
 * more than the limit in any span of `per`; retry and reset to the microsecond; and every
 * block is the log's or free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/limit/sliding_log.h"

#include "tests/support/prng.h"

enum {
    TRACES = 2000,
    STEPS = 150,
    BLOCKS = 1024,
};

#define START_US (INT64_C(1800000000) * US_PER_S)

struct event {
    int64_t at_us;
    int64_t cost;
};

static struct {
    struct limit limit;
    struct log_block blocks[BLOCKS];
    uint32_t free;
    unsigned n_free;
    int64_t now_us;
} t;

/* A log, and what the model remembers of it. */
struct log {
    struct limit_state state;
    unsigned n;
    struct event events[2 * STEPS];
};

static int64_t per_us(void)
{
    return t.limit.per_ticks * t.limit.tick_us;
}

static void free_chain(struct log_chain chain)
{
    unsigned n = chain.first != 0;
    for (uint32_t at = chain.first; at != chain.last; at = t.blocks[at].next) {
        n++;
    }
    if (n > 0) {
        t.blocks[chain.last].next = t.free;
        t.free = chain.first;
        t.n_free += n;
    }
}

static uint32_t get_block(void)
{
    uint32_t block = t.free;
    assert_true(block != 0);
    t.free = t.blocks[block].next;
    t.n_free--;
    return block;
}

static unsigned blocks_of(const struct log *log)
{
    unsigned n = log->state.log.first != 0;
    for (uint32_t at = log->state.log.first; at != log->state.log.last;
         at = t.blocks[at].next) {
        n++;
    }
    return n;
}

static void begin_trace(struct prng *prng)
{
    static const int64_t pers_us[] = {1000, 10000, 1000000, 60000000, 3600000000};
    static const int64_t sizes[] = {1, 2, 3, 10, 60, 1000};
    int64_t span_us = pers_us[prng_below(prng, 5)];
    t.limit = (struct limit){.algorithm = LIMIT_SLIDING_LOG, .tick_us = 1};
    t.limit.requests = sizes[prng_below(prng, 6)];
    t.limit.size = t.limit.requests;
    while (span_us / t.limit.tick_us > 1000000) {
        t.limit.tick_us *= 10;
    }
    t.limit.per_ticks = span_us / t.limit.tick_us;
    t.now_us = START_US + (int64_t)prng_below(prng, 86400 * (uint64_t)US_PER_S);
    t.free = 0;
    t.n_free = 0;
    for (uint32_t block = BLOCKS - 1; block > 0; block--) {
        free_chain((struct log_chain){block, block});
    }
}

static struct limit_answer look_at(const struct log *log, int64_t at_us, int64_t cost)
{
    struct limit_answer answer;
    struct instant at = {.us = at_us};
    bool is_allowed = sliding_log_look(&t.limit, t.blocks, &log->state, at, cost,
                                       &answer);
    assert_int_equal(is_allowed, answer.is_allowed);
    return answer;
}

static int64_t model_now(const struct log *log)
{
    int64_t now_us = t.now_us;
    for (unsigned i = 0; i < log->n; i++) {
        bool is_newer = log->events[i].cost > 0 && log->events[i].at_us > now_us;
        now_us = is_newer ? log->events[i].at_us : now_us;
    }
    return now_us;
}

static int64_t model_used(const struct log *log)
{
    int64_t used = 0;
    int64_t now_us = model_now(log);
    for (unsigned i = 0; i < log->n; i++) {
        bool is_in = now_us - log->events[i].at_us < per_us();
        used += is_in ? log->events[i].cost : 0;
    }
    return used;
}

static void check(const struct log *log)
{
    int64_t used = model_used(log);
    struct limit_answer answer = look_at(log, t.now_us, 0);
    assert_int_equal(answer.remaining, used < t.limit.size ? t.limit.size - used : 0);
    assert_int_equal(answer.reset_us > 0, used > 0);
    if (used > 0) {
        int64_t at_us = t.now_us + answer.reset_us;
        assert_int_equal(look_at(log, at_us, 0).reset_us, 0);
        assert_int_equal(look_at(log, at_us, 0).remaining, t.limit.size);
        assert_true(look_at(log, at_us - 1, 0).reset_us > 0);
        assert_true(answer.window_end_us > 0
                    && answer.window_end_us <= answer.reset_us);
    }
}

static void check_refusal(const struct log *log, const struct limit_answer *answer,
                          int64_t cost)
{
    assert_int_equal(answer->retry_us == LIMIT_NEVER, cost > t.limit.size);
    if (answer->retry_us != LIMIT_NEVER) {
        int64_t at_us = t.now_us + answer->retry_us;
        assert_true(answer->retry_us > 0);
        assert_true(look_at(log, at_us, cost).is_allowed);
        assert_false(look_at(log, at_us - 1, cost).is_allowed);
    }
}

static void charge(struct log *log, int64_t cost)
{
    int64_t at_us = model_now(log);
    free_chain(sliding_log_drop(&t.limit, t.blocks, &log->state,
                                (struct instant){.us = t.now_us}));
    uint32_t block = sliding_log_is_full(&log->state) ? get_block() : 0;
    sliding_log_add(t.blocks, &log->state, block, log_event(at_us, cost));
    assert_int_equal(sliding_log_place(t.blocks, &log->state), at_us);
    log->events[log->n++] = (struct event){at_us, cost};
}

static bool take(struct log *log, int64_t cost)
{
    struct limit_state before = log->state;
    struct instant now = {.us = t.now_us};
    sliding_log_align(t.blocks, &log->state, now);
    struct limit_answer answer = look_at(log, t.now_us, cost);
    assert_memory_equal(&before, &log->state, sizeof(before));
    assert_int_equal(answer.is_allowed,
                     cost == 0 || model_used(log) + cost <= t.limit.size);
    if (!answer.is_allowed) {
        check_refusal(log, &answer, cost);
    } else if (cost > 0) {
        charge(log, cost);
        struct limit_answer after = look_at(log, t.now_us, 0);
        assert_int_equal(after.remaining, answer.remaining);
        assert_int_equal(after.reset_us, answer.reset_us);
        assert_int_equal(after.window_end_us, answer.window_end_us);
    }
    check(log);
    return answer.is_allowed;
}

static int64_t random_cost(struct prng *prng)
{
    switch (prng_below(prng, 8)) {
    case 0:
        return 0;
    case 1:
        return 1 + (int64_t)prng_below(prng, (uint64_t)t.limit.size);
    case 2:
        return t.limit.size + 1;
    default:
        return 1;
    }
}

static void pause(struct prng *prng)
{
    uint64_t one_us = (uint64_t)(per_us() / t.limit.size);
    uint64_t most_us = prng_below(prng, 10) == 0 ? 2 * (uint64_t)per_us() : 2 * one_us;
    t.now_us += (int64_t)prng_below(prng, most_us + 1);
}

static void check_bound(const struct log *log)
{
    for (unsigned i = 0; i < log->n; i++) {
        int64_t sum = 0;
        for (unsigned j = i; j < log->n; j++) {
            if (log->events[j].at_us - log->events[i].at_us < per_us()) {
                sum += log->events[j].cost;
            }
        }
        assert_true(sum <= t.limit.size);
    }
}

static void traces_agree_with_the_model_and_keep_the_bound(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        static struct log log;
        log = (struct log){0};
        begin_trace(&prng);
        for (int j = 0; j < STEPS; j++) {
            int64_t now_us = t.now_us;
            t.now_us -= (int64_t)(prng_below(&prng, 2)
                                  * prng_below(&prng, LIMIT_CLOCK_SLACK_US));
            (void)take(&log, random_cost(&prng));
            t.now_us = now_us;
            pause(&prng);
            assert_int_equal(t.n_free + blocks_of(&log), BLOCKS - 1);
        }
        check_bound(&log);
    }
}

/* As if the truth had been charged then, as far as the log still holds it and debt allows
 * it. Of events of one moment the sum counts. */
static bool held_at(const struct log *log, int64_t at_us)
{
    int64_t held = 0;
    for (unsigned i = 0; i < log->n; i++) {
        held += log->events[i].at_us == at_us ? log->events[i].cost : 0;
    }
    return held > 0;
}

static void settle(struct log *log, unsigned idx, int64_t truth)
{
    struct event *event = &log->events[idx];
    struct limit_correction correction = {event->at_us, event->cost, truth};
    struct log_chain freed;
    int64_t room = 2 * t.limit.size - model_used(log);
    int64_t change = truth - event->cost;
    change = change > room ? (room > 0 ? room : 0) : change;
    bool is_in = model_now(log) - event->at_us < per_us() && held_at(log, event->at_us);
    bool is_changed = sliding_log_settle(&t.limit, t.blocks, &log->state,
                                         (struct instant){.us = t.now_us}, &correction,
                                         &freed);
    free_chain(freed);
    assert_int_equal(is_changed, is_in && change != 0);
    event->cost += is_changed ? change : 0;
    check(log);
}

static void settled_is_as_if_it_had_been_taken_so(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        static struct log log;
        log = (struct log){0};
        begin_trace(&prng);
        for (int j = 0; j < STEPS; j++) {
            if (log.n > 0 && prng_below(&prng, 2) == 0) {
                unsigned last = log.n - 1;
                unsigned idx = prng_below(&prng, 2) == 0
                                   ? last
                                   : (unsigned)prng_below(&prng, log.n);
                uint64_t most = prng_below(&prng, 2) * (uint64_t)t.limit.size;
                settle(&log, idx, (int64_t)prng_below(&prng, most + 1));
            } else {
                (void)take(&log, random_cost(&prng));
            }
            pause(&prng);
            assert_int_equal(t.n_free + blocks_of(&log), BLOCKS - 1);
        }
    }
}

/* Two logs got a part each of what a third got: merged they hold its events. */
static void merged_is_what_one_log_would_hold(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng;
    prng_init(&prng, seed);
    for (int i = 0; i < prng_traces(TRACES); i++) {
        static struct log parts[2];
        static struct log whole;
        static uint64_t got[LOG_USED_MAX];
        static uint64_t want[LOG_USED_MAX];
        memset(parts, 0, sizeof(parts));
        whole = (struct log){0};
        begin_trace(&prng);
        for (uint64_t j = prng_below(&prng, STEPS); j > 0; j--) {
            if (take(&whole, 1)) {
                charge(&parts[prng_below(&prng, 2)], 1);
            }
            pause(&prng);
        }
        for (int j = 0; j < 2; j++) {
            free_chain(sliding_log_drop(&t.limit, t.blocks, &parts[j].state,
                                        (struct instant){.us = t.now_us}));
        }
        free_chain(sliding_log_drop(&t.limit, t.blocks, &whole.state,
                                    (struct instant){.us = t.now_us}));
        free_chain(sliding_log_merge(t.blocks, &parts[0].state, &parts[1].state));
        unsigned n = sliding_log_read(t.blocks, &whole.state, want);
        assert_int_equal(sliding_log_read(t.blocks, &parts[0].state, got), n);
        assert_memory_equal(got, want, n * sizeof(got[0]));
        assert_int_equal(parts[0].state.log.used, whole.state.log.used);
        assert_int_equal(t.n_free + blocks_of(&parts[0]) + blocks_of(&whole),
                         BLOCKS - 1);
    }
}

/* Stepped back by more than clocks differ: what is later becomes now, nobody is locked
 * out, and no count is lost. */
static void clock_stepped_back(void **context)
{
    (void)context;
    struct prng prng;
    prng_init(&prng, prng_seed(20261130));
    for (int i = 0; i < prng_traces(TRACES); i++) {
        static struct log log;
        log = (struct log){0};
        begin_trace(&prng);
        for (int j = 0; j < STEPS; j++) {
            (void)take(&log, 1);
            pause(&prng);
        }
        uint64_t events[LOG_USED_MAX];
        unsigned n = sliding_log_read(t.blocks, &log.state, events);
        int64_t used = 0;
        t.now_us = sliding_log_place(t.blocks, &log.state) - 3600 * US_PER_S;
        for (unsigned j = 0; j < n; j++) {
            used += log_event_us(events[j]) > t.now_us - per_us();
        }
        sliding_log_align(t.blocks, &log.state, (struct instant){.us = t.now_us});
        struct limit_answer answer = look_at(&log, t.now_us, 0);
        assert_int_equal(answer.remaining,
                         t.limit.size > used ? t.limit.size - used : 0);
        assert_in_range(answer.reset_us, used > 0, per_us());
    }
}

static void never_more_than_two_limits_are_kept(void **context)
{
    (void)context;
    struct prng prng;
    prng_init(&prng, 1);
    begin_trace(&prng);
    t.limit.size = LOG_LIMIT_MAX;
    static struct log parts[4];
    memset(parts, 0, sizeof(parts));
    for (int i = 0; i < 4; i++) {
        charge(&parts[i], LOG_LIMIT_MAX - 1);
        charge(&parts[i], 1);
        t.now_us++;
    }
    for (int i = 1; i < 4; i++) {
        free_chain(sliding_log_merge(t.blocks, &parts[0].state, &parts[i].state));
    }
    assert_int_equal(parts[0].state.log.used, LOG_USED_MAX);
    assert_int_equal(t.n_free + blocks_of(&parts[0]), BLOCKS - 1);
    uint64_t events[LOG_USED_MAX];
    assert_int_equal(sliding_log_read(t.blocks, &parts[0].state, events), 4);
    assert_true(log_event_us(events[3]) == t.now_us - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_agree_with_the_model_and_keep_the_bound),
        cmocka_unit_test(settled_is_as_if_it_had_been_taken_so),
        cmocka_unit_test(merged_is_what_one_log_would_hold),
        cmocka_unit_test(clock_stepped_back),
        cmocka_unit_test(never_more_than_two_limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
