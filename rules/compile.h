/**
 * @file rules/compile.h  From checked rules to a set.
 *
 * Model:     copies what the set needs out of the tree and builds its tables.
 * Ownership: the result owns all it refers to.
 * Threads:   one thread.
 * Errors:    NULL when memory ran out.
 */
#ifndef RULES_COMPILE_H
#define RULES_COMPILE_H

#include "rules/ast.h"
#include "rules/program.h"

/**
 * @param now_s  what ended by then is left out, and counted
 * @return the set (rules_set_free), or NULL when memory ran out
 */
RULES_MUST_USE struct rules_set *rules_compile(const struct rules_ast *ast,
                                               const char *name, int64_t now_s);

#endif
