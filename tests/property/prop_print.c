/* Random rules files, some with includes: what is printed is printed again byte for byte,
 * and decides like the original. */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdlib.h>

#include "rules/calendar.h"
#include "rules/clients.h"
#include "rules/print.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    FILES = 4000,
    REQUESTS = 40,
    RULES_MOST = 6,
    PARTS_MOST = 3, /* the main file, and what it includes */
};

#define N(array) (sizeof(array) / sizeof(array)[0])

/* A field is one of these, or left out; in rules and in `defaults`. */
static const char *const fields[][8] = {
    {"owner: edge", "owner: \"a \\\"b\\\" \\\\ c\"", "owner: '#x: y'"},
    {"review_by: 2027-01-31", "review_by: 2027-01-31T23:59:59Z"},
    {"expires: 2027-01-01", "expires: 2000-02-29T00:00:01Z"},
    {"no_key: skip", "no_key: reject", "no_key: ip"},
    {"ip_prefix: {v4: 24}", "ip_prefix: {v6: 56}", "ip_prefix: {}"},
    {"plans: {free: 5, gold: 2.5x, none: unlimited}", "plans: {gold: 0.999x}",
     "plans: {}", "plans: {gold: {}}"},
    {"cost: 3", "cost: {from: rows, max: 50}", "cost: {from: rows, min: 0, max: 9}",
     "costs: [{match: {method: GET}, cost: 0}, {match: , cost: 7}]",
     "costs: [{match: {path: [/a/**, /b]}, cost: 2}]", "costs: []"},
    {"charge: {after: response, when: {status: [401, 403]}}",
     "charge: {after: response, when: {status: {not: 2*}}, reserve: 4}"},
    {"soft: 80%", "soft: 12.5%", "soft: off"},
    {"action: warn", "action: degrade", "action: block", "action: reject"},
    {"mode: shadow", "mode: enforce", "mode: {enforce: 0.5%}"},
    {"advertise: false", "advertise: true"},
    {"store: redis", "store: redis", "store: lease", "store: sync", "store: local"},
    {"on_store_failure: open", "on_store_failure: closed", "on_store_failure: local",
     "on_store_failure: {local: 33.33%}", "on_store_failure: {local: 100%}"},
    {"tag: [tenant]", "tag: []"},
    {"shards: 1"},
    {"key_text: hashed", "key_text: readable"},
};

static const char *const matches[] = {
    "method: GET",
    "method: {not: [POST, PUT, 'present', absent]}",
    "tenant: [\"\\u00e9\\x01\\t\\\"\\\\\", 'a: b', '- c', \"\\U0001F600\"]",
    "tenant: ['x y', ' lead', \"new\\nline\", '*star', acme*, '{', '~']",
    "path: /a%7eb//c/../d/",
    "path: ['/v1/**', '/v2/*/x', /]",
    "route: {not: '/a/*'}",
    "ip: 10.0.0.0/8",
    "ip: ['192.0.2.1', '2001:db8::/32']",
    "plan: [free, gold]",
    "user: present",
    "user: absent",
    "user: {not: absent}",
    "user: {not: ['present', 'absent']}",
};

static const char *const keys[] = {
    "[]",          "[ip]",           "[tenant]",
    "[user | ip]", "[tenant, user]", "[api_key|user|ip, tenant]"};

static const char *const limits[] = {
    "limit: {requests: 7, per: 1m}",
    "limit: {requests: 7, per: 1500ms, algorithm: fixed_window}",
    "limit: {requests: 7, per: 1h, burst: 7}",
    "limit: {requests: 7, per: 1h, burst: 19}",
    "limit: {requests: 6400, per: 1s}",
    "limit: {requests: 6400, per: 1s}, store: redis, shards: 32",
    "limit: {requests: 1000000, per: 1h, burst: 1000}",
    "limit: {requests: 7, per: month, timezone: UTC}",
    "limit: {requests: 7, per: week}",
    "limit: {requests: 0, per: 1s}, expires: 2030-01-01",
    "limit: {requests: 0, per: 1s, algorithm: token_bucket}, expires: 2030-01-01",
    "limit: {requests: 7, per: 90s, algorithm: leaky_bucket}",
    "limit: {requests: 7, per: 90s, algorithm: leaky_bucket, max_delay: 2s}",
    "limit: {requests: 7, per: 2d, algorithm: sliding_log}",
    "limits: [{name: only, requests: 3, per: 1s, burst: 3}]",
    ("limits: [{name: a, requests: 3, per: 1s, algorithm: leaky_bucket}, {name: b, "
     "requests: 30, per: 1m, burst: 40}]"),
    "limits: [{name: b, requests: 3, per: 1s}, {name: a, requests: 30, per: day}]",
};

