/**
 * @file rules/index.h  File the rules of a set under the values that find them.
 *
 * Model:     see program.h. Builds values, children, nodes, postings and always from the
 *            matchers; puts the condition that a rule is filed under first.
 * Ownership: all in the set's arena.
 * Threads:   one thread, before the set is shared.
 * Errors:    false when memory ran out.
 */
#ifndef RULES_INDEX_H
#define RULES_INDEX_H

#include "rules/program.h"

RULES_MUST_USE bool rules_index_build(struct rules_set *set);

#endif
