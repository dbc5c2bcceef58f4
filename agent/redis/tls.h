/**
 * @file agent/redis/tls.h  What TLS connections to Redis are made with.
 *
 * Model:     one for the process: the certificates trusted, our own, and the rules: TLS
 *            1.2 at least, the peer's chain and name are always checked.
 * Ownership: tls_new / tls_free; a session holds what it needs by itself.
 * Threads:   any may make sessions; a session belongs to one.
 * Errors:    texts for people.
 */
#ifndef AGENT_REDIS_TLS_H
#define AGENT_REDIS_TLS_H

#include <stddef.h>

#include "agent/base.h"

enum {
    TLS_ERROR_BYTES_MAX = 512
};

struct tls;
struct ssl_st; /* OpenSSL's SSL */

struct tls_options {
    const char *ca_file;   /* NULL: the certificates that the system trusts */
    const char *cert_file; /* NULL: no certificate of our own */
    const char *key_file;
};

/** @param error  why not, in TLS_ERROR_BYTES_MAX bytes */
MUST_USE struct tls *tls_new(const struct tls_options *options, char *error);
void tls_free(struct tls *tls);

/**
 * A session on a connected socket, as its client.
 *
 * @param server_name  a name or an address that the peer's certificate must be for
 * @return NULL when memory is short
 */
MUST_USE struct ssl_st *tls_session(struct tls *tls, int fd, const char *server_name);

/** Why the last operation on a session failed; the text stays as it is. */
const char *tls_why(const struct ssl_st *session);

#endif
