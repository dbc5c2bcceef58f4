/* Stores that answer later, on a worker without a thread. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "spop/frame.h"

#include "agent/net/asker.h"
#include "agent/net/connection.h"
#include "agent/net/reassembly.h"
#include "agent/net/worker.h"

#include "tests/support/later_store.h"
#include "tests/support/spop_client.h"

static const char rules_text[] = "version: 1\n"
                                 "domain: api\n"
                                 "rules:\n"
                                 "  - name: per_key\n"
                                 "    key: [key]\n"
                                 "    limit: { requests: 100, per: 60s }\n";

enum {
    CLIENTS = PENDINGS_MAX / CONNECTION_PENDINGS_MAX + 1
};

static struct {
    struct worker worker;
    struct worker_gone gone;
    struct decide_options options;
    struct later_store store;
    struct decide_set *set;
} f;

static struct spop_client clients[CLIENTS];

static void on_gone(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)loop;
    (void)async;
    (void)events;
}

static int set_up(void **context)
{
    static struct rules_diags diags;
    (void)context;
    memset(&f, 0, sizeof(f));
    rules_diags_init(&diags, "test.yaml");
    struct rules_source source = {
        .name = "test.yaml",
        .text = {.ptr = (const uint8_t *)rules_text, .len = strlen(rules_text)},
    };
    struct rules_set *rules = rules_load(&source, &diags);
    decide_options_init(&f.options, VARIABLE_BIT(VARIABLES_N) - 1);
    later_store_init(&f.store);
    f.worker.loop = ev_loop_new(EVFLAG_NOENV);
    f.worker.gone = &f.gone;
    f.worker.reassembly = reassembly_new();
    f.gone.main_loop = f.worker.loop;
    ev_async_init(&f.gone.async, on_gone);
    ev_async_start(f.worker.loop, &f.gone.async);
    f.set = decide_set_new(rules, "rl");
    f.worker.decide.set = f.set;
    f.worker.decide.store = &f.store.store;
    f.worker.decide.counters = counters_new(1);
    f.worker.decide.options = &f.options;
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i].fd = -1;
    }
    return f.set == NULL || f.worker.reassembly == NULL;
}

static uint64_t count(enum counter counter)
{
    return counter_get(f.worker.decide.counters, counter);
}

static void turn(void)
{
    for (int i = 0; i < 100; i++) {
        ev_run(f.worker.loop, EVRUN_NOWAIT);
    }
    connection_flush_answered(&f.worker, clock_now());
}

static int tear_down(void **context)
{
    (void)context;
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (clients[i].fd >= 0) {
            spop_client_close(&clients[i]);
        }
    }
    turn();
    for (unsigned i = 0; i < f.store.n_taken; i++) {
        if (f.store.takes[i] != NULL) {
            later_store_answer(&f.store, i, true);
        }
    }
    turn();
    bool is_clean = f.worker.connections == NULL && f.worker.n_pending == 0;
    bool adds_up = count(COUNTER_NOTIFIES)
                   == count(COUNTER_ACKS) + count(COUNTER_NOTIFIES_ORPHANED)
                          + count(COUNTER_NOTIFIES_MALFORMED);
    reassembly_free(f.worker.reassembly);
    ev_loop_destroy(f.worker.loop);
    counters_free(f.worker.decide.counters);
    decide_set_free(f.set);
    return !is_clean || !adds_up;
}

/* A connection that has said HELLO. */
static struct spop_client *open_connection(unsigned i)
{
    uint8_t hello[512];
    int fds[2];
    struct spop_client *c = &clients[i];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    c->fd = fds[1];
    c->len = 0;
    f.gone.n_open++;
    connection_open(&f.worker, fds[0]);
    size_t len = spop_client_put_hello(hello, sizeof(hello), 16380, false);
    assert_true(spop_client_send(c, hello, len));
    turn();
    assert_true(spop_client_receive(c));
    assert_int_equal(spop_client_frame_type(c), SPOP_FRAME_AGENT_HELLO);
    return c;
}

