#include "rules/key_text.h"

#include <string.h>

#include "rules/hex.h"
#include "rules/program.h"

static const char digits[] = "0123456789ABCDEF";
static const char instead_name[] = "!ip";

enum {
    VALUE_BYTES_MAX = 4096, /* of a text that is read */
    HEX_BYTES = 2,
};

/** Text being written; room for it is there. */
struct writer {
    char *out;
    size_t len;
};

static void write_bytes(struct writer *writer, const void *bytes, size_t len)
{
    memcpy(writer->out + writer->len, bytes, len);
    writer->len += len;
}

static void write_char(struct writer *writer, char c)
{
    writer->out[writer->len++] = c;
}

static void write_hex(struct writer *writer, uint8_t byte)
{
    write_char(writer, digits[byte >> 4]);
    write_char(writer, digits[byte & 0xf]);
}

static bool is_plain(uint8_t c)
{
    bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

    return is_letter || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '~'
           || c == '-';
}

static void write_escaped(struct writer *writer, struct rules_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (is_plain(bytes.ptr[i])) {
            write_char(writer, (char)bytes.ptr[i]);
        } else {
            write_char(writer, '%');
            write_hex(writer, bytes.ptr[i]);
        }
    }
}

/** The bytes of a group, with those that do not count. */
static void write_group(struct writer *writer, struct rules_bytes group, uint8_t len)
{
    struct rules_address address = {.len = len};
    char text[RULES_ADDRESS_PRINT_BYTES];

    memcpy(address.bytes, group.ptr, group.len);
    rules_address_print(&address, text);
    write_escaped(writer, (struct rules_bytes){(const uint8_t *)text, strlen(text)});
}

static void write_long(struct writer *writer, struct rules_bytes value)
{
    write_escaped(writer, (struct rules_bytes){value.ptr, RULES_KEY_HEAD_BYTES});
    write_char(writer, '!');
    for (size_t i = RULES_KEY_HEAD_BYTES; i < value.len; i++) {
        write_hex(writer, value.ptr[i]);
    }
}

static void write_value(struct writer *writer, enum rules_key_tag tag,
                        struct rules_bytes value)
{
    switch (tag) {
    case RULES_KEY_TEXT:
        write_escaped(writer, value);
        return;
    case RULES_KEY_LONG:
        write_long(writer, value);
        return;
    case RULES_KEY_ADDRESS4:
    case RULES_KEY_INSTEAD4:
        write_group(writer, value, 4);
        return;
    case RULES_KEY_ADDRESS6:
    case RULES_KEY_INSTEAD6:
        write_group(writer, value, 16);
        return;
    }
}

static void write_name(struct writer *writer, enum rules_key_tag tag,
                       struct rules_bytes name)
{
    if (tag == RULES_KEY_INSTEAD4 || tag == RULES_KEY_INSTEAD6) {
        write_bytes(writer, instead_name, sizeof instead_name - 1);
    } else {
        write_bytes(writer, name.ptr, name.len);
    }
}

/** Take the next of the lengths that stand before bytes, and these. */
static struct rules_bytes bytes_take(struct rules_bytes *rest)
{
    struct rules_bytes bytes = {rest->ptr + 1, rest->ptr[0]};

    rest->ptr += 1 + bytes.len;
    rest->len -= 1 + bytes.len;
    return bytes;
}

size_t rules_key_text(struct rules_bytes key, char out[RULES_KEY_TEXT_BYTES_MAX])
{
    return rules_key_parts_text(key, UINT32_MAX, out);
}

size_t rules_key_parts_text(struct rules_bytes key, uint32_t parts,
                            char out[RULES_KEY_TEXT_BYTES_MAX])
{
    struct writer writer = {out, 0};
    struct rules_bytes rest = key;

    for (; rest.len > 0; parts >>= 1) {
        struct rules_bytes name = bytes_take(&rest);
        enum rules_key_tag tag = (enum rules_key_tag)rest.ptr[0];
        struct rules_bytes value;

        rest.ptr++;
        rest.len--;
        value = bytes_take(&rest);
        if ((parts & 1) == 0) {
            continue;
        }
        if (writer.len > 0) {
            write_char(&writer, ',');
        }
        write_name(&writer, tag, name);
        write_char(&writer, '=');
        write_value(&writer, tag, value);
    }
    out[writer.len] = '\0';
    return writer.len;
}

/** Undo the escapes of a value. @return its length, or -1 for a bad one */
static ptrdiff_t unescape(struct rules_bytes text, uint8_t out[VALUE_BYTES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        int high;
        int low;

        if (n == VALUE_BYTES_MAX) {
            return -1;
        }
        if (text.ptr[i] != '%') {
            out[n++] = text.ptr[i];
            continue;
        }
        if (text.len - i <= HEX_BYTES) {
            return -1;
        }
        high = rules_hex_value(text.ptr[i + 1]);
        low = rules_hex_value(text.ptr[i + 2]);
        if (high < 0 || low < 0) {
            return -1;
        }
        out[n++] = (uint8_t)(high << 4 | low);
        i += HEX_BYTES;
    }
    return (ptrdiff_t)n;
}

/** A part of a key as text, taken apart; the value is not escaped any more. */
struct part {
    struct rules_bytes name;
    struct rules_bytes text; /* of the value, as it stands */
    struct rules_bytes value;
    uint8_t room[VALUE_BYTES_MAX];
};

