#include "rules/path.h"

#include "tests/unit/rules/support.h"

static void expect(const char *path, const char *normal)
{
    uint8_t out[RULES_PATH_BYTES_MAX];
    size_t len = 0;

    if (!rules_path_normalise(bytes_of(path), out, &len) || len != strlen(normal)
        || memcmp(out, normal, len) != 0) {
        fail_msg("%s gives %.*s, not %s", path, (int)len, (const char *)out, normal);
    }
}

static void test_spellings_of_one_path(void **state)
{
    static const char *const spellings[] = {
        "/v1/auth/login",        "/v1/auth/login/",     "//v1/auth/login",
        "/v1//auth/login",       "/v1/./auth/login",    "/v1/x/../auth/login",
        "/v1/auth/%6cogin",      "/%76%31/auth/login",  "/v1/auth/login/.",
        "/v1/%2e/auth/login",    "/v1/auth/login?x=1",  "/v1/auth/login//",
        "/v1/auth/login#a",      "/../v1/auth/login",   "/v1/%2E%2e/v1/auth/login",
        "/v1/auth/x/.%2e/login", "/v1/auth/login/x/..", "/v1/auth/login/?x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        expect(spellings[i], "/v1/auth/login");
    }
}

static void test_forms(void **state)
{
    (void)state;
    expect("/", "/");
    expect("//", "/");
    expect("/.", "/");
    expect("/..", "/");
    expect("/../..", "/");
    expect("/a/..", "/");
    expect("/a/../..", "/");
    expect("/?", "/");
    expect("/a/b/../../c", "/c");
    expect("/A/b", "/A/b");
    expect("/a%2fb", "/a%2Fb");
    expect("/a%00b", "/a%00b");
    expect("/%e4", "/%E4");
    expect("/%2541", "/%2541");
    expect("/...", "/...");
    expect("/.a/..b", "/.a/..b");
    expect("/a?%zz", "/a");
    expect("/*", "/*");
    expect("/%7e%2D%5f", "/~-_");
}

static void test_no_normal_form(void **state)
{
    static const char *const paths[] = {"",    "*",    "a/b",  "?",    "/%",
                                        "/%1", "/%zz", "/a%2", "/%2?a"};
    uint8_t out[RULES_PATH_BYTES_MAX];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_false(rules_path_normalise(bytes_of(paths[i]), out, &len));
    }
}

/* At every length and place, since long and short paths are looked at differently. */
static void test_normal_at_sight(void **state)
{
    (void)state;
    for (size_t len = 1; len <= 70; len++) {
        uint8_t path[70];
        struct rules_bytes bytes = {path, len};

        memset(path, 'a', len);
        path[0] = '/';
        assert_true(rules_path_is_normal(bytes));
        for (size_t i = 1; i < len; i++) {
            for (const char *c = "%?#"; *c != '\0'; c++) {
                path[i] = (uint8_t)*c;
                assert_false(rules_path_is_normal(bytes));
            }
            path[i] = '/';
            assert_int_equal(rules_path_is_normal(bytes), i > 1 && i + 1 < len);
            if (i + 1 < len) {
                path[i + 1] = '.';
                assert_false(rules_path_is_normal(bytes));
                path[i + 1] = 'a';
            }
            path[i] = 'a';
        }
        path[0] = 'a';
        assert_false(rules_path_is_normal(bytes));
    }
    assert_false(rules_path_is_normal((struct rules_bytes){NULL, 0}));
}

static void test_length(void **state)
{
    static char path[RULES_PATH_BYTES_MAX + 100];
    uint8_t out[RULES_PATH_BYTES_MAX];
    size_t len;

    (void)state;
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[RULES_PATH_BYTES_MAX] = '\0';
    assert_true(rules_path_normalise(bytes_of(path), out, &len));
    assert_int_equal(len, RULES_PATH_BYTES_MAX);
    path[RULES_PATH_BYTES_MAX] = 'a';
    path[RULES_PATH_BYTES_MAX + 1] = '\0';
    assert_false(rules_path_normalise(bytes_of(path), out, &len));
    path[RULES_PATH_BYTES_MAX] = '?'; /* a query does not count */
    assert_true(rules_path_normalise(bytes_of(path), out, &len));
    memcpy(path + RULES_PATH_BYTES_MAX - 1, "%41", 4); /* an escape across the limit */
    assert_false(rules_path_normalise(bytes_of(path), out, &len));
}

static void test_pattern_kinds(void **state)
{
    char many[2 * RULES_PATTERN_SEGMENTS_MAX + 2] = "";

    (void)state;
    assert_int_equal(rules_pattern_kind(bytes_of("/a/b")), RULES_PATTERN_LITERAL);
    assert_int_equal(rules_pattern_kind(bytes_of("")), RULES_PATTERN_LITERAL);
    assert_int_equal(rules_pattern_kind(bytes_of("/*/b")), RULES_PATTERN_WILD);
    assert_int_equal(rules_pattern_kind(bytes_of("/a/**")), RULES_PATTERN_WILD);
    assert_int_equal(rules_pattern_kind(bytes_of("**")), RULES_PATTERN_WILD);
    assert_int_equal(rules_pattern_kind(bytes_of("/a*")), RULES_PATTERN_BAD_STAR);
    assert_int_equal(rules_pattern_kind(bytes_of("/***")), RULES_PATTERN_BAD_STAR);
    assert_int_equal(rules_pattern_kind(bytes_of("/**/a")), RULES_PATTERN_BAD_REST);
    assert_int_equal(rules_pattern_kind(bytes_of("/**/")), RULES_PATTERN_BAD_REST);
    for (size_t i = 0; i < RULES_PATTERN_SEGMENTS_MAX; i++) {
        memcpy(many + 2 * i, "/*", 3);
    }
    assert_int_equal(rules_pattern_kind(bytes_of(many)), RULES_PATTERN_TOO_LONG);
    assert_int_equal(rules_pattern_kind(bytes_of(many + 2)), RULES_PATTERN_WILD);
}

static void test_pattern_matches(void **state)
{
    static const struct {
        const char *pattern;
        const char *path;
        bool is_match;
    } cases[] = {
        {"/a/*", "/a/b", true},    {"/a/*", "/a", false},    {"/a/*", "/a/b/c", false},
        {"/a/*", "/a/", false},    {"/a/**", "/a", true},    {"/a/**", "/a/", true},
        {"/a/**", "/a/b/c", true}, {"/a/**", "/ab", false},  {"/**", "/", true},
        {"/**", "/a/b", true},     {"/*", "/", false},       {"/*/b", "/a/b", true},
        {"/*/b", "/a/c", false},   {"/*/*/**", "/a", false}, {"/*/*/**", "/a/b", true},
        {"**", "anything", true},  {"a/*", "a/b", true},     {"a/*", "/a/b", false},
        {"/a/b", "/a/b", true},    {"/a/b", "/a", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (rules_pattern_matches(bytes_of(cases[i].pattern), bytes_of(cases[i].path))
            != cases[i].is_match) {
            fail_msg("%s and %s", cases[i].pattern, cases[i].path);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings_of_one_path),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_no_normal_form),
        cmocka_unit_test(test_normal_at_sight),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_pattern_kinds),
        cmocka_unit_test(test_pattern_matches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
