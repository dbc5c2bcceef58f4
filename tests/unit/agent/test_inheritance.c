/* Listening sockets that go from one process to the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent/net/inheritance.h"

static struct {
    char dir[32];
    char path[64];
    char text[80];
    int ends[2];
    struct address address;
    struct listening before; /* of the agent that hands down */
    struct inheritance inheritance;
} f;

static char error[ADDRESS_ERROR_BYTES_MAX];

static int set_up(void **context)
{
    (void)context;
    memset(&f, 0, sizeof(f));
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_inherit.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/s", f.dir);
    (void)snprintf(f.text, sizeof(f.text), "unix@%s", f.path);
    return !channel_pair(f.ends) || !address_parse(&f.address, f.text, error)
           || !address_listen(&f.address, &f.before, error);
}

static int tear_down(void **context)
{
    (void)context;
    address_unlisten(&f.before);
    inheritance_close(&f.inheritance, false);
    (void)close(f.ends[0]);
    (void)close(f.ends[1]);
    (void)unlink(f.path);
    return rmdir(f.dir);
}

static bool pass_on(const char *text, const struct listening *listening)
{
    static uint8_t buf[CHANNEL_BYTES_MAX];
    struct channel_packet packet;
    assert_int_equal(inheritance_send(f.ends[0], text, listening), CHANNEL_OK);
    assert_int_equal(channel_receive(f.ends[1], buf, sizeof(buf), &packet), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_LISTENER);
    return inheritance_receive(&f.inheritance, &packet, buf);
}

static int connect_to(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&un, sizeof(un)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void who_waits_is_accepted_by_the_next(void **context)
{
    (void)context;
    struct listening after;
    int client = connect_to(f.path); /* to the one before */
    assert_true(pass_on(f.text, &f.before));
    assert_true(inheritance_listen(&f.inheritance, &f.address, &after, error));
    assert_int_not_equal(after.fd, f.before.fd);
    f.before.is_foreign = true;
    address_unlisten(&f.before);
    int accepted = address_accept(after.fd);
    assert_true(accepted >= 0);
    (void)close(accepted);
    (void)close(client);
    client = connect_to(f.path); /* the file is still there */
    assert_true(client >= 0);
    (void)close(client);
    after.is_foreign = false;
    address_unlisten(&after);
    assert_int_equal(access(f.path, F_OK), -1);
}

/* Until the one before has ended well the file is its, whatever becomes of this one. */
static void the_file_stays_the_predecessors(void **context)
{
    (void)context;
    struct listening after;
    assert_true(pass_on(f.text, &f.before));
    assert_true(inheritance_listen(&f.inheritance, &f.address, &after, error));
    address_unlisten(&after);
    assert_int_equal(access(f.path, F_OK), 0);
    assert_true(pass_on(f.text, &f.before));
    inheritance_close(&f.inheritance, false);
    assert_int_equal(access(f.path, F_OK), 0);
}

static void what_nobody_wants_is_removed(void **context)
{
    (void)context;
    assert_true(pass_on(f.text, &f.before));
    inheritance_close(&f.inheritance, true);
    assert_int_equal(access(f.path, F_OK), -1);
}

static void another_file_of_that_name_stays(void **context)
{
    (void)context;
    assert_true(pass_on(f.text, &f.before));
    struct listening other;
    assert_int_equal(unlink(f.path), 0);
    assert_true(address_listen(&f.address, &other, error));
    inheritance_close(&f.inheritance, true);
    assert_int_equal(access(f.path, F_OK), 0);
    address_unlisten(&other);
}

static void another_address_is_listened_on(void **context)
{
    (void)context;
    char text[96];
    struct address other;
    struct listening after;
    (void)snprintf(text, sizeof(text), "%s2", f.text);
    assert_true(pass_on(f.text, &f.before));
    assert_true(address_parse(&other, text, error));
    assert_true(inheritance_listen(&f.inheritance, &other, &after, error));
    assert_false(after.is_foreign);
    address_unlisten(&after);
    assert_true(inheritance_listen(NULL, &other, &after, error));
    address_unlisten(&after);
}

static void a_socket_is_taken_once(void **context)
{
    (void)context;
    struct listening after;
    struct listening again;
    assert_true(pass_on(f.text, &f.before));
    assert_true(inheritance_listen(&f.inheritance, &f.address, &after, error));
    assert_false(inheritance_listen(&f.inheritance, &f.address, &again, error));
    address_unlisten(&after);
}

static void the_mode_is_the_new_one(void **context)
{
    (void)context;
    struct listening after;
    struct stat st;
    assert_true(pass_on(f.text, &f.before));
    f.address.unix_mode = 0600;
    assert_true(inheritance_listen(&f.inheritance, &f.address, &after, error));
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    address_unlisten(&after);
}

static void what_is_no_listener_is_refused(void **context)
{
    (void)context;
    int pair[2];
    char longest[ADDRESS_TEXT_BYTES_MAX];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct listening connected = {.fd = pair[0]};
    assert_false(pass_on(f.text, &connected));
    assert_false(pass_on("nonsense", &f.before));
    assert_false(pass_on("", &f.before));
    (void)memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_false(pass_on(longest, &f.before));
    assert_int_equal(f.inheritance.n, 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void too_many_are_refused(void **context)
{
    (void)context;
    for (int i = 0; i < INHERITANCE_MAX; i++) {
        assert_true(pass_on(f.text, &f.before));
    }
    assert_false(pass_on(f.text, &f.before));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(who_waits_is_accepted_by_the_next),
        TEST(the_file_stays_the_predecessors),
        TEST(what_nobody_wants_is_removed),
        TEST(another_file_of_that_name_stays),
        TEST(another_address_is_listened_on),
        TEST(a_socket_is_taken_once),
        TEST(the_mode_is_the_new_one),
        TEST(what_is_no_listener_is_refused),
        TEST(too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
