#include "rules/compile.h"

#include <stdlib.h>

#include <sodium.h>

#include "rules/index.h"
#include "rules/units.h"
#include "rules/words.h"

struct compiler {
    const struct rules_ast *ast;
    struct rules_set *set;
    int64_t now_s;
    uint32_t n_limits;        /* compiled so far */
    struct rules_arena arena; /* until all is compiled */
    struct rules_table first; /* costs or conditions -> first rule with them */
};

/** What many rules have from `defaults`. */
enum shared {
    SHARED_COSTS = 0,
    SHARED_WHEN,
    SHARED_KINDS,
};

/**
 * @param field  of `from`: the address of what may be shared
 * @return the first rule with the same, compiled; NULL: it is this one
 */
static const struct rules_matcher *find_same(struct compiler *c,
                                             const struct rules_ast_rule *from,
                                             enum shared kind, const void *field)
{
    uint32_t rule = (uint32_t)(from - c->ast->rules);
    struct rules_bytes address = {field, sizeof(void *)};
    uint32_t first = *rules_table_put(&c->first, (uint32_t)kind, address, rule);

    return first < rule ? &c->set->matchers[first] : NULL;
}

/** What is in force ends some day: then the set is another one. */
static bool is_in_force(struct compiler *c, int64_t expires_s)
{
    if (expires_s <= c->now_s) {
        return false;
    }
    if (expires_s < c->set->changes_at_s) {
        c->set->changes_at_s = expires_s;
    }
    return true;
}

static bool bytes_copy(struct rules_set *set, struct rules_bytes from,
                       struct rules_bytes *to)
{
    char *copy = rules_arena_dup(&set->arena, from.ptr, from.len);

    *to = (struct rules_bytes){(const uint8_t *)copy, from.len};
    return copy != NULL;
}

static const char *string_copy(struct rules_set *set, const char *from)
{
    return rules_arena_dup(&set->arena, from, strlen(from));
}

/* crypto_generichash fails only for lengths out of its range: these are constants. */
static void id_update(crypto_generichash_state *state, struct rules_bytes field)
{
    const uint8_t len[4] = {(uint8_t)(field.len >> 24), (uint8_t)(field.len >> 16),
                            (uint8_t)(field.len >> 8), (uint8_t)field.len};

    (void)crypto_generichash_update(state, len, sizeof len);
    (void)crypto_generichash_update(state, field.ptr, field.len);
}

static void id_update_string(crypto_generichash_state *state, const char *field)
{
    id_update(state, (struct rules_bytes){(const uint8_t *)field, strlen(field)});
}

/** A chain is told by a bar before each descriptor but the first. */
static void id_update_part(crypto_generichash_state *state, const struct rules_ast *ast,
                           const struct rules_ast_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (i > 0) {
            id_update_string(state, "|");
        }
        id_update(state, ast->slots[part->slots[i]]);
    }
}

/** The default adds nothing; a bar begins what cannot be a part. */
static void id_update_prefix(crypto_generichash_state *state,
                             struct rules_ip_prefix prefix)
{
    const uint8_t bytes[3] = {'|', prefix.v4_bits, prefix.v6_bits};

    if (prefix.v4_bits != RULES_IP_PREFIX_DEFAULT.v4_bits
        || prefix.v6_bits != RULES_IP_PREFIX_DEFAULT.v6_bits) {
        id_update(state, (struct rules_bytes){bytes, sizeof bytes});
    }
}

/** A number of microseconds, or the name of a calendar. */
static void id_update_per(crypto_generichash_state *state,
                          const struct rules_limit *limit)
{
    char calendar[RULES_CALENDAR_TEXT_BYTES_MAX];
    uint8_t per[8];

    if (limit->calendar != NULL) {
        rules_calendar_print(limit->calendar, calendar);
        id_update_string(state, calendar);
        return;
    }
    for (size_t i = 0; i < sizeof per; i++) {
        per[i] = (uint8_t)((uint64_t)limit->per_us >> (56 - 8 * i));
    }
    id_update(state, (struct rules_bytes){per, sizeof per});
}

