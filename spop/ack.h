/**
 * @file spop/ack.h  Write one ACK frame: the answer to one NOTIFY.
 *
 * Model:     begin, any number of actions, end. An action is written whole or not at
 *            all, so what HAProxy gets is always a valid frame: it drops everything
 *            after the first action it cannot read.
 * Ownership: borrows the writer until end.
 * Threads:   no shared state.
 * Errors:    an action without room is left out and counted in `n_left_out`; put the
 *            decision first.
 * Limits:    names are [A-Za-z0-9_.]+ (checked by an assert when a variable is made: they
 *            are the program's own), see SPOP_VARIABLE_BYTES_MAX.
 */
#ifndef SPOP_ACK_H
#define SPOP_ACK_H

#include "spop/cursor.h"
#include "spop/spop.h"
#include "spop/value.h"

enum spop_scope {
    SPOP_SCOPE_PROC = 0,
    SPOP_SCOPE_SESS = 1,
    SPOP_SCOPE_TXN = 2,
    SPOP_SCOPE_REQ = 3,
    SPOP_SCOPE_RES = 4,
};

/** Output room that begin needs: a frame with the neutral action. */
enum {
    SPOP_ACK_ROOM_MIN = 64
};

/** A variable, encoded up to its value once and for all. */
struct spop_variable {
    size_t len;
    uint8_t head[4 + SPOP_VARIABLE_BYTES_MAX]; /* action, nb-args, scope, raw name */
};

/** Encode the name of a variable; `name` without HAProxy's prefix. */
void spop_variable_init(struct spop_variable *variable, enum spop_scope scope,
                        const char *name);

enum {
    SPOP_CONSTANT_BYTES_MAX = 256
};

/** A variable with a value that is known beforehand, encoded once and for all. */
struct spop_constant {
    size_t len;
    uint8_t bytes[SPOP_CONSTANT_BYTES_MAX];
};

/** Encode an action that sets `variable`; it fits SPOP_CONSTANT_BYTES_MAX (asserted). */
void spop_constant_init(struct spop_constant *constant,
                        const struct spop_variable *variable,
                        const struct spop_value *value);

struct spop_ack {
    struct spop_writer *out;
    size_t start_off; /* where the frame begins in `out` */
    size_t cap;       /* of `out`, which until end has no more room than the frame */
    unsigned n_actions;
    unsigned n_left_out;
};

/**
 * Begin an ACK.
 *
 * @param out              must have SPOP_ACK_ROOM_MIN bytes of room (asserted)
 * @param stream_id        copied from the NOTIFY bit for bit, also 0
 * @param frame_id         likewise
 * @param frame_bytes_max  the agreed max-frame-size: the frame will not be larger;
 *                         SPOP_FRAME_SIZE_MIN to SPOP_FRAME_SIZE_MAX (asserted)
 */
void spop_ack_begin(struct spop_ack *ack, struct spop_writer *out, uint64_t stream_id,
                    uint64_t frame_id, size_t frame_bytes_max);

void spop_ack_set_bool(struct spop_ack *ack, const struct spop_variable *variable,
                       bool value);
void spop_ack_set_int64(struct spop_ack *ack, const struct spop_variable *variable,
                        int64_t value);
void spop_ack_set_string(struct spop_ack *ack, const struct spop_variable *variable,
                         struct spop_bytes value);
void spop_ack_set_constant(struct spop_ack *ack, const struct spop_constant *constant);
void spop_ack_unset(struct spop_ack *ack, const struct spop_variable *variable);

/**
 * Complete the frame: patch its length; where no action was written, write the neutral
 * one (UNSET-VAR txn "_"), since an ACK without actions blocks HAProxy 3.1.0.
 */
void spop_ack_end(struct spop_ack *ack);

/**
 * Write the ACK that tells HAProxy to give up a NOTIFY whose fragments are still
 * coming: FIN and ABORT, no action. Nobody but HAProxy up to 3.0 gets one.
 *
 * @param out  must have SPOP_ACK_ROOM_MIN bytes of room (asserted)
 */
void spop_ack_abort(struct spop_writer *out, uint64_t stream_id, uint64_t frame_id);

#endif
