#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

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
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 131072};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t len = 1;
        const char *error = NULL;
        write_bytes(sizes[i]);
        char *bytes = file_read(path, sizes[i], &len, &error);
        assert_non_null(bytes);
        assert_int_equal(len, sizes[i]);
        assert_int_equal(bytes[len], '\0');
        assert_true(len == 0 || bytes[len - 1] == (char)('a' + (len - 1) % 26));
        free(bytes);
        if (sizes[i] > 0) {
            assert_null(file_read(path, sizes[i] - 1, &len, &error));
            assert_string_equal(error, "the file is too large");
        }
        (void)unlink(path);
    }
}

static void what_cannot_be_read_says_why(void **context)
{
    (void)context;
    static const struct {
        const char *path;
        const char *error;
    } cases[] = {
        {"/nonexistent", "No such file or directory"},
        {"/", "not a regular file"},
        {"/dev/zero", "not a regular file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = 0;
        const char *error = NULL;
        assert_null(file_read(cases[i].path, 10, &len, &error));
        assert_string_equal(error, cases[i].error);
    }
}

/* Nobody writes into it, and nobody waits for somebody to. */
static void fifo_holds_nobody(void **context)
{
    (void)context;
    size_t len = 0;
    const char *error = NULL;
    write_bytes(0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(file_read(path, 10, &len, &error));
    assert_string_equal(error, "not a regular file");
    (void)unlink(path);
}

enum {
    WRITERS = 2,
    WRITES = 100,
    TEXT_BYTES = 100000
};

static int write_often(char byte)
{
    static char text[TEXT_BYTES];
    const char *error = NULL;
    memset(text, byte, sizeof(text));
    for (int i = 0; i < WRITES; i++) {
        if (!file_replace(path, text, sizeof(text), 0600, &error)) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

/* An agent and its successor. */
static void processes_do_not_meet(void **context)
{
    (void)context;
    pid_t writers[WRITERS];
    write_bytes(0);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0) {
            _exit(write_often((char)('a' + i)));
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
        assert_int_equal(status, 0);
    }
    size_t len = 0;
    const char *error = NULL;
    char *bytes = file_read(path, TEXT_BYTES, &len, &error);
    assert_non_null(bytes);
    assert_int_equal(len, TEXT_BYTES);
    assert_int_equal(bytes[0], bytes[len - 1]);
    free(bytes);
    (void)unlink(path);
}

static void path_is_seen_from_a_directory(void **context)
{
    static const char *const cases[][3] = {
        {"/etc/rules.yaml", "clients.csv", "/etc/clients.csv"},
        {"a/b/rules.yaml", "../clients.csv", "a/b/../clients.csv"},
        {"rules.yaml", "clients.csv", "clients.csv"},
        {"/etc/rules.yaml", "/var/clients.csv", "/var/clients.csv"},
    };
    (void)context;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *beside = file_beside(cases[i][0], cases[i][1]);
        assert_string_equal(beside, cases[i][2]);
        free(beside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_up_to_the_bound_are_read_whole),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(fifo_holds_nobody),
        cmocka_unit_test(path_is_seen_from_a_directory),
        cmocka_unit_test(processes_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
