/* An explanation as one JSON object. */
#include <string.h>

#include "rules/words.h"

#include "agent/control/document.h"
#include "agent/control/explanation.h"

struct writer {
    const struct explanation *explanation;
    struct document *document;
};

static void set_bytes(const struct writer *w, json_t *object, const char *key,
                      struct rules_bytes bytes)
{
    struct rules_value value = {bytes.len > 0 ? RULES_TEXT : RULES_ABSENT, bytes};
    document_set_text(w->document, object, key, explanation_value(value).text);
}

static void set_text(const struct writer *w, json_t *object, const char *key,
                     const char *text)
{
    document_set_text(w->document, object, key, text);
}

static void set_number(const struct writer *w, json_t *object, const char *key,
                       int64_t number)
{
    document_set_number(w->document, object, key, number);
}

static void set_bool(const struct writer *w, json_t *object, const char *key,
                     bool value)
{
    document_set_bool(w->document, object, key, value);
}

/* A wait that never ends is null. */
static void set_wait(const struct writer *w, json_t *object, const char *key,
                     int64_t us)
{
    document_set(w->document, object, key,
                 us >= LIMIT_WAIT_US_MAX ? json_null() : json_integer(us));
}

/* --- limits --- */

static void set_unanswered(const struct writer *w, json_t *limit,
                           const struct store_charge *charge)
{
    const char *cause = peek_cause(&w->explanation->request.take, charge);
    const char *policy = peek_policy(charge);
    if (cause == NULL) {
        set_bool(w, limit, "unasked", true);
        return;
    }
    set_text(w, limit, "unavailable", cause);
    if (policy != NULL) {
        set_text(w, limit, "policy", policy);
        set_bool(w, limit, "passes", charge->answer.is_allowed);
        set_wait(w, limit, "retry_us", charge->answer.retry_us);
    }
}

/* What this host has of a counter in Redis. */
static void set_held(const struct writer *w, json_t *limit,
                     const struct store_charge *charge)
{
    const struct explanation *e = w->explanation;
    struct peek_held held = peek_look(e->source.stores, charge, e->request.take.now);
    const struct sync_held *sync = &held.sync;
    switch (charge->home->kind) {
    case STORE_KIND_REDIS:
        set_number(w, limit, "shards", charge->home->n_shards);
        break;
    case STORE_KIND_LEASE:
        set_number(w, limit, "leased", held.lease.left);
        set_number(w, limit, "leased_us", held.lease.spend_us);
        break;
    case STORE_KIND_SYNC:
        document_set(w->document, limit, "known",
                     sync->is_there ? json_integer(sync->remaining) : json_null());
        set_number(w, limit, "unsent", sync->unsent);
        set_number(w, limit, "age_us", sync->age_us);
        set_bool(w, limit, "cut_off", sync->is_cut_off);
        break;
    }
}

static void set_counted(const struct writer *w, json_t *limit,
                        const struct store_charge *charge,
                        const struct limit_answer *held)
{
    set_number(w, limit, "used", charge->limit->size - held->remaining);
    set_number(w, limit, "remaining", held->remaining);
    set_wait(w, limit, "reset_us", held->reset_us);
    set_bool(w, limit, "passes", charge->answer.is_allowed);
    set_wait(w, limit, "retry_us", charge->answer.retry_us);
    set_number(w, limit, "delay_us", charge->answer.delay_us);
}

static void set_answer(const struct writer *w, json_t *limit,
                       const struct rules_rule *rule, unsigned i)
{
    const struct explanation *e = w->explanation;
    const struct store_charge *charge = &e->request.take.charges[i];
    bool is_shared = charge->home != NULL;
    if (is_shared) {
        set_text(w, limit, "store", rules_store_name(rule->store));
    }
    if (charge->source != STORE_COUNTED) {
        set_unanswered(w, limit, charge);
        return;
    }
    if (is_shared && e->source.stores == NULL) { /* taken as untouched */
        return;
    }
    set_counted(w, limit, charge, &e->request.take.held[i]);
    if (is_shared) {
        set_held(w, limit, charge);
    }
}

static void add_limit(const struct writer *w, json_t *limits,
                      const struct rules_limit *limit, int charge)
{
    const struct decide_limit *decided = &w->explanation->source.set
                                              ->limits[limit->idx];
    json_t *object = document_add_object(w->document, limits);
    set_text(w, object, "name", limit->name);
    set_text(w, object, "algorithm", rules_algorithm_name(limit->algorithm));
    set_number(w, object, "requests", limit->requests);
    set_number(w, object, "per_us", limit->per_us);
    set_number(w, object, "size", decided->limit.size);
    if (charge >= 0) {
        set_answer(w, object, limit->rule, (unsigned)charge);
    }
}

/* --- rules --- */

