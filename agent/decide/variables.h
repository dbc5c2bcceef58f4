/**
 * @file agent/decide/variables.h  What HAProxy gets to see of a verdict.
 *
 * Model:     one table of variables, in the order in which they are sent; a chosen
 *            variable is sent only when it has a value. No value holds client text: all
 *            are made of rule names and numbers, printable ASCII.
 * Ownership: none.
 * Threads:   no shared state.
 * Errors:    a variable without room is left out and counted; later ones may still fit.
 */
#ifndef AGENT_DECIDE_VARIABLES_H
#define AGENT_DECIDE_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

/** name, text, whether it is sent unless `variables:` says otherwise */
#define VARIABLE_TABLE(X)               \
    X(ACTION, "action", true)           \
    X(DENY, "deny", true)               \
    X(STATUS, "status", true)           \
    X(RULE, "rule", true)               \
    X(LIMIT, "limit", false)            \
    X(REMAINING, "remaining", false)    \
    X(RESET, "reset", false)            \
    X(RETRY_AFTER, "retry_after", true) \
    X(DELAY_MS, "delay_ms", true)       \
    X(RATELIMIT, "ratelimit", false)    \
    X(POLICY, "policy", false)          \
    X(PROBLEM, "problem", false)        \
    X(REASON, "reason", true)           \
    X(FALLBACK, "fallback", false)      \
    X(RECEIPT, "receipt", true)         \
    X(SHADOW, "shadow", false)

enum variable {
#define X(name, text, is_default) VARIABLE_##name,
    VARIABLE_TABLE(X)
#undef X
};

enum {
    VARIABLES_N = VARIABLE_SHADOW + 1
};

/** A set of variables: bit n is variable n. */
typedef uint32_t variable_set;

#define VARIABLE_BIT(variable) ((variable_set)1 << (variable))

/** What is sent unless the configuration says otherwise. */
variable_set variables_default(void);

/** @return the variable of that name, or -1 */
int variable_find(const char *name);
const char *variable_text(enum variable variable);

#endif
