#include <string.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/unique.h"
#include "rules/units.h"
#include "rules/words.h"

/** A limit while it is read: its fields come in any order. */
struct limit_draft {
    const char *name;
    struct rules_mark name_mark;
    int64_t requests; /* -1: not given, or reported */
    struct rules_mark requests_mark;
    int64_t burst;  /* 0: not given, or reported */
    int64_t per_us; /* the same */
    bool is_calendar;
    enum rules_unit unit;
    bool has_algorithm;
    enum rules_algorithm algorithm;
    struct rules_mark algorithm_mark;
    struct rules_mark per_mark;
    const struct yamltree_node *burst_node;
    const struct yamltree_node *timezone_node;
    const struct yamltree_node *max_delay_node;
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
                   "%s must be a whole number up to 1000000000, in digits", node->key);
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

    draft->requests = amount_read(parse, node);
    draft->requests_mark = node->mark;
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

static void span_check_ticks(struct rules_parse *parse,
                             const struct yamltree_node *node, int64_t span_us,
                             int64_t tick_us)
{
    int64_t below_us = span_us - span_us % tick_us;
    char below[RULES_SPAN_TEXT_BYTES_MAX];
    char above[RULES_SPAN_TEXT_BYTES_MAX];

    if (below_us == span_us) {
        return;
    }
    rules_span_print(below_us + tick_us, above);
    if (below_us == 0) {
        RULES_FAIL(parse, node->mark, rules_code_per_not_whole_ticks,
                   "with such a per this is not counted so finely; the least is %s",
                   above);
        return;
    }
    rules_span_print(below_us, below);
    RULES_FAIL(parse, node->mark, rules_code_per_not_whole_ticks,
               "a span this long is not counted so finely; the nearest are %s and %s",
               below, above);
}

static void read_per(struct rules_parse *parse, const struct yamltree_node *node,
                     void *into)
{
    struct limit_draft *draft = into;

    draft->per_mark = node->mark;
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "per")) {
        return;
    }
    draft->is_calendar = rules_unit_parse(rules_node_bytes(node), &draft->unit);
    if (draft->is_calendar) {
        draft->per_us = rules_unit_us(draft->unit);
        return;
    }
    switch (rules_span_parse(rules_node_bytes(node), &draft->per_us)) {
    case RULES_UNITS_OK:
        span_check_ticks(parse, node, draft->per_us, rules_tick_us(draft->per_us));
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
                   "per must be a whole number with ms, s, m, h or d behind it, or "
                   "minute, hour, day, week or month");
        break;
    }
}

static void read_algorithm(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct limit_draft *draft = into;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, "algorithm")) {
        return;
    }
    for (int i = 0; i <= RULES_SLIDING_LOG; i++) {
        if (strcmp(node->text, rules_algorithm_name((enum rules_algorithm)i)) == 0) {
            draft->has_algorithm = true;
            draft->algorithm_mark = node->mark;
            draft->algorithm = (enum rules_algorithm)i;
            return;
        }
    }
    RULES_FAIL(parse, node->mark, rules_code_bad_choice,
               "'%.64s' is not one of the values of 'algorithm': sliding_window, "
               "token_bucket, fixed_window, leaky_bucket, sliding_log",
               node->text);
}

static void read_timezone(struct rules_parse *parse, const struct yamltree_node *node,
                          void *into)
{
    struct limit_draft *draft = into;

    if (rules_node_is(parse, node, YAMLTREE_SCALAR, "timezone")) {
        draft->timezone_node = node;
    }
}

static void read_max_delay(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct limit_draft *draft = into;

    if (rules_node_is(parse, node, YAMLTREE_SCALAR, "max_delay")) {
        draft->max_delay_node = node;
    }
}

static const struct rules_field limit_fields[] = {
    {"name", read_limit_name, false},
    {"requests", read_requests, true},
    {"per", read_per, true},
    {"burst", read_burst, false},
    {"algorithm", read_algorithm, false},
    {"timezone", read_timezone, false},
    {"max_delay", read_max_delay, false},
};

/** @return the algorithm that holds, also when it is not given */
static enum rules_algorithm algorithm_of(const struct limit_draft *draft)
{
    if (draft->has_algorithm) {
        return draft->algorithm;
    }
    if (draft->burst_node != NULL) {
        return RULES_TOKEN_BUCKET;
    }
    return draft->is_calendar ? RULES_FIXED_WINDOW : RULES_SLIDING_WINDOW;
}

/** Fields that do not go with the algorithm, or not without one another. */
static void draft_check(struct rules_parse *parse, const struct limit_draft *draft,
                        enum rules_algorithm algorithm)
{
    const char *name = rules_algorithm_name(algorithm);

