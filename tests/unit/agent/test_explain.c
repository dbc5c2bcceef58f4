/* explain.c, explain_text.c and explain_json.c: a request in, what people and machines read. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/control/explain.h"

#include "tests/support/decider.h"
#include "tests/support/told_store.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - name: per_key\n"
    "    match: { path: /v1/**, method: [GET, POST] }\n"
    "    key: [api_key]\n"
    "    limits:\n"
    "      - { name: burst, requests: 2, per: 10s, burst: 3 }\n"
    "      - { name: hour, requests: 100, per: 1h, algorithm: fixed_window }\n"
    "    plans: { gold: 10x, staff: unlimited }\n"
    "    cost: { from: size, max: 50 }\n"
    "  - name: trial\n"
    "    key: []\n"
    "    limit: { requests: 1000, per: 1s }\n"
    "    mode: shadow\n"
    "  - name: acme\n"
    "    match: { tenant: acme }\n"
    "    key: [ip]\n"
    "    limit: { requests: 3, per: 60s, algorithm: sliding_log }\n"
    "    overrides: trial\n"
    "lists: { block: { api_key: [stolen] } }\n";

struct fixture {
    struct decider decider;
    struct told_store told;
    struct stores stores; /* with leases and syncs: there is Redis */
    char *answer;
    size_t answer_len;
    enum explain_status status;
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

static const char *explain(struct fixture *f, unsigned n, const char *const *words)
{
    bool has_redis = f->stores.leases != NULL;
    struct peek_source source = {
        .now = {START_US},
        .set = f->decider.decide.set,
        .store = has_redis ? &f->told.store : f->decider.decide.store,
        .options = &f->decider.options,
        .stores = has_redis ? &f->stores : NULL,
    };
    free(f->answer);
    FILE *out = open_memstream(&f->answer, &f->answer_len);
    assert_non_null(out);
    f->status = explain_print(&source, n, words, out);
    assert_int_equal(fclose(out), 0);
    return f->answer;
}

#define EXPLAIN(f, ...)                                                     \
    explain(f, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
            (const char *const[]){__VA_ARGS__})

static void assert_has(const struct fixture *f, const char *text)
{
    if (strstr(f->answer, text) == NULL) {
        print_error("'%s' is not in:\n%s", text, f->answer);
        fail();
    }
}

static void charge(struct fixture *f, const char *api_key)
{
    struct decider *d = &f->decider;
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/v1/x");
    decider_text(d, "method", "GET");
    decider_text(d, "api_key", api_key);
    assert_true(decider_decide(d, START_US));
}

static void says_what_applies_and_what_is_held(void **context)
{
    struct fixture *f = *context;
    charge(f, "a b");
    for (int i = 0; i < 2; i++) { /* nothing was charged */
        EXPLAIN(f, "path=//v1/x", "method=GET", "api_key=a b", "size=2", "foo=1");
        assert_int_equal(f->status, EXPLAIN_ALLOWED);
        assert_memory_equal(f->answer, "Verdict: allow, by per_key.burst\n", 33);
        assert_has(f, "Path: /v1/x\nNot used by any rule: foo\n");
        assert_has(f, "per_key: applies\n"
                      "  key api_key=a%20b\n"
                      "  cost 2, from size\n"
                      "  limit per_key.burst: token_bucket, 2 per 10s\n"
                      "    at most 3 at once; used 1, remaining 2, reset in 5.000 s\n"
                      "    passes\n"
                      "  limit per_key.hour: fixed_window, 100 per 1h\n");
        assert_has(f, "trial: applies\n"
                      "  key []: one for all\n"
                      "  cost 1\n"
                      "  in shadow\n");
        assert_has(f, "1 of 3 rules do not match; --all says why\n"
                      "HAProxy would get:\n"
                      "  action = allow\n"
                      "  deny = false\n"
                      "  rule = per_key.burst\n"
                      "  limit = 3\n"
                      "  remaining = 2\n");
    }
}

static void says_what_is_over_its_limit(void **context)
{
    struct fixture *f = *context;
    for (int i = 0; i < 3; i++) {
        charge(f, "k");
    }
    EXPLAIN(f, "path=/v1/x", "method=GET", "api_key=k", "size=x");
    assert_int_equal(f->status, EXPLAIN_DENIED);
    assert_memory_equal(f->answer, "Verdict: reject, reason limit, by per_key.burst\n",
                        48);
    assert_has(f, "  cost 1, from size, raised to min\n");
    assert_has(f, "used 3, remaining 0, reset in 15.000 s\n"
                  "    over the limit, passes in 5.000 s\n");
    assert_has(f, "  deny = true\n  status = 429\n");
    EXPLAIN(f, "path=/v1/x", "method=GET", "api_key=new", "size=99");
    assert_has(f, "  cost 50, from size, lowered to max\n");
    assert_has(f, "    over the limit, however long it waits\n");
}

