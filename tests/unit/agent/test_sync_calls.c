/* A worker's side of sync, on a seam whose calls a Redis in C carries out when told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/courier.h"
#include "agent/store/notebook.h"
#include "agent/store/redis.h"
#include "agent/store/sync_calls.h"

#include "tests/simulation/centre.h"
#include "tests/support/fake_seam.h"
#include "tests/support/limit.h"

#define INTERVAL_US (100 * US_PER_MS)

static const uint8_t host[SCRIPT_HOST_BYTES] = {1, 2, 3};

static struct {
    struct fake_seam seam;
    struct health *health;
    struct syncs *syncs;
    struct sync_calls *calls;
    struct centre *centre;
    struct limit hundred;
    struct store_home sync;
    struct store_home plain;
    struct store_take take;
    uint32_t charged;
    uint32_t unknown;
    uint32_t unheld;
    bool is_news; /* what no exchange has told of yet is charged */
    unsigned n_served;
    unsigned n_tried;
    unsigned n_names;
    char names[3 * SYNC_CALLS_ROUND][16]; /* of charge_many */
} t;

static int set_up(void **context)
{
    (void)context;
    memset(&t, 0, sizeof(t));
    fake_seam_init(&t.seam, (struct instant){MINUTE_START_US});
    t.health = health_new(0, 1, t.seam.now);
    t.syncs = syncs_new(INTERVAL_US);
    t.centre = centre_new();
    const struct sync_calls_options options = {
        .syncs = t.syncs,
        .seam = &t.seam.seam,
        .health = t.health,
        .host = host,
        .worker = 3,
    };
    t.calls = sync_calls_new(&options);
    t.hundred = sliding(100, MINUTE_US);
    t.sync.kind = STORE_KIND_SYNC;
    t.plain.kind = STORE_KIND_REDIS;
    return t.health == NULL || t.syncs == NULL || t.calls == NULL ? -1 : 0;
}

static int tear_down(void **context)
{
    (void)context;
    assert_int_equal(sync_calls_n_under_way(t.calls), t.seam.n_open);
    sync_calls_free(t.calls);
    syncs_free(t.syncs);
    health_free(t.health);
    centre_free(t.centre);
    return 0;
}

/* --- requests --- */

static void take_begin(void)
{
    t.take = (struct store_take){.now = t.seam.now};
}

/* Hear that Redis has nothing of a counter, as if it had been used before. */
static void meet(struct store_charge charge)
{
    enum {
        WATCHER = 1
    };
    const struct table_key key = syncs_key(t.syncs, &charge);
    const struct sync_caller caller = {t.seam.now, 1, true};
    const struct sync_news news = {.server = t.seam.now};
    struct sync_errand errand;
    struct sync_order order;
    if (syncs_look(t.syncs, &key, charge.limit, t.seam.now).is_there) {
        return;
    }
    charge.cost = 0;
    if (syncs_charge(t.syncs, &key, &caller, &charge, &errand) == SYNC_ALLOWED) {
        assert_true(syncs_watch(t.syncs, &key, WATCHER, t.seam.now));
        assert_true(syncs_begin(t.syncs, &key, WATCHER, false, t.seam.now, &order));
        syncs_end(t.syncs, &order, charge.limit, &news, t.seam.now);
        assert_false(syncs_begin(t.syncs, &key, WATCHER, true, t.seam.now, &order));
    }
}

static struct store_charge *add(const struct store_home *home,
                                const struct limit *limit, const char *name,
                                int64_t cost)
{
    struct store_charge *charge = &t.take.charges[t.take.n_charges++];
    *charge = (struct store_charge){
        .limit = limit,
        .home = home,
        .key = (const uint8_t *)name,
        .key_bytes = strlen(name),
        .cost = cost,
        .source = STORE_UNASKED,
    };
    if (home == &t.sync && !t.is_news) {
        meet(*charge);
    }
    return charge;
}

static bool charge(void)
{
    return sync_calls_charge(t.calls, &t.take, &t.charged, &t.unknown, &t.unheld);
}

