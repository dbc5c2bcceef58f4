#include <string.h>

#include "rules/ast.h"
#include "rules/code.h"
#include "rules/fields.h"
#include "rules/units.h"

static void read_rule_name(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct rules_ast_rule *rule = into;

    rule->name = rules_name_read(parse, node);
    rule->name_mark = node->mark;
}

static void read_owner(struct rules_parse *parse, const struct yamltree_node *node,
                       void *into)
{
    struct rules_ast_rule *rule = into;

    rule->owner = rules_text_read(parse, node);
}

static void read_review_by(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    struct rules_ast_rule *rule = into;

    rules_moment_read(parse, node, &rule->review_by_s);
    rule->review_by_mark = node->mark;
}

static void read_expires(struct rules_parse *parse, const struct yamltree_node *node,
                         void *into)
{
    struct rules_ast_rule *rule = into;

    rules_moment_read(parse, node, &rule->expires_s);
    rule->expires_mark = node->mark;
}

static void read_enforced(struct rules_parse *parse, const struct yamltree_node *node,
                          void *into)
{
    int32_t *permyriad = into;

    rules_share_read(parse, node, permyriad);
}

static void read_mode(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    static const struct rules_choice modes[] = {{"enforce", RULES_ENFORCE},
                                                {"shadow", RULES_SHADOW}};
    static const struct rules_field share[] = {{"enforce", read_enforced, true}};
    struct rules_ast_rule *rule = into;
    int value;

    if (node->kind == YAMLTREE_MAPPING) {
        rule->mode = RULES_PERCENT;
        (void)rules_fields_read(parse, node, "mode", share, 1,
                                &rule->enforced_permyriad);
        return;
    }
    rule->enforced_permyriad = 0;
    value = RULES_CHOICE_READ(parse, node, modes);
    rule->mode = value == RULES_SHADOW ? RULES_SHADOW : RULES_ENFORCE;
}

static void read_soft(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    struct rules_ast_rule *rule = into;

    if (node->kind == YAMLTREE_SCALAR && strcmp(node->text, "off") == 0) {
        rule->soft_permyriad = 0;
        return;
    }
    rules_share_read(parse, node, &rule->soft_permyriad);
}

static void read_action(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    static const struct rules_choice actions[] = {{"reject", RULES_REJECT},
                                                  {"warn", RULES_WARN},
                                                  {"degrade", RULES_DEGRADE},
                                                  {"block", RULES_BLOCK},
                                                  {"delay", RULES_DELAY}};
    struct rules_ast_rule *rule = into;
    int value = RULES_CHOICE_READ(parse, node, actions);

    rule->action = value < 0 ? RULES_REJECT : (enum rules_action)value;
}

static void read_advertise(struct rules_parse *parse, const struct yamltree_node *node,
                           void *into)
{
    static const struct rules_choice choices[] = {{"true", 1}, {"false", 0}};
    struct rules_ast_rule *rule = into;

    rule->is_advertised = RULES_CHOICE_READ(parse, node, choices) == 1;
}

static void read_no_key(struct rules_parse *parse, const struct yamltree_node *node,
                        void *into)
{
    static const struct rules_choice choices[] = {{"ip", RULES_NO_KEY_IP},
                                                  {"skip", RULES_NO_KEY_SKIP},
                                                  {"reject", RULES_NO_KEY_REJECT}};
    struct rules_ast_rule *rule = into;
    int value = RULES_CHOICE_READ(parse, node, choices);

    rule->no_key = value < 0 ? RULES_NO_KEY_IP : (enum rules_no_key)value;
}

