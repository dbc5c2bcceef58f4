#include "rules/warn.h"

#include <inttypes.h>

#include "rules/civil.h"
#include "rules/code.h"
#include "rules/imply.h"
#include "rules/slot.h"
#include "rules/units.h"

enum {
    SOON_DAYS = 7,
    SMALL_REQUESTS = 10, /* below, the weighting of a sliding window is too coarse */
    OVERSHOOT_PERMYRIAD = 500, /* of a limit, that hosts may let through beyond it */
};

struct warner {
    const struct rules_file *file;
    const struct rules_ast *ast;
    struct rules_warn_place place;
    struct rules_diags *diags;
    int64_t n_steps;               /* left */
    bool *is_overridden;           /* of each rule: by another one that is in force */
    struct rules_mark policy_told; /* where the last useless one stands */
    struct rules_mark lease_told;  /* the same of a store whose share is too large */
    bool is_cut_told;              /* more limits than a request can meet: said once */
};

#define WARN(w, mark, code, ...) \
    rules_file_diag((w)->file, (w)->diags, RULES_WARNING, mark, code, __VA_ARGS__)

static bool is_in_force(const struct warner *w, const struct rules_ast_rule *rule)
{
    return rule->expires_s > w->place.now_s;
}

/** Whole days from one moment to a later one, rounded up. */
static int64_t days_between(int64_t from_s, int64_t to_s)
{
    return (to_s - from_s + RULES_DAY_S - 1) / RULES_DAY_S;
}

static void expiry_check(struct warner *w, const struct rules_ast_rule *rule)
{
    int64_t now_s = w->place.now_s;

    if (rule->expires_s <= now_s) {
        WARN(w, rule->expires_mark, rules_code_already_ended,
             "'%s' has ended: it does nothing any more", rule->name);
    } else if (rule->expires_s != RULES_NEVER_S
               && rule->expires_s - now_s <= SOON_DAYS * RULES_DAY_S) {
        WARN(w, rule->expires_mark, rules_code_ends_soon,
             "'%s' ends within %" PRId64 " days", rule->name,
             days_between(now_s, rule->expires_s));
    }
}

static void review_check(struct warner *w, const struct rules_ast_rule *rule)
{
    if (rule->review_by_s <= w->place.now_s) {
        WARN(w, rule->review_by_mark, rules_code_review_overdue,
             "'%s' was to be looked at again by then%s%s", rule->name,
             rule->owner != NULL ? "; its owner is " : "",
             rule->owner != NULL ? rule->owner : "");
    }
}

/** A rule that ends, or that someone looks at again, ends its plans with it. */
static void plans_check(struct warner *w, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        if (rule->plans[i].is_unlimited && rule->expires_s == RULES_NEVER_S
            && rule->review_by_s == RULES_NEVER_S) {
            WARN(w, rule->plans[i].mark, rules_code_no_end,
                 "plan '%s' is unlimited for ever: give the rule 'review_by' or "
                 "'expires'",
                 rule->plans[i].name);
        }
    }
}

static bool is_small(const struct rules_ast_limit *limit, int64_t requests)
{
    return limit->algorithm == RULES_SLIDING_WINDOW && requests > 0
           && requests < SMALL_REQUESTS;
}

static const char small_why[] = "a client that keeps to so small a number is still "
                                "refused 10% to 50%: 'algorithm: sliding_log' counts "
                                "exactly";

/** Limit `idx` of a rule, as plans make it. */
static void small_plans_check(struct warner *w, const struct rules_ast_rule *rule,
                              uint32_t idx)
{
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        const struct rules_ast_plan *plan = &rule->plans[i];

        if (!plan->is_unlimited
            && is_small(&rule->limits[idx], plan->numbers[idx].requests)) {
            WARN(w, plan->mark, rules_code_small_window, "%s", small_why);
        }
    }
}

