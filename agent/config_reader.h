/**
 * @file agent/config_reader.h  What the readers of agent.yaml's fields have in common.
 *
 * Model:     a reader walks the tree; each field has a function that puts its value into the
 *            config, or adds a diagnostic.
 * Ownership: borrows all of it for one reading.
 * Threads:   start of the program.
 * Errors:    diagnostics.
 */
#ifndef AGENT_CONFIG_READER_H
#define AGENT_CONFIG_READER_H

#include "rules/diag.h"
#include "rules/yamltree.h"

#include "agent/config.h"

struct config_reader {
    struct config *config;
    const struct yamltree *tree;
    struct rules_diags *diags;
};

typedef void config_read_fn(struct config_reader *reader,
                            const struct yamltree_node *node);

/** A field of a mapping: a table of these is all there is to know of it. */
struct config_field {
    const char *name;
    config_read_fn *read; /* NULL: planned, not built yet */
    const char *default_text;
    const char *help;
};

/** Report a value that is none; `want` says what would be. */
void config_refuse(struct config_reader *reader, const struct yamltree_node *node,
                   const char *want);

/** @return the text of a scalar; NULL, reported, for anything else */
const char *config_scalar(struct config_reader *reader,
                          const struct yamltree_node *node, const char *want);

/** Copy a text of 1 to size - 1 bytes; reported when it is none. */
void config_copy(struct config_reader *reader, const struct yamltree_node *node,
                 char *to, size_t size, const char *want);

/** @return a whole number from `min` to `max`; -1, reported, for anything else */
int64_t config_number(struct config_reader *reader, const struct yamltree_node *node,
                      int64_t min, int64_t max, const char *want);

/** @return whether the text is `true`; reported when it is not `false` either */
bool config_boolean(struct config_reader *reader, const struct yamltree_node *node);

/** Call `read` for each item of a list, or once for a scalar or mapping. */
void config_each(struct config_reader *reader, const struct yamltree_node *node,
                 config_read_fn *read);

/** Read a mapping by the table of its fields; reported when it is none. */
void config_fields(struct config_reader *reader, const struct yamltree_node *node,
                   const struct config_field *among, size_t n);

/** Read the field of that name. */
config_read_fn config_read_redis;
config_read_fn config_read_lease;
config_read_fn config_read_sync;

#endif
