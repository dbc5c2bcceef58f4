#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/image.h"

#include "tests/support/prng.h"

enum {
    RECORDS_MAX = 3 * IMAGE_BLOCK_RECORDS,
    BYTES_MAX = IMAGE_HEAD_BYTES + RECORDS_MAX * 32 + 5 * 32
};

static const struct image_origin origin = {
    .secret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
    .agent_at = {.us = INT64_C(1800000000) * US_PER_S},
    .wall_us = INT64_C(1800000001) * US_PER_S,
    .clock_offset_us = -5,
};

/* What an image is written to, up to `room`. */
static struct {
    uint8_t bytes[BYTES_MAX];
    size_t len;
    size_t room;
} out;

static bool write_out(void *context, const void *bytes, size_t len)
{
    (void)context;
    if (len > out.room - out.len) {
        return false;
    }
    memcpy(out.bytes + out.len, bytes, len);
    out.len += len;
    return true;
}

/* What a reader handed on. */
static struct {
    struct image_record records[RECORDS_MAX];
    size_t n;
} in;

static void keep(void *context, enum image_kind kind,
                 const struct image_record *records, size_t n_records)
{
    assert_ptr_equal(context, &in);
    assert_int_equal(kind, IMAGE_COUNTERS);
    assert_true(n_records > 0 && n_records <= IMAGE_BLOCK_RECORDS);
    assert_true(in.n + n_records <= RECORDS_MAX);
    memcpy(&in.records[in.n], records, n_records * sizeof(*records));
    in.n += n_records;
}

static struct image_record record_of(unsigned i)
{
    return (struct image_record){
        .hash_hi = i * UINT64_C(0x9e3779b97f4a7c15),
        .hash_lo = i,
        .expires_s = 7 * i,
        .state = {.bucket = {.level = i, .at_ticks = -(int64_t)i}},
    };
}

static bool write_image(unsigned n_records, size_t room)
{
    static struct image_writer writer;
    out.len = 0;
    out.room = room;
    image_writer_init(&writer, &origin, write_out, NULL);
    for (unsigned i = 0; i < n_records; i++) {
        struct image_record record = record_of(i);
        image_write(&writer, IMAGE_COUNTERS, &record);
        assert_int_equal(image_writer_n_records(&writer), i + 1);
    }
    return image_write_end(&writer);
}

/* Read `len` bytes in pieces of `piece`. */
static enum image_status read_image(const uint8_t *bytes, size_t len, size_t piece)
{
    static struct image_reader reader;
    enum image_status status = IMAGE_MORE;
    in.n = 0;
    image_reader_init(&reader, keep, &in);
    for (size_t at = 0; at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        status = image_read(&reader, bytes + at, n);
    }
    if (status == IMAGE_END) {
        assert_memory_equal(&reader.origin, &origin, sizeof(origin));
    }
    assert_true(reader.has_origin || in.n == 0);
    assert_int_equal(reader.n_records, in.n);
    image_reader_clear(&reader);
    return status;
}

static void what_is_written_is_read_in_pieces_of_any_size(void **context)
{
    (void)context;
    static const unsigned counts[] = {0,
                                      1,
                                      IMAGE_BLOCK_RECORDS - 1,
                                      IMAGE_BLOCK_RECORDS,
                                      IMAGE_BLOCK_RECORDS + 1,
                                      RECORDS_MAX};
    static const size_t pieces[] = {1, 7, 16, 80, 4096, BYTES_MAX};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        for (size_t j = 0; j < ARRAY_LEN(pieces); j++) {
            assert_true(write_image(counts[i], BYTES_MAX));
            assert_int_equal(read_image(out.bytes, out.len, pieces[j]), IMAGE_END);
            assert_int_equal(in.n, counts[i]);
            for (unsigned k = 0; k < counts[i]; k++) {
                struct image_record record = record_of(k);
                assert_memory_equal(&in.records[k], &record, sizeof(record));
            }
        }
    }
}

static enum image_kind seen_kinds[4];
static size_t n_kinds;

static void keep_kind(void *context, enum image_kind kind,
                      const struct image_record *records, size_t n_records)
{
    (void)context;
    (void)records;
    (void)n_records;
    seen_kinds[n_kinds++] = kind;
}

