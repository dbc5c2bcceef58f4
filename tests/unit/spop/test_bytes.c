#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/bytes.h"

static void a_view_leaves_out_the_nul(void **state)
{
    (void)state;
    struct spop_bytes view = spop_bytes_view("abc");
    assert_int_equal(view.len, 3);
    assert_memory_equal(view.ptr, "abc", 3);
    assert_int_equal(spop_bytes_view("").len, 0);
}

static void only_the_same_bytes_are_equal(void **state)
{
    (void)state;
    assert_true(spop_bytes_is(spop_bytes_view("abc"), "abc"));
    assert_false(spop_bytes_is(spop_bytes_view("abc"), "abd"));
    assert_false(spop_bytes_is(spop_bytes_view("abc"), "ABC"));
    assert_false(spop_bytes_is(spop_bytes_view("ab"), "abc"));
    assert_false(spop_bytes_is(spop_bytes_view("abcd"), "abc"));
    assert_true(spop_bytes_is((struct spop_bytes){0}, ""));
    static const uint8_t with_nul[] = {'a', 0, 'b'};
    struct spop_bytes view = {.ptr = with_nul, .len = sizeof(with_nul)};
    assert_false(spop_bytes_is(view, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_leaves_out_the_nul),
        cmocka_unit_test(only_the_same_bytes_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