static const char *const lists[] = {
    "block: {ip: [192.0.2.7, 10.0.0.0/8], user: [bad, 'a: b']}",
    "allow: {ip: [{value: '2001:db8::1', owner: a b, reason: 'x: #y'}], tenant: []}",
    "allow: {user: [{value: root, expires: 2030-01-01}, {value: old, expires: 1999-01-01}]}",
};

/* What requests say. */
static const char *const descriptors[] = {"method",  "tenant", "path", "route",
                                          "ip",      "user",   "plan", "rows",
                                          "api_key", "status"};
static const char *const words[] = {
    "GET",         "POST",   "acme", "acme-2",   "/v1/x",
    "/v2/q/x",     "/a~b/d", "/a/b", "10.1.2.3", "192.0.2.1",
    "2001:db8::5", "free",   "gold", "none",     "5",
    "401",         "bad",    "root", "present",  "\xc3\xa9\x01\t\"\\",
    "a: b"};

static struct text {
    char bytes[1 << 16];
    size_t len;
} texts[PARTS_MOST];

static struct rules_diags diags;
static struct rules_result results[2];

static void add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->bytes + text->len, sizeof text->bytes - text->len, format,
                  args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof text->bytes - text->len);
    text->len += (size_t)n;
}

static const char *draw(struct prng *prng, const char *const *from, size_t n)
{
    return from[prng_below(prng, n)];
}

/** One of the alternatives of a field, or NULL; they end with NULLs. */
static const char *field_draw(struct prng *prng, size_t field)
{
    size_t n = 1;

    while (n < N(fields[field]) && fields[field][n] != NULL) {
        n++;
    }
    return prng_below(prng, 4) == 0 ? fields[field][prng_below(prng, n)] : NULL;
}

static void fields_add(struct prng *prng, struct text *text, const char *between)
{
    for (size_t i = 0; i < N(fields); i++) {
        const char *field = field_draw(prng, i);

        if (field != NULL) {
            add(text, "%s%s", between, field);
        }
    }
}

static void match_add(struct prng *prng, struct text *text)
{
    const char *match = draw(prng, matches, N(matches));

    if (prng_below(prng, 3) > 0) {
        add(text, ", match: {%s}", match);
    }
}

static void rule_add(struct prng *prng, struct text *text, unsigned idx)
{
    add(text, "- {name: r%u, key: %s, %s", idx, draw(prng, keys, N(keys)),
        draw(prng, limits, N(limits)));
    match_add(prng, text);
    fields_add(prng, text, ", ");
    if (idx > 0 && prng_below(prng, 4) == 0) {
        add(text, ", overrides: r%u", (unsigned)prng_below(prng, idx));
    }
    add(text, "}\n");
}

/** @return how many rules there are now */
static unsigned part_make(struct prng *prng, struct text *text, unsigned n_parts,
                          unsigned n_rules)
{
    unsigned n = n_rules + 1 + (unsigned)prng_below(prng, RULES_MOST);

    text->len = 0;
    add(text, "version: 1\ndomain: d\n");
    if (n_parts > 1) {
        add(text, "include: [%s]\n", n_parts == 2 ? "'1'" : "'1', '2'");
    }
    if (n_rules == 0 && prng_below(prng, 4) == 0) {
        add(text, "require: [%s]\n",
            draw(prng,
                 (const char *const[]){"mode", "cost", "costs, soft", "limits",
                                       "plans, match, advertise, overrides"},
                 5));
    }
    if (prng_below(prng, 2) == 0) {
        add(text, "defaults: { shards: %u", 1U << prng_below(prng, 7));
        fields_add(prng, text, ", ");
        add(text, "}\n");
    }
    if (n_rules == 0 && prng_below(prng, 4) == 0) {
        add(text, "clients: %s\n",
            draw(prng,
                 (const char *const[]){"c.csv", "'a b.csv'", "{file: c, by: api_key}"},
                 3));
    }
    add(text, "rules:\n");
    for (; n_rules < n; n_rules++) {
        rule_add(prng, text, n_rules);
    }
    if (prng_below(prng, 3) == 0) {
        add(text, "lists: {%s}\n", draw(prng, lists, N(lists)));
    }
    return n;
}