/** A window of a day or more. */
static void calendar_check(struct warner *w, const struct rules_ast_rule *rule,
                           const struct rules_ast_limit *limit)
{
    if (rule->store == RULES_STORE_LOCAL) {
        WARN(w, limit->per_mark, rules_code_calendar_on_local,
             "so long a count is kept by each host for itself, and only over a "
             "restart where agent.yaml has a 'state_dir'");
    } else if (rule->store == RULES_STORE_SYNC) {
        WARN(w, limit->per_mark, rules_code_calendar_on_sync,
             "so long a count should be exact, and hosts let more through before they "
             "know of each other: 'store: redis' asks about each request");
    }
}

static void limits_check(struct warner *w, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const struct rules_ast_limit *limit = &rule->limits[i];

        if (is_small(limit, limit->requests)) {
            WARN(w, limit->requests_mark, rules_code_small_window, "%s", small_why);
        } else {
            small_plans_check(w, rule, i);
        }
        if (limit->calendar.zone != NULL && limit->calendar.unit >= RULES_DAY) {
            calendar_check(w, rule, limit);
        }
    }
}

static void fleet_check(struct warner *w, const struct rules_ast_rule *rule)
{
    if (rule->store == RULES_STORE_LOCAL && w->place.n_hosts > 1) {
        WARN(w, rule->name_mark, rules_code_local_in_fleet,
             "each of %" PRId64
             " hosts counts for itself: together they let up to %" PRId64
             " through where the limit says %" PRId64,
             w->place.n_hosts, w->place.n_hosts * rule->limits[0].requests,
             rule->limits[0].requests);
    }
}

/** @return the least that a limit admits, also by a plan; 0: nothing in some plan */
static int64_t least_size(const struct rules_ast_rule *rule, uint32_t idx)
{
    int64_t least = rule->limits[idx].burst;

    for (uint32_t i = 0; i < rule->n_plans; i++) {
        const struct rules_ast_plan *plan = &rule->plans[i];

        if (!plan->is_unlimited && plan->numbers[idx].burst < least) {
            least = plan->numbers[idx].burst;
        }
    }
    return least;
}

/** Two intervals of its rate, and a request of each other host, as a share of a limit. */
static int64_t sync_overshoot(const struct warner *w,
                              const struct rules_ast_limit *limit, int64_t size)
{
    int64_t span_us = 2 * w->place.sync_interval_us;
    int64_t of_rate = span_us < limit->per_us ? 10000 * span_us / limit->per_us : 10000;

    return of_rate + 10000 * (w->place.n_hosts - 1) / size;
}

static void sync_check(struct warner *w, const struct rules_ast_rule *rule)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];

    rules_span_print(w->place.sync_interval_us, span);
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        const struct rules_ast_limit *limit = &rule->limits[i];
        int64_t size = least_size(rule, i);
        int64_t overshoot = size > 0 ? sync_overshoot(w, limit, size) : 0;

        if (overshoot > OVERSHOOT_PERMYRIAD) {
            WARN(w, limit->requests_mark, rules_code_store_overshoot,
                 "hosts that hear of each other each %s let %" PRId64
                 "%% and more through beyond this limit: 'store: redis' is exact",
                 span, overshoot / 100);
        }
    }
}

/** One that stands in `defaults` is told once. */
static void lease_check(struct warner *w, const struct rules_ast_rule *rule)
{
    char share[RULES_SPAN_TEXT_BYTES_MAX];

    if (w->place.lease_permyriad > OVERSHOOT_PERMYRIAD
        && rules_mark_compare(rule->store_mark, w->lease_told) != 0) {
        rules_share_print(w->place.lease_permyriad, share);
        WARN(w, rule->store_mark, rules_code_store_overshoot,
             "hosts that hold %s of a limit in blocks let so much through beyond it: "
             "agent.yaml has 'lease: {share: 5%%}' for less",
             share);
        w->lease_told = rule->store_mark;
    }
}

