#include "rules/facts.h"

#include "rules/key.h"
#include "rules/path.h"
#include "rules/units.h"

static void path_set(struct rules_facts *facts, struct rules_result *result)
{
    size_t len;

    facts->path = rules_value_canonical(&facts->request->values[facts->set->slot_path]);
    if (facts->path.type != RULES_TEXT || rules_path_is_normal(facts->path.bytes)) {
        return;
    }
    if (rules_path_normalise(facts->path.bytes, result->path, &len)) {
        facts->path.bytes = (struct rules_bytes){result->path, len};
    } else {
        result->is_path_as_it_stands = true;
    }
}

static void ip_set(struct rules_facts *facts)
{
    facts->ip = rules_value_canonical(&facts->request->values[RULES_SLOT_IP]);
    if (facts->ip.type == RULES_TEXT) {
        facts->ip_parsed = rules_address_parse(facts->ip.bytes);
        facts->ip.bytes = rules_address_bytes(&facts->ip_parsed);
        facts->ip.type = facts->ip.bytes.len > 0 ? RULES_ADDRESS : RULES_ABSENT;
    }
}

static bool values_have(const struct rules_bytes *values, uint32_t n,
                        struct rules_bytes bytes)
{
    uint32_t low = 0;
    uint32_t high = n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = rules_bytes_compare(values[middle], bytes);

        if (order == 0) {
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

struct rules_address rules_value_address(struct rules_value view)
{
    struct rules_address address = {0};

    if (view.type == RULES_TEXT) {
        return rules_address_parse(view.bytes);
    }
    address.len = (uint8_t)view.bytes.len;
    memcpy(address.bytes, view.bytes.ptr, view.bytes.len);
    return address;
}

/** @return whether one of the networks of a length holds an address */
static bool networks_have(const struct rules_condition *condition,
                          const struct rules_len *len,
                          const struct rules_address *address)
{
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];
    size_t n;

    if (address->len != len->bytes) {
        return false;
    }
    n = rules_network_key(rules_address_bytes(address), (uint8_t)len->bits, key);
    return values_have(condition->networks, condition->n_networks,
                       (struct rules_bytes){key, n});
}

static bool prefixes_have(const struct rules_condition *condition,
                          const struct rules_len *len, struct rules_value view)
{
    return view.type == RULES_TEXT && view.bytes.len >= len->bytes
           && values_have(condition->prefixes, condition->n_prefixes,
                          (struct rules_bytes){view.bytes.ptr, len->bytes});
}

static bool exact_have(const struct rules_condition *condition, struct rules_value view)
{
    return view.type == RULES_ADDRESS
               ? values_have(condition->addresses, condition->n_addresses, view.bytes)
               : values_have(condition->texts, condition->n_texts, view.bytes);
}

/** Of the ways that come before networks. */
static uint32_t plain_ways_count(const struct rules_condition *condition)
{
    return condition->n_wild + (condition->n_texts > 0) + condition->n_prefix_lens;
}

static bool plain_way_matches(const struct rules_condition *condition, uint32_t way,
                              struct rules_value view)
{
    if (way < condition->n_wild) {
        return view.type == RULES_TEXT
               && rules_pattern_matches(condition->wild[way], view.bytes);
    }
    way -= condition->n_wild;
    if (condition->n_texts > 0 && way-- == 0) {
        return exact_have(condition, view);
    }
    return prefixes_have(condition, &condition->prefix_lens[way], view);
}

bool rules_ways_match(const struct rules_condition *condition, uint32_t n_ways,
                      struct rules_value view)
{
    uint32_t n_plain = plain_ways_count(condition);
    struct rules_address address;

