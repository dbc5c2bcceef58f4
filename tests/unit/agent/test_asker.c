/* asker.c: peeks that go elsewhere and come back, on one thread; and server.c's, on several. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/net/asker.h"
#include "agent/net/server.h"
#include "agent/store/local.h"

enum {
    WORKERS = 2,
    NOW_US = 1000000,
};

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 100, per: 60s }\n";

static const struct limit limit = {
    .algorithm = LIMIT_FIXED_WINDOW,
    .requests = 9,
    .size = 9,
    .per_ticks = 1000,
    .tick_us = 1000,
};
static const uint8_t limit_id[STORE_LIMIT_ID_BYTES] = {7};
static const struct store_home home = {.n_shards = 1};

static struct {
    struct asker *asker;
    unsigned n_sent;
    struct ask *sent[ASKER_ASKS_MAX];
    unsigned n_done;
    struct store_take *done[2 * ASKER_ASKS_MAX]; /* in turn */
} f;

static void keep_sent(void *context, struct ask *ask)
{
    assert_ptr_equal(context, &f);
    f.sent[f.n_sent++] = ask;
}

static void on_done(struct store_take *take)
{
    f.done[f.n_done++] = take;
}

static int set_up(void **context)
{
    (void)context;
    memset(&f, 0, sizeof(f));
    f.asker = asker_new(NULL, keep_sent, &f);
    return f.asker == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    asker_free(f.asker);
    return 0;
}

/* A peek of a counter here, and of one in Redis. */
static void fill(struct store_take *take, const char *key, const char *name)
{
    *take = (struct store_take){
        .now = {NOW_US},
        .deadline = {NOW_US + 5000},
        .n_charges = 2,
        .is_peek = true,
        .done = on_done,
    };
    for (unsigned i = 0; i < 2; i++) {
        take->charges[i] = (struct store_charge){
            .limit = &limit,
            .limit_id = limit_id,
            .key = (const uint8_t *)key,
            .key_bytes = strlen(key),
            .cost = 2,
        };
    }
    take->charges[1].home = &home;
    take->charges[1].name = name;
    take->charges[1].name_bytes = strlen(name);
}

/* As a worker's store does it: keys of its own, and answers. */
static void answer(struct ask *ask, int64_t remaining)
{
    static const uint8_t own[] = "own";
    struct store_take *take = &ask->take;
    take->is_allowed = false;
    take->failure = STORE_SLOW;
    for (unsigned i = 0; i < take->n_charges; i++) {
        take->charges[i].key = own;
        take->charges[i].key_bytes = sizeof(own);
        take->charges[i].source = STORE_FALLBACK;
        take->charges[i].place = 5;
        take->charges[i].answer = (struct limit_answer){.remaining = remaining};
        take->held[i] = (struct limit_answer){.remaining = remaining + i};
    }
    ask_return(ask);
}

static void an_answer_comes_back_with_all_of_it(void **context)
{
    (void)context;
    struct store_take take;
    char key[] = "alice";
    char name[] = "rl:{alice}";
    fill(&take, key, name);
    store_take(asker_store(f.asker), &take);
    memset(key, 'x', sizeof(key) - 1); /* views end with the call */
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(f.n_sent, 1);
    const struct store_take *theirs = &f.sent[0]->take;
    assert_true(theirs->is_peek);
    assert_int_equal(theirs->n_charges, 2);
    assert_int_equal(instant_diff_us(theirs->deadline, theirs->now), 5000);
    assert_memory_equal(theirs->charges[0].key, "alice", 5);
    assert_memory_equal(theirs->charges[1].name, "rl:{alice}", 10);
    asker_collect(f.asker);
    assert_int_equal(f.n_done, 0);

    answer(f.sent[0], 3);
    assert_int_equal(f.n_done, 0); /* not before main looks */
    asker_collect(f.asker);
    assert_int_equal(f.n_done, 1);
    assert_ptr_equal(f.done[0], &take);
    assert_int_equal(take.failure, STORE_SLOW);
    assert_false(take.is_allowed);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(take.charges[i].source, STORE_FALLBACK);
        assert_int_equal(take.charges[i].place, 5);
        assert_int_equal(take.charges[i].answer.remaining, 3);
        assert_int_equal(take.held[i].remaining, 3 + i);
        assert_false(take.charges[i].is_charged);
    }
    /* Of what is in Redis the name is the key, as requests have it. */
    assert_int_equal(take.charges[0].key_bytes, 5);
    assert_memory_equal(take.charges[0].key, "alice", 5);
    assert_int_equal(take.charges[1].key_bytes, 10);
    assert_memory_equal(take.charges[1].key, "rl:{alice}", 10);
}

