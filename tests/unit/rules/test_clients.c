#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rules/clients.h"

#include "tests/unit/rules/support.h"

static struct rules_diags diags;

static struct rules_clients *load_bytes(struct rules_bytes text,
                                        enum rules_clients_kind kind)
{
    rules_diags_init(&diags, "clients.csv");
    return rules_clients_load(text, kind, &diags);
}

static struct rules_clients *load_text(const char *text, enum rules_clients_kind kind)
{
    struct rules_clients *clients = load_bytes(bytes_of(text), kind);

    if (clients == NULL) {
        rules_diags_print(&diags, stderr);
    }
    assert_non_null(clients);
    assert_int_equal(diags.n_errors, 0);
    return clients;
}

static struct rules_value value_of(enum rules_value_type type, const void *ptr,
                                   size_t len)
{
    return (struct rules_value){type, {(const uint8_t *)ptr, len}};
}

/* Copies of exact sizes: what a sanitizer sees, so will this. */
static void plan_is(const struct rules_clients *clients, struct rules_value client,
                    const char *want)
{
    uint8_t *copy = malloc(client.bytes.len + 1);
    struct rules_bytes plan;

    assert_non_null(copy);
    if (client.bytes.len > 0) {
        memcpy(copy, client.bytes.ptr, client.bytes.len);
    }
    client.bytes.ptr = copy;
    plan = rules_clients_find(clients, client);
    assert_int_equal(plan.len, strlen(want));
    if (plan.len > 0) {
        assert_memory_equal(plan.ptr, want, plan.len);
    }
    free(copy);
}

static void text_plan_is(const struct rules_clients *clients, const char *client,
                         const char *want)
{
    plan_is(clients, value_of(RULES_TEXT, client, strlen(client)), want);
}

static void error_is(const char *text, enum rules_clients_kind kind, const char *code,
                     uint32_t line, uint32_t column)
{
    assert_null(load_bytes(bytes_of(text), kind));
    assert_int_equal(diags.n_errors, 1);
    assert_string_equal(diags.kept[0].code, code);
    assert_int_equal(diags.kept[0].mark.line, line);
    assert_int_equal(diags.kept[0].mark.column, column);
}

static void bad_client(const char *text, uint32_t line, uint32_t column)
{
    error_is(text, RULES_CLIENTS_TEXT, "bad-client", line, column);
}

static void test_plans_are_found(void **state)
{
    struct rules_clients *clients = load_text("# who pays\n"
                                              "\n"
                                              "alice,gold\r\n"
                                              "bob,free\n"
                                              "# carol,gold\n"
                                              " dave ,gold\n"
                                              "\xc3\xa9\x01\xff,gold\n"
                                              "last,internal",
                                              RULES_CLIENTS_TEXT);

    (void)state;
    assert_int_equal(rules_clients_count(clients), 5);
    assert_int_equal(rules_clients_n_plans(clients), 3);
    assert_string_equal(rules_clients_plan(clients, 0).ptr, "gold");
    assert_string_equal(rules_clients_plan(clients, 2).ptr, "internal");
    text_plan_is(clients, "alice", "gold");
    text_plan_is(clients, "bob", "free");
    text_plan_is(clients, " dave ", "gold");
    text_plan_is(clients, "\xc3\xa9\x01\xff", "gold");
    text_plan_is(clients, "last", "internal");
    text_plan_is(clients, "carol", "");
    text_plan_is(clients, "dave", "");
    text_plan_is(clients, "Alice", "");
    text_plan_is(clients, "alic", "");
    text_plan_is(clients, "alicee", "");
    text_plan_is(clients, "", "");
    plan_is(clients, (struct rules_value){.type = RULES_ABSENT, .bytes = {NULL, 0}},
            "");
    rules_clients_free(clients);
}

static void test_fields_in_quotes(void **state)
{
    struct rules_clients *clients = load_text("\"a,b\",gold\n"
                                              "\"say \"\"x\"\"\",\"free\"\r\n"
                                              "\"#1\",gold\n"
                                              "\"\"\"\",gold\n"
                                              "\"plain\",gold",
                                              RULES_CLIENTS_TEXT);

    (void)state;
    assert_int_equal(rules_clients_count(clients), 5);
    text_plan_is(clients, "a,b", "gold");
    text_plan_is(clients, "say \"x\"", "free");
    text_plan_is(clients, "#1", "gold");
    text_plan_is(clients, "\"", "gold");
    text_plan_is(clients, "plain", "gold");
    rules_clients_free(clients);
}

