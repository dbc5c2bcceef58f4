/*
 * What a decision costs, without sockets: a NOTIFY payload goes in, a verdict, or an
 * ACK frame, comes out. CPU time of this thread, so that neighbours disturb less; all
 * cases take turns in every round, so that a slow moment meets all of them.
 *
 * Payloads are made in batches between two readings of the clock: they lie in the cache
 * then, as after a recv, and making them is not counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "rules/rules.h"
#include "spop/bytes.h"
#include "spop/cursor.h"
#include "spop/session.h"
#include "spop/value.h"

#include "agent/base.h"
#include "agent/decide/decide.h"
#include "agent/store/local.h"

#include "tests/bench/measure.h"
#include "tests/support/alloc_probe.h"
#include "tests/support/prng.h"

enum {
    BATCH = 128,
    DECISIONS = 800 * BATCH, /* a case and round */
    KEYS = 1000000,
    RULE_BYTES_MAX = 160,
    PAYLOAD_BYTES_MAX = 256,
    FRAME_BYTES_MAX = 16384,
    MEMORY_BYTES = 128 * 1024 * 1024, /* for two counters a key */
};

/* A rule set with its own counters, all of them present from the start. */
struct scene {
    unsigned n_rules;
    struct decide_set *set;
    struct store *store;
    struct decide decide;
    struct decide_options options;
    struct instant now;
    struct prng prng;
    struct decide_request requests[DECIDE_BEGUN_MAX];
    int slot_ip;
    int slot_path;
    int slot_api_key;
};

/* One request: what its payload is made of, and the payload. */
struct sample {
    uint8_t ip[4];
    char path[64];
    char api_key[32];
    size_t payload_len;
    uint8_t payload[PAYLOAD_BYTES_MAX];
};

struct batch {
    struct sample samples[BATCH];
    struct spop_writer ack;
    uint8_t ack_buf[DECIDE_ACK_BYTES_MAX];
    uint64_t n_ack_bytes;
};

typedef void run_fn(struct scene *scene, struct batch *batch);

struct bench_case {
    const char *name;
    struct scene *scene;
    uint64_t n_keys; /* of which each decision draws one */
    run_fn *run;
    double ns[MEASURE_ROUNDS];
};

/* The first rule matches every request; of the others, one for each path. */
static char *write_rules(unsigned n_rules, int64_t requests, size_t *len)
{
    size_t cap = (size_t)(n_rules + 1) * RULE_BYTES_MAX;
    char *text = malloc(cap);
    ENSURE(text != NULL);
    int n = snprintf(text, cap,
                     "version: 1\ndomain: bench\nrules:\n"
                     "- name: per_address\n  key: [ip]\n"
                     "  limit: { requests: %" PRId64 ", per: 1h }\n",
                     requests);
    size_t used = (size_t)n;
    for (unsigned i = 1; i < n_rules; i++) {
        n = snprintf(text + used, cap - used,
                     "- name: service_%u\n  match: { path: \"/v1/service%u/**\" }\n"
                     "  key: [api_key]\n"
                     "  limit: { requests: %" PRId64 ", per: 1h }\n",
                     i, i, requests);
        used += (size_t)n;
    }
    ENSURE(used < cap);
    *len = used;
    return text;
}

static struct decide_set *load_set(unsigned n_rules, int64_t requests)
{
    static struct rules_diags diags;
    size_t len = 0;
    char *text = write_rules(n_rules, requests, &len);
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    rules_diags_init(&diags, "bench");
    struct rules_set *rules = rules_load(&(struct rules_source){.name = "bench",
                                                                .text = bytes},
                                         &diags);
    rules_diags_print(&diags, stderr);
    ENSURE(rules != NULL);
    struct decide_set *set = decide_set_new(rules, "rl");
    ENSURE(set != NULL);
    free(text);
    return set;
}

static void put_arg(struct spop_writer *w, const char *name, struct spop_value value)
{
    spop_write_string(w, spop_bytes_view(name));
    spop_value_encode(w, &value);
}

