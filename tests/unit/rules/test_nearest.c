#include "rules/yamltree.h"

#include "tests/unit/rules/support.h"

static const char *const names[] = {"name", "match", "key", "limit", "advertise"};

static const char *nearest(const char *text)
{
    const char *found = yamltree_nearest(text, names, sizeof names / sizeof names[0]);

    return found != NULL ? found : "-";
}

static void test_nearest(void **state)
{
    char longest[65] = "";
    char longer[66] = "";
    const char *const self[] = {longest};

    (void)state;
    assert_string_equal(nearest("nmae"), "name");
    assert_string_equal(nearest("mach"), "match");
    assert_string_equal(nearest("keys"), "key");
    assert_string_equal(nearest("limits"), "limit");
    assert_string_equal(nearest("advertize"), "advertise");
    assert_string_equal(nearest("advrtize"), "advertise");
    assert_string_equal(nearest("key"), "key");
    assert_string_equal(nearest("kyx"), "-");
    assert_string_equal(nearest("something"), "-");
    assert_string_equal(nearest(""), "-");
    memset(longest, 'a', 64);
    memset(longer, 'a', 65);
    assert_ptr_equal(yamltree_nearest(longest, self, 1), longest);
    assert_null(yamltree_nearest(longer, self, 1));
    assert_null(yamltree_nearest("a", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
