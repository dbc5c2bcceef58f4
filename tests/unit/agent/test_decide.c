/* decide.c, answer.c and set.c: NOTIFY payloads in, ACK frames out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/decider.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const char rules[] = "version: 1\n"
                            "domain: api\n"
                            "rules:\n"
                            "  - name: per_key\n"
                            "    match: { path: /v1/** }\n"
                            "    key: [key]\n"
                            "    limit: { requests: 2, per: 10s, burst: 2 }\n"
                            "  - name: login\n"
                            "    match: { path: /v1/login }\n"
                            "    key: [ip]\n"
                            "    limit: { requests: 3, per: 60s }\n"
                            "    advertise: false\n"
                            "  - name: everybody\n"
                            "    key: []\n"
                            "    limit: { requests: 1000, per: 1s }\n"
                            "  - name: trial\n"
                            "    match: { status: [401, 403] }\n"
                            "    key: [key]\n"
                            "    limit: { requests: 1, per: 60s }\n"
                            "    mode: shadow\n";

static const uint8_t client[4] = {192, 0, 2, 1};

static int set_up(void **context)
{
    static struct decider d;
    *context = &d;
    return decider_init(&d, rules) ? 0 : 1;
}

static int tear_down(void **context)
{
    decider_fini(*context);
    return 0;
}

static void ask(struct decider *d, const char *message, const char *path,
                const char *key)
{
    decider_begin(d);
    decider_message(d, message);
    decider_text(d, "path", path);
    decider_text(d, "key", key);
    decider_ipv4(d, "ip", client);
    assert_true(decider_decide(d, START_US));
}

static void request(struct decider *d, const char *path, const char *key)
{
    ask(d, "ratelimit-check", path, key);
}

static void peek(struct decider *d, const char *path, const char *key)
{
    ask(d, "ratelimit-peek", path, key);
}

static void begin(struct decider *d, struct decide_request *begun, const char *key)
{
    struct spop_event notify = {.type = SPOP_EVENT_NOTIFY};
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/v1/things");
    decider_text(d, "key", key);
    notify.payload = (struct spop_bytes){.ptr = d->payload_buf, .len = d->payload.len};
    assert_true(
        decide_begin(&d->decide, begun, &notify, (struct instant){.us = START_US}));
}

static void expect_key(const struct decide_request *begun, const char *key)
{
    const struct store_charge *charge = &begun->take.charges[0];
    size_t len = strlen(key);
    assert_true(charge->key_bytes > len);
    assert_memory_equal(charge->key + charge->key_bytes - len, key, len);
}

static void ignore_done(struct decide_request *finished)
{
    (void)finished;
}

static void one_is_begun_before_the_last_is_finished(void **context)
{
    static struct decide_request other;
    struct decider *d = *context;
    for (int i = 0; i < 2; i++) {
        begin(d, &d->request, "a");
        begin(d, &other, "b");
        expect_key(&d->request, "a");
        expect_key(&other, "b");
        decide_finish(&d->request, ignore_done, NULL);
        decide_finish(&other, ignore_done, NULL);
        assert_false(d->request.verdict.is_denied);
        assert_false(other.verdict.is_denied);
    }
    request(d, "/v1/things", "a");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    request(d, "/v1/things", "b");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    request(d, "/v1/things", "c");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
}

static void allow_says_what_is_left(void **context)
{
    struct decider *d = *context;
    request(d, "/v1/things", "a");
    assert_int_equal(d->ack.stream_id, 7);
    assert_int_equal(d->ack.frame_id, 1);
    assert_string_equal(d->ack.actions[0].name, "action");
    assert_string_equal(d->ack.actions[0].text, "allow");
    assert_int_equal(d->ack.actions[0].scope, 2);
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "per_key");
    assert_int_equal(decoded_ack_number(&d->ack, "limit"), 2);
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 1);
    assert_int_equal(decoded_ack_number(&d->ack, "reset"), 5);
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"), "\"per_key\";r=1;t=5");
    assert_string_equal(decoded_ack_text(&d->ack, "policy"), "\"per_key\";q=2;w=10");
    assert_null(decoded_ack_find(&d->ack, "status"));
    assert_null(decoded_ack_find(&d->ack, "retry_after"));
    assert_null(decoded_ack_find(&d->ack, "problem"));
    assert_null(decoded_ack_find(&d->ack, "reason"));
    assert_null(decoded_ack_find(&d->ack, "shadow"));
}

static void refusal_says_why_and_for_how_long(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 3; i++) {
        request(d, "/v1/things", "a");
    }
    assert_string_equal(d->ack.actions[0].text, "reject");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    assert_int_equal(decoded_ack_number(&d->ack, "status"), 429);
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "per_key");
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "limit");
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 5);
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 0);
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"), "\"per_key\";r=0;t=5");
    assert_string_equal(
        decoded_ack_text(&d->ack, "problem"),
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
        "\"title\":\"Quota Exceeded\",\"status\":429,"
        "\"detail\":\"Too many requests; try again in 5 s.\","
        "\"violated-policies\":[\"per_key\"],\"retry_after_seconds\":5}");
    request(d, "/v1/things", "b");
    assert_string_equal(d->ack.actions[0].text, "allow");
}

static void limit_that_is_not_advertised_stays_out_of_fields_and_body(void **context)
{
    struct decider *d = *context;
    static const char *const keys[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        request(d, "/v1/login", keys[i]);
    }
    assert_string_equal(d->ack.actions[0].text, "reject");
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "login");
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"), "");
    assert_string_equal(decoded_ack_text(&d->ack, "policy"), "\"per_key\";q=2;w=10");
    assert_null(decoded_ack_find(&d->ack, "limit"));
    assert_null(decoded_ack_find(&d->ack, "remaining"));
    assert_null(decoded_ack_find(&d->ack, "reset"));
    assert_null(strstr(decoded_ack_text(&d->ack, "problem"), "violated-policies"));
    assert_non_null(
        strstr(decoded_ack_text(&d->ack, "problem"), "retry_after_seconds"));
}

static void shadow_rule_is_named_and_refuses_nobody(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 2; i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "key", "a");
        struct spop_value status = {.type = SPOP_VALUE_INT64};
        status.integer = 401;
        decider_arg(d, "status", &status);
        assert_true(decider_decide(d, START_US));
        assert_string_equal(d->ack.actions[0].text, "allow");
        assert_string_equal(decoded_ack_text(&d->ack, "shadow"), i == 0 ? "" : "trial");
        assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"), "");
        assert_string_equal(decoded_ack_text(&d->ack, "rule"), "everybody");
    }
}

static void several_check_messages_are_one_request(void **context)
{
    struct decider *d = *context;
    decider_begin(d);
    decider_message(d, "something-else");
    decider_text(d, "x", "y");
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/v1/x");
    decider_message(d, "ratelimit-check");
    decider_text(d, "key", "a");
    assert_true(decider_decide(d, START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "per_key");
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 1);
    assert_int_equal(counter_get(d->decide.counters, COUNTER_MESSAGES_UNKNOWN), 1);
}

static uint64_t counted(const struct decider *d, enum counter counter)
{
    return counter_get(d->decide.counters, counter);
}

static void peek_says_what_a_check_would_and_charges_nothing(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 5; i++) {
        peek(d, "/v1/x", "a");
        assert_string_equal(decoded_ack_text(&d->ack, "action"), "allow");
        assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
        assert_string_equal(decoded_ack_text(&d->ack, "rule"), "per_key");
        assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 2);
        assert_int_equal(decoded_ack_number(&d->ack, "reset"), 0);
        assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"),
                            "\"per_key\";r=2;t=10");
    }
    request(d, "/v1/x", "a");
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 1);
    request(d, "/v1/x", "a");
    for (int i = 0; i < 5; i++) {
        peek(d, "/v1/x", "a");
        assert_string_equal(decoded_ack_text(&d->ack, "action"), "reject");
        assert_int_equal(decoded_ack_number(&d->ack, "status"), 429);
        assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 5);
        assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 0);
        assert_string_equal(decoded_ack_text(&d->ack, "shadow"), "");
    }
}

static void peeks_are_counted_apart(void **context)
{
    struct decider *d = *context;
    peek(d, "/v1/x", "a");
    peek(d, "/nowhere", "a");
    assert_int_equal(counted(d, COUNTER_PEEKS), 2);
    assert_int_equal(counted(d, COUNTER_REQUESTS_ALLOWED), 0);
    assert_int_equal(counted(d, COUNTER_LOCAL_FILLED), 0);
    for (uint32_t i = 0; i < d->decide.set->n_limits; i++) {
        for (int j = 0; j < OUTCOMES_N; j++) {
            assert_int_equal(counter_get_outcome(d->decide.counters, i,
                                                 (enum outcome)j),
                             0);
        }
    }
    assert_int_equal(counted(d, COUNTER_ACKS), 2);
    assert_int_equal(counted(d, COUNTER_ACKS_NEUTRAL), 0);
}

static void peek_beside_a_check_is_a_check(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 2; i++) {
        decider_begin(d);
        decider_message(d, i == 0 ? "ratelimit-peek" : "ratelimit-check");
        decider_text(d, "path", "/v1/x");
        decider_message(d, i == 0 ? "ratelimit-check" : "ratelimit-peek");
        decider_text(d, "key", "a");
        assert_true(decider_decide(d, START_US));
        assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 1 - i);
    }
    assert_int_equal(counted(d, COUNTER_PEEKS), 0);
    assert_int_equal(counted(d, COUNTER_REQUESTS_ALLOWED), 2);
}

static void what_is_absent_later_takes_nothing_away(void **context)
{
    struct decider *d = *context;
    struct spop_value null = {.type = SPOP_VALUE_NULL};
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/v1/x");
    decider_text(d, "key", "a");
    decider_message(d, "ratelimit-check");
    decider_arg(d, "key", &null);
    decider_text(d, "path", "");
    assert_true(decider_decide(d, START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "per_key");
}

static void assert_neutral(const struct decider *d)
{
    assert_int_equal(d->ack.n_actions, 1);
    assert_true(d->ack.actions[0].is_unset);
    assert_string_equal(d->ack.actions[0].name, "_");
}

static void nothing_to_decide_is_a_neutral_ack(void **context)
{
    struct decider *d = *context;
    decider_begin(d);
    assert_true(decider_decide(d, START_US));
    assert_neutral(d);
    decider_message(d, "ratelimit-nonsense");
    assert_true(decider_decide(d, START_US));
    assert_neutral(d);
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "domain", "other");
    assert_true(decider_decide(d, START_US));
    assert_neutral(d);
    assert_int_equal(counter_get(d->decide.counters, COUNTER_DOMAIN_MISMATCHES), 1);
    assert_int_equal(counter_get(d->decide.counters, COUNTER_ACKS_NEUTRAL), 3);
}

/* The file's domain, NULL and empty are ours; anything else of any type is not. */
static void own_domain_is_decided(void **context)
{
    struct decider *d = *context;
    static const uint8_t bytes[16] = {0};
    const struct spop_bytes name = {.ptr = (const uint8_t *)"api", .len = 3};
    for (int type = SPOP_VALUE_NULL; type <= SPOP_VALUE_BINARY; type++) {
        struct spop_value value = {.type = (enum spop_value_type)type};
        bool is_text = type >= SPOP_VALUE_STRING;
        if (is_text) {
            value.bytes = name;
        } else if (type >= SPOP_VALUE_IPV4) {
            value.bytes.ptr = bytes;
            value.bytes.len = type == SPOP_VALUE_IPV4 ? 4 : 16;
        }
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_arg(d, "domain", &value);
        assert_true(decider_decide(d, START_US));
        bool is_ours = is_text || type == SPOP_VALUE_NULL;
        assert_string_equal(decoded_ack_text(&d->ack, "rule"),
                            is_ours ? "everybody" : "");
    }
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "domain", "");
    assert_true(decider_decide(d, START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "everybody");
}

