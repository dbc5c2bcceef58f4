#include <inttypes.h>
#include <string.h>

#include "agent/command/check.h"
#include "agent/command/check_bound.h"
#include "agent/command/words.h"

struct printer {
    const struct check *check;
    const struct rules_ast *ast;
    FILE *out;
};

/* Begin a line of what there is to say about a rule. */
static void begin(const struct printer *p, const char *label)
{
    (void)fprintf(p->out, "    %-9s ", label);
}

static void end(const struct printer *p)
{
    (void)fputc('\n', p->out);
}

static void print_name(const struct printer *p, const struct rules_ast_rule *rule)
{
    char moment[WORDS_MOMENT_BYTES_MAX];
    (void)fprintf(p->out, "\n%s", rule->name);
    if (rule->owner != NULL) {
        (void)fprintf(p->out, ", owner %s", rule->owner);
    }
    if (rule->expires_s != RULES_NEVER_S) {
        words_moment(rule->expires_s, moment);
        (void)fprintf(p->out,
                      rule->expires_s > p->check->now_s ? ", until %s" : ", ended %s",
                      moment);
    }
    if (rule->review_by_s != RULES_NEVER_S) {
        words_moment(rule->review_by_s, moment);
        (void)fprintf(p->out, ", review by %s", moment);
    }
    end(p);
}

/* Nothing takes the place of the address. */
static bool is_address(const struct rules_ast_rule *rule)
{
    return rule->n_key_parts == 1 && rule->key[0].n_links == 1
           && rule->key[0].slots[0] == RULES_SLOT_IP;
}

static void print_match(FILE *out, const struct rules_ast *ast,
                        const struct rules_ast_rule *rule)
{
    if (rule->match.n_conditions == 0) {
        (void)fputs("every request", out);
    }
    words_match(ast, &rule->match, out);
}

static void print_who(const struct printer *p, const struct rules_ast_rule *rule)
{
    struct rules_ip_prefix usual = RULES_IP_PREFIX_DEFAULT;
    begin(p, "for");
    print_match(p->out, p->ast, rule);
    end(p);
    begin(p, "key");
    words_key(p->ast, rule, p->out);
    if (rule->n_key_parts == 0) {
        (void)fputs(": one counter for all", p->out);
    } else if (!is_address(rule) || rule->no_key != RULES_NO_KEY_IP) {
        (void)fprintf(p->out, ", without it: %s", words_no_key(rule->no_key));
    }
    if (rule->ip_prefix.v4_bits != usual.v4_bits
        || rule->ip_prefix.v6_bits != usual.v6_bits) {
        (void)fprintf(p->out, ", addresses by /%u and /%u", rule->ip_prefix.v4_bits,
                      rule->ip_prefix.v6_bits);
    }
    end(p);
    for (uint32_t i = 0; i < rule->n_overrides; i++) {
        begin(p, i == 0 ? "overrides" : "");
        (void)fputs(rule->overrides[i].name, p->out);
        end(p);
    }
}

/* Whom a bound is about, where more than that goes on. */
static const char *bound_of(const struct rules_ast_rule *rule)
{
    if (rule->mode == RULES_SHADOW) {
        return "if it were enforced: ";
    }
    switch (rule->action) {
    case RULES_WARN:
        return "without a warning: ";
    case RULES_DEGRADE:
        return "undegraded: ";
    case RULES_REJECT:
    case RULES_BLOCK:
    case RULES_DELAY:
        break;
    }
    return "";
}

/* While Redis does not answer, on top of what it let through before. */
static void print_failure(const struct printer *p, const struct rules_ast_rule *rule,
                          const struct rules_ast_limit *limit,
                          const struct check_numbers *numbers)
{
    int64_t n_hosts = p->check->options.load.n_hosts;
    struct check_bound bound;
    enum check_failure failure = check_failure_find(rule, limit, numbers, n_hosts,
                                                    &bound);
    begin(p, "");
    (void)fprintf(p->out, "without Redis, on %" PRId64 " host%s: %s", n_hosts,
                  n_hosts == 1 ? "" : "s",
                  failure == CHECK_FAILURE_BOUND ? bound_of(rule) : "");
    check_failure_print(limit, failure, &bound, p->out);
    end(p);
}

