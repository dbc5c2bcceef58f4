#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "agent/decide/name.h"

#include "tests/support/decider.h"

static struct name_options options = {.prefix = "rl"};

/* The name of the counter of the only hit of a request. */
static const char *name_of(const char *rules, const char *descriptor,
                           struct rules_value value)
{
    static char out[STORE_NAME_BYTES_MAX + 1];
    static struct rules_result result;
    static struct rules_request request;
    static struct decider d;
    char tail[NAME_TAIL_BYTES_MAX];
    assert_true(decider_init(&d, rules));
    const struct rules_set *set = d.decide.set->rules;
    struct rules_bytes name = {(const uint8_t *)descriptor, strlen(descriptor)};
    memset(&request, 0, sizeof(request));
    if (value.type != RULES_ABSENT) {
        request.values[rules_set_slot(set, name)] = value;
    }
    rules_eval(set, &request, &result);
    assert_int_equal(result.n_hits, 1);
    const struct rules_hit *hit = &result.hits[0];
    (void)name_print_tail(&hit->limits[0], tail);
    size_t len = name_print(&options, rules_set_domain(set), hit->rule->name, tail,
                            hit->key, out);
    assert_true(len <= STORE_NAME_BYTES_MAX);
    out[len] = '\0';
    decider_fini(&d);
    return out;
}

static struct rules_value text_of(const char *text)
{
    return (struct rules_value){
        .type = RULES_TEXT,
        .bytes = {(const uint8_t *)text, strlen(text)},
    };
}

#define RULE(name, key, limit)                                                  \
    "version: 1\ndomain: public_api\nrules:\n  - name: " name "\n    key: " key \
    "\n    no_key: skip\n    store: redis\n" limit "\n"

static void names_can_be_read(void **context)
{
    (void)context;
    static const uint8_t ip[] = {203, 0, 113, 7};
    struct rules_value address = {.type = RULES_ADDRESS, .bytes = {ip, sizeof(ip)}};
    assert_string_equal(name_of(RULE("anon_per_ip", "[ip]",
                                     "    limit: {requests: 60, per: 60s}"),
                                "ip", address),
                        "rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s");
    assert_string_equal(name_of(RULE("all", "[]",
                                     "    limit: {requests: 60, per: 500ms, burst: 9}"),
                                "none", (struct rules_value){0}),
                        "rl:public_api:{all}:all:t500ms");
    assert_string_equal(
        name_of(RULE("two", "[user]",
                     "    limits: [{name: day, requests: 60, per: day, timezone: "
                     "Europe/Berlin}]"),
                "user", text_of("ann")),
        "rl:public_api:{user=ann}:two.day:fday.Europe%2FBerlin");
    assert_string_equal(
        name_of(RULE("log", "[user]",
                     "    limit: {requests: 6, per: 1m, algorithm: sliding_log}"),
                "user", text_of("ann")),
        "rl:public_api:{user=ann}:log:g60s");
    assert_string_equal(
        name_of(RULE("lb", "[user]",
                     "    limit: {requests: 6, per: 1d, algorithm: leaky_bucket}"),
                "user", text_of("ann")),
        "rl:public_api:{user=ann}:lb:l86400s");
}

static void braces_and_colons_of_clients_are_no_part_of_it(void **context)
{
    (void)context;
    assert_string_equal(
        name_of(RULE("a", "[user]", "    limit: {requests: 60, per: 60s}"), "user",
                text_of("x}:b:{ |%,=\r\n\xc3\xa4")),
        "rl:public_api:{user=x%7D%3Ab%3A%7B%20%7C%25%2C%3D%0D%0A%C3%A4}:a:s60s");
}

static void long_keys_are_told_apart(void **context)
{
    (void)context;
    static char value[1 << 20];
    char first[STORE_NAME_BYTES_MAX + 1];
    memset(value, 'a', sizeof(value) - 1);
    const char *rules = RULE("a", "[user]", "    limit: {requests: 60, per: 60s}");
    (void)snprintf(first, sizeof(first), "%s", name_of(rules, "user", text_of(value)));
    value[sizeof(value) - 2] = 'b';
    assert_string_not_equal(first, name_of(rules, "user", text_of(value)));
    memset(value, '%', 90); /* 270 bytes of text */
    value[90] = '\0';
    (void)snprintf(first, sizeof(first), "%s", name_of(rules, "user", text_of(value)));
    assert_true(strlen(first) < 200);
    assert_non_null(strstr(first, "!"));
    value[89] = '$';
    assert_string_not_equal(first, name_of(rules, "user", text_of(value)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_can_be_read),
        cmocka_unit_test(braces_and_colons_of_clients_are_no_part_of_it),
        cmocka_unit_test(long_keys_are_told_apart),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
