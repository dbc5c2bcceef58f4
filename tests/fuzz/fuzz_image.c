/*
 * Counters as bytes, as they come from a file or a predecessor.
 *
 * The first byte is the size of the pieces that the rest is fed in; the second says what
 * is put right before: 1 the head, 2 the checksums, 4 the numbers in front of blocks.
 *
 * Laws:      however the bytes are cut, the status and the records handed on are the
 *            same; none comes before the origin; those of an image that is right read back
 *            when written again; a table takes in whatever they say.
 * Must reach: every status of image.h, blocks of several sizes, records live and expired.
 */
#include <sodium.h>

#include "agent/store/local.h"

#include "tests/fuzz/fuzz.h"

enum {
    INPUT_BYTES_MAX = 65536,
    RECORDS_MAX = INPUT_BYTES_MAX / sizeof(struct image_record),
    MEND_HEAD = 1,
    MEND_SUMS = 2,
    MEND_NUMBERS = 4,
    OPENING_BYTES = offsetof(struct image_head, origin),
};

#define NOW_US (INT64_C(1800000000) * US_PER_S)

struct taken {
    const struct image_reader *reader;
    size_t n;
    struct image_record records[RECORDS_MAX];
    enum image_kind kinds[RECORDS_MAX];
};

static void take_records(void *context, enum image_kind kind,
                         const struct image_record *records, size_t n_records)
{
    struct taken *taken = context;
    FUZZ_CHECK(taken->reader->has_origin);
    FUZZ_CHECK(n_records > 0 && n_records <= IMAGE_BLOCK_RECORDS);
    FUZZ_CHECK(n_records <= RECORDS_MAX - taken->n);
    memcpy(&taken->records[taken->n], records, n_records * sizeof(*records));
    for (size_t i = 0; i < n_records; i++) {
        taken->kinds[taken->n + i] = kind;
    }
    taken->n += n_records;
}

static enum image_status read_pieces(struct image_reader *reader, struct taken *taken,
                                     const uint8_t *bytes, size_t len, size_t piece)
{
    enum image_status status = IMAGE_MORE;
    taken->reader = reader;
    taken->n = 0;
    image_reader_init(reader, take_records, taken);
    for (size_t at = 0; at < len; at += piece) {
        uint8_t *copy = fuzz_copy(bytes + at, len - at < piece ? len - at : piece);
        status = image_read(reader, copy, len - at < piece ? len - at : piece);
        free(copy);
    }
    FUZZ_CHECK(reader->n_records == taken->n);
    return status;
}

/* What a writer writes when it begins. */
static bool keep_opening(void *context, const void *bytes, size_t len)
{
    if (len == IMAGE_HEAD_BYTES) {
        memcpy(context, bytes, OPENING_BYTES);
    }
    return true;
}

static void mend_head(uint8_t *head)
{
    static struct image_writer writer;
    const struct image_origin origin = {0};
    image_writer_init(&writer, &origin, keep_opening, head);
    (void)crypto_generichash(head + IMAGE_HEAD_BYTES - IMAGE_SUM_BYTES, IMAGE_SUM_BYTES,
                             head, IMAGE_HEAD_BYTES - IMAGE_SUM_BYTES, NULL, 0);
}

static void mend_blocks(uint8_t *bytes, size_t len, unsigned what)
{
    const uint8_t *key = bytes + IMAGE_HEAD_BYTES - IMAGE_SUM_BYTES;
    uint64_t n_before = 0;
    for (size_t at = IMAGE_HEAD_BYTES; len - at >= sizeof(struct image_lead);) {
        struct image_lead lead;
        memcpy(&lead, bytes + at, sizeof(lead));
        if ((what & MEND_NUMBERS) != 0) {
            lead = (struct image_lead){.n_records = lead.n_records % 5,
                                       .kind = lead.kind % 2,
                                       .n_before = n_before};
            memcpy(bytes + at, &lead, sizeof(lead));
        }
        n_before += lead.n_records;
        size_t block = sizeof(lead) + lead.n_records * sizeof(struct image_record);
        if (len - at < block + IMAGE_SUM_BYTES) {
            return;
        }
        if ((what & MEND_SUMS) != 0) {
            (void)crypto_generichash(bytes + at + block, IMAGE_SUM_BYTES, bytes + at,
                                     block, key, IMAGE_SUM_BYTES);
        }
        at += block + IMAGE_SUM_BYTES;
    }
}