/* @return whether it was charged */
static bool charge_one(const char *name, int64_t cost)
{
    take_begin();
    (void)add(&t.sync, &t.hundred, name, cost);
    return charge() && t.charged == 1;
}

/* --- Redis --- */

static unsigned carry_out(unsigned idx, int64_t *numbers)
{
    const struct seam_call *seam = fake_seam_call(&t.seam, idx);
    const struct centre_call call = {
        .script = seam->script,
        .keys = seam->keys,
        .n_keys = seam->n_keys,
        .arg = seam->args[0],
        .now = t.seam.now,
    };
    return centre_run(t.centre, &call, numbers);
}

static void serve_all(void)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    while (t.n_served < t.seam.n_begun) {
        unsigned n = carry_out(t.n_served, numbers);
        fake_seam_answer(&t.seam, t.n_served++, numbers, n);
    }
}

static void fail_all(enum seam_outcome outcome)
{
    while (t.n_served < t.seam.n_begun) {
        fake_seam_end(&t.seam, t.n_served++, outcome);
    }
}

static void next_round(void)
{
    fake_seam_pass(&t.seam, INTERVAL_US);
}

/* One node answers nothing. */
static void serve_others(unsigned silent)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    for (unsigned i = 0; i < t.seam.n_begun; i++) {
        const struct seam_call *call = t.seam.calls[i];
        if (call != NULL && call->node != silent) {
            unsigned n = carry_out(i, numbers);
            fake_seam_answer(&t.seam, i, numbers, n);
        } else if (call != NULL && !call->is_over
                   && instant_diff_us(t.seam.now, call->deadline) >= 0) {
            fake_seam_end(&t.seam, i, SEAM_TIMEOUT);
        }
    }
}

/* Up to the next one; calls are answered within a millisecond. */
static void whole_round(void)
{
    for (int64_t us = US_PER_MS; us < INTERVAL_US; us += US_PER_MS) {
        fake_seam_pass(&t.seam, US_PER_MS);
        serve_all();
    }
}

static int64_t used_of(const struct limit *limit, const char *name)
{
    struct seam_bytes key = {name, strlen(name)};
    return centre_used(t.centre, limit, key, t.seam.now);
}

static int64_t used(const char *name)
{
    return used_of(&t.hundred, name);
}

/* --- charges --- */

static void of_what_nothing_was_heard_redis_is_to_be_asked(void **context)
{
    (void)context;
    t.is_news = true;
    assert_false(charge_one("a", 1));
    assert_int_equal(t.unheld, 1);
    assert_int_equal(sync_calls_n_held(t.calls), 1);
    next_round();
    assert_int_equal(t.seam.n_begun, 1);
    serve_all();
    assert_true(charge_one("a", 30));
    next_round();
    serve_all();
    assert_int_equal(used("a"), 30);
}

static void it_is_heard_of_before_the_next_round(void **context)
{
    (void)context;
    t.is_news = true;
    assert_false(charge_one("a", 1));
    fake_seam_pass(&t.seam, INTERVAL_US / SYNC_EARLY_MAX);
    assert_false(charge_one("a", 1));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    serve_all();
    assert_true(charge_one("a", 1));
}

static void charges_are_decided_at_once_and_told_in_the_next_round(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    assert_true(t.take.charges[0].is_charged);
    assert_int_equal(t.take.charges[0].source, STORE_COUNTED);
    assert_int_equal(t.take.charges[0].answer.remaining, 70);
    assert_int_equal(t.seam.n_begun, 0);
    next_round();
    assert_int_equal(t.seam.n_begun, 1);
    assert_int_equal(fake_seam_call(&t.seam, 0)->script, REDIS_SCRIPT_SYNC);
    serve_all();
    assert_int_equal(used("a"), 30);
    next_round(); /* nothing was charged since */
    assert_int_equal(t.seam.n_begun, 1);
    assert_true(charge_one("a", 70));
    assert_false(charge_one("a", 1));
}

