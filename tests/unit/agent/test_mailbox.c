#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/net/mailbox.h"

static struct mailbox mailbox;

static void letters_come_in_order_and_each_once(void **context)
{
    (void)context;
    struct letter letter;
    mailbox_init(&mailbox);
    assert_false(mailbox_get(&mailbox, &letter));
    int next = 0;
    for (int round = 0; round < 3; round++) { /* past the end of the ring */
        for (int i = 0; i < MAILBOX_LETTERS_MAX; i++) {
            mailbox_put(&mailbox, (struct letter){.type = LETTER_CONNECTION, .fd = i});
        }
        for (int i = 0; i < MAILBOX_LETTERS_MAX; i++) {
            assert_true(mailbox_get(&mailbox, &letter));
            assert_int_equal(letter.fd, i);
        }
        mailbox_put(&mailbox, (struct letter){.type = LETTER_DRAIN, .fd = next});
        assert_true(mailbox_get(&mailbox, &letter));
        assert_int_equal(letter.type, LETTER_DRAIN);
        assert_int_equal(letter.fd, next++);
    }
    assert_false(mailbox_get(&mailbox, &letter));
    mailbox_fini(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_come_in_order_and_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
