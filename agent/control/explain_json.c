/* An explanation as one JSON object. jansson keeps the first error of a tree for the end:
 * what takes a reference that could not be made fails, and so does the whole. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "rules/words.h"

#include "agent/control/explanation.h"

static json_t *text_of(struct rules_bytes bytes)
{
    struct rules_value value = {bytes.len > 0 ? RULES_TEXT : RULES_ABSENT, bytes};
    return json_string(explanation_value(value).text);
}

static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* A wait that never ends is null. */
static json_t *wait_of(int64_t us)
{
    return us >= LIMIT_WAIT_US_MAX ? json_null() : json_integer(us);
}

static bool put_unanswered(json_t *limit, const struct explanation *e,
                           const struct store_charge *charge)
{
    const char *cause = peek_cause(&e->request.take, charge);
    const char *policy = peek_policy(charge);
    if (cause == NULL) {
        return put(limit, "unasked", json_true());
    }
    return put(limit, "unavailable", json_string(cause))
           && (policy == NULL
               || (put(limit, "policy", json_string(policy))
                   && put(limit, "passes", json_boolean(charge->answer.is_allowed))
                   && put(limit, "retry_us", wait_of(charge->answer.retry_us))));
}

/* What this host has of a counter in Redis. */
static bool put_held(json_t *limit, const struct explanation *e,
                     const struct store_charge *charge)
{
    struct peek_held held = peek_look(e->source.stores, charge, e->request.take.now);
    const struct sync_held *sync = &held.sync;
    switch (charge->home->kind) {
    case STORE_KIND_REDIS:
        return put(limit, "shards", json_integer(charge->home->n_shards));
    case STORE_KIND_LEASE:
        return put(limit, "leased", json_integer(held.lease.left))
               && put(limit, "leased_us", json_integer(held.lease.spend_us));
    case STORE_KIND_SYNC:
        return put(limit, "known",
                   sync->is_there ? json_integer(sync->remaining) : json_null())
               && put(limit, "unsent", json_integer(sync->unsent))
               && put(limit, "age_us", json_integer(sync->age_us))
               && put(limit, "cut_off", json_boolean(sync->is_cut_off));
    }
    NEVER("kind");
}

static bool put_counted(json_t *limit, const struct store_charge *charge,
                        const struct limit_answer *held)
{
    return put(limit, "used", json_integer(charge->limit->size - held->remaining))
           && put(limit, "remaining", json_integer(held->remaining))
           && put(limit, "reset_us", wait_of(held->reset_us))
           && put(limit, "passes", json_boolean(charge->answer.is_allowed))
           && put(limit, "retry_us", wait_of(charge->answer.retry_us))
           && put(limit, "delay_us", json_integer(charge->answer.delay_us));
}

static bool put_answer(json_t *limit, const struct explanation *e,
                       const struct rules_rule *rule, unsigned i)
{
    const struct store_charge *charge = &e->request.take.charges[i];
    if (charge->home != NULL
        && !put(limit, "store", json_string(rules_store_name(rule->store)))) {
        return false;
    }
    if (charge->source != STORE_COUNTED) {
        return put_unanswered(limit, e, charge);
    }
    if (charge->home != NULL && e->source.stores == NULL) { /* taken as untouched */
        return true;
    }
    return put_counted(limit, charge, &e->request.take.held[i])
           && (charge->home == NULL || put_held(limit, e, charge));
}

