#include "tests/stores/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/stores/bed.h"
#include "tests/support/limit.h"

enum {
    RACING = 300,
    RACED = 100, /* of which so many pass */
    RUNS_MAX = 500,
    THOUSAND = 1000,
    BEFORE = 40,
    MEANWHILE = 5,
};

#define SHORT_US (5 * US_PER_MS)

/** A limit, and what it is called. */
struct named {
    const char *name;
    struct limit limit;
    struct store_home home;
    uint8_t id[STORE_LIMIT_ID_BYTES];
};

/** A take, and what its keys were. */
struct request {
    struct store_take take;
    unsigned n_done;
    char keys[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
};

static struct bed *bed;
static unsigned n_cases;
static struct instant now;
static struct named ten;  /* 10 a minute, sliding */
static struct named five; /* 5 a minute, in windows */

static void name_limit(struct named *named, const char *name, struct limit limit)
{
    *named = (struct named){.name = name, .limit = limit};
    memcpy(named->id, name, strlen(name));
    named->home.kind = bed->kind;
    named->home.n_shards = 1;
    named->home.policy = STORE_POLICY_OPEN;
}

static void set_now(int64_t us)
{
    now.us = us;
    bed->target.set_clock(&bed->target, now);
}

static void wait_for_all(void)
{
    (void)bed->target.wait(&bed->target);
}

static void begin(void **state)
{
    bed = *state;
    n_cases++; /* in keys: nothing is counted yet */
    /* Not where a minute turns: what is synced knows Redis' clock to a round trip. */
    set_now(BED_START_US + n_cases * 10 * MINUTE_US + 10 * US_PER_S);
    name_limit(&ten, "ten", sliding(10, MINUTE_US));
    name_limit(&five, "five", fixed(5, MINUTE_US));
}

/* --- requests --- */

static struct store_charge *add_bytes(struct request *request,
                                      const struct named *named, const void *key,
                                      size_t key_bytes, int64_t cost)
{
    unsigned at = request->take.n_charges++;
    struct store_charge *charge = &request->take.charges[at];
    memcpy(request->keys[at], key, key_bytes);
    *charge = (struct store_charge){
        .limit = &named->limit,
        .limit_id = named->id,
        .key = (const uint8_t *)request->keys[at],
        .key_bytes = key_bytes,
        .cost = cost,
    };
    if (bed->target.home != NULL) {
        charge->home = &named->home;
        charge->name = request->keys[at];
        charge->name_bytes = key_bytes;
    }
    return charge;
}

static int name_key(char *out, size_t out_bytes, const struct named *named,
                    const char *key)
{
    return snprintf(out, out_bytes, "rl:case:{%u.%s}:%s", n_cases, key, named->name);
}

/* Add a charge; what has the same key has the same slot. */
static struct store_charge *add(struct request *request, const struct named *named,
                                const char *key, int64_t cost)
{
    char text[64];
    int n = name_key(text, sizeof(text), named, key);
    return add_bytes(request, named, text, (size_t)n, cost);
}

/* The same, counted on this host. */
static struct store_charge *add_here(struct request *request, const struct named *named,
                                     const char *key, int64_t cost)
{
    struct store_charge *charge = add(request, named, key, cost);
    charge->home = NULL;
    charge->name = NULL;
    return charge;
}

static void add_shadow(struct request *request, const struct named *named,
                       const char *key, int64_t cost)
{
    struct store_charge *shadow = add(request, named, key, cost);
    shadow->is_lenient = true;
    shadow->is_shadow = true;
    shadow->tie = 1;
}

/* Keys are as they were, wherever they are kept by now. */
static void on_done(struct store_take *take)
{
    struct request *request = CONTAINER_OF(take, struct request, take);
    request->n_done++;
    for (unsigned i = 0; i < take->n_charges; i++) {
        assert_memory_equal(take->charges[i].key, request->keys[i],
                            take->charges[i].key_bytes);
    }
}

/* Begin it, by keys that go when that has returned. */
static void go_until(struct request *request, struct instant deadline)
{
    char keys[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    struct store_take *take = &request->take;
    memcpy(keys, request->keys, sizeof(keys));
    for (unsigned i = 0; i < take->n_charges; i++) {
        take->charges[i].key = (const uint8_t *)keys[i];
        take->charges[i].name = take->charges[i].home != NULL ? keys[i] : NULL;
    }
    take->now = now;
    take->deadline = deadline;
    take->counters = bed->counters;
    take->done = on_done;
    store_take(bed->target.store, take);
    memset(keys, 'x', sizeof(keys));
}

static void go(struct request *request)
{
    go_until(request, instant_add_us(now, TRACE_DEADLINE_US));
}

static void go_and_wait(struct request *request)
{
    go(request);
    wait_for_all();
    assert_int_equal(request->n_done, 1);
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        if (request->take.is_allowed) {
            assert_int_equal(request->take.charges[i].source, STORE_COUNTED);
        }
    }
}

/* One charge, waited for. @return whether it was allowed */
static bool ask(const struct named *named, const char *key, int64_t cost)
{
    struct request request = {.n_done = 0};
    const struct store_charge *charge = add(&request, named, key, cost);
    go_and_wait(&request);
    assert_int_equal(charge->is_charged, request.take.is_allowed && cost > 0);
    assert_int_equal(charge->answer.is_allowed, request.take.is_allowed);
    return request.take.is_allowed;
}

/* What is known here only is told Redis first, which waits a moment for others. */
static void tell_all(void)
{
    if (bed->kind == STORE_KIND_REDIS) {
        return;
    }
    wait_for_all();
    store_leave(bed->target.store);
    for (int i = 0; i < 3; i++) {
        bed->run(bed);
        wait_for_all();
    }
}

static int64_t held(struct request *request)
{
    tell_all();
    request->take.is_peek = true;
    go_and_wait(request);
    return request->take.held[0].remaining;
}

static int64_t left(const struct named *named, const char *key)
{
    struct request request = {.n_done = 0};
    (void)add(&request, named, key, 0);
    return held(&request);
}

static int64_t left_here(const struct named *named, const char *key)
{
    struct request request = {.n_done = 0};
    (void)add_here(&request, named, key, 0);
    return held(&request);
}

/* --- takes --- */

void each_take_is_done_once(void **state)
{
    static const int64_t costs[] = {4, 11, 0, 6, 1};
    static const bool is_allowed[] = {true, false, true, true, false};
    struct request requests[5] = {0};
    struct request peek = {.take.is_peek = true};
    begin(state);
    for (unsigned i = 0; i < 5; i++) {
        (void)add(&requests[i], &ten, "a", costs[i]);
        go(&requests[i]);
    }
    if (bed->kind == STORE_KIND_SYNC) {
        tell_all(); /* peeks are answered by Redis */
    }
    (void)add(&peek, &ten, "a", 1);
    go(&peek);
    wait_for_all();
    bed->run(bed);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(requests[i].n_done, 1);
        assert_int_equal(requests[i].take.is_allowed, is_allowed[i]);
    }
    assert_int_equal(peek.n_done, 1);
    assert_false(peek.take.is_allowed);
}

