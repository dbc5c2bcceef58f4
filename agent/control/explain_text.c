/* An explanation as text: the verdict first, then the rules, then what HAProxy would get. */
#include <inttypes.h>
#include <string.h>

#include "rules/calendar.h"
#include "rules/units.h"
#include "rules/words.h"

#include "agent/control/explanation.h"

static void print_bytes(struct rules_bytes bytes, FILE *out)
{
    struct rules_value value = {RULES_TEXT, bytes};
    (void)fputs(explanation_value(value).text, out);
}

static void print_seconds(int64_t us, FILE *out)
{
    if (us >= LIMIT_WAIT_US_MAX) {
        (void)fputs("never", out);
        return;
    }
    int64_t ms = div_up(us, US_PER_MS);
    (void)fprintf(out, "%" PRId64 ".%03" PRId64 " s", ms / 1000, ms % 1000);
}

static void print_verdict(const struct explanation *e, FILE *out)
{
    const struct verdict *verdict = &e->request.verdict;
    (void)fprintf(out, "Verdict: %s", action_text(verdict->action));
    if (verdict->reason != REASON_NONE) {
        (void)fprintf(out, ", reason %s", reason_text(verdict->reason));
    }
    if (verdict->deciding_idx >= 0) {
        (void)fprintf(out, ", by %s", e->request.limits[verdict->deciding_idx]->name);
    } else if (verdict->rule != NULL) {
        (void)fprintf(out, ", by %s", verdict->rule);
    }
    (void)fputs("\n", out);
}

static void print_request(const struct explanation *e, FILE *out)
{
    if (e->rules->plan.len > 0) {
        (void)fputs("Plan: ", out);
        print_bytes(e->rules->plan, out);
        (void)fputs(e->is_plan_of_client ? ", of the clients file\n" : ", as sent\n",
                    out);
    }
    if (e->rules->path.len > 0) {
        (void)fputs("Path: ", out);
        print_bytes(e->rules->path, out);
        (void)fputs(e->rules->is_path_as_it_stands ? ", as it stands\n" : "\n", out);
    }
    if (e->rules->listed != RULES_UNLISTED) {
        (void)fprintf(out, "List: %s, by ",
                      e->rules->listed == RULES_BLOCKED ? "block" : "allow");
        print_bytes(e->rules->list, out);
        (void)fputs("; no rule counts\n", out);
    }
    for (unsigned i = 0; i < e->n_unused; i++) {
        size_t len = strcspn(e->unused[i], "=");
        (void)fputs("Not used by any rule: ", out);
        print_bytes((struct rules_bytes){(const uint8_t *)e->unused[i], len}, out);
        (void)fputs("\n", out);
    }
}

static void print_policy(const struct rules_limit *limit, FILE *out)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];
    char calendar[RULES_CALENDAR_TEXT_BYTES_MAX];
    const char *per = span;
    rules_span_print(limit->per_us, span);
    if (limit->calendar != NULL) {
        rules_calendar_print(limit->calendar, calendar);
        per = calendar;
    }
    (void)fprintf(out, "%s, %" PRId64 " per %s", rules_algorithm_name(limit->algorithm),
                  limit->requests, per);
}

static void print_numbers(const struct limit_answer *held, int64_t size, FILE *out)
{
    (void)fprintf(out, "; used %" PRId64 ", remaining %" PRId64 ", reset in ",
                  size - held->remaining, held->remaining);
    print_seconds(held->reset_us, out);
    (void)fputs("\n", out);
}

static void print_passes(const struct limit_answer *answer, FILE *out)
{
    if (!answer->is_allowed && answer->retry_us >= LIMIT_WAIT_US_MAX) {
        (void)fputs("    over the limit, however long it waits", out);
    } else if (!answer->is_allowed) {
        (void)fputs("    over the limit, passes in ", out);
        print_seconds(answer->retry_us, out);
    } else if (answer->delay_us > 0) {
        (void)fputs("    passes, held back for ", out);
        print_seconds(answer->delay_us, out);
    } else {
        (void)fputs("    passes", out);
    }
    (void)fputs("\n", out);
}

static void print_unanswered(const struct explanation *e,
                             const struct store_charge *charge, const char *store,
                             FILE *out)
{
    const char *cause = peek_cause(&e->request.take, charge);
    const char *policy = peek_policy(charge);
    if (cause == NULL) {
        (void)fprintf(out, "; store=%s, not asked: another limit refuses\n", store);
        return;
    }
    (void)fprintf(out, "; store=%s unavailable cause=%s\n", store, cause);
    if (policy != NULL) {
        (void)fprintf(out, "    on_store_failure: %s decides\n", policy);
        print_passes(&charge->answer, out);
    }
}