static void malformed_payload_is_no_request(void **context)
{
    struct decider *d = *context;
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "key", "a");
    d->payload.len--;
    assert_false(decider_run(d, START_US));
    assert_int_equal(d->n_done, 0);
    assert_int_equal(counter_get(d->decide.counters, COUNTER_ACKS), 0);
}

/* Every type of value is an answer; NULL and empty are absent. */
static void every_type_of_value(void **context)
{
    struct decider *d = *context;
    static const uint8_t bytes[16] = {0};
    for (int type = SPOP_VALUE_NULL; type <= SPOP_VALUE_BINARY; type++) {
        struct spop_value value = {.type = (enum spop_value_type)type};
        if (type >= SPOP_VALUE_IPV4) {
            value.bytes.ptr = bytes;
            value.bytes.len = type == SPOP_VALUE_IPV4 ? 4 : 16;
        } else if (type >= SPOP_VALUE_INT32) {
            value.integer = type == SPOP_VALUE_UINT64 ? UINT64_MAX : 401;
        }
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "path", "/v1/x");
        decider_arg(d, "key", &value);
        decider_arg(d, "status", &value);
        assert_true(decider_decide(d, START_US));
        /* each is another key, or none at all: the address would take its place */
        bool is_absent = type == SPOP_VALUE_NULL;
        assert_string_equal(decoded_ack_text(&d->ack, "rule"),
                            is_absent ? "everybody" : "per_key");
    }
}

