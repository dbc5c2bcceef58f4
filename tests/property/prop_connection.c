/* Whatever HAProxy sends, in whatever pieces, and however slowly it reads: each NOTIFY gets
 * exactly one ACK with its ids, in the order in which they came whole, or its connection
 * ends; nothing comes after a DISCONNECT, and nothing is left of a connection that ended.
 * On a worker without a thread. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "spop/frame.h"
#include "spop/messages.h"

#include "agent/net/connection.h"
#include "agent/net/reassembly.h"
#include "agent/net/worker.h"

#include "tests/support/decider.h"
#include "tests/support/prng.h"
#include "tests/support/spop_client.h"

enum {
    CONVERSATIONS = 1500,
    ITEMS_MAX = 300,
    STEPS_MAX = 1000000,
    STREAM_BYTES_MAX = 4 << 20,
    UNKNOWN_TYPE = 77,
};

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 3, per: 60s }\n";

/* How a conversation ends. */
enum ending {
    END_BY_HALF_CLOSE, /* all is said: the rest of the answers is read */
    END_BY_KILL,       /* in the middle of anything */
    END_BY_FAULT,      /* of the last frame: the agent ends it */
};

struct ids {
    uint64_t stream_id;
    uint64_t frame_id;
};

static struct {
    struct decider decider;
    struct worker worker;
    struct worker_gone gone;
    struct prng prng;
    uint64_t seed;
    int fd;
    enum ending ending;
    size_t payload_bytes_max; /* of a frame */
    struct spop_writer stream;
    size_t n_sent;
    unsigned n_wanted; /* ACKs */
    struct ids wanted[ITEMS_MAX];
    unsigned n_acks;
    bool has_hello;
    bool is_disconnected;
    bool is_ended;
    size_t in_len;
    uint8_t in[SPOP_CLIENT_FRAME_BYTES_MAX];
    uint8_t stream_buf[STREAM_BYTES_MAX];
} f;

#define CHECK(law) check((law), #law, __LINE__)

static void check(bool holds, const char *law, int line)
{
    if (!holds) {
        fail_msg("line %d: %s; SEED=%#llx, ACKs %u of %u, sent %zu of %zu", line, law,
                 (unsigned long long)f.seed, f.n_acks, f.n_wanted, f.n_sent,
                 f.stream.len);
    }
}

static uint64_t below(uint64_t limit)
{
    return prng_below(&f.prng, limit);
}

static void on_gone(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)loop;
    (void)async;
    (void)events;
}

static int set_up(void **context)
{
    (void)context;
    bool ok = decider_init(&f.decider, rules_text);
    f.worker.loop = ev_loop_new(EVFLAG_NOENV);
    f.worker.gone = &f.gone;
    f.worker.decide = f.decider.decide;
    f.worker.reassembly = reassembly_new();
    f.gone.main_loop = f.worker.loop;
    ev_async_init(&f.gone.async, on_gone);
    ev_async_start(f.worker.loop, &f.gone.async);
    return !ok || f.worker.reassembly == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    ev_async_stop(f.worker.loop, &f.gone.async);
    ev_loop_destroy(f.worker.loop);
    reassembly_free(f.worker.reassembly);
    decider_fini(&f.decider);
    return 0;
}

static void put_frame(uint8_t type, uint32_t flags, struct ids ids,
                      struct spop_bytes payload)
{
    size_t start_off = f.stream.len;
    spop_write_be32(&f.stream, 0);
    spop_write_u8(&f.stream, type);
    spop_write_be32(&f.stream, flags);
    spop_write_varint(&f.stream, ids.stream_id);
    spop_write_varint(&f.stream, ids.frame_id);
    spop_write_bytes(&f.stream, payload);
    size_t bytes = f.stream.len - start_off - SPOP_PREFIX_BYTES;
    spop_writer_patch_be32(&f.stream, start_off, (uint32_t)bytes);
}

static struct ids random_ids(void)
{
    static const uint64_t limits[] = {1, 240, 100000, UINT64_MAX};
    return (struct ids){.stream_id = below(limits[below(4)]),
                        .frame_id = below(limits[below(4)])};
}

static void want_ack(struct ids ids)
{
    f.wanted[f.n_wanted++] = ids;
}

/* A check message with a key of few and padding up to the size of a frame. */
static struct spop_bytes make_payload(uint8_t *buf)
{
    static const uint8_t padding[SPOP_FRAME_SIZE_MAX];
    struct spop_writer w;
    struct spop_message_writer message;
    char key[] = {(char)('a' + below(20))};
    struct spop_value value = {.type = SPOP_VALUE_STRING};
    spop_writer_init(&w, buf, SPOP_FRAME_SIZE_MAX);
    spop_message_begin(&message, &w,
                       (struct spop_bytes){(const uint8_t *)"ratelimit-check", 15});
    value.bytes = (struct spop_bytes){(const uint8_t *)key, sizeof(key)};
    spop_message_arg(&message, (struct spop_bytes){(const uint8_t *)"key", 3}, &value);
    size_t room = f.payload_bytes_max - w.len - 20;
    size_t most = below(20) == 0 ? room : room % 300;
    value.bytes = (struct spop_bytes){padding, below(most + 1)};
    spop_message_arg(&message, (struct spop_bytes){(const uint8_t *)"pad", 3}, &value);
    return (struct spop_bytes){.ptr = buf, .len = w.len};
}