static void limit_id_set(const struct compiler *c, const struct rules_ast_rule *rule,
                         const char *name, struct rules_limit *limit)
{
    crypto_generichash_state state;

    (void)crypto_generichash_init(&state, NULL, 0, sizeof limit->id);
    id_update_string(&state, c->ast->domain);
    id_update_string(&state, rule->name);
    id_update_string(&state, name);
    id_update_string(&state, rules_algorithm_name(limit->algorithm));
    id_update_per(&state, limit);
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        id_update_part(&state, c->ast, &rule->key[i]);
    }
    id_update_prefix(&state, rule->ip_prefix);
    (void)crypto_generichash_final(&state, limit->id, sizeof limit->id);
}

/** @return rule.limit; the rule's name for its only limit; NULL when memory ran out */
static const char *limit_name(struct compiler *c, const struct rules_rule *rule,
                              const char *name)
{
    char text[2 * RULES_NAME_BYTES_MAX + 2];

    if (*name == '\0') {
        return rule->name;
    }
    (void)snprintf(text, sizeof text, "%s.%s", rule->name, name);
    return string_copy(c->set, text);
}

static const struct rules_zone *compile_zone(struct compiler *c,
                                             const struct rules_zone *from)
{
    struct rules_zone *copy = c->set->zones;

    while (copy != NULL && strcmp(copy->name, from->name) != 0) {
        copy = copy->next;
    }
    if (copy == NULL) {
        copy = rules_zone_copy(from, &c->set->arena);
        if (copy != NULL) {
            copy->next = c->set->zones;
            c->set->zones = copy;
        }
    }
    return copy;
}

/** Limits with one calendar share it. @return false when memory ran out */
static bool compile_calendar(struct compiler *c, const struct rules_calendar *from,
                             struct rules_limit *limit)
{
    struct rules_set *set = c->set;
    const struct rules_zone *zone;
    uint32_t i = 0;

    if (from->zone == NULL) {
        return true;
    }
    zone = compile_zone(c, from->zone);
    while (
        i < set->n_calendars
        && (set->calendars[i].unit != from->unit || set->calendars[i].zone != zone)) {
        i++;
    }
    if (i == set->n_calendars) {
        set->calendars[set->n_calendars++] = (struct rules_calendar){from->unit, zone};
    }
    limit->calendar = &set->calendars[i];
    limit->calendar_idx = i;
    return zone != NULL;
}

static bool compile_limit(struct compiler *c, const struct rules_rule *rule,
                          const struct rules_ast_limit *from)
{
    uint32_t idx = c->n_limits++;
    struct rules_limit *limit = &c->set->limits[idx];

    limit->rule = rule;
    limit->name = limit_name(c, rule, from->name);
    limit->algorithm = from->algorithm;
    limit->requests = from->requests;
    limit->burst = from->burst;
    limit->per_us = from->per_us;
    limit->tick_us = rules_tick_us(limit->per_us);
    limit->per_ticks = limit->per_us / limit->tick_us;
    limit->max_delay_ticks = from->max_delay_us / limit->tick_us;
    limit->idx = idx;
    limit->base_idx = idx;
    if (limit->name == NULL || !compile_calendar(c, &from->calendar, limit)) {
        return false;
    }
    limit_id_set(c, &c->ast->rules[rule->idx], from->name, limit);
    return true;
}

/** What a response adds is not charged then. */
static int64_t cost_max_of(const struct rules_ast_rule *rule)
{
    int64_t max = rule->charge.has_reserve ? rule->charge.reserve : rule->cost.max;

    for (uint32_t i = 0; i < rule->n_costs; i++) {
        max = rule->costs[i].cost > max ? rule->costs[i].cost : max;
    }
    return max;
}