static void test_what_is_no_line(void **state)
{
    (void)state;
    bad_client("a,x\nalice\n", 2, 6);
    bad_client("\xc3\xa9lan", 1, 5);
    bad_client(",gold\n", 1, 1);
    bad_client("\"\",gold\n", 1, 1);
    bad_client("a,gold,b\n", 1, 7);
    bad_client("a,\"gold\",b\n", 1, 9);
    bad_client("a\"b,gold\n", 1, 2);
    bad_client("\"ab,gold\nc,gold\n", 1, 1);
    bad_client("\"ab\"c,gold\n", 1, 5);
    bad_client("\xef\xbb\xbf"
               "a,gold\n",
               1, 1);
    error_is("a,Gold\n", RULES_CLIENTS_TEXT, "bad-name", 1, 3);
    error_is("a, gold\n", RULES_CLIENTS_TEXT, "bad-name", 1, 3);
    error_is("a,gold \n", RULES_CLIENTS_TEXT, "bad-name", 1, 3);
    error_is("a,\n", RULES_CLIENTS_TEXT, "bad-name", 1, 3);
    error_is("", RULES_CLIENTS_TEXT, "no-clients", 0, 0);
    error_is("# none\n\n", RULES_CLIENTS_TEXT, "no-clients", 0, 0);
}

static void test_all_errors_are_told(void **state)
{
    char text[4096] = "";
    size_t n = 0;

    (void)state;
    assert_null(load_bytes(bytes_of("a\nb,x\nb,y\n,z\nb,y\n"), RULES_CLIENTS_TEXT));
    assert_int_equal(diags.n_errors, 4);
    assert_string_equal(diags.kept[1].code, "duplicate-client");
    assert_non_null(strstr(diags.kept[1].text, "line 2"));
    assert_int_equal(diags.kept[1].mark.line, 3);
    assert_string_equal(diags.kept[1].source, "b,y");
    assert_int_equal(diags.kept[3].mark.line, 5);
    assert_non_null(strstr(diags.kept[3].text, "line 2"));
    while (n < sizeof text - 3) {
        text[n++] = 'a';
        text[n++] = '\n';
    }
    assert_null(
        load_bytes((struct rules_bytes){(const uint8_t *)text, n}, RULES_CLIENTS_TEXT));
    assert_int_equal(diags.n_errors, RULES_DIAGS_MAX);
}

/** A client of that length is found, others of nearly its bytes are not. */
static void length_check(size_t len, const char *quote)
{
    char client[RULES_CLIENT_BYTES_MAX + 2];
    char text[sizeof client + 16];
    struct rules_clients *clients;

    memset(client, 'c', sizeof client);
    client[len] = '\0';
    (void)snprintf(text, sizeof text, "%s%s%s,p\n", quote, client, quote);
    if (len > RULES_CLIENT_BYTES_MAX) {
        bad_client(text, 1, 1);
        return;
    }
    clients = load_text(text, RULES_CLIENTS_TEXT);
    text_plan_is(clients, client, "p");
    client[len - 1] = 'd';
    text_plan_is(clients, client, "");
    client[len - 1] = 'c';
    client[len] = 'c';
    plan_is(clients, value_of(RULES_TEXT, client, len + 1), "");
    rules_clients_free(clients);
}

static void test_lengths(void **state)
{
    (void)state;
    for (size_t len = 1; len <= RULES_CLIENT_BYTES_MAX + 1; len++) {
        length_check(len, "");
        length_check(len, "\"");
    }
}

