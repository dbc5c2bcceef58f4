/**
 * @file spop/spop.h  The vocabulary of the protocol library.
 *
 * Model:     bytes <-> frames, nothing else. No sockets, no clock, no allocation.
 * Ownership: a struct spop_bytes is always a borrowed view.
 * Threads:   no shared state anywhere in spop/.
 * Errors:    a closed enum. 0 is success, positive is not an error, negative is one.
 * Limits:    the named constants below; a size of a frame never counts its prefix.
 */
#ifndef SPOP_SPOP_H
#define SPOP_SPOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOP_MUST_USE __attribute__((warn_unused_result))

/** A step of a loop over every byte of a request: a call would put what the loop keeps in
 *  registers into memory. */
#define SPOP_INLINE static inline __attribute__((always_inline))

/** A borrowed range of bytes. */
struct spop_bytes {
    const uint8_t *ptr;
    size_t len;
};

/** What a function of this library answers. */
enum spop_status {
    SPOP_OK = 0,
    SPOP_END = 1,          /* nothing follows */
    SPOP_MORE = 2,         /* more bytes are needed */
    SPOP_ERR_SHORT = -1,   /* data ends too early */
    SPOP_ERR_VARINT = -2,  /* an integer does not fit 64 bits */
    SPOP_ERR_TYPE = -3,    /* unknown or unexpected data type */
    SPOP_ERR_ROOM = -4,    /* no room in the output */
    SPOP_ERR_FRAME = -5,   /* invalid frame */
    SPOP_ERR_TOO_BIG = -6, /* frame longer than agreed */
};

/** Frame types (SPOE.txt 3.2). */
enum spop_frame_type {
    SPOP_FRAME_UNSET = 0,
    SPOP_FRAME_HAPROXY_HELLO = 1,
    SPOP_FRAME_HAPROXY_DISCONNECT = 2,
    SPOP_FRAME_NOTIFY = 3,
    SPOP_FRAME_AGENT_HELLO = 101,
    SPOP_FRAME_AGENT_DISCONNECT = 102,
    SPOP_FRAME_ACK = 103,
};

/** Status codes of DISCONNECT frames (SPOE.txt 3.3): no other code ever leaves us. */
#define SPOP_CODE_TABLE(X)                                                      \
    X(SPOP_CODE_NORMAL, 0, "normal")                                            \
    X(SPOP_CODE_IO, 1, "I/O error")                                             \
    X(SPOP_CODE_TIMEOUT, 2, "a timeout occurred")                               \
    X(SPOP_CODE_TOO_BIG, 3, "frame is too big")                                 \
    X(SPOP_CODE_INVALID, 4, "invalid frame received")                           \
    X(SPOP_CODE_NO_VERSION, 5, "version value not found")                       \
    X(SPOP_CODE_NO_FRAME_SIZE, 6, "max-frame-size value not found")             \
    X(SPOP_CODE_NO_CAPABILITIES, 7, "capabilities value not found")             \
    X(SPOP_CODE_BAD_VERSION, 8, "unsupported version")                          \
    X(SPOP_CODE_BAD_FRAME_SIZE, 9, "max-frame-size too big or too small")       \
    X(SPOP_CODE_NO_FRAGMENTATION, 10, "payload fragmentation is not supported") \
    X(SPOP_CODE_INTERLACED, 11, "invalid interlaced frames")                    \
    X(SPOP_CODE_NO_FRAME_ID, 12, "frame-id not found")                          \
    X(SPOP_CODE_RESOURCE, 13, "resource allocation error")                      \
    X(SPOP_CODE_UNKNOWN, 99, "an unknown error occurred")

enum spop_code {
#define X(name, value, text) name = (value),
    SPOP_CODE_TABLE(X)
#undef X
};

/** @return the text that goes into the DISCONNECT frame for `code`, never NULL. */
const char *spop_code_text(enum spop_code code);

/** @return true when `number` is one of enum spop_code. */
bool spop_code_is_registered(uint64_t number);

enum {
    SPOP_PREFIX_BYTES = 4,        /* length prefix, not counted in the frame length */
    SPOP_FRAME_BYTES_MIN = 7,     /* type, flags, two one-byte ids */
    SPOP_FRAME_SIZE_MIN = 256,    /* least max-frame-size that may be agreed to */
    SPOP_FRAME_SIZE_MAX = 131072, /* largest frame we take part in */
    SPOP_REASSEMBLY_BYTES_MAX = 131072, /* payload put together from fragments */
    SPOP_HELLO_BYTES_MAX = 16384,       /* largest frame read before the HELLO */
    SPOP_VARINT_BYTES_MAX = 10,         /* a 64-bit integer never needs more */
    SPOP_VARIABLE_BYTES_MAX = 63,       /* scope.prefix.name, HAProxy's buffer */
    SPOP_UNKNOWN_FRAMES_MAX = 16, /* frames of unknown type skipped a connection */
};

#endif
