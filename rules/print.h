/**
 * @file rules/print.h  Write a checked rules file as text, in one canonical form.
 *
 * Model:     what is included is merged in. A field that all rules say alike stands in
 *            `defaults`; one that is as the language has it is left out, unless `require`
 *            asks for it. The printed text, read and printed again, is the same byte for
 *            byte, and decides like the original.
 * Ownership: the text belongs to the caller.
 * Threads:   any; a file never changes.
 * Errors:    NULL when memory ran out.
 * Limits:    the text may be larger than a file may be; then it cannot be read back.
 */
#ifndef RULES_PRINT_H
#define RULES_PRINT_H

#include "rules/file.h"

/**
 * Write a file.
 *
 * @param len       of the text
 * @param n_events  how many YAML events a reader will count
 * @return the text, to be freed with free(); NULL when memory ran out
 */
RULES_MUST_USE char *rules_file_print(const struct rules_file *file, size_t *len,
                                      uint32_t *n_events);

#endif
