#include "tests/support/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/local.h"

#include "tests/support/amount.h"
#include "tests/support/prng.h"

enum {
    ALGORITHMS = LIMIT_SLIDING_LOG + 1,
    TRACE_STEPS = 150, /* after which all is new */
    SUBJECTS = 6,
    PLACES = 4,     /* of SHAPE_SPREAD: this host, and so many slots less one */
    TAKES_KEPT = 8, /* that may be settled later */
    KEY_BYTES = 48,
    SUCCESSES = 100, /* at least: of each kind */
};

#define START_US (INT64_C(1800000000) * US_PER_S)
#define HOUR_US  (3600 * US_PER_S)
#define DAY_US   (24 * HOUR_US)

/** Which requests a trace is of. */
enum shape {
    SHAPE_ONE = 0, /* one charge of one counter */
    SHAPE_SEVERAL, /* several charges in one slot */
    SHAPE_SPREAD,  /* in several, and on this host */
};

/** A counter. */
struct subject {
    struct limit limit;
    struct calendar calendar;
    uint8_t id[STORE_LIMIT_ID_BYTES];
    unsigned place; /* 0: this host */
    char key[KEY_BYTES];
    struct limit_correction taken[TAKES_KEPT]; /* truth: not used */
    unsigned n_taken;
};

struct step {
    unsigned n_done;
    struct store_take want;
    struct store_take got;
    unsigned places[STORE_CHARGES_MAX];
    struct limit limits[STORE_CHARGES_MAX]; /* as they were then */
};

