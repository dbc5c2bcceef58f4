#include "agent/command/check_spoe.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "rules/key.h"

#include "agent/command/check_code.h"

static const char check_message[] = "ratelimit-check";
static const char settle_message[] = "ratelimit-settle";

/* Why a descriptor has to be sent: the first reason in the file. */
struct use {
    const char *verb; /* NULL: no rule needs it */
    const char *rule; /* NULL: the lists */
};

struct finder {
    const struct check_spoe *spoe;
    const struct rules_ast *ast;
    struct rules_diags *diags;
    struct use at_check[RULES_SLOTS_MAX];
    struct use at_settle[RULES_SLOTS_MAX];
    const char *settled; /* a rule that is settled; NULL: none */
};

enum {
    NAME_ROOM = RULES_NAME_BYTES_MAX + 1,
    USE_ROOM = 192,
};

#define FIND(f, severity, mark, code, ...) \
    rules_diags_add((f)->diags, severity, mark, (f)->spoe->text, code, __VA_ARGS__)

static void use_add(struct use *uses, uint32_t slot, const char *rule, const char *verb)
{
    if (uses[slot].verb == NULL) {
        uses[slot] = (struct use){verb, rule};
    }
}

static void use_match(struct use *uses, const struct rules_ast_match *match,
                      const char *rule, const char *verb)
{
    for (uint32_t i = 0; i < match->n_conditions; i++) {
        use_add(uses, match->conditions[i].slot, rule, verb);
    }
}

/* What makes the key, and what takes the place of what is missing. */
static void use_key(const struct rules_ast_rule *rule, struct use *uses)
{
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        for (uint32_t j = 0; j < rule->key[i].n_links; j++) {
            use_add(uses, rule->key[i].slots[j], rule->name, "is keyed on it");
        }
    }
    if (rule->n_key_parts > 0 && rule->no_key == RULES_NO_KEY_IP) {
        use_add(uses, RULES_SLOT_IP, rule->name, "falls back on it without its key");
    }
}

static void use_rule(struct finder *f, const struct rules_ast_rule *rule)
{
    static const char cost[] = "takes its cost from it";
    use_match(f->at_check, &rule->match, rule->name, "matches on it");
    use_key(rule, f->at_check);
    for (uint32_t i = 0; i < rule->n_costs; i++) {
        use_match(f->at_check, &rule->costs[i].match, rule->name, cost);
    }
    if (rule->cost.is_from_slot) {
        use_add(rule->charge.is_settled ? f->at_settle : f->at_check, rule->cost.slot,
                rule->name, cost);
    }
    if (rule->charge.is_settled) {
        f->settled = f->settled != NULL ? f->settled : rule->name;
        use_key(rule, f->at_settle);
        use_match(f->at_settle, &rule->charge.when, rule->name, "settles by it");
    }
    if (rule->n_plans > 0 && f->ast->slot_plan >= 0) {
        use_add(f->at_check, (uint32_t)f->ast->slot_plan, rule->name, "has plans");
    }
    if (rule->n_plans > 0 && f->ast->slot_plan >= 0 && rule->charge.is_settled) {
        use_add(f->at_settle, (uint32_t)f->ast->slot_plan, rule->name, "has plans");
    }
}

/* A plan need not be sent where it is found by who is. */
static void use_clients(const struct finder *f, struct use *uses)
{
    const struct rules_ast_clients *clients = &f->ast->clients;
    if (clients->path == NULL) {
        return;
    }
    const struct use *plan = &uses[f->ast->slot_plan];
    if (plan->verb != NULL) {
        use_add(uses, clients->slot, plan->rule, "finds plans by it");
    }
}

static bool is_found_by_client(const struct finder *f, uint32_t slot)
{
    return f->ast->clients.path != NULL && (int)slot == f->ast->slot_plan;
}

