#include "rules/facts.h"
#include "rules/path.h"

/* A walk keeps at most one open branch a level, and the one it is on. */
enum {
    WALK_MAX = RULES_PATTERN_SEGMENTS_MAX + 2
};

/** The rules that apply, while they are found: the first ones in file order. */
struct finding {
    const struct rules_facts *facts;
    struct rules_result *result;
    uint32_t n_applied;
    uint32_t n_kept;
    uint32_t kept[RULES_MATCHES_MAX]; /* rules, sorted */
};

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
    const struct rules_facts *facts = finding->facts;
    const struct rules_matcher *matcher = &facts->set->matchers[rule];

    if (!rules_conditions_hold(facts, matcher->conditions + matcher->n_filed,
                               matcher->n_conditions - matcher->n_filed)) {
        return;
    }
    if (rule >= facts->set->n_rules) {
        list_note(finding, rule - facts->set->n_rules);
        return;
    }
    finding->result->n_matched++;
    /* One that refuses is kept: others may yet override it. */
    if (matcher->no_key == RULES_NO_KEY_REJECT
        || rules_key_is_possible(facts, matcher)) {
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
        || !rules_ways_match(&matcher->conditions[0], posting->n_ways_before, view)) {
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
    struct rules_value view = rules_facts_view(finding->facts, slot);

    if (view.type != RULES_ABSENT) {
        value_try(finding, slot,
                  view.type == RULES_ADDRESS ? RULES_VALUE_ADDRESS : RULES_VALUE_TEXT,
                  view.bytes, view);
    }
}

static void prefixes_try(struct finding *finding, const struct rules_len *len)
{
    struct rules_value view = rules_facts_view(finding->facts, len->slot);

    if (view.type == RULES_TEXT && view.bytes.len >= len->bytes) {
        value_try(finding, len->slot, RULES_VALUE_PREFIX,
                  (struct rules_bytes){view.bytes.ptr, len->bytes}, view);
    }
}

/** The networks of one descriptor stand together: its address is read once.
 *  @return the first length of the next */
static uint32_t networks_try(struct finding *finding, uint32_t first)
{
    const struct rules_set *set = finding->facts->set;
    uint32_t slot = set->network_lens[first].slot;
    struct rules_value view = rules_facts_view(finding->facts, slot);
    struct rules_address address = {0};
    uint32_t i = first;

    if (view.type != RULES_ABSENT) {
        address = rules_value_address(view);
    }
    for (; i < set->n_network_lens && set->network_lens[i].slot == slot; i++) {
        const struct rules_len *len = &set->network_lens[i];
        uint8_t key[RULES_NETWORK_KEY_BYTES_MAX];

        if (address.len == len->bytes) {
            size_t n = rules_network_key(rules_address_bytes(&address),
                                         (uint8_t)len->bits, key);

            value_try(finding, slot, RULES_VALUE_NETWORK, (struct rules_bytes){key, n},
                      view);
        }
    }
    return i;
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
    for (uint32_t i = 0; i < set->n_network_lens;) {
        i = networks_try(finding, i);
    }
    for (uint32_t i = 0; i < set->n_pattern_slots; i++) {
        struct rules_value view = rules_facts_view(finding->facts,
                                                   set->pattern_slots[i]);

        if (view.type == RULES_TEXT) {
            patterns_try(finding, set->pattern_roots[i], view);
        }
    }
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
static bool is_enforced_here(const struct rules_facts *facts, uint32_t rule)
{
    RULES_UNCLEARED uint8_t key[RULES_KEY_BYTES_MAX];
    struct rules_hit hit = {.rule = &facts->set->rules[rule]};

    if (!rules_key_is_possible(facts, &facts->set->matchers[rule])) {
        return false;
    }
    if (hit.rule->mode == RULES_PERCENT) {
        rules_key_write(facts, &facts->set->matchers[rule], key, &hit);
    }
    return rules_is_enforced(hit.rule, hit.key);
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
    const struct rules_facts *facts = finding->facts;
    struct rules_result *result = finding->result;
    uint32_t room = RULES_HITS_MAX;

    result->n_hits = 0;
    result->is_cut = finding->n_applied > finding->n_kept;
    for (uint32_t i = 0; i < finding->n_kept; i++) {
        uint32_t idx = finding->kept[i];
        const struct rules_rule *rule = &facts->set->rules[idx];
        const struct rules_matcher *matcher = &facts->set->matchers[idx];
        const struct rules_limit *limits = rules_limits_find(facts, idx);
        uint32_t n_limits = rule->n_limits < room ? rule->n_limits : room;
        struct rules_hit *hit = &result->hits[result->n_hits];

        if (matcher->no_key == RULES_NO_KEY_REJECT
            && !rules_key_is_possible(facts, matcher)) {
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
        hit->cost = rules_taken_find(facts, matcher, result);
        rules_key_write(facts, matcher, result->keys[result->n_hits], hit);
        hit->is_shadow = !rules_is_enforced(rule, hit->key);
        room -= n_limits;
        result->n_hits++;
    }
}

void rules_eval(const struct rules_set *set, const struct rules_request *request,
                struct rules_result *result)
{
    RULES_UNCLEARED struct rules_facts facts;
    RULES_UNCLEARED struct finding finding;

    result->listed = RULES_UNLISTED;
    result->keyless = NULL;
    result->n_matched = 0;
    result->n_skipped_no_key = 0;
    rules_facts_init(&facts, set, request, result);
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
    RULES_UNCLEARED struct rules_facts facts;

    rules_facts_init(&facts, set, request, result);
    if (!rules_key_is_possible(&facts, matcher)) {
        return false;
    }
    limits = rules_limits_find(&facts, rule->idx);
    *hit = (struct rules_hit){.rule = rule,
                              .limits = limits != NULL ? limits : rule->limits,
                              .n_limits = rule->n_limits};
    rules_key_write(&facts, matcher, result->keys[0], hit);
    hit->cost = rules_truth_find(&facts, matcher, amount, result);
    return true;
}
