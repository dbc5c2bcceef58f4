/**
 * @file rules/address.h  Client addresses: read, canonical form, group.
 *
 * Model:     values. Canonical: an IPv4-mapped IPv6 address is the IPv4 address.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    len = 0 for what is no address.
 * Limits:    a text of at most RULES_ADDRESS_TEXT_BYTES_MAX bytes.
 */
#ifndef RULES_ADDRESS_H
#define RULES_ADDRESS_H

#include <string.h>

#include "rules/rules.h"

enum {
    /* [, 45 of an address, %, a zone, ], :, port */
    RULES_ADDRESS_TEXT_BYTES_MAX = 96,
};

/** Descriptor `ip` always has this slot: it stands in for missing key parts. */
enum {
    RULES_SLOT_IP = 0
};

struct rules_address {
    uint8_t len; /* 4, 16, or 0: no address */
    uint8_t bytes[16];
};

/**
 * View the canonical form inside 4 or 16 bytes in network order.
 *
 * @return 4 or 16 of the bytes; empty for any other length
 */
static inline struct rules_bytes rules_address_canonical(struct rules_bytes bytes)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    if (bytes.len == 16 && memcmp(bytes.ptr, mapped, sizeof mapped) == 0) {
        return (struct rules_bytes){bytes.ptr + sizeof mapped, 4};
    }
    return bytes.len == 4 || bytes.len == 16 ? bytes : (struct rules_bytes){NULL, 0};
}

/** Read an address as text; brackets, port and zone are left out. */
struct rules_address rules_address_parse(struct rules_bytes text);

/** How many bits of an address make a group that counts as one client. */
struct rules_ip_prefix {
    uint8_t v4_bits;
    uint8_t v6_bits;
};

/** IPv4 whole; of IPv6 a /64, which is what one customer is given. */
#define RULES_IP_PREFIX_DEFAULT ((struct rules_ip_prefix){32, 64})

/** A range of addresses: those that begin with the same bits. */
struct rules_network {
    struct rules_address address; /* canonical; len 0: none */
    uint8_t bits;                 /* of `address` that count; 8 x len: one address */
};

enum rules_network_status {
    RULES_NETWORK_OK = 0,
    RULES_NETWORK_NONE,      /* no address, a slash, and a number */
    RULES_NETWORK_BITS,      /* more bits than the address has, or part IPv4 only */
    RULES_NETWORK_HOST_BITS, /* bits are set beyond those that count */
};

/**
 * Read an address with the number of its bits that count behind a slash. An IPv4-mapped
 * network of 96 bits and more is the IPv4 network.
 *
 * @param network  filled for OK and HOST_BITS; bits that do not count are cleared
 */
RULES_MUST_USE enum rules_network_status rules_network_parse(
    struct rules_bytes text, struct rules_network *network);

enum {
    RULES_NETWORK_KEY_BYTES_MAX = 17
};

/**
 * Write what networks are looked up by: the number of bits, and the address with the
 * others cleared.
 *
 * @param address  4 or 16 bytes
 * @return bytes written; two networks are the same when these are
 */
size_t rules_network_key(struct rules_bytes address, uint8_t bits,
                         uint8_t out[RULES_NETWORK_KEY_BYTES_MAX]);

enum {
    RULES_ADDRESS_PRINT_BYTES = 46
};

/** Write an address as text (RFC 5952). */
void rules_address_print(const struct rules_address *address,
                         char out[RULES_ADDRESS_PRINT_BYTES]);

/**
 * Find what of a canonical address counts in a key.
 *
 * @param room  where the bytes are written where they are no part of `address`
 * @return the bytes of its group: those that hold a bit that counts, the others cleared
 */
struct rules_bytes rules_address_group(struct rules_bytes address,
                                       struct rules_ip_prefix prefix,
                                       uint8_t room[RULES_NETWORK_KEY_BYTES_MAX]);

static inline struct rules_bytes rules_address_bytes(
    const struct rules_address *address)
{
    return (struct rules_bytes){address->bytes, address->len};
}

#endif
