#include <stdlib.h>

#include "rules/words.h"

#include "agent/command/check.h"
#include "agent/command/check_bound.h"
#include "agent/command/words.h"
#include "agent/control/document.h"

struct writer {
    const struct check *check;
    const struct rules_ast *ast;
    struct document *document;
};

/* Writes one part of a rule. */
typedef void write_fn(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                      FILE *out);

/* Set what a function writes, as a text. */
static void set_written(const struct writer *w, json_t *object, const char *key,
                        const struct rules_ast_rule *rule, write_fn *write)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        document_set(w->document, object, key, NULL);
        return;
    }
    write(w->ast, rule, out);
    document_set(w->document, object, key,
                 fclose(out) == 0 ? json_stringn(text, len) : NULL);
    free(text);
}

static void write_match(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        FILE *out)
{
    words_match(ast, &rule->match, out);
}

static void write_mode(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                       FILE *out)
{
    (void)ast;
    words_mode(rule, out);
}

static void set_moment(const struct writer *w, json_t *object, const char *key,
                       int64_t at_s)
{
    char moment[WORDS_MOMENT_BYTES_MAX];
    words_moment(at_s, moment);
    document_set_text(w->document, object, key, moment[0] != '\0' ? moment : NULL);
}

static void set_per(const struct writer *w, json_t *object,
                    const struct rules_ast_limit *limit)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        document_set(w->document, object, "per", NULL);
        return;
    }
    words_per(limit, out);
    document_set(w->document, object, "per",
                 fclose(out) == 0 ? json_stringn(text, len) : NULL);
    free(text);
}

static void set_bound(const struct writer *w, json_t *object, const char *key,
                      const struct check_bound *bound, int64_t n_hosts)
{
    json_t *most = document_set_object(w->document, object, key);
    document_set_number(w->document, most, "at_once", n_hosts * bound->at_once);
    document_set_number(w->document, most, "steady", n_hosts * bound->steady);
    document_set_number(w->document, most, "worst", n_hosts * bound->in_any_per);
}

static void write_failure(const struct rules_ast *ast,
                          const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    words_failure(&rule->on_store_failure, out);
}

/* Of all hosts together; null: there is no bound. */
static void set_failure(const struct writer *w, json_t *object,
                        const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit,
                        const struct check_numbers *numbers)
{
    static const char key[] = "most_without_redis";
    struct check_bound bound = {0, 0, 0};
    if (check_failure_find(rule, limit, numbers, w->check->options.load.n_hosts, &bound)
        == CHECK_FAILURE_ALL) {
        document_set(w->document, object, key, json_null());
    } else {
        set_bound(w, object, key, &bound, 1);
    }
}

/* What hosts let through before all of them know. */
static void set_ahead(const struct writer *w, json_t *object,
                      const struct rules_ast_rule *rule,
                      const struct check_numbers *numbers)
{
    struct check_fleet fleet = check_fleet_of(&w->check->options);
    struct check_ahead ahead;
    if (!check_ahead_find(rule, numbers, &fleet, &ahead)) {
        return;
    }
    document_set_number(w->document, object, "beyond", ahead.beyond);
    if (rule->store == RULES_STORE_LEASE) {
        document_set_number(w->document, object, "block", ahead.of_host);
        return;
    }
    document_set_number(w->document, object, "beyond_us", 2 * fleet.sync_interval_us);
    document_set_number(w->document, object, "at_once_on_one_host", ahead.of_host);
}

/* The numbers of a limit, and what they let through. */
static void set_numbers(const struct writer *w, json_t *object,
                        const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit,
                        const struct check_numbers *numbers)
{
    int64_t n_hosts = w->check->options.load.n_hosts;
    struct check_bound bound;
    document_set_text(w->document, object, "name",
                      limit->name[0] != '\0' ? limit->name : NULL);
    document_set_number(w->document, object, "requests", numbers->requests);
    if (limit->algorithm == RULES_TOKEN_BUCKET) {
        document_set_number(w->document, object, "burst", numbers->burst);
    }
    set_per(w, object, limit);
    document_set_text(w->document, object, "algorithm",
                      words_algorithm(limit->algorithm));
    check_bound_find(limit, numbers, rules_ast_largest_cost(rule), &bound);
    set_bound(w, object, "most", &bound, 1);
    set_ahead(w, object, rule, numbers);
    if (check_has_policy(rule)) {
        set_failure(w, object, rule, limit, numbers);
    }
    if (n_hosts > 1 && rule->store == RULES_STORE_LOCAL) {
        set_bound(w, object, "most_of_all_hosts", &bound, n_hosts);
    }
}

