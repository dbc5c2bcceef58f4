#include "rules/print_rule.h"

#include <string.h>

#include "rules/fields.h"
#include "rules/units.h"
#include "rules/words.h"

static struct yamlflow mapping(struct rules_printer *printer)
{
    return yamlflow_begin(&printer->yaml, false);
}

static struct yamlflow list(struct rules_printer *printer)
{
    return yamlflow_begin(&printer->yaml, true);
}

static enum rules_said said_if(bool is_other)
{
    return is_other ? RULES_SAID : RULES_IMPLIED;
}

static enum rules_said always_said(const struct rules_ast_rule *rule)
{
    (void)rule;
    return RULES_SAID;
}

static void print_name(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rule->name);
}

static enum rules_said said_owner(const struct rules_ast_rule *rule)
{
    return rule->owner != NULL ? RULES_SAID : RULES_UNSAID;
}

static void print_owner(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rule->owner);
}

static void time_print(struct rules_printer *printer, int64_t at_s)
{
    char text[RULES_TIME_TEXT_BYTES_MAX];

    rules_time_print(at_s, text);
    yamlprint_string(&printer->yaml, text);
}

static enum rules_said said_review_by(const struct rules_ast_rule *rule)
{
    return rule->review_by_s != RULES_NEVER_S ? RULES_SAID : RULES_UNSAID;
}

static void print_review_by(struct rules_printer *printer,
                            const struct rules_ast_rule *rule)
{
    time_print(printer, rule->review_by_s);
}

static enum rules_said said_expires(const struct rules_ast_rule *rule)
{
    return rule->expires_s != RULES_NEVER_S ? RULES_SAID : RULES_UNSAID;
}

static void print_expires(struct rules_printer *printer,
                          const struct rules_ast_rule *rule)
{
    time_print(printer, rule->expires_s);
}

static void values_print(struct rules_printer *printer,
                         const struct rules_ast_condition *condition)
{
    struct yamlflow flow;

    if (condition->n_values == 1) {
        yamlprint_text(&printer->yaml, condition->values[0].text);
        return;
    }
    flow = list(printer);
    for (uint32_t i = 0; i < condition->n_values; i++) {
        yamlflow_item(&flow);
        yamlprint_text(&printer->yaml, condition->values[i].text);
    }
    yamlflow_end(&flow);
}

/** A word of the language: it is not quoted. */
static void word_print(struct rules_printer *printer, const char *word)
{
    printer->yaml.n_events++;
    yamlprint_raw(&printer->yaml, word);
}

static void condition_print(struct rules_printer *printer,
                            const struct rules_ast_condition *condition)
{
    if (condition->n_values == 0) {
        word_print(printer, condition->is_negated ? "absent" : "present");
    } else if (condition->is_negated) {
        struct yamlflow flow = mapping(printer);

        yamlflow_field(&flow, "not");
        values_print(printer, condition);
        yamlflow_end(&flow);
    } else {
        values_print(printer, condition);
    }
}

static void match_print(struct rules_printer *printer,
                        const struct rules_ast_match *match)
{
    struct yamlflow flow = mapping(printer);

    for (uint32_t i = 0; i < match->n_conditions; i++) {
        yamlflow_key(&flow, printer->ast->slots[match->conditions[i].slot]);
        condition_print(printer, &match->conditions[i]);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_match(const struct rules_ast_rule *rule)
{
    return said_if(rule->match.n_conditions > 0);
}

static void print_match(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    match_print(printer, &rule->match);
}

static void part_print(struct rules_printer *printer, const struct rules_ast_part *part)
{
    static const char bar[3] = {' ', '|', ' '};
    char text[RULES_KEY_LINKS_MAX * (sizeof bar + RULES_NAME_BYTES_MAX)];
    size_t len = 0;

    for (uint32_t i = 0; i < part->n_links; i++) {
        struct rules_bytes name = printer->ast->slots[part->slots[i]];

        if (i > 0) {
            memcpy(text + len, bar, sizeof bar);
            len += sizeof bar;
        }
        memcpy(text + len, name.ptr, name.len);
        len += name.len;
    }
    yamlprint_text(&printer->yaml, (struct rules_bytes){(const uint8_t *)text, len});
}

static void print_key(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    struct yamlflow flow = list(printer);

    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        yamlflow_item(&flow);
        part_print(printer, &rule->key[i]);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_no_key(const struct rules_ast_rule *rule)
{
    return said_if(rule->no_key != RULES_NO_KEY_IP);
}

static void print_no_key(struct rules_printer *printer,
                         const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rules_no_key_name(rule->no_key));
}

static enum rules_said said_ip_prefix(const struct rules_ast_rule *rule)
{
    const struct rules_ip_prefix usual = RULES_IP_PREFIX_DEFAULT;

    return said_if(rule->ip_prefix.v4_bits != usual.v4_bits
                   || rule->ip_prefix.v6_bits != usual.v6_bits);
}

static void print_ip_prefix(struct rules_printer *printer,
                            const struct rules_ast_rule *rule)
{
    struct yamlflow flow = mapping(printer);

    yamlflow_number(&flow, "v4", rule->ip_prefix.v4_bits);
    yamlflow_number(&flow, "v6", rule->ip_prefix.v6_bits);
    yamlflow_end(&flow);
}

static void per_print(struct yamlflow *flow, const struct rules_ast_limit *limit)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];

    if (limit->calendar.zone != NULL) {
        yamlflow_string(flow, "per", rules_unit_name(limit->calendar.unit));
        return;
    }
    rules_span_print(limit->per_us, span);
    yamlflow_string(flow, "per", span);
}

