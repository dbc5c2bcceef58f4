/**
 * @file agent/command/check_code.h  Codes of what check finds outside a rules file.
 *
 * Model:     as in rules/code.h: check_code_spoe_syntax is "spoe-syntax".
 * Ownership: static.
 * Threads:   constants.
 * Errors:    none.
 */
#ifndef AGENT_COMMAND_CHECK_CODE_H
#define AGENT_COMMAND_CHECK_CODE_H

/* name, text; in alphabetical order, and explained in rules/README.md */
#define CHECK_CODE_TABLE(X)                   \
    X(redis_denied, "redis-denied")           \
    X(redis_evicts, "redis-evicts")           \
    X(redis_mode, "redis-mode")               \
    X(redis_old, "redis-old")                 \
    X(redis_refuses, "redis-refuses")         \
    X(redis_replica, "redis-replica")         \
    X(redis_unreachable, "redis-unreachable") \
    X(redis_unseen, "redis-unseen")           \
    X(spoe_claimed, "spoe-claimed")           \
    X(spoe_missing, "spoe-missing")           \
    X(spoe_no_message, "spoe-no-message")     \
    X(spoe_no_timeout, "spoe-no-timeout")     \
    X(spoe_not_sent, "spoe-not-sent")         \
    X(spoe_request_only, "spoe-request-only") \
    X(spoe_syntax, "spoe-syntax")             \
    X(spoe_timeout, "spoe-timeout")           \
    X(unknown_plan, "unknown-plan")           \
    X(unreadable, "unreadable")

#define CHECK_CODE_DECLARE(name, text) extern const char check_code_##name[];
CHECK_CODE_TABLE(CHECK_CODE_DECLARE)
#undef CHECK_CODE_DECLARE

#define CHECK_CODE_COUNT(name, text) +1 /* NOLINT(bugprone-macro-parentheses) */
enum {
    CHECK_CODES_COUNT = 0 CHECK_CODE_TABLE(CHECK_CODE_COUNT)
};
#undef CHECK_CODE_COUNT

/** All of them. */
extern const char *const check_codes[CHECK_CODES_COUNT];

#endif
