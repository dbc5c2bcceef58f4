#include "rules/code.h"
#include "rules/warn.h"

#include "tests/unit/rules/support.h"

/* 2026-11-30T12:00:00Z */
#define NOW_S INT64_C(1796040000)

static struct rules_diags diags;
static bool is_seen[RULES_WARNINGS_COUNT];
static bool is_cluster;
static int32_t lease_permyriad = 500;

static void codes_note(void)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        for (size_t j = 0; j < RULES_WARNINGS_COUNT; j++) {
            is_seen[j] |= strcmp(rules_warnings[j], diags.kept[i].code) == 0;
        }
    }
}

/* The warnings about a text, behind two lines that begin it: line:code and a space each. */
static const char *warned(const char *text, int64_t n_hosts)
{
    static char all[16384];
    static char out[4096];
    struct rules_warn_place place = {.now_s = NOW_S,
                                     .n_hosts = n_hosts,
                                     .is_cluster = is_cluster,
                                     .lease_permyriad = lease_permyriad,
                                     .sync_interval_us = 100000};
    struct rules_file *file;
    size_t n = 0;

    (void)snprintf(all, sizeof all, "version: 1\ndomain: d\n%s", text);
    rules_diags_init(&diags, "test.yaml");
    file = rules_file_read(&(struct rules_source){.name = "test.yaml",
                                                  .text = bytes_of(all)},
                           &diags);
    if (file == NULL) {
        rules_diags_print(&diags, stderr);
    }
    assert_non_null(file);
    rules_warn(file, &place, &diags);
    rules_file_free(file);
    codes_note();
    out[0] = '\0';
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        assert_int_equal(diags.kept[i].severity, RULES_WARNING);
        n += (size_t)snprintf(out + n, sizeof out - n, "%u:%s ",
                              diags.kept[i].mark.line, diags.kept[i].code);
    }
    return out;
}

/** One rule, with these fields beside name, key and limit. */
static const char *warned_rule(const char *fields)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "rules:\n- {name: a, key: [], limit: {requests: 10, per: 1s}, %s}\n",
                   fields);
    return warned(text, 1);
}

static const char *warned_limit(const char *limit)
{
    static char text[4096];

    (void)snprintf(text, sizeof text, "rules:\n- {name: a, key: [], limit: {%s}}\n",
                   limit);
    return warned(text, 1);
}

static void test_times(void **state)
{
    (void)state;
    assert_string_equal(warned_rule(""), "");
    assert_string_equal(warned_rule("expires: 2026-11-30T12:00:00Z"),
                        "4:already-ended ");
    assert_string_equal(warned_rule("expires: 2026-11-30T12:00:01Z"), "4:ends-soon ");
    assert_string_equal(diags.kept[0].text, "'a' ends within 1 days");
    assert_string_equal(warned_rule("expires: 2026-12-07T12:00:00Z"), "4:ends-soon ");
    assert_string_equal(diags.kept[0].text, "'a' ends within 7 days");
    assert_string_equal(warned_rule("expires: 2026-12-07T12:00:01Z"), "");
    assert_string_equal(warned_rule("review_by: 2026-11-30"), "4:review-overdue ");
    assert_string_equal(warned_rule("review_by: 2026-12-01"), "");
    /* One that has ended is of no more interest. */
    assert_string_equal(warned_rule("expires: 2026-01-01, plans: {p: unlimited}"),
                        "4:already-ended ");
}

static void test_ends(void **state)
{
    (void)state;
    assert_string_equal(warned_rule("plans: {p: unlimited, q: 20}"), "4:no-end ");
    assert_string_equal(warned_rule("plans: {p: unlimited}, review_by: 2027-01-01"),
                        "");
    assert_string_equal(warned_rule("plans: {p: unlimited}, expires: 2027-01-01"), "");
    assert_string_equal(
        warned("lists:\n"
               "  block:\n"
               "    tenant:\n"
               "    - {value: a, expires: 2027-01-01}\n"
               "    - b\n"
               "    - {value: c, expires: 2026-01-01}\n"
               "    - d\n"
               "  allow:\n"
               "    tenant: [x]\n"
               "rules:\n- {name: a, key: [], limit: {requests: 10, per: 1s}}\n",
               1),
        "7:no-end 8:already-ended 11:no-end ");
    assert_string_equal(diags.kept[0].text,
                        "2 entries of this list stand for ever: give each 'expires'");
    assert_string_equal(diags.kept[2].text,
                        "1 entry of this list stands for ever: give each 'expires'");
}

