#include "rules/key.h"

#include <string.h>

#include <sodium.h>

_Static_assert(RULES_KEY_VALUE_BYTES_MAX <= UINT8_MAX
                   && RULES_NAME_BYTES_MAX <= UINT8_MAX,
               "lengths are one byte");

static inline size_t put(uint8_t *out, struct rules_bytes name, enum rules_key_tag tag,
                         struct rules_bytes value)
{
    size_t n = 0;

    out[n++] = (uint8_t)name.len;
    memcpy(out + n, name.ptr, name.len);
    n += name.len;
    out[n++] = (uint8_t)tag;
    out[n++] = (uint8_t)value.len;
    memcpy(out + n, value.ptr, value.len);
    return n + value.len;
}

size_t rules_key_put_long(uint8_t *out, struct rules_bytes name,
                          struct rules_bytes shortened)
{
    return put(out, name, RULES_KEY_LONG, shortened);
}

static size_t put_digest(uint8_t *out, struct rules_bytes name,
                         struct rules_bytes value)
{
    uint8_t shortened[RULES_KEY_VALUE_BYTES_MAX];

    memcpy(shortened, value.ptr, RULES_KEY_HEAD_BYTES);
    /* Fails only for lengths out of its range; these are constants within it. */
    (void)crypto_generichash(shortened + RULES_KEY_HEAD_BYTES, RULES_KEY_DIGEST_BYTES,
                             value.ptr, value.len, NULL, 0);
    return rules_key_put_long(out, name,
                              (struct rules_bytes){shortened, sizeof shortened});
}

size_t rules_key_put_text(uint8_t *out, struct rules_bytes name,
                          struct rules_bytes value)
{
    return value.len <= RULES_KEY_VALUE_BYTES_MAX
               ? put(out, name, RULES_KEY_TEXT, value)
               : put_digest(out, name, value);
}

size_t rules_key_put_address(uint8_t *out, struct rules_bytes name,
                             struct rules_bytes address, struct rules_ip_prefix prefix)
{
    uint8_t room[RULES_NETWORK_KEY_BYTES_MAX];

    return put(out, name, address.len == 4 ? RULES_KEY_ADDRESS4 : RULES_KEY_ADDRESS6,
               rules_address_group(address, prefix, room));
}

size_t rules_key_put_instead(uint8_t *out, struct rules_bytes name,
                             struct rules_bytes address, struct rules_ip_prefix prefix)
{
    uint8_t room[RULES_NETWORK_KEY_BYTES_MAX];

    return put(out, name, address.len == 4 ? RULES_KEY_INSTEAD4 : RULES_KEY_INSTEAD6,
               rules_address_group(address, prefix, room));
}

uint32_t rules_key_draw(const char *rule, struct rules_bytes key)
{
    static const uint8_t zeros[crypto_shorthash_KEYBYTES];
    uint8_t text[1 + RULES_NAME_BYTES_MAX + 2 + RULES_KEY_BYTES_MAX];
    uint8_t hash[crypto_shorthash_BYTES];
    size_t name_len = strlen(rule);
    uint64_t number = 0;
    size_t n = 0;

    text[n++] = (uint8_t)name_len;
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): bytes, no text */
    memcpy(text + n, rule, name_len);
    n += name_len;
    text[n++] = (uint8_t)(key.len >> 8);
    text[n++] = (uint8_t)key.len;
    memcpy(text + n, key.ptr, key.len);
    (void)crypto_shorthash(hash, text, n + key.len, zeros);
    for (size_t i = sizeof hash; i-- > 0;) {
        number = number << 8 | hash[i];
    }
    return (uint32_t)(number % 10000);
}