static char *part_read(void *context, const char *path, size_t bytes_max, size_t *len,
                       const char **error)
{
    const struct text *text = &texts[*path - '0'];

    (void)context;
    (void)error;
    assert_true(text->len <= bytes_max);
    *len = text->len;
    return strdup(text->bytes);
}

static struct rules_file *file_read(const char *text)
{
    rules_diags_init(&diags, "f");
    return rules_file_read(&(struct rules_source){.name = "f",
                                                  .text = bytes_of(text),
                                                  .read = part_read},
                           &diags);
}

static bool limit_is_same(const struct rules_limit *a, const struct rules_limit *b)
{
    char calendars[2][RULES_CALENDAR_TEXT_BYTES_MAX] = {"", ""};

    if (a->calendar != NULL && b->calendar != NULL) {
        rules_calendar_print(a->calendar, calendars[0]);
        rules_calendar_print(b->calendar, calendars[1]);
    }
    return memcmp(a->id, b->id, sizeof a->id) == 0 && strcmp(a->name, b->name) == 0
           && a->algorithm == b->algorithm && a->requests == b->requests
           && a->burst == b->burst && a->per_us == b->per_us
           && (a->calendar == NULL) == (b->calendar == NULL)
           && strcmp(calendars[0], calendars[1]) == 0
           && a->max_delay_ticks == b->max_delay_ticks && a->idx == b->idx
           && a->base_idx == b->base_idx;
}

static bool text_is_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool rule_is_same(const struct rules_rule *a, const struct rules_rule *b)
{
    return strcmp(a->name, b->name) == 0 && text_is_same(a->owner, b->owner)
           && a->mode == b->mode && a->action == b->action
           && a->soft_permyriad == b->soft_permyriad
           && a->enforced_permyriad == b->enforced_permyriad
           && a->is_expired == b->is_expired && a->is_settled == b->is_settled
           && a->is_keyed == b->is_keyed && a->is_key_hashed == b->is_key_hashed
           && a->tag_parts == b->tag_parts && a->store == b->store
           && a->n_shards == b->n_shards
           && a->on_store_failure.policy == b->on_store_failure.policy
           && a->on_store_failure.share_permyriad == b->on_store_failure.share_permyriad
           && a->is_advertised == b->is_advertised && a->n_limits == b->n_limits;
}

static void clients_compare(const struct rules_clients_file *a,
                            const struct rules_clients_file *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a->path, b->path);
        assert_int_equal(a->kind, b->kind);
    }
}

static void sets_compare(const struct rules_set *a, const struct rules_set *b)
{
    assert_string_equal(rules_set_domain(a), rules_set_domain(b));
    assert_int_equal(rules_set_n_rules(a), rules_set_n_rules(b));
    assert_int_equal(rules_set_n_variants(a), rules_set_n_variants(b));
    assert_true(rules_set_changes_at_s(a) == rules_set_changes_at_s(b));
    clients_compare(rules_set_clients(a), rules_set_clients(b));
    for (uint32_t i = 0; i < rules_set_n_rules(a); i++) {
        assert_true(rule_is_same(rules_set_rule(a, i), rules_set_rule(b, i)));
    }
    for (uint32_t i = 0; i < rules_set_n_variants(a); i++) {
        assert_true(limit_is_same(rules_set_limit(a, i), rules_set_limit(b, i)));
    }
}

