/**
 * @file rules/yamltree.h  YAML as a read-only tree with marks.
 *
 * Model:     libyaml events -> nodes in an arena. The only file that includes yaml.h is
 *            yamltree.c. Scalars are text: every field has a declared type, so there are
 *            no YAML surprises (no, on, 010).
 * Ownership: a tree owns its nodes and a copy of its source; views live as long as it.
 * Threads:   a tree is read-only after yamltree_parse.
 * Errors:    diagnostics. Anchors, aliases, tags, merge keys, several documents,
 *            duplicate keys, invalid UTF-8 and NUL are refused.
 * Limits:    YAMLTREE_DEPTH_MAX, YAMLTREE_SCALAR_BYTES_MAX; YAMLTREE_EVENTS_MAX and
 *            RULES_FILE_BYTES_MAX, of all files together.
 */
#ifndef RULES_YAMLTREE_H
#define RULES_YAMLTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/diag.h"
#include "rules/rules.h"

enum {
    YAMLTREE_DEPTH_MAX = 32,
    YAMLTREE_EVENTS_MAX = 200000,
    YAMLTREE_SCALAR_BYTES_MAX = 65536,
};

enum yamltree_kind {
    YAMLTREE_SCALAR = 0,
    YAMLTREE_SEQUENCE,
    YAMLTREE_MAPPING,
};

/** A node. Children of a mapping are its values, each with its `key`. */
struct yamltree_node {
    enum yamltree_kind kind;
    struct rules_mark mark;
    const char *text; /* SCALAR: NUL-terminated, holds no NUL inside */
    size_t text_len;
    bool is_quoted;  /* SCALAR: "..." or '...' */
    const char *key; /* child of a mapping: its key; else NULL */
    struct rules_mark key_mark;
    uint32_t n_children;
    const struct yamltree_node *first; /* first child */
    const struct yamltree_node *next;  /* next sibling */
};

/** @return the child of a mapping that has this key, or NULL; also of what is none */
const struct yamltree_node *yamltree_child(const struct yamltree_node *node,
                                           const char *key);

struct yamltree;

/**
 * Parse one YAML document.
 *
 * @param text  need not be kept after the call
 * @return the tree (yamltree_free), or NULL with errors in `diags`
 * @errors all duplicate keys of a file are reported; anything else ends the reading
 */
RULES_MUST_USE struct yamltree *yamltree_parse(const char *text, size_t len,
                                               struct rules_diags *diags);

/** What the files read so far hold together. Zeroed: there are none yet. */
struct yamltree_sum {
    size_t n_bytes;
    uint32_t n_events;
};

/** @return whether there is no room for another file */
static inline bool yamltree_sum_is_full(const struct yamltree_sum *sum)
{
    return sum->n_bytes >= RULES_FILE_BYTES_MAX || sum->n_events > YAMLTREE_EVENTS_MAX;
}

/**
 * Parse one of several files that are bounded together.
 *
 * @param text  copied, the name too
 * @param file  its number in marks
 * @param sum   grows by what this one holds
 * @return as yamltree_parse
 */
RULES_MUST_USE struct yamltree *yamltree_parse_file(const struct rules_text *text,
                                                    uint32_t file,
                                                    struct yamltree_sum *sum,
                                                    struct rules_diags *diags);
void yamltree_free(struct yamltree *tree);

/** @return the root; a mapping, sequence or scalar, never NULL */
const struct yamltree_node *yamltree_root(const struct yamltree *tree);

/** @return the text that was parsed */
const struct rules_text *yamltree_text(const struct yamltree *tree);

/** Add a diagnostic at `mark` of this tree, with its source line. */
void yamltree_diag(const struct yamltree *tree, struct rules_diags *diags,
                   enum rules_severity severity, struct rules_mark mark,
                   const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/**
 * Find the closest of `n` names to a misspelt one, for "did you mean".
 *
 * @return one of `names`, or NULL when none is near
 */
const char *yamltree_nearest(const char *text, const char *const *names, size_t n);

#endif