/* Four spellings of one address are one client, and one IPv6 network is another. */
static void spellings_of_an_address_are_one_key(void **context)
{
    struct decider *d = *context;
    static const uint8_t mapped[16] = {
        [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1};
    struct spop_value v4 = {.type = SPOP_VALUE_IPV4};
    v4.bytes = (struct spop_bytes){.ptr = client, .len = 4};
    struct spop_value v6 = {.type = SPOP_VALUE_IPV6};
    v6.bytes = (struct spop_bytes){.ptr = mapped, .len = 16};
    struct spop_value text = {.type = SPOP_VALUE_STRING};
    text.bytes = (struct spop_bytes){.ptr = (const uint8_t *)"192.0.2.1", .len = 9};
    struct spop_value mapped_text = {.type = SPOP_VALUE_STRING};
    mapped_text.bytes = (struct spop_bytes){.ptr = (const uint8_t *)"::ffff:192.0.2.1",
                                            .len = 16};
    const struct spop_value *spellings[] = {&v4, &v6, &text, &mapped_text};
    for (size_t i = 0; i < 4; i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "path", "/v1/login");
        decider_arg(d, "ip", spellings[i]);
        assert_true(decider_decide(d, START_US));
        assert_string_equal(d->ack.actions[0].text, i < 2 ? "allow" : "reject");
    }
}

