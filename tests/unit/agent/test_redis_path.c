/* A call to Redis and its reply allocate nothing, however large the turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/alloc_probe.h"
#include "tests/support/redis_process.h"
#include "tests/support/router_driver.h"

enum {
    TURNS = 200,
    CALLS = 256, /* in a turn: more than a read of the socket takes */
    TRIES_MAX = 2000,
    PATIENCE_S = 20, /* more than a connection has */
};

static struct redis_process server;
static struct seam_call calls[CALLS];
static unsigned n_done;
static unsigned n_answered;

static void on_done(struct seam_call *call, const struct seam_reply *reply)
{
    n_done++;
    n_answered += call->outcome == SEAM_OK && reply->n_values == 7;
}

static void on_late(struct seam_call *call, const struct seam_reply *reply)
{
    (void)call;
    (void)reply;
}

static void run_turn(struct router_driver *driver)
{
    static const struct seam_bytes key = {"rl:{k}", 6};
    static const struct seam_bytes args[] = {{"an argument", 11}, {"\0\r\n", 3}};
    n_done = 0;
    n_answered = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = (struct seam_call){
            .keys = &key,
            .n_keys = 1,
            .args = args,
            .n_args = 2,
            .deadline = instant_add_us(clock_now(), PATIENCE_S * US_PER_S),
            .done = on_done,
            .late = on_late,
        };
        seam_run(driver->seam, &calls[i]);
    }
    while (n_done < CALLS) {
        (void)ev_run(driver->loop, EVRUN_ONCE);
    }
}

static int stop_server(void **state)
{
    (void)state;
    redis_process_stop(&server);
    return 0;
}

static void test_no_allocation(void **state)
{
    static const char text[] = "return {3, ARGV[1], {1, 2}, #ARGV[2]}";
    static const char *const options[] = {NULL};
    struct link_script script = {.text = text, .text_bytes = sizeof(text) - 1};
    struct router_driver driver;
    (void)state;
    link_script_name(&script);
    assert_true(redis_process_start(&server, options));
    struct endpoint endpoint = redis_process_endpoint(&server);
    struct redis_options redis_options = {.n_endpoints = 1,
                                          .endpoints = &endpoint,
                                          .scripts = &script,
                                          .n_scripts = 1};
    assert_true(router_driver_start(&driver, &redis_options));
    unsigned n_good =
        0; /* turns in a row: a connection that is new has buffers to grow */
    for (unsigned i = 0; i < TRIES_MAX && n_good < TURNS; i++) {
        unsigned long before = alloc_count();
        run_turn(&driver);
        n_good = n_answered == CALLS ? n_good + 1 : 0;
        if (n_good > 2) {
            assert_int_equal(alloc_count() - before, 0);
        } else {
            ev_sleep(0.01);
            (void)ev_run(driver.loop, EVRUN_NOWAIT);
        }
    }
    assert_int_equal(n_good, TURNS);
    router_driver_stop(&driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_no_allocation, stop_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
