#include "rules/explain.h"

#include <stdio.h>

#include "rules/facts.h"
#include "rules/key.h"

/** An explanation with what it is made from; found again by its first member. */
struct explaining {
    struct rules_explanation explanation;
    struct rules_arena arena; /* holds this too */
    struct rules_facts facts;
    struct rules_result result; /* room for the path; counts of costs */
    uint32_t n_kept;
    struct rules_explained *kept[RULES_MATCHES_MAX];
};

/** A short text; what does not fit is left out. */
struct wanted {
    char text[RULES_WANTED_BYTES_MAX + 1];
    size_t len;
    uint32_t n_values; /* written */
    uint32_t n_left_out;
};

enum {
    WANTED_TAIL_BYTES = 24, /* " and 4294967295 more" */
    VALUE_TEXT_BYTES_MAX = 80,
    CUT_BYTES = 3,
};

static const struct rules_matcher *matcher_of(const struct explaining *ing,
                                              const struct rules_explained *explained)
{
    return &ing->facts.set->matchers[explained->rule->idx];
}

static void wanted_add(struct wanted *wanted, const char *text, size_t len)
{
    memcpy(wanted->text + wanted->len, text, len);
    wanted->len += len;
}

/** Escape a value so that it is one word of printable ASCII; a long one is cut. */
static size_t value_escape(struct rules_bytes value, char out[VALUE_TEXT_BYTES_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.ptr[i];
        bool is_plain = c > ' ' && c < 0x7f && c != '%' && c != ',' && c != '"';

        if (n + 3 > VALUE_TEXT_BYTES_MAX - CUT_BYTES) {
            memcpy(out + n, "...", CUT_BYTES);
            return n + CUT_BYTES;
        }
        if (is_plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 0xf];
        }
    }
    return n;
}

static void value_add(struct wanted *wanted, struct rules_bytes value,
                      const char *suffix)
{
    char text[VALUE_TEXT_BYTES_MAX];
    size_t n = value_escape(value, text);

    if (wanted->n_left_out > 0
        || wanted->len + 2 + n + strlen(suffix)
               > RULES_WANTED_BYTES_MAX - WANTED_TAIL_BYTES) {
        wanted->n_left_out++;
        return;
    }
    wanted_add(wanted, ", ", wanted->n_values > 0 ? 2 : 0);
    wanted_add(wanted, text, n);
    wanted_add(wanted, suffix, strlen(suffix));
    wanted->n_values++;
}

static void values_add(struct wanted *wanted, const struct rules_bytes *values,
                       uint32_t n, const char *suffix)
{
    for (uint32_t i = 0; i < n; i++) {
        value_add(wanted, values[i], suffix);
    }
}

static void networks_add(struct wanted *wanted, const struct rules_condition *condition)
{
    for (uint32_t i = 0; i < condition->n_networks; i++) {
        const struct rules_bytes *key = &condition->networks[i];
        struct rules_address address = {.len = (uint8_t)(key->len - 1)};
        char text[RULES_ADDRESS_PRINT_BYTES];
        char suffix[8];

        memcpy(address.bytes, key->ptr + 1, key->len - 1);
        rules_address_print(&address, text);
        (void)snprintf(suffix, sizeof suffix, "/%d", key->ptr[0]);
        value_add(wanted, (struct rules_bytes){(const uint8_t *)text, strlen(text)},
                  suffix);
    }
}

/** @return what a condition wants, or NULL when memory ran out */
static const char *wanted_print(struct explaining *ing,
                                const struct rules_condition *condition)
{
    struct wanted wanted = {.len = 0};
    bool has_values = condition->n_wild + condition->n_texts + condition->n_prefixes
                          + condition->n_networks
                      > 0;

    if (!has_values) {
        return condition->is_negated ? "absent" : "present";
    }
    if (condition->is_negated) {
        wanted_add(&wanted, "not ", 4);
    }
    values_add(&wanted, condition->wild, condition->n_wild, "");
    values_add(&wanted, condition->texts, condition->n_texts, "");
    values_add(&wanted, condition->prefixes, condition->n_prefixes, "*");
    networks_add(&wanted, condition);
    if (wanted.n_left_out > 0) {
        wanted.len += (size_t)snprintf(wanted.text + wanted.len, WANTED_TAIL_BYTES,
                                       " and %u more", wanted.n_left_out);
    }
    return rules_arena_dup(&ing->arena, wanted.text, wanted.len);
}

/** @return the first condition of a rule that does not hold, or NULL */
static const struct rules_condition *unmet_find(const struct explaining *ing,
                                                const struct rules_matcher *matcher)
{
    for (uint32_t i = 0; i < matcher->n_conditions; i++) {
        if (!rules_condition_holds(&ing->facts, &matcher->conditions[i])) {
            return &matcher->conditions[i];
        }
    }
    return NULL;
}

