/**
 * @file agent/net/reassembly.h  Buffers in which fragments are put together.
 *
 * Model:     REASSEMBLY_BUFFERS_MAX of them for the whole process, of which a connection
 *            takes one while a NOTIFY comes to it in fragments. Their memory is reserved
 *            at start and touched only where a buffer is used, the lowest first.
 * Ownership: reassembly_new / reassembly_free; a buffer taken is given back.
 * Threads:   take and give from any thread, without a lock.
 * Errors:    reassembly_new answers NULL when memory is short; take when all are in use.
 * Limits:    REASSEMBLY_BUFFERS_MAX, SPOP_REASSEMBLY_BYTES_MAX each.
 */
#ifndef AGENT_NET_REASSEMBLY_H
#define AGENT_NET_REASSEMBLY_H

#include <stdint.h>

#include "spop/spop.h"

#include "agent/base.h"

enum {
    REASSEMBLY_BUFFERS_MAX = 64 /* the bits of one word */
};

struct reassembly;

MUST_USE struct reassembly *reassembly_new(void);
void reassembly_free(struct reassembly *r);

/** @return a buffer of SPOP_REASSEMBLY_BYTES_MAX bytes; NULL when none is left */
MUST_USE uint8_t *reassembly_take(struct reassembly *r);

/** Give back what take answered. */
void reassembly_give(struct reassembly *r, const uint8_t *buffer);

#endif