static void what_is_not_synced_is_left_alone(void **context)
{
    (void)context;
    take_begin();
    (void)add(NULL, &t.hundred, "a", 10);
    (void)add(&t.plain, &t.hundred, "b", 10);
    assert_true(charge());
    assert_int_equal(t.charged, 0);
    assert_int_equal(t.unknown, 0);
    assert_int_equal(sync_calls_n_held(t.calls), 0);
}

static void a_lenient_charge_refuses_nobody(void **context)
{
    (void)context;
    assert_true(charge_one("a", 100));
    take_begin();
    (void)add(&t.sync, &t.hundred, "b", 1);
    add(&t.sync, &t.hundred, "a", 1)->is_lenient = true;
    assert_true(charge());
    assert_int_equal(t.charged, 1);
    t.take.charges[1].is_lenient = false;
    assert_false(charge());
    assert_int_equal(t.charged, 1); /* to be given back by the caller */
}

static void of_lenient_charges_that_are_tied_all_are_made_or_none(void **context)
{
    static const char *const names[] = {"a", "full", "b"};
    (void)context;
    assert_true(charge_one("full", 100));
    take_begin();
    for (unsigned i = 0; i < 3; i++) {
        struct store_charge *one = add(&t.sync, &t.hundred, names[i], 10);
        one->is_lenient = true;
        one->tie = i < 2 ? 1 : 2;
    }
    assert_true(charge());
    assert_int_equal(t.charged, 4);
    assert_false(t.take.charges[0].is_charged);
    assert_int_equal(t.take.charges[0].answer.remaining, 100);
    next_round();
    serve_all();
    assert_int_equal(used("a"), 0);
    assert_int_equal(used("b"), 10);
}

static void what_is_given_back_is_not_told(void **context)
{
    (void)context;
    take_begin();
    (void)add(&t.sync, &t.hundred, "a", 10);
    (void)add(&t.sync, &t.hundred, "b", 20);
    assert_true(charge());
    sync_calls_give_back(t.calls, &t.take, 2);
    assert_false(t.take.charges[1].is_charged);
    assert_int_equal(t.take.charges[1].answer.remaining, 100);
    next_round();
    serve_all();
    assert_int_equal(used("a"), 10);
    assert_int_equal(used("b"), 0);
}

static void what_is_cut_off_is_for_the_policies(void **context)
{
    (void)context;
    assert_true(charge_one("a", 1));
    for (int64_t us = 0; us <= SYNC_LOST_US; us += INTERVAL_US) {
        next_round();
        fail_all(SEAM_FULL);
    }
    assert_false(charge_one("a", 1));
    assert_int_equal(t.unknown, 1);
    next_round();
    serve_all();
    assert_true(charge_one("a", 1));
    assert_int_equal(used("a"), 1);
}

/* --- exchanges --- */

static void an_exchange_that_nobody_heard_of_is_charged_once(void **context)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    (void)context;
    assert_true(charge_one("a", 30));
    next_round();
    (void)carry_out(0, numbers);
    fail_all(SEAM_ERROR);
    assert_true(charge_one("a", 5));
    next_round();
    serve_all();
    assert_int_equal(used("a"), 30);
    next_round();
    serve_all();
    assert_int_equal(used("a"), 35);
}

static void one_exchange_of_a_pool_at_a_time(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    next_round();
    assert_true(charge_one("a", 5));
    next_round();
    assert_int_equal(t.seam.n_begun, 1);
    serve_all();
    next_round();
    serve_all();
    assert_int_equal(used("a"), 35);
}

static void an_answer_of_no_script_is_rejected(void **context)
{
    static const int64_t numbers[] = {1, 2, 3, 4, 5};
    (void)context;
    assert_true(charge_one("a", 30));
    next_round();
    fake_seam_answer(&t.seam, t.n_served++, numbers, ARRAY_LEN(numbers));
    assert_int_equal(t.seam.n_rejected, 1);
    next_round();
    serve_all();
    assert_int_equal(used("a"), 30);
}

