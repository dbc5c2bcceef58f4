/*
 * A rules file, and requests made of its own words.
 *
 * Laws:      rules_file_read gives a file and no error, or none and errors whose places are
 *            in the file, or the file as a whole; diagnostics are printable. Of a set,
 *            evaluation stays within its limits, keeps file order, and gives the same
 *            twice. What is printed of a file is read again, and printed as it is.
 * Must reach: every diagnostic code of rules/README.md but those of size, rules filed
 *            under values, patterns and nothing, keys of each kind of value.
 */
#include <sodium.h>

#include "rules/print.h"

#include "tests/fuzz/fuzz.h"

enum {
    WORDS_MAX = 64,
    REQUESTS_MAX = 32,
};

struct words {
    unsigned n;
    struct rules_bytes list[WORDS_MAX];
};

static struct rules_diags diags;
static struct rules_result first;
static struct rules_result second;

static void check_printable(const char *text, size_t cap)
{
    FUZZ_CHECK(memchr(text, '\0', cap) != NULL);
    for (const char *p = text; *p != '\0'; p++) {
        FUZZ_CHECK(*p >= 0x20 && *p < 0x7f);
    }
}

/* Lines, or more: YAML also breaks them at NEL, LS and PS, whose last bytes these are. */
static uint32_t count_lines(const uint8_t *text, size_t len)
{
    static const uint8_t breaks[] = {'\n', '\r', 0x85, 0xa8, 0xa9};
    uint32_t n_lines = 1;
    for (size_t i = 0; i < len; i++) {
        n_lines += memchr(breaks, text[i], sizeof(breaks)) != NULL;
    }
    return n_lines;
}

static void check_diags(const uint8_t *text, size_t len)
{
    uint32_t n_lines = count_lines(text, len);
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        const struct rules_diag *diag = &diags.kept[i];
        FUZZ_CHECK(diag->mark.line <= n_lines);
        FUZZ_CHECK(diag->mark.column <= len + 1);
        FUZZ_CHECK((diag->mark.line > 0) == (diag->mark.column > 0));
        FUZZ_CHECK(diag->caret_off < sizeof(diag->source));
        FUZZ_CHECK(diag->code != NULL);
        check_printable(diag->text, sizeof(diag->text));
        check_printable(diag->source, sizeof(diag->source));
    }
}

static void split_words(struct words *words, const uint8_t *text, size_t len)
{
    static const char between[] = " \t\r\n,:[]{}\"'";
    size_t begin = 0;
    words->n = 0;
    for (size_t i = 0; i <= len && words->n < WORDS_MAX; i++) {
        if (i < len && memchr(between, text[i], sizeof(between)) == NULL) {
            continue;
        }
        if (i > begin) {
            words->list[words->n++] = (struct rules_bytes){text + begin, i - begin};
        }
        begin = i + 1;
    }
}

/* What the n-th request has in a slot. */
static struct rules_value pick(const struct words *words, unsigned n, unsigned slot)
{
    struct rules_bytes word = words->list[(n + slot * (n % 3)) % words->n];
    unsigned kind = (n / 4 + slot) % 8;
    if (kind == 0) {
        return (struct rules_value){.type = RULES_ABSENT};
    }
    if (kind <= 2 && word.len >= 4) {
        word.len = kind == 2 && word.len >= 16 ? 16 : 4;
        return (struct rules_value){.type = RULES_ADDRESS, .bytes = word};
    }
    return (struct rules_value){.type = RULES_TEXT, .bytes = word};
}

static void check_result(const struct rules_set *set, const struct rules_result *result)
{
    FUZZ_CHECK(result->n_hits <= RULES_HITS_MAX);
    FUZZ_CHECK(result->n_matched >= result->n_hits + result->n_skipped_no_key);
    FUZZ_CHECK(result->n_matched <= rules_set_n_rules(set));
    for (uint32_t i = 0; i < result->n_hits; i++) {
        const struct rules_hit *hit = &result->hits[i];
        FUZZ_CHECK(hit->rule == rules_set_rule(set, hit->rule->idx));
        FUZZ_CHECK(i == 0 || hit->rule->idx > result->hits[i - 1].rule->idx);
        FUZZ_CHECK(hit->key.len <= RULES_KEY_BYTES_MAX);
        FUZZ_CHECK((hit->key.len > 0) == hit->rule->is_keyed);
    }
}

