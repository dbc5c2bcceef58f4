/* Two hundred hostile connections beside a well-behaved one that sees no error. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/mixed.h"

enum {
    HOSTILES = 200,
    STEPS = FIXTURE_IS_SANITIZED ? 10000 : 40000,
    QUESTIONS_MIN = 1000, /* of the well-behaved one, meanwhile */
};

enum manner {
    MUTATES = 0, /* good frames with bytes changed */
    CREEPS,      /* a byte at a time, whenever its turn comes */
    OVERSIZES,   /* long prefixes, and bodies that do not end */
    WAITS,       /* connects, says half a HELLO at most */
    RESETS,      /* asks much and is gone */
    NEVER_READS, /* asks and asks, and reads nothing */
    MANNERS,
};

struct hostile {
    int fd; /* -1: to be opened */
    bool is_tcp;
    enum manner manner;
    size_t crept; /* bytes of its frame sent */
};

static struct hostile hostiles[HOSTILES];
static struct prng prng;
static _Atomic bool is_over;

/* The well-behaved one, on a thread and with a wire of its own. */
struct good {
    struct spop_client client;
    struct wire wire;
    struct wire_ack ack;
    uint64_t n_asked;
    const char *_Atomic fault; /* looked at by both threads */
};

static struct good good;

static const char *ask_well(struct good *g)
{
    g->wire.len = 0;
    wire_notify(&g->wire, g->n_asked, 1, "well-behaved");
    if (!spop_client_send(&g->client, g->wire.bytes, g->wire.len)
        || !spop_client_receive(&g->client)) {
        return "no answer";
    }
    const char *fault = wire_read_ack(g->client.frame, g->client.frame_len, WIRE_SIZE,
                                      &g->ack);
    if (fault != NULL) {
        return fault;
    }
    if (g->ack.stream_id != g->n_asked) {
        return "the answer to another question";
    }
    g->n_asked++;
    int64_t left = FIXTURE_LARGE - (int64_t)g->n_asked;
    return wire_ack_number(&g->ack, "remaining") == left ? NULL : "a wrong count";
}

static void *behave_well(void *arg)
{
    struct good *g = arg;
    while (g->fault == NULL && (!is_over || g->n_asked < QUESTIONS_MIN)) {
        g->fault = ask_well(g);
    }
    return NULL;
}

static void hostile_open(struct hostile *h)
{
    static struct spop_client c;
    h->is_tcp = prng_below(&prng, 2) == 0;
    h->manner = (enum manner)prng_below(&prng, MANNERS);
    h->crept = 0;
    if (h->is_tcp) {
        peer_connect_tcp(&c);
    } else {
        peer_connect(&c);
    }
    h->fd = c.fd;
    assert_int_equal(fcntl(h->fd, F_SETFL, O_NONBLOCK), 0);
}

static void hostile_close(struct hostile *h, bool is_reset)
{
    struct linger at_once = {.l_onoff = 1};
    if (is_reset) {
        (void)setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    (void)close(h->fd);
    h->fd = -1;
}

/* A conversation as it might begin: mostly with a HELLO. */
static void put_conversation(unsigned n)
{
    wire_clear();
    if (prng_below(&prng, 8) > 0) {
        wire_hello(&wire);
    }
    for (unsigned i = 0; i < n; i++) {
        mixed_put(&prng, i);
    }
}

static void mutate(void)
{
    uint64_t n = prng_below(&prng, 4);
    for (uint64_t i = 0; i < n; i++) {
        size_t at = prng_below(&prng, wire.len);
        wire.bytes[at] = (uint8_t)prng_next(&prng);
    }
    if (prng_below(&prng, 4) == 0) { /* an end too early */
        wire.len -= prng_below(&prng, wire.len);
    }
}

static void put_oversized(void)
{
    static const uint32_t lengths[] = {WIRE_SIZE + 1, 131073, 0x7fffffff, 0xffffffff};
    put_conversation((unsigned)prng_below(&prng, 2));
    wire_be32(&wire, lengths[prng_below(&prng, 4)]);
    for (int i = 0; i < 1000; i++) {
        wire_u8(&wire, (unsigned)prng_next(&prng));
    }
}

/* Answers false when the connection is done with. */
static bool hostile_send(struct hostile *h, size_t from, size_t to)
{
    ssize_t n = send(h->fd, wire.bytes + from, to - from, MSG_NOSIGNAL);
    return n >= 0 || errno == EAGAIN;
}

static bool hostile_act(struct hostile *h)
{
    switch (h->manner) {
    case MUTATES:
        put_conversation(1 + (unsigned)prng_below(&prng, 8));
        mutate();
        return hostile_send(h, 0, wire.len) && prng_below(&prng, 3) > 0;
    case CREEPS:
        wire_clear();
        wire_hello(&wire);
        wire_notify(&wire, 1, 1, "creeps");
        h->crept++;
        return h->crept <= wire.len && hostile_send(h, h->crept - 1, h->crept);
    case OVERSIZES:
        put_oversized();
        return hostile_send(h, 0, wire.len) && prng_below(&prng, 2) > 0;
    case WAITS:
        wire_clear();
        wire_hello(&wire);
        h->crept++;
        return h->crept > 1 || hostile_send(h, 0, prng_below(&prng, wire.len));
    case RESETS:
        put_conversation(50);
        (void)hostile_send(h, 0, wire.len);
        return false;
    case NEVER_READS:
        put_conversation(200);
        return hostile_send(h, 0, wire.len) && prng_below(&prng, 50) > 0;
    case MANNERS:
        break;
    }
    return false;
}

static void step(struct hostile *h)
{
    static uint8_t drain[65536];
    if (h->fd < 0) {
        hostile_open(h);
        return;
    }
    bool goes_on = hostile_act(h);
    if (h->manner != NEVER_READS && recv(h->fd, drain, sizeof(drain), 0) == 0) {
        goes_on = false; /* the agent has had enough */
    }
    if (!goes_on) {
        hostile_close(h, prng_below(&prng, 2) == 0);
    }
}

static void two_hundred_hostile_connections_harm_nobody(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t seed = prng_seed(200);
    prng_init(&prng, seed);
    (void)printf("SEED=%ju\n", (uintmax_t)seed);
    allow_memory_of(HOSTILES);
    peer_open(&good.client);
    assert_int_equal(pthread_create(&thread, NULL, behave_well, &good), 0);
    for (int i = 0; i < HOSTILES; i++) {
        hostiles[i].fd = -1;
        step(&hostiles[i]);
    }
    for (int i = 0; i < STEPS && good.fault == NULL; i++) {
        step(&hostiles[prng_below(&prng, HOSTILES)]);
        if (i % 1000 == 0) {
            bystander_ask();
        }
    }
    is_over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < HOSTILES; i++) {
        if (hostiles[i].fd >= 0) {
            hostile_close(&hostiles[i], false);
        }
    }
    peer_close(&good.client);
    if (good.fault != NULL) {
        fail_msg("question %ju of the well-behaved one: %s", (uintmax_t)good.n_asked,
                 good.fault);
    }
    (void)printf("%ju questions answered meanwhile\n", (uintmax_t)good.n_asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(two_hundred_hostile_connections_harm_nobody),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