    for (uint32_t i = 0; i < n_ways && i < n_plain; i++) {
        if (plain_way_matches(condition, i, view)) {
            return true;
        }
    }
    if (n_ways <= n_plain) {
        return false;
    }
    address = rules_value_address(view);
    for (uint32_t i = 0; i < n_ways - n_plain; i++) {
        if (networks_have(condition, &condition->network_lens[i], &address)) {
            return true;
        }
    }
    return false;
}

bool rules_condition_holds(const struct rules_facts *facts,
                           const struct rules_condition *condition)
{
    struct rules_value view = rules_facts_view(facts, condition->slot);
    uint32_t n_ways = plain_ways_count(condition) + condition->n_network_lens;
    bool is_match = view.type != RULES_ABSENT
                    && (n_ways == 0 || rules_ways_match(condition, n_ways, view));

    return is_match != condition->is_negated;
}

bool rules_key_is_whole(const struct rules_facts *facts,
                        const struct rules_matcher *matcher)
{
    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        if (rules_link_find(facts, &matcher->parts[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static size_t part_write(const struct rules_facts *facts,
                         const struct rules_matcher *matcher,
                         const struct rules_part *part, uint8_t *out,
                         struct rules_hit *hit)
{
    const struct rules_link *link = rules_link_find(facts, part);
    struct rules_value view;

    if (link == NULL) {
        hit->is_address_standing_in = true;
        return rules_key_put_instead(out, part->links[0].name, facts->ip.bytes,
                                     matcher->ip_prefix);
    }
    view = rules_facts_view(facts, link->slot);
    return view.type == RULES_ADDRESS
               ? rules_key_put_address(out, link->name, view.bytes, matcher->ip_prefix)
               : rules_key_put_text(out, link->name, view.bytes);
}

void rules_key_write(const struct rules_facts *facts,
                     const struct rules_matcher *matcher, uint8_t *key,
                     struct rules_hit *hit)
{
    size_t n = 0;

    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        n += part_write(facts, matcher, &matcher->parts[i], key + n, hit);
    }
    hit->key = (struct rules_bytes){key, n};
}

/** @return the amount that a value is; -1 for none, INT64_MAX for too large a one */
static int64_t amount_of(struct rules_value view)
{
    enum rules_units_status status;
    int64_t amount = -1;

    if (view.type != RULES_TEXT) {
        return -1;
    }
    status = rules_amount_parse(view.bytes, &amount);
    return status == RULES_UNITS_OUT_OF_RANGE ? INT64_MAX : amount;
}

/** @return what an argument says, brought between min and max; counted where it was not */
static int64_t cost_read(const struct rules_cost *cost, struct rules_value view,
                         struct rules_result *result)
{
    int64_t amount = amount_of(view);

    if (amount < cost->min) {
        result->n_costs_raised++;
        return cost->min;
    }
    if (amount > cost->max) {
        result->n_costs_lowered++;
        return cost->max;
    }
    return amount;
}

int64_t rules_cost_find(const struct rules_facts *facts, const struct rules_cost *cost,
                        struct rules_result *result)
{
    for (uint32_t i = 0; i < cost->n_items; i++) {
        const struct rules_costs_item *item = &cost->items[i];

        if (rules_conditions_hold(facts, item->conditions, item->n_conditions)) {
            return item->cost;
        }
    }
    return cost->slot == RULES_NONE
               ? cost->min
               : cost_read(cost, rules_facts_view(facts, cost->slot), result);
}

int64_t rules_truth_find(const struct rules_facts *facts,
                         const struct rules_matcher *matcher, int64_t amount,
                         struct rules_result *result)
{
    const struct rules_charge *charge = &matcher->charge;
    bool has_truth = matcher->cost.n_items == 0
                     && (charge->has_reserve || matcher->cost.slot != RULES_NONE);

    if (!rules_conditions_hold(facts, charge->conditions, charge->n_conditions)) {
        return 0;
    }
    return has_truth ? rules_cost_find(facts, &matcher->cost, result) : amount;
}

bool rules_is_enforced(const struct rules_rule *rule, struct rules_bytes key)
{
    switch (rule->mode) {
    case RULES_ENFORCE:
        break;
    case RULES_SHADOW:
        return false;
    case RULES_PERCENT:
        return rules_key_is_in_share(rule->name, key, rule->enforced_permyriad);
    }
    return true;
}

const struct rules_limit *rules_plan_limits_find(const struct rules_facts *facts,
                                                 uint32_t rule)
{
    const struct rules_set *set = facts->set;
    struct rules_value plan = rules_facts_view(facts, (uint32_t)set->slot_plan);
    uint32_t first = plan.type == RULES_TEXT
                         ? rules_table_find(&set->plans, rule, plan.bytes)
                         : RULES_NONE;

    if (first == RULES_UNLIMITED) {
        return NULL;
    }
    return first == RULES_NONE ? set->rules[rule].limits : &set->limits[first];
}

void rules_facts_init(struct rules_facts *facts, const struct rules_set *set,
                      const struct rules_request *request, struct rules_result *result)
{
    result->n_costs_raised = 0;
    result->n_costs_lowered = 0;
    result->is_path_as_it_stands = false;
    facts->set = set;
    facts->request = request;
    ip_set(facts);
    if (set->slot_path >= 0) {
        path_set(facts, result);
    }
}
