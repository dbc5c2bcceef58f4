/**
 * @file agent/net/inheritance.h  Listening sockets of the agent that ran before.
 *
 * Model:     on an upgrade the successor gets them open: what waits in their backlogs is
 *            not lost, and a UNIX socket's file stays the same. Who listens takes the one
 *            of its address's text; what nobody takes is closed in the end.
 * Ownership: owns what is not taken.
 * Threads:   start of the program.
 * Errors:    a packet that is none is refused.
 * Limits:    INHERITANCE_MAX.
 */
#ifndef AGENT_NET_INHERITANCE_H
#define AGENT_NET_INHERITANCE_H

#include "agent/net/address.h"
#include "agent/net/channel.h"

enum {
    INHERITANCE_MAX = 32,
};

struct inheritance {
    unsigned n;
    struct inherited {
        char text[ADDRESS_TEXT_BYTES_MAX];
        struct listening listening; /* fd -1: taken */
    } items[INHERITANCE_MAX];
};

/** Send a socket that listens on `text`; it stays open here. */
MUST_USE enum channel_status inheritance_send(int channel_fd, const char *text,
                                              const struct listening *listening);

/** Read a packet of type CHANNEL_LISTENER; its descriptor is closed on failure. */
MUST_USE bool inheritance_receive(struct inheritance *inheritance,
                                  const struct channel_packet *packet,
                                  const uint8_t *bytes);

/** Take the socket of this address if there is one (NULL is nobody's), else listen. */
MUST_USE bool inheritance_listen(struct inheritance *inheritance,
                                 const struct address *address,
                                 struct listening *listening, char *error);

/**
 * Close what nobody took.
 *
 * @param is_ours  whether its UNIX sockets' files are removed, too: not while the agent
 *                 that ran before may go on
 */
void inheritance_close(struct inheritance *inheritance, bool is_ours);

#endif
