/**
 * @file agent/command/ask.h  Ask a running agent over its runtime socket.
 *
 * Model:     one line, and the whole answer.
 * Ownership: the answer is the caller's, to be freed.
 * Threads:   the main thread.
 * Errors:    a line on standard error.
 * Limits:    RUNTIME_LINE_BYTES_MAX of the line, ASK_ANSWER_BYTES_MAX of the answer.
 */
#ifndef AGENT_COMMAND_ASK_H
#define AGENT_COMMAND_ASK_H

#include "agent/base.h"

enum {
    ASK_ANSWER_BYTES_MAX = 64 * 1024 * 1024,
    ASK_TIMEOUT_S = 30,
};

/** The runtime socket of an agent that is installed as a service. */
#define ASK_DEFAULT_PATH "/run/spoa-ratelimit/runtime.sock"

/**
 * Ask.
 *
 * @param words  joined by a space, each escaped
 * @return the answer with a NUL behind it; NULL when there is none
 */
MUST_USE char *ask_agent(const char *path, unsigned n_words, const char *const *words);

#endif
