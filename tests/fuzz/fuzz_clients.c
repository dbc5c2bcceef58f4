/*
 * A file of clients. The first byte says whether clients are addresses.
 *
 * Laws:      a table, or errors that point into the text; each client that a simple line
 *            holds is found, as often as it is looked up; the reading has no memory.
 * Must reach: every error of clients.c but those of the bounds of the whole.
 */
#include <sodium.h>

#include "rules/clients.h"

#include "tests/fuzz/fuzz.h"

static uint32_t lines_count(struct rules_bytes text)
{
    uint32_t n = 1;

    for (size_t i = 0; i < text.len; i++) {
        n += text.ptr[i] == '\n';
    }
    return n;
}

static void check_errors(const struct rules_diags *diags, struct rules_bytes text)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        FUZZ_CHECK(diags->kept[i].mark.line <= lines_count(text));
        FUZZ_CHECK(diags->kept[i].mark.column <= text.len + 1);
    }
}

static bool is_plan(const struct rules_clients *clients, struct rules_bytes plan)
{
    for (uint32_t i = 0; i < rules_clients_n_plans(clients); i++) {
        struct rules_bytes known = rules_clients_plan(clients, i);

        if (known.len == plan.len && memcmp(known.ptr, plan.ptr, plan.len) == 0) {
            return true;
        }
    }
    return false;
}

/** A line without quotes that was accepted says who has which plan. */
static void check_line(const struct rules_clients *clients, struct rules_bytes line)
{
    const uint8_t *comma = memchr(line.ptr, ',', line.len);
    struct rules_bytes client;
    struct rules_bytes plan;

    if (comma == NULL || line.ptr[0] == '#'
        || memchr(line.ptr, '"', line.len) != NULL) {
        return;
    }
    client = (struct rules_bytes){line.ptr, (size_t)(comma - line.ptr)};
    plan = rules_clients_find(clients, (struct rules_value){RULES_TEXT, client});
    FUZZ_CHECK(plan.len > 0 && is_plan(clients, plan));
    FUZZ_CHECK(plan.len <= line.len - client.len - 1);
    FUZZ_CHECK(memcmp(plan.ptr, comma + 1, plan.len) == 0);
}

static void check_table(const struct rules_clients *clients, struct rules_bytes text)
{
    size_t at = 0;

    FUZZ_CHECK(rules_clients_count(clients) > 0);
    while (at < text.len) {
        const uint8_t *feed = memchr(text.ptr + at, '\n', text.len - at);
        size_t len = feed != NULL ? (size_t)(feed - text.ptr) - at : text.len - at;

        check_line(clients, (struct rules_bytes){text.ptr + at, len});
        at += len + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct rules_diags diags;
    enum rules_clients_kind kind;
    struct rules_clients *clients;
    struct rules_bytes text;
    uint8_t *copy;

    FUZZ_CHECK(sodium_init() >= 0);
    if (len == 0) {
        return 0;
    }
    kind = data[0] == 'a' ? RULES_CLIENTS_ADDRESS : RULES_CLIENTS_TEXT;
    copy = fuzz_copy(data + 1, len - 1);
    text = (struct rules_bytes){copy, len - 1};
    rules_diags_init(&diags, "clients.csv");
    clients = rules_clients_load(text, kind, &diags);
    FUZZ_CHECK((clients == NULL) == (diags.n_errors > 0));
    if (clients != NULL) {
        check_table(clients, text);
    } else {
        check_errors(&diags, text);
    }
    rules_clients_free(clients);
    free(copy);
    return 0;
}
