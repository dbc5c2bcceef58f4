/**
 * @file rules/key.h  The bytes that name a counter: an injective encoding of key parts.
 *
 * Model:     parts one after another, each: name length, name, tag, value length, value.
 *            Lengths are one byte. No two different tuples give the same bytes.
 * Ownership: writes into the caller's room; keeps nothing.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    a part is at most RULES_KEY_PART_BYTES_MAX, so that RULES_KEY_PARTS_MAX fit
 *            into RULES_KEY_BYTES_MAX. Values over RULES_KEY_VALUE_BYTES_MAX are cut and
 *            get a digest of the whole (BLAKE2b, 32 bytes) instead of the rest.
 */
#ifndef RULES_KEY_H
#define RULES_KEY_H

#include "rules/address.h"

enum {
    RULES_KEY_VALUE_BYTES_MAX = 96,
    RULES_KEY_HEAD_BYTES = 64, /* what is kept of a longer value, */
    RULES_KEY_DIGEST_BYTES = RULES_KEY_VALUE_BYTES_MAX - RULES_KEY_HEAD_BYTES,
    RULES_KEY_PART_BYTES_MAX = 1 + RULES_NAME_BYTES_MAX + 1 + 1
                               + RULES_KEY_VALUE_BYTES_MAX,
};

_Static_assert(RULES_KEY_PARTS_MAX *RULES_KEY_PART_BYTES_MAX <= RULES_KEY_BYTES_MAX,
               "a key of the most and longest parts must fit");

/** What a value is. Part of stored keys: never renumbered. */
enum rules_key_tag {
    RULES_KEY_TEXT = 1,
    RULES_KEY_LONG = 2, /* the first RULES_KEY_HEAD_BYTES, and a digest */
    RULES_KEY_ADDRESS4 = 3,
    RULES_KEY_ADDRESS6 = 4,
    RULES_KEY_INSTEAD4 = 5, /* the part is missing: the client's address instead */
    RULES_KEY_INSTEAD6 = 6,
};

/**
 * Write a text part.
 *
 * @param out   room for RULES_KEY_PART_BYTES_MAX
 * @param name  at most RULES_NAME_BYTES_MAX bytes
 * @return bytes written
 */
size_t rules_key_put_text(uint8_t *out, struct rules_bytes name,
                          struct rules_bytes value);

/** The same for a longer value, of which RULES_KEY_VALUE_BYTES_MAX bytes are known: those
 *  that are kept, and the digest. */
size_t rules_key_put_long(uint8_t *out, struct rules_bytes name,
                          struct rules_bytes shortened);

/** The same for the group of an address, given in canonical form. */
size_t rules_key_put_address(uint8_t *out, struct rules_bytes name,
                             struct rules_bytes address, struct rules_ip_prefix prefix);

/** The same for an address that stands in for a missing part. */
size_t rules_key_put_instead(uint8_t *out, struct rules_bytes name,
                             struct rules_bytes address, struct rules_ip_prefix prefix);

/**
 * Draw a number for a key: the same on every host and in every version, another for each
 * rule. SipHash-2-4 with a key of zeros over the name (one byte of length before it) and
 * the key (two, most significant first), read least significant byte first, modulo 10000.
 *
 * @return 0 to 9999
 */
uint32_t rules_key_draw(const char *rule, struct rules_bytes key);

/** Whether a key is in a share, in hundredths of a percent: a smaller share lies inside a
 *  larger one. */
static inline bool rules_key_is_in_share(const char *rule, struct rules_bytes key,
                                         int32_t permyriad)
{
    return rules_key_draw(rule, key) < (uint32_t)permyriad;
}

#endif
