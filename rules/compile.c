#include "rules/compile.h"

#include <sodium.h>
#include <stdlib.h>

#include "rules/path.h"
#include "rules/units.h"

struct compiler {
    const struct rules_ast *ast;
    struct rules_set *set;
    struct rules_arena scratch;
    struct rules_table counts; /* how many rules have a value: rules_value_tag, value */
    uint32_t n_postings;
    uint32_t n_nodes;
};

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

static const char *algorithm_name(enum rules_algorithm algorithm)
{
    switch (algorithm) {
    case RULES_SLIDING_WINDOW:
        return "sliding_window";
    case RULES_TOKEN_BUCKET:
        break;
    }
    return "token_bucket";
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

static void limit_id_set(const struct compiler *c, const struct rules_ast_rule *rule,
                         struct rules_limit *limit)
{
    crypto_generichash_state state;
    uint8_t per[8];

    for (size_t i = 0; i < sizeof per; i++) {
        per[i] = (uint8_t)((uint64_t)limit->per_us >> (56 - 8 * i));
    }
    (void)crypto_generichash_init(&state, NULL, 0, sizeof limit->id);
    id_update_string(&state, c->ast->domain);
    id_update_string(&state, rule->name);
    id_update_string(&state, ""); /* the name of a rule's only limit */
    id_update_string(&state, algorithm_name(limit->algorithm));
    id_update(&state, (struct rules_bytes){per, sizeof per});
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        id_update(&state, c->ast->slots[rule->key_slots[i]]);
    }
    (void)crypto_generichash_final(&state, limit->id, sizeof limit->id);
}

static bool compile_rule(struct compiler *c, uint32_t idx)
{
    const struct rules_ast_rule *from = &c->ast->rules[idx];
    struct rules_rule *rule = &c->set->rules[idx];
    struct rules_limit *limit = &c->set->limits[idx];

    rule->idx = idx;
    rule->name = string_copy(c->set, from->name);
    rule->owner = from->owner != NULL ? string_copy(c->set, from->owner) : NULL;
    rule->mode = from->mode;
    rule->is_keyed = from->n_key_parts > 0;
    rule->is_advertised = from->is_advertised && rule->is_keyed
                          && from->mode == RULES_ENFORCE;
    rule->n_limits = 1;
    rule->limits = limit;
    limit->name = rule->name;
    limit->algorithm = from->limit.algorithm;
    limit->requests = from->limit.requests;
    limit->burst = from->limit.burst;
    limit->per_us = from->limit.per_us;
    limit->tick_us = rules_tick_us(limit->per_us);
    limit->per_ticks = limit->per_us / limit->tick_us;
    limit->idx = idx;
    limit_id_set(c, from, limit);
    return rule->name != NULL && (from->owner == NULL || rule->owner != NULL);
}

static bool compile_slots(struct compiler *c)
{
    struct rules_set *set = c->set;
    struct rules_bytes name;

    set->n_slots = c->ast->n_slots;
    set->slot_path = c->ast->slot_path;
    if (!rules_table_init(&set->slots, &set->arena, set->n_slots)) {
        return false;
    }
    for (uint32_t i = 0; i < set->n_slots; i++) {
        if (!bytes_copy(set, c->ast->slots[i], &name)) {
            return false;
        }
        (void)rules_table_put(&set->slots, 0, name, i);
    }
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
        parts[i].slot = from->key_slots[i];
        if (!bytes_copy(c->set, c->ast->slots[parts[i].slot], &parts[i].name)) {
            return false;
        }
    }
    matcher->parts = parts;
    matcher->n_parts = from->n_key_parts;
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

static bool compile_condition(struct compiler *c,
                              const struct rules_ast_condition *from,
                              struct rules_condition *to)
{
    struct rules_arena *arena = &c->set->arena;
    uint32_t n = from->n_values;
    struct rules_bytes *wild = rules_arena_array(arena, n, sizeof *wild);
    struct rules_bytes *texts = rules_arena_array(arena, n, sizeof *texts);
    struct rules_bytes *addresses = rules_arena_array(arena, n, sizeof *addresses);

    if (wild == NULL || texts == NULL || addresses == NULL) {
        return false;
    }
    to->slot = from->slot;
    for (uint32_t i = 0; i < n; i++) {
        const struct rules_ast_value *value = &from->values[i];

        if (!bytes_copy(c->set, value->text,
                        value->is_wild ? &wild[to->n_wild++] : &texts[to->n_texts++])) {
            return false;
        }
        if (value->address.len > 0
            && !bytes_copy(c->set, rules_address_bytes(&value->address),
                           &addresses[to->n_addresses++])) {
            return false;
        }
    }
    to->n_texts = bytes_sort(texts, to->n_texts);
    to->n_addresses = bytes_sort(addresses, to->n_addresses);
    to->wild = wild;
    to->texts = texts;
    to->addresses = addresses;
    return true;
}

