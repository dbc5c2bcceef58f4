/**
 * @file rules/include.h  The files that a rules file includes.
 *
 * Model:     `include` of the main file is a list of paths; each is read by the function
 *            of the source, and parsed to a tree of its own.
 * Ownership: trees belong to the caller.
 * Threads:   one thread.
 * Errors:    diagnostics.
 * Limits:    RULES_INCLUDES_MAX files, RULES_FILE_BYTES_MAX and YAMLTREE_EVENTS_MAX in all.
 */
#ifndef RULES_INCLUDE_H
#define RULES_INCLUDE_H

#include "rules/file.h"

/** @return the first entry of `include`, all of which are right, or NULL */
const struct yamltree_node *rules_include_find(const struct rules_file *file,
                                               struct rules_diags *diags);

/** @return the tree of the file that an entry names, or NULL (reported) */
RULES_MUST_USE struct yamltree *rules_include_read(const struct rules_file *file,
                                                   const struct rules_source *source,
                                                   const struct yamltree_node *entry,
                                                   struct yamltree_sum *sum,
                                                   struct rules_diags *diags);

#endif