static void test_addresses(void **state)
{
    static const uint8_t v4[] = {203, 0, 113, 7};
    static const uint8_t mapped[] = {0, 0, 0,    0,    0,   0, 0,   0,
                                     0, 0, 0xff, 0xff, 203, 0, 113, 7};
    static const uint8_t v6[] = {0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2,
                                 9,    9, 9,    9,    9, 9, 9, 9};
    struct rules_clients *clients = load_text("203.0.113.7,gold\n"
                                              "2001:DB8:1:2::1,free\n",
                                              RULES_CLIENTS_ADDRESS);

    (void)state;
    plan_is(clients, value_of(RULES_ADDRESS, v4, sizeof v4), "gold");
    plan_is(clients, value_of(RULES_ADDRESS, mapped, sizeof mapped), "gold");
    plan_is(clients, value_of(RULES_ADDRESS, v6, sizeof v6), "free");
    text_plan_is(clients, "203.0.113.7", "gold");
    text_plan_is(clients, "[2001:db8:1:2::5]:443", "free");
    text_plan_is(clients, "2001:db8:1:3::5", "");
    text_plan_is(clients, "203.0.113.8", "");
    text_plan_is(clients, "nobody", "");
    rules_clients_free(clients);
    error_is("2001:db8::1,a\n2001:db8::2,a\n", RULES_CLIENTS_ADDRESS,
             "duplicate-client", 2, 1);
    error_is("10.0.0.1,a\n::ffff:10.0.0.1,a\n", RULES_CLIENTS_ADDRESS,
             "duplicate-client", 2, 1);
    error_is("10.0.0.0/8,a\n", RULES_CLIENTS_ADDRESS, "bad-address", 1, 1);
    error_is("alice,a\n", RULES_CLIENTS_ADDRESS, "bad-address", 1, 1);
}

/** Where clients are texts, an address is its text. */
static void test_addresses_as_text(void **state)
{
    static const uint8_t v4[] = {10, 0, 0, 1};
    static const uint8_t v6[16] = {0x20, 1, 0x0d, 0xb8, [15] = 1};
    struct rules_clients *clients = load_text("10.0.0.1,gold\n2001:db8::1,free\n",
                                              RULES_CLIENTS_TEXT);

    (void)state;
    plan_is(clients, value_of(RULES_ADDRESS, v4, sizeof v4), "gold");
    plan_is(clients, value_of(RULES_ADDRESS, v6, sizeof v6), "free");
    plan_is(clients, value_of(RULES_ADDRESS, v6, sizeof v4), "");
    rules_clients_free(clients);
}

#define RULES                                                                  \
    "version: 1\ndomain: d\nrules:\n"                                          \
    "- {name: a, key: [], limit: {requests: 5, per: 1s}, plans: {gold: 50}}\n" \
    "- {name: b, key: [], limit: {requests: 7, per: 1s}, match: {plan: free}}\n"

static struct rules_request request;

/** The rules that apply, and the requests of the first. */
static void expect_hits(const struct rules_set *set,
                        const struct rules_clients *clients, uint32_t n_hits,
                        int64_t requests)
{
    static struct rules_result result;
    struct rules_request completed = request;

    rules_clients_apply(clients, set, &completed);
    rules_eval(set, &completed, &result);
    assert_int_equal(result.n_hits, n_hits);
    assert_int_equal(result.hits[0].limits[0].requests, requests);
}

/** The plan of a client changes numbers, and is matched, like one that is sent. */
static void test_request_of_a_client(void **state)
{
    struct rules_set *set = load_good(RULES "clients: {file: c.csv, by: api_key}\n");
    struct rules_clients *clients = load_text("alice,gold\nbob,free\n",
                                              RULES_CLIENTS_TEXT);

    (void)state;
    assert_string_equal(rules_set_clients(set)->path, "c.csv");
    assert_int_equal(rules_set_clients(set)->kind, RULES_CLIENTS_TEXT);
    memset(&request, 0, sizeof request);
    expect_hits(set, clients, 1, 5);
    request_text(set, &request, "api_key", "alice");
    expect_hits(set, clients, 1, 50);
    request_text(set, &request, "plan", "free");
    expect_hits(set, clients, 2, 5);
    request_text(set, &request, "plan", "");
    expect_hits(set, clients, 1, 50);
    request_text(set, &request, "api_key", "bob");
    expect_hits(set, clients, 2, 5);
    request_text(set, &request, "api_key", "carol");
    expect_hits(set, clients, 1, 5);
    rules_clients_free(clients);
    rules_set_free(set);
}