static void repairs_are_counted(void **context)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    (void)context;
    assert_true(charge_one("a", 30));
    next_round();
    unsigned n = carry_out(t.n_served, numbers);
    numbers[1] += 8; /* no time to live */
    fake_seam_answer(&t.seam, t.n_served++, numbers, n);
    assert_int_equal(health_get(t.health, HEALTH_REPAIRED), 1);
}

static void what_is_idle_is_watched_no_more(void **context)
{
    (void)context;
    assert_true(charge_one("a", 1));
    assert_int_equal(sync_calls_n_held(t.calls), 1);
    next_round();
    serve_all();
    for (int64_t us = 0; us <= SYNC_IDLE_US; us += INTERVAL_US) {
        next_round();
    }
    assert_int_equal(t.seam.n_begun, 1);
    assert_int_equal(sync_calls_n_held(t.calls), 0);
    assert_true(charge_one("a", 1));
    assert_int_equal(sync_calls_n_held(t.calls), 1);
}

/* Charge so many counters more, of those that find room in the table. */
static void charge_many(const char *prefix, unsigned n)
{
    unsigned end = t.n_names + n;
    while (t.n_names < end) {
        char *name = t.names[t.n_names];
        (void)snprintf(name, sizeof(t.names[0]), "%s%u", prefix, t.n_tried++);
        t.n_names += charge_one(name, 1);
    }
}

/* Each in a slot of its own. */
static void charge_round_in_slots(void)
{
    for (unsigned i = 0; i < SYNC_CALLS_ROUND; i++) {
        char slot[16];
        (void)snprintf(slot, sizeof(slot), "%u:", i);
        charge_many(slot, 1);
    }
}

static unsigned n_told(unsigned n)
{
    unsigned n_used = 0;
    for (unsigned i = 0; i < n; i++) {
        n_used += used(t.names[i]) > 0;
    }
    return n_used;
}

/* One host of two, whose half is spent when time has passed. */
static void spend_part(const char *name)
{
    health_hear_agents(t.health, 2);
    assert_true(charge_one(name, 50));
    fake_seam_pass(&t.seam, INTERVAL_US / SYNC_EARLY_MAX);
}

static void a_part_that_is_spent_is_exchanged_early(void **context)
{
    (void)context;
    spend_part("a");
    assert_false(charge_one("a", 1));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 1);
    assert_false(charge_one("a", 1));
    serve_all();
    assert_int_equal(used("a"), 50);
    assert_true(charge_one("a", 25));
    next_round();
    serve_all();
    assert_int_equal(used("a"), 75);
}

static void what_another_worker_watches_it_exchanges(void **context)
{
    const struct sync_calls_options options = {
        .syncs = t.syncs,
        .seam = &t.seam.seam,
        .health = t.health,
        .host = host,
        .worker = 2,
    };
    struct sync_calls *mine = t.calls;
    struct sync_calls *others = sync_calls_new(&options);
    (void)context;
    assert_non_null(others);
    spend_part("a");
    t.calls = others;
    assert_false(charge_one("a", 1));
    t.calls = mine;
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 0);
    next_round();
    serve_all();
    sync_calls_free(others);
}

static void a_full_round_leaves_no_room_for_early_exchanges(void **context)
{
    (void)context;
    charge_many("", SYNC_CALLS_ROUND);
    next_round();
    spend_part("a");
    assert_false(charge_one("a", 1));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    serve_all();
    assert_int_equal(used("a"), 0);
    whole_round();
    assert_int_equal(used("a"), 50);
}

/* Equal ones do not shut each other out. */
static void more_than_a_round_has_room_for_take_turns(void **context)
{
    (void)context;
    charge_many("", ARRAY_LEN(t.names));
    next_round();
    whole_round();
    assert_int_equal(n_told(ARRAY_LEN(t.names)), SYNC_CALLS_ROUND);
    whole_round();
    assert_int_equal(n_told(ARRAY_LEN(t.names)), 2 * SYNC_CALLS_ROUND);
    whole_round();
    assert_int_equal(n_told(ARRAY_LEN(t.names)), 3 * SYNC_CALLS_ROUND);
}

