#include "spop/cursor.h"

#include <string.h>

#include "spop/ensure.h"
#include "spop/varint.h"

enum {
    BE32_BYTES = 4
};

void spop_reader_init(struct spop_reader *r, struct spop_bytes bytes)
{
    *r = (struct spop_reader){.ptr = bytes.ptr, .len = bytes.len, .status = SPOP_OK};
}

void spop_reader_fail(struct spop_reader *r, enum spop_status status)
{
    SPOP_ENSURE(status < 0);
    if (r->status == SPOP_OK) {
        r->status = status;
    }
}

static bool reader_has(struct spop_reader *r, uint64_t len)
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

/* Nothing is added to a pointer that may be null: an empty range has no address. */
static void reader_skip(struct spop_reader *r, size_t len)
{
    if (len > 0) {
        r->ptr += len;
        r->len -= len;
    }
}

uint8_t spop_read_u8(struct spop_reader *r)
{
    if (!reader_has(r, 1)) {
        return 0;
    }
    uint8_t byte = r->ptr[0];
    reader_skip(r, 1);
    return byte;
}

uint32_t spop_read_be32(struct spop_reader *r)
{
    if (!reader_has(r, BE32_BYTES)) {
        return 0;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < BE32_BYTES; i++) {
        value = value << 8 | r->ptr[i];
    }
    reader_skip(r, BE32_BYTES);
    return value;
}

uint64_t spop_read_varint(struct spop_reader *r)
{
    if (r->status != SPOP_OK) {
        return 0;
    }
    if (r->len > 0 && r->ptr[0] < SPOP_VARINT_LONG) {
        return spop_read_u8(r); /* nearly all are short */
    }
    uint64_t value = 0;
    size_t n_bytes = 0;
    struct spop_bytes left = {.ptr = r->ptr, .len = r->len};
    r->status = spop_varint_decode(left, &value, &n_bytes);
    reader_skip(r, n_bytes);
    return value;
}

struct spop_bytes spop_read_bytes(struct spop_reader *r, uint64_t len)
{
    if (!reader_has(r, len)) {
        return (struct spop_bytes){0};
    }
    struct spop_bytes bytes = {.ptr = r->ptr, .len = (size_t)len};
    reader_skip(r, (size_t)len);
    return bytes;
}

struct spop_bytes spop_read_string(struct spop_reader *r)
{
    struct spop_reader start = *r;
    uint64_t len = spop_read_varint(r);
    struct spop_bytes bytes = spop_read_bytes(r, len);
    if (r->status != SPOP_OK) {
        r->ptr = start.ptr;
        r->len = start.len;
    }
    return bytes;
}

void spop_writer_init(struct spop_writer *w, uint8_t *buf, size_t cap)
{
    w->buf = buf;
    w->cap = cap;
    w->len = 0;
    w->status = SPOP_OK;
}

size_t spop_writer_room(const struct spop_writer *w)
{
    SPOP_ENSURE(w->len <= w->cap);
    return w->status == SPOP_OK ? w->cap - w->len : 0;
}

static bool writer_has(struct spop_writer *w, size_t len)
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

static void writer_append(struct spop_writer *w, const uint8_t *ptr, size_t len)
{
    if (len > 0) {
        memcpy(w->buf + w->len, ptr, len);
        w->len += len;
    }
}

static void be32_store(uint8_t out[BE32_BYTES], uint32_t value)
{
    for (unsigned i = 0; i < BE32_BYTES; i++) {
        out[i] = (uint8_t)(value >> (8 * (BE32_BYTES - 1 - i)));
    }
}

void spop_write_u8(struct spop_writer *w, uint8_t byte)
{
    if (writer_has(w, 1)) {
        w->buf[w->len++] = byte;
    }
}

void spop_write_be32(struct spop_writer *w, uint32_t value)
{
    uint8_t buf[BE32_BYTES];
    be32_store(buf, value);
    spop_write_bytes(w, (struct spop_bytes){.ptr = buf, .len = sizeof(buf)});
}

void spop_write_varint(struct spop_writer *w, uint64_t value)
{
    if (value < SPOP_VARINT_LONG) {
        spop_write_u8(w, (uint8_t)value);
        return;
    }
    uint8_t buf[SPOP_VARINT_BYTES_MAX];
    size_t n_bytes = spop_varint_encode(value, buf);
    spop_write_bytes(w, (struct spop_bytes){.ptr = buf, .len = n_bytes});
}

void spop_write_bytes(struct spop_writer *w, struct spop_bytes bytes)
{
    if (writer_has(w, bytes.len)) {
        writer_append(w, bytes.ptr, bytes.len);
    }
}

void spop_write_string(struct spop_writer *w, struct spop_bytes bytes)
{
    size_t start_len = w->len;
    spop_write_varint(w, bytes.len);
    spop_write_bytes(w, bytes);
    if (w->status != SPOP_OK) {
        w->len = start_len;
    }
}

void spop_writer_patch_be32(struct spop_writer *w, size_t off, uint32_t value)
{
    SPOP_ENSURE(off <= w->len && w->len - off >= BE32_BYTES);
    be32_store(w->buf + off, value);
}

void spop_writer_fork(const struct spop_writer *w, size_t cap, struct spop_writer *part)
{
    size_t room = spop_writer_room(w);
    size_t part_cap = cap < room ? cap : room;
    spop_writer_init(part, part_cap > 0 ? w->buf + w->len : NULL, part_cap);
}

void spop_writer_join(struct spop_writer *w, const struct spop_writer *part)
{
    SPOP_ENSURE(part->status == SPOP_OK && part->len <= spop_writer_room(w));
    SPOP_ENSURE(part->len == 0 || part->buf == w->buf + w->len);
    w->len += part->len;
}
