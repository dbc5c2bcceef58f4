#include "agent/control/peek.h"

struct peek_held peek_look(const struct stores *stores,
                           const struct store_charge *charge, struct instant now)
{
    struct peek_held held = {0};
    struct store_charge named = *charge;
    struct table_key key;
    named.key = (const uint8_t *)charge->name;
    named.key_bytes = charge->name_bytes;
    switch (charge->home->kind) {
    case STORE_KIND_REDIS:
        break;
    case STORE_KIND_LEASE:
        key = leases_key(stores->leases, &named);
        held.lease = leases_look(stores->leases, &key, now);
        break;
    case STORE_KIND_SYNC:
        key = syncs_key(stores->syncs, &named);
        held.sync = syncs_look(stores->syncs, &key, charge->limit, now);
        break;
    }
    return held;
}

const char *peek_cause(const struct store_take *take, const struct store_charge *charge)
{
    bool is_answered = charge->source == STORE_COUNTED
                       || take->failure == STORE_NO_FAILURE;
    return is_answered ? NULL : reason_text(reason_of_failure(take->failure));
}

const char *peek_policy(const struct store_charge *charge)
{
    switch (charge->source) {
    case STORE_COUNTED:
    case STORE_UNASKED:
        return NULL;
    case STORE_FALLBACK:
        return "local";
    case STORE_OPEN:
        return "open";
    case STORE_CLOSED:
        return "closed";
    }
    NEVER("source");
}