static bool hit_is_same(const struct rules_hit *a, const struct rules_hit *b)
{
    return a->rule->idx == b->rule->idx && a->n_limits == b->n_limits
           && a->limits->idx == b->limits->idx && a->cost == b->cost
           && a->is_shadow == b->is_shadow && a->key.len == b->key.len
           && memcmp(a->key.ptr, b->key.ptr, a->key.len) == 0;
}

static bool result_is_same(const struct rules_result *a, const struct rules_result *b)
{
    bool is_same = a->listed == b->listed && a->n_hits == b->n_hits
                   && (a->keyless == NULL) == (b->keyless == NULL)
                   && a->n_matched == b->n_matched && a->n_overridden == b->n_overridden
                   && a->n_unlimited == b->n_unlimited
                   && a->n_skipped_no_key == b->n_skipped_no_key;

    for (uint32_t i = 0; is_same && i < a->n_hits; i++) {
        is_same = hit_is_same(&a->hits[i], &b->hits[i]);
    }
    return is_same;
}

/** The same request to both sets: each has slots of its own. */
static void requests_make(struct prng *prng, struct rules_set *const sets[2],
                          struct rules_request requests[2])
{
    for (size_t i = 0; i < N(descriptors); i++) {
        const char *word = draw(prng, words, N(words));

        if (prng_below(prng, 3) > 0) {
            request_text(sets[0], &requests[0], descriptors[i], word);
            request_text(sets[1], &requests[1], descriptors[i], word);
        }
    }
}

static void requests_compare(struct prng *prng, struct rules_set *const sets[2])
{
    for (int i = 0; i < REQUESTS; i++) {
        struct rules_request requests[2] = {{{{0}}}};

        requests_make(prng, sets, requests);
        rules_eval(sets[0], &requests[0], &results[0]);
        rules_eval(sets[1], &requests[1], &results[1]);
        assert_true(result_is_same(&results[0], &results[1]));
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): trees are at most 32 deep */
static uint32_t events_count(const struct yamltree_node *node)
{
    uint32_t n = node->kind == YAMLTREE_SCALAR ? 1 : 2;

    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        n += events_count(it) + (it->key != NULL);
    }
    return n;
}

static void laws_check(struct prng *prng, const struct rules_file *file)
{
    static const int64_t now_s = 1700000000;
    uint32_t n_events;
    size_t len;
    char *text = rules_file_print(file, &len, &n_events);
    struct rules_file *again = file_read(text);
    struct rules_set *sets[2];
    char *text_again;

    if (again == NULL) {
        rules_diags_print(&diags, stderr);
        fail_msg("cannot be read again:\n%s", text);
    }
    /* The stream and the document begin and end, too. */
    assert_int_equal(n_events,
                     4 + events_count(yamltree_root(rules_file_tree(again, 0))));
    assert_int_equal(len, strlen(text));
    text_again = rules_file_print(again, &len, &n_events);
    assert_string_equal(text, text_again);
    sets[0] = rules_file_compile(file, now_s, &diags);
    sets[1] = rules_file_compile(again, now_s, &diags);
    assert_non_null(sets[0]);
    assert_non_null(sets[1]);
    sets_compare(sets[0], sets[1]);
    requests_compare(prng, sets);
    rules_set_free(sets[0]);
    rules_set_free(sets[1]);
    rules_file_free(again);
    free(text);
    free(text_again);
}

static void test_laws(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(20);
    int n_good = 0;

    (void)state;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&prng, seed);
    for (int i = 0; i < FILES; i++) {
        unsigned n_parts = 1 + (unsigned)prng_below(&prng, PARTS_MOST);
        unsigned n_rules = 0;
        struct rules_file *file;

        for (unsigned j = 0; j < n_parts; j++) {
            n_rules = part_make(&prng, &texts[j], j == 0 ? n_parts : 1, n_rules);
        }
        file = file_read(texts[0].bytes);
        if (file != NULL) {
            n_good++;
            laws_check(&prng, file);
        }
        rules_file_free(file);
    }
    print_message("%d of %d files were right\n", n_good, FILES);
    assert_true(n_good > FILES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_laws)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
