#include "agent/decide/key.h"

#include <string.h>

#include <sodium.h>

static const char hex[] = "0123456789ABCDEF";

static char *put_bytes(char *out, const char *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

static char *put_name(char *out, const char *name, size_t most)
{
    size_t len = strlen(name);
    ENSURE(len > 0 && len <= most);
    return put_bytes(out, name, len);
}

static char *put_number(char *out, int64_t number)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        *out++ = digits[--n];
    }
    return out;
}

static char letter_of(enum limit_algorithm algorithm)
{
    switch (algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return 's';
    case LIMIT_TOKEN_BUCKET:
        return 't';
    case LIMIT_FIXED_WINDOW:
        return 'f';
    case LIMIT_LEAKY_BUCKET:
        return 'l';
    case LIMIT_SLIDING_LOG:
        return 'g';
    }
    NEVER("algorithm");
}

static char *put_per(char *out, const struct key_name *name)
{
    if (name->calendar != NULL) {
        return put_name(out, name->calendar, KEY_CALENDAR_BYTES_MAX);
    }
    if (name->per_us % US_PER_S == 0) {
        out = put_number(out, name->per_us / US_PER_S);
    } else {
        out = put_number(out, name->per_us / US_PER_MS);
        *out++ = 'm';
    }
    *out++ = 's';
    return out;
}

void key_form_init(struct key_form *form, const struct key_name *name)
{
    char *at = put_name(form->head, name->prefix, KEY_PREFIX_BYTES_MAX);
    *at++ = ':';
    at = put_name(at, name->domain, KEY_NAME_BYTES_MAX);
    at = put_bytes(at, ":{", 2);
    form->head_bytes = (size_t)(at - form->head);

    form->rule_bytes = (size_t)(put_name(form->rule, name->rule, KEY_NAME_BYTES_MAX)
                                - form->rule);
    at = put_bytes(form->tail, "}:", 2);
    at = put_name(at, name->rule, KEY_NAME_BYTES_MAX);
    if (name->limit != NULL) {
        *at++ = '.';
        at = put_name(at, name->limit, KEY_NAME_BYTES_MAX);
    }
    *at++ = ':';
    *at++ = letter_of(name->algorithm);
    at = put_per(at, name);
    form->tail_bytes = (size_t)(at - form->tail);
}

static char *put_digest(char *out, struct key_text text, const uint8_t *secret)
{
    uint8_t digest[KEY_DIGEST_BYTES];
    /* Fails only for lengths out of its range; these are constants within it. */
    (void)crypto_generichash(digest, sizeof(digest), (const uint8_t *)text.ptr,
                             text.len, secret, KEY_SECRET_BYTES);
    *out++ = '*';
    for (size_t i = 0; i < sizeof(digest); i++) {
        *out++ = hex[digest[i] >> 4];
        *out++ = hex[digest[i] & 15];
    }
    return out;
}

static char *put_text(char *out, struct key_text text, const struct key_style *style)
{
    if (style->is_hashed) {
        return put_digest(out, text, style->secret);
    }
    if (text.len <= KEY_TEXT_BYTES) {
        return put_bytes(out, text.ptr, text.len);
    }
    out = put_bytes(out, text.ptr, KEY_SHOWN_BYTES);
    return put_digest(out, text, style->secret);
}

size_t key_write(const struct key_form *form, const struct key_style *style,
                 struct key_text key, const struct key_text *tag, char *out)
{
    char *at = put_bytes(out, form->head, form->head_bytes);
    if (key.len == 0) {
        at = put_bytes(at, form->rule, form->rule_bytes);
    } else {
        at = put_text(at, tag != NULL ? *tag : key, style);
    }
    at = put_bytes(at, form->tail, form->tail_bytes);
    if (key.len > 0 && tag != NULL) {
        *at++ = ':';
        at = put_text(at, key, style);
    }
    return (size_t)(at - out);
}
