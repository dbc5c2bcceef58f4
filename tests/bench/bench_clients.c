/*
 * What a table of clients costs: to load, to hold, to look up in, and in a decision. CPU
 * time of this thread; lookups are of random clients, so that the table is not in the
 * cache.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "rules/clients.h"
#include "rules/rules.h"

#include "agent/base.h"

#include "tests/bench/measure.h"
#include "tests/support/prng.h"

enum {
    CLIENTS = RULES_CLIENTS_MAX,
    LINE_BYTES_MAX = 64,
    LOADS = 5,
    LOOKUPS = 1000000,
};

static const char rules_text[] =
    "version: 1\ndomain: bench\nclients: { file: clients.csv, by: api_key }\nrules:\n"
    "- name: per_key\n  key: [api_key]\n  limit: { requests: 10, per: 1h }\n"
    "  plans: { plan0: 10x, plan1: 20x }\n";

static struct rules_diags diags;
static struct prng prng;

struct sample {
    char client[32];
    struct rules_value value;
};

static void draw(struct sample *sample, uint64_t first)
{
    int n = snprintf(sample->client, sizeof(sample->client), "key-%020" PRIu64,
                     first + prng_below(&prng, CLIENTS));
    sample->value = (struct rules_value){
        .type = RULES_TEXT,
        .bytes = {.ptr = (const uint8_t *)sample->client, .len = (size_t)n},
    };
}

static char *write_clients(size_t *len)
{
    size_t cap = (size_t)CLIENTS * LINE_BYTES_MAX;
    char *text = malloc(cap);
    ENSURE(text != NULL);
    *len = 0;
    for (int i = 0; i < CLIENTS; i++) {
        int n = snprintf(text + *len, cap - *len, "key-%020d,plan%d\n", i, i % 10);
        *len += (size_t)n;
    }
    return text;
}

static size_t bytes_held(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static struct rules_clients *load_clients(const char *text, size_t len)
{
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    rules_diags_init(&diags, "bench");
    struct rules_clients *clients = rules_clients_load(bytes, RULES_CLIENTS_TEXT,
                                                       &diags);
    ENSURE(clients != NULL);
    return clients;
}

static struct rules_clients *bench_load(const char *text, size_t len)
{
    struct rules_clients *clients = NULL;
    int64_t least_ns = INT64_MAX;
    size_t before = bytes_held();
    for (int i = 0; i < LOADS; i++) {
        rules_clients_free(clients);
        int64_t began_ns = measure_cpu_ns();
        clients = load_clients(text, len);
        int64_t ns = measure_cpu_ns() - began_ns;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    (void)printf("%-44s %8.0f\n", "ms to load 1 M lines, least of 5",
                 (double)least_ns / 1e6);
    (void)printf("%-44s %8.1f\n", "bytes a line of the file", (double)len / CLIENTS);
    (void)printf("%-44s %8.1f\n", "bytes a line of the table",
                 (double)(bytes_held() - before) / CLIENTS);
    return clients;
}

static void bench_lookup(const char *name, const struct rules_clients *clients,
                         uint64_t first)
{
    static struct sample samples[1024];
    int64_t sum_ns = 0;
    uint64_t n_found = 0;
    for (int i = 0; i < LOOKUPS; i += (int)ARRAY_LEN(samples)) {
        for (size_t j = 0; j < ARRAY_LEN(samples); j++) {
            draw(&samples[j], first);
        }
        int64_t began_ns = measure_cpu_ns();
        for (size_t j = 0; j < ARRAY_LEN(samples); j++) {
            n_found += rules_clients_find(clients, samples[j].value).len > 0;
        }
        sum_ns += measure_cpu_ns() - began_ns;
    }
    ENSURE(n_found == 0 || first == 0);
    (void)printf("%-44s %8.0f\n", name, (double)sum_ns / LOOKUPS);
}

static struct rules_set *load_rules(void)
{
    struct rules_source source = {
        .name = "bench",
        .text = {.ptr = (const uint8_t *)rules_text, .len = sizeof(rules_text) - 1},
    };
    rules_diags_init(&diags, "bench");
    struct rules_set *set = rules_load(&source, &diags);
    ENSURE(set != NULL);
    return set;
}

/* Nanoseconds an evaluation, with the plan of the table or without one. */
static void bench_evaluation(const char *name, const struct rules_set *set,
                             const struct rules_clients *clients)
{
    static struct rules_request request;
    static struct rules_result result;
    static struct sample samples[1024];
    struct rules_bytes key = {.ptr = (const uint8_t *)"api_key", .len = 7};
    struct rules_bytes plan = {.ptr = (const uint8_t *)"plan", .len = 4};
    int slot = rules_set_slot(set, key);
    int slot_plan = rules_set_slot(set, plan);
    int64_t sum_ns = 0;
    ENSURE(slot >= 0 && slot_plan >= 0);
    for (int i = 0; i < LOOKUPS; i += (int)ARRAY_LEN(samples)) {
        for (size_t j = 0; j < ARRAY_LEN(samples); j++) {
            draw(&samples[j], 0);
        }
        int64_t began_ns = measure_cpu_ns();
        for (size_t j = 0; j < ARRAY_LEN(samples); j++) {
            request.values[slot] = samples[j].value;
            request.values[slot_plan] = (struct rules_value){.type = RULES_ABSENT};
            if (clients != NULL) {
                rules_clients_apply(clients, set, &request);
            }
            rules_eval(set, &request, &result);
        }
        sum_ns += measure_cpu_ns() - began_ns;
    }
    (void)printf("%-44s %8.0f\n", name, (double)sum_ns / LOOKUPS);
}

int main(void)
{
    size_t len = 0;
    ENSURE(sodium_init() >= 0);
    prng_init(&prng, 1);
    char *text = write_clients(&len);
    struct rules_clients *clients = bench_load(text, len);
    struct rules_set *set = load_rules();
    free(text);
    bench_lookup("ns to find one of 1 M, random ones", clients, 0);
    bench_lookup("ns to find none, random ones", clients, CLIENTS);
    bench_evaluation("ns to evaluate one rule, no table", set, NULL);
    bench_evaluation("ns to evaluate one rule, plan of the table", set, clients);
    rules_set_free(set);
    rules_clients_free(clients);
    return EXIT_SUCCESS;
}
