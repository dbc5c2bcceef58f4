/* stores BED: what store.h says, of the store of that bed: cases, then random traces, whose
 * answers are those of the local store to the microsecond. STEPS=n sets the number of steps
 * of each trace, SEED=n replays one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/stores/bed.h"
#include "tests/stores/cases.h"

static struct bed *bed;

static struct bed *find_bed(const char *name)
{
    static struct bed *const beds[] = {
        &bed_local,        &bed_simulated,      &bed_simulated_cluster,
        &bed_server,       &bed_cluster,        &bed_lease_simulated,
        &bed_lease_server, &bed_sync_simulated, &bed_sync_server};
    for (size_t i = 0; i < sizeof(beds) / sizeof(beds[0]); i++) {
        if (strcmp(beds[i]->name, name) == 0) {
            return beds[i];
        }
    }
    return NULL;
}

static int start(void **context)
{
    (void)context;
    (void)signal(SIGPIPE, SIG_IGN);
    bed->start(bed);
    return 0;
}

static int stop(void **context)
{
    (void)context;
    bed->stop(bed);
    return 0;
}

int main(int argc, char **argv)
{
    bed = argc == 2 ? find_bed(argv[1]) : NULL;
    if (bed == NULL) {
        (void)fprintf(stderr, "usage: stores BED\n");
        return 2;
    }
#define X(name) cmocka_unit_test_prestate(name, bed),
    const struct CMUnitTest tests[] = {
        STORE_CASE_TABLE(X) TRACE_TESTS(&bed->target),
        TRACE_TEST(trace_spread, &bed->target),
    };
    size_t n = sizeof(tests) / sizeof(tests[0]);
    return _cmocka_run_group_tests(bed->name, tests,
                                   bed->kind == STORE_KIND_REDIS ? n : STORE_CASES_N,
                                   start, stop);
}
