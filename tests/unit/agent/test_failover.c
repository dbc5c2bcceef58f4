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

#include "tests/support/redis_process.h"
#include "tests/support/router_driver.h"

enum {
    NODES = 6,
    PRIMARIES = 3,
    KEYS = 200,
};

#define PATIENCE_US (60 * US_PER_S)
#define LONG_US     (5 * US_PER_S)

struct fixture {
    struct redis_process nodes[NODES];
    unsigned n_nodes;
    struct endpoint endpoint;
    struct link_script script;
    struct redis_options options;
    struct router_driver driver;
    bool is_driving;
};

static int set_up(void **state)
{
    static const char text[] = "local n = redis.call('incr', KEYS[1]) "
                               "redis.call('pexpire', KEYS[1], 60000) return n";
    struct fixture *f = calloc(1, sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(f);
    f->script = (struct link_script){.text = text, .text_bytes = sizeof(text) - 1};
    link_script_name(&f->script);
    f->options = (struct redis_options){.n_endpoints = 1,
                                        .endpoints = &f->endpoint,
                                        .scripts = &f->script,
                                        .n_scripts = 1};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->is_driving) {
        router_driver_stop(&f->driver);
    }
    for (unsigned i = 0; i < f->n_nodes; i++) {
        redis_process_stop(&f->nodes[i]);
    }
    free(f);
    return 0;
}

static void start_node(struct fixture *f, const char *const *options)
{
    assert_true(redis_process_start(&f->nodes[f->n_nodes++], options));
}

static void run_command(const char *command)
{
    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a command of our own */
    int rc = system(command);
    if (rc != 0) {
        fail_msg("%s: %d", command, rc);
    }
}

static void wait_for_reply(const struct redis_process *node, const char *command,
                           const char *want)
{
    struct instant began = clock_now();
    char reply[8192];
    while (!redis_process_tell(node, command, reply, sizeof(reply))
           || strstr(reply, want) == NULL) {
        assert_true(instant_diff_us(clock_now(), began) < PATIENCE_US);
        ev_sleep(0.05);
    }
}

static void start_cluster(struct fixture *f)
{
    static const char *const options[] = {"--cluster-enabled",
                                          "yes",
                                          "--cluster-node-timeout",
                                          "1000",
                                          "--repl-diskless-sync-delay",
                                          "0",
                                          "--cluster-require-full-coverage",
                                          "no",
                                          NULL};
    char command[512] = "redis-cli --cluster-yes --cluster create";
    for (unsigned i = 0; i < NODES; i++) {
        start_node(f, options);
        size_t len = strlen(command);
        (void)snprintf(command + len, sizeof(command) - len, " 127.0.0.1:%u",
                       f->nodes[i].port);
    }
    size_t len = strlen(command);
    (void)snprintf(command + len, sizeof(command) - len,
                   " --cluster-replicas 1 >/dev/null");
    run_command(command);
    for (unsigned i = 0; i < NODES; i++) {
        wait_for_reply(&f->nodes[i], "cluster info", "cluster_state:ok");
    }
    for (unsigned i = PRIMARIES; i < NODES; i++) { /* else none could take over */
        wait_for_reply(&f->nodes[i], "info replication", "master_link_status:up");
    }
    f->endpoint = redis_process_endpoint(&f->nodes[0]);
    f->options.mode = REDIS_CLUSTER;
    f->is_driving = true;
    assert_true(router_driver_start(&f->driver, &f->options));
    assert_true(router_driver_recover(&f->driver, "first", PATIENCE_US) >= 0);
    for (unsigned i = 0; i < PRIMARIES; i++) { /* each is connected by then */
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
    for (unsigned i = 0; i < PRIMARIES; i++) {
        wait_for_reply(&f->nodes[i], "info commandstats", "cmdstat_evalsha");
    }
}

/* The slot of one key moves by hand, so that each step of it is seen. */
static void test_a_slot_that_moves(void **state)
{
    struct fixture *f = *state;
    char id[2][64];
    char command[256];
    start_cluster(f);
    call_all(f, 1);
    unsigned slot = slots_of_key("k7", 2);
    unsigned from = slot * PRIMARIES / SEAM_SLOTS_MAX;
    unsigned to = (from + 1) % PRIMARIES;
    const struct redis_process *source = &f->nodes[from];
    const struct redis_process *target = &f->nodes[to];
    assert_true(redis_process_tell(source, "cluster myid", command, sizeof(command)));
    (void)snprintf(id[0], sizeof(id[0]), "%.40s", command + 5); /* behind $40 */
    assert_true(redis_process_tell(target, "cluster myid", command, sizeof(command)));
    (void)snprintf(id[1], sizeof(id[1]), "%.40s", command + 5);
    (void)snprintf(command, sizeof(command), "cluster setslot %u importing %s", slot,
                   id[0]);
    wait_for_reply(target, command, "+OK");
    (void)snprintf(command, sizeof(command), "cluster setslot %u migrating %s", slot,
                   id[1]);
    wait_for_reply(source, command, "+OK");
    call_all(f, 2); /* it is still there */
    (void)snprintf(command, sizeof(command), "migrate 127.0.0.1 %u k7 0 5000",
                   target->port);
    wait_for_reply(source, command, "+OK");
    call_all(f, 3); /* ASK */
    (void)snprintf(command, sizeof(command), "cluster setslot %u node %s", slot, id[1]);
    wait_for_reply(target, command, "+OK");
    wait_for_reply(source, command, "+OK");
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
        (void)redis_process_tell(&f->nodes[PRIMARIES + i % (NODES - PRIMARIES)],
                                 command, reply, sizeof(reply));
    }
}