static bool compile_rule(struct compiler *c, uint32_t idx)
{
    const struct rules_ast_rule *from = &c->ast->rules[idx];
    struct rules_rule *rule = &c->set->rules[idx];

    rule->idx = idx;
    rule->name = string_copy(c->set, from->name);
    rule->owner = from->owner != NULL ? string_copy(c->set, from->owner) : NULL;
    rule->is_expired = !is_in_force(c, from->expires_s);
    c->set->n_expired += rule->is_expired;
    rule->mode = from->mode;
    rule->action = from->action;
    rule->soft_permyriad = from->soft_permyriad;
    rule->enforced_permyriad = from->enforced_permyriad;
    rule->is_settled = from->charge.is_settled;
    rule->is_keyed = from->n_key_parts > 0;
    rule->is_key_hashed = from->is_key_hashed;
    rule->tag_parts = rules_ast_tag_parts(c->ast, from);
    rule->on_store_failure = from->on_store_failure;
    rule->store = from->store;
    rule->n_shards = from->n_shards;
    rule->cost_max = cost_max_of(from);
    rule->is_advertised = from->is_advertised && rule->is_keyed
                          && from->mode != RULES_SHADOW;
    rule->n_limits = from->n_limits;
    rule->limits = &c->set->limits[c->n_limits];
    if (rule->name == NULL || (from->owner != NULL && rule->owner == NULL)) {
        return false;
    }
    for (uint32_t i = 0; i < from->n_limits; i++) {
        if (!compile_limit(c, rule, &from->limits[i])) {
            return false;
        }
    }
    return true;
}

static bool compile_slots(struct compiler *c)
{
    struct rules_set *set = c->set;

    set->n_slots = c->ast->n_slots;
    set->slot_path = c->ast->slot_path;
    set->slot_plan = c->ast->slot_plan;
    if (!rules_table_init(&set->slots, &set->arena, set->n_slots)) {
        return false;
    }
    for (uint32_t i = 0; i < set->n_slots; i++) {
        if (!bytes_copy(set, c->ast->slots[i], &set->slot_names[i])) {
            return false;
        }
        (void)rules_table_put(&set->slots, 0, set->slot_names[i], i);
    }
    return true;
}

static bool compile_clients(struct compiler *c)
{
    const struct rules_ast_clients *clients = &c->ast->clients;
    struct rules_set *set = c->set;

    if (clients->path == NULL) {
        return true;
    }
    set->slot_client = clients->slot;
    set->clients.kind = clients->slot == RULES_SLOT_IP ? RULES_CLIENTS_ADDRESS
                                                       : RULES_CLIENTS_TEXT;
    set->clients.path = string_copy(set, clients->path);
    return set->clients.path != NULL;
}

static bool compile_links(struct compiler *c, const struct rules_ast_part *from,
                          struct rules_part *to)
{
    struct rules_link *links = rules_arena_array(&c->set->arena, from->n_links,
                                                 sizeof *links);

    if (links == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < from->n_links; i++) {
        links[i].slot = from->slots[i];
        if (!bytes_copy(c->set, c->ast->slots[links[i].slot], &links[i].name)) {
            return false;
        }
    }
    *to = (struct rules_part){from->n_links, links};
    return true;
}

static bool compile_parts(struct compiler *c, const struct rules_ast_rule *from,
                          struct rules_matcher *matcher)
{
    struct rules_part *parts = rules_arena_array(&c->set->arena, from->n_key_parts,
                                                 sizeof *parts);

    if (parts == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < from->n_key_parts; i++) {
        if (!compile_links(c, &from->key[i], &parts[i])) {
            return false;
        }
    }
    matcher->parts = parts;
    matcher->n_parts = from->n_key_parts;
    matcher->no_key = from->no_key;
    matcher->ip_prefix = from->ip_prefix;
    return true;
}

static int bytes_compare(const void *a, const void *b)
{
    return rules_bytes_compare(*(const struct rules_bytes *)a,
                               *(const struct rules_bytes *)b);
}

