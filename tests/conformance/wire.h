/**
 * @file tests/conformance/wire.h  The wire once more, from the tables of spop/README.md:
 *       shares no line with spop/, so that no mistake is made on both sides.
 *
 * Model:     frames of HAProxy's side are put one after the other into a struct wire, right
 *            or wrong; frames of the agent's side are read strictly: what the documents do
 *            not allow is a fault with a text.
 * Ownership: a struct wire owns its bytes; what is read is a view into the frame.
 * Threads:   no shared state.
 * Errors:    no room is an abort: the frame is part of the test.
 */
#ifndef TESTS_CONFORMANCE_WIRE_H
#define TESTS_CONFORMANCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_BYTES_MAX = 1 << 20,
    WIRE_ACTIONS_MAX = 16,
    WIRE_PREFIX_BYTES = 4,
    WIRE_FRAME_BYTES_MIN = 7,
    WIRE_SIZE_MIN = 256,    /* least max-frame-size */
    WIRE_SIZE_MAX = 131072, /* the agent's cap */
    WIRE_SIZE = 16380,      /* what HAProxy announces */
};

enum wire_type {
    WIRE_UNSET = 0,
    WIRE_HAPROXY_HELLO = 1,
    WIRE_HAPROXY_DISCONNECT = 2,
    WIRE_NOTIFY = 3,
    WIRE_AGENT_HELLO = 101,
    WIRE_AGENT_DISCONNECT = 102,
    WIRE_ACK = 103,
};

enum {
    WIRE_FIN = 1,
    WIRE_ABORT = 2,
};

enum wire_data {
    WIRE_NULL = 0,
    WIRE_BOOL = 1,
    WIRE_INT32 = 2,
    WIRE_UINT32 = 3,
    WIRE_INT64 = 4,
    WIRE_UINT64 = 5,
    WIRE_IPV4 = 6,
    WIRE_IPV6 = 7,
    WIRE_STRING = 8,
    WIRE_BINARY = 9,
};

/** Codes of a DISCONNECT. */
enum {
    WIRE_NORMAL = 0,
    WIRE_TIMEOUT = 2,
    WIRE_TOO_BIG = 3,
    WIRE_INVALID = 4,
    WIRE_NO_VERSION = 5,
    WIRE_NO_FRAME_SIZE = 6,
    WIRE_NO_CAPABILITIES = 7,
    WIRE_BAD_VERSION = 8,
    WIRE_BAD_FRAME_SIZE = 9,
    WIRE_NO_FRAGMENTATION = 10,
    WIRE_INTERLACED = 11,
};

struct wire {
    size_t len;
    size_t frame_off; /* of the frame begun last */
    uint8_t bytes[WIRE_BYTES_MAX];
};

/** What a frame is made of. */
void wire_u8(struct wire *w, unsigned byte);
void wire_be32(struct wire *w, uint32_t number);
void wire_varint(struct wire *w, uint64_t number);
void wire_bytes(struct wire *w, const void *bytes, size_t len);
void wire_hex(struct wire *w, const char *text); /* as in tests/support/hex.h */
void wire_name(struct wire *w, const char *name);

/** Typed data. */
void wire_null(struct wire *w);
void wire_bool(struct wire *w, bool value);
void wire_int(struct wire *w, enum wire_data type, uint64_t number);
void wire_address(struct wire *w, const char *text); /* IPV4 or IPV6 */
void wire_data(struct wire *w, enum wire_data type, const void *bytes, size_t len);
void wire_text(struct wire *w, const char *text); /* a STRING */

void wire_begin(struct wire *w, unsigned type, uint32_t flags, uint64_t stream_id,
                uint64_t frame_id);
void wire_end(struct wire *w);

/** Change the flags of the frame begun last. */
void wire_set_flags(struct wire *w, uint32_t flags);

/** HELLOs: of HAProxy 3.1, of 2.6, with these three values (NULL or 0: without), check. */
void wire_hello(struct wire *w);
void wire_hello_legacy(struct wire *w);
void wire_hello_with(struct wire *w, const char *versions, uint64_t size,
                     const char *capabilities);
void wire_hello_check(struct wire *w);

/** A NOTIFY with one message; its arguments are put by the caller. */
void wire_notify_begin(struct wire *w, uint64_t stream_id, uint64_t frame_id,
                       unsigned n_args);

/** An argument that is a STRING. */
void wire_arg_text(struct wire *w, const char *name, const char *text);

/** A NOTIFY about `key`: its route is "key". */
void wire_notify(struct wire *w, uint64_t stream_id, uint64_t frame_id,
                 const char *key);

/** The same with an argument that makes its frame `size` bytes long. */
void wire_notify_sized(struct wire *w, uint64_t stream_id, const char *key,
                       size_t size);

void wire_disconnect(struct wire *w, uint64_t code);

/** A frame of the agent's. */
struct wire_frame {
    uint8_t type;
    uint32_t flags;
    uint64_t stream_id;
    uint64_t frame_id;
    const uint8_t *payload;
    size_t payload_len;
};

/** AGENT-HELLO and AGENT-DISCONNECT. */
struct wire_hello_answer {
    uint64_t size;
    bool is_pipelining;
    bool is_fragmentation;
};

struct wire_action {
    bool is_unset;
    char name[64];
    enum wire_data type; /* of a SET-VAR: BOOL, INT64 or STRING */
    int64_t number;      /* BOOL, INT64 */
    const char *text;    /* STRING, not ended by a NUL */
    size_t text_len;
};

struct wire_ack {
    uint64_t stream_id;
    uint64_t frame_id;
    bool is_neutral; /* one UNSET-VAR */
    unsigned n_actions;
    struct wire_action actions[WIRE_ACTIONS_MAX];
};

/** Read one whole frame, prefix included. @return NULL, or what is wrong with it */
const char *wire_read_frame(const uint8_t *bytes, size_t len, struct wire_frame *frame);
const char *wire_read_hello(const uint8_t *bytes, size_t len,
                            struct wire_hello_answer *hello);
const char *wire_read_disconnect(const uint8_t *bytes, size_t len, uint64_t *code);
const char *wire_read_ack(const uint8_t *bytes, size_t len, size_t agreed_size,
                          struct wire_ack *ack);

/** The value of a variable: a number (INT64_MIN: not there), and whether it is `text`. */
int64_t wire_ack_number(const struct wire_ack *ack, const char *name);
bool wire_ack_is(const struct wire_ack *ack, const char *name, const char *text);

/** Whether a policy answered in place of Redis. */
bool wire_ack_is_by_policy(const struct wire_ack *ack);

#endif
