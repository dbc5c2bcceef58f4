#include "agent/decide/set.h"

#include <stdlib.h>
#include <string.h>

#include "rules/calendar.h"
#include "spop/bytes.h"

#include "agent/decide/text.h"
#include "agent/decide/variables.h"

static enum limit_algorithm algorithm_of(enum rules_algorithm algorithm)
{
    switch (algorithm) {
    case RULES_SLIDING_WINDOW:
        return LIMIT_SLIDING_WINDOW;
    case RULES_TOKEN_BUCKET:
        return LIMIT_TOKEN_BUCKET;
    case RULES_FIXED_WINDOW:
        return LIMIT_FIXED_WINDOW;
    case RULES_LEAKY_BUCKET:
        return LIMIT_LEAKY_BUCKET;
    case RULES_SLIDING_LOG:
        return LIMIT_SLIDING_LOG;
    }
    NEVER("algorithm");
}

/* draft-ietf-httpapi-ratelimit-headers-11, section 3.1; the burst of a bucket whose
 * filling time is no whole number of seconds goes into a parameter of our own. */
static size_t print_policy(char *buf, const struct decide_limit *limit)
{
    struct text text = text_in(buf, DECIDE_ITEM_BYTES_MAX);
    text_add(&text, "\"");
    text_add(&text, limit->name);
    text_add(&text, "\";q=");
    text_add_int64(&text, limit->policy.quota);
    if (limit->policy.window_s > 0) {
        text_add(&text, ";w=");
        text_add_int64(&text, limit->policy.window_s);
    }
    if (limit->policy.burst > 0) {
        text_add(&text, ";spoa-burst=");
        text_add_int64(&text, limit->policy.burst);
    }
    ENSURE(!text.is_cut);
    return text.len;
}

/* What stands before the numbers of a RateLimit item (section 4.1). */
static void print_item_head(struct decide_label *label, const char *name)
{
    struct text text = text_in(label->item_head, DECIDE_ITEM_BYTES_MAX);
    text_add(&text, "\"");
    text_add(&text, name);
    text_add(&text, "\"");
    label->quoted_len = text.len;
    text_add(&text, ";r=");
    label->item_head_len = text.len;
    ENSURE(!text.is_cut);
}

static void encode_rule(struct decide_label *label, const char *name)
{
    struct spop_variable variable;
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(name)};
    spop_variable_init(&variable, SPOP_SCOPE_TXN, variable_text(VARIABLE_RULE));
    spop_constant_init(&label->rule, &variable, &value);
}

static bool make_labels(struct decide_set *set)
{
    set->n_limits = rules_set_n_limits(set->rules);
    set->labels = calloc((size_t)set->n_limits + 1, sizeof(set->labels[0]));
    for (uint32_t i = 0; set->labels != NULL && i < set->n_limits; i++) {
        const char *name = rules_set_limit(set->rules, i)->name;
        print_item_head(&set->labels[i], name);
        encode_rule(&set->labels[i], name);
    }
    return set->labels != NULL;
}

/* What happens over a limit. Before that a leaky bucket has delayed. */
static enum action action_of(const struct rules_limit *limit)
{
    if (limit->algorithm == RULES_LEAKY_BUCKET) {
        return ACTION_REJECT;
    }
    switch (limit->rule->action) {
    case RULES_DELAY: /* of leaky buckets only */
    case RULES_REJECT:
        return ACTION_REJECT;
    case RULES_WARN:
        return ACTION_WARN;
    case RULES_DEGRADE:
        return ACTION_DEGRADE;
    case RULES_BLOCK:
        return ACTION_BLOCK;
    }
    NEVER("action");
}

/* size x permyriad is at most 10^13. */
static int64_t soft_amount_of(const struct rules_rule *rule, int64_t size)
{
    return rule->soft_permyriad > 0 ? size * rule->soft_permyriad / 10000 : -1;
}

static int64_t size_of(const struct limit *limit, const struct rules_limit *rules)
{
    switch (limit->algorithm) {
    case LIMIT_TOKEN_BUCKET:
        return rules->burst;
    case LIMIT_LEAKY_BUCKET:
        return limit_leaky_size(limit);
    case LIMIT_SLIDING_WINDOW:
    case LIMIT_FIXED_WINDOW:
    case LIMIT_SLIDING_LOG:
        return rules->requests;
    }
    NEVER("algorithm");
}

static enum store_policy policy_of(enum rules_failure_policy policy)
{
    switch (policy) {
    case RULES_FAILURE_LOCAL:
        return STORE_POLICY_LOCAL;
    case RULES_FAILURE_OPEN:
        return STORE_POLICY_OPEN;
    case RULES_FAILURE_CLOSED:
        return STORE_POLICY_CLOSED;
    }
    NEVER("policy");
}

static enum store_kind kind_of(enum rules_store store)
{
    switch (store) {
    case RULES_STORE_REDIS:
        return STORE_KIND_REDIS;
    case RULES_STORE_LEASE:
        return STORE_KIND_LEASE;
    case RULES_STORE_SYNC:
        return STORE_KIND_SYNC;
    case RULES_STORE_LOCAL:
        break; /* has no home */
    }
    NEVER("store");
}

static void init_form(const struct decide_set *set, struct decide_home *home,
                      const struct decide_limit *limit, const struct rules_limit *rules)
{
    char calendar[RULES_CALENDAR_TEXT_BYTES_MAX];
    size_t rule_len = strlen(rules->rule->name);
    struct key_name name = {
        .prefix = set->prefix,
        .domain = set->domain,
        .rule = rules->rule->name,
        .limit = rules->name[rule_len] == '.' ? rules->name + rule_len + 1 : NULL,
        .algorithm = limit->limit.algorithm,
        .per_us = rules->per_us,
    };
    if (rules->calendar != NULL) {
        rules_calendar_print(rules->calendar, calendar);
        name.calendar = calendar;
    }
    key_form_init(&home->form, &name);
}

