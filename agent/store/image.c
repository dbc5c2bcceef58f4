#include "agent/store/image.h"

#include <string.h>

#include <sodium.h>

#define ORDER_MARK UINT32_C(0x01020304)

/* No text file begins so, and no transfer that mends line ends leaves it whole. */
static const uint8_t magic[8] = {0x8d, 'R', 'L', 'C', 'N', '\r', '\n', 0x1a};

/* Times of either clock must fit a record's expires_s. */
#define TIME_US_MAX (INT64_C(0xffffffff) * US_PER_S)

_Static_assert(sizeof(struct image_head) == IMAGE_HEAD_BYTES, "no padding");
_Static_assert(sizeof(struct image_lead) == 16, "no padding");
_Static_assert(sizeof(struct image_record) == 32, "no padding");

/* What of the head says how to read the rest. */
static const size_t opening_bytes = offsetof(struct image_head, origin);

static void sum_head(uint8_t *sum, const struct image_head *head)
{
    (void)crypto_generichash(sum, IMAGE_SUM_BYTES, (const uint8_t *)head,
                             offsetof(struct image_head, sum), NULL, 0);
}

/* Bytes of a block in front of its checksum. */
static size_t block_bytes(uint32_t n_records)
{
    return sizeof(struct image_lead) + n_records * sizeof(struct image_record);
}

/* Keyed with the head's checksum: a block of another image is never right. */
static void sum_block(uint8_t *sum, const struct image_block *block, const uint8_t *key)
{
    (void)crypto_generichash(sum, IMAGE_SUM_BYTES, (const uint8_t *)block,
                             block_bytes(block->lead.n_records), key, IMAGE_SUM_BYTES);
}

static void write_bytes(struct image_writer *writer, const void *bytes, size_t len)
{
    writer->is_failed = writer->is_failed
                        || !writer->write(writer->context, bytes, len);
}

void image_writer_init(struct image_writer *writer, const struct image_origin *origin,
                       image_write_fn *write, void *context)
{
    struct image_head head = {
        .version = IMAGE_VERSION,
        .order = ORDER_MARK,
        .origin = *origin,
    };
    memcpy(head.magic, magic, sizeof(magic));
    sum_head(head.sum, &head);
    *writer = (struct image_writer){.write = write, .context = context};
    memcpy(writer->key, head.sum, sizeof(writer->key));
    write_bytes(writer, &head, sizeof(head));
    sodium_memzero(&head, sizeof(head));
}

static void write_block(struct image_writer *writer)
{
    struct image_block *block = &writer->block;
    size_t len = block_bytes(block->lead.n_records);
    sum_block((uint8_t *)block + len, block, writer->key);
    write_bytes(writer, block, len + IMAGE_SUM_BYTES);
    block->lead.n_before += block->lead.n_records;
    block->lead.n_records = 0;
}

void image_write(struct image_writer *writer, enum image_kind kind,
                 const struct image_record *record)
{
    struct image_block *block = &writer->block;
    if (block->lead.kind != kind && block->lead.n_records > 0) {
        write_block(writer);
    }
    block->lead.kind = kind;
    block->records[block->lead.n_records++] = *record;
    if (block->lead.n_records == IMAGE_BLOCK_RECORDS) {
        write_block(writer);
    }
}

bool image_write_end(struct image_writer *writer)
{
    if (writer->block.lead.n_records > 0) {
        write_block(writer);
    }
    write_block(writer);
    return !writer->is_failed;
}

uint64_t image_writer_n_records(const struct image_writer *writer)
{
    return writer->block.lead.n_before + writer->block.lead.n_records;
}

const char *image_status_text(enum image_status status)
{
    switch (status) {
    case IMAGE_MORE:
        return "it ends too early";
    case IMAGE_END:
        return "it is whole";
    case IMAGE_NOT_COUNTERS:
        return "it holds no counters of this program";
    case IMAGE_OTHER_VERSION:
        return "it was written by another version of this program";
    case IMAGE_OTHER_ORDER:
        return "it was written on a host of another byte order";
    case IMAGE_DAMAGED:
        return "it is damaged: a checksum is wrong";
    case IMAGE_TRAILING:
        return "it goes on after its end";
    }
    NEVER("status");
}

