#include "tests/bench/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "rules/rules.h"
#include "spop/bytes.h"
#include "spop/value.h"

#include "agent/base.h"
#include "agent/redis/script.h"
#include "agent/store/local.h"

enum {
    MEMORY_BYTES = 64 * 1024 * 1024,
    CONNECT_TURNS = 100, /* of 10 ms */
    BURST_MAX = 32,      /* between two turns of the loop */
};

/* As agent.yaml has them where it says nothing. */
static const struct leases_options leases_options = {
    .share = 500,
    .horizon_us = US_PER_S,
    .ttl_us = 2 * US_PER_S,
};

#define SYNC_INTERVAL_US (100 * US_PER_MS)

static const uint8_t secret[LOCAL_SECRET_BYTES] = "not secret here";
static const uint8_t host[SCRIPT_HOST_BYTES] = "bench";

/* --- set-up --- */

static struct decide_set *load_set(const char *text)
{
    static struct rules_diags diags;
    rules_diags_init(&diags, "bench");
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = strlen(text)};
    struct rules_source source = {.name = "bench", .text = bytes};
    struct rules_set *rules = rules_load(&source, &diags);
    rules_diags_print(&diags, stderr);
    ENSURE(rules != NULL);
    struct decide_set *set = decide_set_new(rules, "rl");
    ENSURE(set != NULL);
    return set;
}

static void set_script(struct engine *engine, unsigned i, const struct script *script)
{
    engine->scripts[i] = (struct link_script){.text = script->text,
                                              .text_bytes = script->text_bytes};
    link_script_name(&engine->scripts[i]);
}

static void open_router(struct engine *engine)
{
    set_script(engine, REDIS_SCRIPT_TAKE, &script_take);
    set_script(engine, REDIS_SCRIPT_SETTLE, &script_settle);
    set_script(engine, REDIS_SCRIPT_BEAT, &script_beat);
    set_script(engine, REDIS_SCRIPT_LEASE, &script_lease);
    set_script(engine, REDIS_SCRIPT_SYNC, &script_sync);
    engine->redis_options = (struct redis_options){
        .mode = engine->options.mode,
        .n_endpoints = engine->options.n_endpoints,
        .endpoints = engine->options.endpoints,
        .scripts = engine->scripts,
        .n_scripts = REDIS_SCRIPTS_N,
    };
    engine->redis = redis_new(&engine->redis_options);
    ENSURE(engine->redis != NULL);
    engine->router = router_new(engine->redis, engine->loop, 1);
    ENSURE(engine->router != NULL);
}

static void open_store(struct engine *engine)
{
    engine->health = health_new(0, 1, clock_now());
    engine->leases = leases_new(&leases_options);
    engine->syncs = syncs_new(SYNC_INTERVAL_US);
    ENSURE(engine->health != NULL && engine->leases != NULL && engine->syncs != NULL);
    struct redis_store_options options = {
        .local = engine->local,
        .seam = router_seam(engine->router),
        .health = engine->health,
        .prefix = "rl",
        .secret = secret,
        .leases = engine->leases,
        .syncs = engine->syncs,
        .host = host,
    };
    engine->store = redis_store_new(&options);
    ENSURE(engine->store != NULL);
}

static void open_decide(struct engine *engine)
{
    decide_options_init(&engine->decide_options, variables_default());
    engine->decide_options.deadline_us = engine->options.deadline_us;
    engine->decide.options = &engine->decide_options;
    engine->set = load_set(engine->options.rules);
    engine->decide.set = engine->set;
    engine->decide.counters = counters_new(engine->decide.set->n_limits);
    engine->decide.store = engine->store;
    ENSURE(engine->decide.counters != NULL);
}

static void connect_all(struct engine *engine)
{
    for (unsigned i = 0; i < CONNECT_TURNS; i++) {
        engine_turn(engine);
        ev_sleep(0.01);
    }
}

struct engine *engine_open(const struct engine_options *options)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    ENSURE(engine != NULL);
    engine->options = *options;
    engine->loop = ev_loop_new(EVFLAG_NOENV);
    engine->local = local_new(MEMORY_BYTES, LOCAL_LOG_BYTES_MIN, secret);
    ENSURE(engine->loop != NULL && engine->local != NULL);
    engine->store = engine->local;
    for (unsigned i = 0; i < ENGINE_REQUESTS_MAX; i++) {
        engine->requests[i].next = engine->free;
        engine->free = &engine->requests[i];
    }
    if (options->n_endpoints > 0) {
        open_router(engine);
        open_store(engine);
        connect_all(engine);
    }
    open_decide(engine);
    return engine;
}

