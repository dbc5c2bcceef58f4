/* What the store of a rule does not go with, and how far its counters can be split. */
#include <inttypes.h>

#include "rules/code.h"
#include "rules/fields.h"
#include "rules/words.h"

enum {
    SHARD_REQUESTS_MIN = 100, /* below, chance would fill one long before the others */
    SHARD_COSTS_MIN = 2,
};

/** @return why hosts cannot count ahead with an algorithm; NULL: they can */
static const char *why_not_ahead(enum rules_algorithm algorithm)
{
    switch (algorithm) {
    case RULES_SLIDING_LOG:
        return "keeps every request in one place";
    case RULES_LEAKY_BUCKET:
        return "lines all requests up in one place";
    case RULES_SLIDING_WINDOW:
    case RULES_TOKEN_BUCKET:
    case RULES_FIXED_WINDOW:
        break;
    }
    return NULL;
}

static void limit_check(struct rules_parse *parse, const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit)
{
    const char *why = why_not_ahead(limit->algorithm);

    if (why != NULL) {
        RULES_FAIL(parse, limit->algorithm_mark, rules_code_algorithm_not_allowed,
                   "%s %s, so it does not go with 'store: %s': say 'store: redis', or "
                   "take another algorithm",
                   rules_algorithm_name(limit->algorithm), why,
                   rules_store_name(rule->store));
    }
    if (limit->calendar.zone != NULL && rule->store == RULES_STORE_LEASE) {
        RULES_FAIL(
            parse, limit->per_mark, rules_code_calendar_not_allowed,
            "a window of the calendar would turn while blocks of it are out on "
            "lease: say 'store: redis' or 'store: sync', or write a span, as 1d");
    }
}

void rules_store_check(struct rules_parse *parse, const struct rules_ast_rule *rule)
{
    if (rule->store != RULES_STORE_LEASE && rule->store != RULES_STORE_SYNC) {
        return;
    }
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        limit_check(parse, rule, &rule->limits[i]);
    }
    if (rule->charge.is_settled && rule->store == RULES_STORE_SYNC) {
        RULES_FAIL(parse, rule->charge.mark, rules_code_settling_not_allowed,
                   "hosts that exchange what they counted do not know any more where a "
                   "request was counted: say 'store: redis' or 'store: lease'");
    }
}

/** What is wrong with splitting the counters of a rule. */
struct fault {
    const char *code; /* NULL: nothing */
    char text[RULES_DIAG_TEXT_BYTES_MAX];
};

static void fault_set(struct fault *fault, const char *why)
{
    fault->code = rules_code_shards_not_allowed;
    (void)snprintf(fault->text, sizeof fault->text, "%s", why);
}

/** Look at a limit as the rule says it, `plan` NULL, or as a plan makes it. */
static void size_check(const struct rules_ast_rule *rule, int64_t requests,
                       int64_t burst, const char *plan, struct fault *fault)
{
    int64_t size = requests < burst ? requests : burst;
    int64_t needed = SHARD_COSTS_MIN * rules_ast_largest_cost(rule);
    char mend[48] = "leave shards out";

    needed = needed < SHARD_REQUESTS_MIN ? SHARD_REQUESTS_MIN : needed;
    if (fault->code != NULL || size <= 0 || size / rule->n_shards >= needed) {
        return; /* a limit of 0 keeps no counter */
    }
    if (size / needed > 1) {
        (void)snprintf(mend, sizeof mend, "at most %" PRId64 " shards", size / needed);
    }
    fault->code = rules_code_shards_too_small;
    (void)snprintf(fault->text, sizeof fault->text,
                   "%s%s is %" PRId64 ", and each shard needs %" PRId64 ": %s",
                   plan != NULL ? "plan " : "the limit", plan != NULL ? plan : "", size,
                   needed, mend);
}

static void sizes_check(const struct rules_ast_rule *rule, uint32_t idx,
                        struct fault *fault)
{
    size_check(rule, rule->limits[idx].requests, rule->limits[idx].burst, NULL, fault);
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        const struct rules_ast_plan *plan = &rule->plans[i];

        if (!plan->is_unlimited) {
            size_check(rule, plan->numbers[idx].requests, plan->numbers[idx].burst,
                       plan->name, fault);
        }
    }
}

static void fault_find(const struct rules_ast_rule *rule, struct fault *fault)
{
    fault->code = NULL;
    if (rule->store != RULES_STORE_REDIS) {
        fault_set(fault, "only counters of 'store: redis' are split: leave shards out");
    } else if (rule->n_tag > 0) {
        fault_set(fault, "shards spread a counter over slots, and a tag keeps it in "
                         "one: leave one of them out");
    }
    for (uint32_t i = 0; i < rule->n_limits && fault->code == NULL; i++) {
        if (rule->limits[i].algorithm == RULES_SLIDING_LOG) {
            fault_set(fault, "a sliding_log keeps every request in one place: leave "
                             "shards out");
        }
        sizes_check(rule, i, fault);
    }
}

void rules_shards_check(struct rules_parse *parse, const struct yamltree_node *node,
                        struct rules_ast_rule *rule)
{
    struct fault fault;

    if (rule->n_shards == 1) {
        return;
    }
    fault_find(rule, &fault);
    if (fault.code != NULL && node != NULL) {
        RULES_FAIL(parse, node->mark, fault.code, "%s", fault.text);
    } else if (fault.code != NULL) {
        rule->n_shards = 1;
    }
}
