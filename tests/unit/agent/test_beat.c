/* Agents that count each other through a Redis in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/beat.h"

#include "tests/simulation/sim.h"
#include "tests/support/prng.h"

enum {
    AGENTS = 24,
};

#define LIVES_US   (3 * US_PER_S) /* after a heartbeat, as beat.lua has it */
#define FALLING_US (LIVES_US + HEAD_COUNT_FALL_US)
#define A_BEAT_US  (BEAT_US + 10 * US_PER_MS)

static struct sim *sim;
static struct agent {
    struct health *health;
    struct beat beat;
    char name[8];
} agents[AGENTS];

static int set_up(void **context)
{
    (void)context;
    sim = sim_new(1, 1, AGENTS);
    memset(agents, 0, sizeof(agents));
    return 0;
}

static void be_asked(unsigned i)
{
    health_note_asked(agents[i].health, seam_now(sim_seam(sim, i)));
}

static int tear_down(void **context)
{
    (void)context;
    sim_heal(sim);
    for (unsigned i = 0; i < AGENTS; i++) {
        if (agents[i].health != NULL) {
            seam_timer_stop(sim_seam(sim, i), &agents[i].beat.timer);
        }
    }
    sim_run(sim, 2 * US_PER_S);
    assert_int_equal(sim_n_in_flight(sim), 0);
    for (unsigned i = 0; i < AGENTS; i++) {
        health_free(agents[i].health);
    }
    sim_free(sim);
    return 0;
}

/* One whose last run had the name of another, or NULL. */
static void start_again(unsigned i, unsigned n_known, const char *ended)
{
    struct agent *agent = &agents[i];
    (void)snprintf(agent->name, sizeof(agent->name), "host%u", i);
    agent->health = health_new(0, n_known, seam_now(sim_seam(sim, i)));
    assert_non_null(agent->health);
    struct beat_options options = {
        .seam = sim_seam(sim, i),
        .health = agent->health,
        .prefix = "rl",
        .name = agent->name,
        .ended = ended,
    };
    beat_start(&agent->beat, &options);
}

static void start(unsigned i, unsigned n_known)
{
    start_again(i, n_known, NULL);
}

/* Let time pass while HAProxy asks these. */
static void pass(int64_t us, unsigned n_asked)
{
    for (; us > 0; us -= US_PER_S) {
        for (unsigned i = 0; i < n_asked; i++) {
            be_asked(i);
        }
        sim_run(sim, us < US_PER_S ? us : US_PER_S);
    }
}

/* No heartbeat more, as of one that was killed. */
static void die(unsigned i)
{
    seam_timer_stop(sim_seam(sim, i), &agents[i].beat.timer);
}

static unsigned count_of(unsigned i)
{
    return health_n_agents(agents[i].health);
}

static void start_three(void)
{
    for (unsigned i = 0; i < 3; i++) {
        start(i, 0);
    }
    pass(2 * US_PER_S, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(count_of(i), 3);
    }
}

static void one_alone_is_one(void **context)
{
    (void)context;
    start(0, 0);
    assert_false(health_has_heard_agents(agents[0].health));
    pass(200 * US_PER_MS, 1);
    assert_true(health_has_heard_agents(agents[0].health));
    assert_int_equal(count_of(0), 1);
}

static void one_more_counts_with_its_first_beat(void **context)
{
    (void)context;
    start_three();
    start(3, 0);
    pass(200 * US_PER_MS, 4);
    assert_int_equal(count_of(3), 4);
    pass(A_BEAT_US, 4);
    assert_int_equal(count_of(0), 4);
}

static void who_was_killed_counts_until_it_was_missed_for_five_seconds(void **context)
{
    (void)context;
    start_three();
    die(2);
    pass(FALLING_US - A_BEAT_US, 2);
    assert_int_equal(count_of(0), 3);
    pass(3 * A_BEAT_US, 2);
    assert_int_equal(count_of(0), 2);
    assert_int_equal(count_of(1), 2);
}

static void who_was_killed_and_begins_again_is_the_same_agent(void **context)
{
    (void)context;
    start_three();
    die(2);
    start_again(3, 3, agents[2].name);
    for (int i = 0; i < 20; i++) {
        pass(500 * US_PER_MS, 4);
        assert_int_equal(count_of(0), 3);
        assert_int_equal(count_of(3), 3);
    }
}

