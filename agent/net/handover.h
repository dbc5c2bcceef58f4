/**
 * @file agent/net/handover.h  An open connection as a packet of the channel.
 *
 * Model:     the descriptor, the session's numbers, what was read and is not yet answered,
 *            what is answered and not yet written. With these another process goes on as
 *            if nothing had been, in the middle of a frame too; time limits begin anew.
 * Ownership: for sending, views of the connection's own buffers. What handover_receive
 *            makes is one block, freed by free; its descriptor is the holder's.
 * Threads:   none of its own.
 * Errors:    NULL for a packet that no agent sends, or when memory is short.
 * Limits:    input of the largest frame, output of CONNECTION_OUT_BYTES.
 */
#ifndef AGENT_NET_HANDOVER_H
#define AGENT_NET_HANDOVER_H

#include "spop/bytes.h"
#include "spop/session.h"

#include "agent/net/channel.h"

struct handover {
    int fd;
    struct spop_session session; /* new or open, and not assembling */
    struct spop_bytes in;        /* begins with a frame */
    struct spop_bytes out;
};

/** Send it. On CHANNEL_OK the connection is the successor's: close, and touch it no more. */
MUST_USE enum channel_status handover_send(int channel_fd,
                                           const struct handover *handover);

/** Read a packet of type CHANNEL_CONNECTION; its descriptor is closed on failure. */
MUST_USE struct handover *handover_receive(const struct channel_packet *packet,
                                           const uint8_t *bytes);

#endif
