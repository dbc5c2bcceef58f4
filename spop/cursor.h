/**
 * @file spop/cursor.h  Bounded reader and writer: the only pointer arithmetic of spop/.
 *
 * Model:     sticky errors. After the first error every read yields zeros or an empty
 *            view and every write does nothing, so a decoder is a list of reads with
 *            one check at its end.
 * Ownership: both borrow the memory they are given.
 * Threads:   no shared state.
 * Errors:    `status`; the position stays where the failing call began.
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

#endif