static void test_limits(void **state)
{
    (void)state;
    assert_string_equal(warned_limit("requests: 9, per: 1m"), "4:small-window ");
    assert_string_equal(warned_limit("requests: 10, per: 1m"), "");
    assert_string_equal(warned_limit("requests: 9, per: 1m, algorithm: sliding_log"),
                        "");
    assert_string_equal(warned_limit("requests: 9, per: 1m, burst: 2"), "");
    assert_string_equal(warned_rule("plans: {p: 5, q: 50, r: 0.5x}"),
                        "4:small-window 4:small-window ");
    assert_string_equal(warned_limit("requests: 1000, per: hour"), "");
    assert_string_equal(warned_limit("requests: 1000, per: day"),
                        "4:calendar-on-local ");
    assert_string_equal(warned_limit("requests: 1000, per: 1d"), "");
    assert_string_equal(
        warned("rules:\n- {name: a, key: [], limit: {requests: 10, per: 1s}}\n"
               "- {name: b, match: {a: x}, key: [], limit: {requests: 9, per: 2s, "
               "algorithm: fixed_window}}\n",
               3),
        "4:local-in-fleet 5:local-in-fleet ");
    assert_non_null(strstr(diags.kept[1].text, "3 hosts"));
    assert_non_null(strstr(diags.kept[1].text, "up to 27 through"));
}

/** Two rules that differ in key and fields. */
static const char *warned_keys(const char *first, const char *second)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "rules:\n- {name: a, limit: {requests: 10, per: 1s}, %s}\n"
                   "- {name: b, limit: {requests: 10, per: 2s}, %s}\n",
                   first, second);
    return warned(text, 1);
}

static void test_keys(void **state)
{
    (void)state;
    assert_string_equal(warned_keys("key: [ip]", "key: []"), "4:only-addresses ");
    assert_string_equal(warned_keys("key: []", "key: [ip, ip_country | ip]"), "");
    assert_string_equal(warned_keys("key: []", "key: []"), "");
    assert_string_equal(warned_keys("key: [country]", "key: [user_id]"),
                        "5:claimed-key ");
    assert_string_equal(warned_keys("key: [country]", "key: [ip, asn | api-keys]"),
                        "5:claimed-key ");
    assert_string_equal(warned_keys("key: [keyword]", "key: [superuser]"), "");
    assert_string_equal(warned_keys("key: [ip]", "key: [user], match: {auth: key}"),
                        "");
    assert_string_equal(warned_keys("key: [ip]",
                                    "key: [user], match: {auth: {not: anonymous}}"),
                        "5:claimed-key ");
    assert_string_equal(warned_keys("key: [ip]", "key: [user], match: {plan: free}"),
                        "");
    assert_string_equal(warned_keys("key: [ip]", "key: [user], advertise: false"), "");
    assert_string_equal(warned_keys("key: [ip]", "key: [user], mode: shadow"), "");
}

static void test_policies(void **state)
{
    (void)state;
    assert_string_equal(warned_rule("on_store_failure: closed"), "4:policy-unused ");
    assert_string_equal(warned_rule("on_store_failure: closed, store: redis"), "");
    assert_string_equal(warned_rule(
                            "on_store_failure: open, store: redis, match: {path: "
                            "/login}"),
                        "4:open-on-login ");
    assert_string_equal(
        warned(
            "rules:\n- {name: a, key: [], store: redis, limit: {requests: 10, per: day}}\n",
            3),
        "");
    assert_string_equal(warned_rule("on_store_failure: open, match: {path: /x/login}"),
                        "4:policy-unused 4:open-on-login ");
    assert_string_equal(
        warned_rule("on_store_failure: open, match: {route: [a, '/pay/Payments/**']}"),
        "4:policy-unused 4:open-on-login ");
    assert_string_equal(warned_rule(
                            "on_store_failure: open, match: {path: {not: /login}}"),
                        "4:policy-unused ");
    assert_string_equal(warned_rule(
                            "on_store_failure: open, match: {path: /hotpot/bloginfo}"),
                        "4:policy-unused ");
    assert_string_equal(warned_rule("on_store_failure: open, match: {page: login}"),
                        "4:policy-unused ");
    assert_string_equal(
        warned("defaults: {on_store_failure: closed}\n"
               "rules:\n- {name: a, key: [], limit: {requests: 10, per: 1s}}\n"
               "- {name: b, key: [], limit: {requests: 10, per: 2s}}\n",
               1),
        "3:policy-unused ");
}

