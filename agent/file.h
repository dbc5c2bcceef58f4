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
 * @param bytes_max  a larger file is an error (EFBIG)
 * @param len        its length in bytes
 * @return its bytes, to be freed by the caller, or NULL and errno
 */
MUST_USE char *file_read(const char *path, size_t bytes_max, size_t *len);

#endif
