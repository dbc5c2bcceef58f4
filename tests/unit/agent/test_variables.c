#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spop/spop.h"

#include "agent/decide/variables.h"

static void names_and_numbers_are_one_to_one(void **context)
{
    (void)context;
    for (int i = 0; i < VARIABLES_N; i++) {
        assert_int_equal(variable_find(variable_text((enum variable)i)), i);
    }
    assert_int_equal(variable_find("nonsense"), -1);
    assert_int_equal(variable_find(""), -1);
}

/* HAProxy builds scope.prefix.name in a buffer of 64 bytes and allows few characters. */
static void names_are_what_haproxy_takes(void **context)
{
    (void)context;
    for (int i = 0; i < VARIABLES_N; i++) {
        const char *text = variable_text((enum variable)i);
        assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyz_"), strlen(text));
        assert_true(strlen("txn.rl.") + strlen(text) <= SPOP_VARIABLE_BYTES_MAX);
    }
}

static void decision_comes_first(void **context)
{
    (void)context;
    assert_int_equal(VARIABLE_ACTION, 0);
    assert_int_equal(VARIABLE_DENY, 1);
}

static void defaults(void **context)
{
    (void)context;
    variable_set want = VARIABLE_BIT(VARIABLE_ACTION) | VARIABLE_BIT(VARIABLE_DENY)
                        | VARIABLE_BIT(VARIABLE_STATUS) | VARIABLE_BIT(VARIABLE_RULE)
                        | VARIABLE_BIT(VARIABLE_RETRY_AFTER)
                        | VARIABLE_BIT(VARIABLE_DELAY_MS)
                        | VARIABLE_BIT(VARIABLE_REASON)
                        | VARIABLE_BIT(VARIABLE_RECEIPT);
    assert_int_equal(variables_default(), want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_are_one_to_one),
        cmocka_unit_test(names_are_what_haproxy_takes),
        cmocka_unit_test(decision_comes_first),
        cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