static void use_all(struct finder *f)
{
    for (uint32_t i = 0; i < f->ast->n_rules; i++) {
        use_rule(f, &f->ast->rules[i]);
    }
    for (uint32_t i = 0; i < f->ast->n_lists; i++) {
        use_add(f->at_check, f->ast->lists[i].condition.slot, NULL, "look at it");
    }
    use_clients(f, f->at_check);
    use_clients(f, f->at_settle);
}

static void use_print(const struct use *use, char text[USE_ROOM])
{
    if (use->rule == NULL) {
        (void)snprintf(text, USE_ROOM, "the lists %s", use->verb);
    } else {
        (void)snprintf(text, USE_ROOM, "rule '%s' %s", use->rule, use->verb);
    }
}

static void slot_name(const struct finder *f, uint32_t slot, char name[NAME_ROOM])
{
    struct rules_bytes bytes = f->ast->slots[slot];
    (void)snprintf(name, NAME_ROOM, "%.*s", (int)bytes.len, (const char *)bytes.ptr);
}

static const struct spoe_arg *arg_find(const struct spoe_message *message,
                                       const char *name)
{
    const struct spoe_arg *arg = message->args;
    while (arg != NULL && strcmp(arg->name, name) != 0) {
        arg = arg->next;
    }
    return arg;
}

/* Walks over the messages of a name that are sent: all engines are one file. */
struct walk {
    const struct spoe_engine *engine;
    const struct spoe_message *message; /* NULL: before the first of the engine */
};

static const struct spoe_message *walk_next(struct walk *walk, const char *name)
{
    while (walk->engine != NULL) {
        walk->message = walk->message == NULL ? walk->engine->first_message
                                              : walk->message->next;
        if (walk->message == NULL) {
            walk->engine = walk->engine->next;
        } else if (strcmp(walk->message->name, name) == 0) {
            return walk->message;
        }
    }
    return NULL;
}

static struct walk walk_begin(const struct finder *f)
{
    return (struct walk){.engine = f->spoe->conf->engines};
}

static const struct spoe_arg *arg_sent(const struct finder *f, const char *message,
                                       const char *name)
{
    struct walk walk = walk_begin(f);
    const struct spoe_message *m = NULL;
    while ((m = walk_next(&walk, message)) != NULL) {
        const struct spoe_arg *arg = m->is_sent ? arg_find(m, name) : NULL;
        if (arg != NULL) {
            return arg;
        }
    }
    return NULL;
}

/* The first message of that name that is sent; reported when there is none. */
static const struct spoe_message *message_find(struct finder *f, const char *name,
                                               const char *why)
{
    struct walk walk = walk_begin(f);
    const struct spoe_message *m = NULL;
    const struct spoe_message *unsent = NULL;
    while ((m = walk_next(&walk, name)) != NULL) {
        if (m->is_sent) {
            return m;
        }
        unsent = m;
    }
    if (unsent != NULL) {
        FIND(
            f, RULES_ERROR, unsent->mark, check_code_spoe_not_sent,
            "%s is never sent: name it in a spoe-group and the group in `groups` of the "
            "spoe-agent, or give it an `event` and name it in `messages`",
            name);
    } else {
        FIND(f, RULES_ERROR, (struct rules_mark){0}, check_code_spoe_no_message,
             "there is no spoe-message %s%s", name, why);
    }
    return NULL;
}

static bool is_variable(const char *sample)
{
    return strncmp(sample, "var(", 4) == 0;
}

/* What an `args` line could say: as the other message has it, where that is a variable. */
static void sample_guess(const struct finder *f, const char *message, const char *name,
                         char *sample, size_t size)
{
    static const struct {
        const char *name;
        const char *sample;
    } known[] = {{"ip", "src"},
                 {"method", "method,bytes(0,16)"},
                 {"path", "path,bytes(0,1024)"},
                 {"host", "req.hdr(host),lower,bytes(0,255)"},
                 {"status", "status"}};
    bool is_check = strcmp(message, check_message) == 0;
    const struct spoe_arg *other = arg_sent(f,
                                            is_check ? settle_message : check_message,
                                            name);
    if (other != NULL && is_variable(other->sample)) {
        (void)snprintf(sample, size, "%s", other->sample);
        return;
    }
    (void)snprintf(sample, size, "var(txn.%s)", name);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        bool is_response = strcmp(known[i].name, "status") == 0;
        if (strcmp(known[i].name, name) == 0 && is_response != is_check) {
            (void)snprintf(sample, size, "%s", known[i].sample);
        }
    }
}

