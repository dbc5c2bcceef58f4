#define _POSIX_C_SOURCE 200112L /* inet_ntop. NOLINT */

#include "rules/address.h"

#include <string.h>

#include <arpa/inet.h>

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

/** A number of bits in digits. @return -1 when it is none or over 255 */
static int bits_read(struct rules_bytes text)
{
    uint8_t bits;

    return text.len > 0 && octet_read(text, &bits) == text.len ? bits : -1;
}

size_t rules_network_key(struct rules_bytes address, uint8_t bits,
                         uint8_t out[RULES_NETWORK_KEY_BYTES_MAX])
{
    size_t whole = bits / 8U;

    out[0] = bits;
    memcpy(out + 1, address.ptr, address.len);
    if (whole < address.len) {
        out[1 + whole] &= (uint8_t)(0xff00U >> bits % 8U);
        memset(out + 2 + whole, 0, address.len - whole - 1);
    }
    return 1 + address.len;
}

enum rules_network_status rules_network_parse(struct rules_bytes text,
                                              struct rules_network *network)
{
    struct rules_bytes head = cut_at(text, '/');
    struct rules_address address = rules_address_parse(head);
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];
    int bits;

    if (address.len == 0 || head.len == text.len) {
        return RULES_NETWORK_NONE;
    }
    bits = bits_read(
        (struct rules_bytes){text.ptr + head.len + 1, text.len - head.len - 1});
    if (bits < 0) {
        return RULES_NETWORK_NONE;
    }
    if (address.len == 4 && memchr(head.ptr, ':', head.len) != NULL) {
        if (bits < 96) {
            return RULES_NETWORK_BITS; /* not all of it is IPv4 */
        }
        bits -= 96;
    }
    if (bits > address.len * 8) {
        return RULES_NETWORK_BITS;
    }
    *network = (struct rules_network){address, (uint8_t)bits};
    (void)rules_network_key(rules_address_bytes(&address), (uint8_t)bits, key);
    memcpy(network->address.bytes, key + 1, address.len);
    return memcmp(address.bytes, key + 1, address.len) == 0 ? RULES_NETWORK_OK
                                                            : RULES_NETWORK_HOST_BITS;
}

void rules_address_print(const struct rules_address *address,
                         char out[RULES_ADDRESS_PRINT_BYTES])
{
    out[0] = '\0';
    (void)inet_ntop(address->len == 16 ? AF_INET6 : AF_INET, address->bytes, out,
                    RULES_ADDRESS_PRINT_BYTES);
}

struct rules_bytes rules_address_group(struct rules_bytes address,
                                       struct rules_ip_prefix prefix,
                                       uint8_t room[RULES_NETWORK_KEY_BYTES_MAX])
{
    uint8_t bits = address.len == 4 ? prefix.v4_bits : prefix.v6_bits;

    if (bits % 8 == 0) {
        return (struct rules_bytes){address.ptr, bits / 8U};
    }
    (void)rules_network_key(address, bits, room);
    return (struct rules_bytes){room + 1, bits / 8U + 1};
}
