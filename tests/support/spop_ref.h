/**
 * @file tests/support/spop_ref.h  A second decoder, slow and obvious, to hold the real one
 *       against.
 *
 * Model:     written from the layout in spop/README.md, a byte at a time, with none of the
 *            code of spop/; only its words (statuses and types) are the same.
 * Ownership: what is decoded points into the bytes.
 * Threads:   no shared state.
 * Errors:    `status` of the list says how it ended: SPOP_END, or what was wrong.
 * Limits:    SPOP_REF_ITEMS_MAX: what is beyond is not decoded (SPOP_MORE).
 */
#ifndef TESTS_SUPPORT_SPOP_REF_H
#define TESTS_SUPPORT_SPOP_REF_H

#include "spop/frame.h"
#include "spop/value.h"

enum {
    SPOP_REF_ITEMS_MAX = 512
};

/** A message, an argument of the last message, or a pair of a KV-LIST. */
struct spop_ref_item {
    bool is_message;
    struct spop_bytes name;
    unsigned n_args;         /* of a message */
    struct spop_value value; /* of an argument or a pair */
};

struct spop_ref_list {
    unsigned n_items;
    struct spop_ref_item items[SPOP_REF_ITEMS_MAX];
    enum spop_status status;
};

/** Decode the payload of a NOTIFY. */
void spop_ref_messages(struct spop_bytes payload, struct spop_ref_list *list);

/** Decode the payload of a HELLO or a DISCONNECT. */
void spop_ref_pairs(struct spop_bytes payload, struct spop_ref_list *list);

/** Decode the frame at the beginning of `in`; as spop_frame_decode. */
enum spop_status spop_ref_frame(struct spop_bytes in, size_t frame_bytes_max,
                                struct spop_frame *frame);

#endif