static void of_more_than_a_round_has_room_for_the_busiest_go_first(void **context)
{
    (void)context;
    charge_many("", ARRAY_LEN(t.names));
    const char *last = t.names[ARRAY_LEN(t.names) - 1];
    assert_true(charge_one(last, 50));
    next_round();
    whole_round();
    assert_int_equal(used(last), 51);
    assert_int_equal(n_told(ARRAY_LEN(t.names)), SYNC_CALLS_ROUND);
}

static void a_round_goes_in_steps(void **context)
{
    (void)context;
    charge_many("", SYNC_CALLS_WEIGHED);
    next_round();
    serve_all();
    assert_int_equal(n_told(SYNC_CALLS_WEIGHED), SYNC_CALLS_STEP);
    fake_seam_pass(&t.seam, SYNC_CALLS_STEP_US);
    serve_all();
    assert_int_equal(n_told(SYNC_CALLS_WEIGHED), 2 * SYNC_CALLS_STEP);
}

static void many_are_weighed_in_steps_before_any_is_exchanged(void **context)
{
    (void)context;
    charge_many("", SYNC_CALLS_WEIGHED + 1);
    assert_true(charge_one("busy", 50));
    next_round();
    assert_int_equal(t.seam.n_begun, 0);
    fake_seam_pass(&t.seam, SYNC_CALLS_STEP_US);
    serve_all();
    assert_int_equal(n_told(SYNC_CALLS_WEIGHED), SYNC_CALLS_STEP);
    whole_round();
    assert_int_equal(n_told(SYNC_CALLS_WEIGHED + 1), SYNC_CALLS_WEIGHED + 1);
    assert_int_equal(used("busy"), 50);
}

/* Counters that were not there when it began are seen to by the next. */
static void a_counter_of_later_waits_for_the_next_round(void **context)
{
    (void)context;
    charge_many("", SYNC_CALLS_STEP + 1);
    next_round();
    assert_true(charge_one("later", 1));
    whole_round();
    assert_int_equal(n_told(SYNC_CALLS_STEP + 1), SYNC_CALLS_STEP + 1);
    assert_int_equal(used("later"), 0);
    fake_seam_pass(&t.seam, US_PER_MS);
    serve_all();
    assert_int_equal(used("later"), 1);
}

/* As in a cluster. */
static void counters_of_as_many_slots_are_exchanged_in_one_round_too(void **context)
{
    (void)context;
    charge_round_in_slots();
    next_round();
    for (int64_t us = 0; us < INTERVAL_US - 5 * US_PER_MS; us += 5 * US_PER_MS) {
        fake_seam_pass(&t.seam, 5 * US_PER_MS); /* to be answered */
        serve_all();
    }
    assert_int_equal(t.seam.n_begun, SYNC_CALLS_ROUND);
    assert_int_equal(n_told(SYNC_CALLS_ROUND), SYNC_CALLS_ROUND);
}

/* Calls to it end by their deadline, and are late until their connection ends. */
static void a_node_that_is_silent_does_not_hold_up_others(void **context)
{
    (void)context;
    charge_round_in_slots();
    next_round();
    for (int64_t us = 0; us < 2 * INTERVAL_US; us += US_PER_MS) {
        fake_seam_pass(&t.seam, US_PER_MS);
        serve_others(0);
    }
    assert_int_equal(n_told(SYNC_CALLS_ROUND),
                     SYNC_CALLS_ROUND - SYNC_CALLS_ROUND / FAKE_SEAM_NODES);
}