static void ask(struct spop_client *c, uint64_t first_id, unsigned n)
{
    static uint8_t frames[128 * 1024];
    size_t len = 0;
    for (unsigned i = 0; i < n; i++) {
        len += spop_client_put_notify(frames + len, sizeof(frames) - len, first_id + i,
                                      "k", 0);
    }
    assert_true(spop_client_send(c, frames, len));
    turn();
}

static void expect_silence(const struct spop_client *c)
{
    uint8_t byte = 0;
    turn();
    assert_int_equal(recv(c->fd, &byte, 1, MSG_DONTWAIT), -1);
}

/* Stream ids below 240 are one byte. */
static void expect_ack(struct spop_client *c, uint8_t id)
{
    assert_true(spop_client_receive(c));
    assert_int_equal(spop_client_frame_type(c), SPOP_FRAME_ACK);
    assert_int_equal(c->frame[9], id);
}

static void the_ack_comes_with_the_answer(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 7, 1);
    expect_silence(c);
    assert_int_equal(f.store.n_taken, 1);
    assert_int_equal(count(COUNTER_ACKS), 0);
    later_store_answer(&f.store, 0, true);
    turn();
    expect_ack(c, 7);
    assert_int_equal(count(COUNTER_REQUESTS_ALLOWED), 1);
    assert_int_equal(f.worker.n_pending, 0);
}

static void answers_in_any_order(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, 3);
    later_store_answer(&f.store, 1, false);
    turn();
    expect_ack(c, 2);
    assert_int_equal(count(COUNTER_REQUESTS_REFUSED), 1);
    later_store_answer(&f.store, 2, true);
    turn();
    expect_ack(c, 3);
    later_store_answer(&f.store, 0, true);
    turn();
    expect_ack(c, 1);
}

static void one_write_for_the_answers_of_a_turn(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, 3);
    for (unsigned i = 0; i < 3; i++) {
        later_store_answer(&f.store, i, true);
    }
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 0), 0); /* nothing before the turn ends */
    turn();
    for (int i = 0; i < 3; i++) {
        assert_true(spop_client_receive(c));
    }
    assert_int_equal(count(COUNTER_ACKS), 3);
}

static void a_connection_that_goes_is_not_answered(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, 2);
    later_store_answer(&f.store, 0, true); /* decided, not yet written */
    assert_int_equal(shutdown(c->fd, SHUT_RDWR), 0);
    spop_client_close(c);
    c->fd = -1;
    for (int i = 0; i < 100; i++) {
        ev_run(f.worker.loop, EVRUN_NOWAIT);
    }
    turn();
    later_store_answer(&f.store, 1, true);
    turn();
    assert_null(f.worker.connections);
    assert_int_equal(f.worker.n_pending, 0);
    assert_int_equal(count(COUNTER_NOTIFIES), 2);
}

/* A peer that half-closes still gets what it asked for. */
static void an_ended_input_waits_for_its_answers(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, 1);
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    expect_silence(c);
    assert_non_null(f.worker.connections);
    later_store_answer(&f.store, 0, true);
    turn();
    expect_ack(c, 1);
    assert_true(spop_client_at_eof(c));
    assert_null(f.worker.connections);
}

static void nothing_follows_a_disconnect(void **context)
{
    (void)context;
    uint8_t frame[64];
    struct spop_client *c = open_connection(0);
    ask(c, 1, 2);
    size_t len = spop_client_put_disconnect(frame, sizeof(frame), 0);
    assert_true(spop_client_send(c, frame, len));
    turn();
    assert_int_equal(count(COUNTER_NOTIFIES_ORPHANED), 2);
    later_store_answer(&f.store, 0, true);
    later_store_answer(&f.store, 1, true);
    turn();
    assert_true(spop_client_receive(c));
    assert_int_equal(spop_client_frame_type(c), SPOP_FRAME_AGENT_DISCONNECT);
    assert_true(spop_client_at_eof(c));
}

