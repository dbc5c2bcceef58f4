/**
 * @file agent/redis/endpoint.h  Where a Redis server is: as written, and as sockets take it.
 *
 * Model:     values. A host is a name, an address as text, or the path of a UNIX socket.
 * Ownership: nothing is kept.
 * Threads:   endpoint_resolve waits for the resolver of the system: never on a worker.
 * Errors:    texts for people, never to be freed.
 * Limits:    ENDPOINT_ADDRESSES_MAX addresses of one name.
 */
#ifndef AGENT_REDIS_ENDPOINT_H
#define AGENT_REDIS_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

#include "agent/base.h"

enum {
    ENDPOINT_HOST_BYTES_MAX = 256, /* a name has 253 at most; with the NUL */
    ENDPOINT_ADDRESSES_MAX = 4,
    ENDPOINT_TEXT_BYTES_MAX = ENDPOINT_HOST_BYTES_MAX + 8,
};

struct endpoint {
    char host[ENDPOINT_HOST_BYTES_MAX]; /* of a UNIX socket: its path */
    uint16_t port;                      /* of a UNIX socket: 0 */
};

struct endpoint_address {
    struct sockaddr_storage sockaddr;
    socklen_t sockaddr_len;
};

/** Addresses that begin with the same bits. */
struct endpoint_network {
    uint8_t n_bytes; /* 4 or 16 */
    uint8_t bits;    /* how many count */
    uint8_t bytes[16];
};

/** Read HOST:PORT, [v6]:PORT or unix@/path. @return false when `text` is none of these */
MUST_USE bool endpoint_parse(struct endpoint *endpoint, const char *text);

/** Make one of a host of so many bytes. @return false when the host cannot be one */
MUST_USE bool endpoint_make(struct endpoint *endpoint, const char *host,
                            size_t host_bytes, unsigned port);

bool endpoint_equals(const struct endpoint *a, const struct endpoint *b);

/** Write it as endpoint_parse reads it. */
void endpoint_print(const struct endpoint *endpoint,
                    char text[ENDPOINT_TEXT_BYTES_MAX]);

/** The address of a host that is no name. @return false when it is one */
MUST_USE bool endpoint_numeric(const struct endpoint *endpoint,
                               struct endpoint_address *address);

/**
 * Find the addresses of a host, waiting for the resolver where it is a name.
 *
 * @param error  why there is none
 * @return how many
 */
MUST_USE unsigned endpoint_resolve(
    const struct endpoint *endpoint,
    struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX], const char **error);

/** Whether an address lies in a network; an IPv4-mapped one is the IPv4 address. */
bool endpoint_is_in(const struct endpoint_address *address,
                    const struct endpoint_network *network);

/** Whether two addresses are the same host, whatever the ports. */
bool endpoint_is_same_host(const struct endpoint_address *a,
                           const struct endpoint_address *b);

#endif
