/**
 * @file rules/key_text.h  Keys of counters as text, for people and for other stores.
 *
 * Model:     the parts joined by ",", each `name=value`; of the value every byte outside
 *            [A-Za-z0-9_.~-] is %XX (names have no others). Addresses are in text form,
 *            with what does not count of them 0. An address that stands in for a missing
 *            part is `!ip=…`. Of a value over RULES_KEY_VALUE_BYTES_MAX the first bytes,
 *            "!", and its digest in hexadecimal. The empty key is the empty text. Two
 *            keys of one limit have one text only where a descriptor came once as an
 *            address and once as the text of that.
 * Ownership: writes into the caller's room; keeps nothing.
 * Threads:   no shared state.
 * Errors:    what is no text of a key, or none of that rule's keys, is told apart.
 */
#ifndef RULES_KEY_TEXT_H
#define RULES_KEY_TEXT_H

#include "rules/key.h"

enum {
    /* The comma behind the last part is the NUL. */
    RULES_KEY_TEXT_BYTES_MAX = RULES_KEY_PARTS_MAX
                               * (RULES_NAME_BYTES_MAX + 1
                                  + 3 * RULES_KEY_VALUE_BYTES_MAX + 1),
};

/**
 * Write the text of a key that rules_eval has made.
 *
 * @param out  gets a NUL behind it
 * @return its length
 */
size_t rules_key_text(struct rules_bytes key, char out[RULES_KEY_TEXT_BYTES_MAX]);

/** The same for some of its parts: bit i of `parts` is part i. */
size_t rules_key_parts_text(struct rules_bytes key, uint32_t parts,
                            char out[RULES_KEY_TEXT_BYTES_MAX]);

enum rules_key_text_status {
    RULES_KEY_TEXT_OK = 0,
    RULES_KEY_TEXT_MALFORMED, /* no name=value, a bad %, or no address */
    RULES_KEY_TEXT_FOREIGN,   /* the rule's key has other parts */
};

/**
 * Read the text of a key of a rule, as above; other bytes than "," and "%" may also stand
 * for themselves, and addresses are brought to the rule's group.
 *
 * @param is_address  whether values that look like addresses came as such; of `ip` they
 *                    always do
 * @param out         room for RULES_KEY_BYTES_MAX
 */
RULES_MUST_USE enum rules_key_text_status rules_key_text_read(
    const struct rules_set *set, const struct rules_rule *rule, struct rules_bytes text,
    bool is_address, uint8_t *out, size_t *len);

#endif