static json_t *limit_of(const struct explanation *e, const struct rules_limit *limit,
                        int charge)
{
    const struct decide_limit *decided = &e->source.set->limits[limit->idx];
    const char *algorithm = rules_algorithm_name(limit->algorithm);
    json_t *object = json_object();
    bool ok = put(object, "name", json_string(limit->name))
              && put(object, "algorithm", json_string(algorithm))
              && put(object, "requests", json_integer(limit->requests))
              && put(object, "per_us", json_integer(limit->per_us))
              && put(object, "size", json_integer(decided->limit.size))
              && (charge < 0 || put_answer(object, e, limit->rule, (unsigned)charge));
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *limits_of(const struct explanation *e,
                         const struct rules_explained *rule)
{
    int first = explanation_charge(e, rule);
    json_t *array = json_array();
    for (uint32_t i = 0; i < rule->hit.n_limits; i++) {
        int charge = first < 0 ? -1 : first + (int)i;
        if (json_array_append_new(array, limit_of(e, &rule->hit.limits[i], charge))
            != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static bool put_hit(json_t *object, const struct explanation *e,
                    const struct rules_explained *rule)
{
    char key[RULES_KEY_TEXT_BYTES_MAX];
    (void)rules_key_text(rule->hit.key, key);
    return put(object, "key", json_string(key))
           && put(object, "stood_in_for", text_of(rule->stood_in_for))
           && put(object, "cost", json_integer(rule->hit.cost))
           && put(object, "cost_from",
                  json_string(explanation_cost_from(rule->cost_from)))
           && put(object, "enforced", json_boolean(!rule->hit.is_shadow))
           && put(object, "by_plan", json_boolean(rule->is_by_plan))
           && (rule->rule->mode != RULES_PERCENT
               || put(object, "draw", json_integer(rule->draw)))
           && put(object, "limits", limits_of(e, rule));
}

static bool put_why_not(json_t *object, const struct rules_explained *rule)
{
    switch (rule->why) {
    case RULES_UNMET:
        return put(object, "descriptor", text_of(rule->descriptor))
               && put(object, "value", json_string(explanation_value(rule->value).text))
               && put(object, "wants", json_string(rule->wanted));
    case RULES_KEY_MISSING:
    case RULES_KEY_REQUIRED:
        return put(object, "descriptor", text_of(rule->descriptor));
    case RULES_OVERRIDDEN:
        return put(object, "by", json_string(rule->by->name));
    case RULES_APPLIES:
    case RULES_EXPIRED:
    case RULES_PLAN_EXEMPT:
    case RULES_BEYOND_MATCHES:
    case RULES_BEYOND_HITS:
        break;
    }
    return true;
}

static json_t *rule_of(const struct explanation *e, const struct rules_explained *rule)
{
    json_t *object = json_object();
    bool ok = put(object, "rule", json_string(rule->rule->name))
              && put(object, "why", json_string(explanation_why(rule->why)))
              && (rule->why == RULES_APPLIES ? put_hit(object, e, rule)
                                             : put_why_not(object, rule));
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *rules_of(const struct explanation *e)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < e->rules->n_rules; i++) {
        const struct rules_explained *rule = &e->rules->rules[i];
        bool is_wanted = e->has_all
                         || (rule->why != RULES_UNMET && rule->why != RULES_EXPIRED);
        if (is_wanted && json_array_append_new(array, rule_of(e, rule)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

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

static json_t *variables_of(const struct explanation *e)
{
    struct spop_actions it;
    struct spop_action action;
    json_t *object = json_object();
    bool ok = explanation_variables(e, &it);
    while (ok && explanation_next(&it, &action)) {
        char name[SPOP_VARIABLE_BYTES_MAX + 1];
        (void)snprintf(name, sizeof(name), "%.*s", (int)action.name.len,
                       (const char *)action.name.ptr);
        ok = put(object, name, value_of(&action.value));
    }
    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *unused_of(const struct explanation *e)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < e->n_unused; i++) {
        size_t len = strcspn(e->unused[i], "=");
        struct rules_bytes name = {(const uint8_t *)e->unused[i], len};
        if (json_array_append_new(array, text_of(name)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
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

static bool put_all(json_t *object, const struct explanation *e)
{
    return put(object, "variables", variables_of(e))
           && put(object, "plan", text_of(e->rules->plan))
           && put(object, "plan_of_client", json_boolean(e->is_plan_of_client))
           && put(object, "path", text_of(e->rules->path))
           && put(object, "list", json_string(list_text(e->rules->listed)))
           && put(object, "unused", unused_of(e))
           && put(object, "n_rules", json_integer(e->rules->n_rules))
           && put(object, "rules", rules_of(e));
}

bool explanation_print_json(const struct explanation *e, FILE *out)
{
    json_t *object = json_object();
    bool ok = put_all(object, e);
    char *text = ok ? json_dumps(object, JSON_INDENT(2) | JSON_ENSURE_ASCII) : NULL;
    if (text != NULL) {
        (void)fprintf(out, "%s\n", text);
    }
    free(text);
    json_decref(object);
    return text != NULL;
}
