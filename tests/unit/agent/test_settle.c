/* settle.c, and the receipts of answer.c: a request, its response, and what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/decider.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - name: login\n"
    "    match: { path: /login }\n"
    "    key: [ip]\n"
    "    limit: { requests: 10, per: 60s }\n"
    "    charge: { after: response, when: { status: [401, 403] } }\n"
    "  - name: tokens\n"
    "    match: { path: /tokens }\n"
    "    key: [user]\n"
    "    no_key: skip\n"
    "    limits:\n"
    "      - { name: burst, requests: 60, per: 60s, burst: 100 }\n"
    "      - { name: day, requests: 1000, per: 1d }\n"
    "    cost: { from: tokens, min: 2, max: 500 }\n"
    "    plans: { big: 10x }\n"
    "    charge: { after: response, reserve: 10 }\n"
    "  - name: trial\n"
    "    match: { path: /login }\n"
    "    key: [ip]\n"
    "    limit: { requests: 2, per: 60s }\n"
    "    mode: shadow\n"
    "    charge: { after: response, when: { status: 500 } }\n"
    "  - name: plain\n"
    "    match: { path: /plain }\n"
    "    key: []\n"
    "    limit: { requests: 10, per: 60s }\n"
    "  - name: many\n"
    "    match: { path: /many }\n"
    "    key: []\n"
    "    limits:\n"
    "      - { name: a, requests: 100000000, per: 1ms, burst: 100000000 }\n"
    "      - { name: b, requests: 100000000, per: 1s, burst: 100000000 }\n"
    "      - { name: c, requests: 100000000, per: 1s, burst: 100000000 }\n"
    "      - { name: d, requests: 100000000, per: 1s, burst: 100000000 }\n"
    "    cost: 100000000\n"
    "    charge: { after: response, when: { status: 500 } }\n";

static const uint8_t client[4] = {192, 0, 2, 1};

static char receipt[129];

static int set_up(void **context)
{
    static struct decider d;
    *context = &d;
    return decider_init(&d, rules_text) ? 0 : 1;
}

static int tear_down(void **context)
{
    decider_fini(*context);
    return 0;
}

/* Ask, and keep the receipt; whether it was allowed. */
static bool ask(struct decider *d, const char *path, int64_t now_us)
{
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", path);
    decider_text(d, "user", "u");
    decider_ipv4(d, "ip", client);
    assert_true(decider_decide(d, now_us));
    strcpy(receipt, decoded_ack_text(&d->ack, "receipt"));
    return strcmp(decoded_ack_text(&d->ack, "action"), "allow") == 0;
}

/* A response begins: `name` is an argument beside those of the request; NULL: none. */
static void respond(struct decider *d, const char *text, const char *name,
                    const char *value, int64_t now_us)
{
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_text(d, "user", "u");
    decider_ipv4(d, "ip", client);
    if (text != NULL) {
        decider_text(d, "receipt", text);
    }
    if (name != NULL) {
        decider_text(d, name, value);
    }
    assert_true(decider_decide(d, now_us));
    assert_int_equal(d->ack.n_actions, 1);
    assert_true(d->ack.actions[0].is_unset);
}

static uint64_t count(const struct decider *d, enum counter counter)
{
    return counter_get(d->decide.counters, counter);
}

/* How many requests pass at one moment. */
static unsigned pass(struct decider *d, const char *path, int64_t now_us)
{
    unsigned n = 0;
    while (ask(d, path, now_us)) {
        n++;
    }
    return n;
}

static void only_failed_logins_stay_charged(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 30; i++) {
        assert_true(ask(d, "/login", START_US));
        assert_string_not_equal(receipt, "");
        respond(d, receipt, "status", i % 5 == 0 ? "401" : "200", START_US);
    }
    assert_int_equal(pass(d, "/login", START_US), 4);
    assert_string_equal(receipt, ""); /* nothing was charged */
    assert_int_equal(count(d, COUNTER_SETTLES), 30);
    assert_int_equal(count(d, COUNTER_ACKS_NEUTRAL), 30);
    /* each has a shadow beside it, as long as that is within its limit */
    assert_int_equal(count(d, COUNTER_SETTLED_AS_TAKEN), 6);
    assert_int_equal(count(d, COUNTER_SETTLED_GIVEN_BACK), 24 + 30);
    assert_int_equal(count(d, COUNTER_SETTLED_TOO_LATE), 0);
}