static struct spop_value text_value(const char *text)
{
    return (struct spop_value){.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
}

/* The arguments of the shipped spoe-ratelimit.conf. A client keeps to one service, so
 * that there are two counters a key. */
static void make_sample(const struct scene *scene, struct sample *s, uint64_t key)
{
    struct spop_writer w;
    for (unsigned i = 0; i < sizeof(s->ip); i++) {
        s->ip[i] = (uint8_t)(key >> (8 * i));
    }
    uint64_t service = 1 + key * 7919 % (scene->n_rules - 1);
    (void)snprintf(s->path, sizeof(s->path), "/v1/service%" PRIu64 "/items/%" PRIu64,
                   service, key % 1000);
    (void)snprintf(s->api_key, sizeof(s->api_key), "key-%020" PRIu64, key);
    spop_writer_init(&w, s->payload, sizeof(s->payload));
    spop_write_string(&w, spop_bytes_view("ratelimit-check"));
    spop_write_u8(&w, 7);
    struct spop_bytes ip = {.ptr = s->ip, .len = sizeof(s->ip)};
    put_arg(&w, "ip", (struct spop_value){.type = SPOP_VALUE_IPV4, .bytes = ip});
    put_arg(&w, "method", text_value("GET"));
    put_arg(&w, "host", text_value("api.example.com"));
    put_arg(&w, "path", text_value(s->path));
    put_arg(&w, "route", (struct spop_value){.type = SPOP_VALUE_NULL});
    put_arg(&w, "auth", text_value("api_key"));
    put_arg(&w, "api_key", text_value(s->api_key));
    ENSURE(w.status == SPOP_OK);
    s->payload_len = w.len;
}

static void ignore_done(struct decide_request *request)
{
    (void)request;
}

static void answer_done(struct decide_request *request)
{
    struct batch *batch = request->context;
    spop_writer_init(&batch->ack, batch->ack_buf, sizeof(batch->ack_buf));
    decide_answer(request, &batch->ack, FRAME_BYTES_MAX);
    batch->n_ack_bytes += batch->ack.len;
}

static void begin(struct scene *scene, struct decide_request *request,
                  const struct sample *s)
{
    struct spop_event notify = {
        .type = SPOP_EVENT_NOTIFY,
        .stream_id = 1000,
        .frame_id = 1,
        .payload = {.ptr = s->payload, .len = s->payload_len},
    };
    ENSURE(decide_begin(&scene->decide, request, &notify, scene->now));
}

static void run_one(struct scene *scene, struct batch *batch, const struct sample *s)
{
    begin(scene, &scene->requests[0], s);
    decide_finish(&scene->requests[0], ignore_done, batch);
}

/* As a connection does with what it reads at once: each request is begun before the last is
 * finished. */
static void run_together(struct scene *scene, struct batch *batch, decide_done_fn *done)
{
    struct decide_request *last = NULL;
    for (unsigned i = 0; i < BATCH; i++) {
        struct decide_request *request = &scene->requests[i % DECIDE_BEGUN_MAX];
        begin(scene, request, &batch->samples[i]);
        if (last != NULL) {
            decide_finish(last, done, batch);
        }
        last = request;
    }
    decide_finish(last, done, batch);
}

static void run_decisions(struct scene *scene, struct batch *batch)
{
    run_together(scene, batch, ignore_done);
}

static void run_decisions_and_acks(struct scene *scene, struct batch *batch)
{
    run_together(scene, batch, answer_done);
}

/* ... with the variables that become header fields and a body, too. */
static void run_decisions_and_fields(struct scene *scene, struct batch *batch)
{
    variable_set variables = scene->options.variables;
    scene->options.variables |= VARIABLE_BIT(VARIABLE_RATELIMIT)
                                | VARIABLE_BIT(VARIABLE_POLICY)
                                | VARIABLE_BIT(VARIABLE_PROBLEM);
    run_decisions_and_acks(scene, batch);
    scene->options.variables = variables;
}

static void run_one_by_one(struct scene *scene, struct batch *batch)
{
    for (unsigned i = 0; i < BATCH; i++) {
        run_one(scene, batch, &batch->samples[i]);
    }
}

static struct rules_value value_of(enum rules_value_type type, const void *ptr,
                                   size_t len)
{
    return (struct rules_value){.type = type, .bytes = {.ptr = ptr, .len = len}};
}

static void match(struct scene *scene, const struct sample *s)
{
    struct rules_value *values = decide_room(&scene->decide)->descriptors.values;
    values[scene->slot_ip] = value_of(RULES_ADDRESS, s->ip, sizeof(s->ip));
    values[scene->slot_path] = value_of(RULES_TEXT, s->path, strlen(s->path));
    values[scene->slot_api_key] = value_of(RULES_TEXT, s->api_key, strlen(s->api_key));
    rules_eval(scene->decide.set->rules, &decide_room(&scene->decide)->descriptors,
               &decide_room(&scene->decide)->result);
}

static void run_matching(struct scene *scene, struct batch *batch)
{
    for (unsigned i = 0; i < BATCH; i++) {
        match(scene, &batch->samples[i]);
    }
}

static int slot_of(const struct scene *scene, const char *name)
{
    struct rules_bytes bytes = {.ptr = (const uint8_t *)name, .len = strlen(name)};
    int slot = rules_set_slot(scene->decide.set->rules, bytes);
    ENSURE(slot >= 0);
    return slot;
}

static struct scene *scene_new(unsigned n_rules, int64_t requests, uint64_t n_keys)
{
    static struct batch batch;
    static const uint8_t secret[LOCAL_SECRET_BYTES] = "not secret here";
    struct scene *scene = calloc(1, sizeof(*scene));
    ENSURE(scene != NULL);
    scene->n_rules = n_rules;
    scene->now = clock_now();
    prng_init(&scene->prng, n_rules);
    decide_options_init(&scene->options, variables_default());
    scene->options.jitter.permille = 100;
    scene->set = load_set(n_rules, requests);
    scene->decide.set = scene->set;
    scene->decide.options = &scene->options;
    scene->decide.counters = counters_new(scene->decide.set->n_limits);
    scene->store = local_new(MEMORY_BYTES, LOCAL_LOG_BYTES_MIN, secret);
    ENSURE(scene->decide.counters != NULL && scene->store != NULL);
    scene->decide.store = scene->store;
    scene->slot_ip = slot_of(scene, "ip");
    scene->slot_path = slot_of(scene, "path");
    scene->slot_api_key = slot_of(scene, "api_key");
    for (uint64_t key = 0; key < n_keys; key++) {
        make_sample(scene, &batch.samples[0], key);
        run_one(scene, &batch, &batch.samples[0]);
    }
    return scene;
}

static void scene_free(struct scene *scene)
{
    counters_free(scene->decide.counters);
    store_free(scene->store);
    decide_set_free(scene->set);
    free(scene);
}

/* Nanoseconds a decision. */
static double run_round(const struct bench_case *bench, struct batch *batch)
{
    struct scene *scene = bench->scene;
    int64_t sum_ns = 0;
    for (unsigned n = 0; n < DECISIONS; n += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            make_sample(scene, &batch->samples[i],
                        prng_below(&scene->prng, bench->n_keys));
        }
        scene->now = instant_add_us(scene->now, BATCH);
        int64_t began_ns = measure_cpu_ns();
        bench->run(scene, batch);
        sum_ns += measure_cpu_ns() - began_ns;
    }
    return (double)sum_ns / DECISIONS;
}

