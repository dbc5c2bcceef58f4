/**
 * @file rules/imply.h  Whether all requests that meet one match meet another, or none does.
 *
 * Model:     compares what two matches say, descriptor by descriptor. Only what is sure
 *            is said: false may also mean that it could not be told.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    stops, with false, when the steps given are used up.
 */
#ifndef RULES_IMPLY_H
#define RULES_IMPLY_H

#include "rules/ast.h"

/**
 * @param n_steps  pairs of values that may be compared, in all calls; counted down
 * @return whether every request that meets `narrow` is sure to meet `wide`
 */
RULES_MUST_USE bool rules_match_implies(const struct rules_ast_match *narrow,
                                        const struct rules_ast_match *wide,
                                        int64_t *n_steps);

/** @return whether no request at all is sure to meet both */
RULES_MUST_USE bool rules_match_excludes(const struct rules_ast_match *a,
                                         const struct rules_ast_match *b,
                                         int64_t *n_steps);

#endif
