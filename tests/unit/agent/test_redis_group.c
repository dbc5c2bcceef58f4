/* Takes that want the same of one counter at one time, over a Redis in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"

enum {
    CROWD = 20,
    WAY_US = 100, /* to Redis, and back */
};

static struct fleet f;
static struct fleet_limit many;  /* in Redis, 1 000 a minute */
static struct fleet_limit ten;   /* 10 */
static struct fleet_limit local; /* 100, on the host */
static struct fleet_request crowd[CROWD];

static int set_up(void **context)
{
    (void)context;
    struct limit limit = sliding(1000, MINUTE_US);
    fleet_init(&f, 1, 1, 2);
    sim_set_latency(f.sim, 0, WAY_US, WAY_US);
    sim_set_latency(f.sim, 1, WAY_US / 4, WAY_US / 4);
    fleet_limit_init(&many, &limit, "many", false);
    limit = sliding(10, MINUTE_US);
    fleet_limit_init(&ten, &limit, "ten", false);
    limit = sliding(100, MINUTE_US);
    fleet_limit_init(&local, &limit, "local", true);
    memset(crowd, 0, sizeof(crowd));
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    fleet_fini(&f);
    return 0;
}

static struct health *health(void)
{
    return f.hosts[0].health;
}

static uint64_t n_asked(void)
{
    return sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE);
}

/* One of the crowd asks for a charge of a limit, and one on the host. */
static void ask(unsigned i, const struct fleet_limit *limit)
{
    fleet_add(&crowd[i], limit, "a", 1);
    fleet_add(&crowd[i], &local, "a", 1);
    fleet_ask(&f, 0, &crowd[i]);
}

static void crowd_in(const struct fleet_limit *limit)
{
    for (unsigned i = 0; i < CROWD; i++) {
        ask(i, limit);
        assert_false(crowd[i].is_done);
    }
}

/* Each is done, and allowed, or not, all of it. */
static unsigned n_allowed(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
        assert_int_equal(crowd[i].take.charges[1].is_charged, crowd[i].take.is_allowed);
        n += crowd[i].take.is_allowed;
    }
    return n;
}

static int64_t left_of(const struct fleet_limit *limit, unsigned host)
{
    struct fleet_request request = {.take.is_peek = true};
    fleet_add(&request, limit, "a", 1);
    fleet_ask(&f, host, &request);
    assert_true(request.is_done || fleet_wait(&f, &request));
    return request.take.held[0].remaining;
}

/* By another host, whose call is there sooner than any from here. */
static void take_elsewhere(int64_t cost)
{
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", cost);
    fleet_ask(&f, 1, &request);
    sim_run(f.sim, WAY_US / 2);
    assert_true(request.is_done && request.take.is_allowed);
}

static void who_comes_while_one_asks_goes_with_the_next_call(void **context)
{
    (void)context;
    crowd_in(&many);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    sim_run(f.sim, 2 * WAY_US);
    assert_true(crowd[0].is_done);
    assert_false(crowd[1].is_done);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    sim_run(f.sim, 2 * WAY_US);
    assert_int_equal(n_allowed(), CROWD);
    assert_int_equal(n_asked(), 2);
    assert_int_equal(health_get(health(), HEALTH_JOINED), CROWD - 2);
    for (unsigned i = 0; i < CROWD; i++) {
        const struct store_charge *charge = &crowd[i].take.charges[0];
        assert_true(charge->is_charged && charge->answer.is_allowed);
        assert_int_equal(charge->source, STORE_COUNTED);
        assert_int_equal(charge->answer.remaining, 1000 - 1 - (int)i);
        assert_int_equal(charge->place, crowd[0].take.charges[0].place);
    }
    assert_int_equal(left_of(&many, 1), 1000 - CROWD);
    assert_int_equal(left_of(&local, 0), 100 - CROWD);
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

static void what_each_was_charged_can_be_settled(void **context)
{
    (void)context;
    crowd_in(&many);
    sim_run(f.sim, 4 * WAY_US);
    for (unsigned i = 0; i < CROWD; i++) {
        const struct store_charge *charge = &crowd[i].take.charges[0];
        struct store_settlement settlement = {
            .limit = &many.limit,
            .home = &many.home,
            .name = "rl:api:{a}:many",
            .name_bytes = strlen("rl:api:{a}:many"),
            .correction = {charge->place, 1, i % 2},
            .now = sim_now(f.sim),
            .counters = f.hosts[0].counters,
        };
        store_settle(f.hosts[0].redis, &settlement);
    }
    sim_run(f.sim, 4 * WAY_US);
    assert_int_equal(left_of(&many, 1), 1000 - CROWD / 2);
}

/* Nine go together and find room, the next one finds none, and the others hear of that. */
static void a_group_is_no_larger_than_what_is_left(void **context)
{
    (void)context;
    crowd_in(&ten);
    sim_run(f.sim, 6 * WAY_US);
    assert_int_equal(n_allowed(), 10);
    assert_int_equal(n_asked(), 3);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), CROWD - 11);
    assert_int_equal(left_of(&ten, 1), 0);
    assert_int_equal(left_of(&local, 0), 100 - 10);
}

