/**
 * @file agent/command/spoe_conf.h  What HAProxy is told to send: its SPOE file, read.
 *
 * Model:     engines ([name]), each with an agent and messages. Only what `check` looks at
 *            is kept; whether the file is valid is for haproxy -c to say. Conditional
 *            blocks (.if) are read as if all of them held.
 * Ownership: everything lies in the arena given to spoe_conf_read.
 * Threads:   one thread; reads the environment, as HAProxy does.
 * Errors:    diagnostics for what cannot be read, all of one run.
 * Limits:    SPOE_CONF_BYTES_MAX; those of spoe_line.h.
 */
#ifndef AGENT_COMMAND_SPOE_CONF_H
#define AGENT_COMMAND_SPOE_CONF_H

#include "rules/arena.h"
#include "rules/diag.h"

#include "agent/base.h"

enum {
    SPOE_CONF_BYTES_MAX = 64 * 1024 /* the shipped one has 2 KiB */
};

/** A word of the file, in the order of the file. */
struct spoe_name {
    const char *text;
    struct rules_mark mark;
    struct spoe_name *next;
};

/** One of `args`: name=sample. */
struct spoe_arg {
    const char *name; /* empty: it has none */
    const char *sample;
    struct rules_mark mark;
    struct spoe_arg *next;
};

struct spoe_message {
    const char *name;
    struct rules_mark mark;
    const char *event; /* the last one given; NULL: none */
    struct spoe_arg *args;
    bool is_sent; /* by its event, or in a group that the agent names */
    struct spoe_message *next;
};

struct spoe_group {
    const char *name;
    struct spoe_name *messages;
    struct spoe_group *next;
};

/** What stands in one [scope]. */
struct spoe_engine {
    const char *scope;      /* empty: before the first */
    const char *agent;      /* NULL: there is none */
    struct rules_mark mark; /* of the agent */
    const char *var_prefix; /* its name, where no option says otherwise */
    int64_t processing_us;  /* timeout; -1: not given */
    struct rules_mark processing_mark;
    struct spoe_name *messages; /* that the agent names */
    struct spoe_name *groups;
    struct spoe_message *first_message;
    struct spoe_group *first_group;
    struct spoe_engine *next;
};

struct spoe_conf {
    struct spoe_engine *engines;
};

/**
 * Read a file.
 *
 * @param text  kept by nobody
 * @param conf  filled, as far as the file could be read
 * @errors diagnostics with the codes spoe-syntax and out-of-memory
 */
void spoe_conf_read(const struct rules_text *text, struct rules_arena *arena,
                    struct rules_diags *diags, struct spoe_conf *conf);

#endif
