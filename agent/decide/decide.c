#include "agent/decide/decide.h"

#include <string.h>

#include "rules/bytes.h"
#include "rules/key_text.h"
#include "spop/bytes.h"
#include "spop/notify.h"

#include "agent/decide/settle.h"
#include "agent/decide/text.h"

static const char check_message[] = "ratelimit-check";
static const char peek_message[] = "ratelimit-peek";
static const char settle_message[] = "ratelimit-settle";
static const char domain_argument[] = "domain";
static const char receipt_argument[] = "receipt";

/* spop_bytes_is for a length known when compiled. */
static bool is_text(struct spop_bytes bytes, const char *text, size_t text_len)
{
    return bytes.len == text_len && memcmp(bytes.ptr, text, text_len) == 0;
}

static struct rules_value number_value(char *buf, struct spop_value value)
{
    struct text text = text_in(buf, DECIDE_NUMBER_BYTES_MAX);
    int64_t number = 0;
    if (spop_value_int64(&value, &number)) {
        text_add_int64(&text, number);
    } else { /* a UINT64 beyond INT64_MAX: 19 or 20 digits */
        text_add_int64(&text, (int64_t)(value.integer / 10));
        text_add_int64(&text, (int64_t)(value.integer % 10));
    }
    struct rules_bytes bytes = {.ptr = (const uint8_t *)buf, .len = text.len};
    return (struct rules_value){.type = RULES_TEXT, .bytes = bytes};
}

static struct rules_value bytes_value(enum rules_value_type type,
                                      struct spop_bytes bytes)
{
    return (struct rules_value){
        .type = bytes.len > 0 ? type : RULES_ABSENT,
        .bytes = {.ptr = bytes.ptr, .len = bytes.len},
    };
}

/* The descriptor that an argument's value makes; `buf` holds the text of a number. */
static inline struct rules_value descriptor_value(char *buf, struct spop_value value)
{
    static const char *const booleans[] = {"false", "true"};
    switch (value.type) {
    case SPOP_VALUE_NULL:
        break;
    case SPOP_VALUE_BOOL:
        return bytes_value(RULES_TEXT, spop_bytes_view(booleans[value.boolean]));
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        return number_value(buf, value);
    case SPOP_VALUE_IPV4:
    case SPOP_VALUE_IPV6:
        return bytes_value(RULES_ADDRESS, value.bytes);
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        return bytes_value(RULES_TEXT, value.bytes);
    }
    return (struct rules_value){.type = RULES_ABSENT};
}

/* What is absent in a later message does not take away what an earlier one said. */
static void bind_descriptor(struct decide_request *request, unsigned slot,
                            struct spop_value value)
{
    struct decide_room *room = decide_room(request->decide);
    struct rules_value descriptor = descriptor_value(room->numbers[slot], value);
    if (descriptor.type != RULES_ABSENT) {
        room->descriptors.values[slot] = descriptor;
    }
}

/* Whether a `domain` argument means this set: absent does, as does its name. */
static bool is_own_domain(const struct decide_set *set, struct spop_value value)
{
    char number[DECIDE_NUMBER_BYTES_MAX];
    struct rules_value domain = descriptor_value(number, value);
    struct spop_bytes bytes = {.ptr = domain.bytes.ptr, .len = domain.bytes.len};
    return domain.type == RULES_ABSENT
           || (domain.type == RULES_TEXT && spop_bytes_is(bytes, set->domain));
}

static enum decide_role find_role(struct spop_bytes name)
{
    if (is_text(name, domain_argument, sizeof(domain_argument) - 1)) {
        return DECIDE_DOMAIN;
    }
    return is_text(name, receipt_argument, sizeof(receipt_argument) - 1)
               ? DECIDE_RECEIPT
               : DECIDE_NO_ROLE;
}

static void learn_argument(const struct decide_set *set, struct spop_bytes name,
                           struct decide_argument *known)
{
    struct rules_bytes bytes = {.ptr = name.ptr, .len = name.len};
    if (name.len > sizeof(known->name)) {
        *known = (struct decide_argument){0};
        return;
    }
    known->slot_after = (uint8_t)(rules_set_slot(set->rules, bytes) + 1);
    known->role = (uint8_t)find_role(name);
    known->name_len = (uint8_t)name.len;
    memcpy(known->name, name.ptr, name.len);
}

