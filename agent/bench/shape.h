/**
 * @file agent/bench/shape.h  What a request looks like: one message and its arguments.
 *
 * Model:     arguments as text, `NAME[:TYPE]=VALUE`, are compiled into pieces: bytes that
 *            every request has, and the places where its key goes.
 *              text  the default; {key} in it is the key's number
 *              int   a number or {key}
 *              ip    an address, or ADDRESS+{key}: that many addresses further on
 *              bool  true or false
 *              null  no value: NAME:null
 * Ownership: one block of memory, in the struct.
 * Threads:   compiled before threads start, read by all.
 * Errors:    texts for people.
 * Limits:    SHAPE_ARGS_MAX arguments, SHAPE_BYTES_MAX of payload.
 */
#ifndef AGENT_BENCH_SHAPE_H
#define AGENT_BENCH_SHAPE_H

#include "spop/cursor.h"

#include "agent/base.h"

enum {
    SHAPE_ARGS_MAX = 64,
    SHAPE_BYTES_MAX = 65536, /* what our own agent puts together of fragments */
    SHAPE_KEY_DIGITS_MAX = 20,
    SHAPE_NAME_BYTES_MAX = 255,
    SHAPE_ERROR_BYTES_MAX = 256,
};

enum shape_place {
    SHAPE_END = 0, /* no key follows */
    SHAPE_TEXT,    /* a string: `prefix_len` bytes, the key, `suffix_len` bytes */
    SHAPE_INT,
    SHAPE_IPV4, /* the address base, and the key added */
    SHAPE_IPV6,
};

/** Bytes as they are, then a place for the key. */
struct shape_piece {
    size_t fixed_off; /* in `fixed` */
    size_t fixed_len;
    enum shape_place place;
    size_t text_off; /* TEXT: prefix and suffix, in `fixed`; IPV4, IPV6: the base */
    size_t prefix_len;
    size_t suffix_len;
};

struct shape {
    unsigned n_args;
    size_t n_args_off; /* in `fixed`: the number of arguments */
    unsigned n_pieces;
    struct shape_piece pieces[SHAPE_ARGS_MAX + 1];
    size_t fixed_len;
    uint8_t fixed[SHAPE_BYTES_MAX];
};

/** Begin with a message without arguments. */
MUST_USE bool shape_init(struct shape *shape, const char *message, char *error);

/**
 * Add one argument.
 *
 * @param error  SHAPE_ERROR_BYTES_MAX bytes, filled on failure
 */
MUST_USE bool shape_add(struct shape *shape, const char *text, char *error);

/** The most bytes that write writes. */
size_t shape_bytes_max(const struct shape *shape);

/** Append the payload of a request of `key`; through the writer SPOP_ERR_ROOM. */
void shape_write(const struct shape *shape, struct spop_writer *w, uint64_t key);

#endif
