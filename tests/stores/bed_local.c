#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/store/local.h"

#include "tests/stores/bed.h"

enum {
    STEPS = 10000
};

static void set_clock(struct trace_target *target, struct instant now)
{
    (void)target;
    (void)now;
}

/* Nothing is ever under way. */
static bool wait_for_none(struct trace_target *target)
{
    (void)target;
    return true;
}

static void run(struct bed *bed)
{
    (void)bed;
}

static void start(struct bed *bed)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {2};
    bed->target = (struct trace_target){
        .store = local_new((size_t)16 << 20, (size_t)8 << 20, secret),
        .depth = TRACE_DEPTH_MAX,
        .n_steps = STEPS,
        .set_clock = set_clock,
        .wait = wait_for_none,
    };
    bed->counters = counters_new(BED_COUNTED);
    assert_true(bed->target.store != NULL && bed->counters != NULL);
}

static void stop(struct bed *bed)
{
    store_free(bed->target.store);
    counters_free(bed->counters);
}

struct bed bed_local = {.name = "local", .start = start, .stop = stop, .run = run};
