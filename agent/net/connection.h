/**
 * @file agent/net/connection.h  One SPOP connection on its worker.
 *
 * Model:     readable -> the worker's buffer -> frames -> decisions -> ACKs in the output
 *            -> one write. What is left of a frame is kept; a peer that does not read its
 *            ACKs is not read from (back-pressure) and closed when its write stalls. A store
 *            may answer later: the ACK is then written at the end of that turn of the loop,
 *            or dropped when the connection has gone.
 *            Ending: DISCONNECT, half-close, read and discard for a moment so that the
 *            frame is not lost to a reset, close. Or another process goes on with it
 *            (handover.h).
 * Ownership: a connection owns its descriptor and buffers, and frees itself.
 * Threads:   its worker's only.
 * Errors:    idle closes, resets and DISCONNECTs are everyday events: debug level.
 * Limits:    the named constants; buffers are allocated at accept, and once more at HELLO
 *            where HAProxy announces a larger frame. Fragments are put together in a
 *            buffer of the process (reassembly.h); a NOTIFY in fragments counts as one
 *            frame for CONNECTION_FRAME_US.
 */
#ifndef AGENT_NET_CONNECTION_H
#define AGENT_NET_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/clock.h"

struct worker;
struct connection;
struct handover;
struct spop_session;

enum {
    CONNECTION_OUT_BYTES = 32768,         /* output kept for a slow reader */
    CONNECTION_DISCARD_BYTES_MAX = 65536, /* read after our DISCONNECT */
    CONNECTION_PENDINGS_MAX = 128,        /* NOTIFYs without an ACK that are taken */
};

#define CONNECTION_HELLO_US  (5 * US_PER_S)  /* from accept to HELLO */
#define CONNECTION_FRAME_US  (5 * US_PER_S)  /* from a frame's first byte to its last */
#define CONNECTION_WRITE_US  (10 * US_PER_S) /* without a byte taken by the peer */
#define CONNECTION_UNREAD_US (1 * US_PER_S)  /* the same, with ACKs that find no room */
#define CONNECTION_IDLE_US   (300 * US_PER_S) /* without a frame */
#define CONNECTION_LINGER_US (1 * US_PER_S)   /* after our DISCONNECT */

/** Serve `fd` on `worker`; closes it when memory is short. */
void connection_open(struct worker *worker, int fd);

/** Room for what is read of a connection and not yet answered. */
size_t connection_in_bytes(const struct spop_session *session);

/** Go on with a connection of another process on `worker`; frees `handover`. */
void connection_adopt(struct worker *worker, struct handover *handover);

/**
 * Hand the connection over to the successor behind the worker's channel; it is then gone.
 * Where that cannot be yet it stays, and is served on.
 *
 * @return whether there is nothing (more) to hand over: false says try again later
 */
MUST_USE bool connection_hand_over(struct connection *c);

/** Write, and go on with, the connections of `worker` to which stores answered later. */
void connection_flush_answered(struct worker *worker, struct instant now);

/** The next connection of the worker's list, or NULL. */
struct connection *connection_next(const struct connection *c);

/** Act on what is overdue at `now`; may close and free the connection. */
void connection_check_timers(struct connection *c, struct instant now);

#endif
