#include "agent/net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

static const char unix_prefix[] = "unix@";
static const char fd_prefix[] = "fd@";

static bool fail(char *error, const char *text, const char *what)
{
    (void)snprintf(error, ADDRESS_ERROR_BYTES_MAX, "%s: %s", text, what);
    return false;
}

static bool fail_errno(char *error, const char *text, const char *call)
{
    char reason[64];
    const char *shown = strerror_r(errno, reason, sizeof(reason));
    (void)snprintf(error, ADDRESS_ERROR_BYTES_MAX, "%s: %s: %s", text, call, shown);
    return false;
}

/* A decimal number from 0 to `max` that is all of `text`; -1 otherwise. */
static long parse_number(const char *text, long max)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') {
        return -1;
    }
    errno = 0;
    long number = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && number <= max ? number : -1;
}

static bool parse_unix(struct address *address, const char *path, char *error)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&address->sockaddr;
    if (path[0] != '/') {
        return fail(error, address->text, "the path of a UNIX socket must be absolute");
    }
    if (strlen(path) >= sizeof(un->sun_path)) {
        return fail(error, address->text, "the path is longer than 107 bytes");
    }
    un->sun_family = AF_UNIX;
    (void)snprintf(un->sun_path, sizeof(un->sun_path), "%s", path);
    address->sockaddr_len = sizeof(*un);
    return true;
}

static bool parse_fd(struct address *address, const char *number, char *error)
{
    long fd = parse_number(number, 1000000);
    if (fd < 0) {
        return fail(error, address->text, "want fd@N, N an inherited descriptor");
    }
    address->inherited_fd = (int)fd;
    return true;
}

static bool parse_ip(struct address *address, char *error)
{
    static const char want[] = "want IP:PORT, [v6]:PORT, unix@/path or fd@N";
    char host[ADDRESS_TEXT_BYTES_MAX];
    (void)snprintf(host, sizeof(host), "%s", address->text);
    char *colon = strrchr(host, ':');
    if (colon == NULL) {
        return fail(error, address->text, want);
    }
    *colon = '\0';
    long port = parse_number(colon + 1, 65535);
    if (port < 1) {
        return fail(error, address->text, "want a port from 1 to 65535");
    }
    if (host[0] == '[' && colon[-1] == ']') {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->sockaddr;
        colon[-1] = '\0';
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        address->sockaddr_len = sizeof(*in6);
        return inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1
               || fail(error, address->text, want);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)&address->sockaddr;
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    address->sockaddr_len = sizeof(*in);
    return inet_pton(AF_INET, host, &in->sin_addr) == 1
           || fail(error, address->text, want);
}

bool address_parse(struct address *address, const char *text, char *error)
{
    memset(address, 0, sizeof(*address));
    address->inherited_fd = -1;
    address->unix_mode = 0660;
    if (strlen(text) >= sizeof(address->text)) {
        return fail(error, text, "the address is too long");
    }
    (void)snprintf(address->text, sizeof(address->text), "%s", text);
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        return parse_unix(address, text + sizeof(unix_prefix) - 1, error);
    }
    if (strncmp(text, fd_prefix, sizeof(fd_prefix) - 1) == 0) {
        return parse_fd(address, text + sizeof(fd_prefix) - 1, error);
    }
    return parse_ip(address, error);
}

bool address_is_remote(const struct address *address)
{
    if (address->sockaddr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address->sockaddr;
        return ntohl(in->sin_addr.s_addr) >> 24 != 127;
    }
    if (address->sockaddr.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address
                                             ->sockaddr;
        const struct in6_addr *host = &in6->sin6_addr;
        bool is_v4_loopback = IN6_IS_ADDR_V4MAPPED(host) && host->s6_addr[12] == 127;
        return !IN6_IS_ADDR_LOOPBACK(host) && !is_v4_loopback;
    }
    return false;
}

