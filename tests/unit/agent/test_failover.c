/*
 * A real cluster of six nodes and a real Sentinel on loopback: slots that move under load,
 * primaries that die, and how long it takes until calls are answered again.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/router.h"
#include "agent/redis/slots.h"

#include "tests/support/redis_cluster.h"
#include "tests/support/router_driver.h"

enum {
    KEYS = 200
};

#define PATIENCE_US REDIS_CLUSTER_PATIENCE_US
#define LONG_US     (5 * US_PER_S)

struct fixture {
    struct redis_cluster cluster;
    struct redis_sentinel sentinel;
    struct endpoint endpoint;
    struct redis_options options;
    struct router_driver driver;
    bool is_driving;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(f);
    router_driver_options(&f->options, &f->endpoint);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->is_driving) {
        router_driver_stop(&f->driver);
    }
    redis_cluster_stop(&f->cluster);
    redis_sentinel_stop(&f->sentinel);
    free(f);
    return 0;
}

static void start_driving(struct fixture *f, const struct redis_process *first)
{
    f->endpoint = redis_process_endpoint(first);
    f->is_driving = true;
    assert_true(router_driver_start(&f->driver, &f->options));
}

static void start_cluster(struct fixture *f)
{
    redis_cluster_start(&f->cluster, true);
    f->options.mode = REDIS_CLUSTER;
    start_driving(f, &f->cluster.nodes[0]);
    assert_true(router_driver_recover(&f->driver, "first", PATIENCE_US) >= 0);
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) { /* each is connected */
        char key[16];
        (void)snprintf(key, sizeof(key), "{%u}", i * 7);
        assert_true(router_driver_recover(&f->driver, key, PATIENCE_US) >= 0);
    }
}

static void call_all(struct fixture *f, int64_t want)
{
    char key[16];
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        if (router_driver_call(&f->driver, key, LONG_US) != SEAM_OK) {
            fail_msg("%s: outcome %d, error %d", key, (int)f->driver.outcome,
                     (int)f->driver.call.error);
        }
        assert_int_equal(f->driver.integer, want);
    }
}

static void test_keys_are_all_over_the_cluster(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    call_all(f, 1);
    call_all(f, 2);
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) {
        redis_process_wait_for(&f->cluster.nodes[i], "info commandstats",
                               "cmdstat_evalsha");
    }
}

/* The slot of one key moves by hand, so that each step of it is seen. */
static void test_a_slot_that_moves(void **state)
{
    struct fixture *f = *state;
    struct redis_move move;
    start_cluster(f);
    call_all(f, 1);
    unsigned from = redis_cluster_primary("k7");
    unsigned to = (from + 1) % REDIS_CLUSTER_PRIMARIES;
    redis_move_begin(&move, &f->cluster.nodes[from], &f->cluster.nodes[to],
                     slots_of_key("k7", 2));
    call_all(f, 2); /* it is still there */
    redis_move_keys(&move);
    call_all(f, 3); /* ASK */
    redis_move_end(&move);
    call_all(f, 4); /* MOVED */
    call_all(f, 5);
    assert_int_equal(f->driver.n_of[SEAM_ERROR], 0);
}

/* What was counted is with a replica, which is told after whoever counted. */
static void wait_for_replica(const struct fixture *f, const char *key, const char *want)
{
    struct instant began = clock_now();
    char command[64];
    char reply[256] = "";
    (void)snprintf(command, sizeof(command), "readonly\r\nget %s", key);
    for (unsigned i = 0; strstr(reply, want) == NULL; i++) {
        assert_true(instant_diff_us(clock_now(), began) < PATIENCE_US);
        ev_sleep(0.01);
        (void)redis_process_tell(
            &f->cluster.nodes[REDIS_CLUSTER_PRIMARIES + i % REDIS_CLUSTER_PRIMARIES],
            command, reply, sizeof(reply));
    }
}

static void test_a_primary_that_dies(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    call_all(f, 1);
    const char *key = "k0";
    unsigned primary = redis_cluster_primary(key);
    wait_for_replica(f, key, "$1\r\n1\r\n");
    wait_for_replica(f, "k1", "$1\r\n1\r\n");
    redis_process_kill(&f->cluster.nodes[primary]);
    f->driver.slowest_us = 0;
    int64_t took_us = router_driver_recover(&f->driver, key, PATIENCE_US);
    assert_true(took_us >= 0);
    (void)printf("a primary died: %lld ms until its keys were answered, slowest call "
                 "%lld us\n",
                 (long long)(took_us / US_PER_MS), (long long)f->driver.slowest_us);
    assert_int_equal(f->driver.integer, 2); /* what was counted is still counted */
    assert_int_equal(router_driver_call(&f->driver, "k1", LONG_US), SEAM_OK);
    assert_int_equal(f->driver.integer, 2);
}

static void test_a_failover_that_is_asked_for(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    call_all(f, 1);
    for (unsigned i = REDIS_CLUSTER_PRIMARIES; i < REDIS_CLUSTER_NODES_MAX; i++) {
        redis_cluster_promote(&f->cluster.nodes[i]);
    }
    for (unsigned i = 0; i < KEYS; i++) { /* all have a new primary */
        char key[16];
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_true(router_driver_recover(&f->driver, key, PATIENCE_US) >= 0);
    }
}

static void test_sentinel(void **state)
{
    struct fixture *f = *state;
    redis_sentinel_start(&f->sentinel);
    f->options.mode = REDIS_SENTINEL;
    f->options.primary_name = "mymaster";
    start_driving(f, &f->sentinel.sentinel);
    assert_true(router_driver_recover(&f->driver, "k", PATIENCE_US) >= 0);
    assert_int_equal(router_driver_call(&f->driver, "k", LONG_US), SEAM_OK);
    int64_t counted = f->driver.integer;
    ev_sleep(0.2); /* which the replica is sent meanwhile */
    redis_process_kill(&f->sentinel.primary);
    int64_t took_us = router_driver_recover(&f->driver, "k", PATIENCE_US);
    assert_true(took_us >= 0);
    (void)printf("the primary of a Sentinel died: %lld ms\n",
                 (long long)(took_us / US_PER_MS));
    assert_int_equal(f->driver.integer, counted + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_sentinel),
        TEST(test_keys_are_all_over_the_cluster),
        TEST(test_a_slot_that_moves),
        TEST(test_a_primary_that_dies),
        TEST(test_a_failover_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
