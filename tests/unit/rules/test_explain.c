#include "rules/explain.h"

#include "tests/unit/rules/support.h"

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "- {name: old, key: [], limit: {requests: 1, per: 1s}, expires: 2001-01-01}\n"
    "- {name: users, match: {method: [GET, POST], path: '/v1/**'}, key: [user | api_key],\n"
    "   limit: {requests: 5, per: 1s}, plans: {gold: 10x, staff: unlimited},\n"
    "   costs: [{match: {path: /v1/big}, cost: 20}, {match: {tenant: a}, cost: 7}]}\n"
    "- {name: gone, key: [user], limit: {requests: 1, per: 1s}, no_key: skip}\n"
    "- {name: login, match: {tenant: present}, key: [user], no_key: reject,\n"
    "   limit: {requests: 1, per: 1s}, cost: {from: rows, min: 2, max: 9}}\n"
    "- {name: acme, match: {tenant: acme}, key: [user], overrides: login,\n"
    "   limit: {requests: 1, per: 1s},\n"
    "   charge: {after: response, reserve: 4}}\n"
    "- {name: share, match: {src: {not: [10.0.0.0/8, '2001:db8::/32', 'x*']}},\n"
    "   key: [ip], limit: {requests: 1, per: 1s}, mode: {enforce: 50%}}\n"
    "- {name: none, match: {tenant: absent, host: h}, key: [ip],\n"
    "   limit: {requests: 1, per: 1s}}\n"
    "lists: {block: {api_key: [bad]}, allow: {src: [monitor], api_key: [bad]}}\n";

struct fixture {
    struct rules_set *set;
    struct rules_request request;
    struct rules_explanation *explanation;
};

static int set_up(void **state)
{
    static struct fixture f;
    static struct rules_diags diags;

    memset(&f, 0, sizeof f);
    rules_diags_init(&diags, "test.yaml");
    f.set = rules_load(&(struct rules_source){.name = "test.yaml",
                                              .text = bytes_of(rules_text),
                                              .now_s = 1800000000},
                       &diags);
    rules_diags_print(&diags, stderr);
    *state = &f;
    return f.set == NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    rules_explanation_free(f->explanation);
    rules_set_free(f->set);
    return 0;
}

static void set_text(struct fixture *f, const char *name, const char *text)
{
    request_text(f->set, &f->request, name, text);
}

static void explain(struct fixture *f)
{
    rules_explanation_free(f->explanation);
    f->explanation = rules_explain(f->set, &f->request);
    assert_non_null(f->explanation);
}

static const struct rules_explained *said(const struct fixture *f, const char *name)
{
    for (uint32_t i = 0; i < f->explanation->n_rules; i++) {
        if (strcmp(f->explanation->rules[i].rule->name, name) == 0) {
            return &f->explanation->rules[i];
        }
    }
    fail();
    return NULL;
}

static void assert_bytes(struct rules_bytes bytes, const char *text)
{
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.ptr, text, bytes.len);
}

static void assert_unmet(const struct fixture *f, const char *rule,
                         const char *descriptor, const char *wanted)
{
    const struct rules_explained *e = said(f, rule);

    assert_int_equal(e->why, RULES_UNMET);
    assert_bytes(e->descriptor, descriptor);
    assert_string_equal(e->wanted, wanted);
}

static void test_conditions(void **state)
{
    struct fixture *f = *state;

    set_text(f, "method", "PUT");
    set_text(f, "path", "/v1/x");
    set_text(f, "src", "10.1.2.3");
    set_text(f, "tenant", "initech");
    set_text(f, "host", "h");
    explain(f);
    assert_int_equal(said(f, "old")->why, RULES_EXPIRED);
    assert_unmet(f, "users", "method", "GET, POST");
    assert_bytes(said(f, "users")->value.bytes, "PUT");
    assert_unmet(f, "acme", "tenant", "acme");
    assert_unmet(f, "share", "src", "not x*, 10.0.0.0/8, 2001:db8::/32");
    assert_unmet(f, "none", "tenant", "absent");
    set_text(f, "tenant", "");
    set_text(f, "method", "GET");
    set_text(f, "path", "//v2");
    explain(f);
    assert_unmet(f, "users", "path", "/v1/**");
    assert_bytes(f->explanation->path, "/v2");
    assert_unmet(f, "login", "tenant", "present");
    assert_int_equal(said(f, "login")->value.type, RULES_ABSENT);
}

static void test_keys(void **state)
{
    struct fixture *f = *state;

    set_text(f, "tenant", "initech");
    set_text(f, "method", "GET");
    set_text(f, "path", "/v1/x");
    explain(f);
    assert_int_equal(said(f, "users")->why, RULES_KEY_MISSING);
    assert_bytes(said(f, "users")->descriptor, "user");
    assert_int_equal(said(f, "gone")->why, RULES_KEY_MISSING);
    assert_int_equal(said(f, "login")->why, RULES_KEY_REQUIRED);
    assert_bytes(said(f, "login")->descriptor, "user");
    assert_ptr_equal(f->explanation->keyless, said(f, "login")->rule);
    set_text(f, "ip", "192.0.2.1");
    explain(f);
    assert_int_equal(said(f, "users")->why, RULES_APPLIES);
    assert_true(said(f, "users")->hit.is_address_standing_in);
    assert_bytes(said(f, "users")->stood_in_for, "user");
    assert_int_equal(said(f, "gone")->why, RULES_KEY_MISSING);
    set_text(f, "api_key", "k");
    explain(f);
    assert_false(said(f, "users")->hit.is_address_standing_in);
    assert_int_equal(said(f, "users")->stood_in_for.len, 0);
}

