/**
 * @file tests/conformance/mixed.h  NOTIFYs of every kind, and the one ACK of each.
 */
#ifndef TESTS_CONFORMANCE_MIXED_H
#define TESTS_CONFORMANCE_MIXED_H

#include <stdint.h>

#include "tests/support/prng.h"
#include "tests/support/spop_client.h"

/** Put a NOTIFY of a random kind into `wire`. */
void mixed_put(struct prng *prng, uint64_t stream_id);

/** Send `n` of them in batches and expect an ACK for each, in order, and none beside. */
void mixed_ask(struct spop_client *c, struct prng *prng, uint64_t n);

#endif