static void the_age_of_the_oldest_exchange_is_told(void **context)
{
    struct sync_totals totals;
    (void)context;
    assert_true(charge_one("a", 1));
    next_round();
    syncs_read(t.syncs, &totals);
    assert_int_equal(totals.age_us, INTERVAL_US);
    fail_all(SEAM_FULL);
    next_round();
    syncs_read(t.syncs, &totals);
    assert_int_equal(totals.age_us, 2 * INTERVAL_US);
    serve_all();
    next_round();
    syncs_read(t.syncs, &totals);
    assert_int_equal(totals.age_us, 0);
}

/* Watch as many pools as can be. */
static void fill_notebook(void)
{
    char name[16];
    for (unsigned i = 0; sync_calls_n_held(t.calls) < NOTEBOOK_NOTES; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        (void)charge_one(name, 1);
    }
}

static void where_no_more_can_be_watched_redis_is_to_be_asked(void **context)
{
    (void)context;
    assert_true(charge_one("watched", 1));
    fill_notebook();
    assert_false(charge_one("one more", 1));
    assert_int_equal(t.unknown, 0);
    assert_int_equal(t.unheld, 1);
    assert_true(charge_one("watched", 1));
}

static void what_is_tied_is_asked_about_together(void **context)
{
    static const char *const names[] = {"watched", "one more", "full", "other"};
    (void)context;
    assert_true(charge_one("watched", 1));
    assert_true(charge_one("other", 1));
    assert_true(charge_one("full", 100));
    fill_notebook();
    take_begin();
    for (unsigned i = 0; i < 4; i++) {
        struct store_charge *one = add(&t.sync, &t.hundred, names[i], 10);
        one->is_lenient = true;
        one->tie = i < 3 ? 1 : 2;
    }
    assert_true(charge());
    assert_int_equal(t.unheld, 7);
    assert_int_equal(t.charged, 8);
    assert_false(t.take.charges[0].is_charged);
    assert_true(charge_one("watched", 99));
    assert_false(charge_one("other", 90));
}

static void what_is_tied_and_cut_off_is_asked_about_with_the_rest(void **context)
{
    (void)context;
    assert_true(charge_one("cut", 1));
    fill_notebook();
    t.seam.now = instant_add_us(t.seam.now, SYNC_LOST_US + 1);
    take_begin();
    for (unsigned i = 0; i < 2; i++) {
        struct store_charge *one = add(&t.sync, &t.hundred, i == 0 ? "cut" : "more", 1);
        one->is_lenient = true;
        one->tie = 1;
    }
    assert_true(charge());
    assert_int_equal(t.unheld, 3);
    assert_int_equal(t.unknown, 0);
}

/* --- leaving --- */

static void who_leaves_exchanges_all(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    assert_true(charge_one("b", 20));
    sync_calls_leave(t.calls);
    serve_all();
    assert_int_equal(used("a"), 30);
    assert_int_equal(used("b"), 20);
    sync_calls_leave(t.calls);
    assert_int_equal(t.seam.n_begun, 1);
    assert_int_equal(sync_calls_n_held(t.calls), 0);
}

static void what_was_charged_during_the_last_exchange_is_told_too(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    next_round();
    assert_true(charge_one("a", 5));
    sync_calls_leave(t.calls);
    assert_int_equal(t.seam.n_begun, 1);
    serve_all();
    next_round();
    serve_all();
    assert_int_equal(used("a"), 35);
    next_round();
    assert_int_equal(sync_calls_n_held(t.calls), 0);
}

static void an_exchange_that_fails_is_made_again_by_who_leaves(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    sync_calls_leave(t.calls);
    fail_all(SEAM_FULL);
    next_round();
    fail_all(SEAM_TIMEOUT);
    next_round();
    int64_t numbers[CENTRE_NUMBERS_MAX];
    unsigned n = carry_out(t.n_served, numbers);
    fake_seam_answer(&t.seam, t.n_served++, numbers, n);
    assert_int_equal(used("a"), 30);
    fake_seam_end(&t.seam, 1, SEAM_LOST);
    next_round();
    assert_int_equal(sync_calls_n_held(t.calls), 0);
}

