/* A worker's side of leases, on a seam whose calls a Redis in C carries out when told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/courier.h"
#include "agent/store/lease_calls.h"
#include "agent/store/notebook.h"
#include "agent/store/redis.h"

#include "tests/simulation/centre.h"
#include "tests/support/fake_seam.h"
#include "tests/support/limit.h"

enum {
    BLOCK = 100, /* of hundred: the share of one host */
};

#define TTL_US   (2 * US_PER_S)
#define SPEND_US (1600 * US_PER_MS)

static const uint8_t host[SCRIPT_HOST_BYTES] = {1, 2, 3};

static struct {
    struct fake_seam seam;
    struct health *health;
    struct leases *leases;
    struct lease_calls *calls;
    struct centre *centre;
    struct limit hundred; /* of which a block of BLOCK is leased */
    struct store_home lease;
    struct store_home plain;
    struct store_take take;
    struct lease_spending spending;
    unsigned n_served;
} t;

static int set_up(void **context)
{
    const struct leases_options leases = {
        .share = 500,
        .horizon_us = US_PER_S,
        .ttl_us = TTL_US,
    };
    (void)context;
    memset(&t, 0, sizeof(t));
    fake_seam_init(&t.seam, (struct instant){MINUTE_START_US});
    t.health = health_new(0, 1, t.seam.now);
    t.leases = leases_new(&leases);
    t.centre = centre_new();
    const struct lease_calls_options options = {
        .leases = t.leases,
        .seam = &t.seam.seam,
        .health = t.health,
        .host = host,
        .worker = 3,
    };
    t.calls = lease_calls_new(&options);
    t.hundred = sliding(20 * BLOCK, MINUTE_US);
    t.lease.kind = STORE_KIND_LEASE;
    t.plain.kind = STORE_KIND_REDIS;
    return t.health == NULL || t.leases == NULL || t.calls == NULL ? -1 : 0;
}

static int tear_down(void **context)
{
    (void)context;
    assert_int_equal(lease_calls_n_under_way(t.calls), t.seam.n_open);
    lease_calls_free(t.calls);
    leases_free(t.leases);
    health_free(t.health);
    centre_free(t.centre);
    return 0;
}

/* --- requests --- */

static void take_begin(void)
{
    t.take = (struct store_take){.now = t.seam.now};
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
    return charge;
}

static uint32_t spend(void)
{
    lease_calls_spend(t.calls, &t.take, &t.spending);
    return t.spending.mask;
}

/* @return whether it was spent */
static bool spend_one(const char *name, int64_t cost)
{
    take_begin();
    (void)add(&t.lease, &t.hundred, name, cost);
    return spend() != 0;
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

static void serve(unsigned idx)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    unsigned n = carry_out(idx, numbers);
    fake_seam_answer(&t.seam, idx, numbers, n);
}

/* All calls so far, and those that follow from them. */
static void serve_all(void)
{
    while (t.n_served < t.seam.n_begun) {
        serve(t.n_served++);
    }
}

/* What waits goes, and is served. */
static void settle_down(void)
{
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    serve_all();
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

static struct leases_totals totals(void)
{
    struct leases_totals read;
    leases_read(t.leases, &read);
    return read;
}

/* A pool that holds a block. */
static void lease(const char *name)
{
    assert_false(spend_one(name, 2 * BLOCK));
    settle_down();
    assert_int_equal(totals().n_out % BLOCK, 0);
}

/* --- spending --- */

static void what_is_ordered_is_spent_when_it_is_there(void **context)
{
    (void)context;
    assert_false(spend_one("a", 2 * BLOCK));
    assert_int_equal(lease_calls_n_held(t.calls), 1);
    assert_int_equal(t.seam.n_begun, 0);
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 1);
    assert_int_equal(fake_seam_call(&t.seam, 0)->script, REDIS_SCRIPT_LEASE);
    assert_false(spend_one("a", 1));
    serve_all();
    assert_int_equal(used("a"), BLOCK);
    assert_true(spend_one("a", 1));
    const struct store_charge *charge = &t.take.charges[0];
    assert_true(charge->is_charged);
    assert_int_equal(charge->source, STORE_COUNTED);
    assert_int_equal(charge->place, MINUTE_START_US / MINUTE_US);
    assert_int_equal(charge->answer.remaining, t.hundred.size - 1);
}