static void what_nothing_settles_stays_charged(void **context)
{
    struct decider *d = *context;
    assert_int_equal(pass(d, "/login", START_US), 10);
    respond(d, NULL, "status", "200", START_US);
    respond(d, "", "status", "200", START_US);
    assert_int_equal(count(d, COUNTER_SETTLES_WITHOUT_RECEIPT), 2);
    assert_false(ask(d, "/login", START_US));
}

static void replayed_receipt_gives_back_no_more_than_is_used(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/login", START_US));
    for (int i = 0; i < 50; i++) {
        respond(d, receipt, "status", "200", START_US);
    }
    assert_int_equal(count(d, COUNTER_SETTLED_TOO_LATE), 2 * 49);
    assert_int_equal(pass(d, "/login", START_US), 10);
}

static void cost_is_taken_from_the_response(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/tokens", START_US));
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 90);
    respond(d, receipt, "tokens", "85", START_US);
    assert_int_equal(count(d, COUNTER_SETTLED_RAISED), 2);
    assert_true(ask(d, "/tokens", START_US)); /* 100 - 85 - 10 */
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 5);
    respond(d, receipt, "tokens", "nonsense", START_US);
    assert_int_equal(count(d, COUNTER_SETTLED_LOWERED), 2);
    assert_int_equal(count(d, COUNTER_COSTS_RAISED), 2);
    assert_true(ask(d, "/tokens", START_US)); /* 100 - 85 - 2 - 10 */
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 3);
}

static void debt_is_waited_out(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/tokens", START_US));
    respond(d, receipt, "tokens", "501", START_US); /* 500; debt: 200 are used */
    assert_int_equal(count(d, COUNTER_COSTS_LOWERED), 2);
    assert_false(ask(d, "/tokens", START_US));
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 110);
    assert_false(ask(d, "/tokens", START_US + 109 * US_PER_S));
    assert_true(ask(d, "/tokens", START_US + 110 * US_PER_S));
}

static void plan_gives_the_numbers(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/tokens", START_US));
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_text(d, "plan", "big");
    decider_text(d, "user", "u");
    decider_text(d, "receipt", receipt);
    decider_text(d, "tokens", "500");
    assert_true(decider_decide(d, START_US));
    assert_false(ask(d, "/tokens", START_US)); /* 500 of 100 used: 410 more than fit */
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 410);
}

/* As above, by the table: the response does not name the plan either. */
static void plan_of_a_client_is_that_of_the_response(void **context)
{
    (void)context;
    static char text[sizeof(rules_text) + 40];
    static struct decider d;
    (void)snprintf(text, sizeof(text), "%sclients: {file: c.csv, by: user}\n",
                   rules_text);
    assert_true(decider_init(&d, text));
    assert_true(decider_clients(&d, "u,big\n"));
    assert_true(ask(&d, "/tokens", START_US));
    decider_begin(&d);
    decider_message(&d, "ratelimit-settle");
    decider_text(&d, "user", "u");
    decider_text(&d, "receipt", receipt);
    decider_text(&d, "tokens", "500");
    assert_true(decider_decide(&d, START_US));
    assert_true(ask(&d, "/tokens", START_US)); /* 500 of 1000 used */
    assert_int_equal(decoded_ack_number(&d.ack, "remaining"), 490);
    decider_fini(&d);
}

static void receipt_of_another_key_touches_only_that(void **context)
{
    struct decider *d = *context;
    for (int i = 0; i < 3; i++) {
        assert_true(ask(d, "/tokens", START_US));
    }
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_text(d, "user", "other");
    decider_text(d, "receipt", receipt);
    decider_text(d, "tokens", "2");
    assert_true(decider_decide(d, START_US));
    assert_int_equal(count(d, COUNTER_SETTLED_TOO_LATE), 2);
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_text(d, "receipt", receipt);
    assert_true(decider_decide(d, START_US));
    assert_int_equal(count(d, COUNTER_KEYS_MISSING), 2);
    assert_true(ask(d, "/tokens", START_US));
    assert_int_equal(decoded_ack_number(&d->ack, "remaining"), 60);
}