static void missing_key_falls_to_the_address(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 3; i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "path", "/v1/x");
        decider_ipv4(d, "ip", client);
        assert_true(decider_decide(d, START_US));
        assert_string_equal(d->ack.actions[0].text, i < 2 ? "allow" : "reject");
    }
    assert_int_equal(counter_get(d->decide.counters, COUNTER_KEYS_BY_ADDRESS), 3);
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/v1/x");
    assert_true(decider_decide(d, START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "everybody");
    assert_int_equal(counter_get(d->decide.counters, COUNTER_KEYS_MISSING), 1);
}

static void refused_by_one_rule_is_not_charged_to_the_other(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 5; i++) {
        request(d, "/v1/login", "a"); /* two pass, three are refused by per_key */
    }
    request(d, "/v1/login", "b"); /* the third of `login` */
    assert_string_equal(d->ack.actions[0].text, "allow");
    request(d, "/v1/login", "c");
    assert_string_equal(d->ack.actions[0].text, "reject");
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "login");
}

static void outcomes_are_counted_by_limit(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 3; i++) {
        request(d, "/v1/things", "a");
    }
    const struct counters *c = d->decide.counters;
    assert_int_equal(counter_get_outcome(c, 0, OUTCOME_CHARGED), 2);
    assert_int_equal(counter_get_outcome(c, 0, OUTCOME_REFUSED), 1);
    assert_int_equal(counter_get_outcome(c, 2, OUTCOME_CHARGED), 2);
    assert_int_equal(counter_get_outcome(c, 2, OUTCOME_PASSED), 1);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_ALLOWED), 2);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_REFUSED), 1);
}

/* Only ever added, within its bound, and the same for one key in one window. */
static void jitter_is_bounded_and_stable(void **context)
{
    struct decider *d = *context;
    d->options.jitter.permille = 1000;
    d->options.jitter.secret[0] = 9;
    bool has_moved = false;
    for (int key = 0; key < 50; key++) {
        char name[8] = {'k', (char)('0' + key / 10), (char)('0' + key % 10)};
        int64_t first = 0;
        for (int i = 0; i < 5; i++) {
            request(d, "/v1/things", name);
            int64_t wait_s = decoded_ack_number(&d->ack, "retry_after");
            if (i < 2) {
                continue;
            }
            first = i == 2 ? wait_s : first;
            assert_int_equal(wait_s, first);
            assert_in_range(wait_s, 5, 10);
            has_moved = has_moved || wait_s > 5;
        }
    }
    assert_true(has_moved);
}

static void unmatched_request_is_allowed_with_its_reason(void **context)
{
    (void)context;
    static struct decider d;
    assert_true(decider_init(&d, "version: 1\ndomain: api\nrules:\n"
                                 "  - name: one\n    match: { path: /x }\n"
                                 "    key: [ip]\n"
                                 "    limit: { requests: 1, per: 60s }\n"));
    decider_begin(&d);
    decider_message(&d, "ratelimit-check");
    decider_text(&d, "path", "/y");
    assert_true(decider_decide(&d, START_US));
    assert_string_equal(d.ack.actions[0].text, "allow");
    assert_string_equal(decoded_ack_text(&d.ack, "reason"), "unmatched");
    assert_null(decoded_ack_find(&d.ack, "rule"));
    assert_int_equal(counter_get(d.decide.counters, COUNTER_REQUESTS_UNMATCHED), 1);
    decider_fini(&d);
}

/* In a frame too small for all, the decision comes first and the frame stays whole. */
static void small_frame_keeps_the_decision(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 3; i++) {
        request(d, "/v1/things", "a");
    }
    struct spop_writer out;
    spop_writer_init(&out, d->out_buf, sizeof(d->out_buf));
    decide_answer(&d->request, &out, SPOP_FRAME_SIZE_MIN);
    assert_true(out.len - SPOP_PREFIX_BYTES <= SPOP_FRAME_SIZE_MIN);
    struct spop_bytes frame = {.ptr = d->out_buf, .len = out.len};
    assert_true(decoded_ack_read(&d->ack, frame));
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    assert_null(decoded_ack_find(&d->ack, "problem"));
    assert_true(counter_get(d->decide.counters, COUNTER_ACTIONS_LEFT_OUT) > 0);
}

