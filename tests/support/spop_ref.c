#include "tests/support/spop_ref.h"

#include <string.h>

/* Where decoding is, and the first thing that was wrong. */
struct place {
    struct spop_bytes bytes;
    size_t at;
    enum spop_status status;
};

static uint8_t take_byte(struct place *p)
{
    if (p->status != SPOP_OK) {
        return 0;
    }
    if (p->at >= p->bytes.len) {
        p->status = SPOP_ERR_SHORT;
        return 0;
    }
    return p->bytes.ptr[p->at++];
}

/* A number of up to 96 bits: a sum that is too large for 64 is still right. */
struct wide {
    uint64_t low; /* 32 bits */
    uint64_t high;
};

/* Add `byte`, shifted to the left, bit by bit. */
static void wide_add(struct wide *sum, uint8_t byte, unsigned shift)
{
    for (unsigned bit = shift; bit < shift + 8; bit++) {
        uint64_t is_set = (byte >> (bit - shift)) & 1;
        sum->low += bit < 32 ? is_set << bit : 0;
        sum->high += bit < 32 ? 0 : is_set << (bit - 32);
    }
    sum->high += sum->low >> 32;
    sum->low &= UINT32_MAX;
}

static uint64_t take_varint(struct place *p)
{
    struct wide sum = {0};
    uint8_t byte = take_byte(p);
    wide_add(&sum, byte, 0);
    bool has_more = byte >= 240;
    for (unsigned n = 1; has_more && n < SPOP_VARINT_BYTES_MAX; n++) {
        byte = take_byte(p);
        wide_add(&sum, byte, 4 + 7 * (n - 1));
        has_more = byte >= 128;
    }
    if (p->status == SPOP_OK && (has_more || sum.high > UINT32_MAX)) {
        p->status = SPOP_ERR_VARINT;
    }
    return sum.high << 32 | sum.low;
}

static struct spop_bytes take_bytes(struct place *p, uint64_t len)
{
    size_t start = p->at;
    for (uint64_t n = 0; n < len && p->status == SPOP_OK; n++) {
        (void)take_byte(p);
    }
    return (struct spop_bytes){.ptr = p->bytes.ptr + start, .len = p->at - start};
}

static struct spop_bytes take_string(struct place *p)
{
    return take_bytes(p, take_varint(p));
}

static struct spop_value take_value(struct place *p)
{
    unsigned byte = take_byte(p);
    struct spop_value value = {.type = (enum spop_value_type)(byte % 16)};
    if (byte % 16 == 1) {
        value.boolean = byte / 16 == 1;
    } else if (byte % 16 >= 2 && byte % 16 <= 5) {
        value.integer = take_varint(p);
    } else if (byte % 16 == 6) {
        value.bytes = take_bytes(p, 4);
    } else if (byte % 16 == 7) {
        value.bytes = take_bytes(p, 16);
    } else if (byte % 16 == 8 || byte % 16 == 9) {
        value.bytes = take_string(p);
    } else if (byte % 16 >= 10 && p->status == SPOP_OK) {
        p->status = SPOP_ERR_TYPE;
    }
    return value;
}

/* Add what was decoded, unless it could not be; false then, or when the list is full. */
static bool add(struct spop_ref_list *list, const struct place *p,
                const struct spop_ref_item *item)
{
    list->status = p->status;
    if (p->status != SPOP_OK) {
        return false;
    }
    if (list->n_items == SPOP_REF_ITEMS_MAX) {
        list->status = SPOP_MORE;
        return false;
    }
    list->items[list->n_items++] = *item;
    return true;
}

static bool take_arg(struct spop_ref_list *list, struct place *p)
{
    struct spop_ref_item arg = {.is_message = false};
    arg.name = take_string(p);
    arg.value = take_value(p);
    return add(list, p, &arg);
}

static bool take_message(struct spop_ref_list *list, struct place *p)
{
    struct spop_ref_item message = {.is_message = true};
    message.name = take_string(p);
    message.n_args = take_byte(p);
    bool is_good = add(list, p, &message);
    for (unsigned n = 0; is_good && n < message.n_args; n++) {
        is_good = take_arg(list, p);
    }
    return is_good;
}

void spop_ref_messages(struct spop_bytes payload, struct spop_ref_list *list)
{
    struct place p = {.bytes = payload};
    bool is_good = true;
    list->n_items = 0;
    while (is_good && p.at < payload.len) {
        is_good = take_message(list, &p);
    }
    list->status = is_good ? SPOP_END : list->status;
}

void spop_ref_pairs(struct spop_bytes payload, struct spop_ref_list *list)
{
    struct place p = {.bytes = payload};
    list->n_items = 0;
    while (p.at < payload.len) {
        struct spop_ref_item pair = {.is_message = false};
        pair.name = take_string(&p);
        if (p.status == SPOP_OK && pair.name.len == 0) {
            p.status = SPOP_ERR_FRAME;
        }
        pair.value = take_value(&p);
        if (!add(list, &p, &pair)) {
            return;
        }
    }
    list->status = SPOP_END;
}

static uint32_t take_be32(struct place *p)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value * 256 + take_byte(p);
    }
    return value;
}

enum spop_status spop_ref_frame(struct spop_bytes in, size_t frame_bytes_max,
                                struct spop_frame *frame)
{
    memset(frame, 0, sizeof(*frame));
    struct place p = {.bytes = in};
    size_t length = take_be32(&p);
    if (p.status != SPOP_OK) {
        return SPOP_MORE;
    }
    if (length > frame_bytes_max) {
        return SPOP_ERR_TOO_BIG;
    }
    if (length < 7) {
        return SPOP_ERR_FRAME;
    }
    if (in.len - 4 < length) {
        frame->wire_bytes = 4 + length;
        return SPOP_MORE;
    }
    p.bytes.len = 4 + length;
    frame->type = take_byte(&p);
    uint32_t flags = take_be32(&p);
    uint64_t stream_id = take_varint(&p);
    uint64_t frame_id = take_varint(&p);
    if (p.status != SPOP_OK) {
        return SPOP_ERR_FRAME;
    }
    frame->flags = flags;
    frame->stream_id = stream_id;
    frame->frame_id = frame_id;
    frame->payload = take_bytes(&p, p.bytes.len - p.at);
    frame->wire_bytes = 4 + length;
    return SPOP_OK;
}
