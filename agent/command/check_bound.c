#include "agent/command/check_bound.h"

#include <inttypes.h>

#include "rules/units.h"

#include "agent/command/words.h"
#include "agent/store/fallback.h"
#include "agent/store/leases.h"

/* As many as an empty bucket takes: one that goes on, and those that drain in time. */
static int64_t leaky_size(const struct rules_ast_limit *limit, int64_t requests)
{
    int64_t tick_us = rules_tick_us(limit->per_us);
    return 1 + requests * (limit->max_delay_us / tick_us) / (limit->per_us / tick_us);
}

void check_bound_find(const struct rules_ast_limit *limit,
                      const struct check_numbers *numbers, int64_t largest_cost,
                      struct check_bound *bound)
{
    int64_t requests = numbers->requests;
    *bound = (struct check_bound){requests, requests, requests};
    if (requests == 0) {
        return;
    }
    switch (limit->algorithm) {
    case RULES_SLIDING_WINDOW:
        bound->in_any_per = 2 * requests - 1;
        break;
    case RULES_TOKEN_BUCKET:
        bound->at_once = numbers->burst;
        bound->in_any_per = numbers->burst + requests;
        break;
    case RULES_FIXED_WINDOW:
        bound->in_any_per = 2 * requests;
        break;
    case RULES_LEAKY_BUCKET:
        bound->at_once = leaky_size(limit, requests);
        bound->in_any_per = requests + largest_cost;
        break;
    case RULES_SLIDING_LOG:
        break;
    }
}

static void lease_find(const struct check_numbers *numbers,
                       const struct check_fleet *fleet, struct check_ahead *ahead)
{
    int64_t most = least_of(numbers->requests, numbers->burst);
    int64_t held = most * fleet->lease_share / FALLBACK_SHARE_WHOLE;
    int64_t block = held / fleet->n_hosts;
    *ahead = (struct check_ahead){0, 0};
    if (block >= LEASE_BLOCK_MIN) {
        *ahead = (struct check_ahead){.beyond = held, .of_host = block};
    }
}

/* Each host may let a request through that finds nothing left of its part. */
static void sync_find(const struct rules_ast_rule *rule,
                      const struct check_numbers *numbers,
                      const struct check_fleet *fleet, struct check_ahead *ahead)
{
    int64_t request = least_of(rules_ast_largest_cost(rule), numbers->burst);
    int64_t part = numbers->burst / fleet->n_hosts;
    ahead->beyond = numbers->burst + fleet->n_hosts * request;
    ahead->of_host = part > request ? part : request;
}

bool check_ahead_find(const struct rules_ast_rule *rule,
                      const struct check_numbers *numbers,
                      const struct check_fleet *fleet, struct check_ahead *ahead)
{
    if (numbers->requests == 0) {
        return false;
    }
    switch (rule->store) {
    case RULES_STORE_LEASE:
        lease_find(numbers, fleet, ahead);
        return true;
    case RULES_STORE_SYNC:
        sync_find(rule, numbers, fleet, ahead);
        return true;
    case RULES_STORE_LOCAL:
    case RULES_STORE_REDIS:
        break;
    }
    return false;
}

void check_ahead_print(const struct rules_ast_rule *rule,
                       const struct check_ahead *ahead, const struct check_fleet *fleet,
                       FILE *out)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];
    if (rule->store == RULES_STORE_SYNC) {
        rules_span_print(2 * fleet->sync_interval_us, span);
        (void)fprintf(out,
                      "beyond that what comes within %s, at most %" PRId64
                      "; through one host at most %" PRId64 " at once",
                      span, ahead->beyond, ahead->of_host);
    } else if (ahead->beyond == 0) {
        (void)fputs(
            "too small for blocks: each request asks Redis, so nothing beyond that",
            out);
    } else {
        (void)fprintf(out,
                      "beyond that at most %" PRId64
                      " that hosts hold in blocks, and %" PRId64
                      " for each that dies or is cut off",
                      ahead->beyond, ahead->of_host);
    }
}

bool check_has_policy(const struct rules_ast_rule *rule)
{
    return rule->store != RULES_STORE_LOCAL;
}

/* What a policy refuses only where the rule would. */
static bool is_lenient(const struct rules_ast_rule *rule)
{
    return rule->mode == RULES_SHADOW || rule->action == RULES_WARN
           || rule->action == RULES_DEGRADE;
}

