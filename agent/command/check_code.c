#include "agent/command/check_code.h"

#define CHECK_CODE_DEFINE(name, text) const char check_code_##name[] = text;
CHECK_CODE_TABLE(CHECK_CODE_DEFINE)

#define CHECK_CODE_LIST(name, text) check_code_##name,
const char *const check_codes[CHECK_CODES_COUNT] = {CHECK_CODE_TABLE(CHECK_CODE_LIST)};