/* What this host has of a counter in Redis. */
static void print_held(const struct explanation *e, const struct store_charge *charge,
                       FILE *out)
{
    struct peek_held held = peek_look(e->source.stores, charge, e->request.take.now);
    switch (charge->home->kind) {
    case STORE_KIND_REDIS:
        if (charge->home->n_shards > 1) {
            (void)fprintf(out, ": one of %u shards, times %u", charge->home->n_shards,
                          charge->home->n_shards);
        }
        break;
    case STORE_KIND_LEASE:
        (void)fprintf(out, "; on lease to this host: %" PRId64, held.lease.left);
        if (held.lease.left > 0) {
            (void)fputs(", which it lets pass within ", out);
            print_seconds(held.lease.spend_us, out);
        }
        break;
    case STORE_KIND_SYNC:
        if (!held.sync.is_there) {
            (void)fputs("; this host has not used it lately", out);
            break;
        }
        (void)fprintf(out, "; by this host: remaining %" PRId64 ", exchanged ",
                      held.sync.remaining);
        print_seconds(held.sync.age_us, out);
        (void)fprintf(out, " ago, %" PRId64 " since%s", held.sync.unsent,
                      held.sync.is_cut_off ? "; cut off: on_store_failure decides"
                                           : "");
        break;
    }
    (void)fputs("\n", out);
}

static void print_answer(const struct explanation *e, const struct rules_rule *rule,
                         unsigned i, FILE *out)
{
    const struct store_charge *charge = &e->request.take.charges[i];
    const char *store = rules_store_name(rule->store);
    int64_t size = charge->limit->size;
    (void)fprintf(out, "    at most %" PRId64 " at once", size);
    if (charge->home != NULL && e->source.stores == NULL) {
        (void)fprintf(out,
                      "; counted in Redis (store: %s), "
                      "which is not asked: taken as untouched\n",
                      store);
        return;
    }
    if (charge->source != STORE_COUNTED) {
        print_unanswered(e, charge, store, out);
        return;
    }
    print_numbers(&e->request.take.held[i], size, out);
    if (charge->home != NULL) {
        (void)fprintf(out, "    counted in Redis (store: %s)", store);
        print_held(e, charge, out);
    }
    print_passes(&charge->answer, out);
}

static void print_cost(const struct rules_explained *rule, FILE *out)
{
    (void)fprintf(out, "  cost %" PRId64, rule->hit.cost);
    switch (rule->cost_from) {
    case RULES_COST_FIXED:
        break;
    case RULES_COST_ITEM:
        (void)fprintf(out, ", item %" PRIu32 " of costs", rule->cost_item);
        break;
    case RULES_COST_RESERVED:
        (void)fputs(", reserved until the response", out);
        break;
    case RULES_COST_ARGUMENT:
    case RULES_COST_RAISED:
    case RULES_COST_LOWERED:
        (void)fputs(", from ", out);
        print_bytes(rule->cost_argument, out);
        (void)fputs(rule->cost_from == RULES_COST_RAISED    ? ", raised to min"
                    : rule->cost_from == RULES_COST_LOWERED ? ", lowered to max"
                                                            : "",
                    out);
        break;
    }
    (void)fputs("\n", out);
}

static void print_mode(const struct rules_explained *rule, FILE *out)
{
    char share[RULES_SPAN_TEXT_BYTES_MAX];
    if (rule->rule->mode == RULES_PERCENT) {
        rules_share_print(rule->rule->enforced_permyriad, share);
        (void)fprintf(out,
                      "  enforced for %s of the keys: this one is %s (%" PRIu32
                      ".%02" PRIu32 ")\n",
                      share, rule->hit.is_shadow ? "not among them" : "among them",
                      rule->draw / 100, rule->draw % 100);
    } else if (rule->hit.is_shadow) {
        (void)fputs("  in shadow\n", out);
    }
}

static void print_key(const struct rules_explained *rule, FILE *out)
{
    char key[RULES_KEY_TEXT_BYTES_MAX];
    (void)rules_key_text(rule->hit.key, key);
    (void)fprintf(out, "  key %s\n", key[0] != '\0' ? key : "[]: one for all");
    if (rule->hit.is_address_standing_in) {
        (void)fputs("  the address stands in for ", out);
        print_bytes(rule->stood_in_for, out);
        (void)fputs("\n", out);
    }
}