static void check_same(const struct rules_result *a, const struct rules_result *b)
{
    FUZZ_CHECK(a->n_hits == b->n_hits && a->n_matched == b->n_matched);
    for (uint32_t i = 0; i < a->n_hits; i++) {
        const struct rules_hit *x = &a->hits[i];
        const struct rules_hit *y = &b->hits[i];
        FUZZ_CHECK(x->rule == y->rule && x->key.len == y->key.len);
        FUZZ_CHECK(x->key.len == 0 || memcmp(x->key.ptr, y->key.ptr, x->key.len) == 0);
    }
}

static void evaluate(const struct rules_set *set, const uint8_t *text, size_t len)
{
    struct words words;
    split_words(&words, text, len);
    for (unsigned n = 0; words.n > 0 && n < REQUESTS_MAX; n++) {
        struct rules_request request;
        for (unsigned slot = 0; slot < RULES_SLOTS_MAX; slot++) {
            request.values[slot] = pick(&words, n, slot);
        }
        rules_eval(set, &request, &first);
        rules_eval(set, &request, &second);
        check_result(set, &first);
        check_same(&first, &second);
    }
}

static void check_limits(const struct rules_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const struct rules_limit *limit = &rule->limits[i];
        FUZZ_CHECK(limit->requests >= 0 && limit->requests <= RULES_AMOUNT_MAX);
        FUZZ_CHECK(limit->burst >= 0 && limit->burst <= RULES_AMOUNT_MAX);
        FUZZ_CHECK((limit->burst > 0) == (limit->requests > 0));
        FUZZ_CHECK(limit->per_ticks >= 1 && limit->per_ticks <= 1000000);
        FUZZ_CHECK(limit->per_ticks * limit->tick_us == limit->per_us);
    }
}

static void check_set(const struct rules_set *set)
{
    FUZZ_CHECK(diags.n_errors == 0);
    FUZZ_CHECK(rules_set_n_rules(set) > 0);
    for (uint32_t i = 0; i < rules_set_n_rules(set); i++) {
        const struct rules_rule *rule = rules_set_rule(set, i);
        FUZZ_CHECK(rule->idx == i);
        FUZZ_CHECK(rule->n_limits >= 1 && rule->n_limits <= RULES_LIMITS_MAX);
        check_limits(rule);
    }
}

/* Beyond the bounds of a file it cannot be read. */
static void check_print(const struct rules_file *file)
{
    size_t len = 0;
    size_t len_again = 0;
    uint32_t n_events = 0;
    char *text = rules_file_print(file, &len, &n_events);
    FUZZ_CHECK(text != NULL);
    if (len > RULES_FILE_BYTES_MAX || n_events > YAMLTREE_EVENTS_MAX) {
        free(text);
        return;
    }
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    struct rules_file *again = rules_file_read(
        &(struct rules_source){.name = "printed.yaml", .text = bytes}, &diags);
    FUZZ_CHECK(again != NULL);
    char *text_again = rules_file_print(again, &len_again, &n_events);
    FUZZ_CHECK(text_again != NULL);
    FUZZ_CHECK(len == len_again && memcmp(text, text_again, len) == 0);
    rules_file_free(again);
    free(text_again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    FUZZ_CHECK(sodium_init() >= 0);
    uint8_t *text = fuzz_copy(data, len);
    struct rules_bytes bytes = {.ptr = text, .len = len};
    rules_diags_init(&diags, "fuzz.yaml");
    struct rules_source source = {.name = "fuzz.yaml", .text = bytes};
    struct rules_file *file = rules_file_read(&source, &diags);
    if (file == NULL) {
        FUZZ_CHECK(diags.n_errors > 0);
        check_diags(text, len);
    } else {
        struct rules_set *set = rules_file_compile(file, source.now_s, &diags);
        FUZZ_CHECK(set != NULL);
        check_set(set);
        evaluate(set, text, len);
        check_print(file);
        rules_set_free(set);
    }
    rules_file_free(file);
    free(text);
    return 0;
}
