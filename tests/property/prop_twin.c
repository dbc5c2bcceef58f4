/* The law of twins: the Lua scripts, run by a real redis-server, answer as the C functions do,
 * by way of the local store, over random traces: takes, peeks and settlements of one
 * counter, whose numbers change in between, by clocks that differ, are stepped back and
 * leap; then requests of several charges, lenient and tied ones among them. Verdict,
 * remaining, reset, retry, delay, the window's end and the place are all the same.
 * STEPS=n sets the number of steps for each algorithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/local.h"

#include "tests/support/prng.h"
#include "tests/support/twin.h"

enum {
    STEPS_DEFAULT = 20000,
    TRACE_STEPS = 150,
    BATCH = 50, /* under way at a time: fewer bytes than a socket holds */
    SUBJECTS = 6,
    TAKES_KEPT = 8, /* that may be settled later */
    KEY_BYTES = 24,
};

#define START_US (INT64_C(1800000000) * US_PER_S)
#define HOUR_US  (3600 * US_PER_S)
#define DAY_US   (24 * HOUR_US)

struct subject {
    struct limit limit;
    struct calendar calendar;
    uint8_t id[STORE_LIMIT_ID_BYTES];
    char key[KEY_BYTES];
    struct limit_correction taken[TAKES_KEPT]; /* truth: not used */
    unsigned n_taken;
};

struct step {
    bool is_settlement;
    bool is_changed; /* settlement */
    struct store_take want;
    struct store_take got;
    struct limit limits[STORE_CHARGES_MAX]; /* as they were then */
};

static struct {
    struct twin twin;
    struct store *local;
    struct counters counters;
    struct prng prng;
    int64_t now_us;
    bool is_stepped; /* back, in this trace */
    bool has_log;    /* likewise */
    struct subject of[SUBJECTS];
    unsigned n_subjects;
    unsigned n_traces;
    struct step steps[BATCH];
    unsigned n_steps;
    unsigned n_allowed;
    unsigned n_refused;
    unsigned n_settled;
} t;

static uint64_t below(uint64_t limit)
{
    return prng_below(&t.prng, limit);
}

static unsigned steps_wanted(void)
{
    const char *text = getenv("STEPS"); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : STEPS_DEFAULT;
}

/* The amounts of a limit: they may change while it counts. */
static void set_amounts(struct limit *limit)
{
    static const int64_t amounts[] = {1,    2,       3,
                                      7,    10,      60,
                                      1000, 1000000, LIMIT_AMOUNT_MAX};
    bool is_log = limit->algorithm == LIMIT_SLIDING_LOG;
    limit->requests = below(30) == 0 ? 0 : amounts[below(is_log ? 7 : 9)];
    limit->size = limit->requests;
    if (limit->algorithm == LIMIT_TOKEN_BUCKET && limit->requests > 0) {
        limit->size = amounts[below(9)];
    } else if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        limit->max_delay_ticks = 1 + (int64_t)below((uint64_t)limit->per_ticks);
        limit->size = limit_leaky_size(limit);
    }
}

static void set_length(struct limit *limit, int64_t per_us)
{
    limit->tick_us = 1;
    while (per_us / limit->tick_us > 1000000) {
        limit->tick_us *= 10;
    }
    limit->per_ticks = per_us / limit->tick_us;
}

/* Windows of one length, but for one, which an hour is added to, as where clocks are
 * changed. */
static void fill_calendar(struct subject *subject)
{
    const int64_t hour_s = HOUR_US / US_PER_S;
    struct calendar_start starts[CALENDAR_STARTS];
    int64_t per_s = subject->limit.per_ticks * subject->limit.tick_us / US_PER_S;
    int64_t now_s = t.now_us / US_PER_S;
    int64_t longer = (START_US + DAY_US / 2) / US_PER_S / per_s;
    int64_t i = now_s / per_s;
    if (i > longer) {
        i = (now_s - hour_s) / per_s;
        i = i > longer ? i : longer;
    }
    for (int n = 0; n < CALENDAR_STARTS; n++, i++) {
        int64_t start_s = i * per_s + (i > longer ? hour_s : 0);
        starts[n] = (struct calendar_start){start_s, start_s * US_PER_S};
    }
    calendar_fill(&subject->calendar, starts);
}

