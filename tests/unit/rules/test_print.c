#include <stdlib.h>

#include "rules/print.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

static void expect_print(const char *text, const char *want)
{
    struct rules_file *file;
    uint32_t n_events;
    size_t len;
    char *got;

    rules_diags_init(&diags, "test.yaml");
    file = rules_file_read(&(struct rules_source){.name = "test.yaml",
                                                  .text = bytes_of(text)},
                           &diags);
    rules_diags_print(&diags, stderr);
    assert_non_null(file);
    got = rules_file_print(file, &len, &n_events);
    rules_file_free(file);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

#define HEAD  "version: 1\ndomain: d\n"
#define LIMIT "    limit: { requests: 1, per: 1s }\n"

/** What the language has anyway is left out. */
static void test_usual(void **state)
{
    (void)state;
    expect_print(HEAD "rules:\n- {name: a, key: [ip], match: {}, no_key: ip, soft: 0%, "
                      "action: reject, mode: enforce, advertise: true, store: local, "
                      "on_store_failure: {local: 100%}, tag: [], shards: 1, "
                      "key_text: readable, cost: 1, plans: {}, overrides: [], "
                      "ip_prefix: {v4: 32}, limit: {requests: 1, per: 1000ms, "
                      "algorithm: sliding_window}}\n",
                 HEAD "rules:\n  - name: a\n    key: [ip]\n" LIMIT);
}

/** But where it is required. */
static void test_required(void **state)
{
    (void)state;
    expect_print(HEAD "require: [cost, soft, limits, plans]\ndefaults: {soft: off, "
                      "plans: {}, cost: 1}\n"
                      "rules:\n- {name: a, key: [ip], limit: {requests: 1, per: 1s}}\n",
                 HEAD "require: [cost, soft, limits, plans]\nrules:\n  - name: a\n"
                      "    key: [ip]\n" LIMIT
                      "    plans: {}\n    cost: 1\n    soft: off\n");
}

/** What all rules say alike stands in defaults, all that is another's does not. */
static void test_defaults(void **state)
{
    (void)state;
    expect_print(HEAD "defaults: {owner: edge, soft: 80%, mode: shadow}\n"
                      "rules:\n- {name: a, key: [ip], limit: {requests: 1, per: 1s}}\n"
                      "- {name: b, key: [ip], soft: off, mode: {enforce: 0.5%}, limit: "
                      "{requests: 1, per: 1s}}\n",
                 HEAD
                 "defaults:\n  owner: edge\nrules:\n  - name: a\n    key: [ip]\n" LIMIT
                 "    soft: 80%\n    mode: shadow\n  - name: b\n    key: [ip]\n" LIMIT
                 "    mode: { enforce: 0.5% }\n");
}

/** A rule's own cost takes the place of the costs of defaults, and the other way round. */
static void test_costs(void **state)
{
    (void)state;
    expect_print(HEAD "defaults: {costs: [{match: {m: GET}, cost: 0}]}\n"
                      "rules:\n- {name: a, key: [ip], cost: 5, limit: {requests: 1, "
                      "per: 1s}}\n",
                 HEAD "rules:\n  - name: a\n    key: [ip]\n" LIMIT "    cost: 5\n");
    expect_print(HEAD "defaults: {cost: 5}\n"
                      "rules:\n- {name: a, key: [ip], costs: [{match: {m: GET}, cost: "
                      "0}], limit: {requests: 1, per: 1s}}\n",
                 HEAD "rules:\n  - name: a\n    key: [ip]\n" LIMIT
                      "    costs: [{ match: { m: GET }, cost: 0 }]\n");
}

static void test_lists(void **state)
{
    (void)state;
    expect_print(HEAD
                 "lists: {allow: {u: [x]}, block: {ip: [{value: 192.0.2.1, reason: "
                 "'a b', expires: 2030-01-01}], t: []}}\nrules:\n- {name: a, key: "
                 "[ip], limit: {requests: 1, per: 1s}}\n",
                 HEAD "rules:\n  - name: a\n    key: [ip]\n" LIMIT
                      "lists:\n  block:\n    ip:\n      - { value: 192.0.2.1, reason: "
                      "\"a b\", expires: 2030-01-01 }\n  allow:\n    u:\n      - x\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual),    cmocka_unit_test(test_required),
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_costs),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