static void store_check(struct warner *w, const struct rules_ast_rule *rule)
{
    if (rule->store == RULES_STORE_LEASE) {
        lease_check(w, rule);
    } else if (rule->store == RULES_STORE_SYNC) {
        sync_check(w, rule);
    }
}

static bool is_letter_or_digit(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool word_is(struct rules_bytes text, size_t off, const char *word)
{
    size_t len = strlen(word);
    size_t end = off + len;

    if (text.len < end) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((text.ptr[off + i] | 0x20) != (uint8_t)word[i]) {
            return false;
        }
    }
    end += end < text.len && (text.ptr[end] | 0x20) == 's';
    return end == text.len || !is_letter_or_digit(text.ptr[end]);
}

/** @return whether a word begins there, and is one of these, also in the plural */
static bool word_is_one(struct rules_bytes text, size_t off, const char *const *words,
                        size_t n)
{
    if (off > 0 && is_letter_or_digit(text.ptr[off - 1])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (word_is(text, off, words[i])) {
            return true;
        }
    }
    return false;
}

static bool has_word(struct rules_bytes text, const char *const *words, size_t n)
{
    for (size_t off = 0; off < text.len; off++) {
        if (word_is_one(text, off, words, n)) {
            return true;
        }
    }
    return false;
}

#define HAS_WORD(text, words) has_word(text, words, sizeof(words) / sizeof(words)[0])

static bool slot_is(const struct warner *w, uint32_t slot, const char *name)
{
    struct rules_bytes text = w->ast->slots[slot];

    return text.len == strlen(name) && memcmp(text.ptr, name, text.len) == 0;
}

/** @return whether the path of a match leads to where guessing, or buying, pays */
static bool is_sensitive(const struct rules_ast_condition *condition)
{
    static const char *const words[] = {"login", "otp", "password", "payment", "token"};

    for (uint32_t i = 0; i < condition->n_values; i++) {
        if (HAS_WORD(condition->values[i].text, words)) {
            return true;
        }
    }
    return false;
}

static void open_check(struct warner *w, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->match.n_conditions; i++) {
        const struct rules_ast_condition *condition = &rule->match.conditions[i];

        if ((slot_is(w, condition->slot, "path")
             || slot_is(w, condition->slot, "route"))
            && !condition->is_negated && is_sensitive(condition)) {
            WARN(w, rule->on_store_failure_mark, rules_code_open_on_login,
                 "where its store fails, '%s' would let all through to where one in a "
                 "thousand is too many",
                 rule->name);
            return;
        }
    }
}

/** One that stands in `defaults` is told once. */
static void policy_check(struct warner *w, const struct rules_ast_rule *rule)
{
    struct rules_mark mark = rule->on_store_failure_mark;

    if (mark.line == 0) {
        return;
    }
    if (rule->store == RULES_STORE_LOCAL
        && rules_mark_compare(mark, w->policy_told) != 0) {
        WARN(w, mark, rules_code_policy_unused,
             "'store: local' needs no other host, so it never fails");
        w->policy_told = mark;
    }
    if (rule->on_store_failure.policy == RULES_FAILURE_OPEN) {
        open_check(w, rule);
    }
}

/** What HAProxy worked out about who asks: then the identity is not only claimed. */
static bool is_proven(const struct warner *w, const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->match.n_conditions; i++) {
        const struct rules_ast_condition *condition = &rule->match.conditions[i];

        if (!condition->is_negated
            && (slot_is(w, condition->slot, "auth")
                || slot_is(w, condition->slot, "plan"))) {
            return true;
        }
    }
    return false;
}

/** @return a descriptor of a part of a key that says who someone is, or empty */
static struct rules_bytes identity_find(const struct warner *w,
                                        const struct rules_ast_part *part)
{
    static const char *const identities[] = {"account", "apikey",  "client", "customer",
                                             "device",  "email",   "key",    "login",
                                             "member",  "session", "tenant", "token",
                                             "user",    "username"};

    for (uint32_t i = 0; i < part->n_links; i++) {
        struct rules_bytes name = w->ast->slots[part->slots[i]];

        if (HAS_WORD(name, identities)) {
            return name;
        }
    }
    return (struct rules_bytes){NULL, 0};
}