void image_reader_init(struct image_reader *reader, image_records_fn *on_records,
                       void *context)
{
    *reader = (struct image_reader){.on_records = on_records, .context = context};
}

static bool is_time(int64_t us)
{
    return us >= 0 && us <= TIME_US_MAX;
}

static enum image_status check_opening(const struct image_head *head)
{
    if (memcmp(head->magic, magic, sizeof(magic)) != 0) {
        return IMAGE_NOT_COUNTERS;
    }
    if (head->order != ORDER_MARK) {
        return IMAGE_OTHER_ORDER;
    }
    return head->version == IMAGE_VERSION ? IMAGE_MORE : IMAGE_OTHER_VERSION;
}

static enum image_status read_head(struct image_reader *reader)
{
    const struct image_head *head = &reader->part.head;
    uint8_t sum[IMAGE_SUM_BYTES];
    sum_head(sum, head);
    if (memcmp(sum, head->sum, sizeof(sum)) != 0 || !is_time(head->origin.agent_at.us)
        || !is_time(head->origin.wall_us)) {
        return IMAGE_DAMAGED;
    }
    reader->has_origin = true;
    reader->origin = head->origin;
    memcpy(reader->key, sum, sizeof(reader->key));
    reader->n_filled = 0;
    return IMAGE_MORE;
}

static enum image_status check_lead(const struct image_reader *reader)
{
    const struct image_lead *lead = &reader->part.block.lead;
    bool is_ok = lead->n_records <= IMAGE_BLOCK_RECORDS && lead->kind <= IMAGE_EVENTS
                 && lead->n_before == reader->n_records;
    return is_ok ? IMAGE_MORE : IMAGE_DAMAGED;
}

static enum image_status read_block(struct image_reader *reader)
{
    const struct image_block *block = &reader->part.block;
    uint32_t n_records = block->lead.n_records;
    const uint8_t *stated = (const uint8_t *)block + block_bytes(n_records);
    uint8_t sum[IMAGE_SUM_BYTES];
    sum_block(sum, block, reader->key);
    if (memcmp(sum, stated, sizeof(sum)) != 0) {
        return IMAGE_DAMAGED;
    }
    reader->n_filled = 0;
    if (n_records == 0) {
        return IMAGE_END;
    }
    reader->n_records += n_records;
    if (reader->on_records != NULL) {
        reader->on_records(reader->context, (enum image_kind)block->lead.kind,
                           block->records, n_records);
    }
    return IMAGE_MORE;
}

/* How far the part that is being filled is known to reach. */
static size_t known_bytes(const struct image_reader *reader)
{
    if (!reader->has_origin) {
        return reader->n_filled < opening_bytes ? opening_bytes : IMAGE_HEAD_BYTES;
    }
    if (reader->n_filled < sizeof(struct image_lead)) {
        return sizeof(struct image_lead);
    }
    return block_bytes(reader->part.block.lead.n_records) + IMAGE_SUM_BYTES;
}

/* So many bytes are there as were known to come: look at them. */
static enum image_status read_part(struct image_reader *reader, size_t n_known)
{
    if (!reader->has_origin) {
        return n_known == opening_bytes ? check_opening(&reader->part.head)
                                        : read_head(reader);
    }
    return n_known == sizeof(struct image_lead) ? check_lead(reader)
                                                : read_block(reader);
}

enum image_status image_read(struct image_reader *reader, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0 && reader->status == IMAGE_MORE) {
        size_t n_known = known_bytes(reader);
        size_t n = n_known - reader->n_filled;
        n = n < len ? n : len;
        memcpy((uint8_t *)&reader->part + reader->n_filled, at, n);
        reader->n_filled += n;
        at += n;
        len -= n;
        if (reader->n_filled == n_known) {
            reader->status = read_part(reader, n_known);
        }
    }
    if (len > 0 && reader->status == IMAGE_END) {
        reader->status = IMAGE_TRAILING;
    }
    return reader->status;
}

void image_reader_clear(struct image_reader *reader)
{
    sodium_memzero(reader, sizeof(*reader));
}
