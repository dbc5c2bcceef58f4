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

static void print_who(const struct printer *p, const struct rules_ast_rule *rule)
{
    struct rules_ip_prefix usual = RULES_IP_PREFIX_DEFAULT;
    begin(p, "for");
    if (rule->match.n_conditions == 0) {
        (void)fputs("every request", p->out);
    }
    words_match(p->ast, &rule->match, p->out);
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

static void print_bound(const struct printer *p, const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit,
                        const struct check_numbers *numbers)
{
    int64_t n_hosts = p->check->options.load.n_hosts;
    struct check_bound bound;
    check_bound_find(limit, numbers, check_largest_cost(rule), &bound);
    begin(p, "");
    (void)fputs(bound_of(rule), p->out);
    check_bound_print(limit, &bound, 1, p->out);
    end(p);
    if (n_hosts > 1) {
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

static void print_action(const struct printer *p, const struct rules_ast_rule *rule)
{
    begin(p, "store");
    (void)fputs("local: each host counts for itself", p->out);
    end(p);
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
    print_action(p, rule);
}

static void print_bytes(int64_t bytes, FILE *out)
{
    int64_t mib = INT64_C(1) << 20;
    (void)fprintf(out, "%" PRId64 "MiB", (bytes + mib - 1) / mib);
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
    (void)fprintf(p->out, "%" PRId64 ", in ", size->n_counters);
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
}

static void print_rules(const struct check *check, FILE *out)
{
    struct printer p = {check, rules_file_ast(check->file), out};
    (void)fprintf(out, "domain %s\n", p.ast->domain);
    for (uint32_t i = 0; i < p.ast->n_rules; i++) {
        print_rule(&p, &p.ast->rules[i]);
    }
    if (check->options.load.n_keys > 0) {
        print_size(&p);
    }
    (void)fputc('\n', out);
}

static void print_verdict(const struct check *check, FILE *out)
{
    const struct check_file *const files[] = {&check->rules, &check->old, &check->spoe};
    uint32_t n_errors = 0;
    uint32_t n_warnings = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        n_errors += files[i]->path != NULL ? files[i]->diags->n_errors : 0;
        n_warnings += files[i]->path != NULL ? files[i]->diags->n_warnings : 0;
    }
    (void)fprintf(out, "%s: %s: %" PRIu32 " error%s, %" PRIu32 " warning%s\n",
                  check->options.path, n_errors == 0 ? "ok" : "refused", n_errors,
                  n_errors == 1 ? "" : "s", n_warnings, n_warnings == 1 ? "" : "s");
}

void check_print(const struct check *check, FILE *out)
{
    const struct check_file *const files[] = {&check->rules, &check->old, &check->spoe};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (files[i]->path != NULL) {
            rules_diags_print(files[i]->diags, out);
        }
    }
    if (check_is_ok(check)) {
        print_rules(check, out);
    }
    print_verdict(check, out);
}