void what_has_no_time_is_done_before_take_returns(void **state)
{
    begin(state);
    for (int64_t late_us = 0; late_us <= US_PER_S; late_us += US_PER_S) {
        struct request request = {.n_done = 0};
        (void)add(&request, &ten, "a", 1);
        (void)add_here(&request, &five, "a", 1);
        go_until(&request, instant_add_us(now, -late_us));
        assert_int_equal(request.n_done, 1);
        assert_true(request.take.is_allowed);
        wait_for_all();
        bed->run(bed);
        assert_int_equal(request.n_done, 1);
    }
}

void a_refusal_charges_nothing(void **state)
{
    begin(state);
    struct request request = {.n_done = 0};
    (void)add(&request, &ten, "a", 4);
    const struct store_charge *refuses = add(&request, &five, "a", 6);
    go_and_wait(&request);
    assert_false(request.take.is_allowed);
    assert_false(request.take.charges[0].is_charged || refuses->is_charged);
    assert_true(request.take.charges[0].answer.is_allowed);
    assert_false(refuses->answer.is_allowed);
    assert_int_equal(request.take.charges[0].answer.remaining, 10);
    assert_int_equal(left(&ten, "a"), 10);
    assert_int_equal(left(&five, "a"), 5);
}

/* Of sixteen counters, also in as many slots. */
static void take_sixteen(struct request *request, bool is_spread, int64_t last_cost)
{
    char key[8];
    for (unsigned i = 0; i < STORE_CHARGES_MAX; i++) {
        struct named *named = is_spread ? &ten : i % 2 == 0 ? &ten : &five;
        (void)snprintf(key, sizeof(key), "%u", is_spread ? i : i / 2);
        (void)add(request, named, key, i + 1 < STORE_CHARGES_MAX ? 1 : last_cost);
    }
    go_and_wait(request);
}