/** Sort, and drop what is there twice: an address that the file spells in two ways. */
static uint32_t bytes_sort(struct rules_bytes *values, uint32_t n)
{
    uint32_t n_kept = 0;

    qsort(values, n, sizeof *values, bytes_compare);
    for (uint32_t i = 0; i < n; i++) {
        if (n_kept == 0 || rules_bytes_compare(values[n_kept - 1], values[i]) != 0) {
            values[n_kept++] = values[i];
        }
    }
    return n_kept;
}

/** Where the values of a condition go, by kind. */
struct values {
    struct rules_bytes *wild;
    struct rules_bytes *texts;
    struct rules_bytes *addresses;
    struct rules_bytes *prefixes;
    struct rules_bytes *networks;
};

static bool values_init(struct compiler *c, struct values *values,
                        const struct rules_ast_condition *from)
{
    struct rules_arena *arena = &c->set->arena;
    size_t n[RULES_AST_NETWORK + 1] = {0};
    size_t n_addresses = 0;

    for (uint32_t i = 0; i < from->n_values; i++) {
        const struct rules_ast_value *value = &from->values[i];

        n[value->kind]++;
        n_addresses += value->kind == RULES_AST_EXACT && value->network.address.len > 0;
    }
    values->wild = rules_arena_array(arena, n[RULES_AST_PATTERN], sizeof *values->wild);
    values->texts = rules_arena_array(arena, n[RULES_AST_EXACT], sizeof *values->texts);
    values->addresses = rules_arena_array(arena, n_addresses,
                                          sizeof *values->addresses);
    values->prefixes = rules_arena_array(arena, n[RULES_AST_PREFIX],
                                         sizeof *values->prefixes);
    values->networks = rules_arena_array(arena, n[RULES_AST_NETWORK],
                                         sizeof *values->networks);
    return values->wild != NULL && values->texts != NULL && values->addresses != NULL
           && values->prefixes != NULL && values->networks != NULL;
}

static bool exact_add(struct compiler *c, const struct rules_ast_value *value,
                      struct rules_condition *to, const struct values *values)
{
    const struct rules_address *address = &value->network.address;

    return bytes_copy(c->set, value->text, &values->texts[to->n_texts++])
           && (address->len == 0
               || bytes_copy(c->set, rules_address_bytes(address),
                             &values->addresses[to->n_addresses++]));
}

static bool network_add(struct compiler *c, const struct rules_network *network,
                        struct rules_bytes *to)
{
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];
    size_t len = rules_network_key(rules_address_bytes(&network->address),
                                   network->bits, key);

    return bytes_copy(c->set, (struct rules_bytes){key, len}, to);
}

static bool value_add(struct compiler *c, const struct rules_ast_value *value,
                      struct rules_condition *to, const struct values *values)
{
    struct rules_bytes text = value->text;

    switch (value->kind) {
    case RULES_AST_EXACT:
        return exact_add(c, value, to, values);
    case RULES_AST_PATTERN:
        return bytes_copy(c->set, text, &values->wild[to->n_wild++]);
    case RULES_AST_PREFIX:
        text.len--; /* the star */
        return bytes_copy(c->set, text, &values->prefixes[to->n_prefixes++]);
    case RULES_AST_NETWORK:
        break;
    }
    return network_add(c, &value->network, &values->networks[to->n_networks++]);
}

/** The lengths of sorted values: those of one length stand together. */
static bool lens_set(struct compiler *c, uint32_t slot,
                     const struct rules_bytes *sorted, uint32_t n,
                     const struct rules_len **lens, uint32_t *n_lens)
{
    struct rules_len *to = rules_arena_array(&c->set->arena, n, sizeof *to);

    if (to == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || sorted[i].len != sorted[i - 1].len) {
            to[(*n_lens)++] = (struct rules_len){slot, (uint32_t)sorted[i].len, 0};
        }
    }
    *lens = to;
    return true;
}

