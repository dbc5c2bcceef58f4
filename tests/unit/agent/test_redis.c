/* The store of Redis over a Redis in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"

static struct fleet f;
static struct fleet_limit ten;   /* in Redis, 10 a minute */
static struct fleet_limit five;  /* the same */
static struct fleet_limit local; /* 10 a minute, on the host */

static int set_up_with(unsigned n_nodes)
{
    struct limit limit = sliding(10, MINUTE_US);
    fleet_init(&f, 1, n_nodes, 2);
    fleet_limit_init(&ten, &limit, "ten", false);
    fleet_limit_init(&local, &limit, "local", true);
    limit = sliding(5, MINUTE_US);
    fleet_limit_init(&five, &limit, "five", false);
    return 0;
}

static int set_up(void **context)
{
    (void)context;
    return set_up_with(1);
}

static int set_up_cluster(void **context)
{
    (void)context;
    return set_up_with(8);
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

/* One charge, waited for. */
static struct fleet_request ask(const struct fleet_limit *limit, const char *key,
                                int64_t cost)
{
    struct fleet_request request = {0};
    fleet_add(&request, limit, key, cost);
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    return request;
}

/* What is left of a limit in Redis, by its other host. */
static int64_t left(const struct fleet_limit *limit, const char *key)
{
    struct fleet_request request = {.take.is_peek = true};
    fleet_add(&request, limit, key, 1);
    fleet_ask(&f, 1, &request);
    assert_true(fleet_wait(&f, &request));
    assert_int_equal(request.take.charges[0].source, STORE_COUNTED);
    return request.take.held[0].remaining;
}

static int64_t left_here(const struct fleet_limit *limit, const char *key)
{
    struct fleet_request request = {.take.is_peek = true};
    fleet_add(&request, limit, key, 1);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    return request.take.held[0].remaining;
}

static void one_call_whatever_the_number_of_limits(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", 3);
    fleet_add(&request, &local, "a", 3);
    fleet_add(&request, &five, "b", 3);
    fleet_ask(&f, 0, &request);
    assert_false(request.is_done);
    assert_true(fleet_wait(&f, &request));
    assert_true(request.take.is_allowed);
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), 1);
    for (int i = 0; i < 3; i++) {
        assert_true(request.take.charges[i].is_charged);
        assert_int_equal(request.take.charges[i].source, STORE_COUNTED);
    }
    assert_int_equal(request.take.charges[0].answer.remaining, 7);
    assert_int_equal(request.take.charges[1].answer.remaining, 7);
    assert_int_equal(request.take.charges[2].answer.remaining, 2);
    assert_int_equal(request.take.failure, STORE_NO_FAILURE);
}

static void what_is_local_alone_needs_no_redis(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &local, "a", 3);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), 0);
}

static void two_hosts_have_one_count(void **context)
{
    (void)context;
    for (int i = 0; i < 10; i++) {
        struct fleet_request request = {0};
        fleet_add(&request, &ten, "a", 1);
        fleet_ask(&f, (unsigned)i % 2, &request);
        assert_true(fleet_wait(&f, &request));
        assert_true(request.take.is_allowed);
    }
    assert_false(ask(&ten, "a", 1).take.is_allowed);
}

static void a_local_refusal_sends_nothing(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", 1);
    fleet_add(&request, &local, "a", 11);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.is_allowed);
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), 0);
    assert_int_equal(request.take.charges[0].source, STORE_UNASKED);
    assert_true(request.take.charges[0].answer.is_allowed);
}

static void a_refusal_in_redis_gives_the_local_charge_back(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &local, "a", 4);
    fleet_add(&request, &five, "a", 6);
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    assert_false(request.take.is_allowed);
    assert_false(request.take.charges[0].is_charged);
    assert_int_equal(request.take.charges[0].answer.remaining, 10);
    assert_int_equal(request.take.charges[0].answer.reset_us, 0); /* as if untouched */
    assert_int_equal(left_here(&local, "a"), 10);
}

static void slots_are_asked_at_once_and_given_back(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", 6);
    fleet_add(&request, &ten, "b", 6);
    fleet_add(&request, &five, "c", 6); /* refuses */
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    assert_false(request.take.is_allowed);
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), 3);
    sim_run(f.sim, US_PER_MS);
    assert_int_equal(health_get(health(), HEALTH_GIVEN_BACK), 2);
    assert_int_equal(left(&ten, "a"), 10);
    assert_int_equal(left(&ten, "b"), 10);
    assert_int_equal(request.take.charges[0].answer.remaining, 10);
    assert_int_equal(request.take.charges[0].answer.reset_us, 0);
}