static void claim_check(struct warner *w, const struct rules_ast_rule *rule)
{
    struct rules_bytes name = {NULL, 0};

    if (!rule->is_advertised || rule->mode == RULES_SHADOW || is_proven(w, rule)) {
        return;
    }
    for (uint32_t i = 0; i < rule->n_key_parts && name.len == 0; i++) {
        name = identity_find(w, &rule->key[i]);
    }
    if (name.len > 0) {
        WARN(w, rule->key_mark, rules_code_claimed_key,
             "whoever sends another's '%.*s' is shown what it has left: match 'auth' "
             "too, or say 'advertise: false'",
             (int)name.len, (const char *)name.ptr);
    }
}

static void list_check(struct warner *w, const struct rules_ast_list *list)
{
    const struct rules_ast_value *endless = NULL;
    uint32_t n_endless = 0;

    for (uint32_t i = 0; i < list->condition.n_values; i++) {
        const struct rules_ast_value *value = &list->condition.values[i];

        if (value->expires_s <= w->place.now_s) {
            WARN(w, value->mark, rules_code_already_ended,
                 "this entry has ended: it does nothing any more");
        } else if (value->expires_s == RULES_NEVER_S) {
            endless = endless != NULL ? endless : value;
            n_endless++;
        }
    }
    if (endless != NULL) {
        WARN(w, endless->mark, rules_code_no_end,
             "%" PRIu32 " %s for ever: give each 'expires'", n_endless,
             n_endless == 1 ? "entry of this list stands"
                            : "entries of this list stand");
    }
}

static bool part_is_address(const struct rules_ast_part *part)
{
    for (uint32_t i = 0; i < part->n_links; i++) {
        if (part->slots[i] != RULES_SLOT_IP) {
            return false;
        }
    }
    return true;
}

/** Whether all that a key is made of is the address. */
static bool key_is_address(const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        if (!part_is_address(&rule->key[i])) {
            return false;
        }
    }
    return true;
}

/** Many clients share an address, and one client can have many. */
static void addresses_check(struct warner *w)
{
    const struct rules_ast_rule *first = NULL;

    for (uint32_t i = 0; i < w->ast->n_rules; i++) {
        const struct rules_ast_rule *rule = &w->ast->rules[i];

        if (!key_is_address(rule)) {
            return;
        }
        first = first == NULL && rule->n_key_parts > 0 ? rule : first;
    }
    if (first != NULL) {
        WARN(w, first->key_mark, rules_code_only_addresses,
             "every key of this file is an address: people behind one address share a "
             "limit, and who has many addresses has many");
    }
}

/** Whether a rule has its key in every request that it matches. */
static bool is_keyed_always(const struct rules_ast_rule *rule)
{
    return rule->n_key_parts == 0 || rule->no_key == RULES_NO_KEY_IP;
}

/** Whether `over` takes `rule` out of every request that `rule` matches. */
static bool is_taken_out(const struct warner *w, const struct rules_ast_rule *rule,
                         const struct rules_ast_rule *over)
{
    for (uint32_t i = 0; i < over->n_overrides; i++) {
        if (&w->ast->rules[over->overrides[i].rule] == rule) {
            return over->mode == RULES_ENFORCE && is_keyed_always(over);
        }
    }
    return false;
}

static bool keys_are_equal(const struct rules_ast_rule *a,
                           const struct rules_ast_rule *b)
{
    if (a->n_key_parts != b->n_key_parts || a->no_key != b->no_key
        || a->ip_prefix.v4_bits != b->ip_prefix.v4_bits
        || a->ip_prefix.v6_bits != b->ip_prefix.v6_bits) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_key_parts; i++) {
        if (a->key[i].n_links != b->key[i].n_links
            || memcmp(a->key[i].slots, b->key[i].slots,
                      a->key[i].n_links * sizeof a->key[i].slots[0])
                   != 0) {
            return false;
        }
    }
    return true;
}