/* Since hosts count ahead of what all count together. */
static void print_ahead(const struct printer *p, const struct rules_ast_rule *rule,
                        const struct check_numbers *numbers)
{
    struct check_fleet fleet = check_fleet_of(&p->check->options);
    struct check_ahead ahead;
    if (check_ahead_find(rule, numbers, &fleet, &ahead)) {
        begin(p, "");
        check_ahead_print(rule, &ahead, &fleet, p->out);
        end(p);
    }
}

static void print_bound(const struct printer *p, const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit,
                        const struct check_numbers *numbers)
{
    int64_t n_hosts = p->check->options.load.n_hosts;
    struct check_bound bound;
    check_bound_find(limit, numbers, rules_ast_largest_cost(rule), &bound);
    begin(p, "");
    (void)fputs(bound_of(rule), p->out);
    check_bound_print(limit, &bound, 1, p->out);
    end(p);
    print_ahead(p, rule, numbers);
    if (check_has_policy(rule)) {
        print_failure(p, rule, limit, numbers);
    }
    if (n_hosts > 1 && rule->store == RULES_STORE_LOCAL) {
        begin(p, "");
        (void)fprintf(p->out, "%" PRId64 " hosts: %s", n_hosts, bound_of(rule));
        check_bound_print(limit, &bound, n_hosts, p->out);
        end(p);
    }
}

static void print_numbers(const struct printer *p, const struct rules_ast_limit *limit,
                          const struct check_numbers *numbers)
{
    if (limit->name[0] != '\0') {
        (void)fprintf(p->out, "%s: ", limit->name);
    }
    (void)fprintf(p->out, "%" PRId64 " per ", numbers->requests);
    words_per(limit, p->out);
    if (limit->algorithm == RULES_TOKEN_BUCKET) {
        (void)fprintf(p->out, ", burst %" PRId64, numbers->burst);
    }
    (void)fprintf(p->out, ", %s", words_algorithm(limit->algorithm));
    end(p);
}

static void print_limits(const struct printer *p, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const struct rules_ast_limit *limit = &rule->limits[i];
        struct check_numbers numbers = {limit->requests, limit->burst};
        begin(p, "limit");
        print_numbers(p, limit, &numbers);
        print_bound(p, rule, limit, &numbers);
    }
}

static void print_plan(const struct printer *p, const struct rules_ast_rule *rule,
                       const struct rules_ast_plan *plan)
{
    begin(p, "plan");
    (void)fputs(plan->name, p->out);
    if (plan->is_unlimited) {
        (void)fputs(": unlimited", p->out);
    }
    end(p);
    for (uint32_t i = 0; !plan->is_unlimited && i < rule->n_limits; i++) {
        struct check_numbers numbers = {plan->numbers[i].requests,
                                        plan->numbers[i].burst};
        begin(p, "");
        print_numbers(p, &rule->limits[i], &numbers);
        print_bound(p, rule, &rule->limits[i], &numbers);
    }
}

static void print_cost(const struct printer *p, const struct rules_ast_rule *rule)
{
    if (rule->n_costs > 0 || rule->cost.is_from_slot || rule->cost.min != 1) {
        begin(p, "cost");
        words_cost(p->ast, rule, p->out);
        end(p);
    }
    if (rule->charge.is_settled) {
        begin(p, "charge");
        words_charge(p->ast, rule, p->out);
        end(p);
    }
}

