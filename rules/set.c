#include "rules/program.h"

void rules_set_free(struct rules_set *set)
{
    if (set != NULL) {
        struct rules_arena arena = set->arena; /* holds the set itself */

        rules_arena_fini(&arena);
    }
}

const char *rules_set_name(const struct rules_set *set)
{
    return set->name;
}

const char *rules_set_domain(const struct rules_set *set)
{
    return set->domain;
}

uint32_t rules_set_n_rules(const struct rules_set *set)
{
    return set->n_rules;
}

uint32_t rules_set_n_slots(const struct rules_set *set)
{
    return set->n_slots;
}

uint32_t rules_set_n_limits(const struct rules_set *set)
{
    return set->n_limits;
}

uint32_t rules_set_n_variants(const struct rules_set *set)
{
    return set->n_variants;
}

const struct rules_limit *rules_set_limit(const struct rules_set *set, uint32_t idx)
{
    return &set->limits[idx];
}

uint32_t rules_set_n_calendars(const struct rules_set *set)
{
    return set->n_calendars;
}

const struct rules_calendar *rules_set_calendar(const struct rules_set *set,
                                                uint32_t idx)
{
    return &set->calendars[idx];
}

const struct rules_limit *rules_set_find_settled(const struct rules_set *set,
                                                 const uint8_t *short_id)
{
    uint32_t idx = rules_table_find(&set->settled, 0,
                                    (struct rules_bytes){short_id,
                                                         RULES_SHORT_ID_BYTES});

    return idx == RULES_NONE ? NULL : &set->limits[idx];
}

const struct rules_rule *rules_set_rule(const struct rules_set *set, uint32_t idx)
{
    return &set->rules[idx];
}

const struct rules_clients_file *rules_set_clients(const struct rules_set *set)
{
    return set->clients.path != NULL ? &set->clients : NULL;
}

int64_t rules_set_changes_at_s(const struct rules_set *set)
{
    return set->changes_at_s;
}

uint32_t rules_set_n_expired(const struct rules_set *set)
{
    return set->n_expired;
}

int rules_set_slot(const struct rules_set *set, struct rules_bytes name)
{
    uint32_t slot = rules_table_find(&set->slots, 0, name);

    return slot == RULES_NONE ? -1 : (int)slot;
}
