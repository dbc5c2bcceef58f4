/**
 * @file agent/redis/secret.h  Read a password from a file that only we can read.
 *
 * Model:     a name without a slash is a credential that the service manager gave us
 *            ($CREDENTIALS_DIRECTORY); else the path of a regular file, which belongs to
 *            us or root and is closed to all others.
 * Ownership: secret_read / secret_free. The text is in memory that is neither swapped out
 *            nor dumped.
 * Threads:   start of the program.
 * Errors:    texts for people, never to be freed. They never hold what was read.
 */
#ifndef AGENT_REDIS_SECRET_H
#define AGENT_REDIS_SECRET_H

#include "agent/base.h"

enum {
    SECRET_BYTES_MAX = 4096
};

/**
 * Read it; one newline at its end is no part of it.
 *
 * @param error  on failure a text that says why
 * @return the secret, with a NUL behind it; or NULL
 */
MUST_USE char *secret_read(const char *name, const char **error);

/** Wipe and free. NULL is fine. */
void secret_free(char *secret);

#endif
