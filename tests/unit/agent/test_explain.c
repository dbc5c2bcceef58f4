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
    char *answer;
    size_t answer_len;
    enum explain_status status;
};

static int set_up(void **context)
{
    static struct fixture f;
    f.answer = NULL;
    *context = &f;
    return decider_init(&f.decider, rules_text) ? 0 : 1;
}

static int tear_down(void **context)
{
    struct fixture *f = *context;
    free(f->answer);
    decider_fini(&f->decider);
    return 0;
}

static const char *explain(struct fixture *f, unsigned n, const char *const *words)
{
    struct explain_source source = {
        .set = f->decider.decide.set,
        .store = f->decider.decide.store,
        .options = &f->decider.options,
    };
    free(f->answer);
    FILE *out = open_memstream(&f->answer, &f->answer_len);
    assert_non_null(out);
    f->status = explain_print(&source, (struct instant){.us = START_US}, n, words, out);
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

/* It would have to be waited for. */
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
        TEST(a_shadow_would_refuse_without_its_key),
        TEST(wrong_words_are_told),
        TEST(json_says_the_same),
        TEST(nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
