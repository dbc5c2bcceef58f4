#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/decide/receipt.h"

static const struct receipt_item item_said = {
    .limit = {0, 1, 2, 0xfb, 0xff, 5, 6, 7, 8},
    .amount = 20,
    .place = 30000000,
    .store = 'l',
};

static const char text_said[] = "AAEC-_8FBgcI:20:30000000:l";

static struct receipt_item largest(uint8_t id)
{
    struct receipt_item item = {
        .limit = {id},
        .amount = RULES_AMOUNT_MAX,
        .place = INT64_C(999999999999999999),
        .store = 'z',
    };
    return item;
}

static bool reads(const char *text, struct receipt *receipt)
{
    return receipt_read((const uint8_t *)text, strlen(text), receipt);
}

static void written_is_read(void **context)
{
    (void)context;
    char buf[RECEIPT_BYTES_MAX];
    struct receipt receipt;
    struct text text = text_in(buf, sizeof(buf));
    assert_true(receipt_add(&text, &item_said));
    assert_int_equal(text.len, strlen(text_said));
    assert_memory_equal(buf, text_said, text.len);
    struct receipt_item other = largest(1);
    assert_true(receipt_add(&text, &other));
    assert_true(receipt_read((const uint8_t *)buf, text.len, &receipt));
    assert_int_equal(receipt.n_items, 2);
    assert_memory_equal(receipt.items[0].limit, item_said.limit,
                        sizeof(item_said.limit));
    assert_int_equal(receipt.items[0].amount, 20);
    assert_int_equal(receipt.items[0].place, 30000000);
    assert_int_equal(receipt.items[0].store, 'l');
    assert_int_equal(receipt.items[1].amount, other.amount);
    assert_int_equal(receipt.items[1].place, other.place);
}

static void three_always_fit_and_what_does_not_leaves_no_trace(void **context)
{
    (void)context;
    char buf[RECEIPT_BYTES_MAX];
    struct text text = text_in(buf, sizeof(buf));
    for (uint8_t i = 0; i < 3; i++) {
        struct receipt_item item = largest(i);
        assert_true(receipt_add(&text, &item));
    }
    assert_int_equal(text.len, RECEIPT_BYTES_MAX);
    assert_false(receipt_add(&text, &item_said));
    assert_int_equal(text.len, RECEIPT_BYTES_MAX);
    assert_false(text.is_cut);
}

static void place_that_could_not_be_read_is_not_written(void **context)
{
    (void)context;
    char buf[RECEIPT_BYTES_MAX];
    struct text text = text_in(buf, sizeof(buf));
    struct receipt_item item = item_said;
    item.place = -1;
    assert_false(receipt_add(&text, &item));
    item.place = INT64_C(1000000000000000000);
    assert_false(receipt_add(&text, &item));
    assert_int_equal(text.len, 0);
}

static void anything_else_is_no_receipt(void **context)
{
    (void)context;
    static const char *const wrong[] = {
        "",
        "AAEC-_8FBgcI",
        "AAEC-_8FBgc:20:30000000:l",
        "AAEC-_8FBgcII:20:30000000:l",
        "AAEC+/8FBgcI:20:30000000:l",
        "AAEC-_8FBgc=:20:30000000:l",
        "AAEC-_8FBgcI:0:30000000:l",
        "AAEC-_8FBgcI:020:30000000:l",
        "AAEC-_8FBgcI:-20:30000000:l",
        "AAEC-_8FBgcI:+20:30000000:l",
        "AAEC-_8FBgcI: 20:30000000:l",
        "AAEC-_8FBgcI:1000000001:30000000:l",
        "AAEC-_8FBgcI:10000000000:30000000:l",
        "AAEC-_8FBgcI:20:00:l",
        "AAEC-_8FBgcI:20:1000000000000000000:l",
        "AAEC-_8FBgcI:20::l",
        "AAEC-_8FBgcI:20:30000000:",
        "AAEC-_8FBgcI:20:30000000:L",
        "AAEC-_8FBgcI:20:30000000:ll",
        "AAEC-_8FBgcI:20:30000000:l,",
        ",AAEC-_8FBgcI:20:30000000:l",
        "AAEC-_8FBgcI:20:30000000:l AAEC-_8FBgcJ:20:30000000:l",
        "AAEC-_8FBgcI:20:30000000:l,AAEC-_8FBgcI:1:1:l", /* twice the same */
    };
    struct receipt receipt;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(reads(wrong[i], &receipt));
    }
    for (size_t i = 0; i < sizeof(text_said) - 1; i++) {
        char text[sizeof(text_said)];
        memcpy(text, text_said, sizeof(text_said));
        assert_false(receipt_read((const uint8_t *)text_said, i, &receipt));
        text[i] = '\x80';
        assert_false(reads(text, &receipt));
    }
    assert_true(reads(text_said, &receipt));
    assert_true(reads("AAEC-_8FBgcI:1:0:a", &receipt));
}

static void most_items_fill_it(void **context)
{
    (void)context;
    struct receipt receipt;
    char text[(RECEIPT_ITEMS_MAX + 1) * 19 + 1] = "";
    for (int i = 0; i < RECEIPT_ITEMS_MAX; i++) {
        char item[] = ",AAAAAAAAAAAA:1:0:a";
        item[12] = (char)('A' + i);
        strcat(text, i == 0 ? item + 1 : item);
    }
    assert_true(reads(text, &receipt));
    assert_int_equal(receipt.n_items, RECEIPT_ITEMS_MAX);
    strcat(text, ",BAAAAAAAAAAA:1:0:a");
    assert_true(strlen(text) > RECEIPT_BYTES_MAX);
    assert_false(reads(text, &receipt));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(three_always_fit_and_what_does_not_leaves_no_trace),
        cmocka_unit_test(place_that_could_not_be_read_is_not_written),
        cmocka_unit_test(anything_else_is_no_receipt),
        cmocka_unit_test(most_items_fill_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
