/**
 * @file spop/frame.h  The envelope: length prefix, type, flags, two ids.
 *
 * Model:     decode looks at the beginning of a stream and never consumes; encode
 *            writes a header, lets the caller append the payload, then sets the length.
 * Ownership: the payload of a decoded frame is a view into the input.
 * Threads:   no shared state.
 * Errors:    SPOP_MORE (not an error) is "the frame is not all here yet". Of a frame
 *            that is too large or too short the four bytes of the prefix tell.
 * Limits:    the size the caller allows; SPOP_FRAME_BYTES_MIN.
 * Not here:  what a type means and when it may come (session.h).
 */
#ifndef SPOP_FRAME_H
#define SPOP_FRAME_H

#include "spop/cursor.h"

/** Flag bits. The others are reserved: sent as 0, ignored when received. */
enum spop_frame_flag {
    SPOP_FLAG_FIN = 1,   /* the last, or only, frame of its payload */
    SPOP_FLAG_ABORT = 2, /* a payload in several frames is given up */
};

struct spop_frame {
    uint8_t type; /* enum spop_frame_type, or any other byte */
    uint32_t flags;
    uint64_t stream_id;
    uint64_t frame_id;
    struct spop_bytes payload;
    size_t wire_bytes; /* prefix and frame; 0 while the prefix is not known */
};

/**
 * Decode the frame at the beginning of `in`.
 *
 * @param frame_bytes_max  largest frame to accept, without its prefix
 * @param frame            SPOP_OK: filled. SPOP_MORE: `wire_bytes` is set where known.
 *                         SPOP_ERR_FRAME: `type` is set where it could be read.
 *                         All else is zero.
 * @return SPOP_OK, SPOP_MORE, or an error
 * @errors SPOP_ERR_TOO_BIG, SPOP_ERR_FRAME
 */
SPOP_MUST_USE enum spop_status spop_frame_decode(struct spop_bytes in,
                                                 size_t frame_bytes_max,
                                                 struct spop_frame *frame);

/** @return true when FIN is set. */
bool spop_frame_is_final(const struct spop_frame *frame);

/** @return true when both ids are 0, as those of a HELLO or a DISCONNECT are. */
bool spop_frame_is_of_connection(const struct spop_frame *frame);

/**
 * Begin a frame with FIN set. The payload is what is written until end.
 *
 * @return where the frame starts in `w`, for end
 */
SPOP_MUST_USE size_t spop_frame_begin(struct spop_writer *w, enum spop_frame_type type,
                                      uint64_t stream_id, uint64_t frame_id);

/** The same with any flags. */
SPOP_MUST_USE size_t spop_frame_begin_flagged(struct spop_writer *w,
                                              enum spop_frame_type type, uint32_t flags,
                                              uint64_t stream_id, uint64_t frame_id);

/**
 * Complete the frame that begins at `start_off`: set its length, which is asserted to
 * be one a peer can read. Where room ran out nothing of the frame stays in `w`.
 */
void spop_frame_end(struct spop_writer *w, size_t start_off);

#endif