static void set_limits(const struct writer *w, json_t *object,
                       const struct rules_ast_rule *rule)
{
    json_t *limits = document_set_array(w->document, object, "limits");
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const struct rules_ast_limit *limit = &rule->limits[i];
        struct check_numbers numbers = {limit->requests, limit->burst};
        set_numbers(w, document_add_object(w->document, limits), rule, limit, &numbers);
    }
}

static void set_plan(const struct writer *w, json_t *object,
                     const struct rules_ast_rule *rule,
                     const struct rules_ast_plan *plan)
{
    document_set_text(w->document, object, "name", plan->name);
    document_set_bool(w->document, object, "unlimited", plan->is_unlimited);
    if (plan->is_unlimited) {
        return;
    }
    json_t *limits = document_set_array(w->document, object, "limits");
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        struct check_numbers numbers = {plan->numbers[i].requests,
                                        plan->numbers[i].burst};
        set_numbers(w, document_add_object(w->document, limits), rule, &rule->limits[i],
                    &numbers);
    }
}

static void set_what(const struct writer *w, json_t *object,
                     const struct rules_ast_rule *rule)
{
    set_written(w, object, "cost", rule, words_cost);
    set_written(w, object, "charge", rule, words_charge);
    document_set_text(w->document, object, "store", rules_store_name(rule->store));
    if (rule->n_shards > 1) {
        document_set_number(w->document, object, "shards", rule->n_shards);
    }
    if (check_has_policy(rule)) {
        set_written(w, object, "on_store_failure", rule, write_failure);
    }
    if (rule->store != RULES_STORE_LOCAL && w->check->options.is_cluster) {
        set_written(w, object, "slot_by", rule, words_slot);
    }
    document_set_text(w->document, object, "action", words_action(rule->action));
    document_set(w->document, object, "soft",
                 rule->soft_permyriad > 0
                     ? json_real((double)rule->soft_permyriad / 100)
                     : json_null());
    set_written(w, object, "mode", rule, write_mode);
    document_set_bool(w->document, object, "advertised",
                      rule->is_advertised && rule->n_key_parts > 0
                          && rule->mode != RULES_SHADOW);
}

static void set_rule(const struct writer *w, json_t *object,
                     const struct rules_ast_rule *rule)
{
    document_set_text(w->document, object, "name", rule->name);
    document_set_text(w->document, object, "owner", rule->owner);
    set_moment(w, object, "expires", rule->expires_s);
    set_moment(w, object, "review_by", rule->review_by_s);
    document_set_bool(w->document, object, "in_force",
                      rule->expires_s > w->check->now_s);
    set_written(w, object, "match", rule, write_match);
    set_written(w, object, "key", rule, words_key);
    document_set_text(w->document, object, "no_key", words_no_key(rule->no_key));
    json_t *overrides = document_set_array(w->document, object, "overrides");
    for (uint32_t i = 0; i < rule->n_overrides; i++) {
        json_t *name = json_string(rule->overrides[i].name);
        w->document->is_failed = json_array_append_new(overrides, name) != 0
                                 || w->document->is_failed;
    }
    set_limits(w, object, rule);
    json_t *plans = document_set_array(w->document, object, "plans");
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        set_plan(w, document_add_object(w->document, plans), rule, &rule->plans[i]);
    }
    set_what(w, object, rule);
}

/* A number of a second, where a rate was given. */
static void set_of_rate(const struct writer *w, json_t *object, const char *key,
                        int64_t number)
{
    document_set(w->document, object, key,
                 w->check->options.load.rate > 0 ? json_integer(number) : json_null());
}

static void set_redis_size(const struct writer *w, json_t *object)
{
    const struct check_redis_size *size = &w->check->redis_size;
    document_set_number(w->document, object, "counters", size->n_counters);
    document_set_number(w->document, object, "events", size->n_events);
    document_set_number(w->document, object, "bytes", size->bytes);
    document_set_number(w->document, object, "calls_per_request", size->slots);
    document_set_number(w->document, object, "limits_per_request", size->limits);
    set_of_rate(w, object, "calls", size->n_calls);
    set_of_rate(w, object, "misses", size->n_misses);
    set_of_rate(w, object, "orders", size->n_orders);
    set_of_rate(w, object, "exchanges", size->n_exchanges);
    set_of_rate(w, object, "batches", size->n_batches);
    set_of_rate(w, object, "commands", size->n_commands);
    set_of_rate(w, object, "primaries", size->n_primaries);
}

