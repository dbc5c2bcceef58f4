#include "rules/index.h"

#include <stdlib.h>

#include "rules/path.h"

struct indexer {
    struct rules_set *set;
    struct rules_arena scratch;
    struct rules_table counts; /* how many rules have a value: rules_value_tag, value */
    uint32_t n_postings;
    uint32_t n_nodes;
};

/* What of a condition can be looked up: nothing of one that is negated, or holds no
 * values, since too many values match. */
static bool is_findable(const struct rules_condition *condition)
{
    return !condition->is_negated
           && condition->n_wild + condition->n_texts + condition->n_prefixes
                      + condition->n_networks
                  > 0;
}

static void values_count(struct indexer *x, uint32_t slot, enum rules_value_kind kind,
                         const struct rules_bytes *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ++*rules_table_put(&x->counts, rules_value_tag(slot, kind), values[i], 0);
    }
}

/** Count the rule for each of its values, and for each of its patterns. An address is a
 * text, too. */
static void condition_count(struct indexer *x, const struct rules_condition *c)
{
    if (c->is_negated) {
        return;
    }
    values_count(x, c->slot, RULES_VALUE_TEXT, c->wild, c->n_wild);
    values_count(x, c->slot, RULES_VALUE_TEXT, c->texts, c->n_texts);
    values_count(x, c->slot, RULES_VALUE_PREFIX, c->prefixes, c->n_prefixes);
    values_count(x, c->slot, RULES_VALUE_NETWORK, c->networks, c->n_networks);
}

static uint32_t count_max(const struct indexer *x, uint32_t slot,
                          enum rules_value_kind kind, const struct rules_bytes *values,
                          uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = rules_table_find(&x->counts, rules_value_tag(slot, kind),
                                          values[i]);

        most = count > most ? count : most;
    }
    return most;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/**
 * How many rules a request may meet under this condition. Patterns, prefixes and networks
 * count double: others may match the same value.
 */
static uint32_t condition_width(const struct indexer *x,
                                const struct rules_condition *c)
{
    uint32_t width = 0;

    if (!is_findable(c)) {
        return UINT32_MAX;
    }
    width = larger(width,
                   2 * count_max(x, c->slot, RULES_VALUE_TEXT, c->wild, c->n_wild));
    width = larger(width,
                   count_max(x, c->slot, RULES_VALUE_TEXT, c->texts, c->n_texts));
    width = larger(width, 2
                              * count_max(x, c->slot, RULES_VALUE_PREFIX, c->prefixes,
                                          c->n_prefixes));
    return larger(width, 2
                             * count_max(x, c->slot, RULES_VALUE_NETWORK, c->networks,
                                         c->n_networks));
}

/** Move the narrowest condition to the front: the rule is filed under it. */
static void narrowest_first(const struct indexer *x, struct rules_matcher *matcher)
{
    struct rules_condition *conditions = matcher->conditions;
    uint32_t best = 0;
    struct rules_condition first;

    if (matcher->n_conditions == 0) {
        return;
    }
    for (uint32_t i = 1; i < matcher->n_conditions; i++) {
        if (condition_width(x, &conditions[i])
            < condition_width(x, &conditions[best])) {
            best = i;
        }
    }
    first = conditions[0];
    conditions[0] = conditions[best];
    conditions[best] = first;
    matcher->n_filed = is_findable(&conditions[0]) ? 1 : 0;
}

static void slot_add(uint32_t *slots, uint32_t *n, uint32_t slot)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (slots[i] == slot) {
            return;
        }
    }
    slots[(*n)++] = slot;
}

/** Put a rule at the head of a list of postings. */
static void posting_add(struct indexer *x, uint32_t rule, uint32_t n_ways_before,
                        uint32_t *head)
{
    uint32_t idx = x->n_postings++;

    x->set->postings[idx] = (struct rules_posting){rule, n_ways_before, *head};
    *head = idx;
}

static uint32_t node_add(struct indexer *x)
{
    uint32_t idx = x->n_nodes++;

    x->set->nodes[idx] = (struct rules_node){.one = RULES_NONE,
                                             .end = RULES_NONE,
                                             .rest = RULES_NONE};
    return idx;
}

static uint32_t root_get(struct indexer *x, uint32_t slot)
{
    struct rules_set *set = x->set;
    uint32_t n = set->n_pattern_slots;

    slot_add(set->pattern_slots, &set->n_pattern_slots, slot);
    if (set->n_pattern_slots > n) {
        set->pattern_roots[n] = node_add(x);
    }
    return set->pattern_roots[set->pattern_slots[0] == slot ? 0 : 1];
}

