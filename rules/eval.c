#include "rules/key.h"
#include "rules/path.h"
#include "rules/program.h"
#include "rules/units.h"

/* A walk keeps at most one open branch a level, and the one it is on. */
enum {
    WALK_MAX = RULES_PATTERN_SEGMENTS_MAX + 2
};

/** A request as the rules see it: the path normal, addresses canonical. */
struct facts {
    const struct rules_set *set;
    const struct rules_request *request;
    struct rules_value path;
    struct rules_value ip;
    struct rules_address ip_parsed; /* what `ip` points to when it came as text */
};

/** The rules that apply, while they are found: the first ones in file order. */
struct finding {
    const struct facts *facts;
    struct rules_result *result;
    uint32_t n_applied;
    uint32_t n_kept;
    uint32_t kept[RULES_MATCHES_MAX]; /* rules, sorted */
};

static const struct rules_value absent;

/** @return the value with its address canonical; absent when it holds nothing */
static inline struct rules_value canonical(const struct rules_value *value)
{
    if (value->type == RULES_ADDRESS) {
        struct rules_bytes bytes = rules_address_canonical(value->bytes);

        return bytes.len > 0 ? (struct rules_value){RULES_ADDRESS, bytes} : absent;
    }
    return value->bytes.len > 0 ? *value : absent;
}

static void path_set(struct facts *facts, struct rules_result *result)
{
    size_t len;

    facts->path = canonical(&facts->request->values[facts->set->slot_path]);
    if (facts->path.type != RULES_TEXT || rules_path_is_normal(facts->path.bytes)) {
        return;
    }
    if (rules_path_normalise(facts->path.bytes, result->path, &len)) {
        facts->path.bytes = (struct rules_bytes){result->path, len};
    } else {
        result->is_path_as_it_stands = true;
    }
}

static void ip_set(struct facts *facts)
{
    facts->ip = canonical(&facts->request->values[RULES_SLOT_IP]);
    if (facts->ip.type == RULES_TEXT) {
        facts->ip_parsed = rules_address_parse(facts->ip.bytes);
        facts->ip.bytes = rules_address_bytes(&facts->ip_parsed);
        facts->ip.type = facts->ip.bytes.len > 0 ? RULES_ADDRESS : RULES_ABSENT;
    }
}

static struct rules_value view_of(const struct facts *facts, uint32_t slot)
{
    if (slot == RULES_SLOT_IP) {
        return facts->ip;
    }
    if ((int)slot == facts->set->slot_path) {
        return facts->path;
    }
    return canonical(&facts->request->values[slot]);
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

/** The address that a value is; a text is read as one. @return len 0 for none */
static struct rules_address address_of(struct rules_value view)
{
    struct rules_address address = {0};

    if (view.type == RULES_TEXT) {
        return rules_address_parse(view.bytes);
    }
    address.len = (uint8_t)view.bytes.len;
    memcpy(address.bytes, view.bytes.ptr, view.bytes.len);
    return address;
}

/** @return whether one of the networks of a length holds the value */
static bool networks_have(const struct rules_condition *condition,
                          const struct rules_len *len, struct rules_value view)
{
    struct rules_address address = address_of(view);
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];
    size_t n;

    if (address.len != len->bytes) {
        return false;
    }
    n = rules_network_key(rules_address_bytes(&address), (uint8_t)len->bits, key);
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

static uint32_t ways_count(const struct rules_condition *condition)
{
    return condition->n_wild + (condition->n_texts > 0) + condition->n_prefix_lens
           + condition->n_network_lens;
}

static bool way_matches(const struct rules_condition *condition, uint32_t way,
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
    if (way < condition->n_prefix_lens) {
        return prefixes_have(condition, &condition->prefix_lens[way], view);
    }
    way -= condition->n_prefix_lens;
    return networks_have(condition, &condition->network_lens[way], view);
}

/** @return whether one of the first `n_ways` ways matches a value that is there */
static bool ways_match(const struct rules_condition *condition, uint32_t n_ways,
                       struct rules_value view)
{
    for (uint32_t i = 0; i < n_ways; i++) {
        if (way_matches(condition, i, view)) {
            return true;
        }
    }
    return false;
}

static bool condition_holds(const struct facts *facts,
                            const struct rules_condition *condition)
{
    struct rules_value view = view_of(facts, condition->slot);
    uint32_t n_ways = ways_count(condition);
    bool is_match = view.type != RULES_ABSENT
                    && (n_ways == 0 || ways_match(condition, n_ways, view));

    return is_match != condition->is_negated;
}

static bool conditions_hold(const struct facts *facts,
                            const struct rules_condition *conditions, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!condition_holds(facts, &conditions[i])) {
            return false;
        }
    }
    return true;
}

