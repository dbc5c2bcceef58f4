/* The ACK of a decided request: variables in the order of their table. */
#include <sodium.h>
#include <string.h>

#include "spop/ack.h"

#include "agent/decide/decide.h"
#include "agent/decide/text.h"

static const char problem_head[] =
    "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
    "\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":\"Too many requests";

/** The longest extra wait that jitter adds. */
#define JITTER_US_MAX (30 * US_PER_S)

static int64_t us_to_s_up(int64_t us)
{
    return us / US_PER_S + (us % US_PER_S > 0);
}

/* A share of the wait, the same for one key in one window, so that a client that asks
 * again does not draw again. */
static int64_t jitter_us(const struct decide_options *options,
                         const struct store_charge *charge, struct instant now)
{
    int64_t most_us = charge->answer.retry_us / 1000 * options->retry_jitter_permille;
    most_us = most_us < JITTER_US_MAX ? most_us : JITTER_US_MAX;
    if (most_us <= 0) {
        return 0;
    }
    struct {
        uint8_t key_hash[crypto_shorthash_BYTES];
        uint8_t limit_id[STORE_LIMIT_ID_BYTES];
        int64_t window;
    } drawn;
    uint64_t hash = 0;
    (void)crypto_shorthash(drawn.key_hash, charge->key, charge->key_bytes,
                           options->secret);
    memcpy(drawn.limit_id, charge->limit_id, sizeof(drawn.limit_id));
    drawn.window = now.us / (charge->limit->per_ticks * charge->limit->tick_us);
    (void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)&drawn, sizeof(drawn),
                           options->secret);
    return (int64_t)(hash % (uint64_t)(most_us + 1));
}

/* Whole seconds, at least 1 (clients take 0 for "no value"); 0 when no wait helps. */
static int64_t retry_after_s(const struct decide_request *request)
{
    if (!request->verdict.is_denied || request->verdict.deciding_idx < 0) {
        return 0;
    }
    const struct store_charge *charge = &request->take
                                             .charges[request->verdict.deciding_idx];
    if (charge->answer.retry_us == LIMIT_NEVER) {
        return 0;
    }
    int64_t jitter = jitter_us(request->decide->options, charge, request->take.now);
    int64_t wait_s = us_to_s_up(charge->answer.retry_us + jitter);
    return wait_s > 1 ? wait_s : 1;
}

/* Whether a header field shows this limit: when denied, RateLimit shows the violated
 * ones only, so that Retry-After is never less than a `t` beside it. */
static bool is_shown(const struct decide_request *request, unsigned i,
                     enum variable variable)
{
    if (!request->rules[i]->is_advertised) {
        return false;
    }
    bool is_violated = !request->take.charges[i].answer.is_allowed;
    return variable == VARIABLE_POLICY || !request->verdict.is_denied || is_violated;
}

static void add_item(struct text *text, const struct decide_limit *limit,
                     const struct store_charge *charge, enum variable variable)
{
    if (variable == VARIABLE_POLICY) {
        text_add(text, limit->policy_item);
        return;
    }
    int64_t available = 0;
    int64_t effective_s = 0;
    limit_advertise(&limit->limit, &limit->policy, &charge->answer, &available,
                    &effective_s);
    text_add(text, "\"");
    text_add(text, limit->name);
    text_add(text, "\";r=");
    text_add_int64(text, available);
    text_add(text, ";t=");
    text_add_int64(text, effective_s);
}

/* The value of RateLimit or RateLimit-Policy; items without room are left out whole. */
static void add_field(struct text *text, const struct decide_request *request,
                      enum variable variable)
{
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        if (!is_shown(request, i, variable)) {
            continue;
        }
        size_t len = text->len;
        text_add(text, len > 0 ? ", " : "");
        add_item(text, request->limits[i], &request->take.charges[i], variable);
        if (text->is_cut) {
            text_rewind(text, len);
        }
    }
}

/* RFC 9457, with the problem type of the draft's section 5. Names of limits that are
 * not advertised stay out; where none is left, so does the member. */
static void add_problem(struct text *text, const struct decide_request *request)
{
    int64_t wait_s = retry_after_s(request);
    text_add(text, problem_head);
    if (wait_s > 0) {
        text_add(text, "; try again in ");
        text_add_int64(text, wait_s);
        text_add(text, " s");
    }
    text_add(text, ".\"");
    const char *before = ",\"violated-policies\":[\"";
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        if (is_shown(request, i, VARIABLE_RATELIMIT)) {
            text_add(text, before);
            text_add(text, request->limits[i]->name);
            before = "\",\"";
        }
    }
    text_add(text, before[1] == ',' ? "\"]" : "");
    if (wait_s > 0) {
        text_add(text, ",\"retry_after_seconds\":");
        text_add_int64(text, wait_s);
    }
    text_add(text, "}");
}

