#include <stdlib.h>

#include "tests/unit/rules/support.h"

#define HEAD  "version: 1\ndomain: d\nrules:\n"
#define LIMIT "limit: {requests: 5, per: 1s}"

static const char rules[] = HEAD
    "- {name: login, match: {method: POST, path: /v1/auth/login}, key: [ip], " LIMIT
    "}\n"
    "- {name: wild, match: {path: ['/v1/*/login', '/v1/**']}, key: [user], " LIMIT "}\n"
    "- {name: denied, match: {status: [401, 403]}, key: [tenant, user], " LIMIT "}\n"
    "- {name: host, match: {src: 192.0.2.9}, key: [src], " LIMIT "}\n"
    "- {name: home, match: {ip: ['::1', 192.0.2.7]}, key: [ip], " LIMIT "}\n"
    "- {name: all, key: [], " LIMIT "}\n"
    "- {name: by_path, match: {user: jo}, key: [path], " LIMIT "}\n"
    "- {name: route, match: {route: 'api/**'}, key: [route], " LIMIT "}\n";

static struct rules_result result;
static struct rules_request request;
static struct rules_set *set;

static int setup(void **state)
{
    (void)state;
    set = load_good(rules);
    memset(&request, 0, sizeof request);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rules_set_free(set);
    return 0;
}

/** The names of the rules that apply are `want`, separated by spaces. */
static void expect(const char *want)
{
    char got[512] = "";

    memset(&result, 0xee, sizeof result);
    rules_eval(set, &request, &result);
    for (uint32_t i = 0; i < result.n_hits; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, result.hits[i].rule->name);
    }
    assert_string_equal(got, want);
}

static void expect_key(uint32_t hit, const char *key, size_t len)
{
    assert_int_equal(result.hits[hit].key.len, len);
    assert_memory_equal(result.hits[hit].key.ptr, key, len);
}

#define EXPECT_KEY(hit, key) expect_key(hit, key, sizeof(key) - 1)

static void test_nothing_sent(void **state)
{
    (void)state;
    expect("all");
    assert_int_equal(result.hits[0].key.len, 0);
    assert_int_equal(result.n_matched, 1);
    assert_int_equal(result.n_skipped_no_key, 0);
    assert_false(result.is_cut);
    assert_false(result.is_path_as_it_stands);
}

static void test_path(void **state)
{
    (void)state;
    request_set(set, &request, "ip", RULES_ADDRESS, "\xc0\x00\x02\x01", 4);
    request_text(set, &request, "method", "POST");
    request_text(set, &request, "path", "//v1/auth/%6cogin/?x");
    request_text(set, &request, "user", "jo");
    expect("login wild all by_path");
    EXPECT_KEY(0, "\x02ip\x03\x04\xc0\x00\x02\x01");
    EXPECT_KEY(1, "\x04user\x01\x02jo");
    EXPECT_KEY(3, "\x04path\x01\x0e/v1/auth/login");
    assert_memory_equal(result.path, "/v1/auth/login", 14);
    assert_int_equal(result.n_matched, 4);
    request_text(set, &request, "method", "GET");
    expect("wild all by_path");
}

static void test_path_as_it_stands(void **state)
{
    (void)state;
    request_set(set, &request, "ip", RULES_ADDRESS, "\xc0\x00\x02\x01", 4);
    request_text(set, &request, "path", "/v1//%zz");
    request_text(set, &request, "user", "jo");
    expect("wild all by_path");
    assert_true(result.is_path_as_it_stands);
    EXPECT_KEY(2, "\x04path\x01\x08/v1//%zz");
}