static const struct rules_field rule_fields[] = {
    {"name", read_rule_name, true},
    {"owner", read_owner, false},
    {"review_by", read_review_by, false},
    {"expires", read_expires, false},
    {"match", rules_field_match, false},
    {"key", rules_field_key, true},
    {"no_key", read_no_key, false},
    {"ip_prefix", rules_field_ip_prefix, false},
    {"limit", rules_field_limit, false},
    {"limits", rules_field_limits, false},
    {"plans", rules_field_skip, false},
    {"overrides", rules_field_overrides, false},
    {"cost", rules_field_cost, false},
    {"costs", rules_field_costs, false},
    {"charge", rules_field_charge, false},
    {"soft", read_soft, false},
    {"action", read_action, false},
    {"mode", read_mode, false},
    {"advertise", read_advertise, false},
    {"store", rules_field_store, false},
    {"on_store_failure", rules_field_on_store_failure, false},
    {"tag", rules_field_tag, false},
    {"shards", rules_field_shards, false},
    {"key_text", rules_field_key_text, false},
};

enum {
    N_RULE_FIELDS = sizeof rule_fields / sizeof rule_fields[0]
};
_Static_assert((size_t)N_RULE_FIELDS <= (size_t)RULES_FIELDS_MAX,
               "a table of fields is too long");

/** What makes a rule the one it is has no default. */
static bool has_default(const char *field)
{
    static const char *const own[] = {"name",   "match",   "key",      "limit",
                                      "limits", "expires", "overrides"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(own[i], field) == 0) {
            return false;
        }
    }
    return true;
}

/** @return a field of a rule, or of `defaults`; NULL: neither has it */
static const struct yamltree_node *field_find(const struct rules_parse *parse,
                                              const struct yamltree_node *rule,
                                              const char *name)
{
    const struct yamltree_node *field = yamltree_child(rule, name);

    return field == NULL && parse->defaults != NULL
               ? yamltree_child(parse->defaults, name)
               : field;
}

/** What a rule says in one of two ways. */
static const char *const pairs[][2] = {{"limit", "limits"}, {"cost", "costs"}};

enum {
    N_PAIRS = sizeof pairs / sizeof pairs[0]
};

const char *rules_field_twin(const char *name)
{
    for (size_t i = 0; i < N_PAIRS; i++) {
        if (strcmp(pairs[i][0], name) == 0) {
            return pairs[i][1];
        }
        if (strcmp(pairs[i][1], name) == 0) {
            return pairs[i][0];
        }
    }
    return name;
}

/** Report the fields of `require` that neither the rule nor `defaults` has. */
static void required_check(struct rules_parse *parse, const struct yamltree_node *rule)
{
    for (uint32_t i = 0; i < parse->ast->n_required; i++) {
        const char *name = parse->ast->required[i];

        if (field_find(parse, rule, name) == NULL
            && field_find(parse, rule, rules_field_twin(name)) == NULL) {
            RULES_FAIL(parse, rule->mark, rules_code_missing_field,
                       "rule needs '%s', which the file requires", name);
        }
    }
}

/** Report what is said in two ways. */
static void pairs_check(struct rules_parse *parse, const struct yamltree_node *node)
{
    for (size_t i = 0; i < N_PAIRS; i++) {
        const struct yamltree_node *first = yamltree_child(node, pairs[i][0]);
        const struct yamltree_node *second = yamltree_child(node, pairs[i][1]);

        if (first != NULL && second != NULL) {
            RULES_FAIL(parse, second->key_mark, rules_code_one_of_two,
                       "a rule has '%s' or '%s', not both", pairs[i][0], pairs[i][1]);
        }
    }
}

void rules_defaults_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    struct rules_field fields[N_RULE_FIELDS];
    size_t n = 0;

    parse->rule = (struct rules_ast_rule){
        .is_advertised = true,
        .ip_prefix = RULES_IP_PREFIX_DEFAULT,
        .cost = {.min = 1, .max = 1},
        .n_shards = 1,
        .on_store_failure = {.share_permyriad = 10000},
        .review_by_s = RULES_NEVER_S,
        .expires_s = RULES_NEVER_S};
    parse->defaults = NULL;
    if (node == NULL) {
        return;
    }
    for (size_t i = 0; i < N_RULE_FIELDS; i++) {
        if (has_default(rule_fields[i].name)) {
            fields[n++] = rule_fields[i];
        }
    }
    if (rules_fields_read(parse, node, "defaults", fields, n, &parse->rule)) {
        pairs_check(parse, node);
        parse->defaults = node;
    }
}