/* What a name means that stood last, or stands now, where `known` remembers it. */
static inline void recall_argument(const struct decide_set *set, struct spop_bytes name,
                                   struct decide_argument *known)
{
    struct rules_bytes bytes = {.ptr = name.ptr, .len = name.len};
    struct rules_bytes last = {.ptr = known->name, .len = known->name_len};
    if (!rules_bytes_equal(bytes, last)) {
        learn_argument(set, name, known);
    }
}

static void bind_receipt(struct decide_request *request, struct spop_value value)
{
    bool is_bytes = value.type == SPOP_VALUE_STRING || value.type == SPOP_VALUE_BINARY;
    decide_room(request->decide)->receipt = is_bytes ? value.bytes
                                                     : (struct spop_bytes){0};
}

/* Read the arguments of one message; false when the message is for another domain.
 * Errors of the payload stay in the iterator. */
NOINLINE static bool bind_arguments(struct decide_request *request,
                                    struct spop_notify *it)
{
    const struct decide_set *set = request->decide->set;
    struct decide_argument *known = request->decide->known;
    const struct decide_argument *last = known + DECIDE_ARGUMENTS_KNOWN - 1;
    bool is_ours = true;
    struct spop_arg arg;
    struct spop_notify args = *it; /* a copy whose address goes nowhere: in registers */
    while (spop_notify_next_arg(&args, &arg) == SPOP_OK) {
        recall_argument(set, arg.name, known);
        if (known->slot_after > 0) {
            bind_descriptor(request, known->slot_after - 1U, arg.value);
        }
        if (known->role == DECIDE_DOMAIN) {
            is_ours = is_own_domain(set, arg.value);
        } else if (known->role == DECIDE_RECEIPT) {
            bind_receipt(request, arg.value);
        }
        known += known < last;
    }
    *it = args;
    return is_ours;
}

/* Messages that mean something. */
enum {
    HAS_CHECK = 1,
    HAS_PEEK = 2,
    HAS_SETTLE = 4,
};

static unsigned message_bit(struct spop_bytes name)
{
    if (is_text(name, check_message, sizeof(check_message) - 1)) {
        return HAS_CHECK;
    }
    if (is_text(name, settle_message, sizeof(settle_message) - 1)) {
        return HAS_SETTLE;
    }
    return is_text(name, peek_message, sizeof(peek_message) - 1) ? HAS_PEEK : 0;
}

/* Several messages in one NOTIFY are one request: their arguments add up. With a check
 * among them it is charged; beside a question nothing is settled: what is asked comes
 * before a response. */
static bool bind_messages(struct decide_request *request, struct spop_bytes payload)
{
    struct counters *counters = request->counters;
    struct spop_notify it;
    spop_notify_init(&it, payload);
    unsigned has = 0;
    bool is_ours = true;
    struct spop_message message;
    enum spop_status status = spop_notify_next_message(&it, &message);
    for (; status == SPOP_OK; status = spop_notify_next_message(&it, &message)) {
        unsigned bit = message_bit(message.name);
        if (bit != 0) {
            has |= bit;
            is_ours = bind_arguments(request, &it) && is_ours;
        } else {
            counter_add(counters, COUNTER_MESSAGES_UNKNOWN, 1);
        }
    }
    if (!is_ours) {
        counter_add(counters, COUNTER_DOMAIN_MISMATCHES, 1);
    }
    request->is_neutral = (has & (HAS_CHECK | HAS_PEEK)) == 0 || !is_ours;
    request->is_settle = has == HAS_SETTLE && is_ours;
    request->take.is_peek = (has & HAS_CHECK) == 0;
    return status == SPOP_END;
}

_Static_assert((int)RULES_HITS_MAX <= (int)STORE_CHARGES_MAX, "a charge for each hit");
_Static_assert((int)RULES_LIMIT_ID_BYTES == (int)STORE_LIMIT_ID_BYTES, "one digest");

