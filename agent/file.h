/**
 * @file agent/file.h  Read a file whole, within a bound; write one whole.
 */
#ifndef AGENT_FILE_H
#define AGENT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

#include "agent/base.h"

/**
 * Read a regular file.
 *
 * @param bytes_max  a larger file is an error
 * @param len        its length in bytes
 * @param error      on failure a text that says why, never to be freed
 * @return its bytes with a NUL behind them, to be freed by the caller; or NULL
 */
MUST_USE char *file_read(const char *path, size_t bytes_max, size_t *len,
                         const char **error);

/** The same for who hands a context on with a function that reads; it is not used. */
MUST_USE char *file_read_for(void *context, const char *path, size_t bytes_max,
                             size_t *len, const char **error);

/** @return the path of a file as seen from the directory of another (free); NULL: no memory */
MUST_USE char *file_beside(const char *other, const char *path);

/**
 * Write a file whole: aside, under the name with the process's number and ".new" behind it,
 * then in the old one's place. What was there stays where this fails. Two processes may do
 * so at the same time, two threads of one not.
 *
 * @param mode   of the new file
 * @param error  on failure a text that says why, never to be freed
 */
MUST_USE bool file_replace(const char *path, const char *bytes, size_t len, mode_t mode,
                           const char **error);

#endif
