/**
 * @file agent/control/explain.h  One request explained, for people and for machines.
 *
 * Model:     the request's descriptors come as words `name=value`. What each rule does with
 *            it, and why; what the counters hold; the variables that HAProxy would get, by
 *            a peek: nothing is charged, and nothing counted.
 * Ownership: borrows all of it.
 * Threads:   any that may use the store and the set.
 * Errors:    words that are wrong, and short memory, are told on the stream.
 * Limits:    EXPLAIN_VALUE_BYTES_MAX of a value are shown.
 */
#ifndef AGENT_CONTROL_EXPLAIN_H
#define AGENT_CONTROL_EXPLAIN_H

#include <stdio.h>

#include "rules/clients.h"

#include "agent/decide/decide.h"

enum {
    EXPLAIN_VALUE_BYTES_MAX = 64
};

/** What the words of a request may be, for help texts. */
#define EXPLAIN_WORDS "[--all] [--json] NAME=VALUE..."

/** What an answer begins with that says what is wrong with the words. */
#define EXPLAIN_ERROR "explain: "

struct explain_source {
    const struct decide_set *set;
    const struct rules_clients *clients; /* NULL: none */
    struct store *store;                 /* answers at once */
    const struct decide_options *options;
};

enum explain_status {
    EXPLAIN_ALLOWED = 0,
    EXPLAIN_DENIED,
    EXPLAIN_FAILED, /* said on the stream, after EXPLAIN_ERROR */
};

/** Explain a request. Among the words: --json; --all, for the rules that do not apply. */
enum explain_status explain_print(const struct explain_source *source,
                                  struct instant now, unsigned n_words,
                                  const char *const *words, FILE *out);

#endif