static void says_why_not(void **context)
{
    struct fixture *f = *context;
    EXPLAIN(f, "--all", "method=PUT", "path=/v1/\x01 %", "tenant=initech");
    assert_has(f, "acme: tenant is initech, wants acme\n");
    EXPLAIN(f, "--all", "method=GET", "path=/v1/x", "tenant=acme", "ip=::ffff:10.0.0.1",
            "plan=staff", "api_key=");
    assert_has(f, "Plan: staff, as sent\n");
    assert_has(f, "per_key: unlimited for this plan\n");
    assert_has(f, "trial: overridden by acme\n");
    assert_has(f, "  key ip=10.0.0.1\n");
    EXPLAIN(f, "method=GET", "path=/v1/x", "ip=10.0.0.1", "plan=gold");
    assert_has(f, "per_key: applies, with the numbers of the plan\n"
                  "  key !ip=10.0.0.1\n"
                  "  the address stands in for api_key\n");
    EXPLAIN(f, "method=GET", "path=/v1/x");
    assert_has(f, "per_key: skipped, without api_key\n");
    EXPLAIN(f, "api_key=stolen");
    assert_int_equal(f->status, EXPLAIN_DENIED);
    assert_has(f, "Verdict: block, reason blocklist, by list.block\n"
                  "List: block, by api_key; no rule counts\n");
}

static void a_shadow_would_refuse_without_its_key(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(
        decider_init(&f->decider,
                     "version: 1\ndomain: d\nrules:\n"
                     "  - {name: a, key: [k], no_key: reject, limit: "
                     "{requests: 5, per: 60s}, mode: shadow}\n"
                     "  - {name: b, match: {path: /b}, key: [k], no_key: reject, "
                     "limit: {requests: 5, per: 60s}}\n"));
    EXPLAIN(f, "path=/a");
    assert_int_equal(f->status, EXPLAIN_ALLOWED);
    assert_has(f, "a: would refuse, without k\n");
    EXPLAIN(f, "path=/b");
    assert_int_equal(f->status, EXPLAIN_DENIED);
    assert_has(f, "b: refuses, without k\n");
}

/* Where there is none. */
static void redis_is_not_asked(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(decider_init(&f->decider,
                             "version: 1\ndomain: d\nrules:\n"
                             "  - {name: a, key: [], limit: {requests: 5, per: 60s}, "
                             "store: lease}\n"));
    EXPLAIN(f, "path=/a");
    assert_has(f,
               "    at most 5 at once; counted in Redis (store: lease), which is not ");
    assert_null(strstr(f->answer, "remaining 5"));
    EXPLAIN(f, "--json", "path=/a");
    assert_has(f, "\"store\": \"lease\"");
    assert_null(strstr(f->answer, "\"remaining\""));
}

static void start_redis(struct fixture *f)
{
    struct leases_options options = {
        .share = FALLBACK_SHARE_WHOLE / 2,
        .horizon_us = US_PER_S,
        .ttl_us = 10 * US_PER_S,
    };
    decider_fini(&f->decider);
    assert_true(
        decider_init(&f->decider,
                     "version: 1\ndomain: d\nrules:\n"
                     "  - {name: a, match: {path: /a}, key: [k], limit: {requests: 5, "
                     "per: 60s}, store: redis}\n"
                     "  - {name: s, match: {path: /s}, key: [k], limit: {requests: "
                     "800, per: 60s}, store: redis, shards: 4}\n"
                     "  - {name: l, match: {path: /l}, key: [k], limit: {requests: "
                     "1000, per: 60s}, store: lease}\n"
                     "  - {name: y, match: {path: /y}, key: [k], limit: {requests: "
                     "1000, per: 60s}, store: sync}\n"));
    f->stores.leases = leases_new(&options);
    f->stores.syncs = syncs_new(100 * US_PER_MS);
    assert_true(f->stores.leases != NULL && f->stores.syncs != NULL);
    f->told.used = 3;
    f->told.reset_us = 1500000;
}

