#include "spop/frame.h"

#include "spop/ensure.h"

static enum spop_status frame_body_decode(struct spop_bytes body,
                                          struct spop_frame *frame)
{
    struct spop_reader r;
    spop_reader_init(&r, body);
    struct spop_frame decoded = {.wire_bytes = frame->wire_bytes};
    decoded.type = spop_read_u8(&r);
    decoded.flags = spop_read_be32(&r);
    decoded.stream_id = spop_read_varint(&r);
    decoded.frame_id = spop_read_varint(&r);
    decoded.payload = spop_read_bytes(&r, r.len);
    if (r.status != SPOP_OK) {
        *frame = (struct spop_frame){.type = decoded.type};
        return SPOP_ERR_FRAME;
    }
    *frame = decoded;
    return SPOP_OK;
}

enum spop_status spop_frame_decode(struct spop_bytes in, size_t frame_bytes_max,
                                   struct spop_frame *frame)
{
    *frame = (struct spop_frame){0};
    struct spop_reader r;
    spop_reader_init(&r, in);
    uint32_t length = spop_read_be32(&r);
    if (r.status != SPOP_OK) {
        return SPOP_MORE;
    }
    if (length > frame_bytes_max) {
        return SPOP_ERR_TOO_BIG;
    }
    if (length < SPOP_FRAME_BYTES_MIN) {
        return SPOP_ERR_FRAME;
    }
    frame->wire_bytes = SPOP_PREFIX_BYTES + (size_t)length;
    struct spop_bytes body = spop_read_bytes(&r, length);
    if (r.status != SPOP_OK) {
        return SPOP_MORE;
    }
    return frame_body_decode(body, frame);
}

bool spop_frame_is_final(const struct spop_frame *frame)
{
    return (frame->flags & SPOP_FLAG_FIN) != 0;
}

bool spop_frame_is_of_connection(const struct spop_frame *frame)
{
    return frame->stream_id == 0 && frame->frame_id == 0;
}

size_t spop_frame_begin(struct spop_writer *w, enum spop_frame_type type,
                        uint64_t stream_id, uint64_t frame_id)
{
    return spop_frame_begin_flagged(w, type, SPOP_FLAG_FIN, stream_id, frame_id);
}

size_t spop_frame_begin_flagged(struct spop_writer *w, enum spop_frame_type type,
                                uint32_t flags, uint64_t stream_id, uint64_t frame_id)
{
    size_t start_off = w->len;
    spop_write_be32(w, 0); /* the length, set by end */
    spop_write_u8(w, (uint8_t)type);
    spop_write_be32(w, flags);
    spop_write_varint(w, stream_id);
    spop_write_varint(w, frame_id);
    return start_off;
}

void spop_frame_end(struct spop_writer *w, size_t start_off)
{
    if (w->status != SPOP_OK) {
        w->len = start_off;
        return;
    }
    /* Less than a header makes old HAProxy spin until its watchdog kills it. */
    SPOP_ENSURE(w->len >= start_off);
    size_t wire_bytes = w->len - start_off;
    SPOP_ENSURE(wire_bytes >= SPOP_PREFIX_BYTES + SPOP_FRAME_BYTES_MIN);
    SPOP_ENSURE(wire_bytes <= SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX);
    spop_writer_patch_be32(w, start_off, (uint32_t)(wire_bytes - SPOP_PREFIX_BYTES));
}