static void orders_of_many_pools_go_together(void **context)
{
    (void)context;
    take_begin();
    (void)add(&t.lease, &t.hundred, "a", BLOCK);
    (void)add(&t.lease, &t.hundred, "b", BLOCK);
    assert_int_equal(spend(), 0);
    settle_down();
    assert_int_equal(t.seam.n_begun, 1);
    take_begin();
    (void)add(&t.lease, &t.hundred, "a", 1);
    (void)add(&t.lease, &t.hundred, "c", 1);
    (void)add(&t.lease, &t.hundred, "b", 1);
    assert_int_equal(spend(), 5);
}

static void what_is_not_leased_is_left_alone(void **context)
{
    struct limit small = sliding(20, MINUTE_US);
    (void)context;
    take_begin();
    (void)add(NULL, &t.hundred, "a", BLOCK);
    (void)add(&t.plain, &t.hundred, "b", BLOCK);
    (void)add(&t.lease, &small, "c", 10);
    (void)add(&t.lease, &t.hundred, "d", 0);
    assert_int_equal(spend(), 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
    settle_down();
    assert_int_equal(t.seam.n_begun, 0);
}

static void what_is_held_is_not_spent_on_what_is_not_leased(void **context)
{
    (void)context;
    lease("a");
    assert_false(spend_one("a", 0));
    health_hear_agents(t.health, BLOCK); /* now the part of a host is too small */
    assert_false(spend_one("a", 1));
    health_hear_agents(t.health, 1);
    assert_true(spend_one("a", 1));
}

static void of_charges_that_are_tied_all_are_spent_or_none(void **context)
{
    (void)context;
    lease("a");
    take_begin();
    add(&t.lease, &t.hundred, "a", 30)->tie = 1;
    add(&t.lease, &t.hundred, "b", 30)->tie = 1;
    (void)add(&t.lease, &t.hundred, "a", 1);
    t.take.charges[0].is_lenient = true;
    t.take.charges[1].is_lenient = true;
    assert_int_equal(spend(), 4);
    settle_down();
    take_begin();
    add(&t.lease, &t.hundred, "a", 9)->tie = 1;
    add(&t.lease, &t.hundred, "b", 9)->tie = 1;
    assert_int_equal(spend(), 3);
    assert_true(spend_one("a", BLOCK - 10)); /* those 30 had been put back */
}

static void what_is_given_back_is_in_the_pool_again(void **context)
{
    (void)context;
    lease("a");
    lease("b");
    take_begin();
    (void)add(&t.lease, &t.hundred, "a", BLOCK);
    (void)add(&t.lease, &t.hundred, "b", BLOCK);
    assert_int_equal(spend(), 3);
    assert_int_equal(lease_calls_give_back(t.calls, &t.take, &t.spending, 1 | 4), 0);
    assert_true(spend_one("a", BLOCK));
    assert_false(spend_one("b", 1));
}

static void what_was_reported_is_to_be_given_back_in_redis(void **context)
{
    (void)context;
    lease("a");
    assert_true(spend_one("a", 40));
    struct store_take take = t.take;
    struct lease_spending spending = t.spending;
    lease_calls_return(t.calls);
    assert_int_equal(lease_calls_give_back(t.calls, &take, &spending, 1), 1);
    serve_all();
    assert_int_equal(used("a"), 40);
}

/* --- looking after pools --- */

static void what_is_over_is_reported_in_time(void **context)
{
    (void)context;
    lease("a");
    assert_true(spend_one("a", 30));
    fake_seam_pass(&t.seam, SPEND_US - COURIER_WAIT_US - LEASE_CALLS_SWEEP_US);
    assert_int_equal(t.seam.n_begun, 1);
    fake_seam_pass(&t.seam, 2 * LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 2);
    serve_all();
    assert_int_equal(used("a"), 30);
    assert_int_equal(totals().n_spent, 30);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(totals().n_stranded, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
    fake_seam_pass(&t.seam, TTL_US);
    assert_int_equal(t.seam.n_begun, 2); /* once */
}

/* Pools that hold a block each, taken at one time. */
static void lease_many(unsigned n)
{
    char name[16];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        assert_false(spend_one(name, 2 * BLOCK));
    }
    settle_down();
    assert_int_equal(totals().n_out, n * BLOCK);
}

static void of_many_that_are_over_some_are_reported_in_a_step(void **context)
{
    (void)context;
    lease_many(LEASE_CALLS_STEP + 16);
    unsigned n_begun = t.seam.n_begun;
    while (t.seam.n_begun == n_begun) {
        fake_seam_pass(&t.seam, US_PER_MS);
    }
    serve_all();
    assert_int_equal(totals().n_out, 16 * BLOCK);
    fake_seam_pass(&t.seam, LEASE_CALLS_STEP_US);
    serve_all();
    assert_int_equal(totals().n_out, 0);
}

/* They wait for calls, not for the next try. */
static void more_than_there_are_calls_for_are_returned_as_these_end(void **context)
{
    (void)context;
    unsigned n = (COURIER_ROOM + 1) * COURIER_ITEMS_MAX;
    lease_many(n);
    lease_calls_return(t.calls);
    unsigned n_begun = t.seam.n_begun;
    fake_seam_pass(&t.seam, LEASE_CALLS_SWEEP_US);
    assert_int_equal(t.seam.n_begun, n_begun);
    serve_all();
    assert_int_equal(totals().n_out, COURIER_ITEMS_MAX * BLOCK);
    fake_seam_pass(&t.seam, LEASE_CALLS_STEP_US);
    serve_all();
    assert_int_equal(totals().n_out, 0);
}

static void a_report_and_an_order_of_one_pool_go_in_two_calls(void **context)
{
    (void)context;
    lease("a");
    assert_true(spend_one("a", 30));
    fake_seam_pass(&t.seam, SPEND_US + LEASE_CALLS_SWEEP_US - COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 1);
    assert_false(spend_one("a", 1)); /* while the report waits for others */
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 3);
    serve_all();
    assert_int_equal(totals().n_spent, 30);
    assert_int_equal(used("a"), 30 + (int64_t)totals().n_out);
    assert_true(spend_one("a", 1));
}

