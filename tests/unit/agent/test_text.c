#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/decide/text.h"

static void assert_text(const struct text *text, const char *want)
{
    assert_int_equal(text->len, strlen(want));
    assert_memory_equal(text->buf, want, text->len);
}

static void appends(void **context)
{
    (void)context;
    char buf[64];
    struct text text = text_in(buf, sizeof(buf));
    text_add(&text, "r=");
    text_add_int64(&text, 0);
    text_add(&text, "");
    text_add_int64(&text, -7);
    assert_text(&text, "r=0-7");
    assert_false(text.is_cut);
}

static void numbers_at_their_ends(void **context)
{
    (void)context;
    char buf[64];
    struct text text = text_in(buf, sizeof(buf));
    text_add_int64(&text, INT64_MAX);
    text_add(&text, " ");
    text_add_int64(&text, INT64_MIN);
    assert_text(&text, "9223372036854775807 -9223372036854775808");
}

static void numbers_of_every_length(void **context)
{
    (void)context;
    uint64_t power = 1;
    for (int digits = 1; digits <= 19; digits++, power *= 10) {
        const int64_t numbers[] = {(int64_t)power, (int64_t)(power / 2),
                                   (int64_t)(power - 1), (int64_t)(power + 7),
                                   -(int64_t)power};
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            char buf[32];
            char want[32];
            struct text text = text_in(buf, sizeof(buf));
            (void)snprintf(want, sizeof(want), "%" PRId64, numbers[i]);
            text_add_int64(&text, numbers[i]);
            assert_text(&text, want);
            text = text_in(buf, strlen(want) - 1); /* one byte too few: nothing */
            text_add_int64(&text, numbers[i]);
            assert_true(text.is_cut);
            assert_int_equal(text.len, 0);
        }
    }
}

static void what_does_not_fit_is_left_out_until_rewound(void **context)
{
    (void)context;
    char buf[8];
    struct text text = text_in(buf, 5);
    text_add(&text, "abc");
    text_add(&text, "def");
    assert_true(text.is_cut);
    text_add(&text, "g"); /* sticky: nothing follows a gap */
    assert_text(&text, "abc");
    text_rewind(&text, 2);
    assert_false(text.is_cut);
    text_add(&text, "xyz");
    assert_text(&text, "abxyz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends),
        cmocka_unit_test(numbers_at_their_ends),
        cmocka_unit_test(numbers_of_every_length),
        cmocka_unit_test(what_does_not_fit_is_left_out_until_rewound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