static void set_size(const struct writer *w)
{
    const struct check_load *load = &w->check->options.load;
    const struct check_size *size = &w->check->size;
    json_t *object = document_set_object(w->document, w->document->root, "size");
    document_set_number(w->document, object, "keys", load->n_keys);
    document_set(w->document, object, "rate",
                 load->rate > 0 ? json_integer(load->rate) : json_null());
    document_set_number(w->document, object, "hosts", load->n_hosts);
    document_set_number(w->document, object, "counters", size->n_counters);
    document_set_number(w->document, object, "counter_bytes", size->counter_bytes);
    document_set_number(w->document, object, "events", size->n_events);
    document_set_number(w->document, object, "event_bytes", size->event_bytes);
    document_set_number(w->document, object, "memory_bytes", size->memory_bytes);
    if (w->check->redis_size.is_used) {
        document_set_number(w->document, object, "counters_without_redis",
                            size->n_fallbacks);
        document_set_number(w->document, object, "pools_of_lease",
                            w->check->redis_size.n_leased);
        document_set_number(w->document, object, "pools_of_sync",
                            w->check->redis_size.n_synced);
        document_set_number(w->document, object, "pools_most",
                            w->check->redis_size.n_pools_max);
        set_redis_size(w, document_set_object(w->document, object, "redis"));
    }
}

static void set_changes(const struct writer *w)
{
    static const char *const kinds[] = {
        [CHECK_ADDED] = "added",
        [CHECK_REMOVED] = "removed",
        [CHECK_CHANGED] = "changed",
        [CHECK_STARTS_FULL] = "starts_full",
    };
    json_t *array = document_set_array(w->document, w->document->root, "changes");
    for (const struct check_change *c = w->check->changes.first; c != NULL;
         c = c->next) {
        json_t *object = document_add_object(w->document, array);
        document_set_text(w->document, object, "change", kinds[c->kind]);
        document_set_text(w->document, object, "rule",
                          c->rule != NULL ? c->rule->name : NULL);
        document_set_text(w->document, object, "limit",
                          c->limit != NULL && c->limit[0] != '\0' ? c->limit : NULL);
        document_set_text(w->document, object, "field", c->field);
        document_set_text(w->document, object, "from", c->from);
        document_set_text(w->document, object, "to", c->to);
    }
}

static const char *word_or_null(const char *word)
{
    return word[0] != '\0' ? word : NULL;
}

static void set_nodes(struct document *document, const struct check_redis *redis)
{
    json_t *nodes = document_set_array(document, document->root, "redis");
    for (unsigned i = 0; i < redis->n_nodes; i++) {
        const struct check_redis_node *node = &redis->nodes[i];
        json_t *object = document_add_object(document, nodes);
        document_set_text(document, object, "node", node->name);
        document_set_text(document, object, "version", word_or_null(node->version));
        document_set_text(document, object, "role", word_or_null(node->role));
        document_set_text(document, object, "maxmemory_policy",
                          word_or_null(node->eviction));
        document_set(document, object, "maxmemory",
                     node->memory_bytes >= 0 ? json_integer(node->memory_bytes)
                                             : json_null());
        document_set_number(document, object, "round_trip_us", node->round_trip_us);
    }
}

static void set_rules(const struct writer *w)
{
    document_set_text(w->document, w->document->root, "domain", w->ast->domain);
    if (w->check->files[CHECK_CLIENTS].path != NULL) {
        document_set_number(w->document, w->document->root, "clients",
                            w->check->n_clients);
    }
    json_t *rules = document_set_array(w->document, w->document->root, "rules");
    for (uint32_t i = 0; i < w->ast->n_rules; i++) {
        set_rule(w, document_add_object(w->document, rules), &w->ast->rules[i]);
    }
    if (w->check->options.load.n_keys > 0) {
        set_size(w);
    }
    if (w->check->old_file != NULL) {
        set_changes(w);
    }
}

bool check_print_json(const struct check *check, FILE *out)
{
    struct document document;
    document_init(&document);
    struct check_verdict verdict = check_verdict_find(check);
    document_set_text(&document, document.root, "file", check->options.path);
    document_set_bool(&document, document.root, "ok", verdict.n_errors == 0);
    document_set_number(&document, document.root, "errors", verdict.n_errors);
    document_set_number(&document, document.root, "warnings", verdict.n_warnings);
    json_t *diags = document_set_array(&document, document.root, "diagnostics");
    for (size_t i = 0; i < CHECK_FILES; i++) {
        if (check->files[i].path != NULL) {
            document_add_diags(&document, diags, check->files[i].diags);
        }
    }
    if (check->options.redis != NULL) {
        set_nodes(&document, &check->redis);
    }
    if (verdict.n_errors == 0) {
        struct writer w = {check, rules_file_ast(check->file), &document};
        set_rules(&w);
    }
    bool is_printed = document_print(&document, out);
    document_fini(&document);
    return is_printed;
}