static void print_store(const struct printer *p, const struct rules_ast_rule *rule)
{
    static const char *const stores[] = {
        [RULES_STORE_LOCAL] = "local: each host counts for itself",
        [RULES_STORE_REDIS] = "redis: all hosts count together",
        [RULES_STORE_LEASE] = "lease: hosts spend blocks of what all count together",
        [RULES_STORE_SYNC] = "sync: hosts exchange what each counted",
    };
    begin(p, "store");
    (void)fputs(stores[rule->store], p->out);
    if (rule->n_shards > 1) {
        (void)fprintf(p->out, ", in %" PRIu32 " shards", rule->n_shards);
    }
    end(p);
    if (check_has_policy(rule)) {
        begin(p, "failure");
        words_failure(&rule->on_store_failure, p->out);
        end(p);
    }
    if (p->check->options.is_cluster && rule->store != RULES_STORE_LOCAL) {
        begin(p, "slot");
        if (rule->n_key_parts > 0) {
            (void)fputs("by ", p->out);
            words_slot(p->ast, rule, p->out);
        } else {
            (void)fputs("its own, for all", p->out);
        }
        if (rule->n_shards > 1) {
            (void)fputs(", and by the shard", p->out);
        }
        end(p);
    }
}

static void print_action(const struct printer *p, const struct rules_ast_rule *rule)
{
    begin(p, "action");
    (void)fputs(words_action(rule->action), p->out);
    if (rule->soft_permyriad > 0) {
        (void)fputs(", warn from ", p->out);
        words_share(rule->soft_permyriad, p->out);
        (void)fputs(" on", p->out);
    }
    end(p);
    begin(p, "mode");
    words_mode(rule, p->out);
    if (!rule->is_advertised || rule->n_key_parts == 0 || rule->mode == RULES_SHADOW) {
        (void)fputs(", not advertised", p->out);
    }
    end(p);
}

static void print_rule(const struct printer *p, const struct rules_ast_rule *rule)
{
    print_name(p, rule);
    print_who(p, rule);
    print_limits(p, rule);
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        print_plan(p, rule, &rule->plans[i]);
    }
    print_cost(p, rule);
    print_store(p, rule);
    print_action(p, rule);
}

static void print_bytes(int64_t bytes, FILE *out)
{
    int64_t mib = INT64_C(1) << 20;
    (void)fprintf(out, "%" PRId64 "MiB", (bytes + mib - 1) / mib);
}

/* Of what hosts count ahead: beside `memory`. */
static void print_pools(const struct printer *p)
{
    const struct check_redis_size *size = &p->check->redis_size;
    if (size->n_leased + size->n_synced == 0) {
        return;
    }
    begin(p, "pools");
    (void)fprintf(p->out,
                  "%" PRId64 " of lease, %" PRId64
                  " of sync at a time; room for %" PRId64
                  " of each, in 8MiB beside `memory`",
                  size->n_leased, size->n_synced, size->n_pools_max);
    if (size->n_leased > size->n_pools_max || size->n_synced > size->n_pools_max) {
        (void)fputs("; beyond that requests ask Redis", p->out);
    }
    end(p);
}

static void print_size(const struct printer *p)
{
    const struct check_load *load = &p->check->options.load;
    const struct check_size *size = &p->check->size;
    (void)fprintf(p->out, "\nA host that counts %" PRId64 " keys", load->n_keys);
    if (load->rate > 0) {
        (void)fprintf(p->out, " of %" PRId64 " requests a second on %" PRId64 " host%s",
                      load->rate, load->n_hosts, load->n_hosts == 1 ? "" : "s");
    }
    (void)fputs(" has\n", p->out);
    begin(p, "counters");
    (void)fprintf(p->out, "%" PRId64, size->n_counters);
    if (size->n_fallbacks > 0) {
        (void)fprintf(p->out, ", and %" PRId64 " while Redis fails", size->n_fallbacks);
    }
    (void)fputs(", in ", p->out);
    print_bytes(size->counter_bytes, p->out);
    end(p);
    if (size->n_events > 0) {
        begin(p, "events");
        (void)fprintf(p->out, "%" PRId64 " of sliding logs, in ", size->n_events);
        print_bytes(size->event_bytes, p->out);
        end(p);
    }
    begin(p, "memory");
    print_bytes(size->memory_bytes, p->out);
    (void)fputs(" or more, in agent.yaml", p->out);
    end(p);
    print_pools(p);
}