static void set_hit(const struct writer *w, json_t *object,
                    const struct rules_explained *rule)
{
    char key[RULES_KEY_TEXT_BYTES_MAX];
    int first = explanation_charge(w->explanation, rule);
    (void)rules_key_text(rule->hit.key, key);
    set_text(w, object, "key", key);
    set_bytes(w, object, "stood_in_for", rule->stood_in_for);
    set_number(w, object, "cost", rule->hit.cost);
    set_text(w, object, "cost_from", explanation_cost_from(rule->cost_from));
    set_bool(w, object, "enforced", !rule->hit.is_shadow);
    set_bool(w, object, "by_plan", rule->is_by_plan);
    if (rule->rule->mode == RULES_PERCENT) {
        set_number(w, object, "draw", rule->draw);
    }
    json_t *limits = document_set_array(w->document, object, "limits");
    for (uint32_t i = 0; i < rule->hit.n_limits; i++) {
        add_limit(w, limits, &rule->hit.limits[i], first < 0 ? -1 : first + (int)i);
    }
}

static void set_why_not(const struct writer *w, json_t *object,
                        const struct rules_explained *rule)
{
    switch (rule->why) {
    case RULES_UNMET:
        set_bytes(w, object, "descriptor", rule->descriptor);
        set_text(w, object, "value", explanation_value(rule->value).text);
        set_text(w, object, "wants", rule->wanted);
        break;
    case RULES_KEY_MISSING:
    case RULES_KEY_REQUIRED:
        set_bytes(w, object, "descriptor", rule->descriptor);
        break;
    case RULES_OVERRIDDEN:
        set_text(w, object, "by", rule->by->name);
        break;
    case RULES_APPLIES:
    case RULES_EXPIRED:
    case RULES_PLAN_EXEMPT:
    case RULES_BEYOND_MATCHES:
    case RULES_BEYOND_HITS:
        break;
    }
}

static void add_rule(const struct writer *w, json_t *rules,
                     const struct rules_explained *rule)
{
    json_t *object = document_add_object(w->document, rules);
    set_text(w, object, "rule", rule->rule->name);
    set_text(w, object, "why", explanation_why(rule->why));
    if (rule->why == RULES_APPLIES) {
        set_hit(w, object, rule);
    } else {
        set_why_not(w, object, rule);
    }
}

static void set_rules(const struct writer *w, json_t *root)
{
    const struct explanation *e = w->explanation;
    json_t *rules = document_set_array(w->document, root, "rules");
    for (uint32_t i = 0; i < e->rules->n_rules; i++) {
        const struct rules_explained *rule = &e->rules->rules[i];
        if (e->has_all || (rule->why != RULES_UNMET && rule->why != RULES_EXPIRED)) {
            add_rule(w, rules, rule);
        }
    }
}

/* --- the request --- */

static json_t *value_of(const struct spop_value *value)
{
    int64_t number = 0;
    if (value->type == SPOP_VALUE_BOOL) {
        return json_boolean(value->boolean);
    }
    return spop_value_int64(value, &number)
               ? json_integer(number)
               : json_stringn((const char *)value->bytes.ptr, value->bytes.len);
}

static void set_variables(const struct writer *w, json_t *root)
{
    struct spop_actions it;
    struct spop_action action;
    json_t *object = document_set_object(w->document, root, "variables");
    if (!explanation_variables(w->explanation, &it)) {
        return;
    }
    while (explanation_next(&it, &action)) {
        char name[SPOP_VARIABLE_BYTES_MAX + 1];
        (void)snprintf(name, sizeof(name), "%.*s", (int)action.name.len,
                       (const char *)action.name.ptr);
        document_set(w->document, object, name, value_of(&action.value));
    }
}

static void set_unused(const struct writer *w, json_t *root)
{
    const struct explanation *e = w->explanation;
    json_t *array = document_set_array(w->document, root, "unused");
    for (unsigned i = 0; i < e->n_unused; i++) {
        size_t len = strcspn(e->unused[i], "=");
        struct rules_bytes name = {(const uint8_t *)e->unused[i], len};
        struct rules_value value = {RULES_TEXT, name};
        document_add_text(w->document, array, explanation_value(value).text);
    }
}

static const char *list_text(enum rules_listed listed)
{
    switch (listed) {
    case RULES_BLOCKED:
        return "block";
    case RULES_ALLOWED:
        return "allow";
    case RULES_UNLISTED:
        break;
    }
    return "";
}

bool explanation_print_json(const struct explanation *e, FILE *out)
{
    struct document document;
    const struct writer w = {e, &document};
    document_init(&document);
    json_t *root = document.root;
    set_variables(&w, root);
    set_bytes(&w, root, "plan", e->rules->plan);
    set_bool(&w, root, "plan_of_client", e->is_plan_of_client);
    set_bytes(&w, root, "path", e->rules->path);
    set_text(&w, root, "list", list_text(e->rules->listed));
    set_unused(&w, root);
    set_number(&w, root, "n_rules", e->rules->n_rules);
    set_rules(&w, root);
    bool is_printed = document_print(&document, out);
    document_fini(&document);
    return is_printed;
}