/* The answer comes when the slowest of those is there that are waited for. */
static void nobody_waits_for_shadows(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &five, "a", 6);
    request.take.charges[0].is_shadow = true;
    request.take.charges[0].is_lenient = true;
    request.take.charges[0].tie = 1;
    request.take.charges[0].count_idx = 3;
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_UNASKED);
    sim_run(f.sim, US_PER_MS);
    assert_int_equal(counter_get_outcome(f.hosts[0].counters, 3, OUTCOME_WOULD_REFUSE),
                     1);
}

static void an_answer_that_does_not_come_leaves_it_to_the_policy(void **context)
{
    (void)context;
    sim_set_health(f.sim, 0, SIM_STOPPED);
    struct fleet_request request = ask(&ten, "a", 1);
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.failure, STORE_DEADLINE);
    assert_int_equal(request.take.charges[0].source, STORE_FALLBACK);
    assert_true(instant_diff_us(request.done_at, request.take.now)
                <= FLEET_DEADLINE_US);
    assert_int_equal(health_get(health(), HEALTH_TIMEOUTS), 1);
    assert_int_equal(health_get(health(), HEALTH_POLICY_LOCAL), 1);
    /* two hosts: five for this one, of which one is used */
    for (int i = 0; i < 4; i++) {
        assert_true(ask(&ten, "a", 1).take.is_allowed);
    }
    assert_false(ask(&ten, "a", 1).take.is_allowed);
}

static void what_was_allowed_meanwhile_stays_charged(void **context)
{
    (void)context;
    sim_set_health(f.sim, 0, SIM_STOPPED);
    assert_true(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(health_n_under_way(health()), 1);
    sim_set_health(f.sim, 0, SIM_UP); /* carries it out now */
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(health_get(health(), HEALTH_LATE), 1);
    assert_int_equal(health_n_under_way(health()), 0);
    assert_int_equal(left(&ten, "a"), 7);
}

static void what_was_refused_meanwhile_is_given_back(void **context)
{
    (void)context;
    ten.home.policy = STORE_POLICY_CLOSED;
    sim_set_health(f.sim, 0, SIM_STOPPED);
    struct fleet_request request = ask(&ten, "a", 3);
    assert_false(request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_CLOSED);
    assert_in_range(request.take.charges[0].answer.retry_us, US_PER_S, 3 * US_PER_S);
    sim_set_health(f.sim, 0, SIM_UP);
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(health_get(health(), HEALTH_LATE), 1);
    assert_int_equal(health_get(health(), HEALTH_GIVEN_BACK), 1);
    assert_int_equal(left(&ten, "a"), 10);
}

static void each_charge_has_its_own_policy(void **context)
{
    (void)context;
    ten.home.policy = STORE_POLICY_OPEN;
    sim_set_health(f.sim, 0, SIM_DOWN);
    struct fleet_request request = {0};
    fleet_add(&request, &local, "a", 4);
    fleet_add(&request, &ten, "a", 1);
    fleet_add(&request, &five, "a", 1); /* local: three of five */
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done); /* at once: nobody to be asked */
    assert_true(request.take.is_allowed);
    assert_int_equal(request.take.failure, STORE_DOWN);
    assert_int_equal(request.take.charges[0].source, STORE_COUNTED);
    assert_int_equal(request.take.charges[1].source, STORE_OPEN);
    assert_int_equal(request.take.charges[2].source, STORE_FALLBACK);
    assert_int_equal(left_here(&local, "a"), 6);

    five.home.policy = STORE_POLICY_CLOSED;
    struct fleet_request again = {0};
    fleet_add(&again, &local, "a", 4);
    fleet_add(&again, &five, "a", 1);
    fleet_ask(&f, 0, &again);
    assert_true(again.is_done);
    assert_false(again.take.is_allowed);
    assert_int_equal(left_here(&local, "a"), 6); /* given back */
}

static void closed_refuses_nobody_who_is_only_warned(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    ten.home.policy = STORE_POLICY_CLOSED;
    sim_set_health(f.sim, 0, SIM_DOWN);
    fleet_add(&request, &ten, "a", 1);
    request.take.charges[0].is_lenient = true;
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done && request.take.is_allowed);
    assert_int_equal(request.take.charges[0].source, STORE_OPEN);
}

static void without_time_nothing_is_sent(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", 1);
    request.take.deadline = sim_now(f.sim);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_int_equal(request.take.failure, STORE_SLOW);
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), 0);
}

