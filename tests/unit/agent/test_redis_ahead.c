/* The store of Redis where it counts ahead of it: charges of all kinds in one take, and the
 * end of a store that holds some. Over a Redis in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/notebook.h"
#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"

enum {
    BLOCK = 50, /* the part of one host of two */
    FINISH_STEP_US = 10 * US_PER_MS,
};

static struct fleet f;
static struct fleet_limit leased;
static struct fleet_limit synced;
static struct fleet_limit plain;

/* Waited for. */
static void ask(struct fleet_request *request)
{
    fleet_ask(&f, 0, request);
    assert_true(fleet_wait(&f, request));
}

static bool ask_one(const struct fleet_limit *limit, int64_t cost)
{
    struct fleet_request request = {0};
    fleet_add(&request, limit, "a", cost);
    ask(&request);
    return request.take.is_allowed;
}

static int set_up(void **context)
{
    struct limit many = sliding(40 * BLOCK, MINUTE_US);
    struct limit ten = sliding(10, MINUTE_US);
    (void)context;
    fleet_init_ahead(&f, 1, 1, 2);
    fleet_limit_init(&leased, &many, "leased", false);
    fleet_limit_init(&synced, &many, "synced", false);
    fleet_limit_init(&plain, &ten, "plain", false);
    leased.home.kind = STORE_KIND_LEASE;
    synced.home.kind = STORE_KIND_SYNC;
    assert_true(ask_one(&synced, 0));
    sim_run(f.sim, 2 * FLEET_SYNC_INTERVAL_US); /* an exchange has told of it */
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    fleet_fini(&f);
    return 0;
}

static int64_t used(const struct fleet_limit *limit)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "rl:api:{a}:%s", limit->name);
    return sim_used(f.sim, &limit->limit, name);
}

static uint64_t n_asked(void)
{
    return sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE);
}

static int64_t out(void)
{
    struct leases_totals totals;
    leases_read(f.hosts[0].leases, &totals);
    return (int64_t)totals.n_out;
}

/* Have tokens of `leased`: as many as are out. */
static void hold_lease(void)
{
    assert_true(ask_one(&leased, 2 * BLOCK));
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(out(), BLOCK);
}

static void what_is_held_is_spent_without_redis(void **context)
{
    (void)context;
    hold_lease();
    uint64_t n = n_asked();
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", 10);
    fleet_add(&request, &synced, "a", 10);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_true(request.take.is_allowed);
    assert_int_equal(n_asked(), n);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(request.take.charges[i].is_charged);
        assert_int_equal(request.take.charges[i].source, STORE_COUNTED);
    }
}

static void what_is_not_held_is_asked_for_alone(void **context)
{
    (void)context;
    hold_lease();
    uint64_t n = n_asked();
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", BLOCK);
    fleet_add(&request, &plain, "a", 3);
    ask(&request);
    assert_true(request.take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
    assert_int_equal(used(&leased), 2 * BLOCK + BLOCK); /* not once more */
    assert_int_equal(used(&plain), 3);
}

static void what_redis_refuses_is_put_back_here(void **context)
{
    (void)context;
    hold_lease();
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", BLOCK);
    fleet_add(&request, &synced, "a", 20);
    fleet_add(&request, &plain, "a", 11);
    ask(&request);
    assert_false(request.take.is_allowed);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(request.take.charges[i].is_charged);
    }
    uint64_t n = n_asked();
    assert_true(ask_one(&leased, BLOCK));
    assert_int_equal(n_asked(), n);
    sim_run(f.sim, 2 * FLEET_SYNC_INTERVAL_US);
    assert_int_equal(used(&synced), 0);
}

static void what_sync_refuses_asks_nobody(void **context)
{
    (void)context;
    hold_lease();
    assert_true(ask_one(&synced, 20 * BLOCK)); /* the part of this host */
    uint64_t n = n_asked();
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", BLOCK);
    fleet_add(&request, &synced, "a", 1);
    fleet_add(&request, &plain, "a", 1);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.is_allowed);
    assert_int_equal(n_asked(), n);
    assert_true(ask_one(&leased, BLOCK));
    assert_int_equal(n_asked(), n);
}

static void cut_off(void)
{
    assert_true(ask_one(&synced, 1));
    sim_set_cut(f.sim, 0, true);
    sim_run(f.sim, 2 * SYNC_LOST_US);
}

static void what_is_cut_off_is_decided_by_policy(void **context)
{
    (void)context;
    cut_off();
    synced.home.policy = STORE_POLICY_OPEN;
    struct fleet_request request = {0};
    fleet_add(&request, &synced, "a", 1);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.failure, STORE_DOWN);
    assert_int_equal(request.take.charges[0].source, STORE_OPEN);
}

