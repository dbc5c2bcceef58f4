/**
 * @file agent/config.h  agent.yaml: how a daemon runs.
 *
 * Model:     defaults, then the file, then the command line, into one struct. One table
 *            in config.c has every field: name, what it takes, default, help.
 * Ownership: plain values; nothing to free.
 * Threads:   start of the program.
 * Errors:    diagnostics with line and column, all of one run.
 * Limits:    CONFIG_FILE_BYTES_MAX and the sizes below.
 */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base.h"
#include "agent/decide/decide.h"
#include "agent/decide/variables.h"
#include "agent/log.h"
#include "agent/net/address.h"
#include "agent/net/limits.h"
#include "agent/redis/redis.h"

enum {
    CONFIG_FILE_BYTES_MAX = 1024 * 1024,
    CONFIG_PATH_BYTES_MAX = 4096,
    CONFIG_RUNTIMES_MAX = 4,
    CONFIG_NODES_MAX = 10000,
    CONFIG_NAME_BYTES_MAX = 129,
    CONFIG_DEADLINE_MS_MIN = 2, /* timers are late by up to 1 ms */
    CONFIG_DEADLINE_MS_MAX = 1000,
    CONFIG_DATABASE_MAX = 65535,
    CONFIG_LEASE_SHARE_MAX = 5000, /* 1/10000 */
    CONFIG_HORIZON_US_MIN = 10000,
    CONFIG_TTL_US_MIN = 500000, /* several round trips, also where the loop was late */
    CONFIG_TTL_US_MAX = 60000000,
    CONFIG_INTERVAL_US_MIN = 10000,
    CONFIG_INTERVAL_US_MAX = 10000000,
};

/** Where to listen when nothing says otherwise. */
#define CONFIG_DEFAULT_ADDRESS  "127.0.0.1:9911"

#define CONFIG_MEMORY_BYTES_MIN (INT64_C(1) << 20)
#define CONFIG_MEMORY_BYTES_MAX (INT64_C(1) << 40)

/** Where Redis is, and who we are there. */
struct config_redis {
    bool is_given;
    enum redis_mode mode;
    unsigned n_endpoints;
    struct endpoint endpoints[REDIS_ENDPOINTS_MAX];
    char primary_name[CONFIG_NAME_BYTES_MAX]; /* with Sentinels */
    char user[CONFIG_NAME_BYTES_MAX];         /* empty: the user named default */
    char password_file[CONFIG_PATH_BYTES_MAX];
    char sentinel_user[CONFIG_NAME_BYTES_MAX];
    char sentinel_password_file[CONFIG_PATH_BYTES_MAX];
    unsigned database;
    bool has_tls;
    char ca_file[CONFIG_PATH_BYTES_MAX];
    char cert_file[CONFIG_PATH_BYTES_MAX];
    char key_file[CONFIG_PATH_BYTES_MAX];
    char server_name[ENDPOINT_HOST_BYTES_MAX];
    char prefix[KEY_PREFIX_BYTES_MAX + 1];
    unsigned n_networks;
    struct endpoint_network networks[REDIS_NETWORKS_MAX];
    int64_t slow_us; /* round trips over it open the breaker; 0: none does */
};

struct config {
    unsigned n_listen;
    struct address listen[SERVER_LISTENERS_MAX];
    unsigned n_runtimes;
    struct address runtimes[CONFIG_RUNTIMES_MAX];
    unsigned n_workers;
    unsigned n_nodes; /* of the fleet; 0: not given */
    size_t memory_bytes;
    int32_t retry_jitter_permille;
    variable_set variables; /* what `variables:` says, or the default */
    variable_set headers;   /* the variables that `headers:` needs */
    bool has_problem;
    enum log_level log_level;
    char rules_path[CONFIG_PATH_BYTES_MAX];  /* empty: none given */
    char state_dir[CONFIG_PATH_BYTES_MAX];   /* empty: counters end with the process */
    char secret_file[CONFIG_PATH_BYTES_MAX]; /* empty: none */
    int64_t deadline_us;
    struct config_redis redis;
    int32_t lease_share; /* of a limit, that all hosts hold in blocks, in 1/10000 */
    int64_t lease_horizon_us; /* for how long a block lasts at the rate of its host */
    int64_t lease_ttl_us;     /* after that what is left of it is taken back */
    int64_t sync_interval_us; /* between exchanges */
};

void config_init(struct config *config);

/**
 * Read agent.yaml over what `config` holds; errors are printed to `errors`.
 *
 * @return false when the file cannot be read or has errors
 */
MUST_USE bool config_read(struct config *config, const char *path, FILE *errors);

/** All variables to send: those chosen, the headers' and the body. */
variable_set config_variables(const struct config *config);

/** Print the fields of agent.yaml with their defaults. */
void config_print_help(FILE *out);

#endif
