#include "tests/support/redis_server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

enum {
    TRIES = 500,
    TRY_NS = 20 * 1000 * 1000,
};

static void run_server(const char *dir, const char *socket)
{
    /* A test that is killed leaves no server behind. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen("/dev/null", "w", stdout) == NULL) {
        _exit(127);
    }
    (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket,
                 "--dir", dir, "--save", "", "--appendonly", "no", (char *)NULL);
    _exit(127);
}

static redisContext *connect_to(const char *socket)
{
    const struct timespec pause = {.tv_nsec = TRY_NS};
    for (int i = 0; i < TRIES; i++) {
        redisContext *context = redisConnectUnix(socket);
        if (context != NULL && context->err == 0) {
            return context;
        }
        redisFree(context);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

void redis_server_start(struct redis_server *server)
{
    *server = (struct redis_server){.dir = "/tmp/test_redis.XXXXXX"};
    assert_non_null(mkdtemp(server->dir));
    (void)snprintf(server->socket, sizeof(server->socket), "%s/redis.sock",
                   server->dir);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        run_server(server->dir, server->socket);
    }
    server->context = connect_to(server->socket);
    if (server->context == NULL) {
        fail_msg("redis-server did not start; is the package redis-server installed?");
    }
}

void redis_server_stop(struct redis_server *server)
{
    redisFree(server->context);
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    (void)unlink(server->socket);
    (void)rmdir(server->dir);
}

static redisReply *ask(struct redis_server *server, const char *format, va_list args)
{
    redisReply *reply = redisvCommand(server->context, format, args);
    if (reply == NULL) {
        fail_msg("redis-server: %s", server->context->errstr);
    }
    return reply;
}

redisReply *redis_server_ask(struct redis_server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(server, format, args);
    va_end(args);
    return reply;
}

int64_t redis_server_ask_number(struct redis_server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(server, format, args);
    va_end(args);
    if (reply->type != REDIS_REPLY_INTEGER) {
        fail_msg("%s: %s", format, reply->str);
    }
    int64_t number = reply->integer;
    freeReplyObject(reply);
    return number;
}

redisReply *redis_server_next_reply(struct redis_server *server)
{
    void *reply = NULL;
    if (redisGetReply(server->context, &reply) != REDIS_OK) {
        fail_msg("redis-server: %s", server->context->errstr);
    }
    return reply;
}
