/**
 * @file agent/control/explain.h  One request explained, for people and for machines.
 *
 * Model:     the request's descriptors come as words `name=value`. What each rule does with
 *            it, and why; what the counters hold; the variables that HAProxy would get, by
 *            a peek, which may be answered later: nothing is charged, and nothing counted.
 * Ownership: borrows all of it.
 * Threads:   any that may use the store and the set.
 * Errors:    words that are wrong, short memory, and that Redis does not answer, are told on
 *            the stream.
 * Limits:    EXPLAIN_VALUE_BYTES_MAX of a value are shown.
 */
#ifndef AGENT_CONTROL_EXPLAIN_H
#define AGENT_CONTROL_EXPLAIN_H

#include <stdio.h>

#include "agent/control/peek.h"

enum {
    EXPLAIN_VALUE_BYTES_MAX = 64
};

/** What the words of a request may be, for help texts. */
#define EXPLAIN_WORDS "[--all] [--json] NAME=VALUE..."

/** What an answer begins with that says what is wrong with the words. */
#define EXPLAIN_ERROR "explain: "

enum explain_status {
    EXPLAIN_ALLOWED = 0,
    EXPLAIN_DENIED,
    EXPLAIN_FAILED, /* said on the stream, after EXPLAIN_ERROR */
};

typedef void explain_done_fn(void *context, enum explain_status status);

/**
 * Explain a request; `done` is called once all is printed, at once or later. Among the words:
 * --json; --all, for the rules that do not apply.
 *
 * @param source  copied; what it points at, the words and the stream stay until then
 */
void explain_begin(const struct peek_source *source, unsigned n_words,
                   const char *const *words, FILE *out, explain_done_fn *done,
                   void *context);

/** The same with a store that answers at once. */
enum explain_status explain_print(const struct peek_source *source, unsigned n_words,
                                  const char *const *words, FILE *out);

#endif