static void print_redis_load(const struct printer *p)
{
    const struct check_redis_size *size = &p->check->redis_size;
    if (size->slots > 0) {
        begin(p, "calls");
        (void)fprintf(p->out,
                      "at most %" PRId64 " a second, %" PRId64 " for each request",
                      size->n_calls, size->slots);
        end(p);
    }
    if (size->n_batches > 0) {
        begin(p, "batches");
        (void)fprintf(p->out,
                      "about %" PRId64 " calls a second, with %" PRId64
                      " orders of lease and %" PRId64 " exchanges of sync",
                      size->n_batches, size->n_orders, size->n_exchanges);
        if (size->n_misses > 0) {
            (void)fprintf(p->out, "; and %" PRId64 " for requests that find no block",
                          size->n_misses);
        }
        end(p);
    }
    begin(p, "commands");
    (void)fprintf(p->out, "%s %" PRId64 " a second",
                  size->n_batches > 0 ? "about" : "at most", size->n_commands);
    if (size->slots > 0) {
        (void)fprintf(p->out, ", of up to %" PRId64 " limits for each request",
                      size->limits);
    }
    end(p);
    begin(p, "primaries");
    (void)fprintf(p->out, "%" PRId64 ", busy for half of the time at most%s",
                  size->n_primaries,
                  size->n_primaries > 1 && !p->check->options.is_cluster
                      ? ": that is a cluster"
                      : "");
    end(p);
}

static void print_redis_size(const struct printer *p)
{
    const struct check_redis_size *size = &p->check->redis_size;
    (void)fputs("\nRedis has\n", p->out);
    begin(p, "counters");
    (void)fprintf(p->out, "%" PRId64, size->n_counters);
    if (size->n_events > 0) {
        (void)fprintf(p->out, ", and %" PRId64 " events of sliding logs",
                      size->n_events);
    }
    (void)fputs(", in ", p->out);
    print_bytes(size->bytes, p->out);
    end(p);
    if (size->n_primaries > 0) {
        print_redis_load(p);
    }
}

/* Whom changes are for: told with the first of a rule. */
static void print_changed_rule(const struct printer *p,
                               const struct check_change *change)
{
    const struct rules_ast *ast = change->is_old ? rules_file_ast(p->check->old_file)
                                                 : p->ast;
    const struct rules_ast_rule *rule = change->rule;
    if (rule == NULL) {
        (void)fputs("\nthe file\n", p->out);
        return;
    }
    (void)fprintf(p->out, "\n%s, for ", rule->name);
    print_match(p->out, ast, rule);
    (void)fputs(", by ", p->out);
    words_key(ast, rule, p->out);
    if (change->field == NULL && change->limit == NULL) {
        (void)fputs(change->kind == CHECK_ADDED ? ": new" : ": gone", p->out);
    }
    end(p);
}

/* What has changed: burst.requests, limit burst, plans.gold, lists.block.ip */
static void print_subject(const struct printer *p, const struct check_change *change)
{
    bool has_name = change->limit != NULL && change->limit[0] != '\0';
    if (change->field == NULL) {
        (void)fprintf(p->out, "    limit%s%s", has_name ? " " : "",
                      has_name ? change->limit : "");
    } else {
        (void)fprintf(p->out, "    %s%s%s", has_name ? change->limit : "",
                      has_name ? "." : "", change->field);
    }
}

