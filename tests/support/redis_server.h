/**
 * @file tests/support/redis_server.h  A real redis-server of the test's own.
 *
 * Model:     started on a UNIX socket in a directory of its own, without a TCP port, without
 *            persistence; ended by its process id. What the test asks of it fails the test
 *            when it is not answered.
 * Ownership: redis_server_start / redis_server_stop; replies are the caller's to free.
 * Threads:   one.
 * Errors:    a test that cannot have a server fails and says why.
 */
#ifndef TESTS_SUPPORT_REDIS_SERVER_H
#define TESTS_SUPPORT_REDIS_SERVER_H

#include <stdint.h>

#include <sys/types.h>

#include <hiredis/hiredis.h>

struct redis_server {
    char dir[32];
    char socket[64];
    pid_t pid;
    redisContext *context;
};

void redis_server_start(struct redis_server *server);
void redis_server_stop(struct redis_server *server);

/** Ask, by redisCommand's format. */
redisReply *redis_server_ask(struct redis_server *server, const char *format, ...);

/** ... for a number, which is checked to be one. */
int64_t redis_server_ask_number(struct redis_server *server, const char *format, ...);

/** The next reply to what was appended to the context. */
redisReply *redis_server_next_reply(struct redis_server *server);

#endif
