#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/time.h>

#include <cmocka.h>

#include "agent/base.h"
#include "agent/net/channel.h"

static int ends[2];
static uint8_t buf[CHANNEL_BYTES_MAX];
static struct channel_packet packet;

static int set_up(void **context)
{
    (void)context;
    return !channel_pair(ends);
}

static int tear_down(void **context)
{
    (void)context;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

static unsigned n_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static enum channel_status receive(void)
{
    return channel_receive(ends[1], buf, sizeof(buf), &packet);
}

/* Bytes as no agent sends them, with `n_fds` descriptors. */
static void send_raw(const void *bytes, size_t len, size_t n_fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    int fds[2] = {STDIN_FILENO, STDIN_FILENO};
    union {
        const void *from;
        void *to;
    } base = {.from = bytes};
    struct iovec part = {.iov_base = base.to, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        ENSURE(header != NULL);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
    }
    assert_int_equal(sendmsg(ends[0], &message, 0), (ssize_t)len);
}

static void packets_come_whole_and_in_order(void **context)
{
    (void)context;
    char one[] = "one";
    char two[] = "and two";
    struct iovec parts[] = {{one, 3}, {two, 7}};
    assert_int_equal(channel_send(ends[0], CHANNEL_READY, NULL, 0, -1), CHANNEL_OK);
    assert_int_equal(channel_send(ends[0], CHANNEL_HELLO, parts, 2, -1), CHANNEL_OK);
    assert_true(channel_wait(ends[1], POLLIN, 0));
    assert_int_equal(receive(), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_READY);
    assert_int_equal(packet.len, 0);
    assert_int_equal(packet.fd, -1);
    assert_int_equal(receive(), CHANNEL_OK);
    assert_int_equal(packet.type, CHANNEL_HELLO);
    assert_int_equal(packet.len, 10);
    assert_memory_equal(buf, "oneand two", 10);
    assert_int_equal(receive(), CHANNEL_LATER);
    assert_false(channel_wait(ends[1], POLLIN, 0));
}

static void descriptors_go_along_and_are_closed_on_exec(void **context)
{
    (void)context;
    int pipe_fds[2];
    char byte = 0;
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(channel_send(ends[0], CHANNEL_CONNECTION, NULL, 0, pipe_fds[0]),
                     CHANNEL_OK);
    (void)close(pipe_fds[0]);
    assert_int_equal(receive(), CHANNEL_OK);
    assert_int_equal(fcntl(packet.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(read(packet.fd, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    (void)close(packet.fd);
    (void)close(pipe_fds[1]);
    assert_int_equal(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
}

static void what_is_no_packet_is_refused(void **context)
{
    (void)context;
    static const struct {
        uint32_t type;
        size_t len; /* of the packet, type included */
        size_t n_fds;
    } cases[] = {
        {0, 4, 0},
        {CHANNEL_DONE + 1, 4, 0},
        {UINT32_MAX, 4, 0},
        {CHANNEL_READY, 3, 0},
        {CHANNEL_READY, 1, 0},
        {CHANNEL_READY, 4, 1}, /* a descriptor that does not belong there */
        {CHANNEL_CONNECTION, 4, 0},
        {CHANNEL_CONNECTION, 4, 2},
        {CHANNEL_LISTENER, 3, 1},
        {0, 4, 2},
    };
    unsigned n_before = n_descriptors();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        send_raw(&cases[i].type, cases[i].len, cases[i].n_fds);
        assert_int_equal(receive(), CHANNEL_BAD);
        assert_int_equal(n_descriptors(), n_before);
    }
    assert_int_equal(channel_send(ends[0], CHANNEL_READY, NULL, 0, -1), CHANNEL_OK);
    assert_int_equal(receive(), CHANNEL_OK);
}

static void a_packet_beyond_the_buffer_is_refused(void **context)
{
    (void)context;
    struct iovec part = {.iov_base = buf, .iov_len = 9};
    unsigned n_before = n_descriptors();
    assert_int_equal(channel_send(ends[0], CHANNEL_CONNECTION, &part, 1, 0),
                     CHANNEL_OK);
    assert_int_equal(channel_receive(ends[1], buf, 8, &packet), CHANNEL_BAD);
    assert_int_equal(n_descriptors(), n_before);
}

static void the_largest_fits(void **context)
{
    (void)context;
    struct iovec part = {.iov_base = buf, .iov_len = sizeof(buf)};
    assert_int_equal(channel_send(ends[0], CHANNEL_COUNTERS, &part, 1, -1), CHANNEL_OK);
    assert_int_equal(receive(), CHANNEL_OK);
    assert_int_equal(packet.len, sizeof(buf));
}

static void a_full_channel_says_later(void **context)
{
    (void)context;
    struct iovec part = {.iov_base = buf, .iov_len = 32768};
    unsigned n = 0;
    enum channel_status status = CHANNEL_OK;
    while ((status = channel_send(ends[0], CHANNEL_COUNTERS, &part, 1, -1))
           == CHANNEL_OK) {
        n++;
    }
    assert_int_equal(status, CHANNEL_LATER);
    assert_false(channel_wait(ends[0], POLLOUT, 0));
    for (; n > 0; n--) {
        assert_int_equal(receive(), CHANNEL_OK);
    }
    assert_true(channel_wait(ends[0], POLLOUT, 0));
    assert_int_equal(channel_send(ends[0], CHANNEL_COUNTERS, &part, 1, -1), CHANNEL_OK);
}

/* What is waited for comes while a signal is handled: the wait is interrupted first. */
static void on_alarm(int signum)
{
    (void)signum;
    ssize_t n = send(ends[0], "wake", 4, 0);
    (void)n;
}

static void a_signal_ends_no_wait(void **context)
{
    (void)context;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_true(channel_wait(ends[1], POLLIN, 60000));
    action.sa_handler = SIG_DFL;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
}

static void a_peer_that_is_gone_is_noticed(void **context)
{
    (void)context;
    assert_int_equal(channel_send(ends[0], CHANNEL_READY, NULL, 0, -1), CHANNEL_OK);
    (void)close(ends[0]);
    ends[0] = -1;
    assert_int_equal(receive(), CHANNEL_OK); /* said before it went */
    assert_int_equal(receive(), CHANNEL_ENDED);
    assert_int_equal(channel_send(ends[1], CHANNEL_READY, NULL, 0, -1), CHANNEL_ENDED);
}

static void only_its_kind_of_socket_is_one(void **context)
{
    (void)context;
    int others[2];
    assert_true(channel_is_one(ends[0]));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
    assert_false(channel_is_one(others[0]));
    assert_false(channel_is_one(STDIN_FILENO));
    assert_false(channel_is_one(1000000));
    (void)close(others[0]);
    (void)close(others[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(packets_come_whole_and_in_order),
        TEST(descriptors_go_along_and_are_closed_on_exec),
        TEST(what_is_no_packet_is_refused),
        TEST(a_packet_beyond_the_buffer_is_refused),
        TEST(the_largest_fits),
        TEST(a_full_channel_says_later),
        TEST(a_signal_ends_no_wait),
        TEST(a_peer_that_is_gone_is_noticed),
        TEST(only_its_kind_of_socket_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