static void put_notify(void)
{
    static uint8_t buf[SPOP_FRAME_SIZE_MAX];
    struct ids ids = random_ids();
    put_frame(SPOP_FRAME_NOTIFY, SPOP_FLAG_FIN, ids, make_payload(buf));
    want_ack(ids);
}

/* A NOTIFY cut anywhere; given up at its end, or answered. */
static void put_fragments(void)
{
    static uint8_t buf[SPOP_FRAME_SIZE_MAX];
    struct ids ids = random_ids();
    struct spop_bytes left = make_payload(buf);
    uint8_t type = SPOP_FRAME_NOTIFY;
    for (uint64_t n = 1 + below(4); n > 0; n--) {
        struct spop_bytes part = {.ptr = left.ptr, .len = below(left.len + 1)};
        put_frame(type, 0, ids, part);
        left.ptr += part.len;
        left.len -= part.len;
        type = SPOP_FRAME_UNSET;
    }
    if (below(4) == 0) {
        put_frame(type, SPOP_FLAG_FIN | SPOP_FLAG_ABORT, ids, (struct spop_bytes){0});
        return;
    }
    put_frame(type, SPOP_FLAG_FIN, ids, left);
    want_ack(ids);
}

/* What the agent has to end the conversation for. */
static void put_fault(void)
{
    static const uint8_t broken[] = {9, 'n', 'o', 't', ' ', 'a', 'l', 'l'};
    struct spop_bytes payload = {.ptr = broken, .len = sizeof(broken)};
    struct ids zero = {0, 0};
    switch (below(6)) {
    case 0:
        put_frame(SPOP_FRAME_NOTIFY, SPOP_FLAG_FIN, random_ids(), payload);
        break;
    case 1:
        put_frame(SPOP_FRAME_UNSET, SPOP_FLAG_FIN, random_ids(), payload);
        break;
    case 2:
        put_frame(SPOP_FRAME_HAPROXY_HELLO, SPOP_FLAG_FIN, zero, payload);
        break;
    case 3:
        put_frame(SPOP_FRAME_HAPROXY_DISCONNECT, SPOP_FLAG_FIN, zero, payload);
        break;
    case 4:
        spop_write_be32(&f.stream, SPOP_FRAME_SIZE_MAX + 1);
        break;
    default:
        spop_write_be32(&f.stream, SPOP_FRAME_BYTES_MIN - 1);
        break;
    }
}

static void make_stream(void)
{
    uint32_t sizes[] = {256, 16380, SPOP_FRAME_SIZE_MAX};
    uint32_t frame_size = sizes[below(3)];
    uint64_t n_items = below(4) == 0 ? below(ITEMS_MAX) : below(20);
    uint64_t n_unknown = 0;
    spop_writer_init(&f.stream, f.stream_buf, sizeof(f.stream_buf));
    f.stream.len = spop_client_put_hello(f.stream_buf, sizeof(f.stream_buf), frame_size,
                                         false);
    f.payload_bytes_max = frame_size - SPOP_FRAME_BYTES_MIN - 18; /* the longest ids */
    for (uint64_t i = 0; i < n_items; i++) {
        uint64_t what = below(20);
        if (what == 0 && n_unknown++ < SPOP_UNKNOWN_FRAMES_MAX) {
            put_frame(UNKNOWN_TYPE, SPOP_FLAG_FIN, random_ids(),
                      (struct spop_bytes){0});
        } else if (what <= 3) {
            put_fragments();
        } else {
            put_notify();
        }
    }
    if (f.ending == END_BY_FAULT) {
        put_fault();
    }
    CHECK(f.stream.status == SPOP_OK);
}

