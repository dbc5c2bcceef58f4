/**
 * @file agent/control/counter.h  What the counters of one key hold.
 *
 * Model:     `show counter [RULE[.LIMIT]] KEY`, a line for each limit whose key has these
 *            parts. KEY is as rules/key_text.h writes and reads it; none for `key: []`.
 *            Looked at by a peek: nothing changes.
 * Ownership: borrows all of it.
 * Threads:   any that may use the store and the set.
 * Errors:    told on the stream.
 */
#ifndef AGENT_CONTROL_COUNTER_H
#define AGENT_CONTROL_COUNTER_H

#include <stdio.h>

#include "agent/decide/set.h"
#include "agent/store/store.h"

#define COUNTER_WORDS "[RULE[.LIMIT]] KEY"

void counter_print(const struct decide_set *set, struct store *store,
                   struct instant now, unsigned n_words, const char *const *words,
                   FILE *out);

#endif
