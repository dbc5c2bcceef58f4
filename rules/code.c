#include "rules/code.h"

#define RULES_CODE_DEFINE(name, text) const char rules_code_##name[] = text;
RULES_CODE_TABLE(RULES_CODE_DEFINE)
RULES_WARNING_TABLE(RULES_CODE_DEFINE)

#define RULES_CODE_LIST(name, text) rules_code_##name,
const char *const rules_codes[RULES_CODES_COUNT] = {RULES_CODE_TABLE(RULES_CODE_LIST)};
const char *const rules_warnings[RULES_WARNINGS_COUNT] = {
    RULES_WARNING_TABLE(RULES_CODE_LIST)};