/* One rule of a store, with these fields beside name and key. */
static const char *warned_store(const char *store, const char *fields, int64_t n_hosts)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "rules:\n- {name: a, key: [], store: %s,\n  %s}\n", store, fields);
    return warned(text, n_hosts);
}

static void test_sync(void **state)
{
    (void)state;
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: 4s}", 1), "");
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: 3s}", 1),
                        "5:store-overshoot ");
    assert_non_null(strstr(diags.kept[0].text, "each 100ms let 6% and more"));
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: 1ms}", 1),
                        "5:store-overshoot ");
    assert_non_null(strstr(diags.kept[0].text, "let 100% and more"));
    assert_string_equal(warned_store("redis", "limit: {requests: 100, per: 1s}", 9),
                        "");
    /* A request of each other host. */
    assert_string_equal(warned_store("sync", "limit: {requests: 60, per: 1h}", 4), "");
    assert_string_equal(warned_store("sync", "limit: {requests: 59, per: 1h}", 4),
                        "5:store-overshoot ");
    assert_string_equal(warned_store("sync", "limit: {requests: 1, per: 1h, burst: 60}",
                                     4),
                        "");
    assert_string_equal(warned_store("sync",
                                     "limit: {requests: 100, per: 1h}, review_by: "
                                     "2030-01-01, plans: {a: 59, b: unlimited}",
                                     4),
                        "5:store-overshoot ");
    assert_string_equal(warned_store("sync",
                                     "limit: {requests: 0, per: 1s}, expires: "
                                     "2030-01-01",
                                     4),
                        "");
}

static void test_long_windows(void **state)
{
    (void)state;
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: day}", 1),
                        "5:calendar-on-sync ");
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: hour}", 1),
                        "");
    assert_string_equal(warned_store("sync", "limit: {requests: 100, per: 7d}", 1), "");
    assert_string_equal(warned_store("redis", "limit: {requests: 100, per: day}", 1),
                        "");
}

static void test_lease(void **state)
{
    static const char rules[] =
        "defaults: {store: lease}\nrules:\n"
        "- {name: a, key: [], limit: {requests: 999, per: 1s}}\n"
        "- {name: b, key: [], limit: {requests: 999, per: 2s}}\n"
        "- {name: c, key: [], limit: {requests: 999, per: 3s},\n"
        "   store: lease}\n";

    (void)state;
    assert_string_equal(warned(rules, 3), "");
    lease_permyriad = 501;
    assert_string_equal(warned(rules, 3), "3:store-overshoot 8:store-overshoot ");
    assert_non_null(strstr(diags.kept[0].text, "hold 5.01% of"));
    lease_permyriad = 500;
}

static void test_overridden(void **state)
{
    (void)state;
    assert_string_equal(warned_keys("key: []", "key: [], overrides: a"),
                        "4:shadowed-rule ");
    assert_string_equal(warned_keys("key: []", "key: [], match: {x: y}, overrides: a"),
                        "");
    assert_string_equal(warned_keys("key: [], match: {x: y}", "key: [], overrides: a"),
                        "4:shadowed-rule ");
    assert_string_equal(warned_keys("key: []", "key: [], overrides: a, mode: shadow"),
                        "");
    assert_string_equal(warned_keys("key: []",
                                    "key: [t], overrides: a, mode: {enforce: 50%}"),
                        "");
    assert_string_equal(warned_keys("key: []", "key: [t], overrides: a"),
                        "4:shadowed-rule ");
    assert_string_equal(warned_keys("key: []", "key: [t], no_key: skip, overrides: a"),
                        "");
    /* When the other ends, this one begins to count. */
    assert_string_equal(warned_keys("key: []",
                                    "key: [], overrides: a, expires: 2027-06-01"),
                        "");
    assert_string_equal(warned_keys("key: [], expires: 2027-05-01",
                                    "key: [], overrides: a, expires: 2027-06-01"),
                        "4:shadowed-rule ");
}