static void make_subject(struct subject *subject, enum limit_algorithm algorithm,
                         unsigned number)
{
    static const int64_t pers_us[] = {1000,    10000,        US_PER_S,
                                      1500000, 7 * US_PER_S, 60 * US_PER_S,
                                      HOUR_US, DAY_US,       31 * DAY_US};
    *subject = (struct subject){.limit = {.algorithm = algorithm}};
    set_length(&subject->limit, pers_us[below(9)]);
    set_amounts(&subject->limit);
    if (algorithm == LIMIT_FIXED_WINDOW && below(2) == 0) {
        set_length(&subject->limit, below(2) == 0 ? 60 * US_PER_S : DAY_US);
        fill_calendar(subject);
        subject->limit.calendar = &subject->calendar;
    }
    t.has_log = t.has_log || algorithm == LIMIT_SLIDING_LOG;
    prng_fill(&t.prng, subject->id, sizeof(subject->id));
    (void)snprintf(subject->key, sizeof(subject->key), "%u:%u", t.n_traces, number);
}

static int64_t random_cost(const struct limit *limit)
{
    uint64_t size = (uint64_t)(limit->size < LIMIT_AMOUNT_MAX ? limit->size
                                                              : LIMIT_AMOUNT_MAX);
    switch (below(8)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)below(size + 1);
    case 2:
        return (int64_t)(size < LIMIT_AMOUNT_MAX ? size + 1 : size);
    case 3:
        return (int64_t)size;
    default:
        return 1 + (int64_t)below(size / 8 + 1);
    }
}

/* On by what one request takes to drain, mostly; sometimes far, sometimes not at all. */
static void pause(void)
{
    const struct limit *limit = &t.of[0].limit;
    uint64_t per_us = (uint64_t)(limit->per_ticks * limit->tick_us);
    uint64_t one_us = per_us / (uint64_t)(limit->requests + 1);
    switch (below(12)) {
    case 0:
        t.now_us += (int64_t)below(2 * per_us + 1);
        return;
    case 1:
        t.now_us += (int64_t)(per_us - (uint64_t)t.now_us % per_us - below(2));
        return;
    case 2:
        return;
    case 3:
        t.now_us += below(20) == 0 ? 40 * DAY_US : 0;
        return;
    case 4:
        if (below(10) == 0) {
            t.now_us -= (int64_t)below((uint64_t)HOUR_US);
            t.is_stepped = true;
        }
        return;
    default:
        t.now_us += (int64_t)below(2 * one_us + 2);
    }
}

static void keep_calendars(void)
{
    for (unsigned i = 0; i < t.n_subjects; i++) {
        if (t.of[i].limit.calendar != NULL && below(3) == 0) {
            fill_calendar(&t.of[i]);
        }
    }
}

static void on_taken(struct store_take *take)
{
    (void)take;
}

static void describe(const struct step *step, unsigned i)
{
    const struct store_charge *want = &step->want.charges[i];
    const struct store_charge *got = &step->got.charges[i];
    const struct limit *limit = &step->limits[i];
    print_error(
        "now %lld, charge %u of %u, cost %lld%s%s tie %u%s\n"
        "limit: algorithm %u, requests %lld, size %lld, W %lld, tick %lld us, D "
        "%lld%s\n",
        (long long)step->want.now.us, i, step->want.n_charges, (long long)want->cost,
        step->want.is_peek ? ", peek" : "", want->is_lenient ? ", lenient" : "",
        want->tie,
        step->want.is_allowed == step->got.is_allowed ? "" : ", verdicts differ",
        limit->algorithm, (long long)limit->requests, (long long)limit->size,
        (long long)limit->per_ticks, (long long)limit->tick_us,
        (long long)limit->max_delay_ticks, limit->calendar != NULL ? ", calendar" : "");
    const struct store_charge *both[] = {want, got};
    for (int j = 0; j < 2; j++) {
        const struct limit_answer *a = &both[j]->answer;
        print_error(
            "%s: allowed %d charged %d remaining %lld reset %lld retry %lld end "
            "%lld delay %lld place %lld\n",
            j == 0 ? "C  " : "Lua", a->is_allowed, both[j]->is_charged,
            (long long)a->remaining, (long long)a->reset_us, (long long)a->retry_us,
            (long long)a->window_end_us, (long long)a->delay_us,
            (long long)(both[j]->is_charged ? both[j]->place : 0));
    }
    fail();
}

