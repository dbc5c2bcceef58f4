#include "agent/control/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>

#include <ev.h>
#include <sodium.h>

#include "rules/rules.h"

#include "agent/clock.h"
#include "agent/control/agents.h"
#include "agent/control/rulebook.h"
#include "agent/control/service.h"
#include "agent/control/show.h"
#include "agent/control/state.h"
#include "agent/control/stores.h"
#include "agent/control/takeover.h"
#include "agent/control/upgrade.h"
#include "agent/decide/decide.h"
#include "agent/log.h"
#include "agent/net/worker.h"
#include "agent/redis/secret.h"
#include "agent/store/local.h"

enum {
    SIGNALS_HANDLED = 5,
    DESCRIPTORS_RESERVED = 32, /* standard ones, listeners, the main loop, files read */
    DESCRIPTORS_A_WORKER = 4,
    CLUSTER_NODES =
        16, /* where there are more, what they need is taken from connections */
};

/* Everything that lives as long as the daemon. */
struct daemon {
    const struct config *config;
    unsigned connections_max;
    struct decide_options options;
    struct rulebook *rulebook;
    struct state *state; /* NULL without state_dir */
    bool has_periodic_state;
    struct store *store; /* of this host */
    struct stores stores;
    struct agents agents;
    struct worker_stores worker_stores;
    struct ev_loop *loop;
    struct server *server;
    unsigned n_runtimes;
    struct runtime *runtimes[CONFIG_RUNTIMES_MAX];
    struct ev_signal signals[SIGNALS_HANDLED];
    struct service service;
    struct show_source shown;
    struct takeover *takeover; /* NULL: this agent is nobody's successor */
    struct upgrade upgrade;
};

/* Of a large table for longer than the watchdog waits. */
static void on_upgrade_sending(void *context)
{
    struct daemon *daemon = context;
    service_feed(&daemon->service);
}

static void on_upgrade_over(void *context)
{
    struct daemon *daemon = context;
    if (upgrade_is_done(&daemon->upgrade)) {
        service_hand_over(&daemon->service, daemon->upgrade.pid);
    }
    ev_break(daemon->loop, EVBREAK_ALL);
}

static void on_terminate(struct ev_loop *loop, struct ev_signal *signal, int events)
{
    struct daemon *daemon = ev_userdata(loop);
    (void)signal;
    (void)events;
    if (takeover_may_stop(daemon->takeover) && upgrade_may_stop(&daemon->upgrade)) {
        ev_break(loop, EVBREAK_ALL);
    }
}

static void on_upgrade(struct ev_loop *loop, struct ev_signal *signal, int events)
{
    struct daemon *daemon = ev_userdata(loop);
    (void)signal;
    (void)events;
    if (takeover_is_under_way(daemon->takeover)) {
        log_warning("SIGUSR2 is ignored: an upgrade is under way");
        return;
    }
    upgrade_begin(&daemon->upgrade);
}

/* A signal that means nothing here must not end what HAProxy relies on. */
static void on_ignored(struct ev_loop *loop, struct ev_signal *signal, int events)
{
    (void)loop;
    (void)events;
    log_warning("SIG%s is ignored: SIGTERM stops, SIGUSR2 starts anew without a gap",
                sigabbrev_np(signal->signum));
}

/* A worker has a connection to each node, the scout one. */
static rlim_t descriptors_of_redis(const struct config *config)
{
    rlim_t n_nodes = config->redis.mode == REDIS_CLUSTER ? CLUSTER_NODES : 1;
    return config->redis.is_given ? 1 + n_nodes * config->n_workers : 0;
}

/* As many descriptors as we are allowed: each connection is one. The rest is for the
 * runtime sockets and their clients, listeners, Redis, and what event loops need. Answers how
 * many connections there can be; 0, with a log line, when that is none. */