static void so_many_are_taken_and_no_more(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, CONNECTION_PENDINGS_MAX + 2);
    expect_silence(c);
    assert_int_equal(f.store.n_taken, CONNECTION_PENDINGS_MAX);
    later_store_answer(&f.store, 5, true);
    turn();
    expect_ack(c, 6);
    assert_int_equal(f.store.n_taken, CONNECTION_PENDINGS_MAX + 1);
    for (unsigned i = 6; i < CONNECTION_PENDINGS_MAX + 1; i++) {
        later_store_answer(&f.store, i, true);
    }
    turn();
    assert_int_equal(f.store.n_taken, CONNECTION_PENDINGS_MAX + 2);
}

/* Held back for want of an answer is not late. */
static void what_is_held_back_is_not_late(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, CONNECTION_PENDINGS_MAX + 2);
    connection_check_timers(f.worker.connections,
                            instant_add_us(clock_now(), CONNECTION_FRAME_US * 2));
    assert_int_equal(count(COUNTER_TIMEOUTS), 0);
    assert_non_null(f.worker.connections);
}

static void where_no_more_can_wait_the_store_is_told(void **context)
{
    (void)context;
    unsigned full = PENDINGS_MAX / CONNECTION_PENDINGS_MAX;
    for (unsigned i = 0; i < full; i++) {
        ask(open_connection(i), 1, CONNECTION_PENDINGS_MAX);
    }
    assert_int_equal(f.store.n_taken, PENDINGS_MAX);
    assert_int_equal(f.store.n_at_once, 0);
    struct spop_client *c = open_connection(full);
    ask(c, 1, 2);
    expect_ack(c, 1);
    expect_ack(c, 2);
    assert_int_equal(f.store.n_at_once, 2);
    later_store_answer(&f.store, 77, true);
    turn();
    ask(c, 3, 1);
    assert_int_equal(f.store.n_taken, PENDINGS_MAX + 1);
}

/* Ask, answer and read nothing until ACKs find no room. */
static void fill(struct spop_client *c)
{
    static unsigned n_answered;
    n_answered = f.store.n_taken == 0 ? 0 : n_answered;
    for (unsigned turns = 0; f.worker.n_pending < CONNECTION_PENDINGS_MAX / 2;
         turns++) {
        assert_true(turns < 100);
        ask(c, 1, CONNECTION_PENDINGS_MAX - f.worker.n_pending);
        for (; n_answered < f.store.n_taken; n_answered++) {
            later_store_answer(&f.store, n_answered, false);
        }
        turn();
    }
    assert_non_null(f.worker.connections);
}

/* They hold requests of the pool. */
static void acks_without_room_wait_but_not_for_long(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    fill(c);
    connection_check_timers(f.worker.connections,
                            instant_add_us(clock_now(), CONNECTION_UNREAD_US / 2));
    uint64_t n_written = count(COUNTER_ACKS);
    while (count(COUNTER_ACKS) == n_written) { /* it reads: what waited is written */
        assert_true(spop_client_receive(c));
        turn();
    }
    fill(c);
    connection_check_timers(f.worker.connections,
                            instant_add_us(clock_now(), 2 * CONNECTION_UNREAD_US));
    assert_null(f.worker.connections);
    assert_int_equal(f.worker.n_pending, 0);
    assert_int_equal(count(COUNTER_TIMEOUTS), 1);
}