static void who_begins_again_waits_for_redis_to_say_so(void **context)
{
    (void)context;
    start_three();
    die(2);
    sim_set_health(sim, 0, SIM_DOWN);
    start_again(3, 3, agents[2].name);
    pass(US_PER_S, 4);
    sim_set_health(sim, 0, SIM_UP);
    for (int i = 0; i < 20; i++) {
        pass(500 * US_PER_MS, 4);
        assert_int_equal(count_of(0), 3);
        assert_int_equal(count_of(3), 3);
    }
}

static void who_is_said_to_have_ended_and_lives_counts_on(void **context)
{
    (void)context;
    start_three();
    start_again(3, 3, agents[2].name);
    pass(A_BEAT_US, 4);
    for (int i = 0; i < 20; i++) {
        pass(500 * US_PER_MS, 4);
        assert_int_equal(count_of(0), 4);
        assert_int_equal(count_of(3), 4);
    }
}

static void who_leaves_is_missed_at_once(void **context)
{
    (void)context;
    start_three();
    beat_leave(&agents[2].beat);
    pass(HEAD_COUNT_FALL_US - US_PER_MS, 2);
    assert_int_equal(count_of(0), 3);
    pass(2 * A_BEAT_US, 2);
    assert_int_equal(count_of(0), 2);
}

static void two_of_one_name_are_one(void **context)
{
    (void)context;
    start_three();
    die(2);
    start(3, 0);
    agents[3].beat.options.name = agents[2].name; /* a successor */
    pass(FALLING_US + 2 * A_BEAT_US, 4);
    assert_int_equal(count_of(0), 3);
    assert_int_equal(count_of(3), 3);
}

static void the_count_holds_while_redis_is_away_and_when_it_comes_back_empty(
    void **context)
{
    static const enum sim_health faults[] = {SIM_DOWN, SIM_STOPPED, SIM_FAILING,
                                             SIM_BABBLING};
    (void)context;
    start_three();
    for (unsigned i = 0; i < 4; i++) {
        sim_set_health(sim, 0, faults[i]);
        pass(60 * US_PER_S, 3);
        sim_flush(sim, 0);
        for (unsigned n = 0; n < 10; n++) {
            assert_int_equal(count_of(n % 3), 3);
            sim_set_health(sim, 0, SIM_UP);
            pass(500 * US_PER_MS, 3);
        }
    }
    die(2);
    pass(FALLING_US + 2 * A_BEAT_US, 2);
    assert_int_equal(count_of(0), 2);
}

static void who_died_with_redis_is_missed_when_that_is_back(void **context)
{
    (void)context;
    start_three();
    sim_set_health(sim, 0, SIM_DOWN);
    die(2);
    pass(60 * US_PER_S, 2);
    sim_set_health(sim, 0, SIM_UP);
    pass(HEAD_COUNT_FALL_US, 2);
    assert_int_equal(count_of(0), 3);
    pass(2 * A_BEAT_US, 2);
    assert_int_equal(count_of(0), 2);
}

static void what_was_known_holds_until_redis_says_less_for_five_seconds(void **context)
{
    (void)context;
    start(0, 3);
    assert_int_equal(count_of(0), 3);
    pass(HEAD_COUNT_FALL_US, 1);
    assert_int_equal(count_of(0), 3);
    pass(2 * A_BEAT_US, 1);
    assert_int_equal(count_of(0), 1);
}

static void who_is_asked_nothing_for_a_minute_is_no_agent(void **context)
{
    (void)context;
    start_three();
    pass(BEAT_IDLE_US - 3 * US_PER_S, 2);
    assert_int_equal(count_of(0), 3);
    pass(FALLING_US + 4 * US_PER_S, 2);
    assert_int_equal(count_of(0), 2);
    assert_int_equal(count_of(2), 2); /* it hears how many it is not one of */
    be_asked(2);
    pass(2 * A_BEAT_US, 3);
    assert_int_equal(count_of(0), 3);
    assert_int_equal(count_of(2), 3);
}

static void a_server_whose_clock_goes_back_forgets_nobody_who_lives(void **context)
{
    (void)context;
    start_three();
    die(2);
    pass(500 * US_PER_MS, 2);
    sim_set_node_skew(sim, 0, -3600 * US_PER_S);
    pass(FALLING_US + 3 * A_BEAT_US, 2);
    assert_int_equal(count_of(0), 2); /* and nobody else for an hour */
    sim_set_node_skew(sim, 0, 3600 * US_PER_S);
    pass(FALLING_US, 2);
    assert_int_equal(count_of(0), 2);
}