static void print_hit(const struct explanation *e, const struct rules_explained *rule,
                      FILE *out)
{
    int first = explanation_charge(e, rule);
    (void)fprintf(out, "%s: applies%s\n", rule->rule->name,
                  rule->is_by_plan ? ", with the numbers of the plan" : "");
    print_key(rule, out);
    print_cost(rule, out);
    print_mode(rule, out);
    for (uint32_t i = 0; i < rule->hit.n_limits; i++) {
        (void)fprintf(out, "  limit %s: ", rule->hit.limits[i].name);
        print_policy(&rule->hit.limits[i], out);
        (void)fputs("\n", out);
        if (first >= 0) {
            print_answer(e, rule->rule, (unsigned)first + i, out);
        }
    }
    if (rule->hit.n_limits < rule->rule->n_limits) {
        (void)fprintf(out, "  its other limits are cut: a request has %d\n",
                      RULES_HITS_MAX);
    }
}

static void print_unmet(const struct rules_explained *rule, FILE *out)
{
    print_bytes(rule->descriptor, out);
    if (rule->value.type == RULES_ABSENT) {
        (void)fputs(" is absent", out);
    } else {
        (void)fprintf(out, " is %s", explanation_value(rule->value).text);
    }
    (void)fprintf(out, ", wants %s", rule->wanted);
}

static void print_why_not(const struct rules_explained *rule, FILE *out)
{
    (void)fprintf(out, "%s: ", rule->rule->name);
    switch (rule->why) {
    case RULES_APPLIES:
        break;
    case RULES_UNMET:
        print_unmet(rule, out);
        break;
    case RULES_EXPIRED:
        (void)fputs("expired", out);
        break;
    case RULES_KEY_MISSING:
        (void)fputs("skipped, without ", out);
        print_bytes(rule->descriptor, out);
        break;
    case RULES_KEY_REQUIRED:
        (void)fputs(rule->rule->mode == RULES_ENFORCE ? "refuses, without "
                                                      : "would refuse, without ",
                    out);
        print_bytes(rule->descriptor, out);
        break;
    case RULES_OVERRIDDEN:
        (void)fprintf(out, "overridden by %s", rule->by->name);
        break;
    case RULES_PLAN_EXEMPT:
        (void)fputs("unlimited for this plan", out);
        break;
    case RULES_BEYOND_MATCHES:
        (void)fprintf(out, "more than %d rules match", RULES_MATCHES_MAX);
        break;
    case RULES_BEYOND_HITS:
        (void)fprintf(out, "more than %d limits apply", RULES_HITS_MAX);
        break;
    }
    (void)fputs("\n", out);
}

/* What matched and yet does not apply is always of interest. */
static void print_rules(const struct explanation *e, FILE *out)
{
    uint32_t n_left_out = 0;
    for (uint32_t i = 0; i < e->rules->n_rules; i++) {
        const struct rules_explained *rule = &e->rules->rules[i];
        if (rule->why == RULES_APPLIES) {
            print_hit(e, rule, out);
        } else if (e->has_all
                   || (rule->why != RULES_UNMET && rule->why != RULES_EXPIRED)) {
            print_why_not(rule, out);
        } else {
            n_left_out++;
        }
    }
    if (n_left_out > 0) {
        (void)fprintf(out,
                      "%" PRIu32 " of %" PRIu32 " rules do not match; --all says why\n",
                      n_left_out, e->rules->n_rules);
    }
}

static void print_variables(const struct explanation *e, FILE *out)
{
    struct spop_actions it;
    struct spop_action action;
    int64_t number = 0;
    if (!explanation_variables(e, &it)) {
        return;
    }
    (void)fputs("HAProxy would get:\n", out);
    while (explanation_next(&it, &action)) {
        (void)fprintf(out, "  %.*s = ", (int)action.name.len,
                      (const char *)action.name.ptr);
        if (action.value.type == SPOP_VALUE_BOOL) {
            (void)fputs(action.value.boolean ? "true\n" : "false\n", out);
        } else if (spop_value_int64(&action.value, &number)) {
            (void)fprintf(out, "%" PRId64 "\n", number);
        } else {
            (void)fprintf(out, "%.*s\n", (int)action.value.bytes.len,
                          (const char *)action.value.bytes.ptr);
        }
    }
}

void explanation_print_text(const struct explanation *e, FILE *out)
{
    print_verdict(e, out);
    print_request(e, out);
    print_rules(e, out);
    print_variables(e, out);
}
