/*
 * Bytes as a receipt.
 *
 * Laws:      what is read is written again as the same bytes: each receipt has one text;
 *            amounts and places are within their bounds, no limit is named twice.
 * Must reach: receipts of several items, each way in which one is wrong.
 */
#include "agent/decide/receipt.h"

#include "tests/fuzz/fuzz.h"

static void check_item(const struct receipt_item *item)
{
    FUZZ_CHECK(item->amount > 0 && item->amount <= RULES_AMOUNT_MAX);
    FUZZ_CHECK(item->place >= 0 && item->place < INT64_C(10000000000000000));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char buf[RECEIPT_BYTES_MAX];
    struct text text = text_in(buf, sizeof(buf));
    struct receipt receipt;
    uint8_t *copy = fuzz_copy(data, len);
    if (receipt_read(copy, len, &receipt)) {
        FUZZ_CHECK(receipt.n_items > 0 && receipt.n_items <= RECEIPT_ITEMS_MAX);
        for (unsigned i = 0; i < receipt.n_items; i++) {
            check_item(&receipt.items[i]);
            FUZZ_CHECK(receipt_add(&text, &receipt.items[i]));
        }
        FUZZ_CHECK(text.len == len && memcmp(buf, copy, len) == 0);
    }
    free(copy);
    return 0;
}
