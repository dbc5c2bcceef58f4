/* What is told of a node that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/store/health.h"

static struct health *health;
static struct instant now;

static int set_up(void **context)
{
    (void)context;
    now = (struct instant){1800000000 * US_PER_S};
    health = health_new(0, 1, now);
    return health == NULL ? -1 : 0;
}

static int tear_down(void **context)
{
    (void)context;
    health_free(health);
    return 0;
}

static void report(unsigned node, enum seam_outcome outcome, enum seam_error error)
{
    struct seam_call call = {.node = node, .outcome = outcome, .error = error};
    now = instant_add_us(now, 20 * US_PER_MS);
    health_report(health, &call, now);
}

static void what_failed_last_is_told_of_each_node(void **context)
{
    (void)context;
    assert_string_equal(health_failure(health, 1), "none");
    report(1, SEAM_TIMEOUT, SEAM_ERROR_NONE);
    report(2, SEAM_LOST, SEAM_ERROR_NONE);
    assert_string_equal(health_failure(health, 1), "no answer in time");
    assert_string_equal(health_failure(health, 2), "the connection ended");
    report(1, SEAM_ERROR, SEAM_ERROR_OUT_OF_MEMORY);
    report(1, SEAM_OK, SEAM_ERROR_NONE);
    assert_string_equal(health_failure(health, 1), "its memory is full");
    report(SEAM_NO_NODE, SEAM_DOWN, SEAM_ERROR_NONE);
    assert_int_equal(health_n_nodes(health), 3);
}

static void a_probe_tells_what_is_wrong_by_now(void **context)
{
    struct seam_call probe = {.node = 0, .outcome = SEAM_ERROR};
    (void)context;
    for (unsigned i = 0; i < 10; i++) {
        report(0, SEAM_TIMEOUT, SEAM_ERROR_NONE);
    }
    assert_false(health_passes(health, 0, now, 0));
    probe.error = SEAM_ERROR_LOADING;
    health_report_probe(health, &probe, now);
    assert_string_equal(health_failure(health, 0),
                        "it loads its data, or has no primary");
}

static void every_failure_has_words(void **context)
{
    (void)context;
    for (int outcome = SEAM_TIMEOUT; outcome <= SEAM_ERROR; outcome++) {
        for (int error = SEAM_ERROR_NONE; error <= SEAM_ERROR_OTHER; error++) {
            report(0, (enum seam_outcome)outcome, (enum seam_error)error);
            assert_string_not_equal(health_failure(health, 0), "none");
            assert_string_not_equal(health_failure(health, 0), "");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(what_failed_last_is_told_of_each_node),
        X(a_probe_tells_what_is_wrong_by_now),
        X(every_failure_has_words),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
