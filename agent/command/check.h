/**
 * @file agent/command/check.h  The command check: read, find faults, report.
 *
 * Model:     reads the rules file, then what is to be compared with it; keeps what was
 *            found; prints all of it, for people or as JSON.
 * Ownership: check_init / check_fini.
 * Threads:   one thread.
 * Errors:    what is wrong with a file is a diagnostic; false when memory ran out.
 * Limits:    those of the readers.
 */
#ifndef AGENT_COMMAND_CHECK_H
#define AGENT_COMMAND_CHECK_H

#include <stdio.h>

#include "rules/file.h"

#include "agent/base.h"
#include "agent/command/check_against.h"
#include "agent/command/check_bound.h"
#include "agent/command/check_redis.h"
#include "agent/command/check_redis_size.h"
#include "agent/command/check_size.h"

/** What the command line says. */
struct check_options {
    const char *path;
    const char *spoe_path; /* NULL: not given; the same of the next two */
    const char *old_path;
    const char *config_path;
    int64_t deadline_us;               /* what the agent may take for an answer */
    bool is_redis_missing;             /* agent.yaml has none */
    bool is_cluster;                   /* agent.yaml's Redis is one */
    const char *prefix;                /* of keys there */
    const struct redis_options *redis; /* to be asked; NULL: it is not */
    struct check_load load;            /* n_hosts 0: what agent.yaml says */
    int64_t n_workers;                 /* as agent.yaml says, like what follows */
    int32_t lease_share;
    int64_t lease_horizon_us;
    int64_t sync_interval_us;
    bool asks_redis;
    bool is_strict;
    bool wants_json;
    bool wants_help;
};

static inline struct check_fleet check_fleet_of(const struct check_options *options)
{
    return (struct check_fleet){
        .n_hosts = options->load.n_hosts,
        .n_workers = options->n_workers,
        .lease_share = options->lease_share,
        .lease_horizon_us = options->lease_horizon_us,
        .sync_interval_us = options->sync_interval_us,
    };
}

/** A file that was read, and what was found in it. */
struct check_file {
    const char *path; /* NULL: there is none to read */
    char *text;
    size_t len;
    struct rules_diags *diags;
};

/** The files, in the order in which people are told of them. */
enum check_file_idx {
    CHECK_RULES = 0,
    CHECK_CLIENTS, /* that the rules name */
    CHECK_OLD,
    CHECK_SPOE,
    CHECK_CONFIG, /* where Redis is asked */
    CHECK_FILES,  /* how many */
};

struct check {
    struct check_options options;
    int64_t now_s;
    struct check_file files[CHECK_FILES];
    struct rules_file *file; /* NULL: it has errors */
    char *clients_path;
    uint32_t n_clients;
    struct check_size size; /* where options.load has keys; the same of the next */
    struct check_redis_size redis_size;
    struct check_redis redis;
    struct rules_file *old_file; /* NULL: not given, or it has errors */
    struct check_changes changes;
};

/** What was found, in numbers. */
struct check_verdict {
    uint32_t n_errors; /* 0: the file is good */
    uint32_t n_warnings;
};

/** @param now_s  Unix time: what rules end by is compared with it */
MUST_USE bool check_init(struct check *check, const struct check_options *options,
                         int64_t now_s);
void check_fini(struct check *check);

/** Read all files and look at them. @return false when memory ran out */
MUST_USE bool check_find(struct check *check);

/** Count what was found in all files. */
struct check_verdict check_verdict_find(const struct check *check);

/** Print what was found and what the rules mean, for people. */
void check_print(const struct check *check, FILE *out);

/** Print the same as one JSON object. @return false when memory ran out */
MUST_USE bool check_print_json(const struct check *check, FILE *out);

#endif