static void a_report_that_fails_is_made_again_until_the_lease_ends(void **context)
{
    (void)context;
    lease("a");
    assert_true(spend_one("a", 30));
    fake_seam_pass(&t.seam, SPEND_US + LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    fake_seam_end(&t.seam, 1, SEAM_FULL);
    fake_seam_pass(&t.seam, LEASE_PAUSE_US + LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    assert_int_equal(t.seam.n_begun, 3);
    fake_seam_end(&t.seam, 2, SEAM_FULL);
    fake_seam_pass(&t.seam, TTL_US);
    unsigned n_begun = t.seam.n_begun;
    while (t.seam.n_open > 0) {
        fake_seam_end(&t.seam, n_begun - 1, SEAM_FULL);
    }
    fake_seam_pass(&t.seam, TTL_US);
    assert_int_equal(t.seam.n_begun, n_begun);
    assert_int_equal(totals().n_stranded, BLOCK);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
}

static void an_answer_that_nobody_hears_strands_nothing(void **context)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    (void)context;
    lease("a");
    assert_true(spend_one("a", 30));
    fake_seam_pass(&t.seam, SPEND_US + LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    (void)carry_out(1, numbers);
    fake_seam_end(&t.seam, 1, SEAM_TIMEOUT);
    fake_seam_pass(&t.seam, LEASE_PAUSE_US + LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    serve(2);
    fake_seam_end(&t.seam, 1, SEAM_LOST);
    assert_int_equal(used("a"), 30);
    assert_int_equal(totals().n_spent, 30);
    assert_int_equal(totals().n_stranded, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
}

static void an_answer_of_no_script_is_rejected(void **context)
{
    static const int64_t numbers[SCRIPT_LEASE_NUMBERS] = {0, 7777777};
    (void)context;
    assert_false(spend_one("a", BLOCK));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    fake_seam_answer(&t.seam, 0, numbers, SCRIPT_LEASE_NUMBERS);
    assert_int_equal(t.seam.n_rejected, 1);
    assert_false(spend_one("a", 1));
    assert_int_equal(totals().n_granted, 0);
}

static void repairs_are_counted(void **context)
{
    int64_t numbers[CENTRE_NUMBERS_MAX];
    (void)context;
    assert_false(spend_one("a", BLOCK));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    unsigned n = carry_out(0, numbers);
    numbers[0] = 4; /* its value was none */
    fake_seam_answer(&t.seam, 0, numbers, n);
    assert_int_equal(health_get(t.health, HEALTH_REPAIRED), 1);
    assert_true(spend_one("a", 1));
}

static void where_no_more_can_be_noted_nothing_is_ordered(void **context)
{
    char name[16];
    (void)context;
    for (unsigned i = 0; lease_calls_n_held(t.calls) < NOTEBOOK_NOTES; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        assert_false(spend_one(name, 2));
        serve_all();
    }
    settle_down();
    unsigned n_begun = t.seam.n_begun;
    assert_false(spend_one("a", 2));
    settle_down();
    assert_int_equal(t.seam.n_begun, n_begun);
    lease_calls_return(t.calls);
    while (lease_calls_n_held(t.calls) > 0) {
        serve_all();
        fake_seam_pass(&t.seam, LEASE_CALLS_SWEEP_US);
    }
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(totals().n_stranded, 0);
    assert_false(spend_one("a", 2)); /* its order had ended */
    settle_down();
    assert_true(spend_one("a", 1));
}

/* --- leaving --- */

static void all_is_returned_at_once(void **context)
{
    (void)context;
    lease("a");
    lease("b");
    assert_true(spend_one("a", 30));
    lease_calls_return(t.calls);
    serve_all();
    assert_int_equal(used("a"), 30);
    assert_int_equal(used("b"), 0);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
}

static void what_comes_for_orders_under_way_is_returned_too(void **context)
{
    (void)context;
    assert_false(spend_one("a", BLOCK));
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    assert_false(spend_one("b", BLOCK)); /* still waits for others */
    lease_calls_return(t.calls);
    assert_int_equal(t.seam.n_begun, 2);
    serve_all();
    assert_int_equal(used("a") + used("b"), 2 * BLOCK);
    assert_int_equal(lease_calls_n_held(t.calls), 2);
    fake_seam_pass(&t.seam, LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    serve_all();
    assert_int_equal(used("a") + used("b"), 0);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
}

static void who_leaves_and_comes_back_leases_as_before(void **context)
{
    (void)context;
    lease("a");
    lease_calls_return(t.calls);
    serve_all();
    lease("a");
    fake_seam_pass(&t.seam, 4 * LEASE_CALLS_SWEEP_US);
    assert_true(spend_one("a", 1)); /* kept, as that of one who does not leave */
}

static struct calendar *new_calendar(void)
{
    struct calendar_start starts[CALENDAR_STARTS];
    struct calendar *calendar = calloc(1, sizeof(*calendar));
    assert_non_null(calendar);
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t number = MINUTE_START_US / US_PER_S + i * 60;
        starts[i] = (struct calendar_start){number, number * US_PER_S};
    }
    calendar_fill(calendar, starts);
    return calendar;
}

static void a_calendar_may_go_while_its_leases_are_out(void **context)
{
    struct calendar *calendar = new_calendar();
    struct limit by_calendar = fixed(20 * BLOCK, MINUTE_US);
    (void)context;
    by_calendar.calendar = calendar;
    take_begin();
    (void)add(&t.lease, &by_calendar, "a", BLOCK);
    assert_int_equal(spend(), 0);
    fake_seam_pass(&t.seam, COURIER_WAIT_US);
    lease_calls_return(t.calls);
    memset(calendar, 0xff, sizeof(*calendar)); /* starts that no call takes */
    serve_all();
    assert_int_equal(totals().n_out, BLOCK);
    fake_seam_pass(&t.seam, LEASE_CALLS_SWEEP_US + COURIER_WAIT_US);
    serve_all();
    free(calendar);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(totals().n_stranded, 0);
    assert_int_equal(lease_calls_n_held(t.calls), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(what_is_ordered_is_spent_when_it_is_there),
        X(orders_of_many_pools_go_together),
        X(what_is_not_leased_is_left_alone),
        X(what_is_held_is_not_spent_on_what_is_not_leased),
        X(of_charges_that_are_tied_all_are_spent_or_none),
        X(what_is_given_back_is_in_the_pool_again),
        X(what_was_reported_is_to_be_given_back_in_redis),
        X(what_is_over_is_reported_in_time),
        X(of_many_that_are_over_some_are_reported_in_a_step),
        X(more_than_there_are_calls_for_are_returned_as_these_end),
        X(a_report_and_an_order_of_one_pool_go_in_two_calls),
        X(a_report_that_fails_is_made_again_until_the_lease_ends),
        X(an_answer_that_nobody_hears_strands_nothing),
        X(an_answer_of_no_script_is_rejected),
        X(repairs_are_counted),
        X(where_no_more_can_be_noted_nothing_is_ordered),
        X(all_is_returned_at_once),
        X(what_comes_for_orders_under_way_is_returned_too),
        X(who_leaves_and_comes_back_leases_as_before),
        X(a_calendar_may_go_while_its_leases_are_out),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