/** The same for keys of networks, which begin with their number of bits. */
static bool bits_set(struct compiler *c, uint32_t slot,
                     const struct rules_bytes *sorted, uint32_t n,
                     const struct rules_len **lens, uint32_t *n_lens)
{
    struct rules_len *to = rules_arena_array(&c->set->arena, n, sizeof *to);

    if (to == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || sorted[i].len != sorted[i - 1].len
            || sorted[i].ptr[0] != sorted[i - 1].ptr[0]) {
            to[(*n_lens)++] = (struct rules_len){slot, (uint32_t)sorted[i].len - 1,
                                                 sorted[i].ptr[0]};
        }
    }
    *lens = to;
    return true;
}

static bool compile_condition(struct compiler *c,
                              const struct rules_ast_condition *from,
                              struct rules_condition *to)
{
    struct values values;

    if (!values_init(c, &values, from)) {
        return false;
    }
    to->slot = from->slot;
    to->is_negated = from->is_negated;
    for (uint32_t i = 0; i < from->n_values; i++) {
        if (!is_in_force(c, from->values[i].expires_s)) {
            continue;
        }
        if (!value_add(c, &from->values[i], to, &values)) {
            return false;
        }
    }
    to->n_texts = bytes_sort(values.texts, to->n_texts);
    to->n_addresses = bytes_sort(values.addresses, to->n_addresses);
    to->n_prefixes = bytes_sort(values.prefixes, to->n_prefixes);
    to->n_networks = bytes_sort(values.networks, to->n_networks);
    to->wild = values.wild;
    to->texts = values.texts;
    to->addresses = values.addresses;
    to->prefixes = values.prefixes;
    to->networks = values.networks;
    return lens_set(c, to->slot, to->prefixes, to->n_prefixes, &to->prefix_lens,
                    &to->n_prefix_lens)
           && bits_set(c, to->slot, to->networks, to->n_networks, &to->network_lens,
                       &to->n_network_lens);
}

/** @return the conditions, or NULL when memory ran out */
static struct rules_condition *compile_match(struct compiler *c,
                                             const struct rules_ast_match *from)
{
    struct rules_condition *conditions = rules_arena_array(&c->set->arena,
                                                           from->n_conditions,
                                                           sizeof *conditions);

    for (uint32_t i = 0; conditions != NULL && i < from->n_conditions; i++) {
        if (!compile_condition(c, &from->conditions[i], &conditions[i])) {
            return NULL;
        }
    }
    return conditions;
}

/** @return the items, or NULL when memory ran out */
static const struct rules_costs_item *compile_costs(struct compiler *c,
                                                    const struct rules_ast_rule *from)
{
    struct rules_costs_item *items = rules_arena_array(&c->set->arena, from->n_costs,
                                                       sizeof *items);

    for (uint32_t i = 0; items != NULL && i < from->n_costs; i++) {
        items[i].n_conditions = from->costs[i].match.n_conditions;
        items[i].conditions = compile_match(c, &from->costs[i].match);
        items[i].cost = from->costs[i].cost;
        if (items[i].conditions == NULL) {
            return NULL;
        }
    }
    return items;
}

static bool compile_cost(struct compiler *c, const struct rules_ast_rule *from,
                         struct rules_cost *to)
{
    const struct rules_matcher *same = NULL;

    if (from->n_costs > 0) {
        same = find_same(c, from, SHARED_COSTS, &from->costs);
    }
    to->items = same != NULL ? same->cost.items : compile_costs(c, from);
    if (to->items == NULL) {
        return false;
    }
    to->slot = from->cost.is_from_slot ? from->cost.slot : RULES_NONE;
    to->min = from->cost.min;
    to->max = from->cost.max;
    to->n_items = from->n_costs;
    return true;
}

static bool compile_charge(struct compiler *c, const struct rules_ast_rule *from,
                           struct rules_charge *to)
{
    const struct rules_ast_match *when = &from->charge.when;
    const struct rules_matcher *same = NULL;

    if (when->n_conditions > 0) {
        same = find_same(c, from, SHARED_WHEN, &when->conditions);
    }
    to->has_reserve = from->charge.has_reserve;
    to->reserve = from->charge.reserve;
    to->n_conditions = when->n_conditions;
    to->conditions = same != NULL ? same->charge.conditions : compile_match(c, when);
    return to->conditions != NULL;
}

