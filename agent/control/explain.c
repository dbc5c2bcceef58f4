#include "agent/control/explain.h"

#include <stdlib.h>
#include <string.h>

#include "spop/bytes.h"
#include "spop/frame.h"

#include "agent/control/explanation.h"

const char *explanation_why(enum rules_why why)
{
    static const char *const texts[] = {
        [RULES_APPLIES] = "applies",
        [RULES_EXPIRED] = "expired",
        [RULES_UNMET] = "unmet",
        [RULES_KEY_MISSING] = "key_missing",
        [RULES_KEY_REQUIRED] = "key_required",
        [RULES_OVERRIDDEN] = "overridden",
        [RULES_PLAN_EXEMPT] = "unlimited",
        [RULES_BEYOND_MATCHES] = "too_many_rules",
        [RULES_BEYOND_HITS] = "too_many_limits",
    };
    return texts[why];
}

const char *explanation_cost_from(enum rules_cost_from from)
{
    static const char *const texts[] = {
        [RULES_COST_FIXED] = "fixed",       [RULES_COST_ITEM] = "item",
        [RULES_COST_ARGUMENT] = "argument", [RULES_COST_RAISED] = "raised",
        [RULES_COST_LOWERED] = "lowered",   [RULES_COST_RESERVED] = "reserved",
    };
    return texts[from];
}

static bool is_shown_plainly(uint8_t c)
{
    return c > ' ' && c < 0x7f && c != '%' && c != ',' && c != '"' && c != '\\';
}

static struct explanation_value escape(struct rules_bytes bytes)
{
    struct explanation_value value;
    size_t shown = bytes.len < EXPLAIN_VALUE_BYTES_MAX ? bytes.len
                                                       : EXPLAIN_VALUE_BYTES_MAX;
    char *to = value.text;
    for (size_t i = 0; i < shown; i++) {
        if (is_shown_plainly(bytes.ptr[i])) {
            *to++ = (char)bytes.ptr[i];
        } else {
            to += snprintf(to, sizeof("%00"), "%%%02X", bytes.ptr[i]);
        }
    }
    (void)snprintf(to, sizeof("..."), "%s", shown < bytes.len ? "..." : "");
    return value;
}

struct explanation_value explanation_value(struct rules_value value)
{
    char text[RULES_ADDRESS_PRINT_BYTES];
    struct rules_address address = {.len = (uint8_t)value.bytes.len};
    if (value.type == RULES_ABSENT) {
        return (struct explanation_value){""};
    }
    if (value.type == RULES_TEXT) {
        return escape(value.bytes);
    }
    memcpy(address.bytes, value.bytes.ptr, value.bytes.len);
    rules_address_print(&address, text);
    return escape((struct rules_bytes){(const uint8_t *)text, strlen(text)});
}

int explanation_charge(const struct explanation *e, const struct rules_explained *rule)
{
    const struct store_take *take = &e->request.take;
    if (rule->why != RULES_APPLIES) {
        return -1;
    }
    for (unsigned i = 0; i < take->n_charges; i++) {
        if (take->charges[i].limit_id == rule->hit.limits[0].id) {
            return (int)i;
        }
    }
    return -1;
}

bool explanation_variables(const struct explanation *e, struct spop_actions *it)
{
    struct spop_frame frame;
    if (spop_frame_decode(e->ack, SPOP_FRAME_SIZE_MAX, &frame) != SPOP_OK) {
        return false;
    }
    spop_actions_init(it, frame.payload);
    return true;
}

bool explanation_next(struct spop_actions *it, struct spop_action *action)
{
    return spop_actions_next(it, action) == SPOP_OK;
}

static bool word_error(const char *word, const char *what, FILE *out)
{
    struct rules_bytes bytes = {(const uint8_t *)word, strlen(word)};
    (void)fprintf(out, EXPLAIN_ERROR "%s: %s\n", escape(bytes).text, what);
    return false;
}

static bool bind_value(struct explanation *e, const char *word, int slot,
                       struct rules_bytes text, FILE *out)
{
    struct rules_value *value = &decide_room(&e->decide)->descriptors.values[slot];
    struct rules_address *address = &e->addresses[slot];
    *value = (struct rules_value){text.len > 0 ? RULES_TEXT : RULES_ABSENT, text};
    if (slot != RULES_SLOT_IP || text.len == 0) {
        return true;
    }
    *address = rules_address_parse(text);
    *value = (struct rules_value){RULES_ADDRESS, rules_address_bytes(address)};
    return address->len > 0 || word_error(word, "no address", out);
}

static bool bind_domain(const struct explanation *e, const char *word,
                        const char *domain, FILE *out)
{
    return *domain == '\0' || strcmp(domain, e->source.set->domain) == 0
           || word_error(word, "the rules are of another domain", out);
}