static uint32_t child_get(struct indexer *x, uint32_t node, struct rules_bytes seg)
{
    struct rules_node *parent = &x->set->nodes[node];
    uint32_t *child;

    if (rules_segment_kind(seg) == RULES_SEGMENT_ONE) {
        child = &parent->one;
    } else {
        child = rules_table_put(&x->set->children, node, seg, x->n_nodes);
        if (*child == x->n_nodes && parent->n_named++ == 0) {
            parent->named = *child;
            parent->name = seg;
        }
    }
    if (*child == RULES_NONE || *child == x->n_nodes) {
        *child = node_add(x);
    }
    return *child;
}

static void pattern_add(struct indexer *x, uint32_t rule, uint32_t slot,
                        struct rules_bytes pattern, uint32_t n_ways_before)
{
    struct rules_segments it = {pattern, 0};
    struct rules_bytes seg;
    uint32_t node = root_get(x, slot);

    while (rules_segments_next(&it, &seg)) {
        if (rules_segment_kind(seg) == RULES_SEGMENT_REST) {
            posting_add(x, rule, n_ways_before, &x->set->nodes[node].rest);
            return;
        }
        node = child_get(x, node, seg);
    }
    posting_add(x, rule, n_ways_before, &x->set->nodes[node].end);
}

static void value_add(struct indexer *x, uint32_t rule, uint32_t slot,
                      enum rules_value_kind kind, struct rules_bytes value,
                      uint32_t n_ways_before)
{
    posting_add(x, rule, n_ways_before,
                rules_table_put(&x->set->values, rules_value_tag(slot, kind), value,
                                RULES_NONE));
}

static void len_add(struct rules_len *lens, uint32_t *n, const struct rules_len *len)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (lens[i].slot == len->slot && lens[i].bytes == len->bytes
            && lens[i].bits == len->bits) {
            return;
        }
    }
    lens[(*n)++] = *len;
}

/** Prefixes stand by their length, as the lengths do. */
static void prefixes_file(struct indexer *x, uint32_t rule,
                          const struct rules_condition *c)
{
    struct rules_set *set = x->set;
    uint32_t way = c->n_wild + (c->n_texts > 0);
    uint32_t i = 0;

    for (uint32_t k = 0; k < c->n_prefix_lens; k++, way++) {
        len_add(set->prefix_lens, &set->n_prefix_lens, &c->prefix_lens[k]);
        for (; i < c->n_prefixes && c->prefixes[i].len == c->prefix_lens[k].bytes;
             i++) {
            value_add(x, rule, c->slot, RULES_VALUE_PREFIX, c->prefixes[i], way);
        }
    }
}

static void networks_file(struct indexer *x, uint32_t rule,
                          const struct rules_condition *c)
{
    struct rules_set *set = x->set;
    uint32_t way = c->n_wild + (c->n_texts > 0) + c->n_prefix_lens;
    uint32_t i = 0;

    for (uint32_t k = 0; k < c->n_network_lens; k++, way++) {
        len_add(set->network_lens, &set->n_network_lens, &c->network_lens[k]);
        for (; i < c->n_networks && c->networks[i].ptr[0] == c->network_lens[k].bits
               && c->networks[i].len == c->network_lens[k].bytes + 1;
             i++) {
            value_add(x, rule, c->slot, RULES_VALUE_NETWORK, c->networks[i], way);
        }
    }
}

static void rule_file(struct indexer *x, uint32_t rule, const struct rules_condition *c)
{
    struct rules_set *set = x->set;

    for (uint32_t i = 0; i < c->n_wild; i++) {
        pattern_add(x, rule, c->slot, c->wild[i], i);
    }
    for (uint32_t i = 0; i < c->n_texts; i++) {
        value_add(x, rule, c->slot, RULES_VALUE_TEXT, c->texts[i], c->n_wild);
    }
    for (uint32_t i = 0; i < c->n_addresses; i++) {
        /* No pattern matches an address. */
        value_add(x, rule, c->slot, RULES_VALUE_ADDRESS, c->addresses[i], 0);
    }
    prefixes_file(x, rule, c);
    networks_file(x, rule, c);
    if (c->n_texts > 0) {
        slot_add(set->value_slots, &set->n_value_slots, c->slot);
    }
}