/* The shadow rules that would have refused. */
static void add_shadow(struct text *text, const struct decide_request *request)
{
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        const struct store_charge *charge = &request->take.charges[i];
        if (!charge->is_shadow || charge->answer.is_allowed) {
            continue;
        }
        size_t len = text->len;
        text_add(text, len > 0 ? "," : "");
        text_add(text, request->limits[i]->name);
        if (text->is_cut) {
            text_rewind(text, len);
        }
    }
}

static void set_text(struct spop_ack *ack, enum variable variable, const char *text,
                     size_t len)
{
    if (len > 0) {
        struct spop_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
        spop_ack_set_string(ack, SPOP_SCOPE_TXN, variable_text(variable), bytes);
    }
}

static void set_string(struct spop_ack *ack, enum variable variable, const char *string)
{
    set_text(ack, variable, string, strlen(string));
}

static void set_number(struct spop_ack *ack, enum variable variable, int64_t number)
{
    spop_ack_set_int64(ack, SPOP_SCOPE_TXN, variable_text(variable), number);
}

typedef void add_text_fn(struct text *text, const struct decide_request *request);

static void set_built(struct spop_ack *ack, enum variable variable,
                      const struct decide_request *request, add_text_fn *add,
                      size_t cap)
{
    char buf[DECIDE_PROBLEM_BYTES_MAX];
    struct text text = text_in(buf, cap);
    add(&text, request);
    if (!text.is_cut) {
        set_text(ack, variable, buf, text.len);
    }
}

static void add_ratelimit(struct text *text, const struct decide_request *request)
{
    add_field(text, request, VARIABLE_RATELIMIT);
}

static void add_policy(struct text *text, const struct decide_request *request)
{
    add_field(text, request, VARIABLE_POLICY);
}

/* The variables of the deciding limit. */
static void set_deciding(struct spop_ack *ack, enum variable variable,
                         const struct decide_request *request)
{
    if (request->verdict.deciding_idx < 0) {
        return;
    }
    const struct store_charge *charge = &request->take
                                             .charges[request->verdict.deciding_idx];
    switch ((int)variable) {
    case VARIABLE_RULE:
        set_string(ack, variable, request->limits[request->verdict.deciding_idx]->name);
        return;
    case VARIABLE_LIMIT:
        set_number(ack, variable, charge->limit->size);
        return;
    case VARIABLE_REMAINING:
        set_number(ack, variable, charge->answer.remaining);
        return;
    case VARIABLE_RESET:
        set_number(ack, variable, us_to_s_up(charge->answer.reset_us));
        return;
    default:
        ENSURE(!"a variable of the deciding limit");
    }
}

static void set_variable(struct spop_ack *ack, enum variable variable,
                         const struct decide_request *request)
{
    const struct verdict *verdict = &request->verdict;
    switch (variable) {
    case VARIABLE_ACTION:
        set_string(ack, variable, action_text(verdict->action));
        return;
    case VARIABLE_DENY:
        spop_ack_set_bool(ack, SPOP_SCOPE_TXN, variable_text(variable),
                          verdict->is_denied);
        return;
    case VARIABLE_STATUS:
        if (verdict->is_denied) {
            set_number(ack, variable, verdict->status);
        }
        return;
    case VARIABLE_RULE:
    case VARIABLE_LIMIT:
    case VARIABLE_REMAINING:
    case VARIABLE_RESET:
        set_deciding(ack, variable, request);
        return;
    case VARIABLE_RETRY_AFTER:
        if (retry_after_s(request) > 0) {
            set_number(ack, variable, retry_after_s(request));
        }
        return;
    case VARIABLE_RATELIMIT:
        set_built(ack, variable, request, add_ratelimit, DECIDE_FIELD_BYTES_MAX);
        return;
    case VARIABLE_POLICY:
        set_built(ack, variable, request, add_policy, DECIDE_FIELD_BYTES_MAX);
        return;
    case VARIABLE_PROBLEM:
        if (verdict->is_denied) {
            set_built(ack, variable, request, add_problem, DECIDE_PROBLEM_BYTES_MAX);
        }
        return;
    case VARIABLE_REASON:
        set_string(ack, variable, reason_text(verdict->reason));
        return;
    case VARIABLE_SHADOW:
        set_built(ack, variable, request, add_shadow, DECIDE_SHADOW_BYTES_MAX);
        return;
    }
}

void decide_answer(const struct decide_request *request, struct spop_writer *out,
                   size_t frame_bytes_max)
{
    struct counters *counters = request->decide->counters;
    struct spop_ack ack;
    spop_ack_begin(&ack, out, request->stream_id, request->frame_id, frame_bytes_max);
    if (request->is_neutral) {
        counter_add(counters, COUNTER_ACKS_NEUTRAL, 1);
    } else {
        for (variable_set left = request->decide->options->variables; left != 0;
             left &= left - 1) {
            set_variable(&ack, (enum variable)__builtin_ctz(left), request);
        }
    }
    if (ack.n_left_out > 0) {
        counter_add(counters, COUNTER_ACTIONS_LEFT_OUT, ack.n_left_out);
    }
    spop_ack_end(&ack);
    counter_add(counters, COUNTER_ACKS, 1);
}