static void test_missing_parts(void **state)
{
    (void)state;
    request_text(set, &request, "status", "403");
    expect("all");
    assert_int_equal(result.n_matched, 2);
    assert_int_equal(result.n_skipped_no_key, 1);
    request_text(set, &request, "ip", "not an address");
    expect("all");
    assert_int_equal(result.n_skipped_no_key, 1);
    request_text(set, &request, "ip", "[::ffff:192.0.2.1]:80");
    request_text(set, &request, "user", "");
    request_text(set, &request, "tenant", "t");
    expect("denied all");
    assert_true(result.hits[0].is_address_standing_in);
    EXPECT_KEY(0, "\x06tenant\x01\x01t\x04user\x05\x04\xc0\x00\x02\x01");
    request_text(set, &request, "user", "u");
    expect("denied all");
    assert_false(result.hits[0].is_address_standing_in);
    request_text(set, &request, "status", "40");
    expect("all");
}

static void test_addresses(void **state)
{
    static const uint8_t local[16] = {[15] = 1};
    static const uint8_t mapped[16] = {[10] = 255, 255, 192, 0, 2, 9};

    (void)state;
    request_set(set, &request, "src", RULES_ADDRESS, mapped, 16);
    expect("host all");
    EXPECT_KEY(0, "\x03src\x03\x04\xc0\x00\x02\x09");
    request_text(set, &request, "src", "192.0.2.9");
    expect("host all");
    EXPECT_KEY(0, "\x03src\x01\x09"
                  "192.0.2.9");
    request_text(set, &request, "src", "::ffff:192.0.2.9");
    expect("all");
    request_set(set, &request, "src", RULES_ADDRESS, mapped, 5);
    expect("all");
    request_set(set, &request, "ip", RULES_ADDRESS, local, 16);
    expect("home all");
    EXPECT_KEY(0, "\x02ip\x04\x08\0\0\0\0\0\0\0\0");
    request_text(set, &request, "ip", "192.0.2.7:443");
    expect("home all");
}

static void test_route(void **state)
{
    (void)state;
    request_text(set, &request, "route", "api");
    expect("all route");
    request_text(set, &request, "route", "api/x?y");
    expect("all route");
    request_text(set, &request, "route", "/api");
    expect("all");
}

static void reload(const char *text)
{
    rules_set_free(set);
    set = load_good(text);
    memset(&request, 0, sizeof request);
}

static void test_prefixes(void **state)
{
    (void)state;
    reload(HEAD
           "- {name: one, match: {app: [shop*, shop-a*, shop-admin]}, key: [], " LIMIT
           "}\n"
           "- {name: two, match: {app: shop-*, method: GET}, key: [], " LIMIT "}\n");
    request_text(set, &request, "method", "GET");
    request_text(set, &request, "app", "sho");
    expect("");
    request_text(set, &request, "app", "shop");
    expect("one");
    request_text(set, &request, "app", "shop-admin");
    expect("one two");
    assert_int_equal(result.n_matched, 2);
}

static void test_networks(void **state)
{
    static const uint8_t mapped[16] = {[10] = 255, 255, 10, 9, 8, 7};

    (void)state;
    reload(
        HEAD
        "- {name: ten, match: {ip: [10.0.0.0/8, 10.9.0.0/16, 10.9.8.7]}, key: [], " LIMIT
        "}\n"
        "- {name: six, match: {ip: '2001:db8::/33'}, key: [], " LIMIT "}\n"
        "- {name: src, match: {src: 10.9.8.0/22}, key: [], " LIMIT "}\n"
        "- {name: odd, match: {ip: 10.9.8.6/31, m: {not: x}}, key: [], " LIMIT "}\n");
    request_set(set, &request, "ip", RULES_ADDRESS, mapped, 16);
    request_text(set, &request, "src", "10.9.11.255");
    expect("ten src odd");
    assert_int_equal(result.n_matched, 3);
    request_text(set, &request, "ip", "2001:db8:7fff::1");
    request_text(set, &request, "src", "10.9.12.0");
    expect("six");
    request_text(set, &request, "ip", "2001:db8:8000::1");
    request_text(set, &request, "src", "no address");
    expect("");
}

