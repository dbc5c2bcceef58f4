#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/bench/shape.h"

#include "tests/support/hex.h"

static struct shape shape;
static char error[SHAPE_ERROR_BYTES_MAX];

static void expect_payload(const char *name, uint64_t key, const char *want)
{
    uint8_t wanted[512];
    uint8_t buf[512];
    struct spop_writer w;
    size_t len = hex_decode(want, wanted, sizeof(wanted));
    spop_writer_init(&w, buf, sizeof(buf));
    shape_write(&shape, &w, key);
    if (w.status != SPOP_OK || w.len != len || memcmp(buf, wanted, len) != 0) {
        for (size_t i = 0; i < w.len; i++) {
            print_error(" %02x", buf[i]);
        }
        fail_msg("%s: got other bytes", name);
    }
    assert_true(w.len <= shape_bytes_max(&shape));
}

static const struct arg_case {
    const char *text;
    uint64_t key;
    const char *hex;
} arg_cases[] = {
    {"a=b", 5, "01\"a\" 0801\"b\""},
    {"a=", 5, "01\"a\" 0800"},
    {"a=b=c", 5, "01\"a\" 0803\"b=c\""},
    {"a:text=x{key}y", 0, "01\"a\" 0803\"x0y\""},
    {"a={key}", 18446744073709551615U, "01\"a\" 0814\"18446744073709551615\""},
    {"a={kay}", 5, "01\"a\" 0805\"{kay}\""},
    {"a:int=-5", 5, "01\"a\" 04fbf0fefefefefefefe0e"},
    {"a:int={key}", 1024, "01\"a\" 04f031"},
    {"a:ip=127.0.0.1", 5, "01\"a\" 067f000001"},
    {"a:ip=10.0.0.0+{key}", 0x10203, "01\"a\" 060a010203"},
    {"a:ip=10.0.0.255+{key}", 1, "01\"a\" 060a000100"},
    {"a:ip=255.255.255.255+{key}", 1, "01\"a\" 0600000000"},
    {"a:ip=2001:db8::+{key}", 258, "01\"a\" 0720010db8000000000000000000000102"},
    {"a:ip=::1", 5, "01\"a\" 0700000000000000000000000000000001"},
    {"a:bool=true", 5, "01\"a\" 11"},
    {"a:bool=false", 5, "01\"a\" 01"},
    {"a:null", 5, "01\"a\" 00"},
};

static void add(const char *text)
{
    if (!shape_add(&shape, text, error)) {
        fail_msg("%s", error);
    }
}

static void each_argument_is_byte_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(arg_cases); i++) {
        char want[256];
        assert_true(shape_init(&shape, "m", error));
        add(arg_cases[i].text);
        (void)snprintf(want, sizeof(want), "01\"m\" 01 %s", arg_cases[i].hex);
        expect_payload(arg_cases[i].text, arg_cases[i].key, want);
    }
}

static void arguments_keep_their_order(void **state)
{
    (void)state;
    static const char *const args[] = {"ip:ip=10.0.0.0+{key}", "path=/a", "k=k{key}",
                                       "auth=x", "n:int={key}"};
    assert_true(shape_init(&shape, "check", error));
    expect_payload("none", 1, "05\"check\" 00");
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        add(args[i]);
    }
    expect_payload("five", 7,
                   "05\"check\" 05 02\"ip\" 060a000007 04\"path\" 0802\"/a\" 01\"k\""
                   "0802\"k7\" 04\"auth\" 0801\"x\" 01\"n\" 0407");
}

static const struct {
    const char *text;
    const char *error;
} bad_cases[] = {
    {"", "want NAME[:TYPE]=VALUE"},
    {"=x", "want NAME[:TYPE]=VALUE"},
    {"a", "want NAME[:TYPE]=VALUE"},
    {"a:int", "want NAME[:TYPE]=VALUE"},
    {"a:int=", "want a number or {key}"},
    {"a:int=5x", "want a number or {key}"},
    {"a:int=99999999999999999999", "want a number or {key}"},
    {"a:int={key}1", "want a number or {key}"},
    {"a:ip=1.2.3", "want an address"},
    {"a:ip={key}", "want an address"},
    {"a:ip=10.0.0.0+{key}1", "want an address"},
    {"a:bool=yes", "want true or false"},
    {"a:null=", "null takes no value"},
    {"a:float=1", "want one of the types"},
};

static void expect_error(const char *text, const char *want)
{
    assert_false(shape_add(&shape, text, error));
    if (strstr(error, want) == NULL) {
        fail_msg("%s: got '%s'", text, error);
    }
}

static void bad_arguments_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad_cases); i++) {
        assert_true(shape_init(&shape, "m", error));
        expect_error(bad_cases[i].text, bad_cases[i].error);
    }
    assert_false(shape_init(&shape, "", error));
}

static void more_than_fits_is_told(void **state)
{
    (void)state;
    static char text[SHAPE_BYTES_MAX + 16];
    assert_true(shape_init(&shape, "m", error));
    for (unsigned i = 0; i < SHAPE_ARGS_MAX; i++) {
        assert_true(shape_add(&shape, "a={key}", error));
    }
    assert_false(shape_add(&shape, "a=b", error));
    assert_non_null(strstr(error, "more than 64"));

    static const char *const heads[] = {"a=", "a={key}", "a:ip=1.2.3.4+{key}"};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        memset(text, 'x', sizeof(text) - 1);
        memcpy(text, heads[i], strlen(heads[i]));
        assert_true(shape_init(&shape, "m", error));
        assert_false(shape_add(&shape, text, error));
        assert_true(strlen(error) > 0 && strlen(error) < sizeof(error));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_argument_is_byte_exact),
        cmocka_unit_test(arguments_keep_their_order),
        cmocka_unit_test(bad_arguments_are_told),
        cmocka_unit_test(more_than_fits_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