static unsigned raise_descriptors(const struct config *config)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return SERVER_CONNECTIONS_MAX;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    rlim_t reserved = DESCRIPTORS_RESERVED + config->n_workers * DESCRIPTORS_A_WORKER
                      + config->n_runtimes * RUNTIME_CLIENTS_MAX
                      + descriptors_of_redis(config);
    if (limit.rlim_max <= reserved) {
        log_error(
            "only %ju descriptors are allowed: raise LimitNOFILE, or ulimit -n, to "
            "%ju and more",
            (uintmax_t)limit.rlim_max, (uintmax_t)reserved + SERVER_CONNECTIONS_MAX);
        return 0;
    }
    if (limit.rlim_max - reserved >= SERVER_CONNECTIONS_MAX) {
        return SERVER_CONNECTIONS_MAX;
    }
    log_warning("only %ju descriptors are allowed: no more than %ju connections",
                (uintmax_t)limit.rlim_max, (uintmax_t)(limit.rlim_max - reserved));
    return (unsigned)(limit.rlim_max - reserved);
}

/* Counters that are taken over were hashed with their agent's secret, and hold times of
 * its clock. */
static void choose_origin(const struct daemon *daemon, uint8_t *secret)
{
    const struct image_origin *origin = daemon->state != NULL
                                            ? state_origin(daemon->state)
                                            : NULL;
    if (daemon->takeover != NULL) {
        memcpy(secret, takeover_hello(daemon->takeover)->store_secret,
               LOCAL_SECRET_BYTES);
        return; /* start_clock has seen to the clock */
    }
    if (origin == NULL) {
        randombytes_buf(secret, LOCAL_SECRET_BYTES);
        return;
    }
    memcpy(secret, origin->secret, LOCAL_SECRET_BYTES);
    clock_continue(origin->agent_at, origin->wall_us);
}

/* What of the memory is for the events of sliding logs. */
static size_t log_bytes_of(const struct daemon *daemon)
{
    const struct rules_set *rules = rulebook_set(daemon->rulebook)->rules;
    bool has_log = false;
    for (uint32_t i = 0; i < rules_set_n_limits(rules); i++) {
        has_log = has_log || rules_set_limit(rules, i)->algorithm == RULES_SLIDING_LOG;
    }
    return daemon->config->memory_bytes
           / (has_log ? DAEMON_LOG_SHARE : DAEMON_LOG_SHARE_UNUSED);
}

static bool make_store(struct daemon *daemon)
{
    uint8_t secret[LOCAL_SECRET_BYTES];
    choose_origin(daemon, secret);
    daemon->store = local_new(daemon->config->memory_bytes, log_bytes_of(daemon),
                              secret);
    sodium_memzero(secret, sizeof(secret));
    if (daemon->store == NULL) {
        char reason[64];
        log_error("memory: %zu bytes for counters: %s", daemon->config->memory_bytes,
                  strerror_r(errno, reason, sizeof(reason)));
        return false;
    }
    return true;
}

static const char *state_dir_of(const struct daemon *daemon)
{
    return daemon->config->state_dir[0] != '\0' ? daemon->config->state_dir : NULL;
}

static bool open_state(struct daemon *daemon)
{
    if (state_dir_of(daemon) == NULL) {
        return true;
    }
    /* Counters come from the snapshot or from the agent before, not from both. */
    daemon->state = state_open(daemon->config->state_dir, daemon->takeover == NULL);
    return daemon->state != NULL;
}

static void restore_counters(struct daemon *daemon)
{
    if (daemon->state != NULL) {
        state_restore(daemon->state, daemon->store,
                      rulebook_own_counters(daemon->rulebook));
    }
}

/* Whether a limit of the rules is so long that a crash should not forget it. */
static bool has_long_limit(const struct rules_set *rules)
{
    int64_t longest_us = 0;
    for (uint32_t i = 0; i < rules_set_n_rules(rules); i++) {
        const struct rules_rule *rule = rules_set_rule(rules, i);
        for (uint32_t j = 0; j < rule->n_limits; j++) {
            int64_t per_us = rule->limits[j].per_us;
            longest_us = per_us > longest_us ? per_us : longest_us;
        }
    }
    return longest_us >= STATE_PERIODIC_PER_US;
}

static bool start_state(struct daemon *daemon)
{
    if (daemon->state == NULL || daemon->has_periodic_state
        || !has_long_limit(rulebook_set(daemon->rulebook)->rules)) {
        return true;
    }
    daemon->has_periodic_state = state_start(daemon->state, daemon->loop, daemon->store,
                                             STATE_PERIOD_S);
    return daemon->has_periodic_state;
}