/* Nine go together where four are left: then one, three, and one that is refused. */
static void a_group_that_is_too_large_is_asked_for_anew(void **context)
{
    (void)context;
    crowd_in(&ten);
    sim_run(f.sim, WAY_US);
    take_elsewhere(5);
    sim_run(f.sim, 3 * WAY_US - WAY_US / 2);
    assert_int_equal(n_asked(), 3);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    assert_true(crowd[0].is_done);
    assert_false(crowd[1].is_done);
    sim_run(f.sim, 6 * WAY_US);
    assert_int_equal(n_allowed(), 5);
    assert_int_equal(n_asked(), 3 + 3);
    assert_int_equal(left_of(&ten, 1), 0);
    assert_int_equal(left_of(&local, 0), 100 - 5);
}

static void who_is_first_is_answered_first(void **context)
{
    (void)context;
    crowd_in(&ten);
    sim_run(f.sim, WAY_US);
    take_elsewhere(5);
    sim_run(f.sim, 20 * WAY_US);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(crowd[i].take.is_allowed, i < 5);
    }
}

/* Redis stops when it has the group: policies decide, of which some allow. */
static void expect_given_back(enum store_policy policy, unsigned n_allowed_by_policy)
{
    struct limit eight = sliding(8, MINUTE_US); /* of two hosts: four */
    many.home.policy = policy;
    fallback_init(&many.home.fallback, &eight, 8, 1);
    crowd_in(&many);
    sim_run(f.sim, 2 * WAY_US);
    assert_true(crowd[0].is_done);
    sim_set_health(f.sim, 0, SIM_STOPPED);
    sim_run(f.sim, FLEET_DEADLINE_US);
    assert_int_equal(n_allowed(), 1 + n_allowed_by_policy);
    for (unsigned i = 1; i < CROWD; i++) {
        assert_int_equal(crowd[i].take.failure, STORE_DEADLINE);
    }
    sim_set_health(f.sim, 0, SIM_UP); /* carries it out now */
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(n_asked(), 2);
    assert_int_equal(health_get(health(), HEALTH_LATE), 1);
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
    sim_run(f.sim, US_PER_S);
    assert_int_equal(left_of(&many, 1), 1000 - 1 - (int)n_allowed_by_policy);
}

static void what_policies_refused_of_a_group_is_given_back(void **context)
{
    (void)context;
    expect_given_back(STORE_POLICY_CLOSED, 0);
}

static void what_policies_refused_of_some_of_a_group_is_given_back(void **context)
{
    (void)context;
    expect_given_back(STORE_POLICY_LOCAL, 4);
}

static void what_policies_allowed_of_a_group_stays_charged(void **context)
{
    (void)context;
    expect_given_back(STORE_POLICY_OPEN, CROWD - 1);
}

/* And none after another, each for those who wait for it in turn. */
static void where_one_has_no_answer_each_asks_by_itself(void **context)
{
    (void)context;
    crowd_in(&ten);
    sim_set_health(f.sim, 0, SIM_FAILING);
    sim_run(f.sim, 2 * WAY_US);
    assert_true(crowd[0].is_done);
    assert_int_equal(crowd[0].take.failure, STORE_DOWN);
    assert_int_equal(sim_n_in_flight(f.sim), CROWD - 1);
}

static void nobody_is_forgotten_where_redis_goes_away(void **context)
{
    (void)context;
    crowd_in(&many);
    sim_set_health(f.sim, 0, SIM_DOWN);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
        assert_int_equal(crowd[i].take.failure, STORE_DOWN);
    }
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