/** Whether a limit refuses, at the latest, what another of the same counts refuses. */
static bool limit_is_as_strict(const struct rules_ast_limit *strict,
                               const struct rules_ast_limit *limit)
{
    return strict->algorithm == limit->algorithm
           && strict->algorithm != RULES_LEAKY_BUCKET && strict->per_us == limit->per_us
           && strict->calendar.zone == limit->calendar.zone
           && strict->calendar.unit == limit->calendar.unit
           && strict->requests <= limit->requests && strict->burst <= limit->burst;
}

static bool limits_are_as_strict(const struct rules_ast_rule *strict,
                                 const struct rules_ast_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        uint32_t j = 0;

        while (j < strict->n_limits
               && !limit_is_as_strict(&strict->limits[j], &rule->limits[i])) {
            j++;
        }
        if (j == strict->n_limits) {
            return false;
        }
    }
    return true;
}

/** Whether what a rule takes of a limit is a number, whatever the request. */
static bool is_plain(const struct rules_ast_rule *rule)
{
    return rule->n_plans == 0 && rule->n_costs == 0 && !rule->cost.is_from_slot
           && !rule->charge.is_settled;
}

/** Whether what a rule lets through never exceeds its limits. */
static bool is_exact(const struct rules_ast_rule *rule)
{
    return rule->store == RULES_STORE_LOCAL || rule->store == RULES_STORE_REDIS;
}

/** Whether `strict` refuses all that `lenient` would refuse, where both match. */
static bool is_stricter(const struct warner *w, const struct rules_ast_rule *strict,
                        const struct rules_ast_rule *lenient)
{
    return strict->mode == RULES_ENFORCE && strict->store == lenient->store
           && is_exact(strict)
           && (strict->action == RULES_REJECT || strict->action == RULES_BLOCK)
           && lenient->soft_permyriad == 0 && is_plain(strict) && is_plain(lenient)
           && lenient->cost.min <= strict->cost.min && keys_are_equal(strict, lenient)
           && limits_are_as_strict(strict, lenient)
           && !w->is_overridden[strict - w->ast->rules];
}

/** @return whether `other` makes `rule` idle for as long as it lasts (reported) */
static bool shadow_check(struct warner *w, const struct rules_ast_rule *rule,
                         const struct rules_ast_rule *other)
{
    if (other->expires_s < rule->expires_s) {
        return false;
    }
    if (is_taken_out(w, rule, other)) {
        WARN(w, rule->name_mark, rules_code_shadowed_rule,
             "'%s' never counts: '%s' overrides it for all that it matches", rule->name,
             other->name);
        return true;
    }
    /* Of two that are alike the first one stands. */
    if (is_stricter(w, other, rule) && (other < rule || !is_stricter(w, rule, other))) {
        WARN(
            w, rule->name_mark, rules_code_shadowed_rule,
            "'%s' never refuses: '%s' matches all that it matches, has the same key and "
            "is as strict",
            rule->name, other->name);
        return true;
    }
    return false;
}

/** Whether Redis is asked of both for one request, and in two slots, without need. */
static bool is_apart(const struct warner *w, const struct rules_ast_rule *rule,
                     const struct rules_ast_rule *other, uint32_t *slot)
{
    return rule->store == RULES_STORE_REDIS && other->store == RULES_STORE_REDIS
           && !w->is_overridden[rule - w->ast->rules]
           && !w->is_overridden[other - w->ast->rules]
           && !rules_slot_is_same(w->ast, rule, other)
           && rules_slot_mend(rule, other, slot);
}

