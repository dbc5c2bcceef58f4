/**
 * @file agent/control/runtime.h  The runtime socket: a door for people.
 *
 * Model:     as HAProxy's stats socket: one line with a command, the answer, close. What
 *            a command prints is the caller's: runtime knows commands only as a table.
 *            A line is words with blanks between them; a backslash takes the byte behind
 *            it as it stands. The words behind a command's own are its arguments.
 * Ownership: runtime_start / runtime_stop; borrows the loop, the table and its context.
 * Threads:   the main thread. A command runs to its end on the main loop and may allocate;
 *            no worker waits for it. One that has to wait itself is begun, and ends later.
 * Errors:    a client that errs is told what is known; runtime_start logs.
 * Limits:    RUNTIME_LINE_BYTES_MAX, RUNTIME_WORDS_MAX, RUNTIME_CLIENTS_MAX; each client
 *            has RUNTIME_LINE_S and RUNTIME_ANSWER_S in all, so that slow ones do not
 *            hold the door.
 */
#ifndef AGENT_CONTROL_RUNTIME_H
#define AGENT_CONTROL_RUNTIME_H

#include <stdio.h>

#include <ev.h>

#include "agent/net/address.h"
#include "agent/net/inheritance.h"

enum {
    RUNTIME_LINE_BYTES_MAX = 4096,
    RUNTIME_WORDS_MAX = 128,
    RUNTIME_CLIENTS_MAX = 16,
    RUNTIME_LINE_S = 10,   /* for the line to come */
    RUNTIME_ANSWER_S = 30, /* for the answer to be read */
    RUNTIME_PAUSE_S = 1,   /* out of descriptors, before the next try */
};

/** What stands behind a command; lives until its answer is given. */
struct runtime_args {
    unsigned n;
    const char *const *words;
};

typedef void runtime_command_fn(const void *context, const struct runtime_args *args,
                                FILE *out);

/** An answer that is given at once or later. */
struct runtime_answer {
    FILE *out;
};

/** As above, but `answer` is to be ended once. */
typedef void runtime_begin_fn(const void *context, const struct runtime_args *args,
                              struct runtime_answer *answer);

struct runtime_command {
    const char *words; /* what is typed: words joined by one space */
    const char *args;  /* what may follow, for help; NULL: nothing */
    const char *help;
    runtime_command_fn *run;
    runtime_begin_fn *begin; /* where `run` is NULL */
};

struct runtime;

/**
 * Listen on `address` and answer on `loop`.
 *
 * @param inheritance  where the socket may be taken from; or NULL
 * @param commands  ends with a line whose `words` is NULL; `help` is built in
 * @return the door, or NULL with a log line
 */
MUST_USE struct runtime *runtime_start(struct ev_loop *loop,
                                       const struct address *address,
                                       struct inheritance *inheritance,
                                       const struct runtime_command *commands,
                                       const void *context);

/** Send the socket through a channel; it stays open, and is accepted from. */
MUST_USE enum channel_status runtime_send_listener(const struct runtime *runtime,
                                                   int channel_fd);

/** Let nobody in for now, or let people in again; who is in gets an answer. */
void runtime_set_open(struct runtime *runtime, bool is_open);

/** Whether the socket's file is removed when the door closes. */
void runtime_own_file(struct runtime *runtime, bool is_ours);

/** All has been printed. Also after runtime_stop: then nobody reads it. */
void runtime_answer_end(struct runtime_answer *answer);

/** Close the door and its clients. Answers that are still to come are ended as ever. NULL is
 *  fine. */
void runtime_stop(struct runtime *runtime);

#endif
