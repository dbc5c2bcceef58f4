/**
 * @file agent/net/limits.h  How much a server takes on; for the configuration too.
 */
#ifndef AGENT_NET_LIMITS_H
#define AGENT_NET_LIMITS_H

enum {
    SERVER_CONNECTIONS_MAX = 4096, /* of all workers */
    SERVER_LISTENERS_MAX = 16,
    SERVER_WORKERS_MAX = 64,
};

#endif