static void what_redis_says_is_said(void **context)
{
    struct fixture *f = *context;
    start_redis(f);
    EXPLAIN(f, "path=/a", "k=1");
    assert_int_equal(f->status, EXPLAIN_ALLOWED);
    assert_has(f, "  limit a: sliding_window, 5 per 1m\n"
                  "    at most 5 at once; used 3, remaining 2, reset in 1.500 s\n"
                  "    counted in Redis (store: redis)\n"
                  "    passes\n");
    EXPLAIN(f, "path=/s", "k=1");
    assert_has(f, "    counted in Redis (store: redis): one of 4 shards, times 4\n");
    EXPLAIN(f, "path=/l", "k=1");
    assert_has(f, "    counted in Redis (store: lease); on lease to this host: 0\n");
    EXPLAIN(f, "path=/y", "k=1");
    assert_has(f, "    counted in Redis (store: sync); this host has not used it "
                  "lately\n");
    f->told.is_allowed = false;
    EXPLAIN(f, "path=/a", "k=1");
    assert_int_equal(f->status, EXPLAIN_DENIED);
    assert_has(f, "    counted in Redis (store: redis)\n"
                  "    over the limit, passes in 2.000 s\n");
}

static void it_is_said_that_redis_does_not_answer(void **context)
{
    struct fixture *f = *context;
    start_redis(f);
    f->told.failure = STORE_DOWN;
    f->told.source = STORE_CLOSED;
    f->told.is_allowed = false;
    EXPLAIN(f, "path=/l", "k=1");
    assert_int_equal(f->status, EXPLAIN_DENIED);
    assert_has(f, "    at most 1000 at once; store=lease unavailable cause=store_down\n"
                  "    on_store_failure: closed decides\n"
                  "    over the limit, passes in 2.000 s\n");
    f->told.failure = STORE_SLOW;
    f->told.source = STORE_UNASKED;
    f->told.is_allowed = true;
    EXPLAIN(f, "path=/a", "k=1");
    assert_has(f, "    at most 5 at once; store=redis unavailable cause=store_slow\n"
                  "3 of 4 rules");
    f->told.failure = STORE_NO_FAILURE;
    EXPLAIN(f, "path=/a", "k=1");
    assert_has(f, "    at most 5 at once; store=redis, not asked: another limit "
                  "refuses\n");
}

/* The only limit that a request meets, as JSON. */
static json_t *limit_of(struct fixture *f, const char *path)
{
    json_error_t error;
    EXPLAIN(f, "--json", path, "k=1");
    json_t *root = json_loads(f->answer, 0, &error);
    assert_non_null(root);
    json_t *rule = json_array_get(json_object_get(root, "rules"), 0);
    json_t *limit = json_incref(json_array_get(json_object_get(rule, "limits"), 0));
    json_decref(root);
    return limit;
}

static void json_says_what_redis_says(void **context)
{
    static const struct {
        const char *path;
        const char *text;
    } cases[] = {
        {"path=/a", "{\"used\": 3, \"remaining\": 2, \"reset_us\": 1500000, "
                    "\"passes\": true, \"retry_us\": 0, \"delay_us\": 0, "
                    "\"store\": \"redis\", \"shards\": 1}"},
        {"path=/l", "{\"used\": 3, \"remaining\": 997, \"reset_us\": 1500000, "
                    "\"passes\": true, \"retry_us\": 0, \"delay_us\": 0, "
                    "\"store\": \"lease\", \"leased\": 0, \"leased_us\": 0}"},
        {"path=/y", "{\"used\": 3, \"remaining\": 997, \"reset_us\": 1500000, "
                    "\"passes\": true, \"retry_us\": 0, \"delay_us\": 0, "
                    "\"store\": \"sync\", \"known\": null, \"unsent\": 0, "
                    "\"age_us\": 0, \"cut_off\": false}"},
    };
    struct fixture *f = *context;
    start_redis(f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *limit = limit_of(f, cases[i].path);
        json_t *wanted = json_loads(cases[i].text, 0, NULL);
        static const char *const others[] = {"name", "algorithm", "requests", "per_us",
                                             "size"};
        for (size_t j = 0; j < ARRAY_LEN(others); j++) {
            assert_int_equal(json_object_del(limit, others[j]), 0);
        }
        assert_true(json_equal(limit, wanted));
        json_decref(limit);
        json_decref(wanted);
    }
}

static void json_says_that_redis_does_not_answer(void **context)
{
    struct fixture *f = *context;
    start_redis(f);
    f->told.failure = STORE_DEADLINE;
    f->told.source = STORE_OPEN;
    json_t *limit = limit_of(f, "path=/a");
    assert_string_equal(json_string_value(json_object_get(limit, "store")), "redis");
    assert_string_equal(json_string_value(json_object_get(limit, "unavailable")),
                        "deadline");
    assert_string_equal(json_string_value(json_object_get(limit, "policy")), "open");
    assert_true(json_is_true(json_object_get(limit, "passes")));
    assert_null(json_object_get(limit, "remaining"));
    json_decref(limit);

    f->told.failure = STORE_NO_FAILURE;
    f->told.source = STORE_UNASKED;
    limit = limit_of(f, "path=/a");
    assert_true(json_is_true(json_object_get(limit, "unasked")));
    assert_null(json_object_get(limit, "passes"));
    json_decref(limit);
}

