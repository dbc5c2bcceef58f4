/**
 * @file agent/control/diags.h  What is told of the diagnostics of a file.
 */
#ifndef AGENT_CONTROL_DIAGS_H
#define AGENT_CONTROL_DIAGS_H

#include "rules/diag.h"

#include "agent/base.h"

/** @return no diagnostics yet, of a file; to be freed with free. NULL: memory is short */
MUST_USE struct rules_diags *diags_new(const char *path);

/** All of them, to standard error like log lines: who does not read there holds up nobody. */
void diags_log(const struct rules_diags *diags);

/** The first error, as one line; the text stays as it is where there is none. */
void diags_first_error(const struct rules_diags *diags, char *error, size_t size);

#endif