static bool bind_word(struct explanation *e, const char *word, FILE *out)
{
    const char *equals = strchr(word, '=');
    if (equals == NULL || equals == word) {
        return word_error(word, "want NAME=VALUE, --all or --json", out);
    }
    struct rules_bytes name = {(const uint8_t *)word, (size_t)(equals - word)};
    struct rules_bytes text = {(const uint8_t *)equals + 1, strlen(equals + 1)};
    int slot = rules_set_slot(e->source.set->rules, name);
    if (name.len == strlen("domain") && memcmp(word, "domain", name.len) == 0) {
        return bind_domain(e, word, equals + 1, out);
    }
    if (slot >= 0) {
        return bind_value(e, word, slot, text, out);
    }
    if (e->n_unused < ARRAY_LEN(e->unused)) {
        e->unused[e->n_unused++] = word;
    }
    return true;
}

static bool bind_words(struct explanation *e, unsigned n, const char *const *words,
                       FILE *out)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(words[i], "--json") == 0) {
            e->is_json = true;
        } else if (strcmp(words[i], "--all") == 0) {
            e->has_all = true;
        } else if (!bind_word(e, words[i], out)) {
            return false;
        }
    }
    return true;
}

/* As decide_begin does it. */
static void bind_plan(struct explanation *e)
{
    static const struct rules_bytes name = {(const uint8_t *)"plan", 4};
    const struct rules_set *set = e->source.set->rules;
    int slot = rules_set_slot(set, name);
    if (e->source.clients == NULL || slot < 0) {
        return;
    }
    struct rules_value *plan = &decide_room(&e->decide)->descriptors.values[slot];
    bool has_plan = plan->type != RULES_ABSENT;
    rules_clients_apply(e->source.clients, set, &decide_room(&e->decide)->descriptors);
    e->is_plan_of_client = !has_plan && plan->type != RULES_ABSENT;
}

static void end(struct explanation *e, enum explain_status status)
{
    if (status == EXPLAIN_FAILED) {
        (void)fputs(EXPLAIN_ERROR "out of memory\n", e->out);
    }
    e->done(e->context, status);
    counters_free(e->decide.counters);
    free(e);
}

/* The rules are looked at again: what a request needs while it is begun has been used. */
static enum explain_status print(struct explanation *e)
{
    struct rules_explanation *rules = rules_explain(
        e->source.set->rules, &decide_room(&e->decide)->descriptors);
    e->rules = rules;
    bool ok = rules != NULL && (!e->is_json || explanation_print_json(e, e->out));
    if (ok && !e->is_json) {
        explanation_print_text(e, e->out);
    }
    rules_explanation_free(rules);
    if (!ok) {
        return EXPLAIN_FAILED;
    }
    return e->request.verdict.is_denied ? EXPLAIN_DENIED : EXPLAIN_ALLOWED;
}

static void on_done(struct decide_request *request)
{
    struct explanation *e = request->context;
    struct spop_writer out;
    spop_writer_init(&out, e->ack_buf, sizeof(e->ack_buf));
    decide_answer(request, &out, SPOP_FRAME_SIZE_MAX);
    e->ack = (struct spop_bytes){.ptr = e->ack_buf, .len = out.len};
    end(e, print(e));
}

/* Into counters that nobody reads. */
static void explain(struct explanation *e)
{
    e->decide.counters = counters_new(e->source.set->n_limits);
    if (e->decide.counters == NULL) {
        end(e, EXPLAIN_FAILED);
        return;
    }
    decide_peek(&e->decide, &e->request, e->source.now, on_done, e);
}

void explain_begin(const struct peek_source *source, unsigned n_words,
                   const char *const *words, FILE *out, explain_done_fn *done,
                   void *context)
{
    struct explanation *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        (void)fputs(EXPLAIN_ERROR "out of memory\n", out);
        done(context, EXPLAIN_FAILED);
        return;
    }
    e->source = *source;
    e->out = out;
    e->done = done;
    e->context = context;
    e->decide.set = source->set;
    e->decide.store = source->store;
    e->decide.options = source->options;
    if (!bind_words(e, n_words, words, out)) {
        free(e);
        done(context, EXPLAIN_FAILED);
        return;
    }
    bind_plan(e);
    explain(e);
}

static void keep_status(void *context, enum explain_status status)
{
    enum explain_status *kept = context;
    *kept = status;
}

enum explain_status explain_print(const struct peek_source *source, unsigned n_words,
                                  const char *const *words, FILE *out)
{
    enum explain_status status = EXPLAIN_FAILED;
    explain_begin(source, n_words, words, out, keep_status, &status);
    return status;
}