static enum image_status read_kinds(const enum image_kind *kinds, size_t n)
{
    static struct image_writer writer;
    static struct image_reader reader;
    struct image_record record = record_of(1);
    out.len = 0;
    out.room = BYTES_MAX;
    n_kinds = 0;
    image_writer_init(&writer, &origin, write_out, NULL);
    for (size_t i = 0; i < n; i++) {
        image_write(&writer, kinds[i], &record);
    }
    assert_true(image_write_end(&writer));
    image_reader_init(&reader, keep_kind, NULL);
    return image_read(&reader, out.bytes, out.len);
}

static void blocks_are_of_one_kind(void **context)
{
    (void)context;
    static const enum image_kind kinds[] = {IMAGE_COUNTERS, IMAGE_COUNTERS,
                                            IMAGE_EVENTS, IMAGE_COUNTERS};
    assert_int_equal(read_kinds(kinds, 4), IMAGE_END);
    assert_int_equal(n_kinds, 3);
    assert_int_equal(seen_kinds[0], IMAGE_COUNTERS);
    assert_int_equal(seen_kinds[1], IMAGE_EVENTS);
    assert_int_equal(seen_kinds[2], IMAGE_COUNTERS);
    const enum image_kind unknown = (enum image_kind)(IMAGE_EVENTS + 1);
    assert_int_equal(read_kinds(&unknown, 1), IMAGE_DAMAGED);
    assert_int_equal(n_kinds, 0);
}

static void origin_is_known_after_the_head_alone(void **context)
{
    (void)context;
    static struct image_writer writer;
    static struct image_reader reader;
    out.len = 0;
    out.room = BYTES_MAX;
    image_writer_init(&writer, &origin, write_out, NULL);
    assert_int_equal(out.len, IMAGE_HEAD_BYTES);
    image_reader_init(&reader, NULL, NULL);
    assert_int_equal(image_read(&reader, out.bytes, IMAGE_HEAD_BYTES - 1), IMAGE_MORE);
    assert_false(reader.has_origin);
    assert_int_equal(image_read(&reader, out.bytes + IMAGE_HEAD_BYTES - 1, 1),
                     IMAGE_MORE);
    assert_true(reader.has_origin);
}

static void cut_anywhere_is_not_whole(void **context)
{
    (void)context;
    assert_true(write_image(IMAGE_BLOCK_RECORDS + 3, BYTES_MAX));
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(read_image(out.bytes, len, BYTES_MAX), IMAGE_MORE);
    }
    assert_string_equal(image_status_text(IMAGE_MORE), "it ends too early");
}

static void any_flipped_bit_is_seen(void **context)
{
    (void)context;
    assert_true(write_image(IMAGE_BLOCK_RECORDS + 3, BYTES_MAX));
    for (size_t i = 0; i < out.len; i++) {
        uint8_t bit = (uint8_t)(1U << i % 8);
        out.bytes[i] ^= bit;
        enum image_status status = read_image(out.bytes, out.len, BYTES_MAX);
        out.bytes[i] ^= bit;
        /* a larger number of records waits for what never comes */
        assert_int_not_equal(status, IMAGE_END);
        for (unsigned k = 0; k < in.n; k++) {
            struct image_record record = record_of(k);
            assert_memory_equal(&in.records[k], &record, sizeof(record));
        }
    }
}

static void foreign_bytes_are_told_apart(void **context)
{
    (void)context;
    uint8_t head[IMAGE_HEAD_BYTES];
    assert_true(write_image(0, BYTES_MAX));
    memcpy(head, out.bytes, sizeof(head));
    head[0] ^= 1;
    assert_int_equal(read_image(head, sizeof(head), 1), IMAGE_NOT_COUNTERS);
    memcpy(head, out.bytes, sizeof(head));
    head[8] ^= 2; /* the lowest byte of the version on a little-endian host */
    assert_int_equal(read_image(head, sizeof(head), 1), IMAGE_OTHER_VERSION);
    memcpy(head, out.bytes, sizeof(head));
    memcpy(head + 12,
           (const uint8_t[]){out.bytes[15], out.bytes[14], out.bytes[13],
                             out.bytes[12]},
           4);
    assert_int_equal(read_image(head, sizeof(head), 1), IMAGE_OTHER_ORDER);
}

static void bytes_after_the_end_are_refused(void **context)
{
    (void)context;
    static uint8_t bytes[BYTES_MAX + 1];
    assert_true(write_image(5, BYTES_MAX));
    memcpy(bytes, out.bytes, out.len);
    assert_int_equal(read_image(bytes, out.len + 1, BYTES_MAX), IMAGE_TRAILING);
    assert_int_equal(read_image(bytes, out.len + 1, 1), IMAGE_TRAILING);
}

