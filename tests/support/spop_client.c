#include "tests/support/spop_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "spop/cursor.h"
#include "spop/frame.h"
#include "spop/value.h"

static bool connect_to(struct spop_client *c, const struct sockaddr *address,
                       socklen_t address_len)
{
    struct timeval limit = {.tv_sec = 10};
    c->len = 0;
    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return c->fd >= 0
           && setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0
           && connect(c->fd, address, address_len) == 0;
}

bool spop_client_connect(struct spop_client *c, const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    return connect_to(c, (struct sockaddr *)&un, sizeof(un));
}

bool spop_client_connect_tcp(struct spop_client *c, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect_to(c, (struct sockaddr *)&in, sizeof(in));
}

void spop_client_close(struct spop_client *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    c->fd = -1;
}

bool spop_client_send(struct spop_client *c, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static size_t frame_len_of(const struct spop_client *c)
{
    struct spop_reader r;
    spop_reader_init(&r, (struct spop_bytes){.ptr = c->buf, .len = c->len});
    return SPOP_PREFIX_BYTES + (size_t)spop_read_be32(&r);
}

bool spop_client_has_frame(const struct spop_client *c)
{
    return c->len >= SPOP_PREFIX_BYTES && c->len >= frame_len_of(c);
}

bool spop_client_receive(struct spop_client *c)
{
    while (!spop_client_has_frame(c)) {
        ssize_t n = recv(c->fd, c->buf + c->len, sizeof(c->buf) - c->len, 0);
        if (n <= 0) {
            return false;
        }
        c->len += (size_t)n;
    }
    c->frame_len = frame_len_of(c);
    memcpy(c->frame, c->buf, c->frame_len);
    c->len -= c->frame_len;
    memmove(c->buf, c->buf + c->frame_len, c->len);
    return true;
}

bool spop_client_at_eof(struct spop_client *c)
{
    return c->len == 0 && recv(c->fd, c->buf, sizeof(c->buf), 0) == 0;
}

int spop_client_frame_type(const struct spop_client *c)
{
    return c->frame[SPOP_PREFIX_BYTES];
}

static struct spop_bytes bytes_of(const char *text)
{
    return (struct spop_bytes){.ptr = (const uint8_t *)text, .len = strlen(text)};
}

static void put_text(struct spop_writer *w, const char *name, const char *text)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING};
    value.bytes = bytes_of(text);
    spop_write_string(w, bytes_of(name));
    spop_value_encode(w, &value);
}

static void put_number(struct spop_writer *w, const char *name, uint32_t number)
{
    struct spop_value value = {.type = SPOP_VALUE_UINT32};
    value.integer = number;
    spop_write_string(w, bytes_of(name));
    spop_value_encode(w, &value);
}

static void begin(struct spop_writer *w, uint8_t *to, size_t cap, uint8_t type,
                  uint64_t stream_id, uint64_t frame_id)
{
    spop_writer_init(w, to, cap);
    spop_write_be32(w, 0);
    spop_write_u8(w, type);
    spop_write_be32(w, 1);
    spop_write_varint(w, stream_id);
    spop_write_varint(w, frame_id);
}

static size_t end(struct spop_writer *w)
{
    size_t len = w->len;
    w->len = 0;
    spop_write_be32(w, (uint32_t)(len - SPOP_PREFIX_BYTES));
    return w->status == SPOP_OK ? len : 0;
}

size_t spop_client_put_hello(uint8_t *to, size_t cap, uint32_t frame_size,
                             bool is_health_check)
{
    struct spop_writer w;
    struct spop_value yes = {.type = SPOP_VALUE_BOOL};
    yes.boolean = true;
    begin(&w, to, cap, SPOP_FRAME_HAPROXY_HELLO, 0, 0);
    put_text(&w, "supported-versions", "2.0");
    put_number(&w, "max-frame-size", frame_size);
    put_text(&w, "capabilities", is_health_check ? "" : "pipelining,async");
    if (is_health_check) {
        spop_write_string(&w, bytes_of("healthcheck"));
        spop_value_encode(&w, &yes);
    }
    return end(&w);
}

size_t spop_client_put_notify(uint8_t *to, size_t cap, uint64_t stream_id,
                              const char *key, size_t pad_bytes)
{
    struct spop_writer w;
    begin(&w, to, cap, SPOP_FRAME_NOTIFY, stream_id, 1);
    spop_write_string(&w, bytes_of("ratelimit-check"));
    spop_write_u8(&w, 2);
    put_text(&w, "key", key);
    spop_write_string(&w, bytes_of("pad"));
    spop_write_u8(&w, SPOP_VALUE_STRING);
    spop_write_varint(&w, pad_bytes);
    for (size_t i = 0; i < pad_bytes; i++) {
        spop_write_u8(&w, 'x');
    }
    return end(&w);
}

size_t spop_client_put_fragments(uint8_t *to, size_t cap, const uint8_t *frame,
                                 size_t len, size_t payload_bytes)
{
    struct spop_frame notify;
    struct spop_bytes in = {.ptr = frame, .len = len};
    struct spop_writer w;
    spop_writer_init(&w, to, cap);
    if (spop_frame_decode(in, len, &notify) != SPOP_OK) {
        return 0;
    }
    struct spop_reader r;
    spop_reader_init(&r, notify.payload);
    enum spop_frame_type type = SPOP_FRAME_NOTIFY;
    do {
        size_t n = r.len < payload_bytes ? r.len : payload_bytes;
        struct spop_bytes part = spop_read_bytes(&r, n);
        size_t start_off = spop_frame_begin_flagged(&w, type,
                                                    r.len == 0 ? SPOP_FLAG_FIN : 0,
                                                    notify.stream_id, notify.frame_id);
        spop_write_bytes(&w, part);
        spop_frame_end(&w, start_off);
        type = SPOP_FRAME_UNSET;
    } while (r.len > 0);
    return w.status == SPOP_OK ? w.len : 0;
}

size_t spop_client_put_disconnect(uint8_t *to, size_t cap, uint32_t code)
{
    struct spop_writer w;
    begin(&w, to, cap, SPOP_FRAME_HAPROXY_DISCONNECT, 0, 0);
    put_number(&w, "status-code", code);
    put_text(&w, "message", "bye");
    return end(&w);
}

bool spop_client_open(struct spop_client *c, const char *path)
{
    uint8_t hello[512];
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, false);
    return spop_client_connect(c, path) && spop_client_send(c, hello, len)
           && spop_client_receive(c)
           && spop_client_frame_type(c) == SPOP_FRAME_AGENT_HELLO;
}