/** @return the first part of a key that the request does not have; its first name */
static struct rules_bytes missing_find(const struct explaining *ing,
                                       const struct rules_matcher *matcher)
{
    for (uint32_t i = 0; i < matcher->n_parts; i++) {
        if (rules_link_find(&ing->facts, &matcher->parts[i]) == NULL) {
            return matcher->parts[i].links[0].name;
        }
    }
    return (struct rules_bytes){NULL, 0};
}

/** Say what the rule alone does. @return false when memory ran out */
static bool match_explain(struct explaining *ing, struct rules_explained *explained)
{
    const struct rules_matcher *matcher = matcher_of(ing, explained);
    const struct rules_condition *unmet;

    if (matcher->is_expired) {
        explained->why = RULES_EXPIRED;
        return true;
    }
    unmet = unmet_find(ing, matcher);
    if (unmet != NULL) {
        explained->why = RULES_UNMET;
        explained->descriptor = ing->facts.set->slot_names[unmet->slot];
        explained->value = rules_facts_view(&ing->facts, unmet->slot);
        explained->wanted = wanted_print(ing, unmet);
        return explained->wanted != NULL;
    }
    explained->descriptor = missing_find(ing, matcher);
    if (matcher->no_key != RULES_NO_KEY_REJECT
        && !rules_key_is_possible(&ing->facts, matcher)) {
        explained->why = RULES_KEY_MISSING;
    } else if (ing->n_kept == RULES_MATCHES_MAX) {
        explained->why = RULES_BEYOND_MATCHES;
    } else {
        ing->kept[ing->n_kept++] = explained;
    }
    return true;
}

static bool key_explain(struct explaining *ing, struct rules_explained *explained)
{
    const struct rules_matcher *matcher = matcher_of(ing, explained);
    const struct rules_rule *rule = explained->rule;
    uint8_t *key;

    if (!rules_key_is_possible(&ing->facts, matcher)) {
        return true;
    }
    key = rules_arena_array(&ing->arena, RULES_KEY_BYTES_MAX, 1);
    if (key == NULL) {
        return false;
    }
    rules_key_write(&ing->facts, matcher, key, &explained->hit);
    explained->hit.is_shadow = !rules_is_enforced(rule, explained->hit.key);
    if (explained->hit.is_address_standing_in) {
        explained->stood_in_for = explained->descriptor;
    }
    if (rule->mode == RULES_PERCENT) {
        explained->draw = rules_key_draw(rule->name, explained->hit.key);
    }
    return true;
}

static void cost_explain(struct explaining *ing, struct rules_explained *explained)
{
    const struct rules_matcher *matcher = matcher_of(ing, explained);
    const struct rules_cost *cost = &matcher->cost;

    ing->result.n_costs_raised = 0;
    ing->result.n_costs_lowered = 0;
    explained->hit.cost = rules_taken_find(&ing->facts, matcher, &ing->result);
    if (matcher->charge.has_reserve) {
        explained->cost_from = RULES_COST_RESERVED;
        return;
    }
    for (uint32_t i = 0; i < cost->n_items; i++) {
        if (rules_conditions_hold(&ing->facts, cost->items[i].conditions,
                                  cost->items[i].n_conditions)) {
            explained->cost_from = RULES_COST_ITEM;
            explained->cost_item = i + 1;
            return;
        }
    }
    if (cost->slot != RULES_NONE) {
        explained->cost_from = ing->result.n_costs_raised > 0    ? RULES_COST_RAISED
                               : ing->result.n_costs_lowered > 0 ? RULES_COST_LOWERED
                                                                 : RULES_COST_ARGUMENT;
        explained->cost_argument = ing->facts.set->slot_names[cost->slot];
    }
}

/** Take out a rule that was kept, if it was; the first that does so is told. */
static void override_note(struct explaining *ing, uint32_t idx,
                          const struct rules_rule *by)
{
    for (uint32_t i = 0; i < ing->n_kept; i++) {
        struct rules_explained *explained = ing->kept[i];

        if (explained->rule->idx == idx && explained->why != RULES_OVERRIDDEN) {
            explained->why = RULES_OVERRIDDEN;
            explained->by = by;
        }
    }
}

/** Of a rule that was kept: an overridden one still overrides others. */
static void overrides_explain(struct explaining *ing,
                              const struct rules_explained *explained)
{
    const struct rules_matcher *matcher = matcher_of(ing, explained);

    if (!rules_key_is_possible(&ing->facts, matcher) || explained->hit.is_shadow) {
        return;
    }
    for (uint32_t i = 0; i < matcher->n_overrides; i++) {
        override_note(ing, matcher->overrides[i], explained->rule);
    }
}

