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
#include "agent/decide/variables.h"
#include "agent/log.h"
#include "agent/net/address.h"
#include "agent/net/limits.h"

enum {
    CONFIG_FILE_BYTES_MAX = 1024 * 1024,
    CONFIG_PATH_BYTES_MAX = 4096,
    CONFIG_RUNTIMES_MAX = 4,
    CONFIG_NODES_MAX = 10000,
};

/** Where to listen when nothing says otherwise. */
#define CONFIG_DEFAULT_ADDRESS  "127.0.0.1:9911"

#define CONFIG_MEMORY_BYTES_MIN (INT64_C(1) << 20)
#define CONFIG_MEMORY_BYTES_MAX (INT64_C(1) << 40)

struct config {
    unsigned n_listen;
    struct address listen[SERVER_LISTENERS_MAX];
    unsigned n_runtimes;
    struct address runtimes[CONFIG_RUNTIMES_MAX];
    unsigned n_workers;
    unsigned n_nodes; /* of the fleet */
    size_t memory_bytes;
    int32_t retry_jitter_permille;
    variable_set variables; /* what `variables:` says, or the default */
    variable_set headers;   /* the variables that `headers:` needs */
    bool has_problem;
    enum log_level log_level;
    char rules_path[CONFIG_PATH_BYTES_MAX]; /* empty: none given */
    char state_dir[CONFIG_PATH_BYTES_MAX];  /* empty: counters end with the process */
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
