/**
 * @file tests/support/spop_client.h  HAProxy's side of a connection, by hand: blocking,
 *       whole frames or any bytes, with a time limit on every wait.
 */
#ifndef TESTS_SUPPORT_SPOP_CLIENT_H
#define TESTS_SUPPORT_SPOP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spop/spop.h"

enum {
    SPOP_CLIENT_FRAME_BYTES_MAX = SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX
};

struct spop_client {
    int fd;
    size_t len; /* received, not yet taken as frames */
    uint8_t buf[SPOP_CLIENT_FRAME_BYTES_MAX];
    uint8_t frame[SPOP_CLIENT_FRAME_BYTES_MAX]; /* the last one received */
    size_t frame_len;
};

/** Connect to a UNIX socket; false with errno. */
bool spop_client_connect(struct spop_client *c, const char *path);

/** Connect to a port of 127.0.0.1; false with errno. */
bool spop_client_connect_tcp(struct spop_client *c, uint16_t port);
void spop_client_close(struct spop_client *c);

/** Send bytes, all of them. */
bool spop_client_send(struct spop_client *c, const uint8_t *bytes, size_t len);

/** Whether the next frame was received whole already: to receive it is no wait. */
bool spop_client_has_frame(const struct spop_client *c);

/** Receive the next whole frame into `frame`; false at EOF, reset or after 10 s. */
bool spop_client_receive(struct spop_client *c);

/** Whether the peer closes, with nothing more to read, within 10 s. */
bool spop_client_at_eof(struct spop_client *c);

/** The type of the last frame received. */
int spop_client_frame_type(const struct spop_client *c);

/** Write frames as HAProxy does; each returns its length. */
size_t spop_client_put_hello(uint8_t *to, size_t cap, uint32_t frame_size,
                             bool is_health_check);
size_t spop_client_put_notify(uint8_t *to, size_t cap, uint64_t stream_id,
                              const char *key, size_t pad_bytes);

/** Cut the frame of `len` bytes at `frame`, a NOTIFY, into fragments of at most
 *  `payload_bytes` of its payload each. Returns their length, all together. */
size_t spop_client_put_fragments(uint8_t *to, size_t cap, const uint8_t *frame,
                                 size_t len, size_t payload_bytes);
size_t spop_client_put_disconnect(uint8_t *to, size_t cap, uint32_t code);

/** Connect, say HELLO and receive AGENT-HELLO. */
bool spop_client_open(struct spop_client *c, const char *path);

#endif