/* A rule in shadow charges what it would charge if enforced: nothing when one of its limits
 * refuses. */
static uint8_t tie_of(const struct decide_request *request, const struct rules_hit *hit,
                      const struct decide_limit *limit)
{
    bool is_tied = hit->is_shadow && limit->exceeded >= ACTION_REJECT;
    return is_tied ? (uint8_t)(hit - decide_room(request->decide)->result.hits + 1) : 0;
}

size_t decide_print_name(struct decide *decide, const struct rules_hit *hit,
                         const struct decide_limit *limit, char *out)
{
    const struct decide_home *home = limit->home;
    struct decide_room *room = decide_room(decide);
    struct key_style style = {
        .is_hashed = home->is_hashed,
        .secret = decide->options->key_secret,
    };
    struct key_text tag = {.ptr = room->tag_text};
    struct key_text key = {
        .ptr = room->key_text,
        .len = rules_key_text(hit->key, room->key_text),
    };
    if (home->tag_parts != 0) {
        tag.len = rules_key_parts_text(hit->key, home->tag_parts, room->tag_text);
    }
    return key_write(&home->form, &style, key, home->tag_parts != 0 ? &tag : NULL, out);
}

static void add_charge(struct decide_request *request, const struct rules_hit *hit,
                       const struct rules_limit *rules_limit)
{
    struct store_take *take = &request->take;
    const struct decide_limit *limit = &request->decide->set->limits[rules_limit->idx];
    ENSURE(take->n_charges < STORE_CHARGES_MAX);
    unsigned at = take->n_charges++;
    request->limits[at] = limit;
    request->exceeded[at] = limit->exceeded;
    request->shadow |= (uint32_t)hit->is_shadow << at;
    request->settled |= (uint32_t)hit->rule->is_settled << at;
    request->advertised |= (uint32_t)(hit->rule->is_advertised && !hit->is_shadow)
                           << at;
    /* One by one: the rest is the store's to fill. */
    struct store_charge *charge = &take->charges[at];
    charge->limit = &limit->limit;
    charge->limit_id = rules_limit->id;
    charge->key = hit->key.ptr;
    charge->key_bytes = hit->key.len;
    charge->cost = hit->cost;
    charge->is_lenient = hit->is_shadow || limit->exceeded < ACTION_REJECT;
    charge->tie = tie_of(request, hit, limit);
    charge->source = STORE_COUNTED;
    charge->home = NULL;
    if (limit->home != NULL) {
        charge->home = &limit->home->home;
        charge->name = decide_room(request->decide)->names[at];
        charge->name_bytes = decide_print_name(request->decide, hit, limit,
                                               decide_room(request->decide)->names[at]);
        charge->is_shadow = hit->is_shadow;
        charge->count_idx = limit->base_idx;
    }
}

static void add_charges(struct decide_request *request)
{
    const struct rules_result *result = &decide_room(request->decide)->result;
    request->take.n_charges = 0;
    request->take.failure = STORE_NO_FAILURE;
    request->take.is_prepared = false;
    request->shadow = 0;
    request->advertised = 0;
    request->settled = 0;
    for (uint32_t i = 0; i < result->n_hits; i++) {
        const struct rules_hit *hit = &result->hits[i];
        for (uint32_t j = 0; j < hit->n_limits; j++) {
            add_charge(request, hit, &hit->limits[j]);
        }
    }
}

static void count_evaluation(struct counters *counters,
                             const struct rules_result *result)
{
    if (result->n_matched == 0) {
        counter_add(counters, COUNTER_REQUESTS_UNMATCHED, 1);
    }
    if (result->is_cut) {
        counter_add(counters, COUNTER_REQUESTS_CUT, 1);
    }
    if (result->is_path_as_it_stands) {
        counter_add(counters, COUNTER_PATHS_AS_THEY_STAND, 1);
    }
    if (result->n_skipped_no_key > 0) {
        counter_add(counters, COUNTER_KEYS_MISSING, result->n_skipped_no_key);
    }
    if (result->n_costs_raised > 0) {
        counter_add(counters, COUNTER_COSTS_RAISED, result->n_costs_raised);
    }
    if (result->n_costs_lowered > 0) {
        counter_add(counters, COUNTER_COSTS_LOWERED, result->n_costs_lowered);
    }
    for (uint32_t i = 0; i < result->n_hits; i++) {
        if (result->hits[i].is_address_standing_in) {
            counter_add(counters, COUNTER_KEYS_BY_ADDRESS, 1);
        }
    }
}