static void lost_beats_change_nothing(void **context)
{
    (void)context;
    start_three();
    for (unsigned i = 0; i < 3; i++) {
        sim_set_loss(sim, i, 200);
    }
    for (unsigned n = 0; n < 300; n++) {
        pass(US_PER_S, 3);
        assert_int_equal(count_of(n % 3), 3);
    }
}

static void beats_are_no_traffic(void **context)
{
    (void)context;
    start_three();
    sim_set_health(sim, 0, SIM_DOWN);
    pass(5 * US_PER_S, 3);
    for (int i = 0; i < HEALTH_COUNTS_N; i++) {
        assert_int_equal(health_get(agents[0].health, (enum health_count)i), 0);
    }
    assert_int_equal(health_n_nodes(agents[0].health), 0);
}

/* Which of these live; the others are not there yet, or not any more. */
static bool lives[AGENTS];

static void let_something_happen(struct prng *prng, unsigned *n_started)
{
    static const enum sim_health healths[] = {SIM_UP,      SIM_UP,      SIM_DOWN,
                                              SIM_STOPPED, SIM_FAILING, SIM_BABBLING};
    unsigned i = (unsigned)prng_below(prng, *n_started);
    switch (prng_below(prng, 7)) {
    case 0:
        sim_set_health(sim, 0, healths[prng_below(prng, 6)]);
        break;
    case 1:
        sim_flush(sim, 0);
        break;
    case 2:
        sim_set_cut(sim, i, prng_below(prng, 2) == 0);
        break;
    case 3:
        sim_set_loss(sim, i, (unsigned)prng_below(prng, 1000));
        break;
    case 4:
        sim_set_node_skew(sim, 0, (int64_t)prng_below(prng, 20 * US_PER_S));
        break;
    case 5:
        die(i);
        lives[i] = false;
        break;
    default:
        if (*n_started < AGENTS) {
            lives[*n_started] = true;
            start((*n_started)++, (unsigned)prng_below(prng, 30));
        }
    }
}

static void ask_living(void)
{
    for (unsigned i = 0; i < AGENTS; i++) {
        if (lives[i]) {
            be_asked(i);
        }
    }
}

static void pass_with_living(int64_t us)
{
    for (; us > 0; us -= US_PER_S) {
        ask_living();
        sim_run(sim, us < US_PER_S ? us : US_PER_S);
    }
}

static unsigned n_living(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < AGENTS; i++) {
        n += lives[i];
    }
    return n;
}

static bool is_counted_right(void)
{
    bool is_right = true;
    for (unsigned i = 0; i < AGENTS; i++) {
        is_right = is_right && (!lives[i] || count_of(i) == n_living());
    }
    return is_right;
}

static void run_trace(uint64_t seed)
{
    struct prng prng;
    unsigned n_started = 1;
    prng_init(&prng, seed);
    memset(lives, 0, sizeof(lives));
    start(0, 0);
    lives[0] = true;
    for (int i = 0; i < 40; i++) {
        let_something_happen(&prng, &n_started);
        pass_with_living((int64_t)prng_below(&prng, 3 * US_PER_S));
    }
    sim_heal(sim);
    pass_with_living(FALLING_US + 2 * LIVES_US + 2 * A_BEAT_US);
    if (!is_counted_right()) {
        fail_msg("SEED=%llu TRACES=1 replays it", (unsigned long long)seed);
    }
}

static void whatever_happened_all_count_right_soon_after(void **context)
{
    uint64_t seed = prng_seed(1);
    for (int i = prng_traces(300); i > 0; i--) {
        assert_int_equal(set_up(context), 0);
        run_trace(seed++);
        assert_int_equal(tear_down(context), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_alone_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_more_counts_with_its_first_beat, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            who_was_killed_counts_until_it_was_missed_for_five_seconds, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_was_killed_and_begins_again_is_the_same_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_begins_again_waits_for_redis_to_say_so,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_said_to_have_ended_and_lives_counts_on,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_leaves_is_missed_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(two_of_one_name_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            the_count_holds_while_redis_is_away_and_when_it_comes_back_empty, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(who_died_with_redis_is_missed_when_that_is_back,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_was_known_holds_until_redis_says_less_for_five_seconds, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(who_is_asked_nothing_for_a_minute_is_no_agent,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_server_whose_clock_goes_back_forgets_nobody_who_lives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_beats_change_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(beats_are_no_traffic, set_up, tear_down),
        cmocka_unit_test(whatever_happened_all_count_right_soon_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
