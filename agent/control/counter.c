#include "agent/control/counter.h"

#include <inttypes.h>
#include <string.h>

#include "rules/key_text.h"
#include "rules/words.h"

struct asked {
    const struct decide_set *set;
    struct store *store;
    struct instant now;
    const char *limit; /* the name of a rule, or of a limit; NULL: all */
    struct rules_bytes key;
    bool has_key_of_rule; /* some rule has such a key */
    FILE *out;
};

static void on_done(struct store_take *take)
{
    (void)take;
}

/* What a limit's counter of a key holds. */
static struct limit_answer look(const struct asked *asked,
                                const struct rules_limit *limit, struct rules_bytes key)
{
    struct store_take take = {
        .now = asked->now,
        .n_charges = 1,
        .is_peek = true,
        .done = on_done,
        .charges[0] =
            {
                .limit = &asked->set->limits[limit->idx].limit,
                .limit_id = limit->id,
                .key = key.ptr,
                .key_bytes = key.len,
            },
    };
    store_take(asked->store, &take);
    return take.held[0];
}

static void print_limit(const struct asked *asked, const struct rules_limit *limit,
                        struct rules_bytes key, const struct limit_answer *held)
{
    char text[RULES_KEY_TEXT_BYTES_MAX];
    int64_t size = asked->set->limits[limit->idx].limit.size;
    (void)rules_key_text(key, text);
    (void)fprintf(asked->out,
                  "limit=%s algorithm=%s size=%" PRId64 " used=%" PRId64
                  " remaining=%" PRId64 " reset_ms=",
                  limit->name, rules_algorithm_name(limit->algorithm), size,
                  size - held->remaining, held->remaining);
    if (held->reset_us >= LIMIT_WAIT_US_MAX) {
        (void)fputs("never", asked->out);
    } else {
        (void)fprintf(asked->out, "%" PRId64, div_up(held->reset_us, US_PER_MS));
    }
    (void)fprintf(asked->out, " key=%s\n", text);
}

static void print_remote(const struct asked *asked, const struct rules_limit *limit,
                         struct rules_bytes key)
{
    char text[RULES_KEY_TEXT_BYTES_MAX];
    (void)rules_key_text(key, text);
    (void)fprintf(asked->out,
                  "limit=%s algorithm=%s size=%" PRId64 " store=%s key=%s\n",
                  limit->name, rules_algorithm_name(limit->algorithm),
                  asked->set->limits[limit->idx].limit.size,
                  rules_store_name(limit->rule->store), text);
}

static bool is_asked(const struct asked *asked, const struct rules_limit *limit)
{
    return asked->limit == NULL || strcmp(asked->limit, limit->name) == 0
           || strcmp(asked->limit, limit->rule->name) == 0;
}

/* A descriptor that looks like an address may have come as one, or as text: shown is the
 * one that holds something. */
static void print_counter(struct asked *asked, const struct rules_limit *limit)
{
    uint8_t keys[2][RULES_KEY_BYTES_MAX];
    struct rules_bytes key = {keys[0], 0};
    struct rules_bytes other = {keys[1], 0};
    const struct rules_set *rules = asked->set->rules;
    if (rules_key_text_read(rules, limit->rule, asked->key, false, keys[0], &key.len)
            != RULES_KEY_TEXT_OK
        || rules_key_text_read(rules, limit->rule, asked->key, true, keys[1],
                               &other.len)
               != RULES_KEY_TEXT_OK) {
        return;
    }
    asked->has_key_of_rule = true;
    if (limit->rule->store != RULES_STORE_LOCAL) { /* it is not asked for this */
        print_remote(asked, limit, key);
        return;
    }
    struct limit_answer held = look(asked, limit, key);
    if (held.reset_us == 0) {
        struct limit_answer as_address = look(asked, limit, other);
        if (as_address.reset_us != 0) {
            held = as_address;
            key = other;
        }
    }
    print_limit(asked, limit, key, &held);
}

/* What stands alone is a rule where it has no "=". */
static bool read_words(struct asked *asked, unsigned n_words, const char *const *words)
{
    bool has_key = n_words > 0 && strchr(words[n_words - 1], '=') != NULL;
    const char *key = has_key ? words[n_words - 1] : "";
    unsigned n_names = n_words - has_key;
    if (n_words == 0 || n_names > 1) {
        return false;
    }
    asked->limit = n_names > 0 ? words[0] : NULL;
    asked->key = (struct rules_bytes){(const uint8_t *)key, strlen(key)};
    return true;
}

void counter_print(const struct decide_set *set, struct store *store,
                   struct instant now, unsigned n_words, const char *const *words,
                   FILE *out)
{
    struct asked asked = {.set = set, .store = store, .now = now, .out = out};
    if (!read_words(&asked, n_words, words)) {
        (void)fputs("show counter: want " COUNTER_WORDS
                    ", where KEY is NAME=VALUE[,NAME=VALUE]\n",
                    out);
        return;
    }
    for (uint32_t i = 0; i < set->n_limits; i++) {
        const struct rules_limit *limit = rules_set_limit(set->rules, i);
        if (is_asked(&asked, limit)) {
            print_counter(&asked, limit);
        }
    }
    if (!asked.has_key_of_rule) {
        (void)fputs("show counter: no such limit has a key of these parts\n", out);
    }
}
