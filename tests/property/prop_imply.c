/* Where one match is said to imply another, or to exclude it, no request tells otherwise. */
#include <stdlib.h>

#include "rules/file.h"
#include "rules/imply.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    PAIRS = 20000,
    REQUESTS = 40,
    VALUES_MOST = 3,
    NAMES = 4,
};

static const char *const names[NAMES] = {"tenant", "path", "ip", "src"};

/* Values of a rule; none: the name has no more of them. */
static const char *const values[NAMES][12] = {
    {"acme", "acm*", "a*", "initech", "x", "x*", "xx*", "10.0.0.1"},
    {"/", "/a", "/a/b", "/a/b/c", "/*", "/**", "/a/*", "/a/**", "/*/b", "/*/**",
     "/a/*/c", "/a/b/**"},
    {"10.0.0.1", "10.0.0.2", "10.0.0.0/8", "10.0.0.0/30", "0.0.0.0/0", "::1", "::/0",
     "2001:db8::/32", "2001:db8::/64", "2001:db8::1"},
    {"10.0.0.1", "10.0.0.0/8", "10.0.0.0/30", "10*", "text", "te*"},
};

/* What requests send. */
static const char *const words[NAMES][8] = {
    {"acme", "acmes", "initech", "x", "xx", "xyz", "10.0.0.1", "b"},
    {"/", "/a", "/a/b", "/a/b/c", "/b/b", "/a/c/c", "/a/b/c/d", "/b"},
    {"10.0.0.1", "10.0.0.2", "10.0.0.9", "11.0.0.1", "::1", "2001:db8::1",
     "2001:db8:1::1", "fe80::1"},
    {"10.0.0.1", "10.0.0.2", "10.9.9.9", "100", "text", "test", "t", "1"},
};

static char text[4096];
static size_t text_len;

static void add(const char *piece)
{
    size_t n = strlen(piece);

    assert_true(n < sizeof text - text_len);
    memcpy(text + text_len, piece, n + 1);
    text_len += n;
}

static size_t count(const char *const *list, size_t n_most)
{
    size_t n = 0;

    while (n < n_most && list[n] != NULL) {
        n++;
    }
    return n;
}

static void values_write(struct prng *prng, size_t name)
{
    bool is_used[12] = {false};
    size_t n = 1 + prng_below(prng, VALUES_MOST);
    const char *separator = "[";

    for (size_t i = 0; i < n; i++) {
        size_t value = prng_below(prng, count(values[name], 12));

        if (!is_used[value]) {
            add(separator);
            add("'");
            add(values[name][value]);
            add("'");
            separator = ", ";
        }
        is_used[value] = true;
    }
    add("]");
}

static void rule_write(struct prng *prng, const char *name)
{
    add("- {name: ");
    add(name);
    add(", key: [], limit: {requests: 10, per: 1s}, match: {");
    for (size_t i = 0; i < NAMES; i++) {
        bool is_negated = prng_below(prng, 3) == 0;

        if (prng_below(prng, 3) > 0) {
            continue;
        }
        add(names[i]);
        add(is_negated ? ": {not: " : ": ");
        if (prng_below(prng, 6) == 0) {
            add("present");
        } else {
            values_write(prng, i);
        }
        add(is_negated ? "}, " : ", ");
    }
    add("}}\n");
}

static bool is_hit(const struct rules_result *result, uint32_t rule)
{
    for (uint32_t i = 0; i < result->n_hits; i++) {
        if (result->hits[i].rule->idx == rule) {
            return true;
        }
    }
    return false;
}

/* Addresses come as text, and some in binary form. */
static void request_make(struct prng *prng, const struct rules_set *set,
                         struct rules_request *request)
{
    static const uint8_t binary[4] = {10, 0, 0, 1};

    memset(request, 0, sizeof *request);
    for (size_t i = 0; i < NAMES; i++) {
        size_t word = prng_below(prng, 10);

        if (word == 8) {
            request_set(set, request, names[i], RULES_ADDRESS, binary, sizeof binary);
        } else if (word < 8) {
            request_text(set, request, names[i], words[i][word]);
        }
    }
}

/* What is said of two matches. */
struct relation {
    const char *name;
    bool is_second; /* what a request that meets the first does of the second */
};

static const struct relation implies = {"a request meets the first and not the second",
                                        true};
static const struct relation excludes = {"a request meets both", false};

static void pair_check(struct prng *prng, const struct rules_file *file,
                       const struct relation *relation, uint64_t seed)
{
    static struct rules_diags diags;
    static struct rules_result result;
    struct rules_request request;
    struct rules_set *set = rules_file_compile(file, 0, &diags);

    assert_non_null(set);
    for (int i = 0; i < REQUESTS; i++) {
        request_make(prng, set, &request);
        rules_eval(set, &request, &result);
        if (is_hit(&result, 0) && is_hit(&result, 1) != relation->is_second) {
            fail_msg("SEED=%llu %s of\n%s", (unsigned long long)seed, relation->name,
                     text);
        }
    }
    rules_set_free(set);
}

static void test_implied(void **state)
{
    static struct rules_diags diags;
    struct prng prng;
    uint64_t seed = prng_seed(7);
    unsigned n_implied = 0;
    unsigned n_excluded = 0;

    (void)state;
    prng_init(&prng, seed);
    for (int i = 0; i < PAIRS; i++) {
        int64_t n_steps = 2000;
        const struct rules_ast_rule *rules;
        struct rules_file *file;

        text_len = 0;
        add("version: 1\ndomain: d\nrules:\n");
        rule_write(&prng, "narrow");
        rule_write(&prng, "wide");
        rules_diags_init(&diags, "test.yaml");
        file = rules_file_read(&(struct rules_source){.name = "test.yaml",
                                                      .text = bytes_of(text)},
                               &diags);
        assert_non_null(file);
        rules = rules_file_ast(file)->rules;
        if (rules_match_implies(&rules[0].match, &rules[1].match, &n_steps)) {
            n_implied++;
            pair_check(&prng, file, &implies, seed);
        }
        if (rules_match_excludes(&rules[0].match, &rules[1].match, &n_steps)) {
            n_excluded++;
            pair_check(&prng, file, &excludes, seed);
        }
        rules_file_free(file);
    }
    assert_true(n_implied > PAIRS / 10);
    assert_true(n_excluded > PAIRS / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_implied)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
