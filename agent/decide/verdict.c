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

static bool decides_over(const struct store_charge *a, const struct store_charge *b,
                         bool is_refusal)
{
    return is_refusal ? a->answer.retry_us > b->answer.retry_us : has_less_left(a, b);
}

/* The charge that decides among those of `mask`; -1 when none can. */
static int find_deciding(const struct store_take *take, uint32_t mask)
{
    int best = -1;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        bool is_candidate = (mask >> i & 1) != 0 && !charge->is_shadow
                            && charge->answer.is_allowed == take->is_allowed;
        if (!is_candidate) {
            continue;
        }
        if (best < 0 || decides_over(charge, &take->charges[best], !take->is_allowed)) {
            best = (int)i;
        }
    }
    return best;
}

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

void verdict_combine(const struct store_take *take,
                     const struct verdict_circumstances *circumstances,
                     struct verdict *verdict)
{
    *verdict = (struct verdict){
        .action = ACTION_ALLOW,
        .reason = find_reason(circumstances),
        .deciding_idx = find_deciding(take, UINT32_MAX),
        .shown_idx = find_deciding(take, circumstances->advertised),
    };
    if (!take->is_allowed) {
        verdict->action = ACTION_REJECT;
        verdict->reason = REASON_LIMIT;
        verdict->is_denied = true;
        verdict->status = VERDICT_STATUS_TOO_MANY_REQUESTS;
    }
}