static void test_overrides_plans_and_shares(void **state)
{
    struct fixture *f = *state;
    const struct rules_explained *share;

    set_text(f, "tenant", "acme");
    set_text(f, "method", "GET");
    set_text(f, "path", "/v1/x");
    set_text(f, "user", "u");
    set_text(f, "ip", "192.0.2.1");
    set_text(f, "plan", "gold");
    explain(f);
    assert_int_equal(said(f, "login")->why, RULES_OVERRIDDEN);
    assert_ptr_equal(said(f, "login")->by, said(f, "acme")->rule);
    assert_bytes(f->explanation->plan, "gold");
    assert_true(said(f, "users")->is_by_plan);
    assert_int_equal(said(f, "users")->hit.limits->requests, 50);
    assert_false(said(f, "gone")->is_by_plan);
    share = said(f, "share");
    assert_int_equal(share->why, RULES_APPLIES);
    assert_true(share->draw < 10000);
    assert_int_equal(share->hit.is_shadow, share->draw >= 5000);
    set_text(f, "plan", "staff");
    explain(f);
    assert_int_equal(said(f, "users")->why, RULES_PLAN_EXEMPT);
    set_text(f, "plan", "other");
    explain(f);
    assert_false(said(f, "users")->is_by_plan);
    assert_int_equal(said(f, "users")->hit.limits->requests, 5);
}

static void test_costs(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *rows;
        enum rules_cost_from from;
        int64_t cost;
    } cases[] = {
        {"5", RULES_COST_ARGUMENT, 5},
        {"1", RULES_COST_RAISED, 2},
        {"x", RULES_COST_RAISED, 2},
        {"99", RULES_COST_LOWERED, 9},
    };

    set_text(f, "method", "GET");
    set_text(f, "path", "/v1/x");
    set_text(f, "user", "u");
    set_text(f, "tenant", "a");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_text(f, "rows", cases[i].rows);
        explain(f);
        assert_int_equal(said(f, "login")->cost_from, cases[i].from);
        assert_int_equal(said(f, "login")->hit.cost, cases[i].cost);
        assert_bytes(said(f, "login")->cost_argument, "rows");
    }
    assert_int_equal(said(f, "users")->cost_from, RULES_COST_ITEM);
    assert_int_equal(said(f, "users")->cost_item, 2);
    assert_int_equal(said(f, "users")->hit.cost, 7);
    assert_int_equal(said(f, "gone")->cost_from, RULES_COST_FIXED);
    set_text(f, "tenant", "acme");
    explain(f);
    assert_int_equal(said(f, "acme")->cost_from, RULES_COST_RESERVED);
    assert_int_equal(said(f, "acme")->hit.cost, 4);
}

static void test_lists(void **state)
{
    struct fixture *f = *state;

    explain(f);
    assert_int_equal(f->explanation->listed, RULES_UNLISTED);
    set_text(f, "src", "monitor");
    explain(f);
    assert_int_equal(f->explanation->listed, RULES_ALLOWED);
    assert_bytes(f->explanation->list, "src");
    set_text(f, "api_key", "bad");
    explain(f);
    assert_int_equal(f->explanation->listed, RULES_BLOCKED);
    assert_bytes(f->explanation->list, "api_key");
}

/* Values that are many or long are cut; what is no printable ASCII is escaped. */
static void test_wanted_is_short(void **state)
{
    static const char tail[] =
        "]}}\n"
        "- {name: long, key: [], limit: {requests: 1, per: 1s}, match: {a: [\"";
    char text[4096] =
        "version: 1\ndomain: api\nrules:\n"
        "- {name: many, key: [], limit: {requests: 1, per: 1s}, match: {a: [";
    char value[128];
    size_t n = strlen(text);
    struct rules_explanation *explanation;
    struct rules_request request = {0};
    struct rules_set *set;

    (void)state;
    for (int i = 0; i < 40; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "value%02d, ", i);
    }
    memset(value, 'x', sizeof value);
    (void)snprintf(text + n, sizeof text - n, "%s\xc3\xa4 %.*s\"]}}\n", tail,
                   (int)sizeof value, value);
    set = load_good(text);
    explanation = rules_explain(set, &request);
    assert_non_null(explanation);
    assert_string_equal(
        explanation->rules[0].wanted,
        "value00, value01, value02, value03, value04, value05, value06, "
        "value07, value08, value09, value10 and 29 more");
    assert_string_equal(
        explanation->rules[1].wanted,
        "%C3%A4%20"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xx...");
    rules_explanation_free(explanation);
    rules_set_free(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_conditions),
        TEST(test_keys),
        TEST(test_overrides_plans_and_shares),
        TEST(test_costs),
        TEST(test_lists),
        TEST(test_wanted_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
