/**
 * @file agent/decide/verdict.h  From the answers of limits to one verdict.
 *
 * Model:     pure. A request over a limit gets the action of its rule; the strongest
 *            action of all wins. A leaky bucket that holds back has
 *            action delay. Deciding limit: among those whose action won the longest wait;
 *            on a plain allow the smallest share left; ties by file order.
 * Ownership: none.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef AGENT_DECIDE_VERDICT_H
#define AGENT_DECIDE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/store.h"

/** name, text; from the weakest to the strongest. Those from REJECT on refuse. */
#define ACTION_TABLE(X)   \
    X(ALLOW, "allow")     \
    X(WARN, "warn")       \
    X(DELAY, "delay")     \
    X(DEGRADE, "degrade") \
    X(REJECT, "reject")   \
    X(BLOCK, "block")

enum action {
#define X(name, text) ACTION_##name,
    ACTION_TABLE(X)
#undef X
};

enum {
    ACTIONS_N = ACTION_BLOCK + 1
};

#define REASON_TABLE(X)         \
    X(NONE, "")                 \
    X(LIMIT, "limit")           \
    X(BLOCKLIST, "blocklist")   \
    X(ALLOWLIST, "allowlist")   \
    X(UNMATCHED, "unmatched")   \
    X(NO_KEY, "no_key")         \
    X(STORE_DOWN, "store_down") \
    X(STORE_SLOW, "store_slow") \
    X(DEADLINE, "deadline")     \
    X(TOO_MANY_LIMITS, "too_many_limits")

enum reason {
#define X(name, text) REASON_##name,
    REASON_TABLE(X)
#undef X
    REASONS_N
};

const char *action_text(enum action action);
const char *reason_text(enum reason reason);

/** Of a take that policies had to answer. */
enum reason reason_of_failure(enum store_failure failure);

enum {
    VERDICT_STATUS_FORBIDDEN = 403,
    VERDICT_STATUS_TOO_MANY_REQUESTS = 429,
    VERDICT_STATUS_UNAVAILABLE = 503,
};

struct verdict {
    enum action action;
    enum reason reason;
    bool is_denied;
    bool is_fallback; /* it, or a part of it, comes from the policy of a rule */
    int status;       /* HTTP; 0 unless denied */
    int deciding_idx; /* of the charges; -1 when no enforced limit decided */
    int shown_idx;    /* the same among those that clients may see numbers of */
    const char *rule; /* what decided instead of a charge; NULL: nothing did */
};

/** What is to be known beside the answers; in the masks bit n is charge n. */
struct verdict_circumstances {
    bool is_unmatched;           /* no rule matched */
    bool is_keyless;             /* rules matched, but none had a key */
    bool is_cut;                 /* more limits applied than are looked at */
    uint32_t shadow;             /* in shadow for this request */
    uint32_t soft;               /* allowed, but past the soft share of the limit */
    uint32_t advertised;         /* clients may see numbers of it */
    uint32_t by_policy;          /* answered by the policy of its rule */
    const enum action *exceeded; /* of each charge: what happens over the limit */
};

/** @return bit n for each charge n that the policy of its rule answered */
uint32_t verdict_by_policy(const struct store_take *take);

/** A verdict that no limit has a part in: a list, or a key that is missing. */
void verdict_set(struct verdict *verdict, enum action action, enum reason reason,
                 const char *rule);

/**
 * Make one verdict of the answers to all charges of a take: the strongest action of those
 * that are over their limits decides, and the limit that is told is chosen as
 * agent/README.md says (`rule`, `limit`).
 *
 * @param take  done; its charges belong to `circumstances` one by one
 */
void verdict_combine(const struct store_take *take,
                     const struct verdict_circumstances *circumstances,
                     struct verdict *verdict);

#endif
