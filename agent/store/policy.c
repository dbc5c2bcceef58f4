#include "agent/store/policy.h"

#include "agent/store/shards.h"
#include "agent/store/sub_take.h"

static void pass(struct store_take *take, unsigned i, enum store_source source)
{
    struct store_charge *charge = &take->charges[i];
    charge->source = source;
    charge->is_charged = false;
    charge->answer = (struct limit_answer){
        .is_allowed = true,
        .remaining = charge->limit->size,
    };
    take->held[i] = charge->answer;
}

/* 1 to 3 s: Redis may be back by then. */
static void refuse(const struct policies *policies, struct store_take *take, unsigned i)
{
    struct store_charge *charge = &take->charges[i];
    charge->source = STORE_CLOSED;
    charge->is_charged = false;
    charge->answer = (struct limit_answer){
        .retry_us = US_PER_S + (uint32_t)seam_random(policies->seam) % (2 * US_PER_S),
    };
    take->held[i] = charge->answer;
    health_add(policies->health, HEALTH_POLICY_CLOSED, 1);
}

/* Charge this host's share. @return whether it allows */
static bool take_share(const struct policies *policies, struct store_take *take,
                       uint32_t mask)
{
    UNCLEARED struct store_take sub;
    UNCLEARED struct limit limits[STORE_CHARGES_MAX];
    UNCLEARED char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    unsigned at[STORE_CHARGES_MAX];
    unsigned n_agents = health_n_agents(policies->health);
    sub_take_begin(&sub, take);
    for (; mask != 0; mask &= mask - 1) {
        unsigned i = (unsigned)__builtin_ctz(mask);
        unsigned n = sub.n_charges++;
        const struct store_home *home = take->charges[i].home;
        at[n] = i;
        fallback_limit(&home->fallback, n_agents, home->share, &limits[n]);
        sub.charges[n] = take->charges[i];
        sub.charges[n].limit = &limits[n];
        sub.charges[n].limit_id = home->fallback_id;
        sub.charges[n].home = NULL;
        if (home->n_shards > 1) { /* the host's share is of the whole */
            sub.charges[n].key = (const uint8_t *)names[n];
            sub.charges[n].key_bytes = shards_strip((const char *)take->charges[i].key,
                                                    take->charges[i].key_bytes,
                                                    names[n]);
        }
    }
    store_take(policies->local, &sub);
    for (unsigned i = 0; i < sub.n_charges; i++) {
        sub_take_answer(&sub, i, take, at[i]);
        take->charges[at[i]].source = STORE_FALLBACK;
    }
    return sub.is_allowed;
}

void policy_pass_unasked(struct store_take *take, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        pass(take, (unsigned)__builtin_ctz(mask), STORE_UNASKED);
    }
}

static void pass_open(const struct policies *policies, struct store_take *take,
                      unsigned i)
{
    pass(take, i, STORE_OPEN);
    health_add(policies->health, HEALTH_POLICY_OPEN, 1);
}

/* @return whether it passes: what refuses nobody does */
static bool apply_closed(const struct policies *policies, struct store_take *take,
                         unsigned i)
{
    if (take->charges[i].is_lenient) {
        pass_open(policies, take, i);
        return true;
    }
    refuse(policies, take, i);
    return false;
}

bool policies_apply(const struct policies *policies, struct store_take *take,
                    uint32_t mask)
{
    uint32_t shares = 0;
    bool is_allowed = true;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        switch (take->charges[i].home->policy) {
        case STORE_POLICY_LOCAL:
            shares |= UINT32_C(1) << i;
            break;
        case STORE_POLICY_OPEN:
            pass_open(policies, take, i);
            break;
        case STORE_POLICY_CLOSED:
            is_allowed = apply_closed(policies, take, i) && is_allowed;
            break;
        }
    }
    if (shares != 0 && is_allowed) {
        health_add(policies->health, HEALTH_POLICY_LOCAL,
                   (uint64_t)__builtin_popcount(shares));
        return take_share(policies, take, shares);
    }
    policy_pass_unasked(take, shares);
    return is_allowed;
}
