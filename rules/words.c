#include "rules/words.h"

const char *rules_algorithm_name(enum rules_algorithm algorithm)
{
    static const char *const names[] = {
        [RULES_SLIDING_WINDOW] = "sliding_window",
        [RULES_TOKEN_BUCKET] = "token_bucket",
        [RULES_FIXED_WINDOW] = "fixed_window",
        [RULES_LEAKY_BUCKET] = "leaky_bucket",
        [RULES_SLIDING_LOG] = "sliding_log",
    };

    return names[algorithm];
}

const char *rules_action_name(enum rules_action action)
{
    static const char *const names[] = {
        [RULES_REJECT] = "reject", [RULES_WARN] = "warn",   [RULES_DEGRADE] = "degrade",
        [RULES_BLOCK] = "block",   [RULES_DELAY] = "delay",
    };

    return names[action];
}

const char *rules_no_key_name(enum rules_no_key no_key)
{
    static const char *const names[] = {
        [RULES_NO_KEY_IP] = "ip",
        [RULES_NO_KEY_SKIP] = "skip",
        [RULES_NO_KEY_REJECT] = "reject",
    };

    return names[no_key];
}

const char *rules_store_name(enum rules_store store)
{
    static const char *const names[] = {
        [RULES_STORE_LOCAL] = "local",
        [RULES_STORE_REDIS] = "redis",
        [RULES_STORE_LEASE] = "lease",
        [RULES_STORE_SYNC] = "sync",
    };

    return names[store];
}

const char *rules_failure_policy_name(enum rules_failure_policy policy)
{
    static const char *const names[] = {
        [RULES_FAILURE_LOCAL] = "local",
        [RULES_FAILURE_OPEN] = "open",
        [RULES_FAILURE_CLOSED] = "closed",
    };

    return names[policy];
}