static void only_chosen_variables_are_sent(void **context)
{
    struct decider *d = *context;
    d->options.variables = VARIABLE_BIT(VARIABLE_DENY);
    request(d, "/v1/things", "a");
    assert_int_equal(d->ack.n_actions, 1);
    assert_string_equal(d->ack.actions[0].name, "deny");
}

static void cost_is_taken_from_an_argument(void **context)
{
    struct decider *d = *context;
    static const char export[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: export\n"
                                 "    key: [key]\n"
                                 "    cost: { from: rows, max: 500 }\n"
                                 "    limit: { requests: 1000, per: 1h }\n";
    static const uint64_t n_rows[] = {300, 900, 200, 1};
    static const char *const actions[] = {"allow", "allow", "allow", "reject"};
    decider_fini(d);
    assert_true(decider_init(d, export));
    for (size_t i = 0; i < ARRAY_LEN(n_rows); i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "key", "a");
        struct spop_value rows = {.type = SPOP_VALUE_INT64, .integer = n_rows[i]};
        decider_arg(d, "rows", &rows);
        assert_true(decider_decide(d, START_US));
        assert_string_equal(d->ack.actions[0].text, actions[i]);
    }
    assert_int_equal(counter_get(d->decide.counters, COUNTER_COSTS_LOWERED), 1);
}

static const char actions[] = "version: 1\n"
                              "domain: api\n"
                              "rules:\n"
                              "  - name: soft\n"
                              "    match: { path: /soft }\n"
                              "    key: [key]\n"
                              "    soft: 50%\n"
                              "    limit: { requests: 4, per: 60s }\n"
                              "  - name: warned\n"
                              "    match: { path: /warn }\n"
                              "    key: [key]\n"
                              "    action: warn\n"
                              "    limit: { requests: 1, per: 60s }\n"
                              "  - name: degraded\n"
                              "    match: { path: [/warn, /degrade] }\n"
                              "    key: [key]\n"
                              "    action: degrade\n"
                              "    limit: { requests: 2, per: 60s }\n"
                              "  - name: blocked\n"
                              "    match: { path: /block }\n"
                              "    key: [key]\n"
                              "    action: block\n"
                              "    limit: { requests: 1, per: 60s }\n";

/* A peek says so before. */
static void action_is(struct decider *d, const char *path, const char *action,
                      const char *rule)
{
    static const char *const messages[] = {"ratelimit-peek", "ratelimit-check"};
    for (int i = 0; i < 2; i++) {
        ask(d, messages[i], path, "a");
        assert_string_equal(d->ack.actions[0].text, action);
        assert_string_equal(decoded_ack_text(&d->ack, "rule"), rule);
    }
}

static void soft_limit_warns_past_its_share(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, actions));
    action_is(d, "/soft", "allow", "soft");
    action_is(d, "/soft", "allow", "soft");
    assert_null(decoded_ack_find(&d->ack, "reason"));
    action_is(d, "/soft", "warn", "soft");
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "limit");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
    assert_null(decoded_ack_find(&d->ack, "retry_after"));
    action_is(d, "/soft", "warn", "soft");
    action_is(d, "/soft", "reject", "soft");
}

/* Over a limit that warns or degrades a request goes on and is charged elsewhere. */
static void warned_and_degraded_requests_go_on(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, actions));
    action_is(d, "/warn", "allow", "warned");
    action_is(d, "/warn", "warn", "warned");
    action_is(d, "/degrade", "degrade", "degraded");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
    assert_null(decoded_ack_find(&d->ack, "status"));
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "limit");
    action_is(d, "/warn", "degrade", "degraded");
    struct counters *c = d->decide.counters;
    assert_int_equal(counter_get_outcome(c, 1, OUTCOME_EXCEEDED), 2);
    assert_int_equal(counter_get_outcome(c, 2, OUTCOME_EXCEEDED), 2);
    assert_int_equal(counter_get_outcome(c, 2, OUTCOME_CHARGED), 2);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_ALLOWED), 4);
}

static void blocked_request_is_forbidden(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, actions));
    action_is(d, "/block", "allow", "blocked");
    action_is(d, "/block", "block", "blocked");
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    assert_int_equal(decoded_ack_number(&d->ack, "status"), 403);
    assert_non_null(strstr(decoded_ack_text(&d->ack, "problem"),
                           "\"title\":\"Forbidden\",\"status\":403"));
}

static const char waits[] = "version: 1\n"
                            "domain: api\n"
                            "rules:\n"
                            "  - name: warned\n"
                            "    key: [key]\n"
                            "    action: warn\n"
                            "    limit: { requests: 1, per: 1h, burst: 1 }\n"
                            "  - name: blocked\n"
                            "    match: { path: /block }\n"
                            "    key: [key]\n"
                            "    action: block\n"
                            "    limit: { requests: 1, per: 2s, burst: 1 }\n"
                            "  - name: rejected\n"
                            "    key: [key]\n"
                            "    limit: { requests: 1, per: 10s, burst: 1 }\n";