static struct {
    struct trace_target *target;
    enum shape shape;
    unsigned depth;
    enum limit_algorithm algorithm; /* of SHAPE_ONE, as has_calendars */
    bool has_calendars;
    struct store *local;
    struct counters *counters; /* of the local store */
    struct counters *target_counters;
    struct prng prng;
    int64_t now_us;
    bool is_stepped; /* back, in this trace */
    bool has_log;    /* likewise */
    struct subject of[SUBJECTS];
    unsigned n_subjects;
    unsigned n_traces;
    struct step steps[TRACE_DEPTH_MAX];
    unsigned n_steps; /* takes under way */
    unsigned n_settlements;
    uint64_t n_late; /* settlements, when accounts were settled last */
    uint64_t n_late_there;
    bool is_given_up; /* this trace */
    unsigned n_given_up;
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
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : t.target->n_steps;
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

/* Those of one place have one slot, as what stands in braces is the same. */
static void name_subject(struct subject *subject, unsigned number)
{
    subject->place = t.shape == SHAPE_SPREAD ? (unsigned)below(PLACES) : 1;
    (void)snprintf(subject->key, sizeof(subject->key), "rl:trace:{%u.%u}:%u",
                   t.n_traces, subject->place, number);
}

static void make_subject(struct subject *subject, enum limit_algorithm algorithm,
                         bool has_calendar, unsigned number)
{
    static const int64_t pers_us[] = {1000,    10000,        US_PER_S,
                                      1500000, 7 * US_PER_S, 60 * US_PER_S,
                                      HOUR_US, DAY_US,       31 * DAY_US};
    *subject = (struct subject){.limit = {.algorithm = algorithm}};
    set_length(&subject->limit, pers_us[below(9)]);
    set_amounts(&subject->limit);
    if (has_calendar) {
        set_length(&subject->limit, below(2) == 0 ? 60 * US_PER_S : DAY_US);
        fill_calendar(subject);
        subject->limit.calendar = &subject->calendar;
    }
    t.has_log = t.has_log || algorithm == LIMIT_SLIDING_LOG;
    prng_fill(&t.prng, subject->id, sizeof(subject->id));
    name_subject(subject, number);
}

/* On by what one request takes to drain, mostly; sometimes far, sometimes not at all. Back
 * only where each counter of a request is looked at whatever others say: what lies in the
 * future then is put right when it is looked at. */
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
        if (below(10) == 0 && t.shape != SHAPE_SPREAD) {
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

/* --- comparing --- */

static void describe(const struct step *step, unsigned i)
{
    const struct store_charge *want = &step->want.charges[i];
    const struct store_charge *got = &step->got.charges[i];
    const struct limit *limit = &step->limits[i];
    print_error(
        "now %lld, charge %u of %u, place %u, cost %lld%s%s tie %u%s\n"
        "limit: algorithm %u, requests %lld, size %lld, W %lld, tick %lld us, D "
        "%lld%s\n",
        (long long)step->want.now.us, i, step->want.n_charges, step->places[i],
        (long long)want->cost, step->want.is_peek ? ", peek" : "",
        want->is_lenient ? ", lenient" : "", want->tie,
        step->want.is_allowed == step->got.is_allowed ? "" : ", verdicts differ",
        limit->algorithm, (long long)limit->requests, (long long)limit->size,
        (long long)limit->per_ticks, (long long)limit->tick_us,
        (long long)limit->max_delay_ticks, limit->calendar != NULL ? ", calendar" : "");
    const struct store_charge *both[] = {want, got};
    for (int j = 0; j < 2; j++) {
        const struct limit_answer *a = &both[j]->answer;
        print_error(
            "%s: source %u allowed %d charged %d remaining %lld reset %lld retry %lld "
            "end %lld delay %lld place %lld\n",
            j == 0 ? "local" : "store", both[j]->source, a->is_allowed,
            both[j]->is_charged, (long long)a->remaining, (long long)a->reset_us,
            (long long)a->retry_us, (long long)a->window_end_us, (long long)a->delay_us,
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

/* What a counter holds; the rest is in the answer. */
static bool is_same_held(const struct limit_answer *a, const struct limit_answer *b)
{
    return a->remaining == b->remaining && a->reset_us == b->reset_us
           && a->window_end_us == b->window_end_us;
}

/* Whether what stands in a place refuses the request. */
static bool refuses(const struct step *step, unsigned place)
{
    for (unsigned i = 0; i < step->want.n_charges; i++) {
        const struct store_charge *charge = &step->want.charges[i];
        if (step->places[i] == place && !charge->is_lenient
            && !charge->answer.is_allowed) {
            return true;
        }
    }
    return false;
}

/* Nobody was asked: the request is refused elsewhere. */
static bool is_unasked(const struct store_charge *got)
{
    return got->source == STORE_UNASKED && !got->is_charged;
}

/* In a place that charged it, and gave that back since another refuses. */
static bool is_same_given_back(const struct store_charge *want,
                               const struct store_charge *got)
{
    return got->source == STORE_COUNTED && !got->is_charged
           && want->answer.is_allowed == got->answer.is_allowed
           && want->answer.remaining == got->answer.remaining;
}

static bool is_same_charge(const struct store_charge *want,
                           const struct store_charge *got)
{
    return got->source == STORE_COUNTED && is_same_answer(&want->answer, &got->answer)
           && want->is_charged == got->is_charged
           && (!want->is_charged || want->place == got->place);
}

static bool is_same(const struct step *step, unsigned i)
{
    const struct store_charge *want = &step->want.charges[i];
    const struct store_charge *got = &step->got.charges[i];
    unsigned place = step->places[i];
    if (step->want.is_allowed != step->got.is_allowed) {
        return false;
    }
    if (place != 0 && refuses(step, 0)) { /* this host is asked first */
        return is_unasked(got);
    }
    if (step->want.is_peek && !is_same_held(&step->want.held[i], &step->got.held[i])) {
        return false;
    }
    return step->want.is_allowed || refuses(step, place)
               ? is_same_charge(want, got)
               : is_same_given_back(want, got);
}

static void compare(const struct step *step)
{
    assert_int_equal(step->n_done, 1);
    for (unsigned i = 0; i < step->want.n_charges; i++) {
        if (!is_same(step, i)
            && (t.target->tolerates == NULL
                || !t.target->tolerates(&step->want, &step->got, i))) {
            describe(step, i);
        }
    }
    *(step->want.is_allowed ? &t.n_allowed : &t.n_refused) += 1;
}

static void compare_all(void)
{
    for (unsigned i = 0; i < t.n_steps; i++) {
        compare(&t.steps[i]);
    }
    assert_int_equal(counter_get(t.target_counters, COUNTER_SETTLED_TOO_LATE)
                         - t.n_late_there,
                     counter_get(t.counters, COUNTER_SETTLED_TOO_LATE) - t.n_late);
}

static void give_up_trace(void)
{
    print_message("no answer: a trace is given up\n");
    assert_true(t.target->revive != NULL && t.n_given_up++ < TRACE_GIVEN_UP_MAX);
    t.target->revive(t.target);
    t.is_given_up = true;
}

/* Wait for all that is under way, and compare. A store is asked each time: one that leaves
 * its counters knows no more what they refused a moment ago. */
static void settle_accounts(void)
{
    if (t.target->wait(t.target)) {
        compare_all();
    } else {
        give_up_trace();
    }
    t.n_late = counter_get(t.counters, COUNTER_SETTLED_TOO_LATE);
    t.n_late_there = counter_get(t.target_counters, COUNTER_SETTLED_TOO_LATE);
    t.n_steps = 0;
    t.n_settlements = 0;
    store_leave(t.target->store);
}

/* At once where one is under way at a time: nothing changes meanwhile. */
static void make_room(void)
{
    if (t.n_steps + t.n_settlements >= t.depth) {
        settle_accounts();
    }
}

/* --- steps --- */

static void on_done_here(struct store_take *take)
{
    (void)take;
}

static void on_done(struct store_take *take)
{
    CONTAINER_OF(take, struct step, got)->n_done++;
}

static void keep_taken(struct subject *subject, const struct store_charge *charge)
{
    subject->taken[subject->n_taken++ % TAKES_KEPT] = (struct limit_correction){
        .place = charge->place, .amount = charge->cost};
}

/* Clocks differ by up to a second, but where charges are given back: a counter keeps the
 * later stamp of what it gave back. After a step back no log is peeked at: the local store
 * puts its events right for good then. */
static struct instant skewed_now(void)
{
    int64_t back_us = below(4) == 0 ? LIMIT_CLOCK_SLACK_US
                                    : (int64_t)(below(2) * below(LIMIT_CLOCK_SLACK_US));
    return (struct instant){.us = t.now_us - (t.shape != SHAPE_SPREAD ? back_us : 0)};
}

static void add_charge(struct step *step, unsigned i, const struct subject *subject)
{
    bool is_lenient = t.shape != SHAPE_ONE && below(3) == 0;
    unsigned tie = (unsigned)below(3); /* of one rule, so in one place */
    step->places[i] = t.target->home != NULL ? subject->place : 0;
    step->limits[i] = subject->limit;
    step->want.charges[i] = (struct store_charge){
        .limit = &step->limits[i],
        .limit_id = subject->id,
        .key = (const uint8_t *)subject->key,
        .key_bytes = strlen(subject->key),
        .cost = amount_draw(&t.prng, &subject->limit),
        .is_lenient = is_lenient,
        .tie = (uint8_t)(is_lenient && tie > 0 ? 2 * subject->place + tie : 0),
    };
}

/* The same for the store under test, by keys that go when store_take returns. */
static void take_there(struct step *step)
{
    char keys[SUBJECTS][KEY_BYTES];
    struct store_take *take = &step->got;
    *take = step->want;
    take->deadline = instant_add_us(take->now, TRACE_DEADLINE_US);
    take->counters = t.target_counters;
    take->done = on_done;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        memcpy(keys[i], charge->key, charge->key_bytes);
        charge->key = (const uint8_t *)keys[i];
        if (step->places[i] != 0 && t.target->home != NULL) {
            charge->home = t.target->home;
            charge->name = keys[i];
            charge->name_bytes = charge->key_bytes;
        }
    }
    t.target->set_clock(t.target, take->now);
    store_take(t.target->store, take);
    memset(keys, 'x', sizeof(keys));
}

static void take(void)
{
    struct step *step = &t.steps[t.n_steps++];
    unsigned n = t.shape != SHAPE_ONE ? 1 + (unsigned)below(t.n_subjects) : 1;
    unsigned first = (unsigned)below(t.n_subjects);
    step->n_done = 0;
    step->want = (struct store_take){
        .now = skewed_now(),
        .n_charges = n,
        .is_peek = below(6) == 0 && !(t.is_stepped && t.has_log),
        .counters = t.counters,
        .done = on_done_here,
    };
    for (unsigned i = 0; i < n; i++) {
        add_charge(step, i, &t.of[(first + i) % t.n_subjects]);
    }
    take_there(step);
    store_take(t.local, &step->want);
    for (unsigned i = 0; i < n; i++) {
        if (step->want.charges[i].is_charged) {
            keep_taken(&t.of[(first + i) % t.n_subjects], &step->want.charges[i]);
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

static void settle_there(const struct store_settlement *settlement, unsigned place)
{
    char key[KEY_BYTES];
    struct store_settlement there = *settlement;
    there.counters = t.target_counters;
    memcpy(key, settlement->key, settlement->key_bytes);
    there.key = (const uint8_t *)key;
    if (place != 0 && t.target->home != NULL) {
        there.home = t.target->home;
        there.name = key;
        there.name_bytes = settlement->key_bytes;
    }
    t.target->set_clock(t.target, there.now);
    store_settle(t.target->store, &there);
    memset(key, 'x', sizeof(key));
}

static void settle(void)
{
    t.n_settlements++;
    const struct subject *subject = &t.of[below(t.n_subjects)];
    struct store_settlement settlement = {
        .limit = &subject->limit,
        .limit_id = subject->id,
        .key = (const uint8_t *)subject->key,
        .key_bytes = strlen(subject->key),
        .now = skewed_now(),
        .correction = random_correction(subject),
        .counters = t.counters,
    };
    uint64_t n_late = counter_get(t.counters, COUNTER_SETTLED_TOO_LATE);
    settle_there(&settlement, subject->place);
    store_settle(t.local, &settlement);
    t.n_settled += counter_get(t.counters, COUNTER_SETTLED_TOO_LATE) == n_late;
}

static void step(void)
{
    /* Not where charges are given back: from there on a bucket drains by new numbers, else
     * from its last charge on. */
    if (below(40) == 0 && t.shape != SHAPE_SPREAD) {
        set_amounts(&t.of[below(t.n_subjects)].limit);
    }
    keep_calendars();
    if (below(5) == 0) {
        settle();
    } else {
        take();
    }
    make_room();
    pause();
}

/* --- runs --- */

static void begin(void)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    t.local = local_new(64 << 20, 32 << 20, secret);
    t.counters = counters_new(1);
    t.target_counters = counters_new(1);
    assert_true(t.local != NULL && t.counters != NULL && t.target_counters != NULL);
    t.n_steps = 0; /* where a law failed before */
    t.n_settlements = 0;
    t.n_late = 0;
    t.n_late_there = 0;
    t.n_given_up = 0;
    t.n_allowed = 0;
    t.n_refused = 0;
    t.n_settled = 0;
}

static void end(void)
{
    settle_accounts();
    store_free(t.local);
    store_leave(t.target->store);
    counters_free(t.counters);
    counters_free(t.target_counters);
    print_message("%u allowed, %u refused, %u settled\n", t.n_allowed, t.n_refused,
                  t.n_settled);
    assert_true(t.n_allowed > SUCCESSES && t.n_refused > SUCCESSES
                && t.n_settled > SUCCESSES);
}

static void make_subjects(void)
{
    if (t.shape == SHAPE_ONE) {
        t.n_subjects = 1;
        make_subject(&t.of[0], t.algorithm, t.has_calendars, 0);
        return;
    }
    t.n_subjects = SUBJECTS;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        enum limit_algorithm algorithm = (enum limit_algorithm)below(ALGORITHMS);
        make_subject(&t.of[i], algorithm,
                     algorithm == LIMIT_FIXED_WINDOW && below(2) == 0, i);
    }
}

static void begin_trace(void)
{
    settle_accounts();
    t.n_traces++; /* ever: no key comes again */
    t.is_given_up = false;
    t.is_stepped = false;
    t.has_log = false;
    t.now_us = START_US + (int64_t)below((uint64_t)DAY_US);
    make_subjects();
}

/* Whether steps that are under way may be of one counter, and of one that has groups. */
static bool may_be_grouped(void)
{
    return t.shape != SHAPE_ONE
           || (t.algorithm != LIMIT_LEAKY_BUCKET && t.algorithm != LIMIT_SLIDING_LOG);
}

static void run(void **target, enum shape shape, unsigned depth)
{
    t.target = *target;
    t.shape = shape;
    t.depth = depth < t.target->depth ? depth : t.target->depth;
    if (t.target->has_groups && may_be_grouped()) {
        t.depth = 1;
    }
    begin();
    for (unsigned n = 0; n < steps_wanted(); n++) {
        if (n % TRACE_STEPS == 0 || t.is_given_up) {
            begin_trace();
        }
        step();
    }
    end();
}

static void run_one(void **target, enum limit_algorithm algorithm, bool has_calendars)
{
    t.algorithm = algorithm;
    t.has_calendars = has_calendars;
    run(target, SHAPE_ONE, TRACE_DEPTH_MAX);
}

void trace_sliding_windows(void **target)
{
    run_one(target, LIMIT_SLIDING_WINDOW, false);
}

void trace_token_buckets(void **target)
{
    run_one(target, LIMIT_TOKEN_BUCKET, false);
}

void trace_fixed_windows(void **target)
{
    run_one(target, LIMIT_FIXED_WINDOW, false);
}

void trace_calendars(void **target)
{
    run_one(target, LIMIT_FIXED_WINDOW, true);
}

void trace_leaky_buckets(void **target)
{
    run_one(target, LIMIT_LEAKY_BUCKET, false);
}

void trace_sliding_logs(void **target)
{
    run_one(target, LIMIT_SLIDING_LOG, false);
}

void trace_several(void **target)
{
    run(target, SHAPE_SEVERAL, TRACE_DEPTH_MAX);
}

void trace_spread(void **target)
{
    run(target, SHAPE_SPREAD, 1);
}