static void test_presence(void **state)
{
    (void)state;
    reload(HEAD "- {name: there, match: {user: present}, key: [], " LIMIT "}\n"
                "- {name: gone, match: {user: absent}, key: [], " LIMIT "}\n"
                "- {name: other, match: {user: {not: [jo, an*]}}, key: [], " LIMIT "}\n"
                "- {name: word, match: {user: 'absent'}, key: [], " LIMIT "}\n"
                "- {name: safe, match: {path: {not: '/admin/**'}}, key: [], " LIMIT
                "}\n");
    expect("gone other safe");
    request_text(set, &request, "user", "");
    request_text(set, &request, "path", "/admin/x");
    expect("gone other");
    request_text(set, &request, "user", "jo");
    expect("there");
    request_text(set, &request, "user", "anna");
    expect("there");
    request_text(set, &request, "user", "absent");
    expect("there other word");
}

static void test_chains(void **state)
{
    (void)state;
    reload(HEAD "- {name: who, key: [api_key | user | ip], " LIMIT "}\n"
                "- {name: two, key: [tenant, api_key | user], " LIMIT "}\n"
                "- {name: strict, key: [api_key | user], no_key: skip, " LIMIT "}\n");
    request_set(set, &request, "ip", RULES_ADDRESS, "\xc0\x00\x02\x01", 4);
    expect("who two");
    assert_int_equal(result.n_matched, 3);
    assert_int_equal(result.n_skipped_no_key, 1);
    assert_false(result.hits[0].is_address_standing_in);
    EXPECT_KEY(0, "\x02ip\x03\x04\xc0\x00\x02\x01");
    assert_true(result.hits[1].is_address_standing_in);
    EXPECT_KEY(1, "\x06tenant\x05\x04\xc0\x00\x02\x01\x07"
                  "api_key\x05\x04\xc0\x00\x02\x01");
    request_text(set, &request, "user", "jo");
    expect("who two strict");
    EXPECT_KEY(0, "\x04user\x01\x02jo");
    request_text(set, &request, "api_key", "k1");
    expect("who two strict");
    EXPECT_KEY(2, "\x07"
                  "api_key\x01\x02k1");
}

static void test_ip_prefix(void **state)
{
    (void)state;
    reload(HEAD "- {name: wide, key: [ip, user], ip_prefix: {v4: 20, v6: 48}, " LIMIT
                "}\n");
    request_text(set, &request, "ip", "192.0.47.9");
    expect("wide");
    EXPECT_KEY(0, "\x02ip\x03\x03\xc0\x00\x20\x04user\x05\x03\xc0\x00\x20");
    request_text(set, &request, "ip", "2001:db8:1:2::9");
    expect("wide");
    EXPECT_KEY(0, "\x02ip\x04\x06\x20\x01\x0d\xb8\x00\x01\x04user\x06\x06\x20\x01"
                  "\x0d\xb8\x00\x01");
}

static void expect_cost(const char *rows, int64_t cost)
{
    if (rows != NULL) {
        request_text(set, &request, "rows", rows);
    }
    expect("c");
    assert_int_equal(result.hits[0].cost, cost);
}

static void test_costs(void **state)
{
    (void)state;
    reload(HEAD "- {name: c, key: [], " LIMIT ", costs: ["
                "{match: {path: '/v1/reports/**', method: POST}, cost: 20}, "
                "{match: {path: [/v1/status, '/v1/reports/**']}, cost: 0}, "
                "{match: {tenant: absent}, cost: 3}]}\n");
    expect_cost(NULL, 3);
    request_text(set, &request, "tenant", "t");
    expect_cost(NULL, 1);
    request_text(set, &request, "path", "/v1/reports/a");
    expect_cost(NULL, 0);
    request_text(set, &request, "method", "POST");
    expect_cost(NULL, 20);
}

/** What is taken at the request, and what it should have been by the response. */
static void expect_settled(int64_t taken, bool is_possible, int64_t truth)
{
    struct rules_hit hit;

    expect("c");
    assert_int_equal(result.hits[0].cost, taken);
    assert_true(result.hits[0].rule->is_settled);
    assert_int_equal(rules_settle(set, &request, result.hits[0].rule, 9, &result, &hit),
                     is_possible);
    if (is_possible) {
        assert_int_equal(hit.cost, truth);
    }
}

