#include "agent/redis/transport.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "agent/redis/tls.h"

enum {
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3,
    UNACKNOWLEDGED_MS = 500, /* what a peer's host has not taken in by then is lost */
};

static enum transport_status end_by(struct transport *transport, const char *why)
{
    transport->why = why;
    return TRANSPORT_END;
}

static enum transport_status end_by_errno(struct transport *transport, int error)
{
    const char *text = strerrordesc_np(error);
    return end_by(transport, text != NULL ? text : "unknown error");
}

/* Best effort: without them a dead host is found out later. */
static void set_tcp(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } settings[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
    };
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        (void)setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value,
                         sizeof(settings[i].value));
    }
}

enum transport_status transport_open(struct transport *transport,
                                     const struct endpoint_address *address)
{
    *transport = (struct transport){.fd = -1};
    int fd = socket(address->sockaddr.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return end_by_errno(transport, errno);
    }
    transport->fd = fd;
    if (address->sockaddr.ss_family != AF_UNIX) {
        set_tcp(fd);
    }
    if (connect(fd, (const struct sockaddr *)&address->sockaddr, address->sockaddr_len)
        == 0) {
        return TRANSPORT_OK;
    }
    return errno == EINPROGRESS ? TRANSPORT_WRITABLE : end_by_errno(transport, errno);
}

enum transport_status transport_connected(struct transport *transport)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(transport->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    return error == 0 ? TRANSPORT_OK : end_by_errno(transport, error);
}

/* What a TLS operation that returned `rc` means. */
static enum transport_status tls_status(struct transport *transport, int rc, int error)
{
    switch (SSL_get_error(transport->session, rc)) {
    case SSL_ERROR_WANT_READ:
        return TRANSPORT_READABLE;
    case SSL_ERROR_WANT_WRITE:
        return TRANSPORT_WRITABLE;
    case SSL_ERROR_ZERO_RETURN:
        return end_by(transport, "closed by the server");
    case SSL_ERROR_SYSCALL:
        return error != 0 ? end_by_errno(transport, error)
                          : end_by(transport, "closed by the server");
    default:
        return end_by(transport, tls_why(transport->session));
    }
}

enum transport_status transport_secure(struct transport *transport, struct tls *tls,
                                       const char *server_name)
{
    ERR_clear_error();
    if (transport->session == NULL) {
        transport->session = tls_session(tls, transport->fd, server_name);
    }
    if (transport->session == NULL) {
        return end_by(transport, "out of memory");
    }
    errno = 0;
    int rc = SSL_do_handshake(transport->session);
    return rc == 1 ? TRANSPORT_OK : tls_status(transport, rc, errno);
}

enum transport_status transport_read(struct transport *transport, char *buf, size_t cap,
                                     size_t *n)
{
    if (transport->session != NULL) {
        ERR_clear_error();
        errno = 0;
        int rc = SSL_read_ex(transport->session, buf, cap, n);
        return rc == 1 ? TRANSPORT_OK : tls_status(transport, rc, errno);
    }
    ssize_t len = recv(transport->fd, buf, cap, 0);
    if (len > 0) {
        *n = (size_t)len;
        return TRANSPORT_OK;
    }
    if (len == 0) {
        return end_by(transport, "closed by the server");
    }
    return errno == EAGAIN || errno == EINTR ? TRANSPORT_READABLE
                                             : end_by_errno(transport, errno);
}

bool transport_has_more(const struct transport *transport)
{
    return transport->session != NULL && SSL_pending(transport->session) > 0;
}

enum transport_status transport_write(struct transport *transport, const char *bytes,
                                      size_t len, size_t *n)
{
    if (transport->session != NULL) {
        ERR_clear_error();
        errno = 0;
        int rc = SSL_write_ex(transport->session, bytes, len, n);
        return rc == 1 ? TRANSPORT_OK : tls_status(transport, rc, errno);
    }
    ssize_t sent = send(transport->fd, bytes, len, MSG_NOSIGNAL);
    if (sent >= 0) {
        *n = (size_t)sent;
        return TRANSPORT_OK;
    }
    return errno == EAGAIN || errno == EINTR ? TRANSPORT_WRITABLE
                                             : end_by_errno(transport, errno);
}

void transport_close(struct transport *transport)
{
    if (transport->session != NULL) {
        /* A session that ended in an error must not be ended by the protocol. */
        SSL_set_quiet_shutdown(transport->session, 1);
        SSL_free(transport->session);
    }
    if (transport->fd >= 0) {
        (void)close(transport->fd);
    }
    *transport = (struct transport){.fd = -1};
}
