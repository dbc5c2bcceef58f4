#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/bytes.h"
#include "spop/messages.h"
#include "spop/notify.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

static void text_arg(const struct spop_message_writer *message, const char *name,
                     const char *text)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
    spop_message_arg(message, spop_bytes_view(name), &value);
}

static void messages_are_byte_exact(void **state)
{
    (void)state;
    static const uint8_t ip[] = {127, 0, 0, 1};
    uint8_t buf[128];
    struct spop_writer w;
    struct spop_message_writer message;
    struct spop_value address = {.type = SPOP_VALUE_IPV4, .bytes = {ip, sizeof(ip)}};
    spop_writer_init(&w, buf, sizeof(buf));
    spop_message_begin(&message, &w, spop_bytes_view("check"));
    spop_message_arg(&message, spop_bytes_view("ip"), &address);
    text_arg(&message, "", "/a");
    spop_message_begin(&message, &w, spop_bytes_view("none"));
    expect_bytes("messages", written(&w),
                 "05\"check\" 02 02\"ip\" 067f000001 00 0802\"/a\" 04\"none\" 00");
}

/* What does not fit leaves no trace: neither its bytes nor a count. */
static void an_argument_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    uint8_t buf[16];
    for (size_t cap = 0; cap < sizeof(buf); cap++) {
        struct spop_writer w;
        struct spop_message_writer message;
        spop_writer_init(&w, buf, cap);
        spop_message_begin(&message, &w, spop_bytes_view("m"));
        bool has_message = w.status == SPOP_OK;
        assert_true(has_message == (cap >= 3));
        text_arg(&message, "name", "text");
        assert_true((w.status == SPOP_OK) == (cap >= 14));
        assert_int_equal(w.len, cap >= 14 ? 14 : cap >= 3 ? 3 : 0);
        if (has_message) {
            assert_int_equal(buf[2], w.status == SPOP_OK);
        }
    }
}

static void put_arguments(void *arg)
{
    static uint8_t buf[2048];
    struct spop_writer w;
    struct spop_message_writer message;
    unsigned n_args = *(const unsigned *)arg;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_message_begin(&message, &w, spop_bytes_view("m"));
    for (unsigned i = 0; i < n_args; i++) {
        text_arg(&message, "a", "b");
    }
    struct spop_notify it;
    struct spop_message read;
    spop_notify_init(&it, written(&w));
    assert_int_equal(spop_notify_next_message(&it, &read), SPOP_OK);
    assert_int_equal(read.n_args, n_args);
    assert_int_equal(spop_notify_next_message(&it, &read), SPOP_END);
}

static void as_many_as_a_byte_can_count(void **state)
{
    (void)state;
    unsigned most = 255;
    unsigned too_many = 256;
    put_arguments(&most);
    assert_true(death_by_abort(put_arguments, &too_many));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_byte_exact),
        cmocka_unit_test(an_argument_is_written_whole_or_not_at_all),
        cmocka_unit_test(as_many_as_a_byte_can_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