static bool is_same_answer(const struct limit_answer *a, const struct limit_answer *b)
{
    return a->is_allowed == b->is_allowed && a->remaining == b->remaining
           && a->reset_us == b->reset_us && a->retry_us == b->retry_us
           && a->window_end_us == b->window_end_us && a->delay_us == b->delay_us;
}

static void compare_takes(const struct step *step)
{
    for (unsigned i = 0; i < step->want.n_charges; i++) {
        const struct store_charge *want = &step->want.charges[i];
        const struct store_charge *got = &step->got.charges[i];
        if (step->want.is_allowed != step->got.is_allowed
            || !is_same_answer(&want->answer, &got->answer)
            || want->is_charged != got->is_charged
            || (want->is_charged && want->place != got->place)
            || (step->want.is_peek
                && !is_same_answer(&step->want.held[i], &step->got.held[i]))) {
            describe(step, i);
        }
    }
    *(step->want.is_allowed ? &t.n_allowed : &t.n_refused) += 1;
}

/* Read what was sent, and compare. */
static void settle_accounts(void)
{
    for (unsigned i = 0; i < t.n_steps; i++) {
        struct step *step = &t.steps[i];
        if (step->is_settlement) {
            assert_int_equal(twin_get_settled(&t.twin), step->is_changed);
            t.n_settled += step->is_changed;
        } else {
            twin_get_take(&t.twin, &step->got);
            compare_takes(step);
        }
    }
    t.n_steps = 0;
}

static struct step *new_step(void)
{
    if (t.n_steps == BATCH) {
        settle_accounts();
    }
    return &t.steps[t.n_steps++];
}

static void keep_taken(struct subject *subject, const struct store_charge *charge)
{
    subject->taken[subject->n_taken++ % TAKES_KEPT] = (struct limit_correction){
        .place = charge->place, .amount = charge->cost};
}

/* Clocks differ by up to a second. After a step back no log is peeked at: the local store
 * puts its events right for good then. */
static struct instant skewed_now(void)
{
    int64_t back_us = below(4) == 0 ? LIMIT_CLOCK_SLACK_US
                                    : (int64_t)(below(2) * below(LIMIT_CLOCK_SLACK_US));
    return (struct instant){.us = t.now_us - back_us};
}

static void take(bool is_multiple)
{
    struct step *step = new_step();
    struct twin_key keys[SUBJECTS];
    struct subject *subjects[SUBJECTS];
    unsigned n = is_multiple ? 1 + (unsigned)below(t.n_subjects) : 1;
    unsigned first = (unsigned)below(t.n_subjects);
    step->is_settlement = false;
    step->want = (struct store_take){
        .now = skewed_now(),
        .n_charges = n,
        .is_peek = below(6) == 0 && !(t.is_stepped && t.has_log),
        .counters = &t.counters,
        .done = on_taken,
    };
    for (unsigned i = 0; i < n; i++) {
        struct subject *subject = subjects[i] = &t.of[(first + i) % t.n_subjects];
        bool is_lenient = is_multiple && below(3) == 0;
        step->limits[i] = subject->limit;
        step->want.charges[i] = (struct store_charge){
            .limit = &step->limits[i],
            .limit_id = subject->id,
            .key = (const uint8_t *)subject->key,
            .key_bytes = strlen(subject->key),
            .cost = random_cost(&subject->limit),
            .is_lenient = is_lenient,
            .tie = (uint8_t)(is_lenient ? below(3) : 0),
        };
        keys[i] = (struct twin_key){subject->key, strlen(subject->key)};
    }
    step->got = step->want;
    twin_send_take(&t.twin, TWIN_TEST, &step->want, keys);
    store_take(t.local, &step->want);
    for (unsigned i = 0; i < n; i++) {
        if (step->want.charges[i].is_charged) {
            keep_taken(subjects[i], &step->want.charges[i]);
        }
    }
}

static struct limit_correction random_correction(const struct subject *subject)
{
    unsigned n = subject->n_taken < TAKES_KEPT ? subject->n_taken : TAKES_KEPT;
    struct limit_correction correction = {0};
    if (n > 0) {
        unsigned last = (subject->n_taken - 1) % TAKES_KEPT;
        correction = subject->taken[below(2) == 0 ? last : below(n)];
    }
    if (below(10) == 0) {
        correction.place += (int64_t)below(3);
        correction.amount = (int64_t)below(LIMIT_AMOUNT_MAX + 1);
    }
    static const int64_t truths[] = {0, 1, 5, LIMIT_AMOUNT_MAX};
    correction.truth = below(2) == 0
                           ? truths[below(4)]
                           : (int64_t)below(2 * (uint64_t)correction.amount + 1);
    if (correction.truth > LIMIT_AMOUNT_MAX) {
        correction.truth = LIMIT_AMOUNT_MAX;
    }
    return correction;
}

