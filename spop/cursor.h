/**
 * @file spop/cursor.h  Bounded reader and writer: the only pointer arithmetic of spop/.
 *
 * Model:     sticky errors. After the first error every read yields zeros or an empty
 *            view and every write does nothing, so a decoder is a list of reads with
 *            one check at its end.
 * Ownership: both borrow the memory they are given.
 * Threads:   no shared state.
 * Errors:    `status`; the position stays where the failing call began.
 * Limits:    the memory given; a length is compared with what is left.
 */
#ifndef SPOP_CURSOR_H
#define SPOP_CURSOR_H

#include "spop/spop.h"

struct spop_reader {
    const uint8_t *ptr;
    size_t len; /* bytes left */
    enum spop_status status;
};

struct spop_writer {
    uint8_t *buf;
    size_t cap; /* bytes of buf */
    size_t len; /* bytes written so far */
    enum spop_status status;
};

void spop_reader_init(struct spop_reader *r, struct spop_bytes bytes);
/** Make `status`, an error, the reader's, unless it has one already. */
void spop_reader_fail(struct spop_reader *r, enum spop_status status);
uint8_t spop_read_u8(struct spop_reader *r);
uint32_t spop_read_be32(struct spop_reader *r);
/** A peers varint (spop/varint.h). */
uint64_t spop_read_varint(struct spop_reader *r);
/** `len` bytes as a view; compared with what is left, never added to a pointer. */
struct spop_bytes spop_read_bytes(struct spop_reader *r, uint64_t len);
/** A raw string: varint length and bytes, as every name is written. */
struct spop_bytes spop_read_string(struct spop_reader *r);

void spop_writer_init(struct spop_writer *w, uint8_t *buf, size_t cap);
void spop_write_u8(struct spop_writer *w, uint8_t byte);
void spop_write_be32(struct spop_writer *w, uint32_t value);
void spop_write_varint(struct spop_writer *w, uint64_t value);
void spop_write_bytes(struct spop_writer *w, struct spop_bytes bytes);
void spop_write_string(struct spop_writer *w, struct spop_bytes bytes);
/** @return bytes that can still be written; 0 after an error. */
size_t spop_writer_room(const struct spop_writer *w);
/** Overwrite four bytes written before, at `off` (asserted to be all there). */
void spop_writer_patch_be32(struct spop_writer *w, size_t off, uint32_t value);

/**
 * Write something whole or not at all: fork a writer over at most `cap` bytes of the
 * room of `w`, write to it, and join it when it is still ok. Not joined, it leaves no
 * trace in `w`.
 */
void spop_writer_fork(const struct spop_writer *w, size_t cap,
                      struct spop_writer *part);
void spop_writer_join(struct spop_writer *w, const struct spop_writer *part);

#endif