/* Redis is well: nothing of this is for the policies. */
static void what_there_is_no_room_for_is_asked_of_redis(void **context)
{
    char key[16];
    char name[64];
    unsigned n = 0;
    struct fleet_request request;
    (void)context;
    synced.home.policy = STORE_POLICY_CLOSED;
    do {
        assert_true(n <= NOTEBOOK_NOTES);
        request = (struct fleet_request){0};
        (void)snprintf(key, sizeof(key), "k%u", n++);
        fleet_add(&request, &synced, key, 0);
        fleet_ask(&f, 0, &request);
    } while (request.is_done);
    assert_true(fleet_wait(&f, &request));
    request = (struct fleet_request){0};
    fleet_add(&request, &synced, key, 3);
    ask(&request);
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_COUNTED);
    assert_int_equal(n_asked(), 2);
    (void)snprintf(name, sizeof(name), "rl:api:{%s}:synced", key);
    assert_int_equal(sim_used(f.sim, &synced.limit, name), 3);
}

static void what_policy_refuses_is_put_back(void **context)
{
    (void)context;
    hold_lease();
    cut_off();
    synced.home.policy = STORE_POLICY_CLOSED;
    leased.home.policy = STORE_POLICY_CLOSED;
    sim_set_cut(f.sim, 0, false);
    sim_run(f.sim, 5 * US_PER_S);
    assert_true(ask_one(&leased, 2 * BLOCK));
    sim_run(f.sim, 10 * US_PER_MS);
    sim_set_cut(f.sim, 0, true);
    assert_true(ask_one(&synced, 1));
    sim_run(f.sim, SYNC_LOST_US + 100 * US_PER_MS);
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", 1);
    fleet_add(&request, &synced, "a", 1);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.is_allowed);
    assert_false(request.take.charges[0].is_charged);
    struct fleet_request again = {0};
    fleet_add(&again, &leased, "a", BLOCK);
    fleet_ask(&f, 0, &again);
    assert_true(again.take.is_allowed); /* of its whole block */
}

static void a_peek_asks_and_spends_nothing(void **context)
{
    (void)context;
    hold_lease();
    uint64_t n = n_asked();
    struct fleet_request peek = {.take.is_peek = true};
    fleet_add(&peek, &leased, "a", BLOCK);
    ask(&peek);
    assert_int_equal(n_asked(), n + 1);
    assert_true(ask_one(&leased, BLOCK));
    assert_int_equal(n_asked(), n + 1);
}