/* Each round gives one ratio: both sides met the same moment. */
static void print_ratio(const char *name, const struct bench_case *over,
                        const struct bench_case *under)
{
    double ratios[MEASURE_ROUNDS];
    for (unsigned i = 0; i < MEASURE_ROUNDS; i++) {
        ratios[i] = over->ns[i] / under->ns[i];
    }
    (void)printf("%-44s %8.2f %8.2f\n", name, measure_median(ratios),
                 measure_least(ratios));
}

/* The cases measured what their names say. A counter that was evicted allows again: a
 * few are, since the table is as full as the smallest one that holds so many keys. */
static void check_outcomes(const struct scene *allow, const struct scene *refuse)
{
    const struct counters *counters = refuse->decide.counters;
    uint64_t n_again = counter_get(counters, COUNTER_REQUESTS_ALLOWED) - KEYS;
    ENSURE(counter_get(allow->decide.counters, COUNTER_REQUESTS_REFUSED) == 0);
    ENSURE(n_again < counter_get(counters, COUNTER_REQUESTS_REFUSED) / 100);
}

enum case_id {
    ALLOW_ALONE,
    ALLOW_DECISION,
    ALLOW_ACK,
    REFUSE_DECISION,
    REFUSE_ACK,
    ALLOW_FIELDS,
    REFUSE_FIELDS,
    ALLOW_ONE_KEY,
    REFUSE_ONE_KEY,
    MATCH_10,
    MATCH_1000,
    CASES_N,
};