static void note_status(void *context, enum explain_status status)
{
    enum explain_status *noted = context;
    *noted = status;
}

static void the_answer_may_come_later(void **context)
{
    const char *const words[] = {"path=/a", "k=1"};
    struct fixture *f = *context;
    enum explain_status status = EXPLAIN_FAILED;
    start_redis(f);
    f->told.is_later = true;
    const struct peek_source source = {
        .now = {START_US},
        .set = f->decider.decide.set,
        .store = &f->told.store,
        .options = &f->decider.options,
        .stores = &f->stores,
    };
    FILE *out = open_memstream(&f->answer, &f->answer_len);
    explain_begin(&source, 2, words, out, note_status, &status);
    assert_int_equal(fflush(out), 0);
    assert_int_equal(f->answer_len, 0);
    told_store_answer(&f->told);
    assert_int_equal(status, EXPLAIN_ALLOWED);
    assert_int_equal(fclose(out), 0);
    assert_has(f, "a: applies\n  key k=1\n");
    assert_has(f, "used 3, remaining 2, ");
}

static void wrong_words_are_told(void **context)
{
    struct fixture *f = *context;
    static const struct {
        const char *word;
        const char *answer;
    } cases[] = {
        {"method", "explain: method: want NAME=VALUE, --all or --json\n"},
        {"=GET", "explain: =GET: want NAME=VALUE, --all or --json\n"},
        {"ip=10.0.0", "explain: ip=10.0.0: no address\n"},
        {"domain=other", "explain: domain=other: the rules are of another domain\n"},
        {"a\nb", "explain: a%0Ab: want NAME=VALUE, --all or --json\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_string_equal(explain(f, 1, &cases[i].word), cases[i].answer);
        assert_int_equal(f->status, EXPLAIN_FAILED);
    }
    EXPLAIN(f, "domain=api", "ip=");
    assert_int_equal(f->status, EXPLAIN_ALLOWED);
}

static void json_says_the_same(void **context)
{
    struct fixture *f = *context;
    const char *key = NULL;
    const char *why = NULL;
    json_int_t used = 0;
    json_int_t remaining = 0;
    json_error_t error;
    charge(f, "k");
    EXPLAIN(f, "--json", "--all", "path=/v1/x", "method=GET", "api_key=k", "x=\xff");
    json_t *root = json_loads(f->answer, 0, &error);
    assert_non_null(root);
    json_t *rules = json_object_get(root, "rules");
    assert_int_equal(json_array_size(rules), 3);
    assert_int_equal(json_unpack(json_array_get(rules, 0),
                                 "{s:s, s:s, s:[{s:I, s:I}, {}]}", "why", &why, "key",
                                 &key, "limits", "used", &used, "remaining",
                                 &remaining),
                     0);
    assert_string_equal(why, "applies");
    assert_string_equal(key, "api_key=k");
    assert_int_equal(used, 1);
    assert_int_equal(remaining, 2);
    assert_int_equal(json_unpack(json_array_get(rules, 2), "{s:s, s:s}", "why", &why,
                                 "wants", &key),
                     0);
    assert_string_equal(why, "unmet");
    assert_string_equal(key, "acme");
    assert_true(
        json_is_false(json_object_get(json_object_get(root, "variables"), "deny")));
    json_decref(root);
}

static void nothing_is_counted(void **context)
{
    struct fixture *f = *context;
    EXPLAIN(f, "path=/v1/x", "method=GET", "api_key=k");
    for (int i = 0; i < COUNTERS_N; i++) {
        assert_int_equal(counter_get(f->decider.decide.counters, (enum counter)i), 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(says_what_applies_and_what_is_held),
        TEST(says_what_is_over_its_limit),
        TEST(says_why_not),
        TEST(redis_is_not_asked),
        TEST(what_redis_says_is_said),
        TEST(it_is_said_that_redis_does_not_answer),
        TEST(json_says_what_redis_says),
        TEST(json_says_that_redis_does_not_answer),
        TEST(the_answer_may_come_later),
        TEST(a_shadow_would_refuse_without_its_key),
        TEST(wrong_words_are_told),
        TEST(json_says_the_same),
        TEST(nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