static void find_missing(struct finder *f, const struct spoe_message *message,
                         const struct use *uses)
{
    for (uint32_t i = 0; i < f->ast->n_slots; i++) {
        char name[NAME_ROOM];
        char why[USE_ROOM];
        char sample[128];
        slot_name(f, i, name);
        if (uses[i].verb == NULL || is_found_by_client(f, i)
            || arg_sent(f, message->name, name) != NULL) {
            continue;
        }
        use_print(&uses[i], why);
        sample_guess(f, message->name, name, sample, sizeof(sample));
        FIND(f, RULES_ERROR, message->mark, check_code_spoe_missing,
             "'%s' is not sent, and %s: args %s=%s", name, why, name, sample);
    }
}

static const struct spoe_engine *engine_of(const struct finder *f,
                                           const struct spoe_message *message)
{
    struct walk walk = walk_begin(f);
    while (walk_next(&walk, message->name) != message) {
    }
    return walk.engine;
}

/* Each message that is settled by needs a receipt of its own. */
static void find_no_receipt(struct finder *f)
{
    struct walk walk = walk_begin(f);
    const struct spoe_message *m = NULL;
    while ((m = walk_next(&walk, settle_message)) != NULL) {
        if (!m->is_sent || arg_find(m, "receipt") != NULL) {
            continue;
        }
        const char *prefix = engine_of(f, m)->var_prefix;
        FIND(f, RULES_ERROR, m->mark, check_code_spoe_missing,
             "'receipt' is not sent, and rule '%s' is settled by it: args "
             "receipt=var(txn.%s.receipt)",
             f->settled, prefix != NULL ? prefix : "rl");
    }
}

/* The fetch that a sample begins with, without its arguments. */
static size_t fetch_len(const char *sample)
{
    return strcspn(sample, "(,");
}

static bool fetch_is_one(const char *sample, const char *const *names, size_t n)
{
    size_t len = fetch_len(sample);
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], sample, len) == 0) {
            return true;
        }
    }
    return false;
}

/* What HAProxy can read only as long as it has the request. */
static const char *const request_only[] = {
    "base",
    "base32",
    "base32+src",
    "baseq",
    "cook",
    "cook_cnt",
    "cook_val",
    "hdr_cnt",
    "hdr_ip",
    "hdr_val",
    "http_auth",
    "http_auth_bearer",
    "http_auth_pass",
    "http_auth_type",
    "http_auth_user",
    "path",
    "pathq",
    "query",
    "req.body",
    "req.body_len",
    "req.body_param",
    "req.body_size",
    "req.cook",
    "req.cook_cnt",
    "req.cook_val",
    "req.fhdr",
    "req.fhdr_cnt",
    "req.hdr",
    "req.hdr_cnt",
    "req.hdr_ip",
    "req.hdr_names",
    "req.hdr_val",
    "req.hdrs",
    "req.hdrs_bin",
    "req.len",
    "req.payload",
    "url",
    "url32",
    "url32+src",
    "url_ip",
    "url_param",
    "url_port",
    "urlp",
    "urlp_val",
};

/* What a client writes as it likes, where that says who it is or what it may. */
static const char *const claimed[] = {
    "capture.req.hdr",
    "cook",
    "cook_val",
    "cookie",
    "hdr",
    "hdr_ip",
    "hdr_val",
    "http_auth_bearer",
    "http_auth_user",
    "query",
    "req.body",
    "req.body_param",
    "req.cook",
    "req.cook_val",
    "req.fhdr",
    "req.hdr",
    "req.hdr_ip",
    "req.hdr_val",
    "url_param",
    "urlp",
    "urlp_val",
};