static enum outcome outcome_of(const struct store_charge *charge, bool is_shadow)
{
    if (charge->is_charged) {
        return OUTCOME_CHARGED;
    }
    if (charge->answer.is_allowed) {
        return OUTCOME_PASSED;
    }
    if (is_shadow) {
        return OUTCOME_WOULD_REFUSE;
    }
    return charge->is_lenient ? OUTCOME_EXCEEDED : OUTCOME_REFUSED;
}

static enum counter counter_of_verdict(bool is_allowed)
{
    return is_allowed ? COUNTER_REQUESTS_ALLOWED : COUNTER_REQUESTS_REFUSED;
}

static void count_decision(struct counters *counters,
                           const struct decide_request *request)
{
    const struct store_take *take = &request->take;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        if (charge->source != STORE_UNASKED) {
            counter_outcome(counters, request->limits[i]->base_idx,
                            outcome_of(charge, (request->shadow >> i & 1) != 0));
        }
    }
    counter_add(counters, counter_of_verdict(take->is_allowed), 1);
}

static bool is_refusing(const struct store_charge *charge)
{
    return !charge->answer.is_allowed && !charge->is_lenient;
}

/* The longest wait of all that refuse, not only of those whose action won: sooner the
 * request would be refused again. */
static int64_t retry_wait_s(const struct decide_request *request)
{
    const struct store_take *take = &request->take;
    const struct store_charge *longest = NULL;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        if (is_refusing(charge)
            && (longest == NULL
                || charge->answer.retry_us > longest->answer.retry_us)) {
            longest = charge;
        }
    }
    return longest != NULL
               ? retry_after_s(&request->decide->options->jitter, longest, take->now)
               : 0;
}

/* What is used counts with this request. */
static uint32_t softly_exceeded(const struct decide_request *request)
{
    uint32_t soft = 0;
    for (unsigned i = 0; i < request->take.n_charges; i++) {
        const struct store_charge *charge = &request->take.charges[i];
        int64_t amount = request->limits[i]->soft_amount;
        bool is_past = amount >= 0 && charge->answer.is_allowed
                       && charge->limit->size - charge->answer.remaining > amount;
        soft |= (uint32_t)is_past << i;
    }
    return soft;
}

static void on_taken(struct store_take *take)
{
    struct decide_request *request = CONTAINER_OF(take, struct decide_request, take);
    uint32_t by_policy = verdict_by_policy(take);
    request->advertised &= ~by_policy; /* what is on one host is nobody's business */
    struct verdict_circumstances circumstances = {
        .is_unmatched = request->is_unmatched,
        .is_keyless = request->is_keyless,
        .is_cut = request->is_cut,
        .shadow = request->shadow,
        .soft = softly_exceeded(request) & ~by_policy,
        .advertised = request->advertised,
        .by_policy = by_policy,
        .exceeded = request->exceeded,
    };
    verdict_combine(take, &circumstances, &request->verdict);
    request->retry_after_s = retry_wait_s(request);
    if (!take->is_peek) {
        count_decision(request->counters, request);
    }
    request->done(request);
}

/* Lists, and keys that are missing, decide before any counter is touched. */
static bool decide_without_limits(struct decide_request *request)
{
    const struct rules_result *result = &decide_room(request->decide)->result;
    struct counters *counters = request->counters;
    enum counter counter = COUNTER_REQUESTS_KEYLESS;
    if (result->listed == RULES_BLOCKED) {
        verdict_set(&request->verdict, ACTION_BLOCK, REASON_BLOCKLIST, "list.block");
        counter = COUNTER_REQUESTS_BLOCKLISTED;
    } else if (result->listed == RULES_ALLOWED) {
        verdict_set(&request->verdict, ACTION_ALLOW, REASON_ALLOWLIST, "list.allow");
        counter = COUNTER_REQUESTS_ALLOWLISTED;
    } else if (result->keyless != NULL) {
        verdict_set(&request->verdict, ACTION_REJECT, REASON_NO_KEY,
                    result->keyless->name);
    } else {
        return false;
    }
    if (!request->take.is_peek) {
        counter_add(counters, counter, 1);
        counter_add(counters, counter_of_verdict(!request->verdict.is_denied), 1);
    }
    request->take.n_charges = 0;
    request->retry_after_s = 0;
    return true;
}