/** @return the algorithm of a limit that names none */
static enum rules_algorithm algorithm_implied(const struct rules_ast_limit *limit)
{
    if (limit->burst != limit->requests) {
        return RULES_TOKEN_BUCKET;
    }
    return limit->calendar.zone != NULL ? RULES_FIXED_WINDOW : RULES_SLIDING_WINDOW;
}

static void limit_print(struct rules_printer *printer,
                        const struct rules_ast_limit *limit)
{
    const struct rules_zone *zone = limit->calendar.zone;
    struct yamlflow flow = mapping(printer);
    char span[RULES_SPAN_TEXT_BYTES_MAX];

    if (*limit->name != '\0') {
        yamlflow_string(&flow, "name", limit->name);
    }
    yamlflow_number(&flow, "requests", limit->requests);
    per_print(&flow, limit);
    if (limit->burst != limit->requests) {
        yamlflow_number(&flow, "burst", limit->burst);
    }
    if (limit->algorithm != algorithm_implied(limit)) {
        yamlflow_string(&flow, "algorithm", rules_algorithm_name(limit->algorithm));
    }
    if (zone != NULL && strcmp(zone->name, "UTC") != 0) {
        yamlflow_string(&flow, "timezone", zone->name);
    }
    if (limit->algorithm == RULES_LEAKY_BUCKET
        && limit->max_delay_us != limit->per_us) {
        rules_span_print(limit->max_delay_us, span);
        yamlflow_string(&flow, "max_delay", span);
    }
    yamlflow_end(&flow);
}

static bool has_one_limit(const struct rules_ast_rule *rule)
{
    return rule->limits[0].name[0] == '\0';
}

static enum rules_said said_limit(const struct rules_ast_rule *rule)
{
    return has_one_limit(rule) ? RULES_SAID : RULES_UNSAID;
}

static void print_limit(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    limit_print(printer, &rule->limits[0]);
}

static enum rules_said said_limits(const struct rules_ast_rule *rule)
{
    return has_one_limit(rule) ? RULES_UNSAID : RULES_SAID;
}

