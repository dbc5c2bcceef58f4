/**
 * @file agent/net/channel.h  Packets between an agent and its successor.
 *
 * Model:     a pair of SOCK_SEQPACKET sockets: each packet has a type, some bytes and at
 *            most one descriptor, and comes whole or not at all. Both ends are on one
 *            host, so numbers travel as they lie in memory.
 * Ownership: channel_pair hands out two descriptors. A descriptor that is sent stays the
 *            sender's; one that is received is the receiver's.
 * Threads:   any may send on one channel at a time: packets do not mix.
 * Errors:    a closed enum. The peer is trusted, yet a packet that is none is refused.
 * Limits:    CHANNEL_BYTES_MAX a packet. Nothing here waits but channel_wait.
 */
#ifndef AGENT_NET_CHANNEL_H
#define AGENT_NET_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/uio.h>

#include "agent/base.h"

enum {
    CHANNEL_BYTES_MAX = 192 * 1024, /* a connection's buffers, and some */
    CHANNEL_PARTS_MAX = 3,
};

/** The conversation, in this order; from the old agent (>) or from the new one (<). */
enum channel_type {
    CHANNEL_HELLO = 1,   /* > version, secrets, how many listeners follow */
    CHANNEL_LISTENER,    /* > a listening socket and its address; with a descriptor */
    CHANNEL_READY,       /* < the new agent serves */
    CHANNEL_CONNECTIONS, /* > at most so many connections follow */
    CHANNEL_CONNECTION,  /* > one of them; with a descriptor */
    CHANNEL_COUNTERS,    /* > a piece of the counters */
    CHANNEL_END,         /* > that was all */
    CHANNEL_DONE,        /* < all of it was taken */
};

enum channel_status {
    CHANNEL_OK = 0,
    CHANNEL_LATER, /* nothing there, or no room: try again */
    CHANNEL_ENDED, /* the peer is gone */
    CHANNEL_BAD,   /* received what is no packet; nothing is kept of it */
};

struct channel_packet {
    enum channel_type type;
    size_t len; /* bytes in the buffer */
    int fd;     /* -1: none came */
};

/** Make a channel, closed on exec at both ends; false with errno. */
MUST_USE bool channel_pair(int fds[2]);

/** Whether `fd` can be an end of a channel. */
MUST_USE bool channel_is_one(int fd);

/** A part of a packet: sendmsg's struct has no const in it. */
struct iovec channel_part(const void *bytes, size_t len);

/**
 * Send one packet.
 *
 * @param parts  its bytes, in at most CHANNEL_PARTS_MAX pieces
 * @param fd     goes with it; -1 for none
 */
MUST_USE enum channel_status channel_send(int channel_fd, enum channel_type type,
                                          const struct iovec *parts, size_t n_parts,
                                          int fd);

/**
 * Receive one packet.
 *
 * @param buf  gets its bytes; a longer packet is a bad one
 */
MUST_USE enum channel_status channel_receive(int channel_fd, uint8_t *buf, size_t cap,
                                             struct channel_packet *packet);

/**
 * Wait, at most `wait_ms`, for `events`: POLLIN, something to receive; POLLOUT, room to
 * send; or the peer is gone. Signals do not end it.
 */
MUST_USE bool channel_wait(int channel_fd, short events, int wait_ms);

#endif