/* Evaluate the descriptors, and set what is to be charged. */
static void find_charges(struct decide_request *request, struct instant now)
{
    struct decide *decide = request->decide;
    struct decide_room *room = decide_room(decide);
    rules_eval(decide->set->rules, &room->descriptors, &room->result);
    request->is_decided = decide_without_limits(request);
    if (request->is_decided) {
        return;
    }
    if (!request->take.is_peek) {
        count_evaluation(request->counters, &room->result);
    }
    request->is_unmatched = room->result.n_matched == 0;
    request->is_keyless = room->result.n_hits == 0 && room->result.n_skipped_no_key > 0;
    request->is_cut = room->result.is_cut;
    request->take.now = now;
    request->take.counters = request->counters;
    request->take.done = on_taken;
    add_charges(request);
    store_prepare(decide->store, &request->take);
}

void decide_change(struct decide *decide, const struct decide_set *set,
                   const struct rules_clients *clients, struct counters *counters)
{
    ENSURE(decide->n_begun == 0);
    decide->set = set;
    decide->clients = clients;
    decide->counters = counters;
    memset(decide->known, 0, sizeof(decide->known));
}

void decide_peek(struct decide *decide, struct decide_request *request,
                 struct instant now, decide_done_fn *done, void *context)
{
    *request = (struct decide_request){
        .decide = decide,
        .counters = decide->counters,
        .take =
            {
                .deadline = instant_add_us(now, decide->options->deadline_us),
                .is_peek = true,
            },
    };
    decide->n_begun++;
    find_charges(request, now);
    decide_finish(request, done, context);
}

bool decide_begin(struct decide *decide, struct decide_request *request,
                  const struct spop_event *notify, struct instant now)
{
    ENSURE(decide->n_begun < DECIDE_BEGUN_MAX);
    decide->room_idx = (decide->room_idx + 1) % DECIDE_BEGUN_MAX;
    struct decide_room *room = decide_room(decide);
    request->decide = decide;
    request->counters = decide->counters;
    request->stream_id = notify->stream_id;
    request->frame_id = notify->frame_id;
    room->receipt = (struct spop_bytes){0};
    memset(room->descriptors.values, 0,
           rules_set_n_slots(decide->set->rules) * sizeof(room->descriptors.values[0]));
    if (!bind_messages(request, notify->payload)) {
        return false;
    }
    decide->n_begun++;
    if (decide->clients != NULL) {
        rules_clients_apply(decide->clients, decide->set->rules, &room->descriptors);
    }
    if (request->is_settle) {
        counter_add(decide->counters, COUNTER_SETTLES, 1);
        settle_receipt(decide, now);
    }
    if (request->is_neutral) {
        request->is_decided = true;
        return true;
    }
    if (request->take.is_peek) {
        counter_add(decide->counters, COUNTER_PEEKS, 1);
    }
    find_charges(request, now);
    return true;
}

void decide_finish(struct decide_request *request, decide_done_fn *done, void *context)
{
    struct decide *decide = request->decide;
    decide->n_begun--;
    request->done = done;
    request->context = context;
    if (request->is_decided) {
        done(request);
    } else {
        store_take(decide->store, &request->take);
    }
}

bool decide_notify(struct decide *decide, struct decide_request *request,
                   const struct spop_event *notify, struct instant now,
                   decide_done_fn *done, void *context)
{
    bool is_begun = decide_begin(decide, request, notify, now);
    if (is_begun) {
        decide_finish(request, done, context);
    }
    return is_begun;
}