/* What Retry-After says is never less than a `t` beside it, and is enough for all that
 * refuse. */
static void wait_is_that_of_all_that_refuse(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, waits));
    action_is(d, "/block", "allow", "warned");
    action_is(d, "/", "reject", "rejected");
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 10);
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"),
                        "\"rejected\";r=0;t=10");
    assert_null(strstr(decoded_ack_text(&d->ack, "problem"), "warned"));
    action_is(d, "/block", "block", "blocked");
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 10);
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"),
                        "\"blocked\";r=0;t=2, \"rejected\";r=0;t=10");
}

static const char trial[] = "version: 1\n"
                            "domain: api\n"
                            "rules:\n"
                            "  - name: trial\n"
                            "    key: [key]\n"
                            "    mode: shadow\n"
                            "    limits:\n"
                            "      - { name: burst, requests: 1, per: 10s }\n"
                            "      - { name: sustained, requests: 2, per: 1h }\n"
                            "  - name: eased\n"
                            "    key: [key]\n"
                            "    mode: shadow\n"
                            "    action: warn\n"
                            "    limits:\n"
                            "      - { name: burst, requests: 1, per: 10s }\n"
                            "      - { name: sustained, requests: 2, per: 1h }\n";

/* Enforced, the first rule would charge neither limit, the second would charge the other. */
static void shadow_charges_what_the_rule_would_charge_if_enforced(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, trial));
    for (int i = 0; i < 3; i++) {
        request(d, "/", "a");
        assert_string_equal(d->ack.actions[0].text, "allow");
    }
    assert_string_equal(decoded_ack_text(&d->ack, "shadow"),
                        "trial.burst,eased.burst,eased.sustained");
    struct counters *c = d->decide.counters;
    assert_int_equal(counter_get_outcome(c, 0, OUTCOME_WOULD_REFUSE), 2);
    assert_int_equal(counter_get_outcome(c, 1, OUTCOME_CHARGED), 1);
    assert_int_equal(counter_get_outcome(c, 1, OUTCOME_PASSED), 2);
    assert_int_equal(counter_get_outcome(c, 3, OUTCOME_CHARGED), 2);
}

static const char lists[] = "version: 1\n"
                            "domain: api\n"
                            "lists:\n"
                            "  block: { key: [stolen] }\n"
                            "  allow: { key: [monitor] }\n"
                            "rules:\n"
                            "  - name: strict\n"
                            "    key: [key]\n"
                            "    no_key: reject\n"
                            "    limit: { requests: 1, per: 1h }\n";

static void lists_decide_before_any_counter(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, lists));
    peek(d, "/", "stolen");
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "blocklist");
    peek(d, "/", "monitor");
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "allowlist");
    for (int i = 0; i < 2; i++) {
        request(d, "/", "stolen");
        assert_string_equal(d->ack.actions[0].text, "block");
        assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
        assert_int_equal(decoded_ack_number(&d->ack, "status"), 403);
        assert_string_equal(decoded_ack_text(&d->ack, "rule"), "list.block");
        assert_string_equal(decoded_ack_text(&d->ack, "reason"), "blocklist");
        assert_null(decoded_ack_find(&d->ack, "retry_after"));
        assert_string_equal(
            decoded_ack_text(&d->ack, "problem"),
            "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
            "\"detail\":\"Requests of this client are refused.\"}");
        request(d, "/", "monitor");
        assert_string_equal(d->ack.actions[0].text, "allow");
        assert_string_equal(decoded_ack_text(&d->ack, "rule"), "list.allow");
        assert_string_equal(decoded_ack_text(&d->ack, "reason"), "allowlist");
        assert_null(decoded_ack_find(&d->ack, "problem"));
    }
    struct counters *c = d->decide.counters;
    assert_int_equal(counter_get(c, COUNTER_LOCAL_FILLED), 0);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_BLOCKLISTED), 2);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_ALLOWLISTED), 2);
    assert_int_equal(counter_get(c, COUNTER_REQUESTS_REFUSED), 2);
}

static void request_without_its_key_is_refused(void **context)
{
    struct decider *d = *context;
    decider_fini(d);
    assert_true(decider_init(d, lists));
    request(d, "/", "");
    assert_string_equal(d->ack.actions[0].text, "reject");
    assert_int_equal(decoded_ack_number(&d->ack, "status"), 403);
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "strict");
    assert_string_equal(decoded_ack_text(&d->ack, "reason"), "no_key");
    assert_non_null(strstr(decoded_ack_text(&d->ack, "problem"), "whose it is.\"}"));
    request(d, "/", "a");
    assert_string_equal(d->ack.actions[0].text, "allow");
}

