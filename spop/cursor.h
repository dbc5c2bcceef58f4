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
 *
 * The small ones are inline, and none of these lets the reader's address go further: a
 * reader on the stack then lives in registers. Every byte of a request goes through them.
 */
#ifndef SPOP_CURSOR_H
#define SPOP_CURSOR_H

#include <string.h>

#include "spop/ensure.h"
#include "spop/spop.h"
#include "spop/varint.h"

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

static inline void spop_reader_init(struct spop_reader *r, struct spop_bytes bytes)
{
    *r = (struct spop_reader){.ptr = bytes.ptr, .len = bytes.len, .status = SPOP_OK};
}

/** Make `status`, an error, the reader's, unless it has one already. */
static inline void spop_reader_fail(struct spop_reader *r, enum spop_status status)
{
    SPOP_ENSURE(status < 0);
    if (r->status == SPOP_OK) {
        r->status = status;
    }
}

/** Whether `len` bytes are left; an error when they are not. */
static inline bool spop_reader_has(struct spop_reader *r, uint64_t len)
{
    if (r->status != SPOP_OK) {
        return false;
    }
    if (len > r->len) {
        r->status = SPOP_ERR_SHORT;
        return false;
    }
    return true;
}

/** Move past `len` bytes that are left. */
static inline void spop_reader_skip(struct spop_reader *r, size_t len)
{
    if (len > 0) { /* nothing is added to a pointer that may be null */
        r->ptr += len;
        r->len -= len;
    }
}

static inline uint8_t spop_read_u8(struct spop_reader *r)
{
    if (!spop_reader_has(r, 1)) {
        return 0;
    }
    uint8_t byte = r->ptr[0];
    spop_reader_skip(r, 1);
    return byte;
}

uint32_t spop_read_be32(struct spop_reader *r);

/** A peers varint (spop/varint.h). */
static inline uint64_t spop_read_varint(struct spop_reader *r)
{
    if (r->status != SPOP_OK) {
        return 0;
    }
    if (r->len > 0 && r->ptr[0] < SPOP_VARINT_LONG) {
        return spop_read_u8(r);
    }
    uint64_t value = 0;
    size_t n_bytes = 0;
    r->status = spop_varint_decode((struct spop_bytes){.ptr = r->ptr, .len = r->len},
                                   &value, &n_bytes);
    spop_reader_skip(r, n_bytes);
    return value;
}

/** `len` bytes as a view; compared with what is left, never added to a pointer. */
static inline struct spop_bytes spop_read_bytes(struct spop_reader *r, uint64_t len)
{
    if (!spop_reader_has(r, len)) {
        return (struct spop_bytes){0};
    }
    struct spop_bytes bytes = {.ptr = r->ptr, .len = (size_t)len};
    spop_reader_skip(r, (size_t)len);
    return bytes;
}

/** A raw string: varint length and bytes, as every name is written. */
static inline struct spop_bytes spop_read_string(struct spop_reader *r)
{
    const uint8_t *start = r->ptr;
    size_t start_len = r->len;
    uint64_t len = spop_read_varint(r);
    struct spop_bytes bytes = spop_read_bytes(r, len);
    if (r->status != SPOP_OK) {
        r->ptr = start;
        r->len = start_len;
    }
    return bytes;
}

void spop_writer_init(struct spop_writer *w, uint8_t *buf, size_t cap);

/** @return bytes that can still be written; 0 after an error. */
static inline size_t spop_writer_room(const struct spop_writer *w)
{
    SPOP_ENSURE(w->len <= w->cap);
    return w->status == SPOP_OK ? w->cap - w->len : 0;
}

/** Whether there is room for `len` bytes; an error when there is not. */
static inline bool spop_writer_has(struct spop_writer *w, size_t len)
{
    if (w->status != SPOP_OK) {
        return false;
    }
    if (len > spop_writer_room(w)) {
        w->status = SPOP_ERR_ROOM;
        return false;
    }
    return true;
}

static inline void spop_write_u8(struct spop_writer *w, uint8_t byte)
{
    if (spop_writer_has(w, 1)) {
        w->buf[w->len++] = byte;
    }
}

static inline void spop_write_bytes(struct spop_writer *w, struct spop_bytes bytes)
{
    if (spop_writer_has(w, bytes.len) && bytes.len > 0) {
        memcpy(w->buf + w->len, bytes.ptr, bytes.len);
        w->len += bytes.len;
    }
}

void spop_write_be32(struct spop_writer *w, uint32_t value);

static inline void spop_write_varint(struct spop_writer *w, uint64_t value)
{
    if (value < SPOP_VARINT_LONG) {
        spop_write_u8(w, (uint8_t)value);
        return;
    }
    if (spop_writer_room(w) >= SPOP_VARINT_BYTES_MAX) {
        w->len += spop_varint_encode(value, w->buf + w->len);
        return;
    }
    uint8_t buf[SPOP_VARINT_BYTES_MAX];
    size_t n_bytes = spop_varint_encode(value, buf);
    spop_write_bytes(w, (struct spop_bytes){.ptr = buf, .len = n_bytes});
}

static inline void spop_write_string(struct spop_writer *w, struct spop_bytes bytes)
{
    size_t start_len = w->len;
    spop_write_varint(w, bytes.len);
    spop_write_bytes(w, bytes);
    if (w->status != SPOP_OK) {
        w->len = start_len;
    }
}

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
