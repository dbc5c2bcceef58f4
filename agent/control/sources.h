/**
 * @file agent/control/sources.h  A rules file and what it includes, as they were read.
 *
 * Model:     texts in the order in which they were read, the main one first. Rules are
 *            read from them as often as wanted: what is there is not read from disk again.
 * Ownership: sources_open / sources_share / sources_free.
 * Threads:   one.
 * Errors:    a text for people, or diagnostics. What could not be read is kept as such.
 * Limits:    those of a rules file: 1 + RULES_INCLUDES_MAX texts.
 */
#ifndef AGENT_CONTROL_SOURCES_H
#define AGENT_CONTROL_SOURCES_H

#include "rules/file.h"

#include "agent/base.h"
#include "agent/control/version.h"
#include "agent/control/watch.h"

struct sources;

/**
 * Read the main file.
 *
 * @param watch  gets the path of each file before it is read; NULL: nobody wants them
 * @param error  on failure a text that says why, never to be freed
 */
MUST_USE struct sources *sources_open(const char *path, struct watch *watch,
                                      const char **error);

/** Check the rules; files that they include are read when they are first asked for.
 *  @return NULL with errors in `diags` */
MUST_USE struct rules_file *sources_read(struct sources *sources,
                                         struct rules_diags *diags);

/** @return whether a file that is included could not be read */
bool sources_are_incomplete(const struct sources *sources);

/** @return the text of rules that are one file, to be freed; NULL: they are several, or out
 *  of memory */
MUST_USE char *sources_copy(const struct sources *sources, size_t *len);

/** Write what tells these texts from others. */
void sources_digest(const struct sources *sources, char out[VERSION_BYTES]);

/** @return the same, for one more owner */
MUST_USE struct sources *sources_share(struct sources *sources);

/** One owner less; the last frees them. NULL is fine. */
void sources_free(struct sources *sources);

#endif
