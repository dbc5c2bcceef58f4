#include "spop/cursor.h"

enum {
    BE32_BYTES = 4
};

uint32_t spop_read_be32(struct spop_reader *r)
{
    if (!spop_reader_has(r, BE32_BYTES)) {
        return 0;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < BE32_BYTES; i++) {
        value = value << 8 | r->ptr[i];
    }
    spop_reader_skip(r, BE32_BYTES);
    return value;
}

void spop_writer_init(struct spop_writer *w, uint8_t *buf, size_t cap)
{
    w->buf = buf;
    w->cap = cap;
    w->len = 0;
    w->status = SPOP_OK;
}

static void be32_store(uint8_t out[BE32_BYTES], uint32_t value)
{
    for (unsigned i = 0; i < BE32_BYTES; i++) {
        out[i] = (uint8_t)(value >> (8 * (BE32_BYTES - 1 - i)));
    }
}

void spop_write_be32(struct spop_writer *w, uint32_t value)
{
    uint8_t buf[BE32_BYTES];
    be32_store(buf, value);
    spop_write_bytes(w, (struct spop_bytes){.ptr = buf, .len = sizeof(buf)});
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