/** Count the rule for each of its values, and for each of its patterns. */
static void condition_count(struct compiler *c, const struct rules_condition *condition)
{
    uint32_t tag = rules_value_tag(condition->slot, false);
    uint32_t tag_address = rules_value_tag(condition->slot, true);

    for (uint32_t i = 0; i < condition->n_wild; i++) {
        ++*rules_table_put(&c->counts, tag, condition->wild[i], 0);
    }
    for (uint32_t i = 0; i < condition->n_texts; i++) {
        ++*rules_table_put(&c->counts, tag, condition->texts[i], 0);
    }
    for (uint32_t i = 0; i < condition->n_addresses; i++) {
        ++*rules_table_put(&c->counts, tag_address, condition->addresses[i], 0);
    }
}

static bool compile_matcher(struct compiler *c, uint32_t idx)
{
    const struct rules_ast_rule *from = &c->ast->rules[idx];
    struct rules_matcher *matcher = &c->set->matchers[idx];
    struct rules_condition *conditions = rules_arena_array(&c->set->arena,
                                                           from->n_conditions,
                                                           sizeof *conditions);

    if (conditions == NULL || !compile_parts(c, from, matcher)) {
        return false;
    }
    for (uint32_t i = 0; i < from->n_conditions; i++) {
        if (!compile_condition(c, &from->conditions[i], &conditions[i])) {
            return false;
        }
        condition_count(c, &conditions[i]);
    }
    matcher->conditions = conditions;
    matcher->n_conditions = from->n_conditions;
    return true;
}

static uint32_t count_max(const struct compiler *c, uint32_t tag,
                          const struct rules_bytes *values, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = rules_table_find(&c->counts, tag, values[i]);

        most = count > most ? count : most;
    }
    return most;
}

/**
 * How many rules a request may meet under this condition. Patterns count double: others
 * may match the same path.
 */
static uint32_t condition_width(const struct compiler *c,
                                const struct rules_condition *condition)
{
    uint32_t tag = rules_value_tag(condition->slot, false);
    uint32_t wild = 2 * count_max(c, tag, condition->wild, condition->n_wild);
    uint32_t texts = count_max(c, tag, condition->texts, condition->n_texts);

    return wild > texts ? wild : texts;
}

