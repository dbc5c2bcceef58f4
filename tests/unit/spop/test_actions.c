#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/ack.h"
#include "spop/actions.h"
#include "spop/bytes.h"

#include "tests/support/guard_page.h"
#include "tests/support/variable.h"
#include "tests/unit/spop/support.h"

static const struct bad_case {
    const char *name;
    const char *hex;
    unsigned n_good; /* actions before the bad one */
    enum spop_status status;
} bad_cases[] = {
    {"no action has byte 0", "00 03 02 01\"a\" 00", 0, SPOP_ERR_FRAME},
    {"nor byte 3", "03 03 02 01\"a\" 00", 0, SPOP_ERR_FRAME},
    {"set with two arguments", "01 02 02 01\"a\" 00", 0, SPOP_ERR_FRAME},
    {"unset with three", "02 03 02 01\"a\" 00", 0, SPOP_ERR_FRAME},
    {"a scope beyond response", "01 03 05 01\"a\" 00", 0, SPOP_ERR_FRAME},
    {"an empty name", "02 02 02 00", 0, SPOP_ERR_FRAME},
    {"a verb alone", "01", 0, SPOP_ERR_SHORT},
    {"a name cut short", "01 03 02 05\"a\"", 0, SPOP_ERR_SHORT},
    {"no value", "01 03 02 01\"a\"", 0, SPOP_ERR_SHORT},
    {"a value of no type", "01 03 02 01\"a\" 0a", 0, SPOP_ERR_TYPE},
    {"a number over 64 bits", "01 03 02 01\"a\" 04 ffffffffffffffffffff7f", 0,
     SPOP_ERR_VARINT},
    {"after a good one", "01 03 02 01\"a\" 11 02 02 02 01\"b\" 07", 2, SPOP_ERR_SHORT},
};

static void the_first_bad_action_ends_the_walk(void **state)
{
    (void)state;
    struct guard_page guard;
    guard_page_init(&guard, 256);
    for (size_t i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
        const struct bad_case *c = &bad_cases[i];
        struct wire wire;
        struct spop_bytes payload = wire_bytes(&wire, c->hex);
        payload.ptr = guard_page_place(&guard, payload.ptr, payload.len);
        struct spop_actions it;
        struct spop_action action;
        enum spop_status status = SPOP_OK;
        unsigned n_good = 0;
        spop_actions_init(&it, payload);
        while ((status = spop_actions_next(&it, &action)) == SPOP_OK) {
            n_good++;
        }
        expect_equal(c->name, status, c->status);
        expect_equal(c->name, n_good, c->n_good);
        expect_equal(c->name, spop_actions_next(&it, &action), c->status);
    }
    guard_page_release(&guard);
}

static void expect_name(const struct spop_action *action, const char *name)
{
    assert_true(spop_bytes_is(action->name, name));
}

/* What ack.h writes is read back. */
static void every_action_is_read_back(void **state)
{
    (void)state;
    uint8_t buf[512];
    struct spop_writer w;
    struct spop_ack ack;
    struct spop_frame frame;
    struct spop_actions it;
    struct spop_action action;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_ack_begin(&ack, &w, 1, 2, 256);
    spop_ack_set_bool(&ack, variable(SPOP_SCOPE_TXN, "deny"), true);
    spop_ack_set_int64(&ack, variable(SPOP_SCOPE_PROC, "status"), -429);
    spop_ack_set_string(&ack, variable(SPOP_SCOPE_RES, "rule"), spop_bytes_view("r"));
    spop_ack_unset(&ack, variable(SPOP_SCOPE_SESS, "gone"));
    spop_ack_end(&ack);
    assert_int_equal(spop_frame_decode(written(&w), 256, &frame), SPOP_OK);

    spop_actions_init(&it, frame.payload);
    assert_int_equal(spop_actions_next(&it, &action), SPOP_OK);
    expect_name(&action, "deny");
    assert_int_equal(action.scope, SPOP_SCOPE_TXN);
    assert_int_equal(action.value.type, SPOP_VALUE_BOOL);
    assert_true(action.value.boolean);

    int64_t number = 0;
    assert_int_equal(spop_actions_next(&it, &action), SPOP_OK);
    expect_name(&action, "status");
    assert_int_equal(action.scope, SPOP_SCOPE_PROC);
    assert_true(spop_value_int64(&action.value, &number));
    assert_int_equal(number, -429);

    assert_int_equal(spop_actions_next(&it, &action), SPOP_OK);
    expect_name(&action, "rule");
    assert_true(spop_bytes_is(action.value.bytes, "r"));
    assert_false(action.is_unset);

    assert_int_equal(spop_actions_next(&it, &action), SPOP_OK);
    expect_name(&action, "gone");
    assert_true(action.is_unset);
    assert_int_equal(action.scope, SPOP_SCOPE_SESS);
    assert_int_equal(action.value.type, SPOP_VALUE_NULL);
    assert_int_equal(spop_actions_next(&it, &action), SPOP_END);
    assert_int_equal(spop_actions_next(&it, &action), SPOP_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_bad_action_ends_the_walk),
        cmocka_unit_test(every_action_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
