/**
 * @file rules/words.h  The words of the language for what enums say.
 */
#ifndef RULES_WORDS_H
#define RULES_WORDS_H

#include "rules/rules.h"

const char *rules_algorithm_name(enum rules_algorithm algorithm);
const char *rules_action_name(enum rules_action action);
const char *rules_no_key_name(enum rules_no_key no_key);
const char *rules_store_name(enum rules_store store);
const char *rules_failure_policy_name(enum rules_failure_policy policy);

#endif