static void test_charge_when(void **state)
{
    (void)state;
    reload(HEAD "- {name: c, key: [], " LIMIT
                ", cost: 3, charge: {after: response, when: {status: [401, 4xx*], "
                "path: '/v1/*'}}}\n");
    expect_settled(3, true, 0);
    request_text(set, &request, "status", "401");
    expect_settled(3, true, 0);
    request_text(set, &request, "path", "//v1/a");
    expect_settled(3, true, 9); /* as it was taken, whatever it costs now */
    request_text(set, &request, "status", "200");
    expect_settled(3, true, 0);
}

static void test_charge_reserve(void **state)
{
    (void)state;
    reload(HEAD "- {name: c, key: [], " LIMIT
                ", cost: 3, charge: {after: response, reserve: 20}}\n");
    expect_settled(20, true, 3);
    reload(HEAD "- {name: c, key: [], " LIMIT ", cost: {from: rows, min: 2, max: 500}, "
                "charge: {after: response, reserve: 20}}\n");
    expect_settled(20, true, 2);
    assert_int_equal(result.n_costs_raised, 1);
    request_text(set, &request, "rows", "77");
    expect_settled(20, true, 77);
    assert_int_equal(result.n_costs_raised, 0);
    request_text(set, &request, "rows", "501");
    expect_settled(20, true, 500);
    assert_int_equal(result.n_costs_lowered, 1);
    reload(HEAD "- {name: c, key: [], " LIMIT ", cost: {from: rows, min: 2, max: 500}, "
                "charge: {after: response}}\n");
    expect_settled(2, true, 2);
    request_text(set, &request, "rows", "77");
    expect_settled(77, true, 77);
}

static void test_charge_costs_stay(void **state)
{
    (void)state;
    reload(HEAD "- {name: c, key: [], " LIMIT
                ", costs: [{match: {path: /a}, cost: 20}], "
                "charge: {after: response, when: {status: 500}}}\n");
    request_text(set, &request, "path", "/a");
    request_text(set, &request, "status", "500");
    expect_settled(20, true, 9);
}

static void test_charge_key_and_plan(void **state)
{
    struct rules_hit hit;
    const struct rules_rule *rule;

    (void)state;
    reload(HEAD "- {name: c, match: {path: /a}, key: [user], no_key: skip, " LIMIT
                ", plans: {big: 10x, all: unlimited}, "
                "charge: {after: response, when: {status: 500}}}\n"
                "- {name: d, key: [], " LIMIT "}\n");
    rule = rules_set_rule(set, 0);
    assert_false(rules_settle(set, &request, rule, 1, &result, &hit));
    request_text(set, &request, "user", "u");
    assert_true(rules_settle(set, &request, rule, 1, &result, &hit)); /* match or not */
    assert_int_equal(hit.key.len, 8);
    assert_memory_equal(hit.key.ptr, "\x04user\x01\x01u", 8);
    assert_ptr_equal(hit.limits, rule->limits);
    request_text(set, &request, "plan", "all"); /* it had none when it was charged */
    assert_true(rules_settle(set, &request, rule, 1, &result, &hit));
    assert_ptr_equal(hit.limits, rule->limits);
    request_text(set, &request, "plan", "big");
    assert_true(rules_settle(set, &request, rule, 1, &result, &hit));
    assert_int_equal(hit.limits->requests, 10 * rule->limits->requests);
    assert_ptr_equal(rules_set_find_settled(set, rule->limits->id), rule->limits);
    assert_null(rules_set_find_settled(set, rules_set_rule(set, 1)->limits->id));
}

