/**
 * @file agent/net/address.h  Addresses to listen on, and listening on them.
 *
 * Model:     text -> struct address -> a listening, non-blocking descriptor.
 * Ownership: address_listen hands out a descriptor; address_unlisten closes it and
 *            removes a UNIX socket that is still ours.
 * Threads:   start and stop of the program only.
 * Errors:    texts for people, naming the address and the mend.
 */
#ifndef AGENT_NET_ADDRESS_H
#define AGENT_NET_ADDRESS_H

#include <stdbool.h>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "agent/base.h"

enum {
    ADDRESS_TEXT_BYTES_MAX = 128,
    ADDRESS_ERROR_BYTES_MAX = 256,
    ADDRESS_BACKLOG = 4096, /* HAProxy's reload opens all its connections at once */
};

struct address {
    char text[ADDRESS_TEXT_BYTES_MAX]; /* as written */
    struct sockaddr_storage sockaddr;  /* family AF_UNSPEC: an inherited descriptor */
    socklen_t sockaddr_len;
    int inherited_fd; /* fd@N: N, else -1 */
    mode_t unix_mode; /* of a UNIX socket's file */
};

/**
 * Parse IP:PORT, [v6]:PORT, unix@/path or fd@N.
 *
 * @param error  ADDRESS_ERROR_BYTES_MAX bytes, filled on failure
 * @return false when `text` is none of these; `*address` is then undefined
 */
MUST_USE bool address_parse(struct address *address, const char *text, char *error);

/** Whether other hosts can reach the address. */
bool address_is_remote(const struct address *address);

struct listening {
    int fd;          /* -1: not listening */
    bool is_foreign; /* the file is another process's to remove: see inheritance.h */
    dev_t unix_dev;
    ino_t unix_ino; /* the socket file we made; 0 when none */
    char unix_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/**
 * Listen. A UNIX socket left over by a dead process is replaced; one that somebody
 * serves is an error.
 *
 * @param error  ADDRESS_ERROR_BYTES_MAX bytes, filled on failure
 */
MUST_USE bool address_listen(const struct address *address, struct listening *listening,
                             char *error);

/**
 * Accept one connection, non-blocking and closed on exec. Connections that died while they
 * waited are passed over.
 *
 * @return its descriptor; or -1, with errno EAGAIN when nobody waits, else because
 *         descriptors or memory are short: pause, the listener stays readable
 */
MUST_USE int address_accept(int listening_fd);

/** Close, and remove the socket file if it is still the one we made. */
void address_unlisten(struct listening *listening);

/** Whether the socket file is still the one that was made for `listening`. */
bool address_has_file(const struct listening *listening);

#endif
