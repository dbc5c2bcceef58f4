#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/unique.h"
#include "rules/units.h"

enum algorithm_given {
    ALGORITHM_DEFAULT = 0,
    ALGORITHM_SLIDING_WINDOW,
    ALGORITHM_TOKEN_BUCKET,
};

/** A limit while it is read: its fields come in any order. */
struct limit_draft {
    const char *name;
    struct rules_mark name_mark;
    int64_t requests; /* 0: not given, or reported */
    int64_t burst;    /* the same */
    int64_t per_us;   /* the same */
    enum algorithm_given algorithm;
    const struct yamltree_node *burst_node;
};

/** @return the amount, or -1 (reported) */
static int64_t amount_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    int64_t amount = -1;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return -1;
    }
    if (rules_amount_parse(rules_node_bytes(node), &amount) != RULES_UNITS_OK) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount,
                   "%s must be a whole number from 1 to 1000000000, in digits",
                   node->key);
        return -1;
    }
    return amount;
}

static void read_limit_name(struct rules_parse *parse, const struct yamltree_node *node,
                            void *into)
{
    struct limit_draft *draft = into;

    draft->name = rules_name_read(parse, node);
    draft->name_mark = node->mark;
}

static void read_requests(struct rules_parse *parse, const struct yamltree_node *node,
                          void *into)
{
    struct limit_draft *draft = into;
    int64_t amount = amount_read(parse, node);

    if (amount == 0) {
        RULES_FAIL(parse, node->mark, rules_code_not_yet,
                   "a limit of 0 needs 'expires', which is planned but not built yet");
    }
    draft->requests = amount > 0 ? amount : 0;
}

static void read_burst(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct limit_draft *draft = into;
    int64_t amount = amount_read(parse, node);

    draft->burst_node = node;
    if (amount == 0) {
        RULES_FAIL(parse, node->mark, rules_code_bad_amount,
                   "burst is the size of the bucket: it must be at least 1");
    }
    draft->burst = amount > 0 ? amount : 0;
}

static void per_check_ticks(struct rules_parse *parse, const struct yamltree_node *node,
                            int64_t per_us)
{
    int64_t tick_us = rules_tick_us(per_us);
    int64_t below_us = per_us - per_us % tick_us;
    char below[RULES_SPAN_TEXT_BYTES_MAX];
    char above[RULES_SPAN_TEXT_BYTES_MAX];

    if (below_us == per_us) {
        return;
    }
    rules_span_print(below_us, below);
    rules_span_print(below_us + tick_us, above);
    RULES_FAIL(parse, node->mark, rules_code_per_not_whole_ticks,
               "a span this long is not counted so finely; the nearest are %s and %s",
               below, above);
}

static void read_per(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct limit_draft *draft = into;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "per")) {
        return;
    }
    switch (rules_span_parse(rules_node_bytes(node), &draft->per_us)) {
    case RULES_UNITS_OK:
        per_check_ticks(parse, node, draft->per_us);
        break;
    case RULES_UNITS_CALENDAR:
        RULES_FAIL(parse, node->mark, rules_code_not_yet,
                   "the calendar window '%s' is planned but not built yet", node->text);
        break;
    case RULES_UNITS_NO_UNIT:
        RULES_FAIL(parse, node->mark, rules_code_bad_per,
                   "per needs a unit: ms, s, m, h or d");
        break;
    case RULES_UNITS_OUT_OF_RANGE:
        RULES_FAIL(parse, node->mark, rules_code_bad_per, "per must be 1ms to 31d");
        break;
    case RULES_UNITS_NOT_A_NUMBER:
        RULES_FAIL(parse, node->mark, rules_code_bad_per,
                   "per must be a whole number with ms, s, m, h or d behind it");
        break;
    }
}