static void test_cost_from(void **state)
{
    (void)state;
    reload(HEAD "- {name: c, key: [], " LIMIT
                ", cost: {from: rows, min: 2, max: 500}}\n");
    expect_cost(NULL, 2);
    assert_int_equal(result.n_costs_raised, 1);
    expect_cost("77", 77);
    expect_cost("500", 500);
    assert_int_equal(result.n_costs_raised, 0);
    assert_int_equal(result.n_costs_lowered, 0);
    expect_cost("501", 500);
    assert_int_equal(result.n_costs_lowered, 1);
    expect_cost("99999999999999999999999999", 500);
    assert_int_equal(result.n_costs_lowered, 1);
    expect_cost("1", 2);
    expect_cost("-7", 2);
    expect_cost("7 ", 2);
    assert_int_equal(result.n_costs_raised, 1);
    request_set(set, &request, "rows", RULES_ADDRESS, "\x00\x00\x00\x09", 4);
    expect_cost(NULL, 2);
    reload(HEAD "- {name: c, key: [], " LIMIT ", cost: 7}\n");
    expect_cost(NULL, 7);
}

/** Enforced for the share of its keys, and for the same ones in a larger share. */
static void test_percent(void **state)
{
    bool is_enforced[500];
    unsigned n = 0;

    (void)state;
    reload(HEAD "- {name: c, key: [user], mode: {enforce: 5%}, " LIMIT "}\n");
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 500; i++) {
            char user[16];

            (void)snprintf(user, sizeof user, "u%d", i);
            request_text(set, &request, "user", user);
            expect("c");
            assert_true(pass == 0 || !is_enforced[i] || !result.hits[0].is_shadow);
            is_enforced[i] = !result.hits[0].is_shadow;
            n += pass == 0 && is_enforced[i];
        }
        reload(HEAD "- {name: c, key: [user], mode: {enforce: 20%}, " LIMIT "}\n");
    }
    assert_true(n > 5 && n < 60);
    reload(HEAD "- {name: c, key: [user], mode: shadow, " LIMIT "}\n");
    request_text(set, &request, "user", "u1");
    expect("c");
    assert_true(result.hits[0].is_shadow);
}

/** A rule takes others out where it matches, has its key and is enforced itself. */
static void test_overrides(void **state)
{
    (void)state;
    reload(
        HEAD
        "- {name: base, key: [], " LIMIT "}\n"
        "- {name: mid, match: {a: present}, key: [], overrides: base, " LIMIT "}\n"
        "- {name: top, match: {tenant: acme}, key: [user], no_key: skip, "
        "overrides: mid, " LIMIT "}\n"
        "- {name: shy, match: {a: x}, key: [], overrides: [base, top], mode: shadow, " LIMIT
        "}\n");
    expect("base");
    request_text(set, &request, "a", "1");
    expect("mid");
    request_text(set, &request, "tenant", "acme");
    expect("mid"); /* top has no key */
    request_text(set, &request, "user", "jo");
    expect("top"); /* what is overridden still overrides */
    assert_int_equal(result.n_overridden, 2);
    assert_int_equal(result.n_matched, 3);
    request_text(set, &request, "a", "x");
    expect("top shy");
}

static void test_percent_overrides(void **state)
{
    unsigned n_both = 0;

    (void)state;
    reload(HEAD
           "- {name: old, key: [user], " LIMIT "}\n"
           "- {name: new, key: [user], overrides: old, mode: {enforce: 50%}, " LIMIT
           "}\n");
    for (int i = 0; i < 200; i++) {
        char user[16];

        (void)snprintf(user, sizeof user, "u%d", i);
        request_text(set, &request, "user", user);
        memset(&result, 0xee, sizeof result);
        rules_eval(set, &request, &result);
        assert_int_equal(result.n_hits == 2, result.hits[result.n_hits - 1].is_shadow);
        n_both += result.n_hits == 2;
    }
    assert_true(n_both > 50 && n_both < 150);
}

static void expect_listed(enum rules_listed listed)
{
    rules_eval(set, &request, &result);
    assert_int_equal(result.listed, listed);
}