static void a_broken_connection_opens_the_breaker(void **context)
{
    (void)context;
    assert_true(ask(&ten, "a", 1).take.is_allowed);
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "b", 1);
    fleet_ask(&f, 0, &request);
    sim_set_health(f.sim, 0, SIM_DOWN);
    assert_true(request.is_done); /* at once */
    assert_int_equal(request.take.failure, STORE_DOWN);
    sim_set_health(f.sim, 0, SIM_UP);
    uint64_t n = sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE);
    struct fleet_request next = {0};
    fleet_add(&next, &ten, "b", 1);
    fleet_ask(&f, 0, &next);
    assert_true(next.is_done); /* is up, and not asked yet */
    assert_int_equal(sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE), n);
}

/* How long Redis is up again until every request is counted by it. */
static int64_t recovery_us(void)
{
    int64_t us = 0;
    unsigned n_good = 0;
    for (; n_good < 50; us += 10 * US_PER_MS) {
        assert_true(us < 10 * US_PER_S);
        struct fleet_request request = {0};
        fleet_add(&request, &ten, "z", 0);
        fleet_ask(&f, 0, &request);
        sim_run(f.sim, 10 * US_PER_MS);
        assert_true(request.is_done);
        n_good = request.take.charges[0].source == STORE_COUNTED ? n_good + 1 : 0;
    }
    return us - 500 * US_PER_MS;
}

static void recovers_within_two_seconds(void **context)
{
    (void)context;
    static const enum sim_health faults[] = {SIM_DOWN, SIM_STOPPED, SIM_FAILING,
                                             SIM_BABBLING};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        assert_true(ask(&ten, "a", 0).take.is_allowed);
        sim_set_health(f.sim, 0, faults[i]);
        for (int j = 0; j < 100; j++) {
            (void)ask(&ten, "a", 0);
            sim_run(f.sim, 10 * US_PER_MS);
        }
        /* all of it at once by now, from the breaker */
        uint64_t n_timeouts = health_get(health(), HEALTH_TIMEOUTS);
        (void)ask(&ten, "a", 0);
        assert_int_equal(health_get(health(), HEALTH_TIMEOUTS), n_timeouts);
        sim_set_health(f.sim, 0, SIM_UP);
        assert_in_range(recovery_us(), 0, 2 * US_PER_S);
    }
}

static void a_slow_redis_is_not_asked(void **context)
{
    (void)context;
    sim_set_latency(f.sim, 0, 1100, 1200); /* one way: more than slow in both */
    for (int i = 0; i < 150; i++) {
        (void)ask(&ten, "a", 0);
        sim_run(f.sim, 10 * US_PER_MS);
    }
    struct fleet_request request = ask(&ten, "a", 0);
    assert_int_equal(request.take.failure, STORE_SLOW);
    sim_set_latency(f.sim, 0, 100, 300);
    assert_in_range(recovery_us(), 0, 2 * US_PER_S);
}

static void answers_that_are_none_are_not_used(void **context)
{
    (void)context;
    sim_set_health(f.sim, 0, SIM_BABBLING);
    struct fleet_request request = ask(&ten, "a", 1);
    assert_int_equal(request.take.charges[0].source, STORE_FALLBACK);
    assert_int_equal(health_get(health(), HEALTH_ERRORS), 1);
}

/* They are no answers of probes either. */
static void what_babbles_stays_unasked(void **context)
{
    (void)context;
    sim_set_health(f.sim, 0, SIM_BABBLING);
    for (int i = 0; i < 10; i++) {
        (void)ask(&ten, "a", 0);
        sim_run(f.sim, 10 * US_PER_MS);
    }
    for (int i = 0; i < 30; i++) {
        sim_run(f.sim, 100 * US_PER_MS);
        assert_int_equal(health_status(health(), 0, sim_now(f.sim)).state,
                         BREAKER_OPEN);
    }
}

static void an_answer_that_is_none_ends_its_connection(void **context)
{
    (void)context;
    sim_set_latency(f.sim, 0, 100, 100);
    sim_set_health(f.sim, 0, SIM_BABBLING);
    struct fleet_request first = {0};
    fleet_add(&first, &ten, "a", 1);
    fleet_ask(&f, 0, &first);
    sim_run(f.sim, 50);
    struct fleet_request second = {0};
    fleet_add(&second, &ten, "b", 1);
    fleet_ask(&f, 0, &second);
    sim_run(f.sim, 150);
    assert_true(first.is_done && second.is_done);
    assert_int_equal(health_get(health(), HEALTH_ERRORS), 1);
    assert_int_equal(health_get(health(), HEALTH_LOST), 1);
}

/* A key that a node has. */
static const char *key_of(const struct fleet_limit *limit, unsigned node)
{
    static char keys[SIM_NODES_MAX][12];
    struct seam *seam = sim_seam(f.sim, 0);
    for (int i = 0; i < 1000; i++) {
        char name[64];
        (void)snprintf(keys[node], sizeof(keys[node]), "%d", i);
        int n = snprintf(name, sizeof(name), "rl:api:{%d}:%s", i, limit->name);
        if (seam_node(seam, seam_slot(seam, (struct seam_bytes){name, (size_t)n}))
            == node) {
            return keys[node];
        }
    }
    fail_msg("no key for node %u", node);
    return NULL;
}

