/**
 * @file agent/store/image.h  Counters as bytes: of a snapshot, and for a successor.
 *
 * Model:     a head (whose counters, on what clock), blocks of records, an end with their
 *            number; each with a checksum that covers its place too, so that nothing is
 *            lost, repeated, moved or taken from another image unseen. Numbers are in
 *            the byte order of the host, with a mark that shows it.
 *
 *            | part  | bytes     | what                                              |
 *            | ----- | --------- | ------------------------------------------------- |
 *            | head  | 80        | magic, version, order mark, origin, checksum      |
 *            | block | 32 n + 32 | number n of its records, how many came before,    |
 *            |       |           | the records, checksum                             |
 *            | end   | 32        | a block without records: how many came in all     |
 *
 *            A writer hands bytes to a function as they become ready; a reader is fed
 *            bytes in pieces of any size and hands on the records of each block whose
 *            checksum is right. So an image can be applied as it comes, or first be read
 *            to its end for a verdict on the whole.
 * Ownership: both are the caller's structs, of fixed size; nothing to free.
 * Threads:   one at a time for each.
 * Errors:    a reader names what is wrong with the bytes and takes no more; a writer goes
 *            quiet when its function answers false.
 * Limits:    IMAGE_BLOCK_RECORDS in a block; whatever the bytes are, a reader keeps no
 *            more than one block.
 */
#ifndef AGENT_STORE_IMAGE_H
#define AGENT_STORE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base.h"
#include "agent/clock.h"
#include "agent/limit/limit.h"

enum {
    IMAGE_VERSION = 2,
    IMAGE_SECRET_BYTES = 16,
    IMAGE_SUM_BYTES = 16,
    IMAGE_BLOCK_RECORDS = 256,
    IMAGE_HEAD_BYTES = 80, /* the origin is known when so many bytes are read */
};

/** What the records of a block are. */
enum image_kind {
    IMAGE_COUNTERS = 0, /* each the state of a counter */
    IMAGE_EVENTS,       /* each two events of a sliding log, or one; the oldest first */
};

/** One counter: it fits a table of any size that hashes with the origin's secret. */
struct image_record {
    uint64_t hash_hi;
    uint32_t hash_lo;
    uint32_t expires_s; /* from then on as if untouched */
    struct limit_state state;
};

/** Whose counters: who takes them over hashes with this secret, on this clock. */
struct image_origin {
    uint8_t secret[IMAGE_SECRET_BYTES];
    struct instant agent_at; /* the agent's clock as the head was written */
    int64_t wall_us;         /* the wall clock at that moment: clock_continue */
    int64_t clock_offset_us; /* clock_start_at, on the same host and boot */
};

struct image_head {
    uint8_t magic[8];
    uint32_t version;
    uint32_t order;
    struct image_origin origin;
    uint8_t zero[8];
    uint8_t sum[IMAGE_SUM_BYTES];
};

/** In front of a block's records. */
struct image_lead {
    uint32_t n_records; /* 0: the end */
    uint32_t kind;
    uint64_t n_before;
};

/** Room for one block. */
struct image_block {
    struct image_lead lead;
    struct image_record records[IMAGE_BLOCK_RECORDS];
    uint8_t sum[IMAGE_SUM_BYTES]; /* behind the last record when that is full */
};

/** @return false: the bytes went nowhere, and more would not either */
typedef bool image_write_fn(void *context, const void *bytes, size_t len);

struct image_writer {
    image_write_fn *write;
    void *context;
    bool is_failed;
    uint8_t key[IMAGE_SUM_BYTES]; /* the head's checksum: of all others, the key */
    struct image_block block;
};

/** Begin an image: the head is written at once. */
void image_writer_init(struct image_writer *writer, const struct image_origin *origin,
                       image_write_fn *write, void *context);

/** Add a record; a full block is written, and one of another kind. */
void image_write(struct image_writer *writer, enum image_kind kind,
                 const struct image_record *record);

/** Write what is left, and the end. @return whether all of the image was written */
MUST_USE bool image_write_end(struct image_writer *writer);

/** @return how many records the image has so far */
uint64_t image_writer_n_records(const struct image_writer *writer);

enum image_status {
    IMAGE_MORE = 0,     /* right so far; more is to come */
    IMAGE_END,          /* right, and whole */
    IMAGE_NOT_COUNTERS, /* not such a file at all */
    IMAGE_OTHER_VERSION,
    IMAGE_OTHER_ORDER, /* written on a host of another byte order */
    IMAGE_DAMAGED,     /* a checksum or a number is wrong */
    IMAGE_TRAILING,    /* bytes after the end */
};

/** What a status says about an image; IMAGE_MORE as of one that stops there. */
const char *image_status_text(enum image_status status);

/** Gets the records of one block, in the order of the image. */
typedef void image_records_fn(void *context, enum image_kind kind,
                              const struct image_record *records, size_t n_records);

struct image_reader {
    image_records_fn *on_records; /* NULL: only look whether the image is right */
    void *context;
    enum image_status status;
    bool has_origin;
    struct image_origin origin;
    uint64_t n_records; /* handed on */
    uint8_t key[IMAGE_SUM_BYTES];
    size_t n_filled; /* of part */
    union {
        struct image_head head;
        struct image_block block;
    } part;
};

/** Begin to read an image. @param on_records  called within image_read */
void image_reader_init(struct image_reader *reader, image_records_fn *on_records,
                       void *context);

/**
 * Feed the next bytes of an image. As soon as has_origin is set, origin is there; no
 * record is handed on before.
 *
 * @return IMAGE_MORE or IMAGE_END, or what is wrong: then nothing more is read
 */
MUST_USE enum image_status image_read(struct image_reader *reader, const void *bytes,
                                      size_t len);

/** Forget the secret that a reader has seen. */
void image_reader_clear(struct image_reader *reader);

#endif