static void handed_over_when_all_is_answered(void **context)
{
    (void)context;
    int ends[2];
    struct spop_client *c = open_connection(0);
    ask(c, 1, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    f.worker.is_handing_over = true;
    f.worker.channel_fd = ends[0];
    assert_false(connection_hand_over(f.worker.connections));
    ask(c, 2, 1); /* stays in the socket, for the successor */
    assert_int_equal(f.store.n_taken, 1);
    later_store_answer(&f.store, 0, true);
    turn();
    expect_ack(c, 1);
    assert_null(f.worker.connections);
    assert_int_equal(f.worker.n_handed, 1);
    (void)close(f.worker.handed_fds[--f.worker.n_handed]);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void draining_waits_for_answers(void **context)
{
    (void)context;
    struct spop_client *c = open_connection(0);
    ask(c, 1, 1);
    struct instant now = clock_now();
    f.worker.is_draining = true;
    f.worker.drain_began = now;
    f.worker.drain_read_us = WORKER_DRAIN_READ_US;
    connection_check_timers(f.worker.connections,
                            instant_add_us(now, 2 * WORKER_DRAIN_QUIET_US));
    expect_silence(c);
    later_store_answer(&f.store, 0, true);
    turn();
    expect_ack(c, 1);
    connection_check_timers(f.worker.connections,
                            instant_add_us(now, 2 * WORKER_DRAIN_QUIET_US));
    assert_true(spop_client_receive(c));
    assert_int_equal(spop_client_frame_type(c), SPOP_FRAME_AGENT_DISCONNECT);
}

/* On a thread of its own: a request ends with the rules it began with, and these are not
 * left before. */
static void other_rules_wait_for_answers(void **context)
{
    (void)context;
    int fds[2][2];
    uint8_t frame[256];
    struct counters *others = counters_new(1);
    f.store.is_by_next = true;
    f.gone.n_open = 2;
    struct worker *worker = worker_start(0, &f.worker.decide, NULL, &f.gone,
                                         f.worker.reassembly);
    assert_non_null(worker);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]), 0);
        assert_int_equal(fcntl(fds[i][0], F_SETFL, O_NONBLOCK), 0);
        clients[i].fd = fds[i][1];
        clients[i].len = 0;
    }
    worker_post(worker, (struct letter){.type = LETTER_CONNECTION, .fd = fds[0][0]});
    size_t hello_len = spop_client_put_hello(frame, sizeof(frame), 16380, false);
    assert_true(spop_client_send(&clients[0], frame, hello_len));
    assert_true(spop_client_receive(&clients[0]));
    size_t len = spop_client_put_notify(frame, sizeof(frame), 1, "k", 0);
    assert_true(spop_client_send(&clients[0], frame, len));
    while (count(COUNTER_NOTIFIES) == 0) {
        (void)usleep(1000);
    }
    worker_post(worker, (struct letter){.type = LETTER_RULES,
                                        .change = 1,
                                        .set = f.worker.decide.set,
                                        .counters = others});
    /* Letters are read in turn: when this one is answered, that one was read. */
    worker_post(worker, (struct letter){.type = LETTER_CONNECTION, .fd = fds[1][0]});
    hello_len = spop_client_put_hello(frame, sizeof(frame), 16380, false);
    assert_true(spop_client_send(&clients[1], frame, hello_len));
    assert_true(spop_client_receive(&clients[1]));
    assert_false(worker_has_changed(worker, 1));

    len = spop_client_put_notify(frame, sizeof(frame), 2, "k", 0);
    assert_true(spop_client_send(&clients[1], frame, len));
    expect_ack(&clients[0], 1);
    assert_true(worker_has_changed(worker, 1));
    assert_int_equal(count(COUNTER_ACKS), 1); /* where its NOTIFY was counted */
    assert_int_equal(count(COUNTER_REQUESTS_ALLOWED), 1);
    f.store.is_at_once = true;
    len = spop_client_put_notify(frame, sizeof(frame), 3, "k", 0);
    assert_true(spop_client_send(&clients[1], frame, len));
    assert_true(spop_client_receive(&clients[1]));
    assert_true(spop_client_receive(&clients[1]));
    assert_int_equal(counter_get(others, COUNTER_NOTIFIES), 2);
    assert_int_equal(counter_get(others, COUNTER_ACKS), 2);
    worker_post(worker, (struct letter){.type = LETTER_DRAIN});
    worker_join(worker);
    counters_free(others);
}