/* One line: what is served, and where. */
static void describe(const struct daemon *daemon, char *line, size_t size)
{
    int len = snprintf(line, size, "domain %s, %" PRIu32 " rules, %u workers, on",
                       rulebook_set(daemon->rulebook)->domain,
                       rules_set_n_rules(rulebook_set(daemon->rulebook)->rules),
                       daemon->config->n_workers);
    for (unsigned i = 0; i < daemon->config->n_listen; i++) {
        ENSURE(len > 0 && (size_t)len < size);
        len += snprintf(line + len, size - (size_t)len, " %s",
                        daemon->config->listen[i].text);
    }
}

/* Once begun, periodic snapshots go on: what is counted by long limits is still there. */
static void on_rules_changed(void *context)
{
    struct daemon *daemon = context;
    char line[SERVICE_STATUS_BYTES_MAX];
    describe(daemon, line, sizeof(line));
    service_tell(&daemon->service, line);
    (void)start_state(daemon); /* says so when it cannot */
}

static void on_reload(struct ev_loop *loop, struct ev_signal *signal, int events)
{
    struct daemon *daemon = ev_userdata(loop);
    (void)signal;
    (void)events;
    rulebook_reload(daemon->rulebook);
}

static struct store *attach_store(void *context, unsigned worker, struct ev_loop *loop)
{
    struct daemon *daemon = context;
    return stores_attach(&daemon->stores, worker, loop);
}

static void detach_store(void *context, unsigned worker)
{
    struct daemon *daemon = context;
    stores_detach(&daemon->stores, worker);
}

static bool start_server(struct daemon *daemon)
{
    daemon->worker_stores = (struct worker_stores){
        .attach = attach_store,
        .detach = detach_store,
        .context = daemon,
    };
    struct server_options options = {
        .n_workers = daemon->config->n_workers,
        .connections_max = daemon->connections_max,
        .n_addresses = daemon->config->n_listen,
        .addresses = daemon->config->listen,
        .inheritance = daemon->takeover != NULL ? takeover_inheritance(daemon->takeover)
                                                : NULL,
        .set = rulebook_set(daemon->rulebook),
        .clients = rulebook_clients(daemon->rulebook),
        .stores = &daemon->worker_stores,
        .local = daemon->store,
        .decide_options = &daemon->options,
        .counters = rulebook_counters(daemon->rulebook),
    };
    daemon->server = server_start(daemon->loop, &options);
    return daemon->server != NULL;
}

static bool start_runtimes(struct daemon *daemon)
{
    daemon->shown = (struct show_source){
        .rulebook = daemon->rulebook,
        .store = daemon->store,
        .stores = &daemon->stores,
        .options = &daemon->options,
        .server = daemon->server,
        .state = daemon->state,
        .n_workers = daemon->config->n_workers,
        .started_at = clock_now(),
    };
    struct inheritance *inheritance = daemon->takeover != NULL
                                          ? takeover_inheritance(daemon->takeover)
                                          : NULL;
    for (unsigned i = 0; i < daemon->config->n_runtimes; i++) {
        daemon->runtimes[i] = runtime_start(daemon->loop, &daemon->config->runtimes[i],
                                            inheritance, show_commands, &daemon->shown);
        if (daemon->runtimes[i] == NULL) {
            return false;
        }
        daemon->n_runtimes++;
    }
    return true;
}

static const struct {
    int signum;
    void (*handle)(struct ev_loop *loop, struct ev_signal *signal, int events);
} handled_signals[SIGNALS_HANDLED] = {
    {SIGTERM, on_terminate}, {SIGINT, on_terminate}, {SIGHUP, on_reload},
    {SIGUSR1, on_ignored},   {SIGUSR2, on_upgrade},
};

/* Signals that end nobody wait for their handlers while the agent starts. */
static void set_signals(int how)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    for (int i = 0; i < SIGNALS_HANDLED; i++) {
        if (handled_signals[i].handle != on_terminate) {
            (void)sigaddset(&signals, handled_signals[i].signum);
        }
    }
    (void)pthread_sigmask(how, &signals, NULL);
}