static void test_lists(void **state)
{
    (void)state;
    reload(HEAD "- {name: r, match: {api_key: k_stolen}, key: [], " LIMIT "}\n"
                "lists:\n"
                "  block: {ip: [203.0.113.0/24], api_key: [{value: k_stolen, reason: "
                "leaked}]}\n"
                "  allow: {ip: [203.0.113.7, 10.0.0.0/8], path: ['/health/**']}\n");
    expect_listed(RULES_UNLISTED);
    request_text(set, &request, "ip", "203.0.112.255");
    expect_listed(RULES_UNLISTED);
    request_text(set, &request, "ip", "203.0.113.7");
    expect_listed(RULES_BLOCKED);
    request_text(set, &request, "ip", "10.1.2.3");
    expect_listed(RULES_ALLOWED);
    request_text(set, &request, "api_key", "k_stolen");
    expect_listed(RULES_BLOCKED);
    assert_int_equal(result.n_matched, 1);
    request_text(set, &request, "api_key", "k_other");
    expect_listed(RULES_ALLOWED);
    request_text(set, &request, "ip", "192.0.2.1");
    request_text(set, &request, "path", "//health/./live");
    expect_listed(RULES_ALLOWED);
}

/** A missing key refuses where the rule is enforced and not overridden. */
static void test_keyless(void **state)
{
    (void)state;
    reload(HEAD
           "- {name: shy, key: [user], no_key: reject, mode: shadow, " LIMIT "}\n"
           "- {name: strict, key: [api_key], no_key: reject, " LIMIT "}\n"
           "- {name: open, match: {path: /public}, key: [ip], overrides: strict, " LIMIT
           "}\n"
           "- {name: deaf, match: {path: /public}, key: [user], no_key: reject, "
           "mode: shadow, overrides: open, " LIMIT "}\n");
    request_text(set, &request, "ip", "192.0.2.1");
    rules_eval(set, &request, &result);
    assert_string_equal(result.keyless->name, "strict");
    assert_int_equal(result.n_hits, 0);
    assert_int_equal(result.n_skipped_no_key, 2);
    request_text(set, &request, "path", "/public");
    expect("open");
    assert_null(result.keyless);
    request_text(set, &request, "api_key", "k");
    request_text(set, &request, "path", "/");
    expect("strict");
    assert_null(result.keyless);
}

static void expect_plan(const char *plan, int64_t requests, int64_t burst)
{
    request_text(set, &request, "plan", plan);
    expect("p");
    assert_int_equal(result.hits[0].n_limits, 2);
    assert_int_equal(result.hits[0].limits[1].requests, requests);
    assert_int_equal(result.hits[0].limits[1].burst, burst);
    assert_int_equal(result.hits[0].limits[1].base_idx, 2);
    assert_memory_equal(result.hits[0].limits[1].id, rules_set_limit(set, 2)->id,
                        RULES_LIMIT_ID_BYTES);
}

/** A plan changes numbers and nothing else; one that is unknown changes nothing. */
static void test_plans(void **state)
{
    (void)state;
    reload(HEAD
           "- {name: a, match: {never: x}, key: [], " LIMIT "}\n"
           "- {name: p, key: [], limits: [{name: s, requests: 5, per: 1s}, "
           "{name: b, requests: 100, per: 10s, burst: 150}], plans: {partner: 10x, "
           "half: 0.5x, free: {b: 30}, inside: unlimited, slow: {s: 1}}}\n");
    expect_plan("", 100, 150);
    expect_plan("unknown", 100, 150);
    expect_plan("partner", 1000, 1500);
    assert_int_equal(result.hits[0].limits[0].requests, 50);
    expect_plan("half", 50, 75);
    assert_int_equal(result.hits[0].limits[0].requests, 2);
    expect_plan("free", 30, 45);
    assert_int_equal(result.hits[0].limits[0].requests, 5);
    expect_plan("slow", 100, 150);
    request_text(set, &request, "plan", "inside");
    expect("");
    assert_int_equal(result.n_matched, 1);
    assert_int_equal(result.n_unlimited, 1);
    assert_int_equal(rules_set_n_limits(set), 3);
    assert_int_equal(rules_set_n_variants(set), 3 + 4 * 2);
    for (uint32_t i = 0; i < rules_set_n_variants(set); i++) {
        assert_int_equal(rules_set_limit(set, i)->idx, i);
    }
}

