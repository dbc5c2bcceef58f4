#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "agent/net/address.h"

static char dir[] = "/tmp/test_address.XXXXXX";
static char path[64];
static char unix_text[80];

/* In the place of the library's. */
static unsigned n_umasks;
static mode_t mode_before;

mode_t umask(mode_t mask)
{
    (void)mask;
    n_umasks++;
    return 0;
}

int chmod(const char *file, mode_t mode)
{
    struct stat st;
    assert_int_equal(lstat(file, &st), 0);
    mode_before = st.st_mode & 07777;
    return fchmodat(AT_FDCWD, file, mode, 0);
}

static int set_up(void **context)
{
    (void)context;
    (void)snprintf(dir, sizeof(dir), "/tmp/test_address.XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    (void)snprintf(unix_text, sizeof(unix_text), "unix@%s", path);
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    (void)unlink(path);
    return rmdir(dir);
}

static void spellings(void **context)
{
    (void)context;
    static const struct {
        const char *text;
        int family; /* -1: refused; AF_UNSPEC: a descriptor */
        bool is_remote;
    } cases[] = {
        {"127.0.0.1:9911", AF_INET, false},
        {"10.0.0.1:1", AF_INET, true},
        {"0.0.0.0:65535", AF_INET, true},
        {"[::1]:80", AF_INET6, false},
        {"[::]:80", AF_INET6, true},
        {"[::ffff:127.0.0.1]:80", AF_INET6, false},
        {"[::ffff:10.0.0.1]:80", AF_INET6, true},
        {"unix@/run/a.sock", AF_UNIX, false},
        {"fd@3", AF_UNSPEC, false},
        {"127.0.0.1", -1, false},
        {"127.0.0.1:0", -1, false},
        {"127.0.0.1:65536", -1, false},
        {"127.0.0.1:", -1, false},
        {"localhost:80", -1, false},
        {"::1:80", -1, false},
        {"[::1:80", -1, false},
        {"[::1]80", -1, false},
        {":80", -1, false},
        {"unix@relative", -1, false},
        {"unix@", -1, false},
        {"fd@", -1, false},
        {"fd@x", -1, false},
        {"fd@-1", -1, false},
        {"", -1, false},
        {"127.0.0.1:80 ", -1, false},
        {"999.1.1.1:80", -1, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address address;
        char error[ADDRESS_ERROR_BYTES_MAX] = "";
        bool ok = address_parse(&address, cases[i].text, error);
        assert_int_equal(ok, cases[i].family >= 0);
        if (ok) {
            assert_int_equal(address.sockaddr.ss_family, cases[i].family);
            assert_int_equal(address_is_remote(&address), cases[i].is_remote);
        } else {
            assert_true(strlen(error) > 0);
        }
    }
}

static void path_of_108_bytes_is_too_long(void **context)
{
    (void)context;
    char text[160] = "unix@/";
    struct address address;
    char error[ADDRESS_ERROR_BYTES_MAX];
    memset(text + 6, 'x', 106);
    assert_true(address_parse(&address, text, error));
    text[6 + 106] = 'x';
    assert_false(address_parse(&address, text, error));
    memset(text + 6, 'x', sizeof(text) - 7);
    assert_false(address_parse(&address, text, error));
}

static bool listen_on(const char *text, struct listening *listening, char *error)
{
    struct address address;
    assert_true(address_parse(&address, text, error));
    return address_listen(&address, listening, error);
}

static void unix_socket_has_its_mode_and_goes_with_us(void **context)
{
    (void)context;
    struct listening listening;
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct stat st;
    assert_true(listen_on(unix_text, &listening, error));
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(mode_before, 0); /* nobody came in before */
    assert_int_equal(n_umasks, 0);    /* it is of other threads, too */
    address_unlisten(&listening);
    assert_int_not_equal(lstat(path, &st), 0);
}

static void served_socket_is_left_alone(void **context)
{
    (void)context;
    struct listening first;
    struct listening second;
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct stat st;
    assert_true(listen_on(unix_text, &first, error));
    assert_false(listen_on(unix_text, &second, error));
    assert_non_null(strstr(error, "another process"));
    assert_int_equal(lstat(path, &st), 0);
    address_unlisten(&first);
}

static void stale_socket_is_replaced(void **context)
{
    (void)context;
    struct listening dead;
    struct listening alive;
    char error[ADDRESS_ERROR_BYTES_MAX];
    assert_true(listen_on(unix_text, &dead, error));
    (void)close(dead.fd); /* as after kill -9: the file stays */
    assert_true(listen_on(unix_text, &alive, error));
    address_unlisten(&alive);
}

static void file_that_is_not_ours_any_more_stays(void **context)
{
    (void)context;
    struct listening first;
    struct listening second;
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct stat st;
    assert_true(listen_on(unix_text, &first, error));
    assert_int_equal(unlink(path), 0);
    assert_true(listen_on(unix_text, &second, error));
    address_unlisten(&first);
    assert_int_equal(lstat(path, &st), 0);
    address_unlisten(&second);
}

static void file_in_the_way_is_left_alone(void **context)
{
    (void)context;
    struct listening listening;
    char error[ADDRESS_ERROR_BYTES_MAX];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_false(listen_on(unix_text, &listening, error));
    assert_non_null(strstr(error, "no socket"));
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
}

static void inherited_descriptor(void **context)
{
    (void)context;
    struct listening first;
    struct listening adopted;
    char error[ADDRESS_ERROR_BYTES_MAX];
    char text[32];
    assert_true(listen_on(unix_text, &first, error));
    (void)snprintf(text, sizeof(text), "fd@%d", first.fd);
    assert_true(listen_on(text, &adopted, error));
    assert_int_equal(adopted.fd, first.fd);
    address_unlisten(&first);
    assert_false(listen_on("fd@0", &adopted, error));
    assert_false(listen_on("fd@9999", &adopted, error));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(spellings),
        TEST(path_of_108_bytes_is_too_long),
        TEST(unix_socket_has_its_mode_and_goes_with_us),
        TEST(served_socket_is_left_alone),
        TEST(stale_socket_is_replaced),
        TEST(file_that_is_not_ours_any_more_stays),
        TEST(file_in_the_way_is_left_alone),
        TEST(inherited_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