/* NOLINTNEXTLINE(readability-function-size): the macros of ev.h nest */
static void start_signals(struct daemon *daemon)
{
    for (int i = 0; i < SIGNALS_HANDLED; i++) {
        ev_signal_init(&daemon->signals[i], handled_signals[i].handle,
                       handled_signals[i].signum);
        ev_signal_start(daemon->loop, &daemon->signals[i]);
    }
    set_signals(SIG_UNBLOCK);
}

static bool is_alive(void *context)
{
    struct daemon *daemon = context;
    return server_is_turning(daemon->server);
}

/* Two who answer at the same time draw the same jitter. */
static void make_options(struct daemon *daemon)
{
    struct retry_jitter *jitter = &daemon->options.jitter;
    decide_options_init(&daemon->options, config_variables(daemon->config));
    jitter->permille = daemon->config->retry_jitter_permille;
    daemon->options.deadline_us = daemon->config->deadline_us;
    randombytes_buf(jitter->secret, sizeof(jitter->secret));
    if (daemon->takeover != NULL) {
        memcpy(jitter->secret, takeover_hello(daemon->takeover)->jitter_secret,
               sizeof(jitter->secret));
    }
}

/* Digests of keys are the same on all hosts that have the secret, or none of them. */
static bool read_fleet_secret(struct daemon *daemon)
{
    const char *file = daemon->config->secret_file;
    const char *error = NULL;
    if (file[0] == '\0') {
        return true;
    }
    char *secret = secret_read(file, &error);
    if (secret == NULL) {
        log_error("secret_file %s: %s", file, error);
        return false;
    }
    (void)crypto_generichash(daemon->options.key_secret,
                             sizeof(daemon->options.key_secret),
                             (const uint8_t *)secret, strlen(secret), NULL, 0);
    secret_free(secret);
    return true;
}

static void start_clock(const struct daemon *daemon)
{
    if (daemon->takeover != NULL) {
        clock_start_at(takeover_hello(daemon->takeover)->clock_offset_us);
    } else {
        clock_start();
    }
}

static bool init_upgrade(struct daemon *daemon)
{
    struct upgrade_parts parts = {
        .loop = daemon->loop,
        .server = daemon->server,
        .runtimes = daemon->runtimes,
        .n_runtimes = daemon->n_runtimes,
        .store = daemon->store,
        .jitter_secret = daemon->options.jitter.secret,
        .sending = on_upgrade_sending,
        .over = on_upgrade_over,
        .context = daemon,
    };
    return upgrade_init(&daemon->upgrade, &parts);
}

static bool open_stores(struct daemon *daemon)
{
    bool has_redis = daemon->config->redis.is_given;
    struct stores_options options = {
        .config = daemon->config,
        .local = daemon->store,
        .n_agents = has_redis ? agents_recall(&daemon->agents, daemon->config) : 0,
        .ended = daemon->agents.ended,
        .secret = daemon->options.jitter.secret,
    };
    return stores_open(&daemon->stores, &options);
}

static bool start_agents(struct daemon *daemon)
{
    return daemon->stores.health == NULL
           || agents_start(&daemon->agents, daemon->config, daemon->stores.name,
                           rulebook_counters(daemon->rulebook), daemon->stores.health,
                           daemon->loop);
}

static bool daemon_start(struct daemon *daemon)
{
    make_options(daemon);
    if (!read_fleet_secret(daemon)) {
        return false;
    }
    daemon->connections_max = raise_descriptors(daemon->config);
    if (daemon->connections_max == 0) {
        return false;
    }
    daemon->rulebook = rulebook_open(daemon->config->rules_path, state_dir_of(daemon),
                                     daemon->config->n_workers,
                                     daemon->config->redis.is_given
                                         ? daemon->config->redis.prefix
                                         : NULL);
    if (daemon->rulebook == NULL || !open_state(daemon) || !make_store(daemon)
        || !open_stores(daemon)) {
        return false;
    }
    restore_counters(daemon);
    daemon->loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (daemon->loop == NULL) {
        log_error("cannot make an event loop");
        return false;
    }
    service_init(&daemon->service, daemon->loop, is_alive, daemon);
    ev_set_userdata(daemon->loop, daemon);
    rulebook_keep_calendars(daemon->rulebook);
    start_signals(daemon);
    if (!start_server(daemon) || !start_runtimes(daemon) || !start_state(daemon)
        || !start_agents(daemon) || !init_upgrade(daemon)) {
        return false;
    }
    rulebook_start(daemon->rulebook, daemon->loop, daemon->server, on_rules_changed,
                   daemon);
    return true;
}