/** @return the first descriptor of a part that is present, or NULL */
static const struct rules_link *link_find(const struct facts *facts,
                                          const struct rules_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (view_of(facts, part->links[i].slot).type != RULES_ABSENT) {
            return &part->links[i];
        }
    }
    return NULL;
}

/** Without an address nothing can stand in for a missing part. */
static bool key_is_possible(const struct facts *facts,
                            const struct rules_matcher *matcher)
{
    if (facts->ip.type != RULES_ABSENT && matcher->no_key == RULES_NO_KEY_IP) {
        return true;
    }
    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        if (link_find(facts, &matcher->parts[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static void rule_keep(struct finding *finding, uint32_t rule)
{
    uint32_t i = finding->n_kept;

    finding->n_applied++;
    if (i == RULES_MATCHES_MAX) {
        if (rule > finding->kept[--i]) {
            return;
        }
    } else {
        finding->n_kept++;
    }
    for (; i > 0 && finding->kept[i - 1] > rule; i--) {
        finding->kept[i] = finding->kept[i - 1];
    }
    finding->kept[i] = rule;
}

/** Block wins over allow. */
static void list_note(struct finding *finding, uint32_t list)
{
    enum rules_listed listed = finding->facts->set->listed[list];

    if (listed > finding->result->listed) {
        finding->result->listed = listed;
    }
}

/** Check what is left of a rule that was found. */
static void rule_try(struct finding *finding, uint32_t rule)
{
    const struct facts *facts = finding->facts;
    const struct rules_matcher *matcher = &facts->set->matchers[rule];

    if (!conditions_hold(facts, matcher->conditions + matcher->n_filed,
                         matcher->n_conditions - matcher->n_filed)) {
        return;
    }
    if (rule >= facts->set->n_rules) {
        list_note(finding, rule - facts->set->n_rules);
        return;
    }
    finding->result->n_matched++;
    /* One that refuses is kept: others may yet override it. */
    if (matcher->no_key == RULES_NO_KEY_REJECT || key_is_possible(facts, matcher)) {
        rule_keep(finding, rule);
    } else {
        finding->result->n_skipped_no_key++;
    }
}

static void posting_try(struct finding *finding, const struct rules_posting *posting,
                        struct rules_value view)
{
    const struct rules_matcher *matcher = &finding->facts->set->matchers[posting->rule];

    if (posting->n_ways_before == 0
        || !ways_match(&matcher->conditions[0], posting->n_ways_before, view)) {
        rule_try(finding, posting->rule);
    }
}

/* Most lists are empty. */
static inline void postings_try(struct finding *finding, uint32_t head,
                                struct rules_value view)
{
    const struct rules_posting *postings = finding->facts->set->postings;

    for (uint32_t i = head; i != RULES_NONE; i = postings[i].next) {
        posting_try(finding, &postings[i], view);
    }
}

static void value_try(struct finding *finding, uint32_t slot,
                      enum rules_value_kind kind, struct rules_bytes bytes,
                      struct rules_value view)
{
    uint32_t tag = rules_value_tag(slot, kind);

    postings_try(finding, rules_table_find(&finding->facts->set->values, tag, bytes),
                 view);
}

static void values_try(struct finding *finding, uint32_t slot)
{
    struct rules_value view = view_of(finding->facts, slot);

    if (view.type != RULES_ABSENT) {
        value_try(finding, slot,
                  view.type == RULES_ADDRESS ? RULES_VALUE_ADDRESS : RULES_VALUE_TEXT,
                  view.bytes, view);
    }
}

static void prefixes_try(struct finding *finding, const struct rules_len *len)
{
    struct rules_value view = view_of(finding->facts, len->slot);

    if (view.type == RULES_TEXT && view.bytes.len >= len->bytes) {
        value_try(finding, len->slot, RULES_VALUE_PREFIX,
                  (struct rules_bytes){view.bytes.ptr, len->bytes}, view);
    }
}

static void networks_try(struct finding *finding, const struct rules_len *len)
{
    struct rules_value view = view_of(finding->facts, len->slot);
    uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];
    struct rules_address address;
    size_t n;

    if (view.type == RULES_ABSENT) {
        return;
    }
    address = address_of(view);
    if (address.len == len->bytes) {
        n = rules_network_key(rules_address_bytes(&address), (uint8_t)len->bits, key);
        value_try(finding, len->slot, RULES_VALUE_NETWORK, (struct rules_bytes){key, n},
                  view);
    }
}

/** @return the child of a node for a segment, or RULES_NONE */
static uint32_t child_find(const struct rules_set *set, uint32_t node,
                           struct rules_bytes seg)
{
    const struct rules_node *at = &set->nodes[node];

    if (at->n_named == 0) {
        return RULES_NONE;
    }
    if (rules_bytes_equal(at->name, seg)) {
        return at->named;
    }
    return at->n_named == 1 ? RULES_NONE : rules_table_find(&set->children, node, seg);
}

struct walk {
    uint32_t node;
    size_t off; /* where the rest of the text starts */
};

/** Find all patterns of a trie that match, depth first. */
static void patterns_try(struct finding *finding, uint32_t root,
                         struct rules_value view)
{
    const struct rules_set *set = finding->facts->set;
    RULES_UNCLEARED struct walk walks[WALK_MAX];
    uint32_t n = 1;

    walks[0] = (struct walk){root, 0};
    while (n > 0) {
        struct walk walk = walks[--n];
        const struct rules_node *node = &set->nodes[walk.node];
        struct rules_segments rest = {view.bytes, walk.off};
        struct rules_bytes seg;

        postings_try(finding, node->rest, view);
        if (node->n_named == 0 && node->one == RULES_NONE
            && walk.off <= view.bytes.len) {
            continue; /* patterns end here, the text does not */
        }
        if (!rules_segments_next(&rest, &seg)) {
            postings_try(finding, node->end, view);
            continue;
        }

        uint32_t child = child_find(set, walk.node, seg);

        if (node->one != RULES_NONE && seg.len > 0) {
            walks[n++] = (struct walk){node->one, rest.off};
        }
        if (child != RULES_NONE) {
            walks[n++] = (struct walk){child, rest.off};
        }
    }
}

static size_t part_write(const struct facts *facts, const struct rules_matcher *matcher,
                         const struct rules_part *part, uint8_t *out,
                         struct rules_hit *hit)
{
    const struct rules_link *link = link_find(facts, part);
    struct rules_value view;

    if (link == NULL) {
        hit->is_address_standing_in = true;
        return rules_key_put_instead(out, part->links[0].name, facts->ip.bytes,
                                     matcher->ip_prefix);
    }
    view = view_of(facts, link->slot);
    return view.type == RULES_ADDRESS
               ? rules_key_put_address(out, link->name, view.bytes, matcher->ip_prefix)
               : rules_key_put_text(out, link->name, view.bytes);
}

static void key_write(const struct facts *facts, const struct rules_matcher *matcher,
                      uint8_t *key, struct rules_hit *hit)
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

static int64_t cost_find(const struct facts *facts, const struct rules_cost *cost,
                         struct rules_result *result)
{
    for (uint32_t i = 0; i < cost->n_items; i++) {
        const struct rules_costs_item *item = &cost->items[i];

        if (conditions_hold(facts, item->conditions, item->n_conditions)) {
            return item->cost;
        }
    }
    return cost->slot == RULES_NONE
               ? cost->min
               : cost_read(cost, view_of(facts, cost->slot), result);
}

/** @return what a request that a rule applies to takes */
static int64_t taken_find(const struct facts *facts,
                          const struct rules_matcher *matcher,
                          struct rules_result *result)
{
    return matcher->charge.has_reserve ? matcher->charge.reserve
                                       : cost_find(facts, &matcher->cost, result);
}

/** @return what a charge should have been; `amount` where no cost is truer than that */
static int64_t truth_find(const struct facts *facts,
                          const struct rules_matcher *matcher, int64_t amount,
                          struct rules_result *result)
{
    const struct rules_charge *charge = &matcher->charge;
    bool has_truth = matcher->cost.n_items == 0
                     && (charge->has_reserve || matcher->cost.slot != RULES_NONE);

    if (!conditions_hold(facts, charge->conditions, charge->n_conditions)) {
        return 0;
    }
    return has_truth ? cost_find(facts, &matcher->cost, result) : amount;
}

static void rules_find(struct finding *finding)
{
    const struct rules_set *set = finding->facts->set;

    for (uint32_t i = 0; i < set->n_always; i++) {
        rule_try(finding, set->always[i]);
    }
    for (uint32_t i = 0; i < set->n_value_slots; i++) {
        values_try(finding, set->value_slots[i]);
    }
    for (uint32_t i = 0; i < set->n_prefix_lens; i++) {
        prefixes_try(finding, &set->prefix_lens[i]);
    }
    for (uint32_t i = 0; i < set->n_network_lens; i++) {
        networks_try(finding, &set->network_lens[i]);
    }
    for (uint32_t i = 0; i < set->n_pattern_slots; i++) {
        struct rules_value view = view_of(finding->facts, set->pattern_slots[i]);

        if (view.type == RULES_TEXT) {
            patterns_try(finding, set->pattern_roots[i], view);
        }
    }
}

static bool is_enforced(const struct rules_rule *rule, struct rules_bytes key)
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

/** Mark a rule that was kept, if it was. */
static void rule_mark(const struct finding *finding, uint32_t rule, uint64_t *marks)
{
    for (uint32_t i = 0; i < finding->n_kept; i++) {
        if (finding->kept[i] == rule) {
            *marks |= UINT64_C(1) << i;
        }
    }
}

/** @return whether a rule that was kept has its key and is enforced for it */
static bool is_enforced_here(const struct facts *facts, uint32_t rule)
{
    RULES_UNCLEARED uint8_t key[RULES_KEY_BYTES_MAX];
    struct rules_hit hit = {.rule = &facts->set->rules[rule]};

    if (!key_is_possible(facts, &facts->set->matchers[rule])) {
        return false;
    }
    if (hit.rule->mode == RULES_PERCENT) {
        key_write(facts, &facts->set->matchers[rule], key, &hit);
    }
    return is_enforced(hit.rule, hit.key);
}

/** Take out what others override. An overridden rule still overrides others. */
static void overrides_apply(struct finding *finding)
{
    const struct rules_set *set = finding->facts->set;
    uint64_t overridden = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < finding->n_kept; i++) {
        const struct rules_matcher *matcher = &set->matchers[finding->kept[i]];

        if (matcher->n_overrides == 0
            || !is_enforced_here(finding->facts, finding->kept[i])) {
            continue;
        }
        for (uint32_t j = 0; j < matcher->n_overrides; j++) {
            rule_mark(finding, matcher->overrides[j], &overridden);
        }
    }
    for (uint32_t i = 0; i < finding->n_kept; i++) {
        if ((overridden >> i & 1) == 0) {
            finding->kept[n++] = finding->kept[i];
        }
    }
    finding->result->n_overridden = finding->n_kept - n;
    finding->n_applied -= finding->n_kept - n;
    finding->n_kept = n;
}

/** @return the limits of a rule for the plan of the request; NULL: it has none */
static const struct rules_limit *limits_find(const struct facts *facts, uint32_t rule)
{
    const struct rules_set *set = facts->set;
    struct rules_value plan;
    uint32_t first;

    if (!set->matchers[rule].has_plans) {
        return set->rules[rule].limits;
    }
    plan = view_of(facts, (uint32_t)set->slot_plan);
    first = plan.type == RULES_TEXT ? rules_table_find(&set->plans, rule, plan.bytes)
                                    : RULES_NONE;
    if (first == RULES_UNLIMITED) {
        return NULL;
    }
    return first == RULES_NONE ? set->rules[rule].limits : &set->limits[first];
}

/** A rule without its key: where it is enforced it refuses, else it is skipped. */
static void keyless_note(struct rules_result *result, const struct rules_rule *rule)
{
    result->n_skipped_no_key++;
    if (rule->mode == RULES_ENFORCE && result->keyless == NULL) {
        result->keyless = rule;
    }
}

/** The rules kept become hits, as far as their limits fit. */
static void hits_set(const struct finding *finding)
{
    const struct facts *facts = finding->facts;
    struct rules_result *result = finding->result;
    uint32_t room = RULES_HITS_MAX;

    result->n_hits = 0;
    result->is_cut = finding->n_applied > finding->n_kept;
    for (uint32_t i = 0; i < finding->n_kept; i++) {
        uint32_t idx = finding->kept[i];
        const struct rules_rule *rule = &facts->set->rules[idx];
        const struct rules_matcher *matcher = &facts->set->matchers[idx];
        const struct rules_limit *limits = limits_find(facts, idx);
        uint32_t n_limits = rule->n_limits < room ? rule->n_limits : room;
        struct rules_hit *hit = &result->hits[result->n_hits];

        if (matcher->no_key == RULES_NO_KEY_REJECT
            && !key_is_possible(facts, matcher)) {
            keyless_note(result, rule);
            continue;
        }
        if (limits == NULL) {
            result->n_unlimited++;
            continue;
        }
        result->is_cut = result->is_cut || n_limits < rule->n_limits;
        if (room == 0) {
            continue; /* one behind it may yet refuse for want of its key */
        }
        *hit = (struct rules_hit){.rule = rule, .limits = limits, .n_limits = n_limits};
        hit->cost = taken_find(facts, matcher, result);
        key_write(facts, matcher, result->keys[result->n_hits], hit);
        hit->is_shadow = !is_enforced(rule, hit->key);
        room -= n_limits;
        result->n_hits++;
    }
}

static void facts_init(struct facts *facts, const struct rules_set *set,
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

void rules_eval(const struct rules_set *set, const struct rules_request *request,
                struct rules_result *result)
{
    RULES_UNCLEARED struct facts facts;
    RULES_UNCLEARED struct finding finding;

    result->listed = RULES_UNLISTED;
    result->keyless = NULL;
    result->n_matched = 0;
    result->n_skipped_no_key = 0;
    facts_init(&facts, set, request, result);
    finding.facts = &facts;
    finding.result = result;
    finding.n_applied = 0;
    finding.n_kept = 0;
    rules_find(&finding);
    result->n_overridden = 0;
    result->n_unlimited = 0;
    if (set->has_overrides) {
        overrides_apply(&finding);
    }

    hits_set(&finding);
}

bool rules_settle(const struct rules_set *set, const struct rules_request *request,
                  const struct rules_rule *rule, int64_t amount,
                  struct rules_result *result, struct rules_hit *hit)
{
    const struct rules_matcher *matcher = &set->matchers[rule->idx];
    const struct rules_limit *limits;
    RULES_UNCLEARED struct facts facts;

    facts_init(&facts, set, request, result);
    if (!key_is_possible(&facts, matcher)) {
        return false;
    }
    limits = limits_find(&facts, rule->idx);
    *hit = (struct rules_hit){.rule = rule,
                              .limits = limits != NULL ? limits : rule->limits,
                              .n_limits = rule->n_limits};
    key_write(&facts, matcher, result->keys[0], hit);
    hit->cost = truth_find(&facts, matcher, amount, result);
    return true;
}