static int64_t taken_by_each(const struct rules_matcher *matcher)
{
    if (matcher->charge.has_reserve) {
        return matcher->charge.reserve;
    }
    return matcher->cost.n_items == 0 && matcher->cost.slot == RULES_NONE
               ? matcher->cost.min
               : -1;
}

static bool compile_overrides(struct compiler *c, const struct rules_ast_rule *from,
                              struct rules_matcher *to)
{
    uint32_t *overrides = rules_arena_array(&c->set->arena, from->n_overrides,
                                            sizeof *overrides);

    for (uint32_t i = 0; overrides != NULL && i < from->n_overrides; i++) {
        overrides[i] = from->overrides[i].rule;
        c->set->has_overrides = true;
    }
    to->n_overrides = from->n_overrides;
    to->overrides = overrides;
    return overrides != NULL;
}

static bool compile_matcher(struct compiler *c, uint32_t idx)
{
    const struct rules_ast_rule *from = &c->ast->rules[idx];
    struct rules_matcher *matcher = &c->set->matchers[idx];

    matcher->conditions = compile_match(c, &from->match);
    matcher->n_conditions = from->match.n_conditions;
    matcher->is_expired = c->set->rules[idx].is_expired;
    if (matcher->conditions == NULL || !compile_parts(c, from, matcher)
        || !compile_cost(c, from, &matcher->cost)
        || !compile_charge(c, from, &matcher->charge)
        || !compile_overrides(c, from, matcher)) {
        return false;
    }
    matcher->taken = taken_by_each(matcher);
    return true;
}

/** @return whether a list holds anything yet: a condition without values holds always */
static bool has_values(const struct rules_condition *condition)
{
    return condition != NULL
           && condition->n_wild + condition->n_texts + condition->n_prefixes
                      + condition->n_networks
                  > 0;
}

/** The lists stand behind the rules, so that the same tables find them. */
static bool compile_lists(struct compiler *c)
{
    struct rules_set *set = c->set;

    for (uint32_t i = 0; i < c->ast->n_lists; i++) {
        struct rules_matcher *matcher = &set->matchers[set->n_rules + i];
        struct rules_ast_match match = {1, &c->ast->lists[i].condition};

        matcher->conditions = compile_match(c, &match);
        matcher->n_conditions = 1;
        matcher->is_expired = !has_values(matcher->conditions);
        if (matcher->conditions == NULL) {
            return false;
        }
        set->listed[i] = c->ast->lists[i].is_block ? RULES_BLOCKED : RULES_ALLOWED;
    }
    return true;
}

static struct rules_set *set_new(void)
{
    struct rules_arena arena = {NULL};
    struct rules_set *set = rules_arena_array(&arena, 1, sizeof *set);

    if (set != NULL) {
        set->arena = arena;
    }
    return set;
}

static size_t plans_count(const struct rules_ast *ast)
{
    size_t n = 0;

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        n += ast->rules[i].n_plans;
    }
    return n;
}

/** What a plan makes of the limits of a rule: other numbers under the same id. */
static uint32_t compile_variants(struct compiler *c, const struct rules_rule *rule,
                                 const struct rules_ast_plan *plan)
{
    uint32_t first = c->n_limits;

    for (uint32_t i = 0; i < rule->n_limits; i++) {
        struct rules_limit *limit = &c->set->limits[c->n_limits];

        *limit = rule->limits[i];
        limit->requests = plan->numbers[i].requests;
        limit->burst = plan->numbers[i].burst;
        limit->idx = c->n_limits++;
    }
    return first;
}

static bool compile_plan(struct compiler *c, uint32_t rule,
                         const struct rules_ast_plan *plan)
{
    struct rules_set *set = c->set;
    struct rules_bytes name = {(const uint8_t *)plan->name, strlen(plan->name)};
    struct rules_bytes copy;

    if (!bytes_copy(set, name, &copy)) {
        return false;
    }
    (void)rules_table_put(&set->plans, rule, copy,
                          plan->is_unlimited
                              ? RULES_UNLIMITED
                              : compile_variants(c, &set->rules[rule], plan));
    return true;
}

