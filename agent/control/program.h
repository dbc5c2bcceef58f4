/**
 * @file agent/control/program.h  The program that runs, to be started once more.
 *
 * Model:     the path it was started from and its arguments, as they were at start: what
 *            stands at that path by then is what is started.
 * Ownership: program_read / program_clear.
 * Threads:   the main thread. Between fork and exec only the C library runs
 *            (posix_spawn): threads and signals of ours mean nothing there.
 * Errors:    false with errno.
 * Limits:    PROGRAM_ARGS_BYTES_MAX.
 */
#ifndef AGENT_CONTROL_PROGRAM_H
#define AGENT_CONTROL_PROGRAM_H

#include <stdbool.h>

#include <sys/types.h>

#include "agent/base.h"

enum {
    PROGRAM_PATH_BYTES_MAX = 4096,
    PROGRAM_ARGS_BYTES_MAX = 128 * 1024,
};

/** The variable that tells a successor the number of its channel. */
#define PROGRAM_CHANNEL_VARIABLE "SPOA_RATELIMIT_UPGRADE"

struct program {
    char path[PROGRAM_PATH_BYTES_MAX];
    char *args; /* one behind the other, each with its NUL */
    char **argv;
};

/** Read both from /proc; on false there is nothing to clear. */
MUST_USE bool program_read(struct program *program);
void program_clear(struct program *program);

/**
 * Start it, in this environment but for what is about this process alone, with all
 * descriptors that are not closed on exec, and with `channel_fd`.
 */
MUST_USE bool program_start(const struct program *program, int channel_fd, pid_t *pid);

#endif
