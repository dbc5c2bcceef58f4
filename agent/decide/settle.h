/**
 * @file agent/decide/settle.h  After the response: put right what a receipt says was taken.
 *
 * Model:     each charge of the receipt is found by its limit and by the key that the
 *            message's descriptors make; its rule says what it should have been; the store
 *            corrects it. Nothing is decided and nobody waits.
 * Ownership: none.
 * Threads:   the worker's.
 * Errors:    none. Receipts come back through HAProxy, so they are trusted as HAProxy is;
 *            what is none, or of another time, is counted and ignored, and one replayed
 *            or made up stays within the bounds of limit_settle.
 */
#ifndef AGENT_DECIDE_SETTLE_H
#define AGENT_DECIDE_SETTLE_H

#include "agent/decide/decide.h"

/**
 * Settle.
 *
 * @param decide  its room has the descriptors, and the receipt as it came; empty: there was
 *                none
 */
void settle_receipt(struct decide *decide, struct instant now);

#endif