static void open_connection(void)
{
    int fds[2];
    int small = 1; /* as small as the kernel lets it be */
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    if (below(2) == 0) {
        CHECK(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
    }
    f.fd = fds[1];
    f.gone.n_open = 1;
    f.n_sent = 0;
    f.n_wanted = 0;
    f.n_acks = 0;
    f.in_len = 0;
    f.has_hello = false;
    f.is_disconnected = false;
    f.is_ended = false;
    connection_open(&f.worker, fds[0]);
}

static void send_some(void)
{
    size_t left = f.stream.len - f.n_sent;
    size_t most = below(3) == 0 ? 70000 : 50;
    size_t len = below(most < left ? most : left) + 1;
    ssize_t n = send(f.fd, f.stream_buf + f.n_sent, len, MSG_NOSIGNAL);
    if (n > 0) {
        f.n_sent += (size_t)n;
    } else if (errno != EAGAIN) { /* the agent is gone: so is what was not sent */
        f.n_sent = f.stream.len;
    }
    if (f.n_sent == f.stream.len && f.ending == END_BY_HALF_CLOSE) {
        (void)shutdown(f.fd, SHUT_WR);
    }
}

static void take_frame(const struct spop_frame *frame)
{
    CHECK(!f.is_disconnected);
    switch (frame->type) {
    case SPOP_FRAME_AGENT_HELLO:
        CHECK(!f.has_hello);
        f.has_hello = true;
        break;
    case SPOP_FRAME_ACK:
        CHECK(f.has_hello && f.n_acks < f.n_wanted);
        CHECK(frame->stream_id == f.wanted[f.n_acks].stream_id);
        CHECK(frame->frame_id == f.wanted[f.n_acks].frame_id);
        CHECK(frame->flags == SPOP_FLAG_FIN);
        f.n_acks++;
        break;
    default:
        CHECK(frame->type == SPOP_FRAME_AGENT_DISCONNECT);
        f.is_disconnected = true;
        break;
    }
}

static void read_some(void)
{
    size_t room = sizeof(f.in) - f.in_len;
    size_t most = below(2) == 0 ? room : 100;
    ssize_t n = recv(f.fd, f.in + f.in_len, below(most < room ? most : room) + 1, 0);
    f.is_ended = n == 0 || (n < 0 && errno != EAGAIN);
    f.in_len += n > 0 ? (size_t)n : 0;
    struct spop_bytes left = {.ptr = f.in, .len = f.in_len};
    struct spop_frame frame;
    enum spop_status status = SPOP_OK;
    while ((status = spop_frame_decode(left, SPOP_FRAME_SIZE_MAX, &frame)) == SPOP_OK) {
        take_frame(&frame);
        left.ptr += frame.wire_bytes;
        left.len -= frame.wire_bytes;
    }
    CHECK(status == SPOP_MORE);
    memmove(f.in, left.ptr, left.len);
    f.in_len = left.len;
}

/* Sending, reading and the agent's turn, in any order and at any pace. */
static void play(void)
{
    uint64_t pace = 1 + below(20); /* of reading: 1 is as often as sending */
    uint64_t kill_at = f.ending == END_BY_KILL ? below(200) : STEPS_MAX;
    unsigned step = 0;
    for (; step < kill_at && !f.is_ended; step++) {
        CHECK(step < STEPS_MAX - 1);
        bool is_sent = f.n_sent == f.stream.len;
        if (!is_sent && below(2) == 0) {
            send_some();
        } else if (is_sent || below(pace) == 0) {
            read_some();
        }
        if (is_sent || below(2) == 0) {
            ev_run(f.worker.loop, EVRUN_NOWAIT);
        }
    }
}

static uint64_t count(enum counter counter)
{
    return counter_get(f.worker.decide.counters, counter);
}

static void converse(void)
{
    uint64_t n_closed = count(COUNTER_CONNECTIONS_CLOSED);
    uint64_t n_acks = count(COUNTER_ACKS);
    f.ending = (enum ending)below(3);
    open_connection();
    make_stream();
    play();
    (void)close(f.fd);
    for (int i = 0; i < 100 && f.worker.connections != NULL; i++) {
        ev_run(f.worker.loop, EVRUN_NOWAIT);
    }
    CHECK(f.worker.connections == NULL && f.gone.n_open == 0);
    CHECK(count(COUNTER_CONNECTIONS_CLOSED) == n_closed + 1);
    CHECK(count(COUNTER_NOTIFIES)
          == count(COUNTER_ACKS) + count(COUNTER_NOTIFIES_MALFORMED)
                 + count(COUNTER_NOTIFIES_ABORTED));
    CHECK(f.n_acks <= count(COUNTER_ACKS) - n_acks);
    if (f.ending != END_BY_KILL) {
        CHECK(f.has_hello && f.in_len == 0);
        CHECK(f.n_acks == f.n_wanted && f.n_acks == count(COUNTER_ACKS) - n_acks);
        CHECK(f.is_disconnected == (f.ending == END_BY_FAULT));
    }
}

static void one_ack_for_each_notify(void **context)
{
    (void)context;
    f.seed = prng_seed(UINT64_C(0xc0117ec7));
    prng_init(&f.prng, f.seed);
    for (int i = 0; i < CONVERSATIONS; i++) {
        converse();
    }
    CHECK(count(COUNTER_NOTIFIES) > CONVERSATIONS);
    CHECK(count(COUNTER_NOTIFIES_MALFORMED) > 0);
    CHECK(count(COUNTER_NOTIFIES_ABORTED) > 0);
    CHECK(count(COUNTER_NOTIFIES_FRAGMENTED) > 0);
    CHECK(count(COUNTER_REQUESTS_REFUSED) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_ack_for_each_notify, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