static bool compile_plans_of(struct compiler *c, uint32_t rule)
{
    const struct rules_ast_rule *from = &c->ast->rules[rule];
    bool is_ok = true;

    c->set->matchers[rule].has_plans = from->n_plans > 0;
    for (uint32_t i = 0; is_ok && i < from->n_plans; i++) {
        is_ok = compile_plan(c, rule, &from->plans[i]);
    }
    return is_ok;
}

static bool compile_plans(struct compiler *c)
{
    struct rules_set *set = c->set;
    bool is_ok = rules_table_init(&set->plans, &set->arena, plans_count(c->ast));

    for (uint32_t i = 0; is_ok && i < c->ast->n_rules; i++) {
        is_ok = compile_plans_of(c, i);
    }
    return is_ok;
}

/** Receipts name limits by a part of their ids. */
static bool compile_settled(struct compiler *c)
{
    struct rules_set *set = c->set;

    if (!rules_table_init(&set->settled, &set->arena, set->n_limits)) {
        return false;
    }
    for (uint32_t i = 0; i < set->n_limits; i++) {
        struct rules_bytes id = {set->limits[i].id, RULES_SHORT_ID_BYTES};

        if (set->limits[i].rule->is_settled) {
            (void)rules_table_put(&set->settled, 0, id, i);
        }
    }
    return true;
}

static uint32_t limits_count(const struct rules_ast *ast)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        n += ast->rules[i].n_limits;
    }
    return n;
}

/** At most as many as there are limits that follow one. */
static struct rules_calendar *calendars_new(struct compiler *c)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->ast->n_rules; i++) {
        for (uint32_t j = 0; j < c->ast->rules[i].n_limits; j++) {
            n += c->ast->rules[i].limits[j].calendar.zone != NULL;
        }
    }
    return rules_arena_array(&c->set->arena, n, sizeof *c->set->calendars);
}

static bool compile_all(struct compiler *c, const char *name)
{
    struct rules_set *set = c->set;
    uint32_t n = c->ast->n_rules;

    set->n_rules = n;
    set->name = string_copy(set, name);
    set->domain = string_copy(set, c->ast->domain);
    set->rules = rules_arena_array(&set->arena, n, sizeof *set->rules);
    set->n_limits = limits_count(c->ast);
    set->n_variants = set->n_limits + rules_ast_variants(c->ast);
    set->limits = rules_arena_array(&set->arena, set->n_variants, sizeof *set->limits);
    set->n_matchers = n + c->ast->n_lists;
    set->matchers = rules_arena_array(&set->arena, set->n_matchers,
                                      sizeof *set->matchers);
    set->calendars = calendars_new(c);
    set->listed = rules_arena_array(&set->arena, c->ast->n_lists, sizeof *set->listed);
    if (set->name == NULL || set->domain == NULL || set->rules == NULL
        || set->limits == NULL || set->matchers == NULL || set->listed == NULL
        || set->calendars == NULL || !compile_slots(c)
        || !rules_table_init(&c->first, &c->arena, (size_t)n * SHARED_KINDS)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!compile_rule(c, i) || !compile_matcher(c, i)) {
            return false;
        }
    }
    return compile_clients(c) && compile_plans(c) && compile_settled(c)
           && compile_lists(c) && rules_index_build(c->set);
}

struct rules_set *rules_compile(const struct rules_ast *ast, const char *name,
                                int64_t now_s)
{
    struct compiler c = {.ast = ast, .set = set_new(), .now_s = now_s};

    if (c.set != NULL) {
        c.set->changes_at_s = RULES_NEVER_S;
    }
    if (c.set != NULL && !compile_all(&c, name)) {
        rules_set_free(c.set);
        c.set = NULL;
    }
    rules_arena_fini(&c.arena);
    return c.set;
}