void engine_close(struct engine *engine)
{
    engine_rest(engine);
    if (engine->router != NULL) {
        router_free(engine->router);
        redis_free(engine->redis);
        store_free(engine->store);
    }
    health_free(engine->health);
    leases_free(engine->leases);
    syncs_free(engine->syncs);
    store_free(engine->local);
    counters_free(engine->decide.counters);
    decide_set_free(engine->set);
    ev_loop_destroy(engine->loop);
    free(engine);
}

/* --- requests --- */

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

void engine_make_sample(struct engine_sample *sample, uint64_t client)
{
    uint8_t ip[4];
    char api_key[32];
    struct spop_writer w;
    for (unsigned i = 0; i < sizeof(ip); i++) {
        ip[i] = (uint8_t)(client >> (8 * i));
    }
    (void)snprintf(api_key, sizeof(api_key), "key-%020llu", (unsigned long long)client);
    spop_writer_init(&w, sample->payload, sizeof(sample->payload));
    spop_write_string(&w, spop_bytes_view("ratelimit-check"));
    spop_write_u8(&w, 7);
    struct spop_bytes bytes = {.ptr = ip, .len = sizeof(ip)};
    put_arg(&w, "ip", (struct spop_value){.type = SPOP_VALUE_IPV4, .bytes = bytes});
    put_arg(&w, "method", text_value("GET"));
    put_arg(&w, "host", text_value("api.example.com"));
    put_arg(&w, "path", text_value("/v1/items/42"));
    put_arg(&w, "route", (struct spop_value){.type = SPOP_VALUE_NULL});
    put_arg(&w, "auth", text_value("api_key"));
    put_arg(&w, "api_key", text_value(api_key));
    ENSURE(w.status == SPOP_OK);
    sample->len = w.len;
}

static void on_decided(struct decide_request *decided)
{
    struct engine *engine = decided->context;
    struct engine_request *request = CONTAINER_OF(decided, struct engine_request,
                                                  request);
    engine->n_allowed += decided->take.is_allowed;
    engine->n_refused += !decided->take.is_allowed;
    engine->n_under_way--;
    request->next = engine->free;
    engine->free = request;
}

void engine_ask(struct engine *engine, const struct engine_sample *sample,
                struct instant now)
{
    struct engine_request *request = engine->free;
    struct spop_event notify = {
        .type = SPOP_EVENT_NOTIFY,
        .stream_id = 1000,
        .frame_id = 1,
        .payload = {.ptr = sample->payload, .len = sample->len},
    };
    ENSURE(request != NULL);
    engine->free = request->next;
    engine->n_under_way++;
    request->request.take.deadline = instant_add_us(now, engine->options.deadline_us);
    ENSURE(decide_notify(&engine->decide, &request->request, &notify, now, on_decided,
                         engine));
}

void engine_turn(struct engine *engine)
{
    (void)ev_run(engine->loop, EVRUN_NOWAIT);
}

void engine_rest(struct engine *engine)
{
    while (engine->n_under_way > 0) {
        engine_turn(engine);
    }
}

/* How many are due after so long. */
static uint64_t due_after(const struct engine_load *load, int64_t us)
{
    double s = (double)us / US_PER_S;
    return (uint64_t)(s * load->per_s
                      * (load->is_growing ? s / (2 * load->seconds) : 1));
}

uint64_t engine_offer(struct engine *engine, struct prng *prng,
                      const struct engine_load *load)
{
    struct engine_sample sample;
    struct instant began = clock_now();
    struct instant now = began;
    uint64_t n = 0;
    while (instant_diff_us(now, began) < load->seconds * US_PER_S) {
        uint64_t due = due_after(load, instant_diff_us(now, began));
        for (unsigned i = 0; i < BURST_MAX && n < due && engine->free != NULL; i++) {
            engine_make_sample(&sample, prng_below(prng, load->n_clients));
            engine_ask(engine, &sample, now);
            n++;
        }
        if (n >= due) {
            ev_sleep(0.0002);
        }
        engine_turn(engine);
        now = clock_now();
    }
    return n;
}

/* --- what it has done --- */

uint64_t engine_n_calls(const struct engine *engine)
{
    return health_get(engine->health, HEALTH_CALLS);
}

uint64_t engine_n_by_policy(const struct engine *engine)
{
    return health_get(engine->health, HEALTH_POLICY_LOCAL)
           + health_get(engine->health, HEALTH_POLICY_OPEN)
           + health_get(engine->health, HEALTH_POLICY_CLOSED);
}
