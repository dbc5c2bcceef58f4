#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/control/counter.h"

#include "tests/support/decider.h"
#include "tests/support/told_store.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - name: user\n"
    "    key: [user, ip]\n"
    "    limits:\n"
    "      - { name: burst, requests: 2, per: 10s, burst: 3 }\n"
    "      - { name: log, requests: 9, per: 1h, algorithm: sliding_log }\n"
    "  - { name: ip, key: [ip], limit: { requests: 1, per: 1s } }\n"
    "  - { name: other, key: [user, ip], limit: { requests: 7, per: 1h } }\n"
    "  - { name: all, key: [], limit: { requests: 5, per: 1s, algorithm: leaky_bucket } }\n"
    "  - { name: peer, key: [peer], no_key: skip,\n"
    "      limit: { requests: 4, per: 1h, algorithm: fixed_window } }\n";

struct fixture {
    struct decider decider;
    struct told_store told;
    struct stores stores;
    unsigned n_done;
    FILE *out;
    char *answer;
    size_t answer_len;
};

static int set_up(void **context)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    told_store_init(&f.told);
    *context = &f;
    return decider_init(&f.decider, rules_text) ? 0 : 1;
}

static int tear_down(void **context)
{
    struct fixture *f = *context;
    free(f->answer);
    leases_free(f->stores.leases);
    syncs_free(f->stores.syncs);
    decider_fini(&f->decider);
    return 0;
}

static void end_answer(void *context)
{
    struct fixture *f = context;
    f->n_done++;
    assert_int_equal(fclose(f->out), 0);
}

/* By the store of the decider, or with Redis by one that is told what to say. */
static void begin(struct fixture *f, unsigned n, const char *const *words)
{
    bool has_redis = f->stores.leases != NULL;
    const struct peek_source source = {
        .now = {START_US},
        .set = f->decider.decide.set,
        .store = has_redis ? &f->told.store : f->decider.decide.store,
        .options = &f->decider.options,
        .stores = has_redis ? &f->stores : NULL,
    };
    free(f->answer);
    f->n_done = 0;
    f->out = open_memstream(&f->answer, &f->answer_len);
    assert_non_null(f->out);
    counter_begin(&source, n, words, f->out, end_answer, f);
}

static const char *show(struct fixture *f, unsigned n, const char *first,
                        const char *second)
{
    const char *const words[] = {first, second};
    begin(f, n, words);
    assert_int_equal(f->n_done, 1);
    return f->answer;
}

static void charge(struct fixture *f, const char *user)
{
    static const uint8_t client[4] = {192, 0, 2, 7};
    static const uint8_t peer[4] = {192, 0, 2, 9};
    struct decider *d = &f->decider;
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "user", user);
    decider_ipv4(d, "peer", peer);
    decider_ipv4(d, "ip", client);
    assert_true(decider_decide(d, START_US));
}

static void shows_what_the_counters_of_a_key_hold(void **context)
{
    struct fixture *f = *context;
    assert_string_equal(show(f, 1, "user=a b,ip=192.0.2.7", NULL),
                        "limit=user.burst algorithm=token_bucket size=3 used=0 "
                        "remaining=3 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n"
                        "limit=user.log algorithm=sliding_log size=9 used=0 "
                        "remaining=9 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n"
                        "limit=other algorithm=sliding_window size=7 used=0 "
                        "remaining=7 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n");
    assert_string_equal(show(f, 2, "user", "user=a,ip=::ffff:192.0.2.7"),
                        "limit=user.burst algorithm=token_bucket size=3 used=0 "
                        "remaining=3 reset_ms=0 key=user=a,ip=192.0.2.7\n"
                        "limit=user.log algorithm=sliding_log size=9 used=0 "
                        "remaining=9 reset_ms=0 key=user=a,ip=192.0.2.7\n");
    assert_string_equal(show(f, 1, "ip=192.0.2.7", NULL),
                        "limit=ip algorithm=sliding_window size=1 used=0 remaining=1 "
                        "reset_ms=0 key=ip=192.0.2.7\n");
    assert_string_equal(show(f, 1, "all", NULL),
                        "limit=all algorithm=leaky_bucket size=6 used=0 remaining=6 "
                        "reset_ms=0 key=\n");
}

static void what_is_in_redis_is_only_named(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(
        decider_init(&f->decider,
                     "version: 1\ndomain: d\nrules:\n"
                     "  - {name: a, key: [user], limit: {requests: 5, per: 60s}, "
                     "store: sync}\n"));
    assert_string_equal(show(f, 1, "user=ann", NULL),
                        "limit=a algorithm=sliding_window size=5 store=sync "
                        "key=user=ann\n");
}

/* --- with Redis --- */

