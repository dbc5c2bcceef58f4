/**
 * @file agent/command/check.h  The command check: read, find faults, report.
 *
 * Model:     reads the rules file, then what is to be compared with it; keeps what was
 *            found; prints all of it, for people or as JSON.
 * Ownership: check_init / check_fini.
 * Threads:   one thread.
 * Errors:    what is wrong with a file is a diagnostic; only that and problems of the
 *            system (no memory, output that cannot be written) make check fail.
 * Limits:    those of the readers.
 */
#ifndef AGENT_COMMAND_CHECK_H
#define AGENT_COMMAND_CHECK_H

#include <stdio.h>

#include "rules/file.h"

#include "agent/base.h"
#include "agent/command/check_size.h"

/** What the command line says. */
struct check_options {
    const char *path;
    const char *spoe_path; /* NULL: not given; the same of the next two */
    const char *old_path;
    const char *config_path;
    struct check_load load; /* n_hosts 0: what agent.yaml says */
    bool is_strict;
    bool wants_json;
    bool wants_help;
};

/** A file that was read, and what was found in it. */
struct check_file {
    const char *path;
    char *text;
    size_t len;
    struct rules_diags *diags;
};

struct check {
    struct check_options options;
    int64_t now_s;
    struct check_file rules;
    struct check_file old;   /* path NULL: not given */
    struct check_file spoe;  /* the same */
    struct rules_file *file; /* NULL: it has errors */
    struct check_size size;  /* where options.load has keys */
};

/** @param now_s  Unix time: what rules end by is compared with it */
MUST_USE bool check_init(struct check *check, const struct check_options *options,
                         int64_t now_s);
void check_fini(struct check *check);

/** Read all files and look at them. */
void check_find(struct check *check);

/** @return whether nothing was refused; with --strict, nothing doubted either */
bool check_is_ok(const struct check *check);

/** Print what was found and what the rules mean, for people. */
void check_print(const struct check *check, FILE *out);

#endif