static void who_leaves_and_comes_back_watches_as_before(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    sync_calls_leave(t.calls);
    assert_true(charge_one("a", 5)); /* takes over from itself */
    assert_int_equal(sync_calls_n_held(t.calls), 2);
    serve_all();
    next_round();
    serve_all();
    assert_int_equal(used("a"), 35);
    assert_int_equal(sync_calls_n_held(t.calls), 1);
    assert_true(charge_one("a", 1));
    next_round();
    serve_all();
    assert_int_equal(used("a"), 36);
    assert_int_equal(sync_calls_n_held(t.calls), 1);
}

static void who_has_left_watches_anew(void **context)
{
    (void)context;
    assert_true(charge_one("a", 30));
    sync_calls_leave(t.calls);
    serve_all();
    sync_calls_leave(t.calls);
    assert_int_equal(sync_calls_n_held(t.calls), 0);
    assert_true(charge_one("a", 5));
    next_round();
    serve_all();
    next_round();
    assert_int_equal(sync_calls_n_held(t.calls), 1); /* until it is idle */
}

static void a_calendar_may_go_during_an_exchange(void **context)
{
    struct calendar_start starts[CALENDAR_STARTS];
    struct calendar *calendar = calloc(1, sizeof(*calendar));
    struct limit by_calendar = fixed(100, MINUTE_US);
    (void)context;
    assert_non_null(calendar);
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t number = MINUTE_START_US / US_PER_S + i * 60;
        starts[i] = (struct calendar_start){number, number * US_PER_S};
    }
    calendar_fill(calendar, starts);
    by_calendar.calendar = calendar;
    take_begin();
    (void)add(&t.sync, &by_calendar, "a", 30);
    assert_true(charge());
    next_round();
    assert_true(charge());
    sync_calls_leave(t.calls);
    memset(calendar, 0xff, sizeof(*calendar)); /* starts that no call takes */
    serve_all();
    next_round();
    serve_all();
    next_round();
    free(calendar);
    assert_int_equal(sync_calls_n_held(t.calls), 0);
    assert_int_equal(t.seam.n_begun, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(of_what_nothing_was_heard_redis_is_to_be_asked),
        X(it_is_heard_of_before_the_next_round),
        X(charges_are_decided_at_once_and_told_in_the_next_round),
        X(what_is_not_synced_is_left_alone),
        X(a_lenient_charge_refuses_nobody),
        X(of_lenient_charges_that_are_tied_all_are_made_or_none),
        X(what_is_given_back_is_not_told),
        X(what_is_cut_off_is_for_the_policies),
        X(an_exchange_that_nobody_heard_of_is_charged_once),
        X(one_exchange_of_a_pool_at_a_time),
        X(an_answer_of_no_script_is_rejected),
        X(repairs_are_counted),
        X(what_is_idle_is_watched_no_more),
        X(a_part_that_is_spent_is_exchanged_early),
        X(what_another_worker_watches_it_exchanges),
        X(a_full_round_leaves_no_room_for_early_exchanges),
        X(more_than_a_round_has_room_for_take_turns),
        X(of_more_than_a_round_has_room_for_the_busiest_go_first),
        X(a_round_goes_in_steps),
        X(many_are_weighed_in_steps_before_any_is_exchanged),
        X(a_counter_of_later_waits_for_the_next_round),
        X(counters_of_as_many_slots_are_exchanged_in_one_round_too),
        X(a_node_that_is_silent_does_not_hold_up_others),
        X(the_age_of_the_oldest_exchange_is_told),
        X(where_no_more_can_be_watched_redis_is_to_be_asked),
        X(what_is_tied_is_asked_about_together),
        X(what_is_tied_and_cut_off_is_asked_about_with_the_rest),
        X(who_leaves_exchanges_all),
        X(what_was_charged_during_the_last_exchange_is_told_too),
        X(an_exchange_that_fails_is_made_again_by_who_leaves),
        X(who_leaves_and_comes_back_watches_as_before),
        X(who_has_left_watches_anew),
        X(a_calendar_may_go_during_an_exchange),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