static void one_dead_node_keeps_no_other_from_recovering(void **context)
{
    (void)context;
    sim_set_health(f.sim, 0, SIM_STOPPED);
    sim_set_health(f.sim, 1, SIM_FAILING);
    for (int i = 0; i < 100; i++) {
        (void)ask(&ten, key_of(&ten, 0), 0);
        (void)ask(&ten, key_of(&ten, 1), 0);
        sim_run(f.sim, 10 * US_PER_MS);
    }
    sim_set_health(f.sim, 1, SIM_UP);
    sim_run(f.sim, 2 * US_PER_S);
    assert_int_equal(ask(&ten, key_of(&ten, 1), 0).take.charges[0].source,
                     STORE_COUNTED);
}

/* Whichever is known first: the reason does not hang on who is slower. */
static void the_gravest_reason_is_told(void **context)
{
    (void)context;
    for (unsigned i = 0; i < 2; i++) {
        struct fleet_request request = {0};
        sim_set_health(f.sim, i, SIM_STOPPED);
        sim_set_health(f.sim, 1 - i, SIM_FAILING);
        fleet_add(&request, &ten, key_of(&ten, 0), 1);
        fleet_add(&request, &ten, key_of(&ten, 1), 1);
        fleet_ask(&f, 0, &request);
        assert_true(fleet_wait(&f, &request));
        assert_int_equal(request.take.failure, STORE_DOWN);
    }
}

static void a_counter_that_refuses_leaves_policies_nothing(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    sim_set_health(f.sim, 1, SIM_STOPPED);
    ten.home.policy = STORE_POLICY_CLOSED;
    fleet_add(&request, &five, key_of(&five, 0), 6);
    fleet_add(&request, &ten, key_of(&ten, 1), 1);
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    assert_false(request.take.is_allowed);
    assert_int_equal(request.take.failure, STORE_NO_FAILURE);
    assert_int_equal(request.take.charges[0].source, STORE_COUNTED);
    assert_int_equal(request.take.charges[1].source, STORE_UNASKED);
}

static void a_peek_changes_nothing(void **context)
{
    (void)context;
    (void)ask(&ten, "a", 4);
    struct fleet_request request = {.take.is_peek = true};
    fleet_add(&request, &ten, "a", 7);
    fleet_add(&request, &local, "a", 4);
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    assert_false(request.take.is_allowed);
    assert_int_equal(request.take.held[0].remaining, 6);
    assert_int_equal(request.take.charges[1].answer.remaining, 10); /* given back */
    assert_int_equal(request.take.charges[1].answer.reset_us, 0);
    assert_int_equal(left(&ten, "a"), 6);
    assert_int_equal(left_here(&local, "a"), 10);
}

static void correct(const struct fleet_request *request,
                    const struct fleet_limit *limit, const char *name, int64_t truth)
{
    const struct store_charge *charge = &request->take.charges[0];
    struct store_settlement settlement = {
        .limit = &limit->limit,
        .limit_id = limit->id,
        .home = &limit->home,
        .name = name,
        .name_bytes = strlen(name),
        .correction = {charge->place, charge->cost, truth},
        .now = sim_now(f.sim),
        .counters = f.hosts[0].counters,
    };
    store_settle(f.hosts[0].redis, &settlement);
    sim_run(f.sim, US_PER_MS);
}

static void settles_where_it_was_charged(void **context)
{
    (void)context;
    struct fleet_request request = ask(&ten, "a", 4);
    correct(&request, &ten, "rl:api:{a}:ten", 1);
    assert_int_equal(left(&ten, "a"), 9);
    correct(&request, &ten, "rl:api:{a}:ten", 6);
    assert_int_equal(left(&ten, "a"), 7);
    sim_set_health(f.sim, 0, SIM_DOWN);
    correct(&request, &ten, "rl:api:{a}:ten", 0);
    assert_int_equal(health_get(health(), HEALTH_SETTLES_LOST), 1);
}

static void too_many_under_way_are_not_asked(void **context)
{
    (void)context;
    static struct fleet_request requests[REDIS_TAKES_MAX + 10];
    memset(requests, 0, sizeof(requests));
    sim_set_health(f.sim, 0, SIM_STOPPED);
    for (unsigned i = 0; i < REDIS_TAKES_MAX + 10; i++) {
        fleet_add(&requests[i], &ten, "a", 0);
        fleet_ask(&f, 0, &requests[i]);
        assert_int_equal(requests[i].is_done, i >= SIM_IN_FLIGHT_MAX);
        if (requests[i].is_done) {
            assert_int_equal(requests[i].take.failure, STORE_SLOW);
        }
    }
    sim_run(f.sim, FLEET_DEADLINE_US);
    for (unsigned i = 0; i < REDIS_TAKES_MAX + 10; i++) {
        assert_true(requests[i].is_done);
    }
}

