#include "rules/key.h"
#include "rules/path.h"
#include "rules/program.h"

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
    uint32_t kept[RULES_HITS_MAX]; /* rules, sorted */
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
    if (facts->path.type != RULES_TEXT) {
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

static bool wild_have(const struct rules_condition *condition, uint32_t n_wild,
                      struct rules_bytes text)
{
    for (uint32_t i = 0; i < n_wild; i++) {
        if (rules_pattern_matches(condition->wild[i], text)) {
            return true;
        }
    }
    return false;
}

static bool condition_holds(const struct facts *facts,
                            const struct rules_condition *condition)
{
    struct rules_value view = view_of(facts, condition->slot);

    switch (view.type) {
    case RULES_ADDRESS:
        return values_have(condition->addresses, condition->n_addresses, view.bytes);
    case RULES_TEXT:
        return values_have(condition->texts, condition->n_texts, view.bytes)
               || wild_have(condition, condition->n_wild, view.bytes);
    case RULES_ABSENT:
        break;
    }
    return false;
}

/** Without an address nothing can stand in for a missing part. */
static bool key_is_possible(const struct facts *facts,
                            const struct rules_matcher *matcher)
{
    if (facts->ip.type != RULES_ABSENT) {
        return true;
    }
    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        if (view_of(facts, matcher->parts[i].slot).type == RULES_ABSENT) {
            return false;
        }
    }
    return true;
}

static void rule_keep(struct finding *finding, uint32_t rule)
{
    uint32_t i = finding->n_kept;

    finding->n_applied++;
    if (i == RULES_HITS_MAX) {
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

/** Check what is left of a rule whose first condition holds. */
static void rule_try(struct finding *finding, uint32_t rule)
{
    const struct facts *facts = finding->facts;
    const struct rules_matcher *matcher = &facts->set->matchers[rule];

    for (uint32_t i = 1; i < matcher->n_conditions; i++) {
        if (!condition_holds(facts, &matcher->conditions[i])) {
            return;
        }
    }
    finding->result->n_matched++;
    if (key_is_possible(facts, matcher)) {
        rule_keep(finding, rule);
    } else {
        finding->result->n_skipped_no_key++;
    }
}

static void postings_try(struct finding *finding, uint32_t head,
                         struct rules_bytes text)
{
    const struct rules_set *set = finding->facts->set;

    for (uint32_t i = head; i != RULES_NONE; i = set->postings[i].next) {
        const struct rules_posting *posting = &set->postings[i];

        if (posting->n_wild_before == 0
            || !wild_have(&set->matchers[posting->rule].conditions[0],
                          posting->n_wild_before, text)) {
            rule_try(finding, posting->rule);
        }
    }
}

static void values_try(struct finding *finding, uint32_t slot)
{
    const struct rules_set *set = finding->facts->set;
    struct rules_value view = view_of(finding->facts, slot);

    if (view.type != RULES_ABSENT) {
        uint32_t tag = rules_value_tag(slot, view.type == RULES_ADDRESS);

        postings_try(finding, rules_table_find(&set->values, tag, view.bytes),
                     view.bytes);
    }
}

struct walk {
    uint32_t node;
    size_t off; /* where the rest of the text starts */
};

/** Find all patterns of a trie that match, depth first. */
static void patterns_try(struct finding *finding, uint32_t root,
                         struct rules_bytes text)
{
    const struct rules_set *set = finding->facts->set;
    RULES_UNCLEARED struct walk walks[WALK_MAX];
    uint32_t n = 1;

    walks[0] = (struct walk){root, 0};
    while (n > 0) {
        struct walk walk = walks[--n];
        const struct rules_node *node = &set->nodes[walk.node];
        struct rules_segments rest = {text, walk.off};
        struct rules_bytes seg;

        postings_try(finding, node->rest, text);
        if (!rules_segments_next(&rest, &seg)) {
            postings_try(finding, node->end, text);
            continue;
        }

        uint32_t child = node->n_named == 0
                             ? RULES_NONE
                             : rules_table_find(&set->children, walk.node, seg);

        if (node->one != RULES_NONE && seg.len > 0) {
            walks[n++] = (struct walk){node->one, rest.off};
        }
        if (child != RULES_NONE) {
            walks[n++] = (struct walk){child, rest.off};
        }
    }
}

static void key_write(const struct facts *facts, const struct rules_matcher *matcher,
                      uint8_t *key, struct rules_hit *hit)
{
    size_t n = 0;

    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        const struct rules_part *part = &matcher->parts[i];
        struct rules_value view = view_of(facts, part->slot);

        switch (view.type) {
        case RULES_ADDRESS:
            n += rules_key_put_address(key + n, part->name, view.bytes);
            break;
        case RULES_TEXT:
            n += rules_key_put_text(key + n, part->name, view.bytes);
            break;
        case RULES_ABSENT:
            n += rules_key_put_instead(key + n, part->name, facts->ip.bytes);
            hit->is_address_standing_in = true;
            break;
        }
    }
    hit->key = (struct rules_bytes){key, n};
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
    for (uint32_t i = 0; i < set->n_pattern_slots; i++) {
        struct rules_value view = view_of(finding->facts, set->pattern_slots[i]);

        if (view.type == RULES_TEXT) {
            patterns_try(finding, set->pattern_roots[i], view.bytes);
        }
    }
}

void rules_eval(const struct rules_set *set, const struct rules_request *request,
                struct rules_result *result)
{
    struct facts facts;
    struct finding finding;

    result->n_matched = 0;
    result->n_skipped_no_key = 0;
    result->is_path_as_it_stands = false;
    facts.set = set;
    facts.request = request;
    ip_set(&facts);
    if (set->slot_path >= 0) {
        path_set(&facts, result);
    }
    finding.facts = &facts;
    finding.result = result;
    finding.n_applied = 0;
    finding.n_kept = 0;
    rules_find(&finding);

    /* A rule has one limit, so the first rules are the first limits. */
    result->n_hits = finding.n_kept;
    result->is_cut = finding.n_applied > finding.n_kept;
    for (uint32_t i = 0; i < finding.n_kept; i++) {
        uint32_t rule = finding.kept[i];

        result->hits[i] = (struct rules_hit){.rule = &set->rules[rule]};
        key_write(&facts, &set->matchers[rule], result->keys[i], &result->hits[i]);
    }
}
