#include "tests/support/redis_proxy.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/support/redis_process.h"

enum {
    TURN_US = 5000,
    DELAY_US = 4000,
    COPY_BYTES = 65536,
    HUGE_BYTES = 1 << 20,
    BACKLOG = 64,
    CUT_BYTES = 8, /* a reply has more, and there may be several */
};

struct redis_proxy_chunk {
    struct redis_proxy_chunk *next;
    int64_t due_us;
    size_t len;
    char bytes[];
};

static int64_t now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static int listen_on(unsigned port)
{
    struct sockaddr_in address = loopback(port);
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0
        && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0
            || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0
            || listen(fd, BACKLOG) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void set_no_delay(int fd)
{
    int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static int connect_to(unsigned port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0
        && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void drop_first(struct redis_proxy_pair *pair)
{
    struct redis_proxy_chunk *chunk = pair->first;
    pair->first = chunk->next;
    pair->last = pair->first != NULL ? pair->last : &pair->first;
    free(chunk);
}

static void end_pair(struct redis_proxy_pair *pair)
{
    if (pair->agent_fd < 0) {
        return;
    }
    while (pair->first != NULL) {
        drop_first(pair);
    }
    (void)close(pair->agent_fd);
    (void)close(pair->server_fd);
    pair->agent_fd = -1;
}

static void end_all(struct redis_proxy *proxy, bool only_spoilt)
{
    for (int i = 0; i < REDIS_PROXY_PAIRS_MAX; i++) {
        if (!only_spoilt || proxy->pairs[i].is_spoilt) {
            end_pair(&proxy->pairs[i]);
        }
    }
}

static void stop_listening(struct redis_proxy *proxy)
{
    if (proxy->listen_fd >= 0) {
        (void)close(proxy->listen_fd);
        proxy->listen_fd = -1;
    }
}

static void take_on(struct redis_proxy *proxy, int manner)
{
    if (manner == REDIS_PROXY_REFUSES) {
        stop_listening(proxy);
        end_all(proxy, false);
    } else if (proxy->listen_fd < 0) {
        proxy->listen_fd = listen_on(proxy->port);
    }
    end_all(proxy, true);
    proxy->shown = manner;
}

static struct redis_proxy_pair *find_free(struct redis_proxy *proxy)
{
    for (int i = 0; i < REDIS_PROXY_PAIRS_MAX; i++) {
        if (proxy->pairs[i].agent_fd < 0) {
            return &proxy->pairs[i];
        }
    }
    return NULL;
}

static void accept_one(struct redis_proxy *proxy)
{
    struct redis_proxy_pair *pair = find_free(proxy);
    int fd = accept4(proxy->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int server_fd = fd >= 0 && pair != NULL ? connect_to(proxy->server_port) : -1;
    if (server_fd >= 0) {
        set_no_delay(fd);
        set_no_delay(server_fd);
        *pair = (struct redis_proxy_pair){fd, server_fd, false, NULL, &pair->first};
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static bool queue(struct redis_proxy_pair *pair, const char *bytes, size_t len)
{
    struct redis_proxy_chunk *chunk = malloc(sizeof(*chunk) + len);
    if (chunk == NULL) {
        return false;
    }
    *chunk = (struct redis_proxy_chunk){.due_us = now_us() + DELAY_US, .len = len};
    memcpy(chunk->bytes, bytes, len);
    *pair->last = chunk;
    pair->last = &chunk->next;
    return true;
}

static bool send_huge(int fd)
{
    static const char head[] = "$1048576\r\n";
    static char text[HUGE_BYTES];
    memset(text, 'x', sizeof(text));
    return send_all(fd, head, sizeof(head) - 1) && send_all(fd, text, sizeof(text))
           && send_all(fd, "\r\n", 2);
}

/* Bytes of the server's, to the agent. @return whether the connection goes on */
static bool carry_reply(const struct redis_proxy *proxy, struct redis_proxy_pair *pair,
                        const char *bytes, size_t len)
{
    static const char shape[] = "*2\r\n$3\r\nfoo\r\n:7\r\n";
    static const char type[] = "*8\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n"
                               "$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n";
    static const char unasked[] = "+HELLO\r\n";
    int fd = pair->agent_fd;
    int manner = proxy->shown;
    pair->is_spoilt |= manner > REDIS_PROXY_DELAYS || manner == REDIS_PROXY_SILENT;
    switch ((enum redis_proxy_manner)manner) {
    case REDIS_PROXY_SILENT:
        return true;
    case REDIS_PROXY_CUTS:
        (void)send_all(fd, bytes, len / 2 < CUT_BYTES ? len / 2 : CUT_BYTES);
        return false;
    case REDIS_PROXY_WRONG_SHAPE:
        return send_all(fd, shape, sizeof(shape) - 1);
    case REDIS_PROXY_WRONG_TYPE:
        return send_all(fd, type, sizeof(type) - 1);
    case REDIS_PROXY_HUGE:
        return send_huge(fd);
    case REDIS_PROXY_ADDS:
        return send_all(fd, bytes, len) && send_all(fd, unasked, sizeof(unasked) - 1);
    case REDIS_PROXY_DELAYS:
        return queue(pair, bytes, len);
    case REDIS_PROXY_CARRIES:
    case REDIS_PROXY_REFUSES:
        break;
    }
    return pair->first != NULL ? queue(pair, bytes, len) : send_all(fd, bytes, len);
}

static void carry(struct redis_proxy *proxy, struct redis_proxy_pair *pair,
                  bool is_reply)
{
    static char bytes[COPY_BYTES];
    ssize_t n = recv(is_reply ? pair->server_fd : pair->agent_fd, bytes, sizeof(bytes),
                     MSG_DONTWAIT);
    bool goes_on = n > 0
                   && (is_reply ? carry_reply(proxy, pair, bytes, (size_t)n)
                                : send_all(pair->server_fd, bytes, (size_t)n));
    if (!goes_on) {
        end_pair(pair);
    }
}

static void send_due(struct redis_proxy_pair *pair, int64_t now)
{
    bool goes_on = true;
    while (goes_on && pair->first != NULL && pair->first->due_us <= now) {
        goes_on = send_all(pair->agent_fd, pair->first->bytes, pair->first->len);
        drop_first(pair);
    }
    if (!goes_on) {
        end_pair(pair);
    }
}

/* What is to be waited for; what is due goes out. @return for how long */
static int64_t prepare(struct redis_proxy *proxy, struct pollfd *polled)
{
    int64_t now = now_us();
    int64_t next = now + TURN_US;
    polled[0] = (struct pollfd){.fd = proxy->listen_fd, .events = POLLIN};
    for (int i = 0; i < REDIS_PROXY_PAIRS_MAX; i++) {
        struct redis_proxy_pair *pair = &proxy->pairs[i];
        if (pair->agent_fd >= 0) {
            send_due(pair, now);
        }
        bool is_open = pair->agent_fd >= 0;
        if (is_open && pair->first != NULL && pair->first->due_us < next) {
            next = pair->first->due_us;
        }
        polled[1 + 2 * i] = (struct pollfd){pair->agent_fd, POLLIN, 0};
        polled[2 + 2 * i] = (struct pollfd){is_open ? pair->server_fd : -1, POLLIN, 0};
    }
    return next - now;
}

static void turn(struct redis_proxy *proxy)
{
    struct pollfd polled[1 + 2 * REDIS_PROXY_PAIRS_MAX];
    struct timespec wait = {.tv_nsec = prepare(proxy, polled) * 1000};
    if (ppoll(polled, sizeof(polled) / sizeof(polled[0]), &wait, NULL) <= 0) {
        return;
    }
    for (int i = 0; i < 2 * REDIS_PROXY_PAIRS_MAX; i++) {
        struct redis_proxy_pair *pair = &proxy->pairs[i / 2];
        if (polled[1 + i].revents != 0 && pair->agent_fd >= 0) {
            carry(proxy, pair, i % 2 == 1);
        }
    }
    if (polled[0].revents != 0) {
        accept_one(proxy);
    }
}

static void *run(void *arg)
{
    struct redis_proxy *proxy = arg;
    while (!proxy->is_over) {
        int manner = proxy->manner;
        if (manner != proxy->shown) {
            take_on(proxy, manner);
        }
        turn(proxy);
    }
    return NULL;
}

bool redis_proxy_start(struct redis_proxy *proxy, unsigned server_port)
{
    *proxy = (struct redis_proxy){.port = redis_process_free_port(),
                                  .server_port = server_port};
    for (int i = 0; i < REDIS_PROXY_PAIRS_MAX; i++) {
        proxy->pairs[i].agent_fd = -1;
    }
    proxy->listen_fd = listen_on(proxy->port);
    return proxy->listen_fd >= 0
           && pthread_create(&proxy->thread, NULL, run, proxy) == 0;
}

void redis_proxy_stop(struct redis_proxy *proxy)
{
    proxy->is_over = true;
    (void)pthread_join(proxy->thread, NULL);
    end_all(proxy, false);
    stop_listening(proxy);
}

void redis_proxy_set_manner(struct redis_proxy *proxy, enum redis_proxy_manner manner)
{
    proxy->manner = manner;
    while (proxy->shown != (int)manner) {
        (void)usleep(1000);
    }
}
