/**
 * @file tests/support/agent_process.h  The real agent as a process of its own, and what the
 *       kernel and its runtime socket say of it.
 *
 * Model:     started by fork and exec with files in a directory of its own, under $TMPDIR or
 *            /tmp: the rules, agent.yaml, its sockets, and its log, which is what it writes
 *            to standard error. It does not outlive the thread that started it.
 * Ownership: start / stop, which also removes the directory.
 * Threads:   one struct, one thread; reading figures from others is fine.
 * Errors:    start answers false and says why on standard error; the figures abort.
 */
#ifndef TESTS_SUPPORT_AGENT_PROCESS_H
#define TESTS_SUPPORT_AGENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

enum {
    AGENT_PROCESS_DIR_BYTES = 64,
    AGENT_PROCESS_PATH_BYTES = 96,
};

struct agent_process {
    pid_t pid; /* 0: not running */
    char dir[AGENT_PROCESS_DIR_BYTES];
    char socket_path[AGENT_PROCESS_PATH_BYTES];
    char runtime_path[AGENT_PROCESS_PATH_BYTES];
    char log_path[AGENT_PROCESS_PATH_BYTES];
    size_t log_off; /* where its last start begins in the log */
};

struct agent_process_options {
    const char *program;
    const char *rules;      /* text of the rules file */
    const char *config;     /* text of agent.yaml */
    const char *listen[4];  /* beside unix@socket_path; the first NULL ends them */
    unsigned n_descriptors; /* ulimit -n; 0 leaves it */
};

/** Make the directory and its files; nothing runs yet. */
bool agent_process_init(struct agent_process *a,
                        const struct agent_process_options *options);

/** Start it there and wait until it says that it is ready. */
bool agent_process_start(struct agent_process *a,
                         const struct agent_process_options *options);

/** Send it `signal` and wait. @return its exit code, or 128 and the signal it died of */
int agent_process_stop(struct agent_process *a, int signal);

/** Remove the directory; false when a file is left that was not made here. */
bool agent_process_fini(struct agent_process *a);

bool agent_process_is_running(const struct agent_process *a);
unsigned agent_process_n_fds(const struct agent_process *a);
size_t agent_process_rss_kib(const struct agent_process *a);

/** User and system time so far, in ticks of 10 ms. */
unsigned long agent_process_ticks(const struct agent_process *a);

/** A figure of `show metrics`, named without its prefix. */
uint64_t agent_process_metric(const struct agent_process *a, const char *name);

/** How long the log is, and how many of its lines after `from` begin with `prefix`. */
size_t agent_process_log_bytes(const struct agent_process *a);
unsigned agent_process_log_lines(const struct agent_process *a, size_t from,
                                 const char *prefix);

/** Write the log after `from` to standard error. */
void agent_process_show_log(const struct agent_process *a, size_t from);

#endif