static const char shared_rules[] =
    "version: 1\n"
    "domain: d\n"
    "rules:\n"
    "  - {name: here, key: [user], limit: {requests: 5, per: 60s}}\n"
    "  - {name: there, key: [user], limit: {requests: 7, per: 60s}, store: redis}\n"
    "  - {name: split, key: [user], limit: {requests: 4000, per: 60s}, store: redis, "
    "shards: 40}\n"
    "  - {name: leased, key: [user], limit: {requests: 1000, per: 60s}, store: lease}\n"
    "  - {name: synced, key: [user], limit: {requests: 1000, per: 60s}, store: sync}\n";

static void start_redis(struct fixture *f)
{
    struct leases_options options = {
        .share = FALLBACK_SHARE_WHOLE / 2,
        .horizon_us = US_PER_S,
        .ttl_us = 10 * US_PER_S,
    };
    decider_fini(&f->decider);
    assert_true(decider_init(&f->decider, shared_rules));
    f->stores.leases = leases_new(&options);
    f->stores.syncs = syncs_new(100 * US_PER_MS);
    assert_true(f->stores.leases != NULL && f->stores.syncs != NULL);
    f->told.used = 3;
    f->told.reset_us = 1500;
}

static void redis_is_asked(void **context)
{
    struct fixture *f = *context;
    start_redis(f);
    assert_string_equal(show(f, 2, "here", "user=a b"),
                        "limit=here algorithm=sliding_window size=5 used=0 remaining=5 "
                        "reset_ms=0 key=user=a%20b\n");
    assert_string_equal(show(f, 2, "there", "user=a b"),
                        "limit=there algorithm=sliding_window size=7 store=redis "
                        "used=3 remaining=4 reset_ms=2 "
                        "counter=rl:d:{user=a%20b}:there:s60s key=user=a%20b\n");
    f->told.reset_us = LIMIT_WAIT_US_MAX;
    assert_non_null(strstr(show(f, 2, "there", "user=ann"), " reset_ms=never "));
}

static void shards_are_one_counter(void **context)
{
    struct fixture *f = *context;
    start_redis(f);
    assert_string_equal(show(f, 2, "split", "user=ann"),
                        "limit=split algorithm=sliding_window size=4000 store=redis "
                        "shards=40 used=120 remaining=3880 reset_ms=2 "
                        "counter=rl:d:{user=ann}:split:s60s key=user=ann\n");
    assert_int_equal(f->told.n_taken, 3);
    assert_int_equal(f->told.n_charges, 40);
}

static void it_is_said_that_redis_does_not_answer(void **context)
{
    static const struct {
        enum store_failure failure;
        enum store_source source;
        const char *text;
    } cases[] = {
        {STORE_DOWN, STORE_FALLBACK, "cause=store_down policy=local"},
        {STORE_SLOW, STORE_OPEN, "cause=store_slow policy=open"},
        {STORE_DEADLINE, STORE_CLOSED, "cause=deadline policy=closed"},
        {STORE_SLOW, STORE_UNASKED, "cause=store_slow policy=-"},
    };
    struct fixture *f = *context;
    start_redis(f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char line[256];
        f->told.failure = cases[i].failure;
        f->told.source = cases[i].source;
        (void)
            snprintf(line, sizeof(line),
                     "limit=there algorithm=sliding_window size=7 store=redis "
                     "unavailable %s counter=rl:d:{user=ann}:there:s60s key=user=ann\n",
                     cases[i].text);
        assert_string_equal(show(f, 2, "there", "user=ann"), line);
        assert_non_null(strstr(show(f, 2, "split", "user=ann"), " unavailable cause="));
    }
}

static void answers_may_come_later(void **context)
{
    const char *const words[] = {"user=ann"};
    struct fixture *f = *context;
    start_redis(f);
    f->told.is_later = true;
    begin(f, 1, words);
    for (unsigned n = 1; n <= 7;
         n++) { /* a take a limit, two more for all the shards */
        assert_int_equal(f->n_done, 0);
        assert_int_equal(f->told.n_taken, n);
        f->told.is_later = n < 5; /* those after it answer at once */
        told_store_answer(&f->told);
        if (!f->told.is_later) {
            break;
        }
    }
    assert_int_equal(f->told.n_taken, 7);
    assert_int_equal(f->n_done, 1);
    assert_non_null(strstr(f->answer, "limit=here "));
    assert_non_null(strstr(f->answer, "\nlimit=synced "));
}

/* A charge of the only counter of a rule, for `ann`. */
static struct store_charge charge_of(const struct fixture *f, unsigned i,
                                     const char *name)
{
    const struct decide_limit *limit = &f->decider.decide.set->limits[i];
    return (struct store_charge){
        .limit = &limit->limit,
        .home = &limit->home->home,
        .key = (const uint8_t *)name,
        .key_bytes = strlen(name),
        .cost = 1,
    };
}

