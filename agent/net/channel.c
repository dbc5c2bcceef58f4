#include "agent/net/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "agent/clock.h"

enum {
    SEND_BUFFER_BYTES = 1 << 20, /* asked for; the host may give less */
};

/* Room for one descriptor, aligned as the kernel wants it. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* A packet that the buffer can never hold would never be sent. */
static bool has_room(int fd)
{
    int bytes = SEND_BUFFER_BYTES;
    socklen_t len = sizeof(bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len) != 0) {
        return false;
    }
    if (bytes < CHANNEL_BYTES_MAX + 4096) {
        errno = ENOBUFS;
        return false;
    }
    return true;
}

bool channel_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return false;
    }
    if (has_room(fds[0])) {
        return true;
    }
    int saved = errno;
    (void)close(fds[0]);
    (void)close(fds[1]);
    errno = saved;
    return false;
}

bool channel_is_one(int fd)
{
    int domain = 0;
    int type = 0;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0
           && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && domain == AF_UNIX
           && type == SOCK_SEQPACKET;
}

struct iovec channel_part(const void *bytes, size_t len)
{
    union {
        const void *from;
        void *to;
    } base = {.from = bytes};
    return (struct iovec){.iov_base = base.to, .iov_len = len};
}

static void attach(struct msghdr *message, union control *control, int fd)
{
    memset(control, 0, sizeof(*control));
    message->msg_control = control->bytes;
    message->msg_controllen = sizeof(control->bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
}

static enum channel_status status_of(int error)
{
    switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS: /* too many descriptors are under way */
        return CHANNEL_LATER;
    default:
        return CHANNEL_ENDED;
    }
}

enum channel_status channel_send(int channel_fd, enum channel_type type,
                                 const struct iovec *parts, size_t n_parts, int fd)
{
    ENSURE(n_parts <= CHANNEL_PARTS_MAX);
    uint32_t head = type;
    union control control;
    struct iovec all[1 + CHANNEL_PARTS_MAX] = {
        {.iov_base = &head, .iov_len = sizeof(head)}};
    for (size_t i = 0; i < n_parts; i++) {
        all[i + 1] = parts[i];
    }
    struct msghdr message = {.msg_iov = all, .msg_iovlen = n_parts + 1};
    if (fd >= 0) {
        attach(&message, &control, fd);
    }
    ssize_t n = 0;
    do {
        n = sendmsg(channel_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n >= 0 ? CHANNEL_OK : status_of(errno);
}

/* The descriptor that came along, or -1. There is room for one, so there is no second. */
static int attached(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (header != NULL && header->cmsg_level == SOL_SOCKET
        && header->cmsg_type == SCM_RIGHTS
        && header->cmsg_len == CMSG_LEN(sizeof(fd))) {
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    }
    return fd;
}

static bool needs_fd(uint32_t type)
{
    return type == CHANNEL_LISTENER || type == CHANNEL_CONNECTION;
}

enum channel_status channel_receive(int channel_fd, uint8_t *buf, size_t cap,
                                    struct channel_packet *packet)
{
    uint32_t type = 0;
    union control control;
    struct iovec parts[2] = {{.iov_base = &type, .iov_len = sizeof(type)},
                             {.iov_base = buf, .iov_len = cap}};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = ARRAY_LEN(parts),
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = 0;
    do {
        n = recvmsg(channel_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return status_of(errno);
    }
    if (n == 0) {
        return CHANNEL_ENDED;
    }
    *packet = (struct channel_packet){.fd = attached(&message)};
    bool is_whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0
                    && (size_t)n >= sizeof(type);
    bool is_known = type >= CHANNEL_HELLO && type <= CHANNEL_DONE;
    if (!is_whole || !is_known || needs_fd(type) != (packet->fd >= 0)) {
        if (packet->fd >= 0) {
            (void)close(packet->fd);
        }
        return CHANNEL_BAD;
    }
    packet->type = (enum channel_type)type;
    packet->len = (size_t)n - sizeof(type);
    return CHANNEL_OK;
}

bool channel_wait(int channel_fd, short events, int wait_ms)
{
    struct pollfd channel = {.fd = channel_fd, .events = events};
    int64_t end_us = clock_now().us + wait_ms * US_PER_MS;
    int left_ms = wait_ms;
    int n = 0;
    while ((n = poll(&channel, 1, left_ms)) < 0 && errno == EINTR) {
        int64_t left_us = end_us - clock_now().us;
        left_ms = left_us > 0 ? (int)(left_us / US_PER_MS) + 1 : 0;
    }
    return n > 0;
}
