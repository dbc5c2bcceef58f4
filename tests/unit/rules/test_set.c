#include <stdlib.h>

#include "rules/rules.h"

#include "tests/unit/rules/support.h"

static const char text[] =
    "version: 1\n"
    "domain: shop\n"
    "rules:\n"
    "- name: login\n"
    "  owner: identity\n"
    "  match: {path: [/v1/auth/login, '/v2/*/login'], ip: ['192.0.2.1'], plan: [a, b]}\n"
    "  key: [ip, user]\n"
    "  limit: {requests: 10, per: 60s}\n"
    "- name: all\n"
    "  key: []\n"
    "  limit: {requests: 100, per: 1s, burst: 50}\n"
    "- name: seen\n"
    "  key: [user]\n"
    "  limit: {requests: 100, per: 31d, algorithm: token_bucket}\n"
    "  mode: shadow\n"
    "- name: quiet\n"
    "  key: [user]\n"
    "  limit: {requests: 100, per: 1s}\n"
    "  advertise: false\n";

/* The allocation with this number fails; -1: none. */
static long fail_at = -1;
static long n_allocations;

void *__real_malloc(size_t size); /* NOLINT */
void *__wrap_malloc(size_t size); /* NOLINT */

void *__wrap_malloc(size_t size) /* NOLINT */
{
    return n_allocations++ == fail_at ? NULL : __real_malloc(size);
}

static void test_set(void **state)
{
    struct rules_set *set = load_good(text);
    const struct rules_rule *rule;

    (void)state;
    assert_string_equal(rules_set_name(set), "test.yaml");
    assert_string_equal(rules_set_domain(set), "shop");
    assert_int_equal(rules_set_n_rules(set), 4);
    assert_int_equal(rules_set_n_limits(set), 4);
    assert_int_equal(rules_set_slot(set, bytes_of("ip")), 0);
    assert_true(rules_set_slot(set, bytes_of("path")) > 0);
    assert_int_equal(rules_set_slot(set, bytes_of("host")), -1);
    assert_int_equal(rules_set_slot(set, bytes_of("")), -1);

    rule = rules_set_rule(set, 0);
    assert_string_equal(rule->name, "login");
    assert_string_equal(rule->owner, "identity");
    assert_true(rule->is_keyed && rule->is_advertised && rule->mode == RULES_ENFORCE);
    assert_int_equal(rule->n_limits, 1);
    assert_string_equal(rule->limits->name, "login");
    assert_int_equal(rule->limits->algorithm, RULES_SLIDING_WINDOW);
    assert_int_equal(rule->limits->requests, 10);
    assert_int_equal(rule->limits->burst, 10);
    assert_int_equal(rule->limits->per_us, 60000000);
    assert_int_equal(rule->limits->tick_us, 100);
    assert_int_equal(rule->limits->per_ticks, 600000);

    rule = rules_set_rule(set, 1);
    assert_null(rule->owner);
    assert_false(rule->is_keyed || rule->is_advertised);
    assert_int_equal(rule->limits->algorithm, RULES_TOKEN_BUCKET);
    assert_int_equal(rule->limits->burst, 50);
    assert_int_equal(rule->limits->idx, 1);

    rule = rules_set_rule(set, 2);
    assert_int_equal(rule->mode, RULES_SHADOW);
    assert_false(rule->is_advertised);
    assert_int_equal(rule->limits->burst, 100);
    assert_int_equal(rule->limits->per_ticks, 267840);
    assert_false(rules_set_rule(set, 3)->is_advertised);
    rules_set_free(set);
    rules_set_free(NULL);
}

#define ONE(domain, name, key, limit, more)                                \
    "version: 1\ndomain: " domain "\nrules:\n- {name: " name ", key: " key \
    ", limit: {" limit "}" more "}\n"

static void id_get(const char *yaml, uint8_t id[RULES_LIMIT_ID_BYTES])
{
    struct rules_set *set = load_good(yaml);

    memcpy(id, rules_set_rule(set, 0)->limits->id, RULES_LIMIT_ID_BYTES);
    rules_set_free(set);
}

static void test_ids(void **state)
{
    static const char *const same[] = {
        ONE("d", "r", "[ip]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[ip]", "requests: 9, per: 1m", ", mode: shadow"),
        ONE("d", "r", "[ip]", "per: 60000ms, requests: 5", ", match: {a: b}, owner: x"),
    };
    static const char *const other[] = {
        ONE("e", "r", "[ip]", "requests: 5, per: 60s", ""),
        ONE("d", "s", "[ip]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[ipx]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[ip, x]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[i, px]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[]", "requests: 5, per: 60s", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: 61s", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: 60s, burst: 5", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: 60s, algorithm: fixed_window", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: 60s, algorithm: leaky_bucket", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: minute", ""),
        ONE("d", "r", "[ip]", "requests: 5, per: minute, timezone: Europe/Berlin", ""),
    };
    uint8_t first[RULES_LIMIT_ID_BYTES];
    uint8_t id[RULES_LIMIT_ID_BYTES];

    (void)state;
    id_get(same[0], first);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        id_get(same[i], id);
        assert_memory_equal(first, id, sizeof id);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        id_get(other[i], id);
        assert_memory_not_equal(first, id, sizeof id);
    }
}

/** Wherever memory runs out, loading ends with a diagnostic and leaves nothing behind. */
static void test_out_of_memory(void **state)
{
    static struct rules_diags diags;
    struct rules_set *set = NULL;

    (void)state;
    for (long i = 0; set == NULL; i++) {
        fail_at = i;
        n_allocations = 0;
        rules_diags_init(&diags, "t");
        set = rules_load(&(struct rules_source){.name = "t", .text = bytes_of(text)},
                         &diags);
        fail_at = -1;
        if (set == NULL) {
            assert_true(diags.n_errors >= 1);
            assert_string_equal(diags.kept[0].code, "out-of-memory");
        }
    }
    assert_true(n_allocations > 2);
    rules_set_free(set);
}

/** What a rule does not say, `defaults` says, wherever it stands. */
static void test_defaults(void **state)
{
    struct rules_set *set = load_good(
        "version: 1\ndomain: d\nrules:\n"
        "- {name: a, key: [ip], limit: {requests: 1, per: 1s}}\n"
        "- {name: b, key: [ip], limit: {requests: 1, per: 1s}, mode: enforce, owner: me}\n"
        "defaults: {mode: shadow, owner: team}\n");

    (void)state;
    assert_string_equal(rules_set_rule(set, 0)->owner, "team");
    assert_int_equal(rules_set_rule(set, 0)->mode, RULES_SHADOW);
    assert_string_equal(rules_set_rule(set, 1)->owner, "me");
    assert_int_equal(rules_set_rule(set, 1)->mode, RULES_ENFORCE);
    rules_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