static void daemon_release(struct daemon *daemon, bool has_counters)
{
    /* A second signal must not end by its default action what is ending well. */
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (daemon->rulebook != NULL) {
        rulebook_stop(daemon->rulebook);
    }
    upgrade_fini(&daemon->upgrade);
    takeover_close(daemon->takeover);
    for (unsigned i = 0; i < daemon->n_runtimes; i++) {
        runtime_stop(daemon->runtimes[i]);
    }
    if (has_counters) {
        stores_leave(&daemon->stores);
    }
    if (daemon->server != NULL) {
        server_stop(daemon->server);
        server_free(daemon->server);
    }
    if (daemon->state != NULL && has_counters) {
        state_write(daemon->state, daemon->store);
    }
    state_free(daemon->state);
    agents_stop(&daemon->agents);
    if (daemon->loop != NULL) {
        service_fini(&daemon->service);
        for (int i = 0; i < SIGNALS_HANDLED; i++) {
            ev_signal_stop(daemon->loop, &daemon->signals[i]);
        }
        ev_loop_destroy(daemon->loop);
    }
    rulebook_free(daemon->rulebook);
    stores_close(&daemon->stores);
    store_free(daemon->store);
}

static void say_ready(struct daemon *daemon)
{
    char line[SERVICE_STATUS_BYTES_MAX];
    describe(daemon, line, sizeof(line));
    (void)printf("spoa-ratelimit " AGENT_VERSION " ready: %s\n", line);
    (void)fflush(stdout);
}

static void tell_service(struct daemon *daemon)
{
    char line[SERVICE_STATUS_BYTES_MAX];
    describe(daemon, line, sizeof(line));
    service_ready(&daemon->service, line);
}

/* The service manager has heard by now that this process is the service. */
static void on_takeover_over(void *context)
{
    struct daemon *daemon = context;
    tell_service(daemon);
    if (takeover_is_stop_wanted(daemon->takeover)) {
        ev_break(daemon->loop, EVBREAK_ALL);
    }
}

/* The line that says ready is out: take what the agent before has, as soon as Redis can be
 * asked about it. */
static void begin_takeover(struct daemon *daemon)
{
    stores_await(&daemon->stores);
    struct takeover_parts parts = {
        .loop = daemon->loop,
        .server = daemon->server,
        .runtimes = daemon->runtimes,
        .n_runtimes = daemon->n_runtimes,
        .store = daemon->store,
        .counters = rulebook_own_counters(daemon->rulebook),
        .over = on_takeover_over,
        .context = daemon,
    };
    takeover_begin(daemon->takeover, &parts);
}

bool daemon_run(const struct config *config)
{
    set_signals(SIG_BLOCK);
    if (sodium_init() < 0) {
        log_error("no source of random bytes");
        return false;
    }
    struct daemon daemon = {.config = config};
    if (!takeover_open(&daemon.takeover)) {
        return false;
    }
    start_clock(&daemon);
    bool is_started = daemon_start(&daemon);
    if (is_started) {
        say_ready(&daemon);
        if (daemon.takeover != NULL) {
            begin_takeover(&daemon);
        } else {
            tell_service(&daemon);
        }
        ev_run(daemon.loop, 0);
        if (!upgrade_is_done(&daemon.upgrade)) {
            service_stopping(&daemon.service);
            log_info("stopping: answering what is in flight");
        }
    }
    daemon_release(&daemon, is_started && !upgrade_is_done(&daemon.upgrade));
    return is_started;
}
