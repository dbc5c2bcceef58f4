#include "agent/decide/verdict.h"

#include <stddef.h>

static const char *const action_texts[] = {
#define X(name, text) text,
    ACTION_TABLE(X)
#undef X
};

static const char *const reason_texts[] = {
#define X(name, text) text,
    REASON_TABLE(X)
#undef X
};

const char *action_text(enum action action)
{
    return action_texts[action];
}

const char *reason_text(enum reason reason)
{
    return reason_texts[reason];
}

/* Whether `a` has a smaller share of its size left than `b`. */
static bool has_less_left(const struct store_charge *a, const struct store_charge *b)
{
    return a->answer.remaining * b->limit->size < b->answer.remaining * a->limit->size;
}

static int64_t wait_us(const struct store_charge *charge)
{
    return charge->answer.is_allowed ? charge->answer.delay_us
                                     : charge->answer.retry_us;
}

static bool decides_over(const struct store_charge *a, const struct store_charge *b,
                         bool is_exceeded)
{
    return is_exceeded ? wait_us(a) > wait_us(b) : has_less_left(a, b);
}

/* The charge that decides among those of `mask`; -1 when there is none. */
static int find_deciding(const struct store_take *take, uint32_t mask, bool is_exceeded)
{
    int best = -1;
    for (; mask != 0; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        if (best < 0
            || decides_over(&take->charges[i], &take->charges[best], is_exceeded)) {
            best = i;
        }
    }
    return best;
}

enum reason reason_of_failure(enum store_failure failure)
{
    switch (failure) {
    case STORE_DOWN:
        return REASON_STORE_DOWN;
    case STORE_SLOW:
        return REASON_STORE_SLOW;
    case STORE_DEADLINE:
        return REASON_DEADLINE;
    case STORE_NO_FAILURE:
        break;
    }
    NEVER("failure");
}

/* Of a request that is allowed. */
static enum reason find_reason(const struct verdict_circumstances *circumstances)
{
    if (circumstances->is_unmatched) {
        return REASON_UNMATCHED;
    }
    if (circumstances->is_keyless) {
        return REASON_NO_KEY;
    }
    return circumstances->is_cut ? REASON_TOO_MANY_LIMITS : REASON_NONE;
}

/* What happens for the sake of one charge. */
static enum action action_for(const struct store_take *take,
                              const struct verdict_circumstances *circumstances,
                              unsigned i)
{
    const struct store_charge *charge = &take->charges[i];
    if (!charge->answer.is_allowed) {
        return charge->source == STORE_CLOSED ? ACTION_REJECT
                                              : circumstances->exceeded[i];
    }
    if (charge->answer.delay_us > 0) {
        return ACTION_DELAY;
    }
    return (circumstances->soft >> i & 1) != 0 ? ACTION_WARN : ACTION_ALLOW;
}

/* The strongest action; `*winners` are the charges that want it, shadows never. */
static enum action find_action(const struct store_take *take,
                               const struct verdict_circumstances *circumstances,
                               uint32_t *winners)
{
    enum action strongest = ACTION_ALLOW;
    *winners = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        if ((circumstances->shadow >> i & 1) != 0) {
            continue;
        }
        enum action action = action_for(take, circumstances, i);
        if (action > strongest) {
            strongest = action;
            *winners = 0;
        }
        *winners |= (uint32_t)(action == strongest) << i;
    }
    return strongest;
}

static int status_of(enum action action, enum reason reason)
{
    if (reason == REASON_NO_KEY && action == ACTION_REJECT) {
        return VERDICT_STATUS_FORBIDDEN; /* no wait would help */
    }
    switch (action) {
    case ACTION_REJECT:
        return VERDICT_STATUS_TOO_MANY_REQUESTS;
    case ACTION_BLOCK:
        return VERDICT_STATUS_FORBIDDEN;
    case ACTION_ALLOW:
    case ACTION_WARN:
    case ACTION_DELAY:
    case ACTION_DEGRADE:
        break;
    }
    return 0;
}

void verdict_set(struct verdict *verdict, enum action action, enum reason reason,
                 const char *rule)
{
    *verdict = (struct verdict){
        .action = action,
        .reason = reason,
        .is_denied = action >= ACTION_REJECT,
        .status = status_of(action, reason),
        .deciding_idx = -1,
        .shown_idx = -1,
        .rule = rule,
    };
}

uint32_t verdict_by_policy(const struct store_take *take)
{
    uint32_t mask = 0;
    for (unsigned i = 0; take->failure != STORE_NO_FAILURE && i < take->n_charges;
         i++) {
        mask |= (uint32_t)(take->charges[i].source > STORE_UNASKED) << i;
    }
    return mask;
}

/* A policy had a part in it: it is the reason where it decided. */
static void tell_failure(const struct store_take *take, uint32_t by_policy,
                         struct verdict *verdict)
{
    int idx = verdict->deciding_idx;
    bool has_decided = verdict->action == ACTION_ALLOW || (by_policy >> idx & 1) != 0;
    verdict->is_fallback = has_decided;
    if (!has_decided) {
        return;
    }
    verdict->reason = reason_of_failure(take->failure);
    if (idx >= 0 && take->charges[idx].source == STORE_CLOSED) {
        verdict->status = VERDICT_STATUS_UNAVAILABLE;
    }
}

void verdict_combine(const struct store_take *take,
                     const struct verdict_circumstances *circumstances,
                     struct verdict *verdict)
{
    uint32_t winners = 0;
    enum action action = find_action(take, circumstances, &winners);
    bool is_exceeded = action != ACTION_ALLOW;
    uint32_t shown = winners & circumstances->advertised;
    int deciding_idx = find_deciding(take, winners, is_exceeded);
    *verdict = (struct verdict){
        .action = action,
        .reason = is_exceeded ? REASON_LIMIT : find_reason(circumstances),
        .is_denied = action >= ACTION_REJECT,
        .status = status_of(action, REASON_LIMIT),
        .deciding_idx = deciding_idx,
        .shown_idx = shown == winners ? deciding_idx
                                      : find_deciding(take, shown, is_exceeded),
    };
    uint32_t by_policy = circumstances->by_policy & ~circumstances->shadow;
    if (by_policy != 0) {
        tell_failure(take, by_policy, verdict);
    }
}
