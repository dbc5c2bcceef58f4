/* Passwords: what is read, and what is refused because others could read it too. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "agent/redis/secret.h"

static char dir[32];
static char path[64];

static int set_up(void **state)
{
    (void)state;
    memcpy(dir, "/tmp/secret.XXXXXX", sizeof("/tmp/secret.XXXXXX"));
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/password", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir);
}

static void write_file(const char *bytes, size_t len, mode_t mode)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static void check_read(const char *name, const char *want)
{
    const char *error = NULL;
    char *secret = secret_read(name, &error);
    assert_non_null(secret);
    assert_string_equal(secret, want);
    secret_free(secret);
}

static void check_refused(const char *name, const char *want)
{
    const char *error = NULL;
    assert_null(secret_read(name, &error));
    assert_non_null(error);
    if (strstr(error, want) == NULL) {
        fail_msg("%s does not say: %s", error, want);
    }
}

static void test_files(void **state)
{
    static char bytes[SECRET_BYTES_MAX + 1];
    (void)state;
    write_file("a word\n", 7, 0600);
    check_read(path, "a word");
    write_file("word\n\n", 6, 0400);
    check_read(path, "word\n"); /* one newline only */
    memset(bytes, 'x', sizeof(bytes));
    write_file(bytes, SECRET_BYTES_MAX, 0600);
    const char *error = NULL;
    char *secret = secret_read(path, &error);
    assert_non_null(secret);
    assert_int_equal(strlen(secret), SECRET_BYTES_MAX);
    secret_free(secret);
    write_file(bytes, SECRET_BYTES_MAX + 1, 0600);
    check_refused(path, "over 4096 bytes");
    write_file("a\0b", 3, 0600);
    check_refused(path, "a NUL in it");
    write_file("\n", 1, 0600);
    check_refused(path, "empty");
    write_file("", 0, 0600);
    check_refused(path, "empty");
}

static void test_files_that_others_can_read(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0601};
    char link_path[80];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        write_file("word", 4, modes[i]);
        check_refused(path, "chmod 600");
    }
    write_file("word", 4, 0600);
    (void)snprintf(link_path, sizeof(link_path), "%s/link", dir);
    assert_int_equal(symlink(path, link_path), 0);
    check_refused(link_path, "symbolic link");
    (void)unlink(link_path);
    check_refused(dir, "no regular file");
    check_refused("/nowhere/at/all", "No such file");
}

static void test_credentials(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    check_refused("password", "LoadCredential=");
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", dir, 1), 0);
    write_file("word\n", 5, 0440);
    check_read("password", "word");
    check_refused("another", "No such file");
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_files),
        TEST(test_files_that_others_can_read),
        TEST(test_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
