/* Compiled evaluation finds what a slow walk over all rules finds. */
#define _POSIX_C_SOURCE 200112L /* inet_pton */

#include <stdlib.h>

#include <arpa/inet.h>

#include "rules/path.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    SETS = 400,
    REQUESTS = 150,
    RULES_MOST = 60,
    VALUES_MOST = 4,
    NAMES = 6,
    WORDS = 6,
};

/* `ip` stands for itself: addresses as text in the file, as bytes in the request. */
static const char *const names[NAMES] = {"method", "tenant", "path",
                                         "route",  "ip",     "src"};

static const char *const words[NAMES][WORDS] = {
    {"GET", "POST", "PUT", "HEAD", "200", "401"},
    {"acme", "initech", "a-long-name-of-a-tenant", "x", "xx", "xxx"},
    {"/", "/a", "/a/b", "/a/b/c", "/b/b", "/c"},
    {"a", "a/b", "/a/b", "a/b/c", "b", "b/"},
    {"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "::1", "10.0.0.1"},
    {"192.0.2.1", "192.0.2.2", "text", "other", "abcd", "x"},
};

static const char *const patterns[] = {"/**",  "/*",     "/a/*",  "/a/**", "/*/b",
                                       "/*/*", "/a/*/c", "/b/**", "a/**",  "*/b"};

static const char *const prefixes[] = {"x*", "xx*", "a*", "a-long*", "P*", "40*"};

static const char *const networks[] = {"192.0.2.0/24", "192.0.2.2/31",  "0.0.0.0/0",
                                       "10.0.0.0/31",  "2001:db8::/32", "::/0",
                                       "::/64",        "192.0.2.0/30"};

/* n = 0 is present, or absent where it is negated. */
struct condition {
    bool is_there;
    bool is_negated;
    size_t n;
    const char *values[VALUES_MOST];
};

struct rule {
    struct condition conditions[NAMES];
    bool is_shadow;
    size_t n_overrides;
    size_t overrides[2]; /* rules before this one */
    size_t n_parts;
    size_t parts[2]; /* names */
};

/** What a request says: an index into words, or -1; with noise around paths. */
struct facts {
    int words[NAMES];
};

static struct rule rules[RULES_MOST];
static size_t n_rules;
static char text[1 << 16];
static size_t text_len;
static struct rules_result result;

static void add(const char *piece)
{
    size_t n = strlen(piece);

    assert_true(n < sizeof text - text_len);
    memcpy(text + text_len, piece, n + 1);
    text_len += n;
}

static bool is_by_segment(size_t name)
{
    return name == 2 || name == 3;
}

static bool is_by_network(size_t name)
{
    return name >= 4;
}

/** A value of the kind that is special to the descriptor. */
static const char *special_draw(struct prng *prng, size_t name)
{
    if (is_by_segment(name)) {
        /* The last two patterns have no leading slash: routes only. */
        return patterns[prng_below(prng, name == 2 ? 8 : 10)];
    }
    if (is_by_network(name)) {
        return networks[prng_below(prng, sizeof networks / sizeof networks[0])];
    }
    return prefixes[prng_below(prng, sizeof prefixes / sizeof prefixes[0])];
}

static void condition_make(struct prng *prng, size_t name, struct condition *condition)
{
    size_t n = prng_below(prng, 8) == 0 ? 0 : 1 + prng_below(prng, VALUES_MOST);

    condition->is_there = true;
    condition->is_negated = prng_below(prng, 4) == 0;
    for (size_t i = 0; i < n; i++) {
        const char *value = prng_below(prng, 2) > 0
                                ? special_draw(prng, name)
                                : words[name][prng_below(prng, WORDS)];
        bool is_new = true;

        for (size_t j = 0; j < condition->n; j++) {
            is_new = is_new && strcmp(condition->values[j], value) != 0;
        }
        if (is_new) {
            condition->values[condition->n++] = value;
        }
    }
}

static void condition_write(size_t name, const struct condition *condition)
{
    add(names[name]);
    add(condition->is_negated ? ": {not: " : ": ");
    if (condition->n == 0) {
        add("present");
    }
    for (size_t i = 0; i < condition->n; i++) {
        add(i > 0 ? ", '" : "['");
        add(condition->values[i]);
        add("'");
    }
    add(condition->n > 0 ? "]" : "");
    add(condition->is_negated ? "}, " : ", ");
}

static void overrides_make(struct prng *prng, size_t idx, struct rule *rule)
{
    char name[40];

    rule->is_shadow = prng_below(prng, 4) == 0;
    rule->n_overrides = idx > 0 && prng_below(prng, 4) == 0 ? 2 : 0;
    for (size_t i = 0; i < rule->n_overrides; i++) {
        rule->overrides[i] = prng_below(prng, idx);
        (void)snprintf(name, sizeof name, "%sr%zu", i > 0 ? ", " : ", overrides: [",
                       rule->overrides[i]);
        add(name);
    }
    add(rule->n_overrides > 0 ? "]" : "");
}

static void rule_make(struct prng *prng, size_t idx)
{
    struct rule *rule = &rules[idx];
    char head[64];

    *rule = (struct rule){.n_parts = prng_below(prng, 3)};
    (void)snprintf(head, sizeof head, "- {name: r%zu, match: {", idx);
    add(head);
    for (size_t i = 0; i < NAMES; i++) {
        if (prng_below(prng, 4) == 0) {
            condition_make(prng, i, &rule->conditions[i]);
            condition_write(i, &rule->conditions[i]);
        }
    }
    add("}, key: [");
    rule->parts[0] = prng_below(prng, NAMES);
    rule->parts[1] = (rule->parts[0] + 1) % NAMES;
    for (size_t i = 0; i < rule->n_parts; i++) {
        add(i > 0 ? ", " : "");
        add(names[rule->parts[i]]);
    }
    add("], limit: {requests: 1, per: 1s}");
    overrides_make(prng, idx, rule);
    add(rule->is_shadow ? ", mode: shadow}\n" : "}\n");
}

/** Bit by bit; texts that are no addresses are in no network. */
static bool network_holds(const char *network, const char *word)
{
    char base[64];
    unsigned char left[16];
    unsigned char right[16];
    const char *slash = strchr(network, '/');
    int family = strchr(network, ':') != NULL ? AF_INET6 : AF_INET;

    (void)snprintf(base, sizeof base, "%.*s", (int)(slash - network), network);
    if (inet_pton(family, base, left) != 1 || inet_pton(family, word, right) != 1) {
        return false;
    }
    for (int i = 0; i < atoi(slash + 1); i++) {
        if (((left[i / 8] ^ right[i / 8]) >> (7 - i % 8) & 1) != 0) {
            return false;
        }
    }
    return true;
}

static bool value_holds(const char *value, const char *word, size_t name)
{
    if (is_by_segment(name)) {
        return rules_pattern_matches(bytes_of(value), bytes_of(word));
    }
    if (is_by_network(name) && strchr(value, '/') != NULL) {
        return network_holds(value, word);
    }
    if (value[strlen(value) - 1] == '*') {
        return strncmp(value, word, strlen(value) - 1) == 0;
    }
    return strcmp(value, word) == 0;
}

static bool condition_holds(const struct condition *condition, const char *word,
                            size_t name)
{
    bool is_match = word != NULL && condition->n == 0;

    for (size_t i = 0; word != NULL && i < condition->n; i++) {
        is_match = is_match || value_holds(condition->values[i], word, name);
    }
    return is_match != condition->is_negated;
}

static bool rule_matches(const struct rule *rule, const struct facts *facts)
{
    for (size_t i = 0; i < NAMES; i++) {
        const char *word = facts->words[i] < 0 ? NULL : words[i][facts->words[i]];

        if (rule->conditions[i].is_there
            && !condition_holds(&rule->conditions[i], word, i)) {
            return false;
        }
    }
    return true;
}

static bool rule_has_key(const struct rule *rule, const struct facts *facts)
{
    bool has_all = true;

    for (size_t i = 0; i < rule->n_parts; i++) {
        has_all = has_all && facts->words[rule->parts[i]] >= 0;
    }
    return has_all || facts->words[4] >= 0;
}

/** The length of a key says which parts it has and how they are written. */
static size_t key_len(const struct rule *rule, const struct facts *facts)
{
    size_t n = 0;

    for (size_t i = 0; i < rule->n_parts; i++) {
        size_t name = rule->parts[i];
        int word = facts->words[name] >= 0 ? facts->words[name] : facts->words[4];
        size_t from = facts->words[name] >= 0 ? name : 4;

        n += 3 + strlen(names[name]);
        n += from != 4                             ? strlen(words[from][word])
             : strchr(words[4][word], ':') != NULL ? 8
                                                   : 4;
    }
    return n;
}

static bool is_overridden(size_t idx, const struct facts *facts)
{
    for (size_t i = idx + 1; i < n_rules; i++) {
        for (size_t j = 0; j < rules[i].n_overrides; j++) {
            if (rules[i].overrides[j] == idx && !rules[i].is_shadow
                && rule_matches(&rules[i], facts) && rule_has_key(&rules[i], facts)) {
                return true;
            }
        }
    }
    return false;
}

static void check(const struct facts *facts, uint64_t seed)
{
    uint32_t n_matched = 0;
    uint32_t n_skipped = 0;
    uint32_t n_overridden = 0;
    uint32_t n_hits = 0;
    bool is_good = true;

    for (size_t i = 0; i < n_rules; i++) {
        if (!rule_matches(&rules[i], facts)) {
            continue;
        }
        n_matched++;
        if (!rule_has_key(&rules[i], facts)) {
            n_skipped++;
            continue;
        }
        if (is_overridden(i, facts)) {
            n_overridden++;
            continue;
        }
        if (n_hits < RULES_HITS_MAX) {
            is_good = is_good && n_hits < result.n_hits
                      && result.hits[n_hits].rule->idx == i
                      && result.hits[n_hits].key.len == key_len(&rules[i], facts);
        }
        n_hits++;
    }
    is_good = is_good && result.n_matched == n_matched
              && result.n_skipped_no_key == n_skipped
              && result.n_overridden == n_overridden
              && result.is_cut == (n_hits > RULES_HITS_MAX)
              && result.n_hits == (n_hits > RULES_HITS_MAX ? RULES_HITS_MAX : n_hits);
    if (!is_good) {
        fail_msg("SEED=%llu matched %u not %u, hits %u not %u, in\n%s",
                 (unsigned long long)seed, result.n_matched, n_matched, result.n_hits,
                 n_hits, text);
    }
}

static void request_make(struct prng *prng, const struct rules_set *set,
                         struct rules_request *request, struct facts *facts)
{
    memset(request, 0, sizeof *request);
    for (size_t i = 0; i < NAMES; i++) {
        bool is_sent = prng_below(prng, 5) > 0;

        facts->words[i] = is_sent ? (int)prng_below(prng, WORDS) : -1;
        if (is_sent) {
            request_text(set, request, names[i], words[i][facts->words[i]]);
        }
    }
}

static void test_model(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(3);

    (void)state;
    prng_init(&prng, seed);
    for (int i = 0; i < SETS; i++) {
        struct rules_set *set;

        text_len = 0;
        add("version: 1\ndomain: d\nrules:\n");
        n_rules = 1 + prng_below(&prng, RULES_MOST);
        for (size_t j = 0; j < n_rules; j++) {
            rule_make(&prng, j);
        }
        set = load_good(text);
        for (int j = 0; j < REQUESTS; j++) {
            struct rules_request request;
            struct facts facts;

            request_make(&prng, set, &request, &facts);
            rules_eval(set, &request, &result);
            check(&facts, seed);
        }
        rules_set_free(set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
