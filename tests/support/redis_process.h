/**
 * @file tests/support/redis_process.h  A real redis-server, or Sentinel, of a test's own.
 *
 * Model:     a directory of its own, a port of 127.0.0.1 that was free; started with the
 *            options given, ended by its process number.
 * Errors:    false, or a failure of the running test where nothing else helps.
 */
#ifndef TESTS_SUPPORT_REDIS_PROCESS_H
#define TESTS_SUPPORT_REDIS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

#include "agent/redis/endpoint.h"

struct redis_process {
    char dir[32];
    unsigned port;
    pid_t pid; /* 0: does not run */
    const char *const *options;
};

/** Start one, and wait until it answers. `options` end with NULL, and stay in place. */
bool redis_process_start(struct redis_process *process, const char *const *options);

/** Start it again, after redis_process_kill: with the same port, directory and options. */
bool redis_process_restart(struct redis_process *process);

/** End it at once, by SIGKILL. */
void redis_process_kill(struct redis_process *process);

/** End it, and remove its directory. */
void redis_process_stop(struct redis_process *process);

/** Send a command, as a client of its own; words are parted by blanks. */
bool redis_process_tell(const struct redis_process *process, const char *command,
                        char *reply, size_t reply_bytes);

/** The number behind `name` in what INFO says of a section; -1 where there is none. */
double redis_process_info(const struct redis_process *process, const char *section,
                          const char *name);

/** CPU that it has had. */
double redis_process_cpu_us(const struct redis_process *process);

/** A port of 127.0.0.1 that is free, and so is the one 10 000 above (a cluster's bus). */
unsigned redis_process_free_port(void);

struct endpoint redis_process_endpoint(const struct redis_process *process);

#endif
