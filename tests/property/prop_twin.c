/* The law of twins: the Lua scripts, run by a real redis-server, answer as the C functions do,
 * by way of the local store, over random traces (support/trace.h). STEPS=n sets the number of
 * steps for each algorithm. What the store of Redis does with the scripts: stores/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base.h"

#include "tests/support/trace.h"
#include "tests/support/twin.h"

enum {
    STEPS_DEFAULT = 20000,
    DEPTH = 50, /* under way at a time: fewer bytes than a socket holds */
};

/** What was sent, in order. */
struct sent {
    struct store_take *take; /* NULL: a settlement */
    struct counters *counters;
};

/** The scripts as a store. */
static struct {
    struct trace_target target;
    struct store store;
    struct twin twin;
    struct sent sent[DEPTH];
    unsigned n_sent;
} t;

static void scripts_take(struct store *store, struct store_take *take)
{
    struct twin_key keys[STORE_CHARGES_MAX];
    (void)store;
    for (unsigned i = 0; i < take->n_charges; i++) {
        keys[i] = (struct twin_key){(const char *)take->charges[i].key,
                                    take->charges[i].key_bytes};
    }
    twin_send_take(&t.twin, TWIN_TEST, take, keys);
    t.sent[t.n_sent++] = (struct sent){.take = take};
}

static void scripts_settle(struct store *store,
                           const struct store_settlement *settlement)
{
    struct twin_key key = {(const char *)settlement->key, settlement->key_bytes};
    (void)store;
    twin_send_settlement(&t.twin, TWIN_TEST, settlement, &key);
    t.sent[t.n_sent++] = (struct sent){.counters = settlement->counters};
}

/* It goes with each call. */
static void scripts_set_clock(struct trace_target *target, struct instant now)
{
    (void)target;
    (void)now;
}

static bool scripts_wait(struct trace_target *target)
{
    (void)target;
    for (unsigned i = 0; i < t.n_sent; i++) {
        if (t.sent[i].take != NULL) {
            twin_get_take(&t.twin, t.sent[i].take);
            t.sent[i].take->done(t.sent[i].take);
        } else if (!twin_get_settled(&t.twin)) {
            counter_add(t.sent[i].counters, COUNTER_SETTLED_TOO_LATE, 1);
        }
    }
    t.n_sent = 0;
    return true;
}

static int start(void **context)
{
    static const struct store_ops ops = {
        .name = "scripts",
        .take = scripts_take,
        .settle = scripts_settle,
    };
    (void)context;
    twin_start(&t.twin);
    t.store.ops = &ops;
    t.target = (struct trace_target){
        .store = &t.store,
        .depth = DEPTH,
        .n_steps = STEPS_DEFAULT,
        .set_clock = scripts_set_clock,
        .wait = scripts_wait,
    };
    return 0;
}

static int stop(void **context)
{
    (void)context;
    assert_int_equal(t.twin.repairs.n_values, 0);
    twin_stop(&t.twin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {TRACE_TESTS(&t.target)};
    return cmocka_run_group_tests(tests, start, stop);
}
