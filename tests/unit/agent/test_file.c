#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/file.h"

static char path[] = "/tmp/test_file.XXXXXX";

static void write_bytes(size_t n)
{
    (void)strcpy(path, "/tmp/test_file.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i++) {
        char byte = (char)('a' + i % 26);
        assert_int_equal(write(fd, &byte, 1), 1);
    }
    (void)close(fd);
}

static void files_up_to_the_bound_are_read_whole(void **context)
{
    (void)context;
    static const size_t SIZES[] = {0, 1, 65535, 65536, 65537, 131072};
    for (size_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        size_t len = 1;
        write_bytes(SIZES[i]);
        char *bytes = file_read(path, SIZES[i], &len);
        assert_non_null(bytes);
        assert_int_equal(len, SIZES[i]);
        assert_int_equal(bytes[len], '\0');
        assert_true(len == 0 || bytes[len - 1] == (char)('a' + (len - 1) % 26));
        free(bytes);
        if (SIZES[i] > 0) {
            assert_null(file_read(path, SIZES[i] - 1, &len));
            assert_int_equal(errno, EFBIG);
        }
        (void)unlink(path);
    }
}

static void what_cannot_be_read_says_why(void **context)
{
    (void)context;
    size_t len = 0;
    assert_null(file_read("/nonexistent", 10, &len));
    assert_int_equal(errno, ENOENT);
    assert_null(file_read("/", 10, &len));
    assert_int_equal(errno, EISDIR);
}

static void endless_file_is_bounded(void **context)
{
    (void)context;
    size_t len = 0;
    assert_null(file_read("/dev/zero", 1000000, &len));
    assert_int_equal(errno, EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_up_to_the_bound_are_read_whole),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(endless_file_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
