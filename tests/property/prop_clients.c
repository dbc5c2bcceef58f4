/*
 * A table of clients against a list that is searched from its front, over random files:
 * few different clients, so that many stand twice; quotes, comments and empty lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/clients.h"

#include "tests/support/prng.h"

enum {
    FILES = 3000,
    LINES_MAX = 60,
    CLIENT_BYTES_MAX = 12,
    TEXT_BYTES = LINES_MAX * 64,
};

struct client {
    uint8_t bytes[CLIENT_BYTES_MAX];
    size_t len;
    unsigned plan;
    uint32_t line;
};

static struct {
    struct prng prng;
    uint8_t text[TEXT_BYTES];
    size_t len;
    struct client clients[LINES_MAX]; /* different ones */
    unsigned n_clients;
    unsigned n_twice;
    uint32_t twice_line; /* the last that stood before */
    uint32_t first_line; /* where it stood */
} f;

static void put(const void *bytes, size_t len)
{
    assert_true(f.len + len <= sizeof f.text);
    memcpy(f.text + f.len, bytes, len);
    f.len += len;
}

static void draw_client(struct client *client)
{
    static const char characters[] = "ab,\"# \xc3\xa9";

    client->len = 1
                  + prng_below(&f.prng,
                               prng_below(&f.prng, 8) == 0 ? CLIENT_BYTES_MAX : 3);
    for (size_t i = 0; i < client->len; i++) {
        client->bytes[i] = (uint8_t)
            characters[prng_below(&f.prng, sizeof characters - 1)];
    }
    client->plan = (unsigned)prng_below(&f.prng, 5);
}

static const struct client *find(const struct client *client)
{
    for (unsigned i = 0; i < f.n_clients; i++) {
        if (f.clients[i].len == client->len
            && memcmp(f.clients[i].bytes, client->bytes, client->len) == 0) {
            return &f.clients[i];
        }
    }
    return NULL;
}

static void put_client(const struct client *client)
{
    bool is_quoted = client->bytes[0] == '#' || prng_below(&f.prng, 4) == 0
                     || memchr(client->bytes, ',', client->len) != NULL
                     || memchr(client->bytes, '"', client->len) != NULL;
    char plan[16];
    int n = snprintf(plan, sizeof plan, ",plan%u", client->plan);

    put("\"", is_quoted);
    for (size_t i = 0; i < client->len; i++) {
        put(&client->bytes[i], 1);
        put("\"", client->bytes[i] == '"');
    }
    put("\"", is_quoted);
    put(plan, (size_t)n);
}

static void put_line(uint32_t line, bool is_last)
{
    struct client client;
    const struct client *known;

    switch (prng_below(&f.prng, 8)) {
    case 0:
        put("# a,b", 5);
        break;
    case 1:
        break;
    default:
        draw_client(&client);
        client.line = line;
        known = find(&client);
        put_client(&client);
        if (known == NULL) {
            f.clients[f.n_clients++] = client;
        } else {
            f.n_twice++;
            f.twice_line = line;
            f.first_line = known->line;
        }
    }
    put("\r", prng_below(&f.prng, 4) == 0);
    put("\n", !is_last || prng_below(&f.prng, 2) == 0);
}

static void make_file(void)
{
    uint32_t n_lines = 1 + (uint32_t)prng_below(&f.prng, LINES_MAX);
    bool is_dense = prng_below(&f.prng, 2) == 0;

    f.len = 0;
    f.n_clients = 0;
    f.n_twice = 0;
    n_lines = is_dense ? n_lines : 1 + n_lines / 8;
    for (uint32_t line = 1; line <= n_lines; line++) {
        put_line(line, line == n_lines);
    }
}

static struct rules_bytes look_up(const struct rules_clients *clients,
                                  const struct client *client)
{
    return rules_clients_find(clients,
                              (struct rules_value){RULES_TEXT,
                                                   {client->bytes, client->len}});
}

static void check_table(const struct rules_clients *clients)
{
    assert_int_equal(rules_clients_count(clients), f.n_clients);
    for (unsigned i = 0; i < 200; i++) {
        struct client client;
        const struct client *known;
        struct rules_bytes plan;

        draw_client(&client);
        known = i < f.n_clients ? &f.clients[i] : find(&client);
        plan = look_up(clients, known != NULL ? known : &client);
        assert_int_equal(plan.len, known != NULL ? 5 : 0);
        if (known != NULL) {
            assert_int_equal(plan.ptr[4], '0' + known->plan);
        }
    }
}

static void check_errors(const struct rules_diags *diags)
{
    const struct rules_diag *last = &diags->kept[diags->n_kept - 1];
    char want[32];

    assert_int_equal(diags->n_errors, f.n_twice);
    assert_string_equal(last->code, "duplicate-client");
    assert_int_equal(last->mark.line, f.twice_line);
    (void)snprintf(want, sizeof want, "in line %u", f.first_line);
    assert_string_equal(strstr(last->text, "in line"), want);
}

static void test_model(void **state)
{
    static struct rules_diags diags;
    uint64_t seed = prng_seed(1);
    unsigned n_good = 0;
    unsigned n_twice = 0;

    (void)state;
    print_message("SEED=%ju\n", (uintmax_t)seed);
    prng_init(&f.prng, seed);
    for (unsigned i = 0; i < FILES; i++) {
        struct rules_clients *clients;

        make_file();
        rules_diags_init(&diags, "clients.csv");
        clients = rules_clients_load((struct rules_bytes){f.text, f.len},
                                     RULES_CLIENTS_TEXT, &diags);
        if (f.n_twice > 0) {
            assert_null(clients);
            check_errors(&diags);
            n_twice++;
        } else if (f.n_clients == 0) {
            assert_null(clients);
            assert_string_equal(diags.kept[0].code, "no-clients");
        } else {
            assert_non_null(clients);
            check_table(clients);
            n_good++;
        }
        rules_clients_free(clients);
    }
    assert_true(n_good > FILES / 10 && n_twice > FILES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