void sixteen_charges_are_all_or_nothing(void **state)
{
    for (int is_spread = 0; is_spread < 2; is_spread++) {
        begin(state);
        struct request refused = {.n_done = 0};
        struct request allowed = {.n_done = 0};
        take_sixteen(&refused, is_spread == 1, 11);
        assert_false(refused.take.is_allowed);
        assert_int_equal(left(&ten, "0"), 10);
        assert_int_equal(left(&ten, "3"), 10);
        take_sixteen(&allowed, is_spread == 1, 1);
        assert_true(allowed.take.is_allowed);
        assert_int_equal(left(&ten, "0"), 9);
        assert_int_equal(left(&ten, "3"), 9);
    }
}

void lenient_charges_refuse_nobody(void **state)
{
    begin(state);
    struct request request = {.n_done = 0};
    (void)add(&request, &ten, "a", 1);
    struct store_charge *lenient = add(&request, &five, "a", 6);
    lenient->is_lenient = true;
    go_and_wait(&request);
    assert_true(request.take.is_allowed);
    assert_true(request.take.charges[0].is_charged);
    assert_false(lenient->is_charged || lenient->answer.is_allowed);
    assert_int_equal(left(&ten, "a"), 9);
    assert_int_equal(left(&five, "a"), 5);
}

void tied_charges_are_made_together(void **state)
{
    for (int64_t cost = 5; cost <= 6; cost++) {
        begin(state);
        struct request request = {.n_done = 0};
        struct store_charge *tied[] = {add(&request, &ten, "a", 1),
                                       add(&request, &five, "a", cost)};
        const struct store_charge *other = add(&request, &ten, "b", 1);
        request.take.charges[2].is_lenient = true;
        for (int i = 0; i < 2; i++) {
            tied[i]->is_lenient = true;
            tied[i]->tie = 1;
        }
        go_and_wait(&request);
        assert_true(request.take.is_allowed && other->is_charged);
        assert_int_equal(tied[0]->is_charged, cost == 5);
        assert_int_equal(tied[1]->is_charged, cost == 5);
        assert_int_equal(left(&ten, "a"), cost == 5 ? 9 : 10);
    }
}

void shadows_refuse_nobody_and_are_counted(void **state)
{
    for (int64_t cost = 3; cost <= 6; cost += 3) {
        begin(state);
        struct request request = {.n_done = 0};
        add_shadow(&request, &five, "a", cost);
        go(&request);
        wait_for_all(); /* maybe longer than for the take */
        assert_int_equal(request.n_done, 1);
        assert_true(request.take.is_allowed);
        assert_int_equal(left(&five, "a"), cost == 3 ? 2 : 5);
    }
}

void a_peek_answers_as_a_take_and_changes_nothing(void **state)
{
    begin(state);
    assert_true(ask(&ten, "a", 4));
    tell_all();
    for (int64_t cost = 6; cost <= 7; cost++) {
        struct request peek = {.take.is_peek = true};
        (void)add(&peek, &ten, "a", cost);
        (void)add(&peek, &five, "b", 2);
        go_and_wait(&peek);
        assert_int_equal(peek.take.is_allowed, cost == 6);
        assert_int_equal(peek.take.charges[0].answer.is_allowed, cost == 6);
        assert_int_equal(peek.take.charges[0].answer.remaining, cost == 6 ? 0 : 6);
        assert_int_equal(peek.take.charges[1].answer.remaining, cost == 6 ? 3 : 5);
        assert_int_equal(peek.take.held[0].remaining, 6);
        assert_int_equal(peek.take.held[1].remaining, 5);
        assert_false(peek.take.charges[0].is_charged
                     || peek.take.charges[1].is_charged);
    }
    assert_int_equal(left(&ten, "a"), 6);
    assert_int_equal(left(&five, "b"), 5);
}