/** Take the next part. @return false when it is none */
static bool part_take(struct rules_bytes *rest, struct part *part)
{
    const uint8_t *comma = memchr(rest->ptr, ',', rest->len);
    size_t len = comma != NULL ? (size_t)(comma - rest->ptr) : rest->len;
    const uint8_t *equals = memchr(rest->ptr, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - rest->ptr) : 0;
    ptrdiff_t n;

    if (name_len == 0 || (comma != NULL && len + 1 == rest->len)) {
        return false;
    }
    part->name = (struct rules_bytes){rest->ptr, name_len};
    part->text = (struct rules_bytes){equals + 1, len - name_len - 1};
    n = unescape(part->text, part->room);
    part->value = (struct rules_bytes){part->room, n > 0 ? (size_t)n : 0};
    len += comma != NULL;
    rest->ptr += len;
    rest->len -= len;
    return n > 0;
}

/** "…!digest", as it is written for a long value. @return whether it was one */
static bool long_read(const struct part *part, uint8_t *out, size_t *len)
{
    size_t digest_len = (size_t)HEX_BYTES * RULES_KEY_DIGEST_BYTES;
    struct rules_bytes text = part->text;
    uint8_t shortened[RULES_KEY_VALUE_BYTES_MAX];

    /* Escapes leave the mark and what is behind it as they are. */
    if (part->value.len != RULES_KEY_HEAD_BYTES + 1 + digest_len
        || part->value.ptr[RULES_KEY_HEAD_BYTES] != '!' || text.len <= digest_len
        || text.ptr[text.len - digest_len - 1] != '!') {
        return false;
    }
    memcpy(shortened, part->value.ptr, RULES_KEY_HEAD_BYTES);
    for (size_t i = 0; i < RULES_KEY_DIGEST_BYTES; i++) {
        const uint8_t *hex = part->value.ptr + RULES_KEY_HEAD_BYTES + 1 + HEX_BYTES * i;
        int high = rules_hex_value(hex[0]);
        int low = rules_hex_value(hex[1]);

        if (high < 0 || low < 0) {
            return false;
        }
        shortened[RULES_KEY_HEAD_BYTES + i] = (uint8_t)(high << 4 | low);
    }
    *len += rules_key_put_long(out + *len, part->name,
                               (struct rules_bytes){shortened, sizeof shortened});
    return true;
}

static bool name_is(struct rules_bytes name, const char *text)
{
    return rules_bytes_equal(name,
                             (struct rules_bytes){(const uint8_t *)text, strlen(text)});
}

static const struct rules_link *link_named(const struct rules_part *part,
                                           struct rules_bytes name)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (rules_bytes_equal(part->links[i].name, name)) {
            return &part->links[i];
        }
    }
    return NULL;
}

/** Write a part whose value is an address, or may be one. */
static enum rules_key_text_status address_put(const struct part *part,
                                              const struct rules_matcher *matcher,
                                              const struct rules_link *link,
                                              bool is_instead, uint8_t *out,
                                              size_t *len)
{
    struct rules_address address = rules_address_parse(part->value);
    struct rules_bytes bytes = rules_address_bytes(&address);

    if (address.len == 0) {
        return RULES_KEY_TEXT_MALFORMED;
    }
    *len += is_instead ? rules_key_put_instead(out + *len, link->name, bytes,
                                               matcher->ip_prefix)
                       : rules_key_put_address(out + *len, link->name, bytes,
                                               matcher->ip_prefix);
    return RULES_KEY_TEXT_OK;
}

static enum rules_key_text_status part_put(const struct part *part,
                                           const struct rules_matcher *matcher,
                                           const struct rules_part *wanted,
                                           bool is_address, uint8_t *out, size_t *len)
{
    bool is_instead = name_is(part->name, instead_name);
    const struct rules_link *link = is_instead ? &wanted->links[0]
                                               : link_named(wanted, part->name);

    if (link == NULL) {
        return RULES_KEY_TEXT_FOREIGN;
    }
    if (is_instead || link->slot == RULES_SLOT_IP) {
        return address_put(part, matcher, link, is_instead, out, len);
    }
    if (is_address
        && address_put(part, matcher, link, false, out, len) == RULES_KEY_TEXT_OK) {
        return RULES_KEY_TEXT_OK;
    }
    if (!long_read(part, out, len)) {
        *len += rules_key_put_text(out + *len, link->name, part->value);
    }
    return RULES_KEY_TEXT_OK;
}

enum rules_key_text_status rules_key_text_read(const struct rules_set *set,
                                               const struct rules_rule *rule,
                                               struct rules_bytes text, bool is_address,
                                               uint8_t *out, size_t *len)
{
    const struct rules_matcher *matcher = &set->matchers[rule->idx];
    enum rules_key_text_status status = RULES_KEY_TEXT_OK;
    struct rules_bytes rest = text;
    struct part part;
    uint32_t n = 0;

    *len = 0;
    while (rest.len > 0) {
        if (!part_take(&rest, &part)) {
            return RULES_KEY_TEXT_MALFORMED;
        }
        if (n == matcher->n_parts) {
            status = RULES_KEY_TEXT_FOREIGN;
        }
        if (status == RULES_KEY_TEXT_OK) {
            status = part_put(&part, matcher, &matcher->parts[n++], is_address, out,
                              len);
        }
        if (status == RULES_KEY_TEXT_MALFORMED) {
            return status;
        }
    }
    return n == matcher->n_parts ? status : RULES_KEY_TEXT_FOREIGN;
}