static void so_many_go_at_a_time_and_no_more(void **context)
{
    (void)context;
    static struct store_take takes[ASKER_ASKS_MAX + 1];
    for (unsigned i = 0; i <= ASKER_ASKS_MAX; i++) {
        fill(&takes[i], "k", "n");
        store_take(asker_store(f.asker), &takes[i]);
    }
    assert_int_equal(f.n_sent, ASKER_ASKS_MAX);
    assert_int_equal(f.n_done, 1);
    assert_ptr_equal(f.done[0], &takes[ASKER_ASKS_MAX]);
    assert_int_equal(f.done[0]->failure, STORE_SLOW);
    assert_int_equal(f.done[0]->charges[0].source, STORE_UNASKED);
    for (unsigned i = 0; i < ASKER_ASKS_MAX; i++) {
        answer(f.sent[i], i);
    }
    asker_collect(f.asker);
    assert_int_equal(f.n_done, ASKER_ASKS_MAX + 1);
    for (unsigned i = 0; i < ASKER_ASKS_MAX; i++) {
        assert_int_equal(takes[i].charges[0].answer.remaining, i);
    }
    f.n_sent = 0;
    fill(&takes[0], "k", "n");
    store_take(asker_store(f.asker), &takes[0]);
    assert_int_equal(f.n_sent, 1);
    answer(f.sent[0], 0);
}

static void without_time_nobody_is_asked(void **context)
{
    (void)context;
    struct store_take take;
    fill(&take, "k", "n");
    take.deadline = take.now;
    store_take(asker_store(f.asker), &take);
    assert_int_equal(f.n_sent, 0);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(take.failure, STORE_SLOW);
}

/* Where it has the store of this host, and no counter is in Redis. */
static void what_is_here_is_looked_at_here(void **context)
{
    (void)context;
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    struct store *local = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, secret);
    struct store_take take;
    asker_free(f.asker);
    f.asker = asker_new(local, keep_sent, &f);
    fill(&take, "k", "n");
    store_take(asker_store(f.asker), &take);
    assert_int_equal(f.n_sent, 1);
    answer(f.sent[0], 1);
    asker_collect(f.asker);
    assert_int_equal(f.n_done, 1);
    fill(&take, "k", "n");
    take.n_charges = 1;
    store_take(asker_store(f.asker), &take);
    assert_int_equal(f.n_sent, 1);
    assert_int_equal(f.n_done, 2);
    assert_int_equal(take.held[0].remaining, 9);
    store_free(local);
}

static void what_is_back_ends_with_the_asker(void **context)
{
    (void)context;
    struct store_take take;
    fill(&take, "k", "n");
    store_take(asker_store(f.asker), &take);
    answer(f.sent[0], 1);
    asker_free(f.asker);
    f.asker = NULL;
    assert_int_equal(f.n_done, 1);
    asker_free(NULL);
}

/* --- a server's --- */

static struct {
    struct ev_loop *loop;
    struct decide_set *set;
    struct store *store;
    struct decide_options options;
    struct counters *counters[WORKERS];
    struct server *server;
    unsigned n_changed;
} g;

static int set_up_server(void **context)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    static struct rules_diags diags;
    (void)context;
    memset(&f, 0, sizeof(f));
    memset(&g, 0, sizeof(g));
    rules_diags_init(&diags, "test.yaml");
    struct rules_source source = {
        .name = "test.yaml",
        .text = {.ptr = (const uint8_t *)rules_text, .len = strlen(rules_text)},
    };
    struct rules_set *rules = rules_load(&source, &diags);
    g.set = rules != NULL ? decide_set_new(rules, "rl") : NULL;
    g.store = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, secret);
    decide_options_init(&g.options, variables_default());
    g.loop = ev_loop_new(EVFLAG_NOENV);
    for (unsigned i = 0; i < WORKERS; i++) {
        g.counters[i] = counters_new(1);
    }
    struct server_options options = {
        .n_workers = WORKERS,
        .connections_max = 1,
        .set = g.set,
        .store = g.store,
        .decide_options = &g.options,
        .counters = g.counters,
    };
    g.server = g.set != NULL && g.store != NULL ? server_start(g.loop, &options) : NULL;
    return g.server == NULL;
}