/* The bucket of one host, and what flows into all of them in a span of `per`. */
static void fallback_find(const struct rules_ast_rule *rule,
                          const struct rules_ast_limit *limit,
                          const struct check_numbers *numbers, int64_t n_hosts,
                          struct check_bound *bound)
{
    int64_t largest_cost = rules_ast_largest_cost(rule);
    int64_t tick_us = rules_tick_us(limit->per_us);
    struct fallback fallback;
    struct limit bucket;
    check_bound_find(limit, numbers, largest_cost, bound);
    struct limit whole = {
        .requests = numbers->requests,
        .size = bound->at_once,
        .per_ticks = limit->per_us / tick_us,
        .tick_us = tick_us,
    };
    fallback_init(&fallback, &whole, limit->requests, largest_cost);
    fallback_limit(&fallback, (unsigned)n_hosts, rule->on_store_failure.share_permyriad,
                   &bucket);
    int64_t parts = bucket.tick_us / tick_us; /* of one request */
    bound->at_once = n_hosts * bucket.size;
    bound->steady = bucket.size == 0 ? 0
                                     : (n_hosts * bucket.requests + parts - 1) / parts;
    bound->in_any_per = bound->at_once + bound->steady;
}

enum check_failure check_failure_find(const struct rules_ast_rule *rule,
                                      const struct rules_ast_limit *limit,
                                      const struct check_numbers *numbers,
                                      int64_t n_hosts, struct check_bound *bound)
{
    switch (rule->on_store_failure.policy) {
    case RULES_FAILURE_LOCAL:
        fallback_find(rule, limit, numbers, n_hosts, bound);
        return CHECK_FAILURE_BOUND;
    case RULES_FAILURE_OPEN:
        return CHECK_FAILURE_ALL;
    case RULES_FAILURE_CLOSED:
        return is_lenient(rule) ? CHECK_FAILURE_ALL : CHECK_FAILURE_NONE;
    }
    NEVER("policy");
}

/* A span of `per`, wherever it begins. */
static void print_span(const struct rules_ast_limit *limit, FILE *out)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];
    if (limit->calendar.zone != NULL) {
        (void)fputs(words_unit(limit->calendar.unit), out);
    } else {
        rules_span_print(limit->per_us, span);
        (void)fputs(span, out);
    }
}

static void print_numbers(const struct rules_ast_limit *limit,
                          const struct check_bound *bound, int64_t n_hosts, FILE *out)
{
    (void)fputs(bound->in_any_per == bound->at_once ? " and in any " : "; in any ",
                out);
    print_span(limit, out);
    if (bound->in_any_per != bound->at_once) {
        (void)fprintf(out, " %" PRId64 " of a steady stream, %" PRId64 " at worst",
                      n_hosts * bound->steady, n_hosts * bound->in_any_per);
    }
}

void check_bound_print(const struct rules_ast_limit *limit,
                       const struct check_bound *bound, int64_t n_hosts, FILE *out)
{
    char delay[RULES_SPAN_TEXT_BYTES_MAX];
    if (bound->at_once == 0) {
        (void)fputs("nothing but what costs 0", out);
        return;
    }
    (void)fprintf(out, "at most %" PRId64 " at once", n_hosts * bound->at_once);
    if (limit->algorithm == RULES_LEAKY_BUCKET) {
        rules_span_print(limit->max_delay_us, delay);
        (void)fprintf(out, ", all but the first of them later, by up to %s", delay);
    }
    print_numbers(limit, bound, n_hosts, out);
}

void check_failure_print(const struct rules_ast_limit *limit,
                         enum check_failure failure, const struct check_bound *bound,
                         FILE *out)
{
    switch (failure) {
    case CHECK_FAILURE_BOUND:
        if (bound->at_once == 0) {
            (void)fputs("nothing but what costs 0", out);
        } else {
            (void)fprintf(out, "at most %" PRId64 " at once", bound->at_once);
            print_numbers(limit, bound, 1, out);
        }
        break;
    case CHECK_FAILURE_ALL:
        (void)fputs("all, without a bound", out);
        break;
    case CHECK_FAILURE_NONE:
        (void)fputs("nothing but what costs 0", out);
        break;
    }
}