    if (algorithm != RULES_TOKEN_BUCKET && draft->burst_node != NULL) {
        RULES_FAIL(parse, draft->burst_node->key_mark, rules_code_burst_not_allowed,
                   "%s has no burst; token_bucket has", name);
    }
    if (algorithm == RULES_TOKEN_BUCKET && draft->burst_node != NULL
        && draft->requests == 0) {
        RULES_FAIL(parse, draft->burst_node->key_mark, rules_code_burst_not_allowed,
                   "a limit of 0 has no burst: nothing would refill it");
    }
    if (algorithm == RULES_SLIDING_LOG && draft->requests > RULES_LOG_REQUESTS_MAX) {
        RULES_FAIL(parse, draft->requests_mark, rules_code_log_too_large,
                   "a sliding_log keeps every request and has at most %d; "
                   "sliding_window takes any number",
                   (int)RULES_LOG_REQUESTS_MAX);
    }
    if (algorithm != RULES_FIXED_WINDOW && draft->is_calendar) {
        RULES_FAIL(parse, draft->per_mark, rules_code_calendar_not_allowed,
                   "%s does not follow the calendar, fixed_window does; for %s write a "
                   "span, as 1d",
                   name, name);
    }
    if (!draft->is_calendar && draft->timezone_node != NULL) {
        RULES_FAIL(parse, draft->timezone_node->key_mark,
                   rules_code_calendar_not_allowed,
                   "timezone goes with per: minute, hour, day, week or month");
    }
    if (algorithm != RULES_LEAKY_BUCKET && draft->max_delay_node != NULL) {
        RULES_FAIL(parse, draft->max_delay_node->key_mark, rules_code_bad_delay,
                   "%s delays nothing; leaky_bucket does", name);
    }
}

static struct rules_zone *zone_find(const struct rules_ast *ast,
                                    struct rules_bytes name)
{
    struct rules_zone *zone = ast->zones;

    while (zone != NULL
           && (strlen(zone->name) != name.len
               || memcmp(zone->name, name.ptr, name.len) != 0)) {
        zone = zone->next;
    }
    return zone;
}

/** @return the zone that the limit names, else UTC; NULL: reported */
static const struct rules_zone *zone_read(struct rules_parse *parse,
                                          const struct limit_draft *draft)
{
    static const struct rules_bytes utc = {(const uint8_t *)"UTC", 3};
    const struct yamltree_node *node = draft->timezone_node;
    struct rules_bytes name = node != NULL ? rules_node_bytes(node) : utc;
    struct rules_mark mark = node != NULL ? node->mark : draft->per_mark;
    struct rules_zone *zone = zone_find(parse->ast, name);

    if (zone != NULL) {
        return zone;
    }
    switch (rules_zone_load(name, parse->arena, &zone)) {
    case RULES_ZONE_OK:
        zone->next = parse->ast->zones;
        parse->ast->zones = zone;
        break;
    case RULES_ZONE_UNKNOWN:
        RULES_FAIL(parse, mark, rules_code_unknown_timezone,
                   "there is no /usr/share/zoneinfo/%.64s: a name such as "
                   "Europe/Berlin is needed, and the package tzdata",
                   (const char *)name.ptr);
        break;
    case RULES_ZONE_DAMAGED:
        RULES_FAIL(parse, mark, rules_code_unknown_timezone,
                   "/usr/share/zoneinfo/%.64s holds no time zone that can be used",
                   (const char *)name.ptr);
        break;
    case RULES_ZONE_NO_MEMORY:
        rules_memory_tell(parse);
        break;
    }
    return zone;
}

/** @return max_delay, else per */
static int64_t max_delay_read(struct rules_parse *parse,
                              const struct limit_draft *draft)
{
    const struct yamltree_node *node = draft->max_delay_node;
    int64_t delay_us = draft->per_us;

    if (node == NULL || draft->per_us == 0) {
        return draft->per_us;
    }
    if (rules_span_parse(rules_node_bytes(node), &delay_us) != RULES_UNITS_OK
        || delay_us > draft->per_us) {
        RULES_FAIL(parse, node->mark, rules_code_bad_delay,
                   "max_delay must be a span of 1ms and more, and at most per");
        return draft->per_us;
    }
    span_check_ticks(parse, node, delay_us, rules_tick_us(draft->per_us));
    return delay_us;
}

/** Read one limit and add it to the rule. */
static void limit_add(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule)
{
    struct limit_draft draft = {.name = "", .requests = -1};
    struct rules_ast_limit *limit;

    if (!rules_fields_read(parse, node, "limit", limit_fields,
                           sizeof limit_fields / sizeof limit_fields[0], &draft)) {
        return;
    }
    limit = &rule->limits[rule->n_limits++];
    *limit = (struct rules_ast_limit){
        .name = draft.name,
        .name_mark = draft.name_mark,
        .mark = node->mark,
        .requests_mark = draft.requests_mark,
        .per_mark = draft.per_mark,
        .algorithm_mark = draft.algorithm_mark,
        .algorithm = algorithm_of(&draft),
        .requests = draft.requests,
        .burst = draft.burst > 0 ? draft.burst : draft.requests,
        .per_us = draft.per_us,
    };
    draft_check(parse, &draft, limit->algorithm);
    if (draft.is_calendar) {
        limit->calendar.unit = draft.unit;
        limit->calendar.zone = zone_read(parse, &draft);
    }
    if (limit->algorithm == RULES_LEAKY_BUCKET) {
        limit->max_delay_us = max_delay_read(parse, &draft);
    }
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