static void settle(void)
{
    struct step *step = new_step();
    struct subject *subject = &t.of[below(t.n_subjects)];
    step->is_settlement = true;
    step->limits[0] = subject->limit;
    struct store_settlement settlement = {
        .limit = &step->limits[0],
        .limit_id = subject->id,
        .key = (const uint8_t *)subject->key,
        .key_bytes = strlen(subject->key),
        .now = skewed_now(),
        .correction = random_correction(subject),
        .counters = &t.counters,
    };
    uint64_t n_late = counter_get(&t.counters, COUNTER_SETTLED_TOO_LATE);
    struct twin_key key = {subject->key, strlen(subject->key)};
    twin_send_settlement(&t.twin, TWIN_TEST, &settlement, &key);
    store_settle(t.local, &settlement);
    step->is_changed = counter_get(&t.counters, COUNTER_SETTLED_TOO_LATE) == n_late;
}

static void step(bool is_multiple)
{
    if (below(40) == 0) {
        set_amounts(&t.of[below(t.n_subjects)].limit);
    }
    keep_calendars();
    if (below(5) == 0) {
        settle();
    } else {
        take(is_multiple);
    }
    pause();
}

static void begin(uint64_t seed)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    t.local = local_new(64 << 20, 32 << 20, secret);
    assert_non_null(t.local);
    t.n_allowed = 0;
    t.n_refused = 0;
    t.n_settled = 0;
}

static void end(void)
{
    settle_accounts();
    store_free(t.local);
    freeReplyObject(redis_server_ask(&t.twin.server, "FLUSHALL"));
    print_message("%u allowed, %u refused, %u settled\n", t.n_allowed, t.n_refused,
                  t.n_settled);
    assert_true(t.n_allowed > 100 && t.n_refused > 100 && t.n_settled > 100);
}

static void begin_trace(void)
{
    settle_accounts();
    t.n_traces++;
    t.is_stepped = false;
    t.has_log = false;
    t.now_us = START_US + (int64_t)below((uint64_t)DAY_US);
}

static void one_subject(enum limit_algorithm algorithm)
{
    begin(prng_seed(20261130));
    t.n_subjects = 1;
    for (unsigned n = 0; n < steps_wanted(); n++) {
        if (n % TRACE_STEPS == 0) {
            begin_trace();
            make_subject(&t.of[0], algorithm, 0);
        }
        step(false);
    }
    end();
}

static void sliding_windows(void **context)
{
    (void)context;
    one_subject(LIMIT_SLIDING_WINDOW);
}

static void token_buckets(void **context)
{
    (void)context;
    one_subject(LIMIT_TOKEN_BUCKET);
}

static void fixed_windows(void **context)
{
    (void)context;
    one_subject(LIMIT_FIXED_WINDOW);
}

static void leaky_buckets(void **context)
{
    (void)context;
    one_subject(LIMIT_LEAKY_BUCKET);
}

static void sliding_logs(void **context)
{
    (void)context;
    one_subject(LIMIT_SLIDING_LOG);
}

static void begin_requests(void)
{
    begin_trace();
    t.n_subjects = SUBJECTS;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        make_subject(&t.of[i], (enum limit_algorithm)below(LIMIT_SLIDING_LOG + 1), i);
    }
}

/* All or nothing, as the local store does it. */
static void requests_of_several_charges(void **context)
{
    (void)context;
    begin(prng_seed(20261130));
    for (unsigned n = 0; n < steps_wanted(); n++) {
        if (n % TRACE_STEPS == 0) {
            begin_requests();
        }
        step(true);
    }
    end();
}

static int start(void **context)
{
    (void)context;
    twin_start(&t.twin);
    return 0;
}

static int stop(void **context)
{
    (void)context;
    assert_int_equal(t.twin.repairs.n_values, 0);
    twin_stop(&t.twin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sliding_windows),
        cmocka_unit_test(token_buckets),
        cmocka_unit_test(fixed_windows),
        cmocka_unit_test(leaky_buckets),
        cmocka_unit_test(sliding_logs),
        cmocka_unit_test(requests_of_several_charges),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