/** @return whether two slots are asked where one would do (reported, of a pair once) */
static bool slots_check(struct warner *w, const struct rules_ast_rule *rule,
                        const struct rules_ast_rule *other)
{
    uint32_t slot = 0;

    if (!w->place.is_cluster || !is_apart(w, rule, other, &slot)
        || (other > rule
            && rules_match_implies(&other->match, &rule->match, &w->n_steps))) {
        return false;
    }
    WARN(w, rule->name_mark, rules_code_slots_apart,
         "'%s' and '%s' count one request in two slots of the cluster, by two calls: "
         "'tag: [%.*s]' in both makes it one",
         rule->name, other->name, (int)w->ast->slots[slot].len,
         (const char *)w->ast->slots[slot].ptr);
    return true;
}

/** How many limits a request can meet that `rule` matches; tells when it is idle. */
static uint32_t rule_compare(struct warner *w, const struct rules_ast_rule *rule)
{
    uint32_t n_limits = 0;
    bool is_idle = false;
    bool is_told = false;

    for (uint32_t i = 0; i < w->ast->n_rules && w->n_steps > 0; i++) {
        const struct rules_ast_rule *other = &w->ast->rules[i];

        w->n_steps--;
        if (!is_in_force(w, other)
            || !rules_match_implies(&rule->match, &other->match, &w->n_steps)) {
            continue;
        }
        is_idle = is_idle || (other != rule && shadow_check(w, rule, other));
        is_told = is_told || (other != rule && slots_check(w, rule, other));
        n_limits += w->is_overridden[i] ? 0 : other->n_limits;
    }
    return n_limits;
}

static void rules_compare(struct warner *w)
{
    for (uint32_t i = 0; i < w->ast->n_rules; i++) {
        const struct rules_ast_rule *rule = &w->ast->rules[i];
        uint32_t n_limits = is_in_force(w, rule) ? rule_compare(w, rule) : 0;

        if (n_limits > RULES_HITS_MAX && !w->is_cut_told) {
            w->is_cut_told = true;
            WARN(w, rule->name_mark, rules_code_too_many_at_once,
                 "a request that '%s' matches meets %" PRIu32
                 " limits: the first %d in the file count",
                 rule->name, n_limits, (int)RULES_HITS_MAX);
        }
    }
}

static void overridden_find(struct warner *w)
{
    for (uint32_t i = 0; i < w->ast->n_rules; i++) {
        const struct rules_ast_rule *over = &w->ast->rules[i];

        for (uint32_t j = 0; is_in_force(w, over) && j < over->n_overrides; j++) {
            w->is_overridden[over->overrides[j].rule] = true;
        }
    }
}

static void rule_check(struct warner *w, const struct rules_ast_rule *rule)
{
    expiry_check(w, rule);
    review_check(w, rule);
    if (!is_in_force(w, rule)) {
        return;
    }
    plans_check(w, rule);
    limits_check(w, rule);
    fleet_check(w, rule);
    store_check(w, rule);
    claim_check(w, rule);
    policy_check(w, rule);
}

void rules_warn(const struct rules_file *file, const struct rules_warn_place *place,
                struct rules_diags *diags)
{
    struct rules_arena arena = {NULL};
    struct warner w = {
        .file = file,
        .ast = rules_file_ast(file),
        .place = *place,
        .diags = diags,
        .n_steps = RULES_WARN_STEPS_MAX,
    };

    for (uint32_t i = 0; i < w.ast->n_rules; i++) {
        rule_check(&w, &w.ast->rules[i]);
    }
    for (uint32_t i = 0; i < w.ast->n_lists; i++) {
        list_check(&w, &w.ast->lists[i]);
    }
    addresses_check(&w);
    w.is_overridden = rules_arena_array(&arena, w.ast->n_rules, sizeof(bool));
    if (w.is_overridden != NULL) {
        overridden_find(&w);
        rules_compare(&w);
    }
    rules_arena_fini(&arena);
}