void no_cost_passes_and_size_0_refuses(void **state)
{
    struct named none;
    begin(state);
    name_limit(&none, "none", sliding(0, MINUTE_US));
    assert_true(ask(&none, "a", 0));
    assert_false(ask(&none, "a", 1));
    assert_true(ask(&ten, "a", 10));
    assert_true(ask(&ten, "a", 0));
    assert_false(ask(&ten, "a", 1));
}

/* --- counters --- */

void a_counter_is_a_limit_and_a_key(void **state)
{
    begin(state);
    assert_true(ask(&ten, "a", 3));
    assert_true(ask(&five, "a", 3));
    assert_true(ask(&ten, "b", 1));
    assert_int_equal(left(&ten, "a"), 7);
    assert_int_equal(left(&five, "a"), 2);
    assert_int_equal(left(&ten, "b"), 9);
}

static int64_t left_of_bytes(const void *key, size_t key_bytes)
{
    struct request request = {.n_done = 0};
    (void)add_bytes(&request, &ten, key, key_bytes, 0);
    return held(&request);
}

void keys_are_any_bytes(void **state)
{
    static const char key[] = "\0\r\n{}{a}}*$1 %,=|:\"'\xff\xc3\xa4 GET k";
    char other[sizeof(key) + 4];
    struct request request = {.n_done = 0};
    begin(state);
    (void)add_bytes(&request, &ten, key, sizeof(key), 3);
    go_and_wait(&request);
    assert_true(request.take.is_allowed);
    for (size_t i = 0; i < sizeof(key); i++) {
        memcpy(other, key, sizeof(key));
        other[i] ^= 1;
        assert_int_equal(left_of_bytes(other, sizeof(key)), 10);
    }
    assert_int_equal(left_of_bytes(key, sizeof(key) - 1), 10);
    assert_int_equal(left_of_bytes(key, sizeof(key)), 7);
}

void long_keys_that_end_differently(void **state)
{
    char key[STORE_NAME_BYTES_MAX];
    struct request request = {.n_done = 0};
    begin(state);
    memset(key, 'k', sizeof(key));
    (void)snprintf(key, sizeof(key), "%u", n_cases);
    (void)add_bytes(&request, &ten, key, sizeof(key), 3);
    go_and_wait(&request);
    assert_int_equal(left_of_bytes(key, sizeof(key)), 7);
    key[sizeof(key) - 1] = 'l';
    assert_int_equal(left_of_bytes(key, sizeof(key)), 10);
}

void takes_under_way_on_one_counter_are_exact(void **state)
{
    static struct request requests[RACING];
    struct named hundred;
    unsigned n_allowed = 0;
    begin(state);
    name_limit(&hundred, "hundred", sliding(RACED, MINUTE_US));
    memset(requests, 0, sizeof(requests));
    for (unsigned i = 0; i < RACING; i++) {
        (void)add(&requests[i], &hundred, "a", 1);
        go(&requests[i]);
    }
    wait_for_all();
    for (unsigned i = 0; i < RACING; i++) {
        assert_int_equal(requests[i].n_done, 1);
        n_allowed += requests[i].take.is_allowed;
    }
    /* A lease that is granted before the last of them are asked about comes after they are
     * refused: it is there for the next. */
    int64_t n_left = left(&hundred, "a");
    assert_int_equal(n_allowed + n_left, RACED);
    assert_true(n_left == 0 || bed->kind == STORE_KIND_LEASE);
}