static bool read_on(void *context, const void *bytes, size_t len)
{
    return image_read(context, bytes, len) <= IMAGE_END;
}

static void check_written_again(const struct image_origin *origin,
                                const struct taken *taken)
{
    static struct image_reader reader;
    static struct image_writer writer;
    static struct taken again;
    again.reader = &reader;
    again.n = 0;
    image_reader_init(&reader, take_records, &again);
    image_writer_init(&writer, origin, read_on, &reader);
    for (size_t i = 0; i < taken->n; i++) {
        image_write(&writer, taken->kinds[i], &taken->records[i]);
    }
    FUZZ_CHECK(image_write_end(&writer));
    FUZZ_CHECK(reader.status == IMAGE_END);
    FUZZ_CHECK(again.n == taken->n);
    FUZZ_CHECK(
        memcmp(again.records, taken->records, taken->n * sizeof(taken->records[0]))
        == 0);
}

static bool count_only(void *context, const void *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    (void)len;
    return true;
}

static bool has_events(const struct taken *taken)
{
    for (size_t i = 0; i < taken->n; i++) {
        if (taken->kinds[i] == IMAGE_EVENTS) {
            return true;
        }
    }
    return false;
}

static void check_table(const struct taken *taken)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    static struct image_writer writer;
    const struct image_origin origin = {0};
    const struct instant now = {.us = NOW_US};
    struct store *store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                    secret);
    struct counters *counters = counters_new(0);
    FUZZ_CHECK(store != NULL && counters != NULL);
    for (size_t i = 0; i < taken->n; i++) {
        local_import(store, taken->kinds[i], &taken->records[i], 1, now, counters);
    }
    uint64_t n_live = counter_get(counters, COUNTER_LOCAL_RESTORED);
    image_writer_init(&writer, &origin, count_only, NULL);
    local_export(store, now, &writer);
    uint64_t n_written = image_writer_n_records(&writer);
    if (has_events(taken)) {
        /* Two events a record, each of a log of its own where they are out of order; a log
         * is any number of records, or none. */
        FUZZ_CHECK(n_live <= 2 * taken->n && n_written <= 2 * taken->n);
    } else {
        FUZZ_CHECK(n_live <= taken->n);
        FUZZ_CHECK(n_written + counter_get(counters, COUNTER_LOCAL_EVICTED) == n_live);
    }
    store_free(store);
    counters_free(counters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct image_reader readers[2];
    static struct taken taken[2];
    if (len < 2 || len > INPUT_BYTES_MAX || sodium_init() < 0) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    unsigned what = data[1];
    uint8_t *bytes = fuzz_copy(data + 2, len - 2);
    len -= 2;
    if ((what & MEND_HEAD) != 0 && len >= IMAGE_HEAD_BYTES) {
        mend_head(bytes);
        mend_blocks(bytes, len, what);
    }
    enum image_status status = read_pieces(&readers[0], &taken[0], bytes, len, len + 1);
    FUZZ_CHECK(read_pieces(&readers[1], &taken[1], bytes, len, piece) == status);
    FUZZ_CHECK(image_status_text(status) != NULL);
    FUZZ_CHECK(taken[0].n == taken[1].n);
    FUZZ_CHECK(memcmp(taken[0].records, taken[1].records,
                      taken[0].n * sizeof(taken[0].records[0]))
               == 0);
    if (status == IMAGE_END) {
        check_written_again(&readers[0].origin, &taken[0]);
    }
    if (taken[0].n > 0) {
        check_table(&taken[0]);
    }
    free(bytes);
    return 0;
}