static void test_who_names_clients(void **state)
{
    struct rules_set *set = load_good(RULES "clients: c.csv\n");
    struct rules_clients *clients = load_text("alice,gold\n", RULES_CLIENTS_TEXT);

    (void)state;
    memset(&request, 0, sizeof request);
    request_text(set, &request, "client", "alice");
    expect_hits(set, clients, 1, 50);
    rules_clients_free(clients);
    rules_set_free(set);
    set = load_good(RULES "clients: {file: c.csv, by: ip}\n");
    clients = load_text("10.0.0.1,gold\n", RULES_CLIENTS_ADDRESS);
    assert_int_equal(rules_set_clients(set)->kind, RULES_CLIENTS_ADDRESS);
    memset(&request, 0, sizeof request);
    request_text(set, &request, "ip", "10.0.0.1");
    expect_hits(set, clients, 1, 50);
    rules_clients_free(clients);
    rules_set_free(set);
    set = load_good(RULES);
    assert_null(rules_set_clients(set));
    rules_set_free(set);
}

static void test_plans_bound(void **state)
{
    static char text[(RULES_CLIENTS_PLANS_MAX + 1) * 16];
    struct rules_clients *clients;
    size_t n = 0;

    (void)state;
    for (int i = 0; i < RULES_CLIENTS_PLANS_MAX; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "c%d,p%d\n", i, i);
    }
    clients = load_text(text, RULES_CLIENTS_TEXT);
    assert_int_equal(rules_clients_n_plans(clients), RULES_CLIENTS_PLANS_MAX);
    text_plan_is(clients, "c1023", "p1023");
    rules_clients_free(clients);
    (void)snprintf(text + n, sizeof text - n, "c,p\n");
    error_is(text, RULES_CLIENTS_TEXT, "too-many-plans", RULES_CLIENTS_PLANS_MAX + 1,
             3);
}

/** A million lines; the time is only printed. */
static void test_clients_bound(void **state)
{
    enum {
        LINE_BYTES = 32
    };
    size_t cap = (size_t)LINE_BYTES * (RULES_CLIENTS_MAX + 1) + 1;
    char *text = malloc(cap);
    struct rules_clients *clients;
    char client[LINE_BYTES];
    size_t n = 0;
    clock_t began;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < RULES_CLIENTS_MAX; i++) {
        n += (size_t)snprintf(text + n, cap - n, "key-%020d,plan%d\n", i, i % 10);
    }
    began = clock();
    clients = load_text(text, RULES_CLIENTS_TEXT);
    print_message("%d clients: %.0f ms\n", RULES_CLIENTS_MAX,
                  (double)(clock() - began) * 1000 / CLOCKS_PER_SEC);
    assert_int_equal(rules_clients_count(clients), RULES_CLIENTS_MAX);
    assert_int_equal(rules_clients_n_plans(clients), 10);
    for (int i = 0; i < RULES_CLIENTS_MAX; i++) {
        struct rules_bytes plan;

        (void)snprintf(client, sizeof client, "key-%020d", i);
        plan = rules_clients_find(clients,
                                  value_of(RULES_TEXT, client, strlen(client)));
        assert_int_equal(plan.len, 5);
        assert_int_equal(plan.ptr[4], '0' + i % 10);
        client[0] = 'K';
        plan = rules_clients_find(clients,
                                  value_of(RULES_TEXT, client, strlen(client)));
        assert_int_equal(plan.len, 0);
    }
    rules_clients_free(clients);
    (void)snprintf(text + n, cap - n, "one more,plan0\nanother,plan0\n");
    error_is(text, RULES_CLIENTS_TEXT, "too-many-clients", RULES_CLIENTS_MAX + 1, 1);
    free(text);
}

static void test_bytes_bound(void **state)
{
    size_t len = (size_t)RULES_CLIENTS_BYTES_MAX + 1;
    char *text = calloc(len, 1);

    (void)state;
    assert_non_null(text);
    assert_null(load_bytes((struct rules_bytes){(const uint8_t *)text, len},
                           RULES_CLIENTS_TEXT));
    assert_int_equal(diags.n_errors, 1);
    assert_string_equal(diags.kept[0].code, "file-too-large");
    free(text);
}

static void test_free_nothing(void **state)
{
    (void)state;
    rules_clients_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_are_found),
        cmocka_unit_test(test_fields_in_quotes),
        cmocka_unit_test(test_what_is_no_line),
        cmocka_unit_test(test_all_errors_are_told),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_addresses_as_text),
        cmocka_unit_test(test_request_of_a_client),
        cmocka_unit_test(test_who_names_clients),
        cmocka_unit_test(test_plans_bound),
        cmocka_unit_test(test_clients_bound),
        cmocka_unit_test(test_bytes_bound),
        cmocka_unit_test(test_free_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