void one_call_whatever_the_number_of_charges(void **state)
{
    begin(state);
    if (bed->n_calls == NULL) {
        skip(); /* there is nobody to call */
    }
    for (unsigned n = 1; n <= STORE_CHARGES_MAX; n++) {
        struct request request = {.n_done = 0};
        char key[64];
        uint64_t n_calls = bed->n_calls(bed);
        for (unsigned i = 0; i < n; i++) {
            int len = snprintf(key, sizeof(key), "rl:case:{%u}:%u", n_cases, i);
            (void)add_bytes(&request, &ten, key, (size_t)len, 0);
        }
        go_and_wait(&request);
        assert_true(request.take.is_allowed);
        assert_int_equal(bed->n_calls(bed) - n_calls, 1);
    }
}

/* --- settling --- */

/* What a request of one charge was is to be so much. @return whether that changed it */
static bool settle_to(struct request *request, const struct named *named, int64_t truth)
{
    const struct store_charge *charge = &request->take.charges[0];
    tell_all(); /* it is settled there */
    uint64_t n_late = counter_get(bed->counters, COUNTER_SETTLED_TOO_LATE);
    char key[64];
    memcpy(key, request->keys[0], charge->key_bytes);
    struct store_settlement settlement = {
        .limit = &named->limit,
        .limit_id = named->id,
        .key = (const uint8_t *)key,
        .key_bytes = charge->key_bytes,
        .home = charge->home,
        .name = charge->home != NULL ? key : NULL,
        .name_bytes = charge->name_bytes,
        .correction = {charge->place, charge->cost, truth},
        .now = now,
        .counters = bed->counters,
    };
    store_settle(bed->target.store, &settlement);
    memset(key, 'x', sizeof(key));
    wait_for_all();
    return counter_get(bed->counters, COUNTER_SETTLED_TOO_LATE) == n_late;
}

void settled_to_nothing_less_and_more(void **state)
{
    static const int64_t truths[] = {0, 1, 6, 15};
    static const int64_t lefts[] = {8, 7, 2, 0};
    for (unsigned i = 0; i < 4; i++) {
        begin(state);
        struct request request = {.n_done = 0};
        (void)add(&request, &ten, "a", 4);
        go_and_wait(&request);
        assert_true(ask(&ten, "a", 2));
        assert_true(settle_to(&request, &ten, truths[i]));
        assert_int_equal(left(&ten, "a"), lefts[i]);
        if (bed->kind != STORE_KIND_SYNC) { /* which hears of it at an exchange */
            assert_false(ask(&ten, "a", lefts[i] + 1));
        }
    }
}

void settled_after_its_window(void **state)
{
    begin(state);
    struct request request = {.n_done = 0};
    if (bed->kind == STORE_KIND_SYNC) {
        skip(); /* a minute without an exchange: policies decide */
    }
    (void)add(&request, &five, "a", 4);
    go_and_wait(&request);
    set_now(now.us + MINUTE_US);
    assert_true(ask(&five, "a", 2));
    assert_false(settle_to(&request, &five, 0));
    assert_int_equal(left(&five, "a"), 3);
}

void settled_twice_gives_no_more_than_is_used(void **state)
{
    begin(state);
    struct request request = {.n_done = 0};
    (void)add(&request, &ten, "a", 4);
    go_and_wait(&request);
    assert_true(settle_to(&request, &ten, 0));
    assert_false(settle_to(&request, &ten, 0));
    assert_int_equal(left(&ten, "a"), 10);
}

/* --- several places --- */

void this_host_and_elsewhere_are_all_or_nothing(void **state)
{
    for (int is_here = 0; is_here < 2; is_here++) {
        begin(state);
        struct request request = {.n_done = 0};
        (void)add_here(&request, &ten, "here", is_here == 1 ? 11 : 1);
        (void)add(&request, &ten, "there", is_here == 1 ? 1 : 11);
        go_and_wait(&request);
        assert_false(request.take.is_allowed);
        assert_false(request.take.charges[0].is_charged);
        assert_false(request.take.charges[1].is_charged);
        assert_int_equal(left_here(&ten, "here"), 10);
        assert_int_equal(left(&ten, "there"), 10);
        struct request again = {.n_done = 0};
        (void)add_here(&again, &ten, "here", 1);
        (void)add(&again, &ten, "there", 2);
        go_and_wait(&again);
        assert_true(again.take.is_allowed);
        assert_int_equal(left_here(&ten, "here"), 9);
        assert_int_equal(left(&ten, "there"), 8);
    }
}