/** Two rules with these limits; `fields` of the second. */
static const char *warned_pair(const char *first, const char *second,
                               const char *fields)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "rules:\n- {name: a, key: [t], limit: {%s}}\n"
                   "- {name: b, key: [t], limit: {%s}, %s}\n",
                   first, second, fields);
    return warned(text, 1);
}

static void test_stricter(void **state)
{
    const char *ten = "requests: 10, per: 1s";
    const char *twenty = "requests: 20, per: 1s";

    (void)state;
    assert_string_equal(warned_pair(ten, twenty, ""), "5:shadowed-rule ");
    assert_string_equal(warned_pair(ten, ten, ""), "5:shadowed-rule ");
    assert_string_equal(warned_pair(twenty, ten, ""), "4:shadowed-rule ");
    assert_string_equal(warned_pair(twenty, ten, "match: {x: y}"), "");
    assert_string_equal(warned_pair(ten, twenty, "match: {x: y}"), "5:shadowed-rule ");
    assert_string_equal(warned_pair(ten, "requests: 20, per: 2s", ""), "");
    assert_string_equal(warned_pair(ten, "requests: 20, per: 1s, burst: 20", ""), "");
    assert_string_equal(warned_pair("requests: 10, per: 1s, burst: 30",
                                    "requests: 20, per: 1s, burst: 20", ""),
                        "");
    assert_string_equal(warned_pair(ten, twenty, "soft: 10%"), "");
    assert_string_equal(warned_pair(ten, twenty, "cost: 2"), "");
    assert_string_equal(warned_pair(ten, twenty, "plans: {p: 20}"), "");
    assert_string_equal(warned_pair(ten, twenty, "ip_prefix: {v4: 24}"), "");
    assert_string_equal(warned_pair(ten, twenty, "no_key: skip"), "");
    assert_string_equal(warned_pair(twenty, ten, "action: warn"), "");
    assert_string_equal(warned_pair(ten, twenty, "action: warn"), "5:shadowed-rule ");
    assert_string_equal(warned_pair("requests: 10, per: day", "requests: 10, per: hour",
                                    ""),
                        "4:calendar-on-local ");
    /* What is taken out for some may leave the other one to refuse. */
    assert_string_equal(warned("rules:\n"
                               "- {name: a, key: [t], limit: {requests: 10, per: 1s}}\n"
                               "- {name: b, key: [t], limit: {requests: 20, per: 1s}}\n"
                               "- {name: c, key: [t], match: {x: y}, overrides: a,\n"
                               "   limit: {requests: 30, per: 1s}}\n",
                               1),
                        "6:shadowed-rule ");
}

/** Of what hosts count ahead one may refuse where the other does not. */
static void test_stricter_of_store(void **state)
{
    static const struct {
        const char *store;
        const char *want;
    } stores[] = {{"local", "6:shadowed-rule "},
                  {"redis", "6:shadowed-rule "},
                  {"lease", ""},
                  {"sync", ""}};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        (void)snprintf(text, sizeof text,
                       "defaults: {store: %s}\nrules:\n"
                       "- {name: a, key: [t], limit: {requests: 99, per: 1h}}\n"
                       "- {name: b, key: [t], limit: {requests: 99, per: 1h}}\n",
                       stores[i].store);
        assert_string_equal(warned(text, 1), stores[i].want);
    }
}

static void test_many(void **state)
{
    static char text[16384];
    size_t n = (size_t)snprintf(text, sizeof text, "rules:\n");

    (void)state;
    for (int i = 0; i < 17; i++) {
        n += (size_t)
            snprintf(text + n, sizeof text - n,
                     "- {name: r%d, key: [], match: {%s}, limit: {requests: 10, "
                     "per: %ds}}\n",
                     i,
                     i == 9   ? ""
                     : i == 3 ? "x: y"
                              : "x: [y, z]",
                     i + 1);
    }
    assert_string_equal(warned(text, 1), "7:too-many-at-once ");
    assert_non_null(strstr(diags.kept[0].text, "meets 17 limits"));
    (void)snprintf(text + n, sizeof text - n,
                   "- {name: over, key: [], match: {x: y}, overrides: [r5], limit: "
                   "{requests: 10, per: 1h}}\n");
    assert_string_equal(warned(text, 1), "7:too-many-at-once ");
    (void)snprintf(text + n, sizeof text - n,
                   "- {name: over, key: [], match: {x: y}, overrides: [r5, r6], limit: "
                   "{requests: 10, per: 1h}}\n");
    assert_string_equal(warned(text, 1), "");
}

