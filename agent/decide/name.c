#include "agent/decide/name.h"

#include <string.h>

#include <sodium.h>

#include "rules/calendar.h"
#include "rules/key_text.h"

#include "agent/decide/text.h"

enum {
    DIGEST_BYTES = crypto_shorthash_siphashx24_BYTES,
    DIGEST_TEXT_BYTES = 2 * DIGEST_BYTES
};

_Static_assert((int)NAME_SECRET_BYTES == (int)crypto_shorthash_siphashx24_KEYBYTES,
               "its key");
_Static_assert((int)NAME_KEY_HEAD_BYTES + 1 + (int)DIGEST_TEXT_BYTES
                   < (int)NAME_KEY_BYTES_MAX,
               "it is shorter");
_Static_assert(NAME_PREFIX_BYTES_MAX + 1 + RULES_NAME_BYTES_MAX + 2 + NAME_KEY_BYTES_MAX
                       + 1 + NAME_TAIL_BYTES_MAX
                   <= STORE_NAME_BYTES_MAX,
               "a name always fits");

static char letter_of(enum rules_algorithm algorithm)
{
    switch (algorithm) {
    case RULES_SLIDING_WINDOW:
        return 's';
    case RULES_TOKEN_BUCKET:
        return 't';
    case RULES_FIXED_WINDOW:
        return 'f';
    case RULES_LEAKY_BUCKET:
        return 'l';
    case RULES_SLIDING_LOG:
        return 'g';
    }
    NEVER("algorithm");
}

static void add_span(struct text *text, int64_t us)
{
    bool is_seconds = us % US_PER_S == 0;
    text_add_int64(text, us / (is_seconds ? US_PER_S : US_PER_MS));
    text_add(text, is_seconds ? "s" : "ms");
}

size_t name_print_tail(const struct rules_limit *limit, char out[NAME_TAIL_BYTES_MAX])
{
    struct text text = text_in(out, NAME_TAIL_BYTES_MAX - 1);
    const char letter[] = {letter_of(limit->algorithm), '\0'};
    char calendar[RULES_CALENDAR_TEXT_BYTES_MAX];
    text_add(&text, "}:");
    text_add(&text, limit->name);
    text_add(&text, ":");
    text_add(&text, letter);
    if (limit->calendar != NULL) {
        rules_calendar_print(limit->calendar, calendar);
        text_add(&text, calendar);
    } else {
        add_span(&text, limit->per_us);
    }
    ENSURE(!text.is_cut);
    out[text.len] = '\0';
    return text.len;
}

/* A key that is too long: what it begins with, for people, and its digest. */
static void add_long_key(struct text *text, const struct name_options *options,
                         const char *key, size_t len)
{
    uint8_t digest[DIGEST_BYTES];
    char hex[DIGEST_TEXT_BYTES + 1];
    (void)crypto_shorthash_siphashx24(digest, (const uint8_t *)key, len,
                                      options->secret);
    (void)sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    text_add_bytes(text, key, NAME_KEY_HEAD_BYTES);
    text_add(text, "!");
    text_add(text, hex);
}

size_t name_print(const struct name_options *options, const char *domain,
                  const char *rule, const char *tail, struct rules_bytes key, char *out)
{
    UNCLEARED char key_text[RULES_KEY_TEXT_BYTES_MAX];
    struct text text = text_in(out, STORE_NAME_BYTES_MAX);
    text_add(&text, options->prefix);
    text_add(&text, ":");
    text_add(&text, domain);
    text_add(&text, ":{");
    size_t len = rules_key_text(key, key_text);
    if (len == 0) {
        text_add(&text, rule);
    } else if (len <= NAME_KEY_BYTES_MAX) {
        text_add_bytes(&text, key_text, len);
    } else {
        add_long_key(&text, options, key_text, len);
    }
    text_add(&text, tail);
    ENSURE(!text.is_cut);
    return text.len;
}