static uint32_t segments_count(struct rules_bytes pattern)
{
    struct rules_segments it = {pattern, 0};
    struct rules_bytes seg;
    uint32_t n = 0;

    while (rules_segments_next(&it, &seg)) {
        n++;
    }
    return n;
}

/** How much the tables will hold: known before the first entry. */
struct sizes {
    size_t n_always;
    size_t n_postings;
    size_t n_segments;
    size_t n_prefix_lens;
    size_t n_network_lens;
};

static void sizes_add(struct sizes *sizes, const struct rules_matcher *matcher)
{
    const struct rules_condition *c = matcher->conditions;

    if (matcher->is_expired) {
        return;
    }
    if (matcher->n_filed == 0) {
        sizes->n_always++;
        return;
    }
    sizes->n_postings += c->n_wild + c->n_texts + c->n_addresses + c->n_prefixes
                         + c->n_networks;
    sizes->n_prefix_lens += c->n_prefix_lens;
    sizes->n_network_lens += c->n_network_lens;
    for (uint32_t i = 0; i < c->n_wild; i++) {
        sizes->n_segments += segments_count(c->wild[i]);
    }
}

static bool tables_init(struct rules_set *set)
{
    struct sizes sizes = {.n_segments = RULES_PATTERN_SLOTS_MAX}; /* the roots */
    struct rules_arena *arena = &set->arena;

    for (uint32_t i = 0; i < set->n_matchers; i++) {
        sizes_add(&sizes, &set->matchers[i]);
    }
    set->always = rules_arena_array(arena, sizes.n_always, sizeof *set->always);
    set->postings = rules_arena_array(arena, sizes.n_postings, sizeof *set->postings);
    set->nodes = rules_arena_array(arena, sizes.n_segments, sizeof *set->nodes);
    set->prefix_lens = rules_arena_array(arena, sizes.n_prefix_lens,
                                         sizeof *set->prefix_lens);
    set->network_lens = rules_arena_array(arena, sizes.n_network_lens,
                                          sizeof *set->network_lens);
    return set->always != NULL && set->postings != NULL && set->nodes != NULL
           && set->prefix_lens != NULL && set->network_lens != NULL
           && rules_table_init(&set->values, arena, sizes.n_postings)
           && rules_table_init(&set->children, arena, sizes.n_segments);
}

static bool counts_init(struct indexer *x)
{
    const struct rules_set *set = x->set;
    size_t n = 0;

    for (uint32_t i = 0; i < set->n_matchers; i++) {
        for (uint32_t j = 0; j < set->matchers[i].n_conditions; j++) {
            const struct rules_condition *c = &set->matchers[i].conditions[j];

            n += c->n_wild + c->n_texts + c->n_prefixes + c->n_networks;
        }
    }
    if (!rules_table_init(&x->counts, &x->scratch, n)) {
        return false;
    }
    for (uint32_t i = 0; i < set->n_matchers; i++) {
        for (uint32_t j = 0; j < set->matchers[i].n_conditions; j++) {
            condition_count(x, &set->matchers[i].conditions[j]);
        }
    }
    return true;
}

static void rules_file(struct indexer *x)
{
    struct rules_set *set = x->set;

    /* From the last to the first, since each is put at the head of its lists. */
    for (uint32_t i = set->n_matchers; i-- > 0;) {
        if (set->matchers[i].is_expired) {
            continue;
        }
        if (set->matchers[i].n_filed == 0) {
            set->always[set->n_always++] = i;
        } else {
            rule_file(x, i, &set->matchers[i].conditions[0]);
        }
    }
}

static int len_compare(const void *left, const void *right)
{
    const struct rules_len *a = left;
    const struct rules_len *b = right;

    return (a->slot > b->slot) - (a->slot < b->slot);
}

bool rules_index_build(struct rules_set *set)
{
    struct indexer x = {.set = set};
    bool is_built = false;

    if (counts_init(&x)) {
        for (uint32_t i = 0; i < set->n_matchers; i++) {
            narrowest_first(&x, &set->matchers[i]);
        }
        is_built = tables_init(set);
    }
    if (is_built) {
        rules_file(&x);
        qsort(set->network_lens, set->n_network_lens, sizeof *set->network_lens,
              len_compare); /* one descriptor's stand together */
    }
    rules_arena_fini(&x.scratch);
    return is_built;
}