static void counters_that_go_are_let_go(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &five, "a", 6);
    request.take.charges[0].is_shadow = true;
    request.take.charges[0].is_lenient = true;
    request.take.charges[0].tie = 1;
    fleet_ask(&f, 0, &request);
    store_leave(f.hosts[0].redis);
    counters_free(f.hosts[0].counters); /* a sanitizer sees who uses them */
    f.hosts[0].counters = counters_new(16);
    sim_run(f.sim, US_PER_MS);
    assert_int_equal(counter_get_outcome(f.hosts[0].counters, 0, OUTCOME_WOULD_REFUSE),
                     0);
}

/* --- what was refused a moment ago --- */

static uint64_t n_asked(void)
{
    return sim_n_scripts(f.sim, REDIS_SCRIPT_TAKE);
}

/* Eight of ten are used, three more are refused. */
static void be_refused(void)
{
    assert_true(ask(&ten, "a", 8).take.is_allowed);
    assert_false(ask(&ten, "a", 3).take.is_allowed);
}

static void what_was_refused_is_refused_again(void **context)
{
    (void)context;
    be_refused();
    uint64_t n = n_asked();
    struct fleet_request first = ask(&ten, "a", 3);
    assert_int_equal(n_asked(), n);
    sim_run(f.sim, 300 * US_PER_MS);
    struct fleet_request request = {0};
    fleet_add(&request, &ten, "a", 4);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.is_allowed);
    assert_int_equal(n_asked(), n);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), 2);
    const struct store_charge *charge = &request.take.charges[0];
    assert_int_equal(charge->source, STORE_COUNTED);
    assert_false(charge->answer.is_allowed);
    assert_int_equal(charge->answer.remaining, 2);
    assert_int_equal(charge->answer.retry_us,
                     first.take.charges[0].answer.retry_us - 300 * US_PER_MS);
}

static void a_smaller_cost_is_asked_for(void **context)
{
    (void)context;
    be_refused();
    uint64_t n = n_asked();
    assert_true(ask(&ten, "a", 2).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void after_a_second_it_is_asked_again(void **context)
{
    (void)context;
    be_refused();
    uint64_t n = n_asked();
    sim_run(f.sim, REFUSALS_US_MAX);
    assert_false(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), 0);
}

static void what_is_refused_again_charges_nothing(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    be_refused();
    uint64_t n = n_asked();
    fleet_add(&request, &local, "a", 4);
    fleet_add(&request, &ten, "a", 3);
    fleet_add(&request, &five, "b", 1);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.is_allowed);
    assert_int_equal(n_asked(), n);
    for (unsigned i = 0; i < 3; i += 2) {
        assert_int_equal(request.take.charges[i].source, STORE_UNASKED);
        assert_true(request.take.charges[i].answer.is_allowed);
        assert_false(request.take.charges[i].is_charged);
    }
    assert_int_equal(left_here(&local, "a"), 10);
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

static void each_that_was_refused_says_so(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    be_refused();
    assert_false(ask(&five, "b", 6).take.is_allowed);
    fleet_add(&request, &ten, "a", 3);
    fleet_add(&request, &five, "b", 6);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_false(request.take.charges[0].answer.is_allowed);
    assert_false(request.take.charges[1].answer.is_allowed);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), 1);
}