bool rules_is_rule_field(const char *name)
{
    for (size_t i = 0; i < N_RULE_FIELDS; i++) {
        if (strcmp(rule_fields[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void limits_check(struct rules_parse *parse, const struct yamltree_node *node)
{
    if (yamltree_child(node, "limit") == NULL
        && yamltree_child(node, "limits") == NULL) {
        RULES_FAIL(parse, node->mark, rules_code_missing_field,
                   "rule needs 'limit' or 'limits'");
    }
}

/** Plans change the limits of a rule, so they are read after them. */
static void plans_find(struct rules_parse *parse, const struct yamltree_node *node,
                       struct rules_ast_rule *rule)
{
    const struct yamltree_node *plans = field_find(parse, node, "plans");

    if (plans != NULL) {
        rules_plans_read(parse, plans, rule);
    }
}

/** What a leaky bucket does over its limit is to delay, then to reject, and nothing else
 * delays; an action of `defaults` is for the other rules. */
static void action_check(struct rules_parse *parse, const struct yamltree_node *node,
                         struct rules_ast_rule *rule)
{
    const struct yamltree_node *action = yamltree_child(node, "action");
    uint32_t n_leaky = 0;

    for (uint32_t i = 0; i < rule->n_limits; i++) {
        n_leaky += rule->limits[i].algorithm == RULES_LEAKY_BUCKET;
    }

    bool is_all = n_leaky > 0 && n_leaky == rule->n_limits;
    enum rules_action right = is_all ? RULES_DELAY : RULES_REJECT;

    if (rule->action == RULES_DELAY && n_leaky < rule->n_limits) {
        RULES_FAIL(parse, action != NULL ? action->mark : node->mark,
                   rules_code_action_not_allowed,
                   "only a limit with 'algorithm: leaky_bucket' delays");
    } else if (action != NULL && n_leaky > 0 && rule->action != right) {
        RULES_FAIL(parse, action->mark, rules_code_action_not_allowed,
                   "a leaky_bucket delays, and rejects what would wait for longer than "
                   "max_delay: leave the action out");
    }
    if (n_leaky > 0) {
        rule->action = right;
    }
}

/** One counter for all has no keys of which a share could be enforced. */
static void mode_check(struct rules_parse *parse, const struct yamltree_node *node,
                       const struct rules_ast_rule *rule)
{
    const struct yamltree_node *key = yamltree_child(node, "key");

    if (rule->mode == RULES_PERCENT && key != NULL && key->kind == YAMLTREE_SEQUENCE
        && key->n_children == 0) {
        RULES_FAIL(parse, key->mark, rules_code_share_without_key,
                   "a mode in percent enforces a share of the keys: key: [] has one");
    }
}

/** What refuses all of its requests must end some day. */
static void zero_check(struct rules_parse *parse, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        if (rule->limits[i].requests == 0 && rule->expires_mark.line == 0) {
            RULES_FAIL(parse, rule->limits[i].requests_mark,
                       rules_code_zero_without_end,
                       "a limit of 0 refuses everything: the rule needs 'expires'");
        }
    }
}

void rules_rule_read(struct rules_parse *parse, const struct yamltree_node *node,
                     struct rules_ast_rule *rule)
{
    *rule = parse->rule;
    rule->mark = node->mark;
    if (rules_fields_read(parse, node, "rule", rule_fields, N_RULE_FIELDS, rule)) {
        pairs_check(parse, node);
        limits_check(parse, node);
        zero_check(parse, rule);
        mode_check(parse, node, rule);
        action_check(parse, node, rule);
        rules_charge_check(parse, field_find(parse, node, "charge"), rule);
        plans_find(parse, node, rule);
        rules_tag_check(parse, yamltree_child(node, "tag"), rule);
        rules_store_check(parse, rule);
        rules_shards_check(parse, yamltree_child(node, "shards"), rule);
        required_check(parse, node);
    }
}