static void test_a_primary_that_dies(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    call_all(f, 1);
    const char *key = "k0";
    unsigned primary = slots_of_key(key, 2) * PRIMARIES / SEAM_SLOTS_MAX;
    wait_for_replica(f, key, "$1\r\n1\r\n");
    wait_for_replica(f, "k1", "$1\r\n1\r\n");
    redis_process_kill(&f->nodes[primary]);
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

/* Asked for again and again: votes may collide, and a try that failed is given up. */
static void become_primary(const struct redis_process *node)
{
    struct instant began = clock_now();
    char reply[256] = "";
    for (unsigned i = 0; strstr(reply, "\r\nmaster\r\n") == NULL; i++) {
        assert_true(instant_diff_us(clock_now(), began) < PATIENCE_US);
        (void)redis_process_tell(node, i % 50 == 0 ? "cluster failover" : "role", reply,
                                 sizeof(reply));
        ev_sleep(0.1);
    }
}

static void test_a_failover_that_is_asked_for(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    call_all(f, 1);
    for (unsigned i = PRIMARIES; i < NODES; i++) {
        become_primary(&f->nodes[i]);
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
    static char port[8];
    static const char *const primary_options[] = {NULL};
    static const char *const replica_options[] = {
        "--replicaof", "127.0.0.1", port, "--repl-diskless-sync-delay", "0", NULL};
    static char path[64];
    static const char *const sentinel_options[] = {path, "--sentinel", NULL};
    static char dir[] = "/tmp/sentinel.XXXXXX";
    start_node(f, primary_options);
    (void)snprintf(port, sizeof(port), "%u", f->nodes[0].port);
    start_node(f, replica_options);
    wait_for_reply(&f->nodes[1], "info replication", "master_link_status:up");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/sentinel.conf", dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    f->nodes[2].port = redis_process_free_port();
    (void)fprintf(file,
                  "port %u\nbind 127.0.0.1\ndir %s\n"
                  "sentinel monitor mymaster 127.0.0.1 %u 1\n"
                  "sentinel down-after-milliseconds mymaster 500\n"
                  "sentinel failover-timeout mymaster 3000\n",
                  f->nodes[2].port, dir, f->nodes[0].port);
    assert_int_equal(fclose(file), 0);
    start_node(f, sentinel_options);
    wait_for_reply(&f->nodes[2], "sentinel replicas mymaster", "slave-repl-offset");
    f->endpoint = redis_process_endpoint(&f->nodes[2]);
    f->options.mode = REDIS_SENTINEL;
    f->options.primary_name = "mymaster";
    f->is_driving = true;
    assert_true(router_driver_start(&f->driver, &f->options));
    assert_true(router_driver_recover(&f->driver, "k", PATIENCE_US) >= 0);
    assert_int_equal(router_driver_call(&f->driver, "k", LONG_US), SEAM_OK);
    int64_t counted = f->driver.integer;
    ev_sleep(0.2); /* which the replica is sent meanwhile */
    redis_process_kill(&f->nodes[0]);
    int64_t took_us = router_driver_recover(&f->driver, "k", PATIENCE_US);
    assert_true(took_us >= 0);
    (void)printf("the primary of a Sentinel died: %lld ms\n",
                 (long long)(took_us / US_PER_MS));
    assert_int_equal(f->driver.integer, counted + 1);
    (void)remove(path);
    (void)remove(dir);
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