static void what_is_on_lease_is_said(void **context)
{
    struct fixture *f = *context;
    struct instant now = {START_US};
    struct lease_order order = {0};
    uint32_t seq = 0;
    start_redis(f);
    assert_non_null(strstr(show(f, 2, "leased", "user=ann"),
                           "store=lease used=3 remaining=997 reset_ms=2 leased=0 "
                           "leased_ms=0 counter=rl:d:{user=ann}:leased:s60s "));
    struct store_charge charge = charge_of(f, 3, "rl:d:{user=ann}:leased:s60s");
    for (int i = 0; i < 9; i++) {
        order.key = leases_key(f->stores.leases, &charge);
        assert_false(leases_spend(f->stores.leases, 1, now, &charge, &seq, &order));
        if (order.want > 0) {
            break;
        }
    }
    const struct lease_answer answer = {
        .end = LEASE_ANSWERED,
        .sent_at = {START_US - US_PER_S},
        .amount = 20,
        .remaining = 980,
    };
    (void)leases_end_order(f->stores.leases, &order, charge.limit, &answer, now, 1);
    assert_true(leases_spend(f->stores.leases, 1, now, &charge, &seq,
                             &(struct lease_order){
                                 .key = order.key,
                             }));
    assert_non_null(
        strstr(show(f, 2, "leased", "user=ann"), " leased=19 leased_ms=7000 counter="));
    assert_non_null(
        strstr(show(f, 2, "leased", "user=bob"), " leased=0 leased_ms=0 counter="));
}

static void what_is_known_of_a_synced_counter_is_said(void **context)
{
    struct fixture *f = *context;
    struct instant earlier = {START_US - 40 * US_PER_MS};
    const struct sync_caller caller = {.now = earlier,
                                       .n_agents = 1,
                                       .can_watch = true};
    const struct sync_news news = {.server = earlier};
    struct sync_errand errand;
    struct sync_order order;
    start_redis(f);
    assert_non_null(strstr(show(f, 2, "synced", "user=ann"),
                           "store=sync used=3 remaining=997 reset_ms=2 known=- "
                           "counter=rl:d:{user=ann}:synced:s60s "));
    struct store_charge charge = charge_of(f, 4, "rl:d:{user=ann}:synced:s60s");
    struct table_key key = syncs_key(f->stores.syncs, &charge);
    assert_int_equal(syncs_charge(f->stores.syncs, &key, &caller, &charge, &errand),
                     SYNC_UNHELD);
    assert_true(syncs_watch(f->stores.syncs, &key, 1, earlier));
    assert_non_null(strstr(show(f, 2, "synced", "user=ann"), " known=- "));
    assert_true(syncs_begin(f->stores.syncs, &key, 1, false, earlier, &order));
    syncs_end(f->stores.syncs, &order, charge.limit, &news, earlier);
    assert_int_equal(syncs_charge(f->stores.syncs, &key, &caller, &charge, &errand),
                     SYNC_ALLOWED);
    assert_non_null(strstr(show(f, 2, "synced", "user=ann"),
                           " known=999 unsent=1 age_ms=40 counter="));
    f->told.failure = STORE_DOWN;
    f->told.source = STORE_FALLBACK;
    assert_non_null(strstr(show(f, 2, "synced", "user=ann"),
                           "unavailable cause=store_down policy=local known=999 "));
}

static const char allowing[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - { name: user, key: [user], no_key: skip, limit: { requests: 2, per: 10s, burst: 3 } }\n"
    "  - { name: peer, key: [peer], limit: { requests: 4, per: 1h, algorithm: fixed_window } }\n";

static void shows_what_was_charged(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(decider_init(&f->decider, allowing));
    charge(f, "u");
    charge(f, "u");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(show(f, 2, "user", "user=u"),
                            "limit=user algorithm=token_bucket size=3 used=2 "
                            "remaining=1 reset_ms=10000 key=user=u\n");
        /* It came as an address. */
        assert_string_equal(show(f, 1, "peer=192.0.2.9", NULL),
                            "limit=peer algorithm=fixed_window size=4 used=2 "
                            "remaining=2 reset_ms=3600000 key=peer=192.0.2.9\n");
    }
}

static void says_what_is_wrong(void **context)
{
    struct fixture *f = *context;
    static const char usage[] =
        "show counter: want [RULE[.LIMIT]] KEY, where KEY is NAME=VALUE[,NAME=VALUE]\n";
    static const char none[] = "show counter: no such limit has a key of these parts\n";
    assert_string_equal(show(f, 0, NULL, NULL), usage);
    assert_string_equal(show(f, 2, "user", "other"), usage);
    assert_string_equal(show(f, 2, "nobody", "ip=192.0.2.7"), none);
    assert_string_equal(show(f, 1, "user", NULL), none);
    assert_string_equal(show(f, 1, "ip=x", NULL), none);
    assert_string_equal(show(f, 2, "all", "ip=192.0.2.7"), none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(shows_what_the_counters_of_a_key_hold),
        TEST(what_is_in_redis_is_only_named),
        TEST(redis_is_asked),
        TEST(shards_are_one_counter),
        TEST(it_is_said_that_redis_does_not_answer),
        TEST(answers_may_come_later),
        TEST(what_is_on_lease_is_said),
        TEST(what_is_known_of_a_synced_counter_is_said),
        TEST(shows_what_was_charged),
        TEST(says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
