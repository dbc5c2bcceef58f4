/**
 * @file tests/support/fake_redis.h  A Redis server of whatever manners a test wants, on the
 *       loop of the test: what happens when is the test's to say.
 *
 * Model:     listens on a UNIX socket or a loopback port of its own, takes commands
 *            apart, and asks `answer` what to do with each: fake_redis_say,
 *            fake_redis_close, or nothing at all.
 */
#ifndef TESTS_SUPPORT_FAKE_REDIS_H
#define TESTS_SUPPORT_FAKE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>

#include "agent/redis/endpoint.h"

enum {
    FAKE_REDIS_PEERS_MAX = 8,
    FAKE_REDIS_ARGS_MAX = 64,
    FAKE_REDIS_IN_BYTES = 1024 * 1024,
};

struct fake_redis;

struct fake_peer {
    struct fake_redis *fake;
    int fd; /* -1: none */
    struct ev_io io;
    size_t n_in;
    char in[FAKE_REDIS_IN_BYTES];
};

struct fake_command {
    unsigned n_args;
    struct {
        const char *ptr;
        size_t len;
    } args[FAKE_REDIS_ARGS_MAX];
};

typedef void fake_redis_fn(struct fake_redis *fake, struct fake_peer *peer,
                           const struct fake_command *command);

struct fake_redis {
    struct ev_loop *loop;
    fake_redis_fn *answer;
    void *data; /* the test's */
    struct endpoint endpoint;
    char dir[32]; /* of a UNIX socket; else empty */
    int fd;
    struct ev_io io;
    unsigned n_accepted;
    struct fake_peer peers[FAKE_REDIS_PEERS_MAX];
};

/** Listen. @return the server, or NULL */
struct fake_redis *fake_redis_start(struct ev_loop *loop, fake_redis_fn *answer,
                                    void *data);

/** The same on a port of 127.0.0.1. */
struct fake_redis *fake_redis_start_tcp(struct ev_loop *loop, fake_redis_fn *answer,
                                        void *data);

/** Close everything; nothing of it is left. */
void fake_redis_stop(struct fake_redis *fake);

/** No longer accept: connections are refused. */
void fake_redis_go_deaf(struct fake_redis *fake);

/** Listen again where it did. */
bool fake_redis_hear_again(struct fake_redis *fake);

/** Bytes to the peer, as they are. */
void fake_redis_say(struct fake_peer *peer, const char *text);
void fake_redis_say_bytes(struct fake_peer *peer, const char *bytes, size_t len);

void fake_redis_close(struct fake_peer *peer);

/** The peer that came last and is still there, or NULL. */
struct fake_peer *fake_redis_peer(struct fake_redis *fake);

/** Whether the command's name (and second word, where it has one) is this. */
bool fake_command_is(const struct fake_command *command, const char *name);

/** Answer what a link says first as it should be. @return false when it is none of that */
bool fake_redis_greet(struct fake_peer *peer, const struct fake_command *command);

#endif
