/* The ACK of a decided request: variables in the order of their table. */
#include <string.h>

#include "spop/ack.h"
#include "spop/bytes.h"

#include "agent/decide/decide.h"
#include "agent/decide/receipt.h"
#include "agent/decide/text.h"

static const char quota_head[] =
    "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
    "\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":\"Too many requests";
static const char capacity_head[] =
    "{\"type\":\"https://iana.org/assignments/"
    "http-problem-types#temporary-reduced-capacity\","
    "\"title\":\"Temporary Reduced Capacity\",\"status\":503,"
    "\"detail\":\"Requests cannot be counted for now";
static const char forbidden_head[] =
    "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
    "\"detail\":\"Requests of this client are refused";
static const char keyless_head[] =
    "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
    "\"detail\":\"The request does not say whose it is";

/* Whether a header field shows this limit: when denied, RateLimit shows the violated
 * ones that refuse only, so that Retry-After is never less than a `t` beside it. */
static bool is_shown(const struct decide_request *request, unsigned i,
                     enum variable variable)
{
    if ((request->advertised >> i & 1) == 0) {
        return false;
    }
    const struct store_charge *charge = &request->take.charges[i];
    bool is_refusing = !charge->answer.is_allowed && !charge->is_lenient;
    return variable == VARIABLE_POLICY || !request->verdict.is_denied || is_refusing;
}

/* What the numbers that clients see are taken from. */
static const struct limit_answer *shown_answer(const struct decide_request *request,
                                               unsigned i)
{
    const struct store_take *take = &request->take;
    return take->is_peek ? &take->held[i] : &take->charges[i].answer;
}

static void add_item(struct text *text, const struct decide_limit *limit,
                     const struct limit_answer *answer, enum variable variable)
{
    if (variable == VARIABLE_POLICY) {
        text_add_bytes(text, limit->policy_item, limit->policy_item_len);
        return;
    }
    int64_t available = 0;
    int64_t effective_s = 0;
    limit_advertise(&limit->limit, &limit->policy, answer, &available, &effective_s);
    text_add_bytes(text, limit->label->item_head, limit->label->item_head_len);
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
        add_item(text, request->limits[i], shown_answer(request, i), variable);
        if (text->is_cut) {
            text_rewind(text, len);
        }
    }
}

static void add_violated(struct text *text, const struct decide_request *request)
{
    bool has_names = false;
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        if (!is_shown(request, i, VARIABLE_RATELIMIT)) {
            continue;
        }
        const struct decide_limit *limit = request->limits[i];
        text_add(text, has_names ? "," : ",\"violated-policies\":[");
        text_add_bytes(text, limit->label->item_head, limit->label->quoted_len);
        has_names = true;
    }
    text_add(text, has_names ? "]" : "");
}

static const char *problem_head(const struct verdict *verdict)
{
    if (verdict->status == VERDICT_STATUS_TOO_MANY_REQUESTS) {
        return quota_head;
    }
    if (verdict->status == VERDICT_STATUS_UNAVAILABLE) {
        return capacity_head;
    }
    return verdict->reason == REASON_NO_KEY ? keyless_head : forbidden_head;
}

/* RFC 9457, with the problem type of the draft's section 5. Names of limits that are
 * not advertised stay out; where none is left, so does the member. */
static void add_problem(struct text *text, const struct decide_request *request)
{
    UNCLEARED char wait_buf[DECIDE_NUMBER_BYTES_MAX];
    struct text wait = text_in(wait_buf, sizeof(wait_buf));
    text_add_int64(&wait, request->retry_after_s);
    text_add(text, problem_head(&request->verdict));
    if (request->retry_after_s > 0) {
        text_add(text, "; try again in ");
        text_add_bytes(text, wait.buf, wait.len);
        text_add(text, " s");
    }
    text_add(text, ".\"");
    add_violated(text, request);
    if (request->retry_after_s > 0) {
        text_add(text, ",\"retry_after_seconds\":");
        text_add_bytes(text, wait.buf, wait.len);
    }
    text_add(text, "}");
}