static void reload_at(const char *text, int64_t now_s)
{
    static struct rules_diags diags;
    struct rules_source source = {.name = "test",
                                  .text = bytes_of(text),
                                  .now_s = now_s};

    rules_set_free(set);
    rules_diags_init(&diags, "test");
    set = rules_load(&source, &diags);
    assert_non_null(set);
}

/** What has ended matches nothing, and overrides nothing. */
static void test_endings(void **state)
{
    static const char text[] = HEAD
        "- {name: a, key: [], " LIMIT "}\n"
        "- {name: b, match: {ip: present}, key: [], overrides: a, expires: "
        "'1970-01-01T00:01:00Z', " LIMIT "}\n"
        "- {name: c, key: [], expires: '1970-01-01T00:02:00Z', " LIMIT "}\n"
        "lists: {block: {ip: [{value: 10.0.0.0/8, expires: '1970-01-01T00:01:30Z'}], "
        "k: [x, {value: y, expires: '1970-01-01T00:01:00Z'}]}}\n";
    static const struct {
        int64_t now_s;
        int64_t changes_at_s;
        uint32_t n_expired;
        const char *hits;
        enum rules_listed ip;
        enum rules_listed k;
    } moments[] = {
        {0, 60, 0, "b c", RULES_BLOCKED, RULES_BLOCKED},
        {59, 60, 0, "b c", RULES_BLOCKED, RULES_BLOCKED},
        {60, 90, 1, "a c", RULES_BLOCKED, RULES_UNLISTED},
        {90, 120, 1, "a c", RULES_UNLISTED, RULES_UNLISTED},
        {120, INT64_MAX, 2, "a", RULES_UNLISTED, RULES_UNLISTED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        reload_at(text, moments[i].now_s);
        assert_int_equal(rules_set_changes_at_s(set), moments[i].changes_at_s);
        assert_int_equal(rules_set_n_expired(set), moments[i].n_expired);
        memset(&request, 0, sizeof request);
        request_text(set, &request, "ip", "10.1.2.3");
        expect(moments[i].hits);
        assert_int_equal(result.listed, moments[i].ip);
        request_text(set, &request, "ip", "192.0.2.1");
        request_text(set, &request, "k", "y");
        expect_listed(moments[i].k);
        request_text(set, &request, "k", "x");
        expect_listed(RULES_BLOCKED);
    }
}

/** What names a counter: another key, chain or prefix starts a new one. */
static void test_limit_ids(void **state)
{
    static const char *const keys[] = {
        "key: [a, b]",  "key: [b, a]",
        "key: [a | b]", "key: [a]",
        "key: []",      "key: [a], ip_prefix: {v4: 24}",
        "key: [b | a]", "key: [a], ip_prefix: {v6: 56}",
    };
    uint8_t ids[sizeof keys / sizeof keys[0]][RULES_LIMIT_ID_BYTES];
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        (void)snprintf(text, sizeof text, HEAD "- {name: r, " LIMIT ", %s}\n", keys[i]);
        reload(text);
        memcpy(ids[i], rules_set_rule(set, 0)->limits[0].id, RULES_LIMIT_ID_BYTES);
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(ids[i], ids[j], RULES_LIMIT_ID_BYTES);
        }
    }
    reload(HEAD "- {name: r, " LIMIT
                ", key: [a], ip_prefix: {v4: 32}, no_key: skip}\n");
    assert_memory_equal(rules_set_rule(set, 0)->limits[0].id, ids[3],
                        RULES_LIMIT_ID_BYTES);
}

