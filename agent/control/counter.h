/**
 * @file agent/control/counter.h  What the counters of one key hold.
 *
 * Model:     `show counter [RULE[.LIMIT]] KEY`, a line for each limit whose key has these
 *            parts. KEY is as rules/key_text.h writes and reads it; none for `key: []`.
 *            Looked at by peeks, which may be answered later: nothing changes.
 * Ownership: borrows all of it.
 * Threads:   any that may use the store and the set.
 * Errors:    told on the stream, as is that Redis does not answer.
 */
#ifndef AGENT_CONTROL_COUNTER_H
#define AGENT_CONTROL_COUNTER_H

#include <stdio.h>

#include "agent/control/peek.h"

#define COUNTER_WORDS "[RULE[.LIMIT]] KEY"

typedef void counter_done_fn(void *context);

/**
 * Print what the words ask for; `done` is called once all is printed, at once or later.
 *
 * @param source  copied; what it points at, the words and the stream stay until then
 */
void counter_begin(const struct peek_source *source, unsigned n_words,
                   const char *const *words, FILE *out, counter_done_fn *done,
                   void *context);

#endif