/* Whichever refuses: what others charged is given back. */
void slots_are_all_or_nothing(void **state)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    for (unsigned refuses = 0; refuses < 4; refuses++) {
        begin(state);
        struct request request = {.n_done = 0};
        for (unsigned i = 0; i < 4; i++) {
            (void)add(&request, &ten, keys[i], i == refuses ? 11 : 4);
        }
        go_and_wait(&request);
        assert_false(request.take.is_allowed);
        for (unsigned i = 0; i < 4; i++) {
            const struct store_charge *charge = &request.take.charges[i];
            assert_int_equal(charge->answer.is_allowed, i != refuses);
            assert_int_equal(charge->answer.remaining, 10);
            assert_int_equal(left(&ten, keys[i]), 10);
        }
    }
}

/* --- what ends before an answer is there --- */

void counters_of_the_thread_may_go(void **state)
{
    begin(state);
    struct request request = {.n_done = 0};
    add_shadow(&request, &five, "a", 3);
    go(&request);
    assert_int_equal(request.n_done, 1); /* what comes yet is not waited for */
    store_leave(bed->target.store);
    counters_free(bed->counters); /* a sanitizer sees who uses them */
    bed->counters = counters_new(BED_COUNTED);
    assert_non_null(bed->counters);
    wait_for_all();
    assert_int_equal(left(&five, "a"), 2);
}

/* What is asked of somebody, and waited for. */
static bool may_be_late(void)
{
    return bed->stall != NULL && bed->kind != STORE_KIND_SYNC;
}

/* Ask what does not answer in time. */
static void ask_in_vain(struct request *request, const struct named *named)
{
    (void)add(request, named, "a", 3);
    bed->stall(bed, true);
    go_until(request, instant_add_us(now, SHORT_US));
    for (unsigned i = 0; i < RUNS_MAX && request->n_done == 0; i++) {
        bed->run(bed);
    }
    assert_int_equal(request->n_done, 1);
    assert_int_equal(request->take.failure, STORE_DEADLINE);
}

static void answer_late(struct request *request)
{
    struct store_take before = request->take;
    bed->stall(bed, false);
    wait_for_all();
    bed->run(bed);
    wait_for_all();
    assert_int_equal(request->n_done, 1);
    assert_memory_equal(&request->take, &before, sizeof(before));
}

void a_late_answer_changes_none_and_stays_charged(void **state)
{
    struct request request = {.n_done = 0};
    begin(state);
    if (!may_be_late()) {
        skip();
    }
    ask_in_vain(&request, &ten);
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_OPEN);
    answer_late(&request);
    assert_int_equal(left(&ten, "a"), 7);
}

void a_late_answer_to_a_refusal_is_given_back(void **state)
{
    struct request request = {.n_done = 0};
    begin(state);
    if (!may_be_late()) {
        skip();
    }
    ten.home.policy = STORE_POLICY_CLOSED;
    ask_in_vain(&request, &ten);
    assert_false(request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_CLOSED);
    answer_late(&request);
    assert_int_equal(left(&ten, "a"), 10);
}

/* Leases are spent, and what is synced is counted, whether Redis answers or not. */
void what_is_counted_ahead_waits_for_nobody(void **state)
{
    struct named thousand;
    begin(state);
    if (bed->kind == STORE_KIND_REDIS) {
        skip();
    }
    name_limit(&thousand, "thousand", sliding(THOUSAND, MINUTE_US));
    for (unsigned i = 0; i < BEFORE; i++) {
        assert_true(ask(&thousand, "a", 1));
        bed->run(bed);
    }
    bed->stall(bed, true);
    for (unsigned i = 0; i < MEANWHILE; i++) {
        struct request request = {.n_done = 0};
        (void)add(&request, &thousand, "a", 1);
        go(&request);
        assert_int_equal(request.n_done, 1);
        assert_true(request.take.is_allowed);
        assert_int_equal(request.take.charges[0].source, STORE_COUNTED);
    }
    bed->stall(bed, false);
    assert_int_equal(left(&thousand, "a"), THOUSAND - BEFORE - MEANWHILE);
}
