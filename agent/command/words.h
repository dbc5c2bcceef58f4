/**
 * @file agent/command/words.h  What rules say, in the words of the language.
 *
 * Model:     writes parts of a checked rules file as one would write them in YAML, on one
 *            line. All that is written is printable ASCII.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    those of the stream.
 * Limits:    none of its own.
 */
#ifndef AGENT_COMMAND_WORDS_H
#define AGENT_COMMAND_WORDS_H

#include <stdio.h>

#include "rules/ast.h"

#include "agent/base.h"

enum {
    WORDS_MOMENT_BYTES_MAX = 24
};

const char *words_algorithm(enum rules_algorithm algorithm);
const char *words_action(enum rules_action action);
const char *words_no_key(enum rules_no_key no_key);
const char *words_unit(enum rules_unit unit);

/** A date, or a moment where it is not the first of one; empty for RULES_NEVER_S. */
void words_moment(int64_t at_s, char text[WORDS_MOMENT_BYTES_MAX]);

/** Write conditions: auth: api_key, path: [/a, /b]; nothing where there are none. */
void words_match(const struct rules_ast *ast, const struct rules_ast_match *match,
                 FILE *out);
/** Write one value of a condition or of a list. */
void words_value(const struct rules_ast_value *value, FILE *out);
/** Write a key: [api_key | user | ip, route] */
void words_key(const struct rules_ast *ast, const struct rules_ast_rule *rule,
               FILE *out);
/** Write what of its key says where in a cluster a counter lies, as a key. */
void words_slot(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                FILE *out);
/** Write what one request takes: 1, or {from: rows, min: 1, max: 500}, or a list. */
void words_cost(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                FILE *out);
/** Write a charge: at the request, or {after: response, when: {status: 401}}. */
void words_charge(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                  FILE *out);
/** Write a mode: enforce, shadow, {enforce: 5%}. */
void words_mode(const struct rules_ast_rule *rule, FILE *out);
/** Write a share in hundredths of a percent: 80%, 0.05%. */
void words_share(int32_t permyriad, FILE *out);
/** Write a plan: unlimited, 600, or {burst: 100, sustained: 6000}. */
void words_plan(const struct rules_ast_rule *rule, const struct rules_ast_plan *plan,
                FILE *out);
/** Write what happens where the store fails: local, {local: 50%}, open, closed. */
void words_failure(const struct rules_failure *failure, FILE *out);
/** Write the `per` of a limit: 60s, or day, and where it is not UTC: day in Europe/Paris. */
void words_per(const struct rules_ast_limit *limit, FILE *out);

#endif