int main(void)
{
    static struct batch batch;
    ENSURE(sodium_init() >= 0);
    clock_start();
    struct scene *allow = scene_new(100, RULES_AMOUNT_MAX, KEYS);
    struct scene *refuse = scene_new(100, 1, KEYS);
    struct scene *few = scene_new(10, RULES_AMOUNT_MAX, 0);
    struct scene *many = scene_new(1000, RULES_AMOUNT_MAX, 0);
    struct bench_case cases[CASES_N] = {
        [ALLOW_ALONE] =
            {"allow, decision, one by one", allow, KEYS, run_one_by_one, {0}},
        [ALLOW_DECISION] = {"allow, decision", allow, KEYS, run_decisions, {0}},
        [ALLOW_ACK] =
            {"allow, decision and ACK", allow, KEYS, run_decisions_and_acks, {0}},
        [REFUSE_DECISION] = {"refuse, decision", refuse, KEYS, run_decisions, {0}},
        [REFUSE_ACK] =
            {"refuse, decision and ACK", refuse, KEYS, run_decisions_and_acks, {0}},
        [ALLOW_FIELDS] =
            {"allow, with header fields", allow, KEYS, run_decisions_and_fields, {0}},
        [REFUSE_FIELDS] =
            {"refuse, with header fields", refuse, KEYS, run_decisions_and_fields, {0}},
        [ALLOW_ONE_KEY] =
            {"allow, decision and ACK, one key", allow, 1, run_decisions_and_acks, {0}},
        [REFUSE_ONE_KEY] = {"refuse, decision and ACK, one key",
                            refuse,
                            1,
                            run_decisions_and_acks,
                            {0}},
        [MATCH_10] = {"matching alone, 2 of 10 rules", few, KEYS, run_matching, {0}},
        [MATCH_1000] =
            {"matching alone, 2 of 1000 rules", many, KEYS, run_matching, {0}},
    };
    unsigned long n_allocations = alloc_count();
    for (unsigned round = 0; round < MEASURE_ROUNDS; round++) {
        for (unsigned i = 0; i < CASES_N; i++) {
            cases[i].ns[round] = run_round(&cases[i], &batch);
        }
    }
    n_allocations = alloc_count() - n_allocations;
    check_outcomes(allow, refuse);

    (void)printf("%-44s %8s %8s\n", "ns, 2 of 100 rules, 1 M keys", "median", "least");
    for (unsigned i = 0; i < CASES_N; i++) {
        (void)printf("%-44s %8.0f %8.0f\n", cases[i].name, measure_median(cases[i].ns),
                     measure_least(cases[i].ns));
    }
    print_ratio("refusing over allowing, with ACK", &cases[REFUSE_ACK],
                &cases[ALLOW_ACK]);
    print_ratio("refusing over allowing, with header fields", &cases[REFUSE_FIELDS],
                &cases[ALLOW_FIELDS]);
    print_ratio("refusing over allowing, with ACK, one key", &cases[REFUSE_ONE_KEY],
                &cases[ALLOW_ONE_KEY]);
    print_ratio("matching, 1000 rules over 10", &cases[MATCH_1000], &cases[MATCH_10]);
    (void)printf("allocations in %u decisions: %lu\n",
                 (unsigned)(MEASURE_ROUNDS * CASES_N * DECISIONS), n_allocations);
    scene_free(allow);
    scene_free(refuse);
    scene_free(few);
    scene_free(many);
    return n_allocations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
