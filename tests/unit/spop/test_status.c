#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/spop.h"

static void every_code_has_a_text(void **state)
{
    (void)state;
#define X(name, value, text) assert_string_equal(spop_code_text(name), text);
    SPOP_CODE_TABLE(X)
#undef X
    assert_non_null(spop_code_text((enum spop_code)14));
}

static void only_registered_codes_are_registered(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 300; number++) {
        bool is_registered = number <= 13 || number == 99;
        assert_int_equal(spop_code_is_registered(number), is_registered);
    }
    assert_false(spop_code_is_registered(UINT64_MAX));
    assert_false(spop_code_is_registered((uint64_t)1 << 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_text),
        cmocka_unit_test(only_registered_codes_are_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