/** Move the narrowest condition to the front: the rule is filed under it. */
static void narrowest_first(struct compiler *c, struct rules_condition *conditions,
                            uint32_t n)
{
    uint32_t best = 0;
    struct rules_condition first = conditions[0];

    for (uint32_t i = 1; i < n; i++) {
        if (condition_width(c, &conditions[i])
            < condition_width(c, &conditions[best])) {
            best = i;
        }
    }
    conditions[0] = conditions[best];
    conditions[best] = first;
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
static void posting_add(struct compiler *c, uint32_t rule, uint32_t n_wild_before,
                        uint32_t *head)
{
    uint32_t idx = c->n_postings++;

    c->set->postings[idx] = (struct rules_posting){rule, n_wild_before, *head};
    *head = idx;
}

static uint32_t node_add(struct compiler *c)
{
    uint32_t idx = c->n_nodes++;

    c->set->nodes[idx] = (struct rules_node){0, RULES_NONE, RULES_NONE, RULES_NONE};
    return idx;
}

static uint32_t root_get(struct compiler *c, uint32_t slot)
{
    struct rules_set *set = c->set;
    uint32_t n = set->n_pattern_slots;

    slot_add(set->pattern_slots, &set->n_pattern_slots, slot);
    if (set->n_pattern_slots > n) {
        set->pattern_roots[n] = node_add(c);
    }
    return set->pattern_roots[set->pattern_slots[0] == slot ? 0 : 1];
}

static uint32_t child_get(struct compiler *c, uint32_t node, struct rules_bytes seg)
{
    struct rules_set *set = c->set;
    uint32_t *child;

    if (rules_segment_kind(seg) == RULES_SEGMENT_ONE) {
        child = &set->nodes[node].one;
    } else {
        child = rules_table_put(&set->children, node, seg, c->n_nodes);
        set->nodes[node].n_named += *child == c->n_nodes;
    }
    if (*child == RULES_NONE || *child == c->n_nodes) {
        *child = node_add(c);
    }
    return *child;
}

static void pattern_add(struct compiler *c, uint32_t rule, uint32_t slot,
                        struct rules_bytes pattern, uint32_t n_wild_before)
{
    struct rules_segments it = {pattern, 0};
    struct rules_bytes seg;
    uint32_t node = root_get(c, slot);

    while (rules_segments_next(&it, &seg)) {
        if (rules_segment_kind(seg) == RULES_SEGMENT_REST) {
            posting_add(c, rule, n_wild_before, &c->set->nodes[node].rest);
            return;
        }
        node = child_get(c, node, seg);
    }
    posting_add(c, rule, n_wild_before, &c->set->nodes[node].end);
}

static void rule_file(struct compiler *c, uint32_t rule,
                      const struct rules_condition *condition)
{
    struct rules_set *set = c->set;
    uint32_t slot = condition->slot;

    for (uint32_t i = 0; i < condition->n_wild; i++) {
        pattern_add(c, rule, slot, condition->wild[i], i);
    }
    for (uint32_t i = 0; i < condition->n_texts; i++) {
        posting_add(c, rule, condition->n_wild,
                    rules_table_put(&set->values, rules_value_tag(slot, false),
                                    condition->texts[i], RULES_NONE));
    }
    for (uint32_t i = 0; i < condition->n_addresses; i++) {
        posting_add(c, rule, 0,
                    rules_table_put(&set->values, rules_value_tag(slot, true),
                                    condition->addresses[i], RULES_NONE));
    }
    if (condition->n_texts > 0) {
        slot_add(set->value_slots, &set->n_value_slots, slot);
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

/** Make room for the tables: the sizes are known before the first entry. */
static bool tables_init(struct compiler *c)
{
    struct rules_set *set = c->set;
    size_t n_segments = RULES_PATTERN_SLOTS_MAX; /* the roots */
    size_t n_postings = 0;
    size_t n_always = 0;

    for (uint32_t i = 0; i < set->n_rules; i++) {
        const struct rules_condition *condition = set->matchers[i].conditions;

        if (set->matchers[i].n_conditions == 0) {
            n_always++;
            continue;
        }
        n_postings += condition->n_wild + condition->n_texts + condition->n_addresses;
        for (uint32_t j = 0; j < condition->n_wild; j++) {
            n_segments += segments_count(condition->wild[j]);
        }
    }
    set->always = rules_arena_array(&set->arena, n_always, sizeof *set->always);
    set->postings = rules_arena_array(&set->arena, n_postings, sizeof *set->postings);
    set->nodes = rules_arena_array(&set->arena, n_segments, sizeof *set->nodes);
    return set->always != NULL && set->postings != NULL && set->nodes != NULL
           && rules_table_init(&set->values, &set->arena, n_postings)
           && rules_table_init(&set->children, &set->arena, n_segments);
}

static bool compile_index(struct compiler *c)
{
    struct rules_set *set = c->set;

    for (uint32_t i = 0; i < set->n_rules; i++) {
        struct rules_matcher *matcher = &set->matchers[i];

        if (matcher->n_conditions > 0) {
            narrowest_first(c, matcher->conditions, matcher->n_conditions);
        }
    }
    if (!tables_init(c)) {
        return false;
    }
    /* From the last to the first, since each is put at the head of its lists. */
    for (uint32_t i = set->n_rules; i-- > 0;) {
        if (set->matchers[i].n_conditions == 0) {
            set->always[set->n_always++] = i;
        } else {
            rule_file(c, i, &set->matchers[i].conditions[0]);
        }
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

static size_t values_count(const struct rules_ast *ast)
{
    size_t n = 0;

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        for (uint32_t j = 0; j < ast->rules[i].n_conditions; j++) {
            n += ast->rules[i].conditions[j].n_values;
        }
    }
    return n;
}

static bool compile_all(struct compiler *c, const char *name)
{
    struct rules_set *set = c->set;
    uint32_t n = c->ast->n_rules;

    set->n_rules = n;
    set->name = string_copy(set, name);
    set->domain = string_copy(set, c->ast->domain);
    set->rules = rules_arena_array(&set->arena, n, sizeof *set->rules);
    set->limits = rules_arena_array(&set->arena, n, sizeof *set->limits);
    set->matchers = rules_arena_array(&set->arena, n, sizeof *set->matchers);
    if (set->name == NULL || set->domain == NULL || set->rules == NULL
        || set->limits == NULL || set->matchers == NULL || !compile_slots(c)) {
        return false;
    }
    /* A value that is an address has two entries. */
    if (!rules_table_init(&c->counts, &c->scratch, 2 * values_count(c->ast))) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!compile_rule(c, i) || !compile_matcher(c, i)) {
            return false;
        }
    }
    return compile_index(c);
}

struct rules_set *rules_compile(const struct rules_ast *ast, const char *name)
{
    struct compiler c = {.ast = ast, .set = set_new()};

    if (c.set != NULL && !compile_all(&c, name)) {
        rules_set_free(c.set);
        c.set = NULL;
    }
    rules_arena_fini(&c.scratch);
    return c.set;
}
