/**
 * @file rules/code.h  The diagnostic codes as constants, from code_table.h.
 *
 * Model:     one constant text a code: rules_code_bad_name is "bad-name".
 * Ownership: static.
 * Threads:   constants.
 * Errors:    none.
 */
#ifndef RULES_CODE_H
#define RULES_CODE_H

#include "rules/code_table.h"

#define RULES_CODE_DECLARE(name, text) extern const char rules_code_##name[];
RULES_CODE_TABLE(RULES_CODE_DECLARE)
RULES_WARNING_TABLE(RULES_CODE_DECLARE)
#undef RULES_CODE_DECLARE

#define RULES_CODE_COUNT(name, text) +1 /* NOLINT(bugprone-macro-parentheses) */
enum {
    RULES_CODES_COUNT = 0 RULES_CODE_TABLE(RULES_CODE_COUNT),
    RULES_WARNINGS_COUNT = 0 RULES_WARNING_TABLE(RULES_CODE_COUNT),
};
#undef RULES_CODE_COUNT

/** All codes of errors, in alphabetical order. */
extern const char *const rules_codes[RULES_CODES_COUNT];

/** The same of warnings. */
extern const char *const rules_warnings[RULES_WARNINGS_COUNT];

#endif
