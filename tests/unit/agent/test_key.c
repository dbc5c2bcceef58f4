/* Names of counters in Redis, made of keys as the rules make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "rules/key.h"
#include "rules/key_text.h"

#include "agent/decide/key.h"
#include "agent/redis/slots.h"

#include "tests/support/prng.h"

static const uint8_t secret[KEY_SECRET_BYTES] = {7};
static const struct key_style readable = {.secret = secret};
static const struct key_style hashed = {.is_hashed = true, .secret = secret};

static const struct key_name minute = {
    .prefix = "rl",
    .domain = "public_api",
    .rule = "anon_per_ip",
    .algorithm = LIMIT_SLIDING_WINDOW,
    .per_us = 60 * US_PER_S,
};

/* The name, as a text. */
static const char *name_of(const struct key_name *name, const struct key_style *style,
                           const char *key, const char *tag)
{
    static char out[KEY_BYTES_MAX + 1];
    struct key_form form;
    struct key_text tag_text = {tag, tag != NULL ? strlen(tag) : 0};
    key_form_init(&form, name);
    size_t n = key_write(&form, style, (struct key_text){key, strlen(key)},
                         tag != NULL ? &tag_text : NULL, out);
    assert_in_range(n, 1, KEY_BYTES_MAX);
    out[n] = '\0';
    return out;
}

static void a_name_says_what_it_counts(void **context)
{
    (void)context;
    assert_string_equal(name_of(&minute, &readable, "ip=203.0.113.7", NULL),
                        "rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s");
    struct key_name name = minute;
    name.limit = "burst";
    name.algorithm = LIMIT_TOKEN_BUCKET;
    name.per_us = 1500 * US_PER_MS;
    assert_string_equal(
        name_of(&name, &readable, "user=a,tenant=b", "tenant=b"),
        "rl:public_api:{tenant=b}:anon_per_ip.burst:t1500ms:user=a,tenant=b");
    name.limit = NULL;
    name.algorithm = LIMIT_FIXED_WINDOW;
    name.calendar = "day.Europe%2FBerlin";
    assert_string_equal(name_of(&name, &readable, "", NULL),
                        "rl:public_api:{anon_per_ip}:anon_per_ip:fday.Europe%2FBerlin");
    assert_string_equal(name_of(&name, &readable, "", "tenant=b"),
                        "rl:public_api:{anon_per_ip}:anon_per_ip:fday.Europe%2FBerlin");
    name.calendar = NULL;
    name.algorithm = LIMIT_SLIDING_LOG;
    name.per_us = INT64_C(31) * 86400 * US_PER_S;
    assert_string_equal(name_of(&name, &readable, "!ip=192.0.2.1", NULL),
                        "rl:public_api:{!ip=192.0.2.1}:anon_per_ip:g2678400s");
    name.algorithm = LIMIT_LEAKY_BUCKET;
    name.per_us = US_PER_MS;
    assert_string_equal(name_of(&name, &readable, "a=b", NULL),
                        "rl:public_api:{a=b}:anon_per_ip:l1ms");
}

static void long_keys_are_cut_and_digested(void **context)
{
    (void)context;
    char long_key[KEY_TEXT_BYTES + 2] = "user=";
    memset(long_key + 5, 'x', KEY_TEXT_BYTES - 5);
    const char *name = name_of(&minute, &readable, long_key, NULL);
    assert_non_null(strstr(name, long_key)); /* 200 bytes are shown */
    long_key[KEY_TEXT_BYTES] = 'x';
    name = name_of(&minute, &readable, long_key, NULL);
    const char *star = strchr(name, '*');
    assert_non_null(star);
    assert_int_equal(star - strchr(name, '{') - 1, KEY_SHOWN_BYTES);
    assert_int_equal(strchr(name, '}') - star - 1, 2 * KEY_DIGEST_BYTES);
    char other[KEY_BYTES_MAX + 1];
    (void)snprintf(other, sizeof(other), "%s", name);
    long_key[KEY_TEXT_BYTES] = 'y'; /* the last of them */
    assert_string_not_equal(name_of(&minute, &readable, long_key, NULL), other);
}

static void secret_keys_are_not_shown(void **context)
{
    (void)context;
    const char *name = name_of(&minute, &hashed, "api_key=hunter2", "api_key=hunter2");
    assert_null(strstr(name, "hunter2"));
    assert_null(strstr(name, "api_key"));
    char other[KEY_BYTES_MAX + 1];
    (void)snprintf(other, sizeof(other), "%s", name);
    static const uint8_t another[KEY_SECRET_BYTES] = {8};
    const struct key_style style = {.is_hashed = true, .secret = another};
    assert_string_not_equal(name_of(&minute, &style, "api_key=hunter2",
                                    "api_key=hunter2"),
                            other);
    assert_string_not_equal(name_of(&minute, &hashed, "api_key=hunter3",
                                    "api_key=hunter3"),
                            other);
}

