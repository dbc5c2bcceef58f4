/**
 * @file agent/decide/receipt.h  What a request was charged where, as text that comes back.
 *
 * Model:     items separated by commas, each `limit:amount:place:store`: the limit's short
 *            id as 12 characters of base64url, the amount, the number of the window or the
 *            tick it was taken in, and the letter of the store. HAProxy keeps it for the
 *            time of the response; it is readable, and says nothing that a client sent.
 *            An id stands for domain, rule, limit, algorithm, `per` and key: a receipt of
 *            what is no longer the same finds nothing.
 * Ownership: none.
 * Threads:   no shared state.
 * Errors:    what is not exactly as receipt_add writes it is no receipt, as a whole.
 * Limits:    RECEIPT_BYTES_MAX: three items always fit, four and more mostly.
 */
#ifndef AGENT_DECIDE_RECEIPT_H
#define AGENT_DECIDE_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/rules.h"

#include "agent/base.h"
#include "agent/decide/text.h"

enum {
    RECEIPT_BYTES_MAX = 134,
    RECEIPT_ITEMS_MAX = 7, /* of the shortest */
};

struct receipt_item {
    uint8_t limit[RULES_SHORT_ID_BYTES];
    int64_t amount; /* 1 to 10^9 */
    int64_t place;  /* 0 to 10^18 - 1 */
    char store;     /* a to z */
};

struct receipt {
    unsigned n_items;
    struct receipt_item items[RECEIPT_ITEMS_MAX];
};

/**
 * Append an item to a receipt.
 *
 * @param text  of a buffer of RECEIPT_BYTES_MAX
 * @return false when it does not fit; then the text is as before
 */
MUST_USE bool receipt_add(struct text *text, const struct receipt_item *item);

/** Read a receipt; false for anything else, also for nothing. */
MUST_USE bool receipt_read(const uint8_t *bytes, size_t len, struct receipt *receipt);

#endif
