#include "rules/address.h"

#include <string.h>

#include "rules/hex.h"

static struct rules_address address_of(const uint8_t *bytes, size_t len)
{
    struct rules_bytes canonical = rules_address_canonical(
        (struct rules_bytes){bytes, len});
    struct rules_address address = {.len = (uint8_t)canonical.len};

    memcpy(address.bytes, canonical.ptr, canonical.len);
    return address;
}

/** One decimal number up to 255, without leading zeros. @return how many digits, or 0 */
static size_t octet_read(struct rules_bytes text, uint8_t *out)
{
    unsigned value = 0;
    size_t n = 0;

    for (; n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++) {
        value = value * 10 + (unsigned)(text.ptr[n] - '0');
        if (value > 255 || (n > 0 && text.ptr[0] == '0')) {
            return 0;
        }
    }
    *out = (uint8_t)value;
    return n;
}

/** Four numbers with dots between them, to the end of the text. */
static bool parse_v4(struct rules_bytes text, uint8_t out[4])
{
    size_t i = 0;

    for (size_t part = 0; part < 4; part++) {
        size_t n;

        if (part > 0 && (i == text.len || text.ptr[i++] != '.')) {
            return false;
        }
        n = octet_read((struct rules_bytes){text.ptr + i, text.len - i}, &out[part]);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return i == text.len;
}

/** Groups of an IPv6 address as they are read. */
struct groups {
    uint8_t bytes[16];
    size_t len;
    size_t gap; /* where :: stands; SIZE_MAX: nowhere yet */
};

/** One to four hex digits. @return how many were read, 0 for none or too many */
static size_t group_read(struct groups *g, struct rules_bytes text)
{
    unsigned value = 0;
    size_t n = 0;

    while (n < text.len && n < 5 && rules_hex_value(text.ptr[n]) >= 0) {
        value = value * 16 + (unsigned)rules_hex_value(text.ptr[n++]);
    }
    if (n == 0 || n > 4 || g->len > 14) {
        return 0;
    }
    g->bytes[g->len++] = (uint8_t)(value >> 8 & 0xff);
    g->bytes[g->len++] = (uint8_t)(value & 0xff);
    return n;
}

static bool groups_end(struct groups *g, uint8_t out[16])
{
    if (g->gap == SIZE_MAX) {
        memcpy(out, g->bytes, 16);
        return g->len == 16;
    }

    size_t tail = g->len - g->gap;

    memset(out, 0, 16);
    memcpy(out, g->bytes, g->gap);
    memcpy(out + 16 - tail, g->bytes + g->gap, tail);
    return g->len <= 14;
}

/** @return whether an IPv4 address stands at the end, and was taken */
static bool tail_v4_take(struct groups *g, struct rules_bytes text)
{
    if (g->len > 12 || !parse_v4(text, g->bytes + g->len)) {
        return false;
    }
    g->len += 4;
    return true;
}

/** The colon behind a group, or two. @return how many bytes, or 0 for anything else */
static size_t colons_read(struct groups *g, struct rules_bytes text)
{
    if (text.len < 2 || text.ptr[0] != ':') {
        return 0;
    }
    if (text.ptr[1] != ':') {
        return 1;
    }
    if (g->gap != SIZE_MAX) {
        return 0;
    }
    g->gap = g->len;
    return 2;
}

static bool parse_v6(struct rules_bytes text, uint8_t out[16])
{
    struct groups g = {.gap = SIZE_MAX};
    size_t i = text.len > 0 && text.ptr[0] == ':' ? colons_read(&g, text) : 0;

    if (i == 1) {
        return false; /* one colon alone at the start */
    }
    while (i < text.len) {
        struct rules_bytes rest = {text.ptr + i, text.len - i};
        size_t n;

        if (tail_v4_take(&g, rest)) {
            return groups_end(&g, out);
        }
        n = group_read(&g, rest);
        if (n == 0 || n == rest.len) {
            return n > 0 && groups_end(&g, out);
        }
        i += n;
        n = colons_read(&g, (struct rules_bytes){text.ptr + i, text.len - i});
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return g.gap != SIZE_MAX && groups_end(&g, out);
}

static bool is_port(struct rules_bytes text)
{
    if (text.len < 2 || text.len > 6 || text.ptr[0] != ':') {
        return false;
    }
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
    }
    return true;
}

static struct rules_bytes cut_at(struct rules_bytes text, uint8_t c)
{
    const uint8_t *p = text.len > 0 ? memchr(text.ptr, c, text.len) : NULL;

    return p == NULL ? text : (struct rules_bytes){text.ptr, (size_t)(p - text.ptr)};
}

/** Take [ and ] and what follows away. @return false when that is no port */
static bool brackets_strip(struct rules_bytes *text)
{
    struct rules_bytes inner = {text->ptr + 1, text->len - 1};
    struct rules_bytes head = cut_at(inner, ']');
    struct rules_bytes tail = {head.ptr + head.len, inner.len - head.len};

    if (tail.len == 0
        || (tail.len > 1
            && !is_port((struct rules_bytes){tail.ptr + 1, tail.len - 1}))) {
        return false;
    }
    *text = head;
    return true;
}

struct rules_address rules_address_parse(struct rules_bytes text)
{
    const struct rules_address none = {0};
    bool is_bracketed = text.len > 0 && text.ptr[0] == '[';
    uint8_t bytes[16];

    if (text.len > RULES_ADDRESS_TEXT_BYTES_MAX) {
        return none;
    }
    if (is_bracketed && !brackets_strip(&text)) {
        return none;
    }

    struct rules_bytes host = cut_at(text, ':');
    struct rules_bytes port = {text.ptr + host.len, text.len - host.len};

    if (!is_bracketed && (port.len == 0 || is_port(port)) && parse_v4(host, bytes)) {
        return address_of(bytes, 4);
    }
    if (parse_v6(cut_at(text, '%'), bytes)) {
        return address_of(bytes, 16);
    }
    return none;
}

struct rules_bytes rules_address_group(struct rules_bytes address)
{
    return (struct rules_bytes){address.ptr, address.len == 16
                                                 ? RULES_ADDRESS_GROUP6_BYTES
                                                 : address.len};
}
