/**
 * @file agent/file.h  Read a file whole, within a bound.
 */
#ifndef AGENT_FILE_H
#define AGENT_FILE_H

#include <stddef.h>

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

#endif