static void print_change(const struct printer *p, const struct check_change *change)
{
    print_subject(p, change);
    switch (change->kind) {
    case CHECK_ADDED:
        (void)fprintf(p->out, ": new%s%s", change->to != NULL ? ": " : "",
                      change->to != NULL ? change->to : "");
        break;
    case CHECK_REMOVED:
        (void)fprintf(p->out, ": gone%s%s", change->from != NULL ? ": " : "",
                      change->from != NULL ? change->from : "");
        break;
    case CHECK_CHANGED:
        (void)fprintf(p->out, ": %s -> %s", change->from, change->to);
        break;
    case CHECK_STARTS_FULL:
        (void)fputs(": starts full, with counters of its own", p->out);
        break;
    }
    if (change->note != NULL) {
        (void)fprintf(p->out, " (%s)", change->note);
    }
    end(p);
}

static void print_changes(const struct printer *p)
{
    const struct check_change *last = NULL;
    (void)fprintf(p->out, "\nAgainst %s", p->check->options.old_path);
    (void)fputs(p->check->changes.first == NULL ? ": nothing changes\n" : "\n", p->out);
    for (const struct check_change *c = p->check->changes.first; c != NULL;
         c = c->next) {
        if (last == NULL || last->rule != c->rule) {
            print_changed_rule(p, c);
        }
        if (c->field != NULL || c->limit != NULL) {
            print_change(p, c);
        }
        last = c;
    }
}

static void print_node(const struct printer *p, const struct check_redis_node *node)
{
    begin(p, node->name);
    (void)fprintf(p->out, "%s, %s", node->version[0] != '\0' ? node->version : "?",
                  node->role[0] != '\0' ? node->role : "?");
    if (node->memory_bytes > 0) {
        (void)fputs(", up to ", p->out);
        print_bytes(node->memory_bytes, p->out);
    }
    if (node->eviction[0] != '\0') {
        (void)fprintf(p->out, ", %s", node->eviction);
    }
    (void)fprintf(p->out, ", answers in %" PRId64 " us", node->round_trip_us);
    end(p);
}

static void print_nodes(const struct printer *p)
{
    (void)fputs("\nRedis\n", p->out);
    for (unsigned i = 0; i < p->check->redis.n_nodes; i++) {
        print_node(p, &p->check->redis.nodes[i]);
    }
}

static void print_rules(const struct check *check, FILE *out)
{
    struct printer p = {check, rules_file_ast(check->file), out};
    (void)fprintf(out, "domain %s\n", p.ast->domain);
    if (check->files[CHECK_CLIENTS].path != NULL) {
        (void)fprintf(out, "%" PRIu32 " clients with plans in %s\n", check->n_clients,
                      check->files[CHECK_CLIENTS].path);
    }
    for (uint32_t i = 0; i < p.ast->n_rules; i++) {
        print_rule(&p, &p.ast->rules[i]);
    }
    if (check->options.load.n_keys > 0) {
        print_size(&p);
        if (check->redis_size.is_used) {
            print_redis_size(&p);
        }
    }
    if (check->redis.n_nodes > 0) {
        print_nodes(&p);
    }
    if (check->old_file != NULL) {
        print_changes(&p);
    }
    end(&p);
}

void check_print(const struct check *check, FILE *out)
{
    struct check_verdict verdict = check_verdict_find(check);
    for (size_t i = 0; i < CHECK_FILES; i++) {
        if (check->files[i].path != NULL) {
            rules_diags_print(check->files[i].diags, out);
        }
    }
    if (verdict.n_errors == 0) {
        print_rules(check, out);
    }
    (void)fprintf(out, "%s: %s: %" PRIu32 " error%s, %" PRIu32 " warning%s\n",
                  check->options.path, verdict.n_errors == 0 ? "ok" : "refused",
                  verdict.n_errors, verdict.n_errors == 1 ? "" : "s",
                  verdict.n_warnings, verdict.n_warnings == 1 ? "" : "s");
}
