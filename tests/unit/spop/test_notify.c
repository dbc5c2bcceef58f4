#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/notify.h"

#include "tests/support/guard_page.h"
#include "tests/unit/spop/support.h"

static const char golden[] = "05\"check\" 03 02\"ip\" 067f000001"
                             " 04\"path\" 0802\"/a\" 04\"meth\" 0803\"GET\"";

static void a_golden_payload_is_walked(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_notify it;
    struct spop_message msg;
    struct spop_arg arg;
    spop_notify_init(&it, wire_bytes(&wire, golden));
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_END);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
    expect_bytes("message", msg.name, "\"check\"");
    assert_int_equal(msg.n_args, 3);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_OK);
    expect_bytes("first", arg.name, "\"ip\"");
    assert_int_equal(arg.value.type, SPOP_VALUE_IPV4);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_OK);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_OK);
    expect_bytes("third", arg.value.bytes, "\"GET\"");
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_END);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_END);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_END);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_END);
}

static void unread_arguments_are_passed_over(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_notify it;
    struct spop_message msg;
    struct spop_arg arg;
    spop_notify_init(&it, wire_bytes(&wire, "01\"a\" 02 00 11 00 0801\"b\""
                                            "01\"c\" 00"
                                            "00 01 01\"d\" 0405"));
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_OK);
    assert_int_equal(arg.name.len, 0);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
    expect_bytes("second", msg.name, "\"c\"");
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_END);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
    assert_int_equal(msg.name.len, 0);
    assert_int_equal(spop_notify_next_arg(&it, &arg), SPOP_OK);
    assert_int_equal(arg.value.integer, 5);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_END);
}

static void a_payload_may_have_no_message(void **state)
{
    (void)state;
    struct spop_notify it;
    struct spop_message msg;
    spop_notify_init(&it, (struct spop_bytes){0});
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_END);
}

static unsigned args_count(struct spop_notify *it)
{
    unsigned n_args = 0;
    struct spop_arg arg;
    while (spop_notify_next_arg(it, &arg) == SPOP_OK) {
        n_args++;
    }
    return n_args;
}

static void the_number_of_arguments_is_unsigned(void **state)
{
    (void)state;
    static const unsigned numbers[] = {0, 1, 127, 128, 255};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint8_t buf[1024];
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_write_string(&w, (struct spop_bytes){(const uint8_t *)"m", 1});
        spop_write_u8(&w, (uint8_t)numbers[i]);
        for (unsigned arg = 0; arg < numbers[i]; arg++) {
            spop_write_u8(&w, 0);
            spop_write_u8(&w, SPOP_VALUE_NULL);
        }
        struct spop_notify it;
        struct spop_message msg;
        spop_notify_init(&it, written(&w));
        assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
        assert_int_equal(msg.n_args, numbers[i]);
        assert_int_equal(args_count(&it), numbers[i]);
        assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_END);
    }
}

static void long_names_are_read(void **state)
{
    (void)state;
    static const uint8_t name[2288] = {0};
    for (size_t len = 2287; len <= sizeof(name); len++) {
        uint8_t buf[4096];
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_write_string(&w, (struct spop_bytes){name, len});
        spop_write_u8(&w, 0);
        struct spop_notify it;
        struct spop_message msg;
        spop_notify_init(&it, written(&w));
        assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
        assert_int_equal(msg.name.len, len);
    }
}

static const struct refused_case {
    const char *hex;
    enum spop_status status;
    bool is_in_message; /* the message itself is malformed, not an argument */
} refused[] = {
    {"01", SPOP_ERR_SHORT, true},
    {"01\"a\"", SPOP_ERR_SHORT, true},
    {"ffffffffffffffffffff7f 00", SPOP_ERR_VARINT, true},
    {"01\"a\" 01", SPOP_ERR_SHORT, false},
    {"01\"a\" ff 00 00", SPOP_ERR_SHORT, false},
    {"01\"a\" 01 01\"b\"", SPOP_ERR_SHORT, false},
    {"01\"a\" 01 05\"b\" 00", SPOP_ERR_SHORT, false},
    {"01\"a\" 01 01\"b\" 0a", SPOP_ERR_TYPE, false},
    {"01\"a\" 01 01\"b\" 0f", SPOP_ERR_TYPE, false},
    {"01\"a\" 01 01\"b\" 06 7f", SPOP_ERR_SHORT, false},
    {"01\"a\" 01 01\"b\" 04 ffffffffffffffffffff7f", SPOP_ERR_VARINT, false},
};

static enum spop_status args_walk(struct spop_notify *it)
{
    struct spop_arg arg = {.name = {.len = 99}};
    enum spop_status status = SPOP_OK;
    while (status == SPOP_OK) {
        arg.name.len = 99;
        status = spop_notify_next_arg(it, &arg);
    }
    assert_int_equal(arg.name.len, 99);
    return status;
}

static void malformed_payloads_are_refused_for_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct refused_case *c = &refused[i];
        struct wire wire;
        struct spop_notify it;
        struct spop_message msg = {.n_args = 999};
        spop_notify_init(&it, wire_bytes(&wire, c->hex));
        enum spop_status status = spop_notify_next_message(&it, &msg);
        if (!c->is_in_message) {
            expect_equal(c->hex, status, SPOP_OK);
            status = args_walk(&it);
            msg.n_args = 999;
        }
        expect_equal(c->hex, status, c->status);
        struct spop_arg arg;
        expect_equal(c->hex, spop_notify_next_message(&it, &msg), c->status);
        expect_equal(c->hex, spop_notify_next_arg(&it, &arg), c->status);
        assert_int_equal(msg.n_args, 999);
    }
}

static void passing_over_arguments_finds_their_errors(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_notify it;
    struct spop_message msg;
    spop_notify_init(&it, wire_bytes(&wire, "01\"a\" 02 00 00"));
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_OK);
    assert_int_equal(spop_notify_next_message(&it, &msg), SPOP_ERR_SHORT);
}

static void every_cut_is_found_without_reading_past_it(void **state)
{
    (void)state;
    struct guard_page guard;
    struct wire wire;
    struct spop_bytes whole = wire_bytes(&wire, golden);
    guard_page_init(&guard, whole.len);
    for (size_t len = 1; len < whole.len; len++) {
        const uint8_t *place = guard_page_place(&guard, whole.ptr, len);
        struct spop_notify it;
        struct spop_message msg;
        spop_notify_init(&it, (struct spop_bytes){place, len});
        enum spop_status status = SPOP_OK;
        while (status == SPOP_OK) {
            status = spop_notify_next_message(&it, &msg);
        }
        assert_int_equal(status, SPOP_ERR_SHORT);
    }
    guard_page_release(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_golden_payload_is_walked),
        cmocka_unit_test(unread_arguments_are_passed_over),
        cmocka_unit_test(a_payload_may_have_no_message),
        cmocka_unit_test(the_number_of_arguments_is_unsigned),
        cmocka_unit_test(long_names_are_read),
        cmocka_unit_test(malformed_payloads_are_refused_for_good),
        cmocka_unit_test(passing_over_arguments_finds_their_errors),
        cmocka_unit_test(every_cut_is_found_without_reading_past_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