static void test_every_warning(void **state)
{
    (void)state;
    for (size_t i = 0; i < RULES_WARNINGS_COUNT; i++) {
        if (!is_seen[i]) {
            fail_msg("never provoked: %s", rules_warnings[i]);
        }
    }
}

/* Two rules in Redis, with these fields. */
static const char *warned_slots(const char *a, const char *b)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "defaults: {store: redis, advertise: false}\n"
                   "rules:\n"
                   "- {name: a, limit: {requests: 20, per: 1s}, %s}\n"
                   "- {name: b, limit: {requests: 10, per: 2s}, %s}\n",
                   a, b);
    return warned(text, 1);
}

static void test_slots(void **state)
{
    static const char told[] = "6:slots-apart ";

    (void)state;
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t]"), "");
    is_cluster = true;
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t]"), told);
    assert_string_equal(diags.kept[0].text,
                        "'b' and 'a' count one request in two slots of the cluster, by "
                        "two calls: 'tag: [t]' in both makes it one");
    assert_string_equal(warned_slots("key: [t, ip], tag: [t]", "key: [t]"), "");
    assert_string_equal(warned_slots("key: [t, ip], tag: [t]", "key: [t], tag: [t]"),
                        "");
    assert_string_equal(warned_slots("key: [t, ip], tag: [ip]", "key: [t]"), told);
    assert_string_equal(warned_slots("key: [t, u]", "key: [t, u]"), "");
    assert_string_equal(warned_slots("key: [t, u]", "key: [u, t]"), told);
    assert_string_equal(warned_slots("key: [t, u], tag: [u]", "key: [v, u], tag: [u]"),
                        "");
    assert_string_equal(warned_slots("key: [t, u, v], tag: [t, v]",
                                     "key: [t, w, v], tag: [t, v]"),
                        "");
    assert_string_equal(warned_slots("key: [t, u, v], tag: [t, u]",
                                     "key: [t, u, v], tag: [t]"),
                        told);
    /* A counter in shards has no tag, and lies in several slots. */
    assert_string_equal(
        warned("defaults: {store: redis, advertise: false}\n"
               "rules:\n"
               "- {name: a, limit: {requests: 200, per: 1s}, key: [t],\n"
               "   shards: 2}\n"
               "- {name: b, limit: {requests: 10, per: 2s}, key: [t, u]}\n",
               1),
        "");
    /* There is no mend where keys have nothing in common. */
    assert_string_equal(warned_slots("key: [t]", "key: [u]"), "");
    assert_string_equal(warned_slots("key: [t]", "key: []"), "");
    assert_string_equal(warned_slots("key: [t | u]", "key: [t]"), "");
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t], key_text: hashed"), "");
    /* The address is another one in another prefix. */
    assert_string_equal(warned_slots("key: [t, ip]",
                                     "key: [t, ip], ip_prefix: {v4: 24}"),
                        told);
    assert_string_equal(warned_slots("key: [ip, u]", "key: [ip], ip_prefix: {v4: 24}"),
                        "");
    assert_string_equal(warned_slots("key: [t]", "key: [t], ip_prefix: {v4: 24}"), "");
    /* Told of rules that are certain to meet, by the narrower one. */
    assert_string_equal(warned_slots("key: [t, ip], match: {x: y}", "key: [t]"),
                        "5:slots-apart ");
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t], match: {x: y}"), told);
    assert_string_equal(warned_slots("key: [t, ip], match: {x: y}",
                                     "key: [t], match: {x: z}"),
                        "");
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t], store: local"), "");
    assert_string_equal(warned_slots("key: [t, ip]", "key: [t], overrides: a"),
                        "5:shadowed-rule ");
    is_cluster = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_overridden),
        cmocka_unit_test(test_stricter),
        cmocka_unit_test(test_stricter_of_store),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_sync),
        cmocka_unit_test(test_long_windows),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_every_warning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
