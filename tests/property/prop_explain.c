/* What an explanation says applies is what rules_eval finds, for random rules and requests;
 * and every key has a text that is read back as the same key. */
#include <stdio.h>
#include <stdlib.h>

#include "rules/explain.h"
#include "rules/key_text.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    SETS = 300,
    REQUESTS = 100,
    RULES_MOST = 90,
    TEXT_BYTES_MAX = 1 << 16,
    NAMES = 5,
    WORDS = 4,
};

static const char *const names[NAMES] = {"method", "tenant", "path", "ip", "src"};

static const char *const words[NAMES][WORDS] = {
    {"GET", "POST", "PUT", "HEAD"},
    {"acme", "b=c,d%e!f", "\xff \x01", "!ip=1.2.3.4"},
    {"/a", "/a/b", "//a/./b", "/a/b/c"},
    {"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "2001:db8::ff:1"},
    {"192.0.2.1", "2001:db8::2", "text", "x"},
};

static const char *const conditions[] = {"method: GET",
                                         "method: [GET, POST]",
                                         "path: /a/**",
                                         "path: {not: '/a/*'}",
                                         "tenant: present",
                                         "tenant: absent",
                                         "tenant: [acme, 'b*']",
                                         "ip: [192.0.2.0/24, '::/0']",
                                         "src: {not: 192.0.2.0/30}",
                                         "src: [text, 'x*', 'z']"};

static const char *const keys[] = {"[]",
                                   "[ip]",
                                   "[tenant]",
                                   "[tenant | method, ip]",
                                   "[src]",
                                   "[path, src | tenant | ip]",
                                   "[method, tenant, path, ip, src]"};

static const char *const costs[] = {
    "",
    ", cost: 3",
    ", cost: {from: size, min: 2, max: 9}",
    ", costs: [{match: {method: GET}, cost: 2}, {match: {path: /a}, cost: 0}]",
    ", cost: {from: size, max: 5}, charge: {after: response, reserve: 4}",
};

static const char *const modes[] = {"", "", ", mode: shadow", ", mode: {enforce: 40%}"};

static const char *const no_keys[] = {"", ", no_key: skip", ", no_key: reject"};

static const char *const sizes[] = {"1", "5", "100", "x", ""};

static struct prng prng;
static char text[TEXT_BYTES_MAX];
static size_t text_len;
static struct rules_result result;
static uint64_t n_seen[RULES_BEYOND_HITS + 1];

#define DRAW(array) (array)[prng_below(&prng, sizeof(array) / sizeof((array)[0]))]

static void add(const char *piece)
{
    size_t n = strlen(piece);

    assert_true(n < sizeof text - text_len);
    memcpy(text + text_len, piece, n + 1);
    text_len += n;
}

static void match_make(void)
{
    size_t n = prng_below(&prng, 3);
    size_t first = prng_below(&prng, 3);

    add(", match: {");
    for (size_t i = 0; i < n; i++) {
        /* each of another descriptor */
        static const size_t starts[] = {0, 2, 4, 7, 8};
        size_t at = starts[(first + i) % 5];
        size_t next = (first + i) % 5 == 4 ? 10 : starts[(first + i) % 5 + 1];

        add(i > 0 ? ", " : "");
        add(conditions[at + prng_below(&prng, next - at)]);
    }
    add("}");
}

static void limits_make(void)
{
    size_t n = prng_below(&prng, 4);

    if (n == 0) {
        add(", limit: {requests: 100, per: 1s}");
        add(prng_below(&prng, 3) == 0
                ? ", plans: {gold: 10x, free: 5, staff: unlimited}"
                : "");
        return;
    }
    add(", limits: [");
    for (size_t i = 0; i < n; i++) {
        char limit[64];

        (void)snprintf(limit, sizeof limit, "%s{name: l%zu, requests: 100, per: 1s}",
                       i > 0 ? ", " : "", i);
        add(limit);
    }
    add("]");
    add(prng_below(&prng, 3) == 0 ? ", plans: {gold: 2x, staff: unlimited}" : "");
}

static void rule_make(size_t idx)
{
    char piece[96];
    const char *key = DRAW(keys);
    const char *mode = DRAW(modes);

    (void)snprintf(piece, sizeof piece, "- {name: r%zu", idx);
    add(piece);
    match_make();
    add(", key: ");
    add(key);
    limits_make();
    add(DRAW(costs));
    add(strcmp(key, "[]") == 0 && strstr(mode, "enforce") != NULL ? "" : mode);
    add(DRAW(no_keys));
    add(prng_below(&prng, 20) == 0 ? ", expires: 2001-01-01" : "");
    if (idx > 1 && prng_below(&prng, 8) == 0) {
        size_t other = prng_below(&prng, idx - 1);

        (void)snprintf(piece, sizeof piece, ", overrides: [r%zu, r%zu]", other,
                       other + 1);
        add(piece);
    }
    add("}\n");
}

static struct rules_set *set_make(void)
{
    static struct rules_diags diags;
    size_t n = 1 + prng_below(&prng, prng_below(&prng, 3) == 0 ? RULES_MOST : 12);
    struct rules_set *set;

    text_len = 0;
    add("version: 1\ndomain: api\nrules:\n");
    for (size_t i = 0; i < n; i++) {
        rule_make(i);
    }
    if (prng_below(&prng, 4) == 0) {
        add("lists: {block: {tenant: [acme], ip: [192.0.2.0/24]}, allow: {src: [x]}}\n");
    }
    rules_diags_init(&diags, "random");
    set = rules_load(&(struct rules_source){.name = "random",
                                            .text = bytes_of(text),
                                            .now_s = 1800000000},
                     &diags);
    if (set == NULL) {
        rules_diags_print(&diags, stderr);
        print_message("%s", text);
    }
    assert_non_null(set);
    return set;
}

static void request_make(const struct rules_set *set, struct rules_request *request,
                         struct rules_address *address)
{
    static const char *const plans[] = {"", "gold", "free", "staff", "other"};

    memset(request, 0, sizeof *request);
    for (size_t i = 0; i < NAMES; i++) {
        if (prng_below(&prng, 4) > 0) {
            request_text(set, request, names[i], DRAW(words[i]));
        }
    }
    request_text(set, request, "size", DRAW(sizes));
    request_text(set, request, "plan", DRAW(plans));
    if (prng_below(&prng, 3) == 0) {
        *address = rules_address_parse(bytes_of(DRAW(words[3])));
        request_set(set, request, "src", RULES_ADDRESS, address->bytes, address->len);
    }
}

static void assert_key_is(struct rules_bytes key, const uint8_t *bytes, size_t len)
{
    assert_int_equal(len, key.len);
    assert_memory_equal(bytes, key.ptr, len);
}

/** Whether `src` came as an address is not in the text; one of the two readings is right. */
static void assert_text_of_key(const struct rules_set *set, const struct rules_hit *hit)
{
    char key_text[RULES_KEY_TEXT_BYTES_MAX];
    uint8_t key[RULES_KEY_BYTES_MAX];
    size_t len = 0;
    size_t text_bytes = rules_key_text(hit->key, key_text);
    bool is_found = false;

    assert_int_equal(text_bytes, strlen(key_text));
    for (size_t i = 0; i < text_bytes; i++) {
        assert_true(key_text[i] > ' ' && key_text[i] < 0x7f);
    }
    for (int is_address = 0; is_address < 2; is_address++) {
        assert_int_equal(rules_key_text_read(set, hit->rule, bytes_of(key_text),
                                             is_address != 0, key, &len),
                         RULES_KEY_TEXT_OK);
        is_found = is_found
                   || (len == hit->key.len && memcmp(key, hit->key.ptr, len) == 0);
    }
    assert_true(is_found);
}

static void assert_hit(const struct rules_set *set, const struct rules_explained *said,
                       const struct rules_hit *hit)
{
    assert_ptr_equal(said->rule, hit->rule);
    assert_ptr_equal(said->hit.limits, hit->limits);
    assert_int_equal(said->hit.n_limits, hit->n_limits);
    assert_int_equal(said->hit.cost, hit->cost);
    assert_int_equal(said->hit.is_shadow, hit->is_shadow);
    assert_int_equal(said->hit.is_address_standing_in, hit->is_address_standing_in);
    assert_int_equal(said->is_by_plan, hit->limits != hit->rule->limits);
    assert_key_is(said->hit.key, hit->key.ptr, hit->key.len);
    if (hit->rule->mode == RULES_PERCENT) {
        assert_int_equal(said->draw < (uint32_t)hit->rule->enforced_permyriad,
                         !hit->is_shadow);
    }
    assert_text_of_key(set, hit);
}

static void assert_agrees(const struct rules_set *set,
                          const struct rules_explanation *explanation)
{
    uint32_t n[RULES_BEYOND_HITS + 1] = {0};

    for (uint32_t i = 0; i < explanation->n_rules; i++) {
        const struct rules_explained *said = &explanation->rules[i];

        if (said->why == RULES_APPLIES) {
            assert_true(n[RULES_APPLIES] < result.n_hits);
            assert_hit(set, said, &result.hits[n[RULES_APPLIES]]);
        }
        n[said->why]++;
        n_seen[said->why]++;
    }
    assert_int_equal(n[RULES_APPLIES], result.n_hits);
    assert_int_equal(n[RULES_EXPIRED], rules_set_n_expired(set));
    assert_int_equal(n[RULES_OVERRIDDEN], result.n_overridden);
    assert_int_equal(n[RULES_PLAN_EXEMPT], result.n_unlimited);
    assert_int_equal(n[RULES_KEY_MISSING] + n[RULES_KEY_REQUIRED],
                     result.n_skipped_no_key);
    assert_int_equal(explanation->n_rules - n[RULES_EXPIRED] - n[RULES_UNMET],
                     result.n_matched);
    assert_int_equal(explanation->listed, result.listed);
    assert_ptr_equal(explanation->keyless, result.keyless);
    assert_int_equal(explanation->is_path_as_it_stands, result.is_path_as_it_stands);
}

static void explanation_is_what_evaluation_finds(void **context)
{
    uint64_t seed = prng_seed(20261130);

    (void)context;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&prng, seed);
    for (int i = 0; i < SETS; i++) {
        struct rules_set *set = set_make();

        for (int j = 0; j < REQUESTS; j++) {
            static struct rules_request request;
            struct rules_address address;
            struct rules_explanation *explanation;

            request_make(set, &request, &address);
            rules_eval(set, &request, &result);
            explanation = rules_explain(set, &request);
            assert_non_null(explanation);
            assert_agrees(set, explanation);
            rules_explanation_free(explanation);
        }
        rules_set_free(set);
    }
    for (size_t i = 0; i < sizeof n_seen / sizeof n_seen[0]; i++) {
        assert_true(n_seen[i] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explanation_is_what_evaluation_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