static void print_limits(struct rules_printer *printer,
                         const struct rules_ast_rule *rule)
{
    struct yamlflow flow = list(printer);

    for (uint32_t i = 0; i < rule->n_limits; i++) {
        yamlflow_item(&flow);
        limit_print(printer, &rule->limits[i]);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_plans(const struct rules_ast_rule *rule)
{
    return said_if(rule->n_plans > 0);
}

static void number_print(struct rules_printer *printer,
                         const struct rules_ast_plan_number *number)
{
    char factor[RULES_SPAN_TEXT_BYTES_MAX];

    if (number->is_factor) {
        rules_factor_print((struct rules_factor){number->thousandths}, factor);
        yamlprint_string(&printer->yaml, factor);
    } else {
        yamlprint_number(&printer->yaml, number->requests);
    }
}

static void numbers_print(struct rules_printer *printer,
                          const struct rules_ast_rule *rule,
                          const struct rules_ast_plan *plan)
{
    struct yamlflow flow = mapping(printer);

    for (uint32_t i = 0; i < rule->n_limits; i++) {
        if (plan->numbers[i].is_changed) {
            yamlflow_field(&flow, rule->limits[i].name);
            number_print(printer, &plan->numbers[i]);
        }
    }
    yamlflow_end(&flow);
}

static void print_plans(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    struct yamlflow flow = mapping(printer);

    for (uint32_t i = 0; i < rule->n_plans; i++) {
        const struct rules_ast_plan *plan = &rule->plans[i];

        yamlflow_field(&flow, plan->name);
        if (plan->is_unlimited) {
            yamlprint_string(&printer->yaml, "unlimited");
        } else if (has_one_limit(rule) && plan->numbers[0].is_changed) {
            number_print(printer, &plan->numbers[0]);
        } else {
            numbers_print(printer, rule, plan);
        }
    }
    yamlflow_end(&flow);
}

static enum rules_said said_overrides(const struct rules_ast_rule *rule)
{
    return said_if(rule->n_overrides > 0);
}

static void print_overrides(struct rules_printer *printer,
                            const struct rules_ast_rule *rule)
{
    struct yamlflow flow = list(printer);

    for (uint32_t i = 0; i < rule->n_overrides; i++) {
        yamlflow_item(&flow);
        yamlprint_string(&printer->yaml, rule->overrides[i].name);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_cost(const struct rules_ast_rule *rule)
{
    return rule->n_costs > 0 ? RULES_UNSAID
                             : said_if(rule->cost.is_from_slot || rule->cost.min != 1);
}

static void print_cost(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    struct yamlflow flow;

    if (!rule->cost.is_from_slot) {
        yamlprint_number(&printer->yaml, rule->cost.min);
        return;
    }
    flow = mapping(printer);
    yamlflow_field(&flow, "from");
    yamlprint_text(&printer->yaml, printer->ast->slots[rule->cost.slot]);
    if (rule->cost.min != 1) {
        yamlflow_number(&flow, "min", rule->cost.min);
    }
    yamlflow_number(&flow, "max", rule->cost.max);
    yamlflow_end(&flow);
}

static enum rules_said said_costs(const struct rules_ast_rule *rule)
{
    return rule->n_costs > 0 ? RULES_SAID : RULES_UNSAID;
}

static void print_costs(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    struct yamlflow flow = list(printer);

    for (uint32_t i = 0; i < rule->n_costs; i++) {
        struct yamlflow item;

        yamlflow_item(&flow);
        item = mapping(printer);
        yamlflow_field(&item, "match");
        match_print(printer, &rule->costs[i].match);
        yamlflow_number(&item, "cost", rule->costs[i].cost);
        yamlflow_end(&item);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_charge(const struct rules_ast_rule *rule)
{
    return rule->charge.is_settled ? RULES_SAID : RULES_UNSAID;
}

static void print_charge(struct rules_printer *printer,
                         const struct rules_ast_rule *rule)
{
    struct yamlflow flow = mapping(printer);

    yamlflow_string(&flow, "after", "response");
    if (rule->charge.has_reserve) {
        yamlflow_number(&flow, "reserve", rule->charge.reserve);
    }
    if (rule->charge.when.n_conditions > 0) {
        yamlflow_field(&flow, "when");
        match_print(printer, &rule->charge.when);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_soft(const struct rules_ast_rule *rule)
{
    return said_if(rule->soft_permyriad > 0);
}

static void share_print(struct rules_printer *printer, int32_t permyriad)
{
    char text[RULES_SPAN_TEXT_BYTES_MAX];

    rules_share_print(permyriad, text);
    yamlprint_string(&printer->yaml, text);
}

static void print_soft(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    if (rule->soft_permyriad == 0) {
        yamlprint_string(&printer->yaml, "off");
    } else {
        share_print(printer, rule->soft_permyriad);
    }
}

/** A rule with a leaky bucket has no choice. */
static enum rules_said said_action(const struct rules_ast_rule *rule)
{
    return said_if(rule->action != RULES_REJECT && rule->action != RULES_DELAY);
}

static void print_action(struct rules_printer *printer,
                         const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rules_action_name(rule->action));
}

static enum rules_said said_mode(const struct rules_ast_rule *rule)
{
    return said_if(rule->mode != RULES_ENFORCE);
}

static void print_mode(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    struct yamlflow flow;

    if (rule->mode != RULES_PERCENT) {
        yamlprint_string(&printer->yaml,
                         rule->mode == RULES_SHADOW ? "shadow" : "enforce");
        return;
    }
    flow = mapping(printer);
    yamlflow_field(&flow, "enforce");
    share_print(printer, rule->enforced_permyriad);
    yamlflow_end(&flow);
}

static enum rules_said said_advertise(const struct rules_ast_rule *rule)
{
    return said_if(!rule->is_advertised);
}

static void print_advertise(struct rules_printer *printer,
                            const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rule->is_advertised ? "true" : "false");
}

static enum rules_said said_store(const struct rules_ast_rule *rule)
{
    return said_if(rule->store != RULES_STORE_LOCAL);
}

static void print_store(struct rules_printer *printer,
                        const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rules_store_name(rule->store));
}

static enum rules_said said_failure(const struct rules_ast_rule *rule)
{
    return said_if(rule->on_store_failure.policy != RULES_FAILURE_LOCAL
                   || rule->on_store_failure.share_permyriad < 10000);
}

static void print_failure(struct rules_printer *printer,
                          const struct rules_ast_rule *rule)
{
    const struct rules_failure *failure = &rule->on_store_failure;
    struct yamlflow flow;

    if (failure->policy != RULES_FAILURE_LOCAL || failure->share_permyriad == 10000) {
        yamlprint_string(&printer->yaml, rules_failure_policy_name(failure->policy));
        return;
    }
    flow = mapping(printer);
    yamlflow_field(&flow, "local");
    share_print(printer, failure->share_permyriad);
    yamlflow_end(&flow);
}

static enum rules_said said_key_text(const struct rules_ast_rule *rule)
{
    return said_if(rule->is_key_hashed);
}

static void print_key_text(struct rules_printer *printer,
                           const struct rules_ast_rule *rule)
{
    yamlprint_string(&printer->yaml, rule->is_key_hashed ? "hashed" : "readable");
}

static enum rules_said said_tag(const struct rules_ast_rule *rule)
{
    return said_if(rule->n_tag > 0);
}

static void print_tag(struct rules_printer *printer, const struct rules_ast_rule *rule)
{
    struct yamlflow flow = list(printer);

    for (uint32_t i = 0; i < rule->n_tag; i++) {
        yamlflow_item(&flow);
        yamlprint_string(&printer->yaml, rule->tag[i]);
    }
    yamlflow_end(&flow);
}

static enum rules_said said_shards(const struct rules_ast_rule *rule)
{
    return said_if(rule->n_shards > 1);
}

static void print_shards(struct rules_printer *printer,
                         const struct rules_ast_rule *rule)
{
    yamlprint_number(&printer->yaml, rule->n_shards);
}

const struct rules_print_field rules_print_fields[RULES_PRINT_FIELDS] = {
    {"name", false, always_said, print_name},
    {"owner", true, said_owner, print_owner},
    {"review_by", true, said_review_by, print_review_by},
    {"expires", false, said_expires, print_expires},
    {"match", false, said_match, print_match},
    {"key", false, always_said, print_key},
    {"no_key", true, said_no_key, print_no_key},
    {"ip_prefix", true, said_ip_prefix, print_ip_prefix},
    {"limit", false, said_limit, print_limit},
    {"limits", false, said_limits, print_limits},
    {"plans", true, said_plans, print_plans},
    {"overrides", false, said_overrides, print_overrides},
    {"cost", true, said_cost, print_cost},
    {"costs", true, said_costs, print_costs},
    {"charge", true, said_charge, print_charge},
    {"soft", true, said_soft, print_soft},
    {"action", true, said_action, print_action},
    {"mode", true, said_mode, print_mode},
    {"advertise", true, said_advertise, print_advertise},
    {"store", true, said_store, print_store},
    {"on_store_failure", true, said_failure, print_failure},
    {"tag", true, said_tag, print_tag},
    {"shards", true, said_shards, print_shards},
    {"key_text", true, said_key_text, print_key_text},
};

/** One of `require`; a field is as good as the one that says the same. */
static bool is_required(const struct rules_ast *ast, const char *name)
{
    for (uint32_t i = 0; i < ast->n_required; i++) {
        if (strcmp(ast->required[i], name) == 0
            || strcmp(rules_field_twin(ast->required[i]), name) == 0) {
            return true;
        }
    }
    return false;
}

bool rules_print_needs(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                       const struct rules_print_field *field)
{
    enum rules_said said = field->said(rule);

    return said == RULES_SAID
           || (said == RULES_IMPLIED && is_required(ast, field->name));
}