static bool adopt(const struct address *address, struct listening *listening,
                  char *error)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);
    int fd = address->inherited_fd;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0) {
        return fail_errno(error, address->text, "not a socket of ours");
    }
    if (!is_listening) {
        return fail(error, address->text, "the descriptor is not a listening socket");
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0
        || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return fail_errno(error, address->text, "fcntl");
    }
    listening->fd = fd;
    return true;
}

/* Whether `path` is free to be bound: absent, or a socket nobody serves. */
static bool clear_stale(const struct address *address, char *error)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->sockaddr;
    struct stat st;
    if (lstat(un->sun_path, &st) != 0) {
        return errno == ENOENT || fail_errno(error, address->text, "lstat");
    }
    if (!S_ISSOCK(st.st_mode)) {
        return fail(error, address->text, "a file that is no socket is in the way");
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return fail_errno(error, address->text, "socket");
    }
    int refusal = connect(fd, (const struct sockaddr *)un, sizeof(*un)) != 0 ? errno
                                                                             : 0;
    (void)close(fd);
    if (refusal == EACCES) {
        return fail(
            error, address->text,
            "no permission to ask whether somebody serves this socket; remove it "
            "if nobody does");
    }
    if (refusal != ECONNREFUSED) {
        return fail(error, address->text, "another process is serving this socket");
    }
    return unlink(un->sun_path) == 0 || fail_errno(error, address->text, "unlink");
}

static bool finish_unix(const struct address *address, struct listening *listening,
                        char *error)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->sockaddr;
    struct stat st;
    if (chmod(un->sun_path, address->unix_mode) != 0 || lstat(un->sun_path, &st) != 0) {
        return fail_errno(error, address->text, "chmod");
    }
    listening->unix_dev = st.st_dev;
    listening->unix_ino = st.st_ino;
    memcpy(listening->unix_path, un->sun_path, sizeof(listening->unix_path));
    return true;
}

/* A UNIX socket's file is made with the mode of the socket, and opened to its own only
 * then. Not by umask: that is of all threads, and one of them may be making a file. */
static int bind_socket(int fd, const struct address *address)
{
    if (address->sockaddr.ss_family == AF_UNIX && fchmod(fd, 0) != 0) {
        return -1;
    }
    return bind(fd, (const struct sockaddr *)&address->sockaddr, address->sockaddr_len);
}

bool address_listen(const struct address *address, struct listening *listening,
                    char *error)
{
    *listening = (struct listening){.fd = -1};
    if (address->inherited_fd >= 0) {
        return adopt(address, listening, error);
    }
    int family = address->sockaddr.ss_family;
    if (family == AF_UNIX && !clear_stale(address, error)) {
        return false;
    }
    listening->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listening->fd < 0) {
        return fail_errno(error, address->text, "socket");
    }
    int on = 1;
    if (family != AF_UNIX) {
        (void)setsockopt(listening->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    bool ok = bind_socket(listening->fd, address) == 0
              || fail_errno(error, address->text, "bind");
    ok = ok && (family != AF_UNIX || finish_unix(address, listening, error));
    ok = ok
         && (listen(listening->fd, ADDRESS_BACKLOG) == 0
             || fail_errno(error, address->text, "listen"));
    if (!ok) {
        address_unlisten(listening);
    }
    return ok;
}

int address_accept(int listening_fd)
{
    int fd = -1;
    do {
        fd = accept4(listening_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO));
    return fd;
}

bool address_has_file(const struct listening *listening)
{
    struct stat st;
    return listening->unix_ino != 0 && lstat(listening->unix_path, &st) == 0
           && st.st_dev == listening->unix_dev && st.st_ino == listening->unix_ino;
}

void address_unlisten(struct listening *listening)
{
    if (!listening->is_foreign && address_has_file(listening)) {
        (void)unlink(listening->unix_path);
    }
    if (listening->fd >= 0) {
        (void)close(listening->fd);
    }
    *listening = (struct listening){.fd = -1};
}