static void send_to_worker(void *context, struct ask *ask)
{
    worker_post(context, (struct letter){.type = LETTER_ASK, .ask = ask});
}

static void note_answer(struct store_take *take)
{
    take->n_charges = 0;
}

/* A question of the main thread ends with the rules it was begun under, and before the worker. */
static void other_rules_wait_for_what_main_asked(void **context)
{
    (void)context;
    int fds[2];
    uint8_t frame[256];
    static struct store_take takes[3];
    struct counters *others = counters_new(1);
    f.store.is_by_next = true;
    f.gone.n_open = 1;
    struct worker *worker = worker_start(0, &f.worker.decide, NULL, &f.gone,
                                         f.worker.reassembly);
    assert_non_null(worker);
    struct asker *asker = asker_new(NULL, send_to_worker, worker);
    for (unsigned i = 0; i < 3; i++) {
        takes[i] = (struct store_take){
            .deadline = {US_PER_S},
            .n_charges = 1,
            .is_peek = true,
            .done = note_answer,
            .charges[0] =
                {
                    .limit = &f.set->limits[0].limit,
                    .key = (const uint8_t *)"k",
                    .key_bytes = 1,
                },
        };
    }
    store_take(asker_store(asker), &takes[0]);
    worker_post(worker, (struct letter){.type = LETTER_RULES,
                                        .change = 1,
                                        .set = f.worker.decide.set,
                                        .counters = others});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    clients[0].fd = fds[1];
    clients[0].len = 0;
    worker_post(worker, (struct letter){.type = LETTER_CONNECTION, .fd = fds[0]});
    size_t len = spop_client_put_hello(frame, sizeof(frame), 16380, false);
    assert_true(spop_client_send(&clients[0], frame, len));
    assert_true(spop_client_receive(&clients[0])); /* the letter before it was read */
    assert_false(worker_has_changed(worker, 1));

    store_take(asker_store(asker), &takes[1]); /* answers the first */
    while (!worker_has_changed(worker, 1)) {
        (void)usleep(1000);
    }
    asker_collect(asker);
    assert_int_equal(takes[0].n_charges, 0);
    assert_int_equal(takes[1].n_charges, 1);

    worker_post(worker, (struct letter){.type = LETTER_DRAIN});
    assert_true(spop_client_receive(&clients[0]));
    assert_int_equal(spop_client_frame_type(&clients[0]), SPOP_FRAME_AGENT_DISCONNECT);
    store_take(asker_store(asker),
               &takes[2]); /* it is still there, and answers the second */
    while (takes[1].n_charges > 0) {
        asker_collect(asker);
    }
    f.store.is_at_once = true;
    takes[1].n_charges = 1;
    store_take(asker_store(asker), &takes[1]);
    worker_join(worker);
    asker_free(asker);
    assert_int_equal(takes[1].n_charges + takes[2].n_charges, 0);
    counters_free(others);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_ack_comes_with_the_answer),
        TEST(answers_in_any_order),
        TEST(one_write_for_the_answers_of_a_turn),
        TEST(a_connection_that_goes_is_not_answered),
        TEST(an_ended_input_waits_for_its_answers),
        TEST(nothing_follows_a_disconnect),
        TEST(so_many_are_taken_and_no_more),
        TEST(what_is_held_back_is_not_late),
        TEST(where_no_more_can_wait_the_store_is_told),
        TEST(acks_without_room_wait_but_not_for_long),
        TEST(handed_over_when_all_is_answered),
        TEST(draining_waits_for_answers),
        TEST(other_rules_wait_for_answers),
        TEST(other_rules_wait_for_what_main_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