/* As a check would be answered; what the counter holds is what Redis has. */
static void a_peek_passes_on_what_is_held(void **context)
{
    (void)context;
    struct fleet_limit direct = leased; /* the same counter, asked about at once */
    direct.home.kind = STORE_KIND_REDIS;
    hold_lease();
    assert_true(ask_one(&direct, 37 * BLOCK));
    static const struct {
        int64_t cost;
        int64_t plain_cost;
        bool is_held;
        bool is_allowed;
    } cases[] = {
        {BLOCK, 1, true, true},
        {BLOCK + 1, 1, false, false},
        {BLOCK, 11, true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet_request peek = {.take.is_peek = true};
        fleet_add(&peek, &plain, "a", cases[i].plain_cost);
        fleet_add(&peek, &leased, "a", cases[i].cost);
        ask(&peek);
        assert_int_equal(peek.take.charges[1].answer.is_allowed, cases[i].is_held);
        assert_int_equal(peek.take.charges[1].answer.retry_us == 0, cases[i].is_held);
        assert_int_equal(peek.take.is_allowed, cases[i].is_allowed);
        assert_int_equal(peek.take.held[1].remaining, 0);
    }
    struct fleet_request check = {0};
    fleet_add(&check, &plain, "a", 1);
    fleet_add(&check, &leased, "a", BLOCK);
    ask(&check);
    assert_true(check.take.is_allowed);
}

static void what_was_spent_is_settled_in_redis(void **context)
{
    (void)context;
    hold_lease();
    struct fleet_request request = {0};
    fleet_add(&request, &leased, "a", 10);
    ask(&request);
    const struct store_charge *charge = &request.take.charges[0];
    const struct store_settlement settlement = {
        .limit = charge->limit,
        .limit_id = charge->limit_id,
        .home = charge->home,
        .name = "rl:api:{a}:leased",
        .name_bytes = 17,
        .correction = {charge->place, 10, 4},
        .now = request.take.now,
        .counters = f.hosts[0].counters,
    };
    store_settle(f.hosts[0].redis, &settlement);
    sim_run(f.sim, FLEET_LEASE_TTL_US + 100 * US_PER_MS);
    assert_int_equal(used(&leased), 2 * BLOCK + 4);
}

/* --- the end --- */

/* @return after which time */
static int64_t finish(void)
{
    int64_t us = 0;
    while (!store_finish(f.hosts[0].redis)) {
        sim_run(f.sim, FINISH_STEP_US);
        us += FINISH_STEP_US;
        assert_true(us <= 5 * US_PER_S);
    }
    return us;
}

static void a_store_that_holds_nothing_has_finished(void **context)
{
    (void)context;
    assert_true(ask_one(&plain, 1));
    assert_int_equal(finish(), 0);
}

static void a_stop_returns_what_is_held(void **context)
{
    (void)context;
    hold_lease();
    assert_true(ask_one(&leased, 10));
    assert_true(ask_one(&synced, 10));
    assert_true(finish() < 100 * US_PER_MS);
    assert_int_equal(out(), 0);
    assert_int_equal(used(&leased), 2 * BLOCK + 10);
    assert_int_equal(used(&synced), 10);
}

static void a_stop_returns_what_comes_for_orders_under_way(void **context)
{
    (void)context;
    sim_set_latency(f.sim, 0, 2 * US_PER_MS, 2 * US_PER_MS);
    assert_true(ask_one(&leased, 2 * BLOCK) && out() == 0);
    assert_true(finish() < 200 * US_PER_MS);
    sim_run(f.sim, 100 * US_PER_MS);
    assert_int_equal(out(), 0);
    assert_int_equal(used(&leased), 2 * BLOCK);
}

static void a_stop_tells_what_was_charged_during_an_exchange(void **context)
{
    (void)context;
    sim_set_latency(f.sim, 0, 2 * US_PER_MS, 2 * US_PER_MS);
    assert_true(ask_one(&synced, 10));
    while (sim_n_in_flight(f.sim) == 0) {
        sim_run(f.sim, 100);
    }
    assert_true(ask_one(&synced, 5));
    assert_true(finish() < 200 * US_PER_MS);
    assert_int_equal(used(&synced), 15);
}

static void a_stop_does_not_wait_long_for_a_redis_that_is_away(void **context)
{
    (void)context;
    hold_lease();
    sim_set_health(f.sim, 0, SIM_DOWN);
    int64_t us = finish();
    assert_in_range(us, REDIS_FINISH_US - FINISH_STEP_US,
                    REDIS_FINISH_US + FINISH_STEP_US);
}

static void a_stop_does_not_go_on_with_one_that_sends_it_elsewhere(void **context)
{
    (void)context;
    hold_lease();
    assert_true(ask_one(&synced, 10));
    sim_set_health(f.sim, 0, SIM_MISTAKEN);
    int64_t us = finish();
    assert_in_range(us, REDIS_FINISH_US - FINISH_STEP_US,
                    REDIS_FINISH_US + 2 * FINISH_STEP_US);
}

/* --- rules that change --- */

static void a_reload_returns_what_is_held_and_leases_anew(void **context)
{
    (void)context;
    hold_lease();
    assert_true(ask_one(&synced, 10));
    store_leave(f.hosts[0].redis);
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(out(), 0);
    assert_int_equal(used(&leased), 2 * BLOCK);
    assert_int_equal(used(&synced), 10);
    hold_lease();
    sim_run(f.sim, 500 * US_PER_MS);
    assert_int_equal(out(), BLOCK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_held_is_spent_without_redis),
        TEST(what_is_not_held_is_asked_for_alone),
        TEST(what_redis_refuses_is_put_back_here),
        TEST(what_sync_refuses_asks_nobody),
        TEST(what_is_cut_off_is_decided_by_policy),
        TEST(what_there_is_no_room_for_is_asked_of_redis),
        TEST(what_policy_refuses_is_put_back),
        TEST(a_peek_asks_and_spends_nothing),
        TEST(a_peek_passes_on_what_is_held),
        TEST(what_was_spent_is_settled_in_redis),
        TEST(a_store_that_holds_nothing_has_finished),
        TEST(a_stop_returns_what_is_held),
        TEST(a_stop_returns_what_comes_for_orders_under_way),
        TEST(a_stop_tells_what_was_charged_during_an_exchange),
        TEST(a_stop_does_not_wait_long_for_a_redis_that_is_away),
        TEST(a_stop_does_not_go_on_with_one_that_sends_it_elsewhere),
        TEST(a_reload_returns_what_is_held_and_leases_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