/** Longest values in all parts of a key still fit. */
static void test_longest_key(void **state)
{
    static char text[1024];
    static char value[4096];
    size_t len = (size_t)snprintf(text, sizeof text,
                                  HEAD "- {name: a, " LIMIT ", key: [");

    (void)state;
    rules_set_free(set);
    for (int i = 0; i < RULES_KEY_PARTS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c%063d",
                                i > 0 ? ", " : "", 'a' + i, 0);
    }
    (void)snprintf(text + len, sizeof text - len, "]}\n");
    set = load_good(text);
    memset(value, 'v', sizeof value);
    for (int i = 0; i < RULES_SLOTS_MAX; i++) {
        request.values[i] = (struct rules_value){RULES_TEXT,
                                                 {(const uint8_t *)value,
                                                  sizeof value}};
    }
    expect("a");
    assert_int_equal(result.hits[0].key.len, 6 * (1 + 64 + 2 + 96));
}

/** More limits than fit: the first ones in file order, wherever they are filed. */
static void test_cut(void **state)
{
    char *text = malloc(1 << 16);
    size_t len;

    (void)state;
    assert_non_null(text);
    rules_set_free(set);
    len = (size_t)snprintf(text, 1 << 16, HEAD);
    for (int i = 0; i < 40; i++) {
        static const char *const matches[] = {"", "match: {a: x}, ",
                                              "match: {path: '/**'}, ",
                                              "match: {b: y}, "};

        len += (size_t)snprintf(text + len, (1 << 16) - len,
                                "- {name: r%02d, %skey: [], " LIMIT "}\n", i,
                                matches[(i * 7 + 2) % 4]);
    }
    set = load_good(text);
    free(text);
    request_text(set, &request, "a", "x");
    request_text(set, &request, "b", "y");
    request_text(set, &request, "path", "/p");
    expect("r00 r01 r02 r03 r04 r05 r06 r07 r08 r09 r10 r11 r12 r13 r14 r15");
    assert_true(result.is_cut);
    assert_int_equal(result.n_matched, 40);
}

/** A rule behind those that fit still refuses a request without its key. */
static void test_keyless_behind_the_cut(void **state)
{
    static char text[4096];
    size_t len = (size_t)snprintf(text, sizeof text, HEAD);

    (void)state;
    for (int i = 0; i < RULES_HITS_MAX + 1; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "- {name: r%d, key: [], " LIMIT "}\n", i);
    }
    (void)snprintf(text + len, sizeof text - len,
                   "- {name: strict, key: [user], no_key: reject, " LIMIT "}\n");
    reload(text);
    rules_eval(set, &request, &result);
    assert_int_equal(result.n_hits, RULES_HITS_MAX);
    assert_true(result.is_cut);
    assert_non_null(result.keyless);
    assert_string_equal(result.keyless->name, "strict");
}

/** A rule of several limits is cut where the room ends. */
static void test_cut_inside_a_rule(void **state)
{
    static char text[4096];
    size_t len = (size_t)snprintf(text, sizeof text, HEAD);

    (void)state;
    for (int i = 0; i < 7; i++) {
        len += (size_t)
            snprintf(text + len, sizeof text - len,
                     "- {name: r%d, key: [], limits: [{name: a, requests: 1, "
                     "per: 1s}, {name: b, requests: 1, per: 2s}, "
                     "{name: c, requests: 1, per: 3s}]}\n",
                     i);
    }
    reload(text);
    expect("r0 r1 r2 r3 r4 r5");
    assert_true(result.is_cut);
    assert_int_equal(result.hits[4].n_limits, 3);
    assert_int_equal(result.hits[5].n_limits, 1);
    assert_string_equal(result.hits[5].rule->limits[0].name, "r5.a");
    assert_int_equal(result.hits[5].rule->limits[0].idx, 15);
    assert_memory_not_equal(result.hits[5].rule->limits[0].id,
                            result.hits[5].rule->limits[1].id, RULES_LIMIT_ID_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path_as_it_stands, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_route, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prefixes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_networks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_presence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chains, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ip_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_costs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cost_from, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charge_when, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charge_reserve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charge_costs_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_charge_key_and_plan, setup, teardown),
        cmocka_unit_test_setup_teardown(test_percent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overrides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_percent_overrides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keyless, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longest_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keyless_behind_the_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_inside_a_rule, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