static int tear_down_server(void **context)
{
    (void)context;
    if (g.server != NULL) {
        server_stop(g.server);
        server_free(g.server);
    }
    ev_loop_destroy(g.loop);
    for (unsigned i = 0; i < WORKERS; i++) {
        counters_free(g.counters[i]);
    }
    store_free(g.store);
    decide_set_free(g.set);
    return 0;
}

/* A peek of the rules' counter of a key. */
static void fill_local(struct store_take *take)
{
    fill(take, "k", "n");
    take->n_charges = 1;
    take->now = clock_now();
    take->deadline = instant_add_us(take->now, US_PER_S);
    take->charges[0].limit = &g.set->limits[0].limit;
}

static void ask_all(struct store_take *takes, unsigned n)
{
    f.n_done = 0;
    for (unsigned i = 0; i < n; i++) {
        fill_local(&takes[i]);
        store_take(server_store(g.server), &takes[i]);
    }
    assert_int_equal(f.n_done, 0); /* never at once: workers answer */
    while (f.n_done < n) {
        ev_run(g.loop, EVRUN_ONCE);
    }
}

static void workers_answer_the_main_thread(void **context)
{
    (void)context;
    static struct store_take takes[32];
    struct store_take charged;
    fill_local(&charged);
    charged.is_peek = false;
    charged.counters = counters_new(1);
    store_take(g.store, &charged);
    counters_free(charged.counters);
    assert_true(charged.charges[0].is_charged);
    ask_all(takes, 32);
    for (unsigned i = 0; i < 32; i++) {
        assert_true(takes[i].is_allowed);
        assert_int_equal(takes[i].held[0].remaining, 98);
        assert_false(takes[i].charges[0].is_charged);
    }
}

static void on_changed(void *context)
{
    (void)context;
    g.n_changed++;
}

/* Each worker has answered after it read the letter about the rules. */
static void rules_that_are_held_stay(void **context)
{
    (void)context;
    static struct store_take takes[4 * WORKERS];
    struct counters *others[WORKERS] = {counters_new(1), counters_new(1)};
    unsigned hold = server_hold(g.server);
    unsigned second = server_hold(g.server);
    server_change_rules(g.server, g.set, NULL, others, on_changed, NULL);
    ask_all(takes, 4 * WORKERS);
    unsigned newer = server_hold(g.server);
    ask_all(takes, 4 * WORKERS);
    assert_int_equal(g.n_changed, 0);
    server_let_go(g.server,
                  newer); /* of the rules that follow: says nothing of these */
    server_let_go(g.server, hold);
    assert_int_equal(g.n_changed, 0);
    server_let_go(g.server, second);
    assert_int_equal(g.n_changed, 1);

    /* Where nobody holds them, workers are all that is waited for. */
    server_change_rules(g.server, g.set, NULL, g.counters, on_changed, NULL);
    while (g.n_changed < 2) {
        ev_run(g.loop, EVRUN_ONCE);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        counters_free(others[i]);
    }
}

static void what_was_asked_ends_before_the_server(void **context)
{
    (void)context;
    static struct store_take takes[8];
    for (unsigned i = 0; i < 8; i++) {
        fill_local(&takes[i]);
        store_take(server_store(g.server), &takes[i]);
    }
    server_stop(g.server);
    server_free(g.server);
    g.server = NULL;
    assert_int_equal(f.n_done, 8);
    assert_int_equal(takes[7].held[0].remaining, 100);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define SERVER_TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up_server, tear_down_server)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_comes_back_with_all_of_it),
        TEST(so_many_go_at_a_time_and_no_more),
        TEST(without_time_nobody_is_asked),
        TEST(what_is_here_is_looked_at_here),
        TEST(what_is_back_ends_with_the_asker),
        SERVER_TEST(workers_answer_the_main_thread),
        SERVER_TEST(rules_that_are_held_stay),
        SERVER_TEST(what_was_asked_ends_before_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