/* The shadow rules that would have refused. */
static void add_shadow(struct text *text, const struct decide_request *request)
{
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        const struct store_charge *charge = &request->take.charges[i];
        if ((request->shadow >> i & 1) == 0 || charge->answer.is_allowed) {
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

/* What is settled after the response. A charge without room in the receipt stays, as does
 * one of a fallback. */
static void add_receipt(struct text *text, const struct decide_request *request)
{
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        const struct store_charge *charge = &request->take.charges[i];
        if ((request->settled >> i & 1) == 0 || !charge->is_charged
            || charge->source != STORE_COUNTED) {
            continue;
        }
        struct receipt_item item = {
            .amount = charge->cost,
            .place = charge->place,
            .store = charge->home != NULL ? STORE_LETTER_REDIS : STORE_LETTER_LOCAL,
        };
        memcpy(item.limit, charge->limit_id, sizeof(item.limit));
        if (!receipt_add(text, &item)) {
            counter_add(request->counters, COUNTER_RECEIPTS_CUT, 1);
        }
    }
}

/* An ACK being written. */
struct answer {
    const struct decide_request *request;
    struct spop_ack ack;
};

static const struct spop_variable *encoded(const struct answer *answer,
                                           enum variable variable)
{
    return &answer->request->decide->options->encoded[variable];
}

static void set_text(struct answer *answer, enum variable variable, const char *text,
                     size_t len)
{
    if (len > 0) {
        struct spop_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
        spop_ack_set_string(&answer->ack, encoded(answer, variable), bytes);
    }
}

/* A number that has a value; 0 is none. */
static void set_number_if(struct answer *answer, enum variable variable, int64_t number)
{
    if (number != 0) {
        spop_ack_set_int64(&answer->ack, encoded(answer, variable), number);
    }
}

typedef void add_text_fn(struct text *text, const struct decide_request *request);

static void set_built(struct answer *answer, enum variable variable, add_text_fn *add,
                      size_t cap)
{
    char *buf = answer->request->decide->text_buf;
    struct text text = text_in(buf, cap);
    add(&text, answer->request);
    if (!text.is_cut) {
        set_text(answer, variable, buf, text.len);
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

/* What the deciding limit says of itself, of those that clients may see. */
static void set_shown(struct answer *answer, enum variable variable)
{
    int idx = answer->request->verdict.shown_idx;
    if (idx < 0) {
        return;
    }
    const struct limit_answer *shown = shown_answer(answer->request, (unsigned)idx);
    int64_t number = variable == VARIABLE_LIMIT
                         ? answer->request->take.charges[idx].limit->size
                     : variable == VARIABLE_REMAINING ? shown->remaining
                                                      : us_to_s_up(shown->reset_us);
    spop_ack_set_int64(&answer->ack, encoded(answer, variable), number);
}

static void set_rule(struct answer *answer)
{
    const struct verdict *verdict = &answer->request->verdict;
    if (verdict->deciding_idx >= 0) {
        spop_ack_set_constant(
            &answer->ack, &answer->request->limits[verdict->deciding_idx]->label->rule);
    } else if (verdict->rule != NULL) {
        set_text(answer, VARIABLE_RULE, verdict->rule, strlen(verdict->rule));
    }
}

/* HAProxy waits at least as long as the bucket says. */
static void set_delay(struct answer *answer)
{
    const struct verdict *verdict = &answer->request->verdict;
    if (verdict->action == ACTION_DELAY) {
        int64_t delay_us = answer->request->take.charges[verdict->deciding_idx]
                               .answer.delay_us;
        set_number_if(answer, VARIABLE_DELAY_MS, div_up(delay_us, US_PER_MS));
    }
}

static void set_status(struct answer *answer)
{
    const struct decide_options *options = answer->request->decide->options;
    const struct verdict *verdict = &answer->request->verdict;
    if (verdict->is_denied) {
        const struct spop_constant *status = verdict->status
                                                     == VERDICT_STATUS_TOO_MANY_REQUESTS
                                                 ? &options->too_many
                                             : verdict->status
                                                     == VERDICT_STATUS_UNAVAILABLE
                                                 ? &options->unavailable
                                                 : &options->forbidden;
        spop_ack_set_constant(&answer->ack, status);
    }
}

static void set_variable(struct answer *answer, enum variable variable)
{
    const struct verdict *verdict = &answer->request->verdict;
    const struct decide_options *options = answer->request->decide->options;
    switch (variable) {
    case VARIABLE_ACTION:
        spop_ack_set_constant(&answer->ack, &options->actions[verdict->action]);
        return;
    case VARIABLE_DENY:
        spop_ack_set_constant(&answer->ack, &options->denials[verdict->is_denied]);
        return;
    case VARIABLE_STATUS:
        set_status(answer);
        return;
    case VARIABLE_RULE:
        set_rule(answer);
        return;
    case VARIABLE_LIMIT:
    case VARIABLE_REMAINING:
    case VARIABLE_RESET:
        set_shown(answer, variable);
        return;
    case VARIABLE_RETRY_AFTER:
        set_number_if(answer, variable, answer->request->retry_after_s);
        return;
    case VARIABLE_DELAY_MS:
        set_delay(answer);
        return;
    case VARIABLE_RATELIMIT:
        set_built(answer, variable, add_ratelimit, DECIDE_FIELD_BYTES_MAX);
        return;
    case VARIABLE_POLICY:
        set_built(answer, variable, add_policy, DECIDE_FIELD_BYTES_MAX);
        return;
    case VARIABLE_PROBLEM:
        if (verdict->is_denied) {
            set_built(answer, variable, add_problem, DECIDE_PROBLEM_BYTES_MAX);
        }
        return;
    case VARIABLE_REASON:
        if (verdict->reason != REASON_NONE) {
            spop_ack_set_constant(&answer->ack, &options->reasons[verdict->reason]);
        }
        return;
    case VARIABLE_FALLBACK:
        if (verdict->is_fallback) {
            spop_ack_set_constant(&answer->ack, &options->fallback);
        }
        return;
    case VARIABLE_RECEIPT:
        if (answer->request->settled != 0) {
            set_built(answer, variable, add_receipt, RECEIPT_BYTES_MAX);
        }
        return;
    case VARIABLE_SHADOW:
        set_built(answer, variable, add_shadow, DECIDE_SHADOW_BYTES_MAX);
        return;
    }
}

static void encode_text(const struct decide_options *options, enum variable variable,
                        const char *text, struct spop_constant *action)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
    spop_constant_init(action, &options->encoded[variable], &value);
}

static void encode_status(const struct decide_options *options, int status,
                          struct spop_constant *constant)
{
    struct spop_value value = {.type = SPOP_VALUE_INT64, .integer = (uint64_t)status};
    spop_constant_init(constant, &options->encoded[VARIABLE_STATUS], &value);
}

void decide_options_init(struct decide_options *options, variable_set variables)
{
    memset(options, 0, sizeof(*options));
    options->variables = variables;
    options->deadline_us = DECIDE_DEADLINE_US;
    for (int i = 0; i < VARIABLES_N; i++) {
        spop_variable_init(&options->encoded[i], SPOP_SCOPE_TXN,
                           variable_text((enum variable)i));
    }
    encode_status(options, VERDICT_STATUS_FORBIDDEN, &options->forbidden);
    encode_status(options, VERDICT_STATUS_TOO_MANY_REQUESTS, &options->too_many);
    encode_status(options, VERDICT_STATUS_UNAVAILABLE, &options->unavailable);
    for (int i = 0; i < ACTIONS_N; i++) {
        encode_text(options, VARIABLE_ACTION, action_text((enum action)i),
                    &options->actions[i]);
    }
    for (int i = 0; i < REASONS_N; i++) {
        encode_text(options, VARIABLE_REASON, reason_text((enum reason)i),
                    &options->reasons[i]);
    }
    struct spop_value yes = {.type = SPOP_VALUE_BOOL, .boolean = true};
    spop_constant_init(&options->fallback, &options->encoded[VARIABLE_FALLBACK], &yes);
    for (int i = 0; i < 2; i++) {
        struct spop_value denial = {.type = SPOP_VALUE_BOOL, .boolean = i == 1};
        spop_constant_init(&options->denials[i], &options->encoded[VARIABLE_DENY],
                           &denial);
    }
}

void decide_answer(const struct decide_request *request, struct spop_writer *out,
                   size_t frame_bytes_max)
{
    struct counters *counters = request->counters;
    struct answer answer = {.request = request};
    spop_ack_begin(&answer.ack, out, request->stream_id, request->frame_id,
                   frame_bytes_max);
    if (request->is_neutral) {
        counter_add(counters, COUNTER_ACKS_NEUTRAL, 1);
    } else {
        for (variable_set left = request->decide->options->variables; left != 0;
             left &= left - 1) {
            set_variable(&answer, (enum variable)__builtin_ctz(left));
        }
    }
    if (answer.ack.n_left_out > 0) {
        counter_add(counters, COUNTER_ACTIONS_LEFT_OUT, answer.ack.n_left_out);
    }
    spop_ack_end(&answer.ack);
    counter_add(counters, COUNTER_ACKS, 1);
}
