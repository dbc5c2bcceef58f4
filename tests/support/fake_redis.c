#include "tests/support/fake_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/redis/link.h"

void fake_redis_close(struct fake_peer *peer)
{
    if (peer->fd >= 0) {
        ev_io_stop(peer->fake->loop, &peer->io);
        (void)close(peer->fd);
        peer->fd = -1;
    }
}

void fake_redis_say_bytes(struct fake_peer *peer, const char *bytes, size_t len)
{
    if (peer->fd >= 0 && send(peer->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
        fake_redis_close(peer);
    }
}

void fake_redis_say(struct fake_peer *peer, const char *text)
{
    fake_redis_say_bytes(peer, text, strlen(text));
}

/* A line such as *3 or $10. @return what follows it, or NULL when it is not all there */
static const char *take_head(const char *at, const char *end, char type, size_t *number)
{
    const char *eol = memmem(at, (size_t)(end - at), "\r\n", 2);
    if (eol == NULL || *at != type) {
        return NULL;
    }
    *number = strtoul(at + 1, NULL, 10);
    return eol + 2;
}

/* @return what follows the command, or NULL when it is not all there */
static const char *take_command(const char *at, const char *end,
                                struct fake_command *command)
{
    size_t n_args = 0;
    at = take_head(at, end, '*', &n_args);
    if (at == NULL || n_args > FAKE_REDIS_ARGS_MAX) {
        return NULL;
    }
    command->n_args = (unsigned)n_args;
    for (size_t i = 0; i < n_args; i++) {
        size_t len = 0;
        at = at < end ? take_head(at, end, '$', &len) : NULL;
        if (at == NULL || (size_t)(end - at) < len + 2) {
            return NULL;
        }
        command->args[i].ptr = at;
        command->args[i].len = len;
        at += len + 2;
    }
    return at;
}

static void on_peer(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct fake_peer *peer = io->data;
    struct fake_command command;
    (void)loop;
    (void)events;
    ssize_t n = read(peer->fd, peer->in + peer->n_in, sizeof(peer->in) - peer->n_in);
    if (n <= 0) {
        fake_redis_close(peer);
        return;
    }
    peer->n_in += (size_t)n;
    const char *at = peer->in;
    const char *end = peer->in + peer->n_in;
    const char *next = NULL;
    while (peer->fd >= 0 && at < end
           && (next = take_command(at, end, &command)) != NULL) {
        peer->fake->answer(peer->fake, peer, &command);
        at = next;
    }
    peer->n_in = (size_t)(end - at);
    memmove(peer->in, at, peer->n_in);
}

static void on_listening(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct fake_redis *fake = io->data;
    struct fake_peer *peer = &fake->peers[fake->n_accepted % FAKE_REDIS_PEERS_MAX];
    (void)events;
    fake_redis_close(peer);
    peer->fd = accept4(fake->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (peer->fd < 0) {
        return;
    }
    fake->n_accepted++;
    peer->n_in = 0;
    ev_io_init(&peer->io, on_peer, peer->fd, EV_READ);
    peer->io.data = peer;
    ev_io_start(loop, &peer->io);
}

void fake_redis_go_deaf(struct fake_redis *fake)
{
    if (fake->fd >= 0) {
        ev_io_stop(fake->loop, &fake->io);
        (void)close(fake->fd);
        (void)unlink(fake->endpoint.host);
        fake->fd = -1;
    }
}

bool fake_redis_hear_again(struct fake_redis *fake)
{
    struct endpoint_address address;
    struct sockaddr_in *v4 = (void *)&address.sockaddr;
    int on = 1;
    if (!endpoint_numeric(&fake->endpoint, &address)) {
        return false;
    }
    if (fake->dir[0] == '\0') { /* a port of 1 stands for any that is free */
        v4->sin_port = fake->endpoint.port == 1 ? 0 : v4->sin_port;
    }
    fake->fd = socket(address.sockaddr.ss_family,
                      SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fake->fd < 0
        || setsockopt(fake->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0
        || bind(fake->fd, (const struct sockaddr *)&address.sockaddr,
                address.sockaddr_len)
               != 0
        || listen(fake->fd, 64) != 0
        || getsockname(fake->fd, (struct sockaddr *)&address.sockaddr,
                       &address.sockaddr_len)
               != 0) {
        return false;
    }
    if (fake->dir[0] == '\0') {
        fake->endpoint.port = ntohs(v4->sin_port);
    }
    ev_io_init(&fake->io, on_listening, fake->fd, EV_READ);
    fake->io.data = fake;
    ev_io_start(fake->loop, &fake->io);
    return true;
}

static struct fake_redis *start(struct ev_loop *loop, fake_redis_fn *answer, void *data,
                                bool is_unix)
{
    struct fake_redis *fake = calloc(1, sizeof(*fake));
    if (fake == NULL) {
        return NULL;
    }
    fake->loop = loop;
    fake->answer = answer;
    fake->data = data;
    fake->fd = -1;
    for (unsigned i = 0; i < FAKE_REDIS_PEERS_MAX; i++) {
        fake->peers[i].fake = fake;
        fake->peers[i].fd = -1;
    }
    struct endpoint *endpoint = &fake->endpoint;
    (void)snprintf(endpoint->host, sizeof(endpoint->host), "127.0.0.1");
    endpoint->port = 1;
    if (is_unix) {
        memcpy(fake->dir, "/tmp/fake_redis.XXXXXX", sizeof("/tmp/fake_redis.XXXXXX"));
        if (mkdtemp(fake->dir) == NULL) {
            free(fake);
            return NULL;
        }
        (void)snprintf(endpoint->host, sizeof(endpoint->host), "%s/redis.sock",
                       fake->dir);
        endpoint->port = 0;
    }
    if (!fake_redis_hear_again(fake)) {
        fake_redis_stop(fake);
        return NULL;
    }
    return fake;
}

struct fake_redis *fake_redis_start(struct ev_loop *loop, fake_redis_fn *answer,
                                    void *data)
{
    return start(loop, answer, data, true);
}

struct fake_redis *fake_redis_start_tcp(struct ev_loop *loop, fake_redis_fn *answer,
                                        void *data)
{
    return start(loop, answer, data, false);
}

void fake_redis_stop(struct fake_redis *fake)
{
    fake_redis_go_deaf(fake);
    for (unsigned i = 0; i < FAKE_REDIS_PEERS_MAX; i++) {
        fake_redis_close(&fake->peers[i]);
    }
    if (fake->dir[0] != '\0') {
        (void)rmdir(fake->dir);
    }
    free(fake);
}

struct fake_peer *fake_redis_peer(struct fake_redis *fake)
{
    for (unsigned i = fake->n_accepted; i > 0; i--) {
        struct fake_peer *peer = &fake->peers[(i - 1) % FAKE_REDIS_PEERS_MAX];
        if (peer->fd >= 0) {
            return peer;
        }
    }
    return NULL;
}

static bool arg_is(const struct fake_command *command, unsigned i, const char *text,
                   size_t len)
{
    return i < command->n_args && command->args[i].len == len
           && memcmp(command->args[i].ptr, text, len) == 0;
}

bool fake_command_is(const struct fake_command *command, const char *name)
{
    const char *space = strchr(name, ' ');
    if (space == NULL) {
        return arg_is(command, 0, name, strlen(name));
    }
    return arg_is(command, 0, name, (size_t)(space - name))
           && arg_is(command, 1, space + 1, strlen(space + 1));
}

bool fake_redis_greet(struct fake_peer *peer, const struct fake_command *command)
{
    if (fake_command_is(command, "AUTH") || fake_command_is(command, "SELECT")
        || fake_command_is(command, "CLIENT SETNAME")) {
        fake_redis_say(peer, "+OK\r\n");
        return true;
    }
    if (fake_command_is(command, "ROLE")) {
        fake_redis_say(peer, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
        return true;
    }
    if (fake_command_is(command, "SCRIPT LOAD") && command->n_args == 3) {
        char reply[64];
        struct link_script script = {.text = command->args[2].ptr,
                                     .text_bytes = command->args[2].len};
        link_script_name(&script);
        (void)snprintf(reply, sizeof(reply), "$%d\r\n%s\r\n", LINK_SHA_BYTES,
                       script.sha);
        fake_redis_say(peer, reply);
        return true;
    }
    return false;
}