/* A plan changes how many, not what is counted: a changed plan waits out or gives more. */
static void plan_changes_the_numbers_of_one_counter(void **context)
{
    struct decider *d = *context;
    static const char plans[] = "version: 1\n"
                                "domain: api\n"
                                "rules:\n"
                                "  - name: default\n"
                                "    key: [key]\n"
                                "    limit: { requests: 2, per: 1h }\n"
                                "    plans: { partner: 2x, internal: unlimited }\n";
    static const struct {
        const char *plan;
        const char *action;
        int64_t remaining; /* -1: not said */
    } steps[] = {
        {"free", "allow", 1},      {"", "allow", 0},        {"", "reject", 0},
        {"partner", "allow", 1},   {"partner", "allow", 0}, {"partner", "reject", 0},
        {"internal", "allow", -1}, {"", "reject", 0},
    };
    decider_fini(d);
    assert_true(decider_init(d, plans));
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "key", "a");
        decider_text(d, "plan", steps[i].plan);
        assert_true(decider_decide(d, START_US));
        assert_string_equal(d->ack.actions[0].text, steps[i].action);
        if (steps[i].remaining >= 0) {
            assert_int_equal(decoded_ack_number(&d->ack, "remaining"),
                             steps[i].remaining);
        } else {
            assert_null(decoded_ack_find(&d->ack, "remaining"));
        }
    }
    assert_int_equal(counter_get_outcome(d->decide.counters, 0, OUTCOME_CHARGED), 4);
    assert_int_equal(counter_get_outcome(d->decide.counters, 0, OUTCOME_REFUSED), 3);
}

/* Two queues, the second slower and shorter: the longest delay counts, both are charged. */
static void leaky_buckets_delay_then_reject(void **context)
{
    struct decider *d = *context;
    static const char queues[] =
        "version: 1\n"
        "domain: api\n"
        "rules:\n"
        "  - name: fast\n"
        "    key: [key]\n"
        "    limit: { requests: 3, per: 1s, algorithm: leaky_bucket }\n"
        "  - name: slow\n"
        "    key: [key]\n"
        "    limit: { requests: 1, per: 1s, algorithm: leaky_bucket, max_delay: 1s }\n";
    static const struct {
        int64_t at_us;
        const char *action;
        const char *rule;
        int64_t delay_ms; /* 0: not sent */
    } steps[] = {
        {0, "allow", "fast", 0},       /* 3 of 4 left, and 1 of 2 */
        {0, "delay", "slow", 1000},    /* fast alone would be 334 */
        {0, "reject", "slow", 0},      /* it would be 2 s */
        {2000000, "allow", "fast", 0}, /* nothing was charged by that */
        {2999999, "delay", "slow", 1}, /* a microsecond, rounded up */
    };
    decider_fini(d);
    assert_true(decider_init(d, queues));
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        decider_text(d, "key", "a");
        assert_true(decider_decide(d, START_US + steps[i].at_us));
        assert_string_equal(d->ack.actions[0].text, steps[i].action);
        if (steps[i].delay_ms > 0) {
            assert_string_equal(decoded_ack_text(&d->ack, "rule"), steps[i].rule);
            assert_int_equal(decoded_ack_number(&d->ack, "delay_ms"),
                             steps[i].delay_ms);
            assert_string_equal(decoded_ack_text(&d->ack, "reason"), "limit");
        } else {
            assert_null(decoded_ack_find(&d->ack, "delay_ms"));
        }
    }
}

static void limits_of_one_rule_are_charged_together_or_not_at_all(void **context)
{
    struct decider *d = *context;
    static const char tiers[] =
        "version: 1\n"
        "domain: api\n"
        "rules:\n"
        "  - name: tiers\n"
        "    key: [key]\n"
        "    limits:\n"
        "      - { name: short, requests: 2, per: 1s, burst: 2 }\n"
        "      - { name: long, requests: 3, per: 60s }\n";
    decider_fini(d);
    assert_true(decider_init(d, tiers));
    for (int i = 0; i < 4; i++) {
        request(d, "/", "a");
    }
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "tiers.short");
    assert_string_equal(decoded_ack_text(&d->ack, "ratelimit"),
                        "\"tiers.short\";r=0;t=1");
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "key", "a");
    assert_true(decider_decide(d, START_US + US_PER_S));
    assert_string_equal(d->ack.actions[0].text, "allow");
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "tiers.long");
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 0);
}