static void read_algorithm(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    static const char *const planned[] = {"sliding_log", "fixed_window",
                                          "leaky_bucket"};
    struct limit_draft *draft = into;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "algorithm")) {
        return;
    }
    if (strcmp(node->text, "sliding_window") == 0) {
        draft->algorithm = ALGORITHM_SLIDING_WINDOW;
        return;
    }
    if (strcmp(node->text, "token_bucket") == 0) {
        draft->algorithm = ALGORITHM_TOKEN_BUCKET;
        return;
    }
    for (size_t i = 0; i < sizeof planned / sizeof planned[0]; i++) {
        if (strcmp(node->text, planned[i]) == 0) {
            RULES_FAIL(parse, node->mark, rules_code_not_yet,
                       "'algorithm: %s' is planned but not built yet", node->text);
            return;
        }
    }
    RULES_FAIL(parse, node->mark, rules_code_bad_choice,
               "'%.64s' is not one of the values of 'algorithm': sliding_window, "
               "token_bucket",
               node->text);
}

static const struct rules_field limit_fields[] = {
    {"name", read_limit_name, false},
    {"requests", read_requests, true},
    {"per", read_per, true},
    {"burst", read_burst, false},
    {"algorithm", read_algorithm, false},
    {"timezone", NULL, false},
    {"max_delay", NULL, false},
};

/** Read one limit and add it to the rule. */
static void limit_add(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    struct limit_draft draft = {.name = ""};
    bool is_bucket;

    if (!rules_fields_read(parse, node, "limit", limit_fields,
                           sizeof limit_fields / sizeof limit_fields[0], &draft)) {
        return;
    }
    if (draft.algorithm == ALGORITHM_SLIDING_WINDOW && draft.burst_node != NULL) {
        RULES_FAIL(parse, draft.burst_node->key_mark, rules_code_burst_not_allowed,
                   "sliding_window has no burst; token_bucket has");
    }
    is_bucket = draft.algorithm == ALGORITHM_TOKEN_BUCKET || draft.burst_node != NULL;
    rule->limits[rule->n_limits++] = (struct rules_ast_limit){
        .name = draft.name,
        .name_mark = draft.name_mark,
        .algorithm = is_bucket ? RULES_TOKEN_BUCKET : RULES_SLIDING_WINDOW,
        .requests = draft.requests,
        .burst = draft.burst > 0 ? draft.burst : draft.requests,
        .per_us = draft.per_us,
    };
}

void rules_field_limit(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    const struct yamltree_node *name = NULL;

    if (node->kind == YAMLTREE_MAPPING) {
        name = yamltree_child(node, "name");
    }
    if (name != NULL) {
        RULES_FAIL(parse, name->key_mark, rules_code_unknown_field,
                   "the only limit of a rule has the rule's name; in 'limits' each has "
                   "its own");
        return;
    }
    limit_add(parse, node, into);
}

static void on_duplicate_limit(void *context, const struct rules_unique_item *first,
                               const struct rules_unique_item *again)
{
    struct rules_parse *parse = context;

    RULES_FAIL(parse, again->mark, rules_code_duplicate_name,
               "a limit '%s' of this rule already stands in line %u",
               (const char *)again->text.ptr, first->mark.line);
}

static void limit_names_check(struct rules_parse *parse,
                              const struct rules_ast_rule *rule)
{
    struct rules_unique_item items[RULES_LIMITS_MAX];
    size_t n = 0;

    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const char *name = rule->limits[i].name;

        if (name != NULL && *name != '\0') {
            items[n].text = (struct rules_bytes){(const uint8_t *)name, strlen(name)};
            items[n++].mark = rule->limits[i].name_mark;
        }
    }
    rules_unique_check(items, n, on_duplicate_limit, parse);
}

void rules_field_limits(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    struct rules_ast_rule *rule = into;

    if (!rules_node_is(parse, node, YAMLTREE_SEQUENCE, "limits")) {
        return;
    }
    if (node->n_children == 0 || node->n_children > RULES_LIMITS_MAX) {
        RULES_FAIL(parse, node->mark, rules_code_too_many_limits,
                   "a rule has 1 to %d limits", RULES_LIMITS_MAX);
        return;
    }
    rule->n_limits = 0;
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        if (it->kind == YAMLTREE_MAPPING && yamltree_child(it, "name") == NULL) {
            RULES_FAIL(parse, it->mark, rules_code_missing_field,
                       "a limit in 'limits' needs 'name'");
        }
        limit_add(parse, it, rule);
    }
    limit_names_check(parse, rule);
}