static void who_refuses_nobody_is_asked(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    be_refused();
    uint64_t n = n_asked();
    fleet_add(&request, &ten, "a", 3);
    request.take.charges[0].is_lenient = true;
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    assert_true(request.take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void what_refused_nobody_is_not_remembered(void **context)
{
    (void)context;
    struct fleet_request request = {0};
    fleet_add(&request, &five, "a", 6);
    request.take.charges[0].is_lenient = true;
    fleet_ask(&f, 0, &request);
    assert_true(fleet_wait(&f, &request));
    uint64_t n = n_asked();
    assert_false(ask(&five, "a", 6).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void a_peek_asks_and_is_not_remembered(void **context)
{
    (void)context;
    for (unsigned i = 0; i < 3; i++) { /* one before, and two after the refusal */
        struct fleet_request request = {.take.is_peek = true};
        uint64_t n = n_asked();
        fleet_add(&request, &five, "a", 6);
        fleet_ask(&f, 0, &request);
        assert_true(fleet_wait(&f, &request));
        assert_false(request.take.is_allowed);
        assert_int_equal(n_asked(), n + 1);
        if (i == 0) {
            assert_false(ask(&five, "a", 6).take.is_allowed);
            assert_int_equal(n_asked(), n + 2);
        }
    }
}

static void another_limit_is_asked(void **context)
{
    (void)context;
    be_refused();
    ten.limit.size = ten.limit.requests = 20;
    uint64_t n = n_asked();
    assert_true(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void rules_that_change_forget_it(void **context)
{
    (void)context;
    be_refused();
    store_leave(f.hosts[0].redis);
    uint64_t n = n_asked();
    assert_false(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void a_refusal_by_policy_is_not_remembered(void **context)
{
    (void)context;
    ten.home.policy = STORE_POLICY_CLOSED;
    sim_set_health(f.sim, 0, SIM_FAILING);
    assert_int_equal(ask(&ten, "a", 3).take.charges[0].source, STORE_CLOSED);
    sim_set_health(f.sim, 0, SIM_UP);
    assert_true(ask(&ten, "a", 3).take.is_allowed);
}

/* Asked of a Redis that stopped, which refuses when it is back. */
static struct fleet_request ask_too_early(void)
{
    ten.home.policy = STORE_POLICY_OPEN;
    assert_true(ask(&ten, "a", 8).take.is_allowed);
    sim_set_health(f.sim, 0, SIM_STOPPED);
    struct fleet_request request = ask(&ten, "a", 3);
    assert_int_equal(request.take.charges[0].source, STORE_OPEN);
    sim_set_health(f.sim, 0, SIM_UP);
    return request;
}

static void a_late_refusal_is_remembered(void **context)
{
    (void)context;
    struct fleet_request late = ask_too_early();
    sim_run(f.sim, 10 * US_PER_MS);
    assert_int_equal(health_get(health(), HEALTH_LATE), 1);
    uint64_t n = n_asked();
    assert_false(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n);
    /* as long as if it had come at once */
    sim_run(f.sim, REFUSALS_US_MAX - instant_diff_us(sim_now(f.sim), late.asked_at));
    assert_false(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

static void a_late_refusal_by_rules_that_are_gone_is_not(void **context)
{
    (void)context;
    (void)ask_too_early();
    store_leave(f.hosts[0].redis);
    sim_run(f.sim, 10 * US_PER_MS);
    uint64_t n = n_asked();
    assert_false(ask(&ten, "a", 3).take.is_allowed);
    assert_int_equal(n_asked(), n + 1);
}

/* Shards are refused each for itself: while one has room nobody is. */
static void a_shard_that_refused_is_passed_over(void **context)
{
    (void)context;
    ten.limit = fixed(100, MINUTE_US);
    ten.home.n_shards = 2;
    for (unsigned i = 0; i < 100; i++) {
        assert_true(ask(&ten, "a", 1).take.is_allowed);
    }
    assert_false(ask(&ten, "a", 1).take.is_allowed);
    uint64_t n = n_asked(); /* by now both have refused */
    uint64_t n_again = health_get(health(), HEALTH_REFUSED_AGAIN);
    assert_false(ask(&ten, "a", 1).take.is_allowed);
    assert_int_equal(n_asked(), n);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), n_again + 1);
}

/* --- what was refused, and may pass by now --- */

enum {
    CROWD = 20
};

static struct fleet_request crowd[CROWD];

/* A bucket that is empty, of which a request was refused, when it has `n_tokens` again. */
static void be_refused_until(struct fleet_limit *limit, int64_t n_tokens)
{
    struct limit what = bucket(100, 10, US_PER_S);
    sim_set_latency(f.sim, 0, 100, 100);
    fleet_limit_init(limit, &what, "bucket", false);
    assert_true(ask(limit, "a", 10).take.is_allowed);
    assert_false(ask(limit, "a", 1).take.is_allowed);
    sim_run(f.sim, n_tokens * 10 * US_PER_MS);
}

static void crowd_in(const struct fleet_limit *limit)
{
    memset(crowd, 0, sizeof(crowd));
    for (unsigned i = 0; i < CROWD; i++) {
        fleet_add(&crowd[i], limit, "a", 1);
        fleet_ask(&f, 0, &crowd[i]);
        assert_false(crowd[i].is_done);
    }
}

static unsigned n_allowed_of_crowd(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
        n += crowd[i].take.is_allowed;
    }
    return n;
}

static void one_asks_for_all(void **context)
{
    (void)context;
    struct fleet_limit limit;
    be_refused_until(&limit, 1);
    uint64_t n = n_asked();
    crowd_in(&limit);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    sim_run(f.sim, 200);
    assert_true(crowd[0].is_done);
    assert_false(crowd[1].is_done);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    sim_run(f.sim, 200);
    assert_int_equal(n_allowed_of_crowd(), 1);
    assert_int_equal(n_asked(), n + 2);
    assert_int_equal(health_get(health(), HEALTH_REFUSED_AGAIN), CROWD - 2);
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

/* Six, of which the first is told that there are five more; and one that finds there is no
 * seventh. */
static void as_many_ask_as_there_is_room_for(void **context)
{
    (void)context;
    struct fleet_limit limit;
    be_refused_until(&limit, 6);
    uint64_t n = n_asked();
    crowd_in(&limit);
    sim_run(f.sim, 200);
    assert_int_equal(sim_n_in_flight(f.sim), 5);
    sim_run(f.sim, 200);
    assert_int_equal(sim_n_in_flight(f.sim), 2);
    sim_run(f.sim, 200);
    assert_int_equal(n_allowed_of_crowd(), 6);
    assert_int_equal(n_asked(), n + 8);
}

/* Two more are there by each answer: more ask each time, until one is refused. */
static void more_ask_while_they_are_allowed(void **context)
{
    (void)context;
    static const unsigned n_asking[] = {1, 1, 2, 4};
    struct limit what = bucket(10000, 2, US_PER_S);
    struct fleet_limit limit;
    struct fleet_request requests[2] = {0};
    fleet_limit_init(&limit, &what, "bucket", false);
    sim_set_latency(f.sim, 0, 100, 100);
    for (unsigned i = 0; i < 2; i++) {
        fleet_add(&requests[i], &limit, "a", i == 0 ? 2 : 1); /* each by itself */
        fleet_ask(&f, 0, &requests[i]);
    }
    sim_run(f.sim, 10 * US_PER_MS);
    assert_true(requests[0].take.is_allowed && !requests[1].take.is_allowed);
    crowd_in(&limit);
    for (unsigned i = 0; i < ARRAY_LEN(n_asking); i++) {
        assert_int_equal(sim_n_in_flight(f.sim), n_asking[i]);
        sim_run(f.sim, 200);
    }
    assert_int_equal(n_allowed_of_crowd(), 1 + 1 + 2 + 2);
}

/* Local charges are made first, and given back where the one that asks finds no more room. */
static void who_follows_gives_back_what_it_charged(void **context)
{
    (void)context;
    struct fleet_limit limit;
    struct fleet_request requests[3] = {0};
    be_refused_until(&limit, 1);
    fleet_add(&requests[2], &local, "a", 4);
    for (unsigned i = 0; i < 3; i++) {
        fleet_add(&requests[i], &limit, "a", 1);
        fleet_ask(&f, 0, &requests[i]);
    }
    assert_int_equal(left_here(&local, "a"), 6);
    sim_run(f.sim, 400);
    const struct store_take *last = &requests[2].take;
    assert_true(requests[2].is_done);
    assert_false(last->is_allowed || last->charges[0].is_charged);
    assert_int_equal(last->charges[0].answer.remaining, 10);
    assert_int_equal(last->charges[1].source, STORE_COUNTED);
    assert_int_equal(left_here(&local, "a"), 10);
}

static void nobody_follows_without_need(void **context)
{
    (void)context;
    struct fleet_limit limit;
    struct fleet_request requests[5] = {0};
    be_refused_until(&limit, 1);
    fleet_add(&requests[0], &limit, "a", 1); /* asks */
    fleet_add(&requests[1], &limit, "a", 0); /* always passes */
    fleet_add(&requests[2], &limit, "a", 1); /* refuses nobody */
    requests[2].take.charges[0].is_lenient = true;
    fleet_add(&requests[3], &limit, "a", 1);
    requests[3].take.is_peek = true;
    fleet_add(&requests[4], &limit, "b", 1); /* another counter */
    for (unsigned i = 0; i < ARRAY_LEN(requests); i++) {
        fleet_ask(&f, 0, &requests[i]);
        assert_int_equal(sim_n_in_flight(f.sim), i + 1);
    }
    sim_run(f.sim, 200);
    assert_int_equal(redis_store_n_under_way(f.hosts[0].redis), 0);
}

/* Half of its time: the other half is for asking. */
static void who_follows_asks_while_there_is_time(void **context)
{
    (void)context;
    struct fleet_limit limit;
    be_refused_until(&limit, CROWD);
    sim_set_latency(f.sim, 0, 1900, 1900);
    crowd_in(&limit);
    sim_run(f.sim, (FLEET_DEADLINE_US - REDIS_RESERVE_US) / 2 - 1);
    assert_int_equal(sim_n_in_flight(f.sim), 1);
    sim_set_latency(f.sim, 0, 100, 100);
    sim_run(f.sim, 1);
    assert_int_equal(sim_n_in_flight(f.sim), CROWD);
    sim_run(f.sim, 2 * US_PER_MS);
    assert_int_equal(n_allowed_of_crowd(), 10);
}

static void who_follows_one_that_fails_asks(void **context)
{
    (void)context;
    struct fleet_limit limit;
    be_refused_until(&limit, 1);
    crowd_in(&limit);
    sim_set_health(f.sim, 0, SIM_FAILING);
    sim_run(f.sim, 200);
    assert_int_equal(crowd[0].take.failure, STORE_DOWN);
    assert_int_equal(sim_n_in_flight(f.sim), CROWD - 1); /* all the others, at once */
    sim_run(f.sim, FLEET_DEADLINE_US);
    for (unsigned i = 0; i < CROWD; i++) {
        assert_true(crowd[i].is_done);
        assert_int_equal(crowd[i].take.failure, STORE_DOWN);
    }
}

static void without_time_nobody_follows(void **context)
{
    (void)context;
    struct fleet_limit limit;
    struct fleet_request request = {0};
    be_refused_until(&limit, 1);
    fleet_add(&request, &limit, "a", 1);
    crowd_in(&limit);
    request.take.deadline = instant_add_us(sim_now(f.sim), REDIS_RESERVE_US);
    fleet_ask(&f, 0, &request);
    assert_true(request.is_done);
    assert_int_equal(request.take.failure, STORE_SLOW);
    sim_run(f.sim, FLEET_DEADLINE_US);
    assert_int_equal(n_allowed_of_crowd(), 1);
}

/* A change of rules forgets who asks, but not who follows. */
static void rules_that_change_keep_followers(void **context)
{
    (void)context;
    struct fleet_limit limit;
    be_refused_until(&limit, 3);
    crowd_in(&limit);
    store_leave(f.hosts[0].redis);
    sim_run(f.sim, FLEET_DEADLINE_US);
    assert_int_equal(n_allowed_of_crowd(), 3);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define CLUSTER(name) cmocka_unit_test_setup_teardown(name, set_up_cluster, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_call_whatever_the_number_of_limits),
        TEST(what_is_local_alone_needs_no_redis),
        TEST(two_hosts_have_one_count),
        TEST(a_local_refusal_sends_nothing),
        TEST(a_refusal_in_redis_gives_the_local_charge_back),
        CLUSTER(slots_are_asked_at_once_and_given_back),
        TEST(nobody_waits_for_shadows),
        TEST(an_answer_that_does_not_come_leaves_it_to_the_policy),
        TEST(what_was_allowed_meanwhile_stays_charged),
        TEST(what_was_refused_meanwhile_is_given_back),
        TEST(each_charge_has_its_own_policy),
        TEST(closed_refuses_nobody_who_is_only_warned),
        TEST(without_time_nothing_is_sent),
        TEST(a_broken_connection_opens_the_breaker),
        TEST(recovers_within_two_seconds),
        TEST(a_slow_redis_is_not_asked),
        TEST(answers_that_are_none_are_not_used),
        TEST(what_babbles_stays_unasked),
        TEST(an_answer_that_is_none_ends_its_connection),
        CLUSTER(one_dead_node_keeps_no_other_from_recovering),
        CLUSTER(the_gravest_reason_is_told),
        CLUSTER(a_counter_that_refuses_leaves_policies_nothing),
        TEST(a_peek_changes_nothing),
        TEST(settles_where_it_was_charged),
        TEST(too_many_under_way_are_not_asked),
        TEST(counters_that_go_are_let_go),
        TEST(what_was_refused_is_refused_again),
        TEST(a_smaller_cost_is_asked_for),
        TEST(after_a_second_it_is_asked_again),
        TEST(what_is_refused_again_charges_nothing),
        TEST(each_that_was_refused_says_so),
        TEST(who_refuses_nobody_is_asked),
        TEST(what_refused_nobody_is_not_remembered),
        TEST(a_peek_asks_and_is_not_remembered),
        TEST(another_limit_is_asked),
        TEST(rules_that_change_forget_it),
        TEST(a_refusal_by_policy_is_not_remembered),
        TEST(a_late_refusal_is_remembered),
        TEST(a_late_refusal_by_rules_that_are_gone_is_not),
        TEST(a_shard_that_refused_is_passed_over),
        TEST(one_asks_for_all),
        TEST(as_many_ask_as_there_is_room_for),
        TEST(more_ask_while_they_are_allowed),
        TEST(who_follows_gives_back_what_it_charged),
        TEST(nobody_follows_without_need),
        TEST(who_follows_asks_while_there_is_time),
        TEST(who_follows_one_that_fails_asks),
        TEST(without_time_nobody_follows),
        TEST(rules_that_change_keep_followers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
