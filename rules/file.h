/**
 * @file rules/file.h  A rules file that was read and found right.
 *
 * Model:     text -> YAML tree -> checked rules, kept together, to be compiled, printed,
 *            explained or warned about.
 * Ownership: rules_file_read / rules_file_free. A file owns its trees and rules; the sets
 *            compiled of it are their own.
 * Threads:   a file never changes once it is read.
 * Errors:    diagnostics.
 */
#ifndef RULES_FILE_H
#define RULES_FILE_H

#include "rules/ast.h"

struct rules_file;

/**
 * Read and check a rules file. The program calls sodium_init first.
 *
 * @param source  not needed after the call
 * @param diags   gets every error of meaning of one run
 * @return the file (rules_file_free), or NULL when diags has errors
 */
RULES_MUST_USE struct rules_file *rules_file_read(const struct rules_source *source,
                                                  struct rules_diags *diags);

/** NULL is fine. */
void rules_file_free(struct rules_file *file);

/** @return what the file says */
const struct rules_ast *rules_file_ast(const struct rules_file *file);

/** @return how many files it was read from: the main one, and those it includes */
uint32_t rules_file_n_trees(const struct rules_file *file);

/** @return the tree of the file that marks call `idx`, which is below that */
const struct yamltree *rules_file_tree(const struct rules_file *file, uint32_t idx);

/** @return the name of that file */
const char *rules_file_name(const struct rules_file *file, uint32_t idx);

/**
 * Compile a file, as often as needed.
 *
 * @param now_s  Unix time: what ended by then is left out, and counted
 * @return the set (rules_set_free), or NULL when memory ran out (reported)
 */
RULES_MUST_USE struct rules_set *rules_file_compile(const struct rules_file *file,
                                                    int64_t now_s,
                                                    struct rules_diags *diags);

/** Add a diagnostic at a mark of the file, with the line. */
void rules_file_diag(const struct rules_file *file, struct rules_diags *diags,
                     enum rules_severity severity, struct rules_mark mark,
                     const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/**
 * For an agent without a Redis.
 *
 * @return whether all rules are counted on the host; reported when not
 */
bool rules_file_is_local(const struct rules_file *file, struct rules_diags *diags);

#endif