static void receipt_of_what_is_gone_is_ignored(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/login", START_US));
    char *at = strrchr(receipt, ':');
    *at = '\0';
    receipt[1] = receipt[1] == 'A' ? 'B' : 'A';
    char foreign[129];
    strcpy(foreign, receipt);
    strcat(foreign, ":l");
    receipt[1] = receipt[1] == 'A' ? 'B' : 'A';
    respond(d, foreign, "status", "200", START_US); /* the shadow's is given back */
    assert_int_equal(count(d, COUNTER_SETTLED_STALE), 1);
    assert_int_equal(count(d, COUNTER_SETTLED_GIVEN_BACK), 1);
    assert_true(ask(d, "/login", START_US));
    memset(strchr(receipt, 'l') == NULL ? receipt : strrchr(receipt, 'l'), 'f', 1);
    respond(d, receipt, "status", "200", START_US); /* of a fallback */
    assert_int_equal(count(d, COUNTER_SETTLED_STALE), 2);
}

static void bytes_that_are_no_receipt_settle_nothing(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/login", START_US));
    char text[129];
    strcpy(text, receipt);
    strcat(text, ",");
    respond(d, text, "status", "200", START_US);
    assert_int_equal(count(d, COUNTER_RECEIPTS_MALFORMED), 1);
    struct spop_value number = {.type = SPOP_VALUE_UINT64};
    number.integer = 7;
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_arg(d, "receipt", &number);
    assert_true(decider_decide(d, START_US));
    assert_int_equal(count(d, COUNTER_SETTLES_WITHOUT_RECEIPT), 1);
    assert_int_equal(pass(d, "/login", START_US), 9);
}

static void another_domain_and_a_check_beside_it_settle_nothing(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/login", START_US));
    respond(d, receipt, "domain", "other", START_US);
    assert_int_equal(count(d, COUNTER_SETTLES), 0);
    decider_begin(d);
    decider_message(d, "ratelimit-settle");
    decider_text(d, "receipt", receipt);
    decider_message(d, "ratelimit-check");
    decider_text(d, "path", "/login");
    decider_ipv4(d, "ip", client);
    assert_true(decider_decide(d, START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "action"), "allow");
    assert_int_equal(count(d, COUNTER_SETTLES), 0);
    assert_int_equal(pass(d, "/login", START_US), 8);
}

static void rule_that_settles_nothing_has_no_receipt(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/plain", START_US));
    assert_null(decoded_ack_find(&d->ack, "receipt"));
}

static void limits_without_room_in_a_receipt_stay_charged(void **context)
{
    struct decider *d = *context;
    assert_true(ask(d, "/many", START_US));
    assert_int_equal(count(d, COUNTER_RECEIPTS_CUT), 1);
    respond(d, receipt, "status", "200", START_US);
    assert_int_equal(count(d, COUNTER_SETTLED_GIVEN_BACK), 3);
    assert_false(ask(d, "/many", START_US));
    assert_string_equal(decoded_ack_text(&d->ack, "rule"), "many.d");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_failed_logins_stay_charged),
        TEST(what_nothing_settles_stays_charged),
        TEST(replayed_receipt_gives_back_no_more_than_is_used),
        TEST(cost_is_taken_from_the_response),
        TEST(debt_is_waited_out),
        TEST(plan_gives_the_numbers),
        TEST(plan_of_a_client_is_that_of_the_response),
        TEST(receipt_of_another_key_touches_only_that),
        TEST(receipt_of_what_is_gone_is_ignored),
        TEST(bytes_that_are_no_receipt_settle_nothing),
        TEST(another_domain_and_a_check_beside_it_settle_nothing),
        TEST(rule_that_settles_nothing_has_no_receipt),
        TEST(limits_without_room_in_a_receipt_stay_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