static bool is_of_response(const struct spoe_message *message)
{
    const char *event = message->event != NULL ? message->event : "";
    return strcmp(message->name, settle_message) == 0
           || strcmp(event, "on-http-response") == 0
           || strcmp(event, "on-tcp-response") == 0;
}

static void find_request_only(struct finder *f, const struct spoe_message *message)
{
    for (const struct spoe_arg *arg = message->args; arg != NULL; arg = arg->next) {
        if (!fetch_is_one(arg->sample, request_only, ARRAY_LEN(request_only))) {
            continue;
        }
        const char *name = arg->name[0] != '\0' ? arg->name : "name";
        FIND(f, RULES_ERROR, arg->mark, check_code_spoe_request_only,
             "%.*s is gone with the request, and this goes with the response: put it "
             "into a variable before, and say %.64s=var(txn.%.64s)",
             (int)fetch_len(arg->sample), arg->sample, name, name);
    }
}

/* HAProxy itself goes by the host, so that it is as true as the request. */
static bool is_host(const char *sample)
{
    const char *header = sample + fetch_len(sample);
    return strncasecmp(header, "(host)", strlen("(host)")) == 0
           || strncasecmp(header, "(host,", strlen("(host,")) == 0;
}

static void find_claimed(struct finder *f, const struct spoe_message *message)
{
    for (uint32_t i = 0; i < f->ast->n_slots; i++) {
        char name[NAME_ROOM];
        char why[USE_ROOM];
        slot_name(f, i, name);
        const struct spoe_arg *arg = arg_find(message, name);
        if (f->at_check[i].verb == NULL || arg == NULL || is_host(arg->sample)
            || !fetch_is_one(arg->sample, claimed, ARRAY_LEN(claimed))) {
            continue;
        }
        use_print(&f->at_check[i], why);
        FIND(f, RULES_WARNING, arg->mark, check_code_spoe_claimed,
             "'%s' is what the client says (%.*s), and %s: a client can say anything",
             name, (int)fetch_len(arg->sample), arg->sample, why);
    }
}

static void find_timeout(struct finder *f, const struct spoe_engine *engine,
                         int64_t deadline_us)
{
    if (engine->processing_us < 0) {
        FIND(f, RULES_WARNING, engine->mark, check_code_spoe_no_timeout,
             "without `timeout processing` a request waits for as long as the agent "
             "says nothing");
    } else if (engine->processing_us <= deadline_us) {
        FIND(f, RULES_ERROR, engine->processing_mark, check_code_spoe_timeout,
             "HAProxy would not wait for an answer: the agent may take %" PRId64
             " ms for one",
             deadline_us / 1000);
    }
}

static void find_in_engine(struct finder *f, const struct spoe_engine *engine,
                           int64_t deadline_us)
{
    bool is_ours = false;
    for (const struct spoe_message *m = engine->first_message; m != NULL; m = m->next) {
        if (is_of_response(m)) {
            find_request_only(f, m);
        }
        if (m->is_sent && strcmp(m->name, check_message) == 0) {
            find_claimed(f, m);
            is_ours = true;
        }
    }
    if (is_ours) {
        find_timeout(f, engine, deadline_us);
    }
}

void check_spoe_find(const struct check_spoe *spoe, const struct rules_ast *ast,
                     int64_t deadline_us, struct rules_diags *diags)
{
    struct finder f = {.spoe = spoe, .ast = ast, .diags = diags};
    use_all(&f);
    const struct spoe_message *check = message_find(&f, check_message, "");
    if (check != NULL) {
        find_missing(&f, check, f.at_check);
    }
    if (f.settled != NULL) {
        const struct spoe_message *settle = message_find(
            &f, settle_message, ", and rules settle after the response");
        if (settle != NULL) {
            find_missing(&f, settle, f.at_settle);
            find_no_receipt(&f);
        }
    }
    for (const struct spoe_engine *e = spoe->conf->engines; e != NULL; e = e->next) {
        find_in_engine(&f, e, deadline_us);
    }
}