static void nor_where_it_goes_away_with_a_group(void **context)
{
    (void)context;
    crowd_in(&ten); /* one goes, nine do, and the others wait */
    sim_run(f.sim, 2 * WAY_US);
    sim_set_health(f.sim, 0, SIM_DOWN);
    for (unsigned i = 1; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
        assert_int_equal(crowd[i].take.failure, STORE_DOWN);
    }
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

/* Who has waited for half of its time asks by itself. */
static void nobody_waits_for_one_that_is_not_answered(void **context)
{
    (void)context;
    crowd_in(&many);
    sim_set_latency(f.sim, 0, 10 * FLEET_DEADLINE_US, 10 * FLEET_DEADLINE_US);
    sim_set_health(f.sim, 0, SIM_STOPPED);
    sim_run(f.sim, FLEET_DEADLINE_US / 2);
    assert_int_equal(sim_n_in_flight(f.sim), CROWD);
    sim_run(f.sim, FLEET_DEADLINE_US / 2);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
    }
}

static void where_redis_is_far_away_each_asks_at_once(void **context)
{
    (void)context;
    sim_set_latency(f.sim, 0, FLEET_DEADLINE_US / 8, FLEET_DEADLINE_US / 8);
    ask(0, &many);
    sim_run(f.sim, FLEET_DEADLINE_US / 4);
    assert_true(crowd[0].is_done);
    for (unsigned i = 1; i < CROWD; i++) {
        ask(i, &many);
    }
    assert_int_equal(sim_n_in_flight(f.sim), CROWD - 1);
    sim_run(f.sim, FLEET_DEADLINE_US / 4);
    assert_int_equal(n_allowed(), CROWD);
}

static void ask_with(unsigned i, const struct fleet_limit *limit, int64_t cost,
                     bool is_lenient, bool is_peek)
{
    fleet_add(&crowd[i], limit, "a", cost);
    crowd[i].take.charges[0].is_lenient = is_lenient;
    crowd[i].take.is_peek = is_peek;
    fleet_ask(&f, 0, &crowd[i]);
}

static void who_wants_something_else_asks_at_once(void **context)
{
    (void)context;
    struct limit what = sliding(999, MINUTE_US);
    static struct fleet_limit other;
    fleet_limit_init(&other, &what, "many", false); /* of a plan */
    ask_with(0, &many, 1, false, false);
    ask_with(1, &many, 2, false, false);
    ask_with(2, &many, 1, true, false);
    ask_with(3, &many, 1, false, true);
    ask_with(4, &many, 0, false, false);
    ask_with(5, &ten, 1, false, false);
    ask_with(6, &other, 1, false, false);
    fleet_add(&crowd[7], &many, "a", 1);
    fleet_add(&crowd[7], &ten, "a", 1);
    fleet_ask(&f, 0, &crowd[7]);
    assert_int_equal(sim_n_in_flight(f.sim), 8);
    ask_with(8, &many, 1, false, false);
    assert_int_equal(sim_n_in_flight(f.sim), 8);
    sim_run(f.sim, 4 * WAY_US);
    assert_int_equal(n_asked(), 9);
}

/* Of these no part of a charge can be given back, or each waits for another time. */
static void logs_and_leaky_buckets_go_one_by_one(void **context)
{
    (void)context;
    const struct limit whats[] = {
        make(LIMIT_SLIDING_LOG, 10, 10, MINUTE_US),
        leaky(10, US_PER_S, US_PER_S),
    };
    for (unsigned i = 0; i < ARRAY_LEN(whats); i++) {
        static struct fleet_limit limit;
        fleet_limit_init(&limit, &whats[i], i == 0 ? "log" : "leaky", false);
        ask_with(2 * i, &limit, 1, false, false);
        ask_with(2 * i + 1, &limit, 1, false, false);
        assert_int_equal(sim_n_in_flight(f.sim), 2 * (i + 1));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(who_comes_while_one_asks_goes_with_the_next_call),
        TEST(what_each_was_charged_can_be_settled),
        TEST(a_group_is_no_larger_than_what_is_left),
        TEST(a_group_that_is_too_large_is_asked_for_anew),
        TEST(who_is_first_is_answered_first),
        TEST(what_policies_refused_of_a_group_is_given_back),
        TEST(what_policies_refused_of_some_of_a_group_is_given_back),
        TEST(what_policies_allowed_of_a_group_stays_charged),
        TEST(where_one_has_no_answer_each_asks_by_itself),
        TEST(nobody_is_forgotten_where_redis_goes_away),
        TEST(nor_where_it_goes_away_with_a_group),
        TEST(nobody_waits_for_one_that_is_not_answered),
        TEST(where_redis_is_far_away_each_asks_at_once),
        TEST(who_wants_something_else_asks_at_once),
        TEST(logs_and_leaky_buckets_go_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
