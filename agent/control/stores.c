#include "agent/control/stores.h"

#include <string.h>

#include <sodium.h>

#include "agent/decide/retry.h"
#include "agent/log.h"
#include "agent/redis/script.h"
#include "agent/redis/secret.h"
#include "agent/store/local.h"

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static bool read_password(const char *file, char **password)
{
    const char *error = NULL;
    if (file[0] == '\0') {
        return true;
    }
    *password = secret_read(file, &error);
    if (*password == NULL) {
        log_error("password_file %s: %s", file, error);
    }
    return *password != NULL;
}

static bool open_tls(struct stores *stores)
{
    const struct config_redis *config = stores->config;
    char error[TLS_ERROR_BYTES_MAX];
    if (!config->has_tls) {
        return true;
    }
    struct tls_options options = {
        .ca_file = text_or_null(config->ca_file),
        .cert_file = text_or_null(config->cert_file),
        .key_file = text_or_null(config->key_file),
    };
    stores->tls = tls_new(&options, error);
    if (stores->tls == NULL) {
        log_error("redis: tls: %s", error);
    }
    return stores->tls != NULL;
}

static void set_script(struct link_script *to, const struct script *script)
{
    to->text = script->text;
    to->text_bytes = script->text_bytes;
    link_script_name(to);
}

static void name_agent(struct stores *stores, const uint8_t *secret)
{
    static const char what[] = "agent";
    uint8_t name[STORES_NAME_BYTES];
    (void)crypto_generichash(name, sizeof(name), (const uint8_t *)what,
                             sizeof(what) - 1, secret, RETRY_SECRET_BYTES);
    (void)sodium_bin2hex(stores->name, sizeof(stores->name), name, sizeof(name));
}

static void set_options(struct stores *stores)
{
    const struct config_redis *config = stores->config;
    set_script(&stores->scripts[REDIS_SCRIPT_TAKE], &script_take);
    set_script(&stores->scripts[REDIS_SCRIPT_SETTLE], &script_settle);
    set_script(&stores->scripts[REDIS_SCRIPT_BEAT], &script_beat);
    set_script(&stores->scripts[REDIS_SCRIPT_LEASE], &script_lease);
    set_script(&stores->scripts[REDIS_SCRIPT_SYNC], &script_sync);
    stores->options = (struct redis_options){
        .mode = config->mode,
        .n_endpoints = config->n_endpoints,
        .endpoints = config->endpoints,
        .primary_name = text_or_null(config->primary_name),
        .user = text_or_null(config->user),
        .password = stores->password,
        .sentinel_user = text_or_null(config->sentinel_user),
        .sentinel_password = stores->sentinel_password,
        .database = config->database,
        .scripts = stores->scripts,
        .n_scripts = REDIS_SCRIPTS_N,
        .tls = stores->tls,
        .server_name = text_or_null(config->server_name),
        .n_networks = config->n_networks,
        .networks = config->networks,
    };
}

bool stores_prepare(struct stores *stores, const struct config_redis *config)
{
    stores->config = config;
    if (!read_password(config->password_file, &stores->password)
        || !read_password(config->sentinel_password_file, &stores->sentinel_password)
        || !open_tls(stores)) {
        return false;
    }
    set_options(stores);
    return true;
}

bool stores_open(struct stores *stores, const struct stores_options *options)
{
    const struct config *config = options->config;
    stores->local = options->local;
    if (!config->redis.is_given) {
        return true;
    }
    if (!stores_prepare(stores, &config->redis)) {
        return false;
    }
    struct leases_options leases = {
        .share = config->lease_share,
        .horizon_us = config->lease_horizon_us,
        .ttl_us = config->lease_ttl_us,
    };
    randombytes_buf(stores->host, sizeof(stores->host));
    stores->leases = leases_new(&leases);
    stores->syncs = syncs_new(config->sync_interval_us);
    stores->hot = hot_new();
    stores->health = health_new(config->redis.slow_us, options->n_agents, clock_now());
    name_agent(stores, options->secret);
    bool has_ended = options->ended[0] != '\0'
                     && strcmp(options->ended, stores->name) != 0;
    stores->ended = has_ended ? options->ended : NULL;
    stores->redis = redis_new(&stores->options);
    if (stores->health == NULL || stores->leases == NULL || stores->syncs == NULL
        || stores->hot == NULL || stores->redis == NULL) {
        log_error("redis: out of memory, or of threads");
        return false;
    }
    return true;
}

void stores_close(struct stores *stores)
{
    if (stores->redis != NULL) {
        redis_free(stores->redis);
    }
    health_free(stores->health);
    leases_free(stores->leases);
    syncs_free(stores->syncs);
    hot_free(stores->hot);
    tls_free(stores->tls);
    secret_free(stores->password);
    secret_free(stores->sentinel_password);
}

static void start_beat(struct stores *stores)
{
    struct beat_options options = {
        .seam = router_seam(stores->workers[0].router),
        .health = stores->health,
        .prefix = stores->config->prefix,
        .name = stores->name,
        .ended = stores->ended,
    };
    beat_start(&stores->beat, &options);
}

struct store *stores_attach(struct stores *stores, unsigned worker,
                            struct ev_loop *loop)
{
    uint64_t seed = 0;
    if (stores->redis == NULL) {
        return stores->local;
    }
    randombytes_buf(&seed, sizeof(seed));
    struct router *router = router_new(stores->redis, loop, seed);
    if (router == NULL) {
        log_error("worker %u: out of memory", worker);
        return NULL;
    }
    struct redis_store_options options = {
        .local = stores->local,
        .seam = router_seam(router),
        .health = stores->health,
        .prefix = stores->config->prefix,
        .secret = local_secret(stores->local),
        .leases = stores->leases,
        .syncs = stores->syncs,
        .hot = stores->hot,
        .host = stores->host,
        .worker = worker,
    };
    stores->workers[worker].router = router;
    stores->workers[worker].store = redis_store_new(&options);
    if (stores->workers[worker].store == NULL) {
        log_error("worker %u: out of memory", worker);
    }
    if (worker == 0) {
        start_beat(stores);
    }
    return stores->workers[worker].store;
}

void stores_await(const struct stores *stores)
{
    unsigned n_workers = 0;
    while (n_workers < SERVER_WORKERS_MAX
           && stores->workers[n_workers].router != NULL) {
        n_workers++;
    }
    if (n_workers > 0) {
        redis_await(stores->redis, n_workers, STORES_AWAIT_US);
    }
}

void stores_leave(struct stores *stores)
{
    stores->is_leaving = true;
}

/* What is under way ends by the router's end, and the store hears of it. */
void stores_detach(struct stores *stores, unsigned worker)
{
    if (stores->workers[worker].router != NULL) {
        if (worker == 0 && stores->is_leaving) {
            beat_leave(&stores->beat);
        }
        router_free(stores->workers[worker].router);
        stores->workers[worker].router = NULL;
    }
    store_free(stores->workers[worker].store);
    stores->workers[worker].store = NULL;
}