static void the_longest_names_fit(void **context)
{
    (void)context;
    char word[KEY_NAME_BYTES_MAX + 1] = "";
    char calendar[KEY_CALENDAR_BYTES_MAX + 1] = "";
    char key[KEY_TEXT_BYTES + 1] = "";
    memset(word, 'w', KEY_NAME_BYTES_MAX);
    memset(calendar, 'c', KEY_CALENDAR_BYTES_MAX);
    memset(key, 'k', KEY_TEXT_BYTES);
    const struct key_name name = {
        .prefix = "prefix-of-thirty-two-bytes......",
        .domain = word,
        .rule = word,
        .limit = word,
        .algorithm = LIMIT_FIXED_WINDOW,
        .calendar = calendar,
    };
    assert_int_equal(strlen(name.prefix), KEY_PREFIX_BYTES_MAX);
    size_t n = strlen(name_of(&name, &readable, key, key));
    assert_in_range(n, KEY_BYTES_MAX - 8, KEY_BYTES_MAX);
}

static size_t name_of_value(const struct key_form *form, const uint8_t *value,
                            size_t len, char *out)
{
    uint8_t key[RULES_KEY_BYTES_MAX];
    char text[RULES_KEY_TEXT_BYTES_MAX];
    struct rules_bytes name = {(const uint8_t *)"user", 4};
    size_t n = rules_key_put_text(key, name, (struct rules_bytes){value, len});
    size_t text_len = rules_key_text((struct rules_bytes){key, n}, text);
    return key_write(form, &readable, (struct key_text){text, text_len}, NULL, out);
}

enum {
    VALUES = 24,
    MIB = 1024 * 1024,
};

/* What values hold: one character of each, alone, twice, after another; and a MiB. */
static void values_of_any_bytes_have_names_of_their_own(void **context)
{
    (void)context;
    static const char *const values[VALUES] = {
        "{",    "}",  ":",        "|",         "%",  ",",   "=",      " ",
        "\r\n", "\n", "\xc3\xa4", "a\xcc\x88", "{}", "%7B", "}{",     "a,user=b",
        "a",    "A",  "*",        "!",         "a%", "%00", "user=a", "..",
    };
    static char names[VALUES + 4][KEY_BYTES_MAX];
    static size_t lengths[VALUES + 4];
    static uint8_t large[MIB];
    struct key_form form;
    key_form_init(&form, &minute);
    memset(large, 'm', sizeof(large));
    unsigned n = 0;
    for (; n < VALUES; n++) {
        lengths[n] = name_of_value(&form, (const uint8_t *)values[n], strlen(values[n]),
                                   names[n]);
    }
    lengths[n] = name_of_value(&form, (const uint8_t *)"\0", 1, names[n]);
    n++;
    lengths[n] = name_of_value(&form, (const uint8_t *)"\0\0", 2, names[n]);
    n++;
    lengths[n] = name_of_value(&form, large, sizeof(large), names[n]);
    n++;
    large[MIB - 1] = 'n';
    lengths[n] = name_of_value(&form, large, sizeof(large), names[n]);
    n++;
    for (unsigned i = 0; i < n; i++) {
        assert_in_range(lengths[i], 1, KEY_BYTES_MAX);
        for (size_t j = 0; j < lengths[i]; j++) {
            assert_in_range(names[i][j], '!', '~'); /* readable, one word */
        }
        for (unsigned j = 0; j < i; j++) {
            assert_false(lengths[i] == lengths[j]
                         && memcmp(names[i], names[j], lengths[i]) == 0);
        }
    }
}

enum {
    RANDOM_BYTES_MAX = 300
};

struct random_value {
    uint8_t bytes[RANDOM_BYTES_MAX];
    size_t len;
    char name[KEY_BYTES_MAX];
    size_t name_len;
};

static void draw(struct prng *prng, const struct key_form *form,
                 struct random_value *value)
{
    static const char bytes[] = "{}:|%,= \r\n\0aA7*!\xc3\xa4";
    value->len = 1 + prng_below(prng, prng_below(prng, 4) == 0 ? RANDOM_BYTES_MAX : 4);
    for (size_t i = 0; i < value->len; i++) {
        value->bytes[i] = (uint8_t)bytes[prng_below(prng, sizeof(bytes) - 1)];
    }
    value->name_len = name_of_value(form, value->bytes, value->len, value->name);
}

/* Two random values have one name only if they are the same; and under every rule they lie
 * in one slot. */
static void random_values(void **context)
{
    (void)context;
    uint64_t seed = prng_seed(20261130);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    static struct random_value a;
    static struct random_value b;
    struct prng prng;
    struct key_form form;
    struct key_form others;
    struct key_name other = minute;
    other.rule = "other";
    prng_init(&prng, seed);
    key_form_init(&form, &minute);
    key_form_init(&others, &other);
    for (int i = 0; i < 50000; i++) {
        draw(&prng, &form, &a);
        draw(&prng, &form, &b);
        bool is_same = a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
        bool is_one_name = a.name_len == b.name_len
                           && memcmp(a.name, b.name, a.name_len) == 0;
        assert_int_equal(is_same, is_one_name);
        unsigned slot = slots_of_key(a.name, a.name_len);
        b.name_len = name_of_value(&others, a.bytes, a.len, b.name);
        assert_int_equal(slots_of_key(b.name, b.name_len), slot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_what_it_counts),
        cmocka_unit_test(long_keys_are_cut_and_digested),
        cmocka_unit_test(secret_keys_are_not_shown),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(values_of_any_bytes_have_names_of_their_own),
        cmocka_unit_test(random_values),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