/* What is remembered of one message's names never decides about the next one's. */
static void names_may_change_places(void **context)
{
    struct decider *d = *context;
    static const char long_name[] =
        "key45678901234567890123456789012345678901234567890123456789012345";
    static const char *const names[][3] = {
        {"path", "key", "other"},   {"key", "path", "other"},
        {"", "key", "path"},        {"path", "ke", "key"},
        {"key", "", "path"},        {long_name, "path", "key"},
        {"path", "key", long_name}, {"host", "yek", "path"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char key[] = {(char)('a' + i), '\0'};
        bool has_key = false;
        decider_begin(d);
        decider_message(d, "ratelimit-check");
        for (size_t j = 0; j < 3; j++) {
            bool is_key = strcmp(names[i][j], "key") == 0;
            has_key = has_key || is_key;
            decider_text(d, names[i][j],
                         is_key                             ? key
                         : strcmp(names[i][j], "path") == 0 ? "/v1/things"
                                                            : "rubbish");
        }
        assert_true(decider_decide(d, START_US));
        assert_string_equal(decoded_ack_text(&d->ack, "rule"),
                            has_key ? "per_key" : "everybody");
        assert_true(!has_key || decoded_ack_number(&d->ack, "remaining") == 1);
    }
}

static int64_t remaining_of(struct decider *d, const char *key, const char *plan)
{
    decider_begin(d);
    decider_message(d, "ratelimit-peek");
    decider_text(d, "key", key);
    decider_text(d, "plan", plan);
    assert_true(decider_decide(d, START_US));
    return decoded_ack_number(&d->ack, "remaining");
}

static void client_has_its_plan_by_the_table(void **context)
{
    static const char tables[][32] = {"alice,gold\nbob,free\n", "bob,gold\n"};
    struct decider d = {0};
    (void)context;
    assert_true(decider_init(&d, "version: 1\ndomain: api\nrules:\n"
                                 "  - name: one\n    key: [key]\n"
                                 "    limit: { requests: 10, per: 60s }\n"
                                 "    plans: { gold: 100 }\n"
                                 "clients: { file: clients.csv, by: key }\n"));
    assert_int_equal(remaining_of(&d, "alice", ""), 10);
    assert_true(decider_clients(&d, tables[0]));
    assert_int_equal(remaining_of(&d, "alice", ""), 100);
    assert_int_equal(remaining_of(&d, "alice", "none"), 10); /* what is sent counts */
    assert_int_equal(remaining_of(&d, "bob", ""), 10);
    assert_int_equal(remaining_of(&d, "bob", "gold"), 100);
    /* Another table, and all else as before. */
    const struct rules_clients *first = d.decide.clients;
    request(&d, "/x", "bob");
    assert_true(decider_clients(&d, tables[1]));
    const struct rules_clients *second = d.decide.clients;
    decide_change(&d.decide, d.decide.set, first, d.decide.counters);
    assert_int_equal(remaining_of(&d, "bob", ""), 9);
    decide_change(&d.decide, d.decide.set, second, d.decide.counters);
    assert_int_equal(remaining_of(&d, "bob", ""), 99);
    assert_int_equal(remaining_of(&d, "alice", ""), 10);
    struct rules_clients *left = NULL;
    memcpy(&left, &first, sizeof(left)); /* ours */
    rules_clients_free(left);
    decider_fini(&d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_is_begun_before_the_last_is_finished),
        TEST(allow_says_what_is_left),
        TEST(names_may_change_places),
        TEST(refusal_says_why_and_for_how_long),
        TEST(limit_that_is_not_advertised_stays_out_of_fields_and_body),
        TEST(shadow_rule_is_named_and_refuses_nobody),
        TEST(several_check_messages_are_one_request),
        TEST(peek_says_what_a_check_would_and_charges_nothing),
        TEST(peeks_are_counted_apart),
        TEST(peek_beside_a_check_is_a_check),
        TEST(what_is_absent_later_takes_nothing_away),
        TEST(nothing_to_decide_is_a_neutral_ack),
        TEST(own_domain_is_decided),
        TEST(malformed_payload_is_no_request),
        TEST(every_type_of_value),
        TEST(spellings_of_an_address_are_one_key),
        TEST(missing_key_falls_to_the_address),
        TEST(refused_by_one_rule_is_not_charged_to_the_other),
        TEST(outcomes_are_counted_by_limit),
        TEST(jitter_is_bounded_and_stable),
        TEST(unmatched_request_is_allowed_with_its_reason),
        TEST(small_frame_keeps_the_decision),
        TEST(only_chosen_variables_are_sent),
        TEST(cost_is_taken_from_an_argument),
        TEST(soft_limit_warns_past_its_share),
        TEST(warned_and_degraded_requests_go_on),
        TEST(blocked_request_is_forbidden),
        TEST(wait_is_that_of_all_that_refuse),
        TEST(shadow_charges_what_the_rule_would_charge_if_enforced),
        TEST(lists_decide_before_any_counter),
        TEST(request_without_its_key_is_refused),
        TEST(plan_changes_the_numbers_of_one_counter),
        TEST(leaky_buckets_delay_then_reject),
        TEST(limits_of_one_rule_are_charged_together_or_not_at_all),
        TEST(client_has_its_plan_by_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