/* Of a limit that is counted elsewhere. */
static const struct decide_home *make_home(struct decide_set *set,
                                           const struct decide_limit *limit,
                                           const struct rules_limit *rules)
{
    if (rules->rule->store == RULES_STORE_LOCAL) {
        return NULL;
    }
    struct decide_home *home = &set->homes[set->n_homes++];
    home->home.kind = kind_of(rules->rule->store);
    home->home.n_shards = rules->rule->n_shards;
    home->home.policy = policy_of(rules->rule->on_store_failure.policy);
    home->home.share = rules->rule->on_store_failure.share_permyriad;
    fallback_init(&home->home.fallback, &limit->limit,
                  rules_set_limit(set->rules, rules->base_idx)->requests,
                  rules->rule->cost_max);
    memcpy(home->home.fallback_id, rules->id, sizeof(home->home.fallback_id));
    home->home.fallback_id[0] ^= 0xff; /* another counter than the limit's own */
    home->tag_parts = rules->rule->tag_parts;
    home->is_hashed = rules->rule->is_key_hashed;
    init_form(set, home, limit, rules);
    return home;
}

static void prepare_limit(struct decide_set *set, struct decide_limit *limit,
                          const struct rules_limit *rules)
{
    limit->name = rules->name;
    limit->label = &set->labels[rules->base_idx];
    limit->base_idx = rules->base_idx;
    limit->limit = (struct limit){
        .algorithm = algorithm_of(rules->algorithm),
        .requests = rules->requests,
        .per_ticks = rules->per_ticks,
        .tick_us = rules->tick_us,
        .max_delay_ticks = rules->max_delay_ticks,
        .calendar = rules->calendar != NULL ? &set->calendars[rules->calendar_idx]
                                            : NULL,
    };
    limit->limit.size = size_of(&limit->limit, rules);
    limit->exceeded = action_of(rules);
    limit->soft_amount = soft_amount_of(rules->rule, limit->limit.size);
    limit->home = make_home(set, limit, rules);
    limit_describe(&limit->limit, &limit->policy);
    limit->policy_item_len = print_policy(limit->policy_item, limit);
}

static bool make_room_for_homes(struct decide_set *set)
{
    size_t n = 0;
    for (uint32_t i = 0; i < rules_set_n_variants(set->rules); i++) {
        n += rules_set_limit(set->rules, i)->rule->store != RULES_STORE_LOCAL;
    }
    set->homes = n > 0 ? calloc(n, sizeof(set->homes[0])) : NULL;
    return n == 0 || set->homes != NULL;
}

static bool make_calendars(struct decide_set *set)
{
    set->n_calendars = rules_set_n_calendars(set->rules);
    if (set->n_calendars == 0) {
        return true;
    }
    set->calendars = calloc(set->n_calendars, sizeof(set->calendars[0]));
    for (uint32_t i = 0; set->calendars != NULL && i < set->n_calendars; i++) {
        set->calendars[i].is_even = rules_calendar_is_even(
            rules_set_calendar(set->rules, i));
    }
    return set->calendars != NULL;
}

/* The window of now and those to come. */
static void look_ahead(struct calendar *calendar, const struct rules_calendar *rules,
                       int64_t wall_us, int64_t ahead_us)
{
    struct calendar_start starts[CALENDAR_STARTS];
    int64_t start_s = rules_calendar_start(rules, wall_us / US_PER_S);
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        starts[i] = (struct calendar_start){
            .number = start_s,
            .us = start_s * US_PER_S + ahead_us,
        };
        start_s = rules_calendar_next(rules, start_s);
    }
    calendar_fill(calendar, starts);
}

bool decide_set_keep_calendars(struct decide_set *set, struct instant now,
                               int64_t wall_us)
{
    int64_t stepped_us = now.us - wall_us - set->ahead_us;
    if (instant_diff_us(now, set->looked_at) < CALENDARS_PERIOD_US
        && stepped_us <= CALENDARS_STEP_US && stepped_us >= -CALENDARS_STEP_US) {
        return false;
    }
    for (uint32_t i = 0; i < set->n_calendars; i++) {
        look_ahead(&set->calendars[i], rules_set_calendar(set->rules, i), wall_us,
                   now.us - wall_us);
    }
    set->looked_at = now;
    set->ahead_us = now.us - wall_us;
    return true;
}

struct decide_set *decide_set_new(struct rules_set *rules, const char *prefix)
{
    uint32_t n_variants = rules_set_n_variants(rules);
    struct decide_set *set = calloc(1,
                                    sizeof(*set) + n_variants * sizeof(set->limits[0]));
    if (set == NULL) {
        rules_set_free(rules);
        return NULL;
    }
    set->rules = rules;
    set->prefix = prefix;
    if (!make_labels(set) || !make_room_for_homes(set) || !make_calendars(set)) {
        decide_set_free(set);
        return NULL;
    }
    set->domain = rules_set_domain(rules);
    for (uint32_t i = 0; i < n_variants; i++) {
        prepare_limit(set, &set->limits[i], rules_set_limit(rules, i));
    }
    return set;
}

void decide_set_free(struct decide_set *set)
{
    if (set == NULL) {
        return;
    }
    rules_set_free(set->rules);
    free(set->calendars);
    free(set->labels);
    free(set->homes);
    free(set);
}
