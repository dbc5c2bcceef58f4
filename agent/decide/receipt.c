#include "agent/decide/receipt.h"

#include <string.h>

#include <sodium.h>

enum {
    ID_CHARS = 12,
    AMOUNT_DIGITS_MAX = 10,
    PLACE_DIGITS_MAX = 18,
    BASE64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING,
};
_Static_assert(ID_CHARS * 6 == RULES_SHORT_ID_BYTES * 8, "no bits are left over");

#define AMOUNT_MAX RULES_AMOUNT_MAX
#define PLACE_MAX  (INT64_C(1000000000000000000) - 1)

bool receipt_add(struct text *text, const struct receipt_item *item)
{
    char id[ID_CHARS + 1];
    size_t len = text->len;
    (void)sodium_bin2base64(id, sizeof(id), item->limit, sizeof(item->limit), BASE64);
    text_add(text, len > 0 ? "," : "");
    text_add_bytes(text, id, ID_CHARS);
    text_add(text, ":");
    text_add_int64(text, item->amount);
    text_add(text, ":");
    text_add_int64(text, item->place);
    text_add(text, ":");
    text_add_bytes(text, &item->store, 1);
    if (text->is_cut || item->place < 0 || item->place > PLACE_MAX) {
        text_rewind(text, len);
        return false;
    }
    return true;
}

/* What is left to read. */
struct rest {
    const char *ptr;
    size_t len;
};

static bool skip(struct rest *rest, char c)
{
    if (rest->len == 0 || *rest->ptr != c) {
        return false;
    }
    rest->ptr++;
    rest->len--;
    return true;
}

/* The decoder takes some bytes beyond ASCII for characters: hence the look back. */
static bool read_id(struct rest *rest, uint8_t *id)
{
    char again[ID_CHARS + 1];
    if (rest->len < ID_CHARS
        || sodium_base642bin(id, RULES_SHORT_ID_BYTES, rest->ptr, ID_CHARS, NULL, NULL,
                             NULL, BASE64)
               != 0) {
        return false;
    }
    (void)sodium_bin2base64(again, sizeof(again), id, RULES_SHORT_ID_BYTES, BASE64);
    if (memcmp(again, rest->ptr, ID_CHARS) != 0) {
        return false;
    }
    rest->ptr += ID_CHARS;
    rest->len -= ID_CHARS;
    return true;
}

/* A number as text_add_int64 writes it: no sign, no leading zero. */
static bool read_number(struct rest *rest, size_t n_digits_max, int64_t *number)
{
    size_t n = 0;
    *number = 0;
    while (n < rest->len && n < n_digits_max && rest->ptr[n] >= '0'
           && rest->ptr[n] <= '9') {
        *number = *number * 10 + (rest->ptr[n] - '0');
        n++;
    }
    if (n == 0 || (n > 1 && *rest->ptr == '0')) {
        return false;
    }
    rest->ptr += n;
    rest->len -= n;
    return true;
}

static bool read_store(struct rest *rest, char *store)
{
    if (rest->len == 0 || *rest->ptr < 'a' || *rest->ptr > 'z') {
        return false;
    }
    *store = *rest->ptr;
    return skip(rest, *store);
}

static bool read_item(struct rest *rest, struct receipt_item *item)
{
    return read_id(rest, item->limit) && skip(rest, ':')
           && read_number(rest, AMOUNT_DIGITS_MAX, &item->amount) && item->amount > 0
           && item->amount <= AMOUNT_MAX && skip(rest, ':')
           && read_number(rest, PLACE_DIGITS_MAX, &item->place) && skip(rest, ':')
           && read_store(rest, &item->store);
}

/* A counter is charged once a request: none is named twice. */
static bool is_new(const struct receipt *receipt)
{
    const struct receipt_item *last = &receipt->items[receipt->n_items];
    for (unsigned i = 0; i < receipt->n_items; i++) {
        if (memcmp(receipt->items[i].limit, last->limit, sizeof(last->limit)) == 0) {
            return false;
        }
    }
    return true;
}

bool receipt_read(const uint8_t *bytes, size_t len, struct receipt *receipt)
{
    struct rest rest = {.ptr = (const char *)bytes, .len = len};
    receipt->n_items = 0;
    if (len > RECEIPT_BYTES_MAX) {
        return false;
    }
    do {
        if (receipt->n_items == RECEIPT_ITEMS_MAX
            || !read_item(&rest, &receipt->items[receipt->n_items])
            || !is_new(receipt)) {
            return false;
        }
        receipt->n_items++;
    } while (skip(&rest, ','));
    return rest.len == 0;
}