static void keyless_note(struct explaining *ing, struct rules_explained *explained)
{
    explained->why = RULES_KEY_REQUIRED;
    if (explained->rule->mode == RULES_ENFORCE && ing->explanation.keyless == NULL) {
        ing->explanation.keyless = explained->rule;
    }
}

/** A rule that was kept applies, as far as there is room. */
static void hit_explain(struct explaining *ing, struct rules_explained *explained,
                        uint32_t *room)
{
    const struct rules_rule *rule = explained->rule;
    const struct rules_limit *limits = rules_limits_find(&ing->facts, rule->idx);

    explained->hit.rule = rule;
    explained->hit.limits = limits;
    explained->is_by_plan = limits != NULL && limits != rule->limits;
    if (explained->why == RULES_OVERRIDDEN) {
        return;
    }
    if (!rules_key_is_possible(&ing->facts, matcher_of(ing, explained))) {
        keyless_note(ing, explained);
    } else if (limits == NULL) {
        explained->why = RULES_PLAN_EXEMPT;
    } else if (*room == 0) {
        explained->why = RULES_BEYOND_HITS;
    } else {
        explained->hit.n_limits = rule->n_limits < *room ? rule->n_limits : *room;
        *room -= explained->hit.n_limits;
    }
}

static void hits_explain(struct explaining *ing)
{
    uint32_t room = RULES_HITS_MAX;

    for (uint32_t i = 0; i < ing->n_kept; i++) {
        hit_explain(ing, ing->kept[i], &room);
    }
}

static void lists_explain(struct explaining *ing)
{
    const struct rules_set *set = ing->facts.set;
    struct rules_explanation *explanation = &ing->explanation;

    for (uint32_t i = set->n_rules; i < set->n_matchers; i++) {
        const struct rules_matcher *matcher = &set->matchers[i];
        enum rules_listed listed = set->listed[i - set->n_rules];

        const struct rules_condition *condition = &matcher->conditions[0];

        if (!matcher->is_expired && listed > explanation->listed
            && rules_condition_holds(&ing->facts, condition)) {
            explanation->listed = listed;
            explanation->list = set->slot_names[condition->slot];
        }
    }
}

static void request_explain(struct explaining *ing)
{
    const struct rules_set *set = ing->facts.set;
    struct rules_explanation *explanation = &ing->explanation;

    if (set->slot_plan >= 0) {
        struct rules_value plan = rules_facts_view(&ing->facts,
                                                   (uint32_t)set->slot_plan);

        explanation->plan = plan.type == RULES_TEXT ? plan.bytes
                                                    : (struct rules_bytes){NULL, 0};
    }
    if (set->slot_path >= 0 && ing->facts.path.type == RULES_TEXT) {
        explanation->path = ing->facts.path.bytes;
    }
    explanation->is_path_as_it_stands = ing->result.is_path_as_it_stands;
}

static bool rules_walk(struct explaining *ing)
{
    struct rules_explanation *explanation = &ing->explanation;

    for (uint32_t i = 0; i < explanation->n_rules; i++) {
        explanation->rules[i].rule = &ing->facts.set->rules[i];
        if (!match_explain(ing, &explanation->rules[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < ing->n_kept; i++) {
        if (!key_explain(ing, ing->kept[i])) {
            return false;
        }
        cost_explain(ing, ing->kept[i]);
    }
    for (uint32_t i = 0; i < ing->n_kept; i++) {
        overrides_explain(ing, ing->kept[i]);
    }
    hits_explain(ing);
    return true;
}

static struct explaining *explaining_new(void)
{
    struct rules_arena arena = {NULL};
    struct explaining *ing = rules_arena_array(&arena, 1, sizeof *ing);

    if (ing != NULL) {
        ing->arena = arena;
    }
    return ing;
}

struct rules_explanation *rules_explain(const struct rules_set *set,
                                        const struct rules_request *request)
{
    struct explaining *ing = explaining_new();

    if (ing == NULL) {
        return NULL;
    }
    ing->explanation.n_rules = set->n_rules;
    ing->explanation.rules = rules_arena_array(&ing->arena, set->n_rules,
                                               sizeof *ing->explanation.rules);
    rules_facts_init(&ing->facts, set, request, &ing->result);
    if (ing->explanation.rules == NULL || !rules_walk(ing)) {
        rules_explanation_free(&ing->explanation);
        return NULL;
    }
    request_explain(ing);
    lists_explain(ing);
    return &ing->explanation;
}

void rules_explanation_free(struct rules_explanation *explanation)
{
    if (explanation != NULL) {
        struct rules_arena arena = ((struct explaining *)explanation)->arena;

        rules_arena_fini(&arena);
    }
}