/* Each block is right in itself, but not there. */
static void blocks_left_out_repeated_or_of_another_image_are_refused(void **context)
{
    (void)context;
    enum {
        BLOCK = IMAGE_BLOCK_RECORDS * 32 + 32,
        WHOLE = IMAGE_HEAD_BYTES + 2 * BLOCK + 32
    };
    static uint8_t bytes[WHOLE + BLOCK];
    assert_true(write_image(2 * IMAGE_BLOCK_RECORDS, BYTES_MAX));
    assert_int_equal(out.len, WHOLE);

    memcpy(bytes, out.bytes, IMAGE_HEAD_BYTES);
    memcpy(bytes + IMAGE_HEAD_BYTES, out.bytes + IMAGE_HEAD_BYTES + BLOCK, BLOCK + 32);
    assert_int_equal(read_image(bytes, WHOLE - BLOCK, BYTES_MAX), IMAGE_DAMAGED);

    memcpy(bytes, out.bytes, IMAGE_HEAD_BYTES + BLOCK);
    memcpy(bytes + IMAGE_HEAD_BYTES + BLOCK, out.bytes + IMAGE_HEAD_BYTES,
           WHOLE - IMAGE_HEAD_BYTES);
    assert_int_equal(read_image(bytes, WHOLE + BLOCK, BYTES_MAX), IMAGE_DAMAGED);

    struct image_origin other = origin;
    struct image_writer writer;
    memcpy(bytes, out.bytes, WHOLE);
    other.agent_at.us++;
    out.len = 0;
    image_writer_init(&writer, &other, write_out, NULL);
    memcpy(bytes, out.bytes, IMAGE_HEAD_BYTES);
    assert_int_equal(read_image(bytes, WHOLE, BYTES_MAX), IMAGE_DAMAGED);
    assert_int_equal(in.n, 0);
}

static void times_that_no_record_can_hold_are_refused(void **context)
{
    (void)context;
    struct image_origin origins[] = {origin, origin, origin, origin};
    origins[0].agent_at.us = -1;
    origins[1].agent_at.us = (INT64_C(1) << 32) * US_PER_S;
    origins[2].wall_us = -1;
    origins[3].wall_us = INT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(origins); i++) {
        struct image_writer writer;
        out.len = 0;
        out.room = BYTES_MAX;
        image_writer_init(&writer, &origins[i], write_out, NULL);
        assert_true(image_write_end(&writer));
        assert_int_equal(read_image(out.bytes, out.len, BYTES_MAX), IMAGE_DAMAGED);
    }
}

static void random_bytes_are_refused(void **context)
{
    (void)context;
    struct prng prng;
    uint8_t bytes[512];
    prng_init(&prng, prng_seed(11));
    assert_true(write_image(5, BYTES_MAX));
    for (int i = 0; i < 2000; i++) {
        size_t n_right = prng_below(&prng, IMAGE_HEAD_BYTES + 33);
        prng_fill(&prng, bytes, sizeof(bytes));
        memcpy(bytes, out.bytes, n_right);
        assert_true(read_image(bytes, sizeof(bytes), 1 + prng_below(&prng, 512))
                    > IMAGE_END);
        assert_int_equal(in.n, 0);
    }
}

/* A full disk at any moment: nothing more is written, and the end says so. */
static void writer_without_room_fails(void **context)
{
    (void)context;
    assert_true(write_image(2 * IMAGE_BLOCK_RECORDS, BYTES_MAX));
    size_t whole = out.len;
    for (size_t room = 0; room < whole; room += 997) {
        assert_false(write_image(2 * IMAGE_BLOCK_RECORDS, room));
        assert_true(out.len <= room);
    }
    assert_false(write_image(2 * IMAGE_BLOCK_RECORDS, whole - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_in_pieces_of_any_size),
        cmocka_unit_test(blocks_are_of_one_kind),
        cmocka_unit_test(origin_is_known_after_the_head_alone),
        cmocka_unit_test(cut_anywhere_is_not_whole),
        cmocka_unit_test(any_flipped_bit_is_seen),
        cmocka_unit_test(foreign_bytes_are_told_apart),
        cmocka_unit_test(bytes_after_the_end_are_refused),
        cmocka_unit_test(blocks_left_out_repeated_or_of_another_image_are_refused),
        cmocka_unit_test(times_that_no_record_can_hold_are_refused),
        cmocka_unit_test(random_bytes_are_refused),
        cmocka_unit_test(writer_without_room_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
