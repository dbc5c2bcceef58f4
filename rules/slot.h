/**
 * @file rules/slot.h  Which counters of a request lie together in a cluster.
 *
 * Model:     where a counter lies says its tag: the whole key, what of it the rule names
 *            by `tag`, or, without a key, the rule's name. Counters of two rules lie
 *            together where both tags are made of the same parts; then one call asks for
 *            both. One that is split lies in the slots of its shards. What is said here is
 *            of requests that have the parts of both keys.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef RULES_SLOT_H
#define RULES_SLOT_H

#include "rules/ast.h"

/** @return whether counters of both rules for one request are in one slot */
RULES_MUST_USE bool rules_slot_is_same(const struct rules_ast *ast,
                                       const struct rules_ast_rule *a,
                                       const struct rules_ast_rule *b);

/**
 * @param slot  a descriptor that would bring both together, as the `tag` of both
 * @return whether there is one
 */
RULES_MUST_USE bool rules_slot_mend(const struct rules_ast_rule *a,
                                    const struct rules_ast_rule *b, uint32_t *slot);

/** @return which parts of its key say where a counter lies, bit by bit */
uint32_t rules_slot_parts(const struct rules_ast *ast,
                          const struct rules_ast_rule *rule);

#endif
