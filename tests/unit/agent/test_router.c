/*
 * The seam over servers of whatever manners: one, a cluster, a Sentinel. Whatever happens,
 * each call completes once, and nobody is asked more than is good for him.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ev.h>

#include "agent/redis/router.h"
#include "agent/redis/slots.h"

#include "tests/support/fake_redis.h"
#include "tests/support/localhost.h"

enum {
    PATIENCE_S = 20,
    CALLS_MAX = LINK_REQUESTS_MAX + 8,
    FAKES_MAX = 3,
};

#define DEADLINE_US (10 * US_PER_S) /* where none is to pass */

struct node {
    struct fake_redis *fake;
    const char *reply; /* to EVALSHA; NULL: none */
    bool has_script;   /* else NOSCRIPT until it is loaded */
    bool is_replica;
    unsigned n_evals;
    unsigned n_asking;
    unsigned n_looks; /* CLUSTER SLOTS and GET-MASTER-ADDR-BY-NAME */
    bool is_asking;
};

struct fixture {
    struct ev_loop *loop;
    struct ev_timer patience;
    bool is_patient;
    struct node nodes[FAKES_MAX];
    char map_reply[1024]; /* to what the scout asks */
    struct endpoint endpoints[FAKES_MAX];
    struct link_script script;
    struct endpoint_network network;
    struct redis_options options;
    struct redis *redis;
    struct router *router;
    struct seam *seam;
    struct seam_bytes key;
    unsigned n_done;
    unsigned n_late;
    unsigned n_of[SEAM_ERROR + 1]; /* outcomes of done */
    enum seam_outcome late_outcome;
    int64_t last_integer;
    struct seam_call calls[CALLS_MAX];
};

static struct fixture *the_fixture; /* of the calls, which know only themselves */

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct fixture *f = timer->data;
    (void)loop;
    (void)events;
    f->is_patient = false;
}

#define RUN_UNTIL(f, condition)                                     \
    do {                                                            \
        while (!(condition)) {                                      \
            assert_true((f)->is_patient); /* else it never comes */ \
            ev_run((f)->loop, EVRUN_ONCE);                          \
        }                                                           \
    } while (0)

static void eval(struct node *node, struct fake_peer *peer)
{
    node->n_evals++;
    if (!node->has_script) {
        fake_redis_say(peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    } else if (node->is_asking) {
        fake_redis_say(peer, ":99\r\n");
    } else if (node->reply != NULL) {
        fake_redis_say(peer, node->reply);
    }
    node->is_asking = false;
}

static void answer(struct fake_redis *fake, struct fake_peer *peer,
                   const struct fake_command *command)
{
    struct node *node = fake->data;
    if (fake_command_is(command, "EVALSHA")) {
        eval(node, peer);
    } else if (fake_command_is(command, "ASKING")) {
        node->n_asking++;
        node->is_asking = true;
        fake_redis_say(peer, "+OK\r\n");
    } else if (fake_command_is(command, "CLUSTER SLOTS")
               || fake_command_is(command, "SENTINEL GET-MASTER-ADDR-BY-NAME")) {
        node->n_looks++;
        fake_redis_say(peer, the_fixture->map_reply);
    } else if (fake_command_is(command, "ROLE") && node->is_replica) {
        fake_redis_say(peer, "*2\r\n$5\r\nslave\r\n:1\r\n");
    } else {
        assert_true(fake_redis_greet(peer, command));
    }
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(f);
    the_fixture = f;
    f->loop = ev_loop_new(EVFLAG_NOENV);
    assert_non_null(f->loop);
    f->is_patient = true;
    ev_timer_init(&f->patience, on_patience, PATIENCE_S, 0.);
    f->patience.data = f;
    ev_timer_start(f->loop, &f->patience);
    f->script = (struct link_script){.text = "return 1", .text_bytes = 8};
    link_script_name(&f->script);
    f->key = (struct seam_bytes){"k", 1};
    f->options = (struct redis_options){.endpoints = f->endpoints,
                                        .scripts = &f->script,
                                        .n_scripts = 1};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    router_free(f->router);
    redis_free(f->redis);
    for (unsigned i = 0; i < FAKES_MAX; i++) {
        if (f->nodes[i].fake != NULL) {
            fake_redis_stop(f->nodes[i].fake);
        }
    }
    ev_loop_destroy(f->loop);
    free(f);
    return 0;
}

/* Start so many servers; the endpoints are theirs. */
static void start_nodes(struct fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct node *node = &f->nodes[i];
        *node = (struct node){.reply = ":7\r\n", .has_script = true};
        node->fake = fake_redis_start_tcp(f->loop, answer, node);
        assert_non_null(node->fake);
        f->endpoints[i] = node->fake->endpoint;
    }
    f->options.n_endpoints = n;
}

static void start(struct fixture *f)
{
    f->redis = redis_new(&f->options);
    assert_non_null(f->redis);
    f->router = router_new(f->redis, f->loop, 1);
    assert_non_null(f->router);
    f->seam = router_seam(f->router);
}

static void on_done(struct seam_call *call, const struct seam_reply *reply)
{
    struct fixture *f = the_fixture;
    f->n_done++;
    f->n_of[call->outcome]++;
    assert_int_equal(reply != NULL, call->outcome == SEAM_OK);
    if (reply != NULL) {
        f->last_integer = reply->values[0].integer;
    }
}

static void on_late(struct seam_call *call, const struct seam_reply *reply)
{
    struct fixture *f = the_fixture;
    f->n_late++;
    f->late_outcome = call->outcome;
    if (reply != NULL) {
        f->last_integer = reply->values[0].integer;
    }
}

static struct seam_call *run_call(struct fixture *f, unsigned i, int64_t deadline_us)
{
    struct seam_call *call = &f->calls[i];
    *call = (struct seam_call){
        .keys = &f->key,
        .n_keys = 1,
        .deadline = instant_add_us(seam_now(f->seam), deadline_us),
        .done = on_done,
        .late = on_late,
    };
    seam_run(f->seam, call);
    return call;
}

/* Call until one is answered: the nodes are there. */
static void wait_for_nodes(struct fixture *f)
{
    do {
        unsigned n_done = f->n_done;
        (void)run_call(f, 0, DEADLINE_US);
        RUN_UNTIL(f, f->n_done > n_done);
        ev_run(f->loop, EVRUN_NOWAIT);
        assert_true(f->is_patient);
    } while (f->n_of[SEAM_OK] == 0);
    f->n_done = 0;
    memset(f->n_of, 0, sizeof(f->n_of));
}

static void start_one(struct fixture *f)
{
    start_nodes(f, 1);
    start(f);
    wait_for_nodes(f);
}

static void test_a_call_is_answered(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    struct seam_call *call = run_call(f, 0, DEADLINE_US);
    assert_int_equal(f->n_done, 0);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(call->outcome, SEAM_OK);
    assert_int_equal(call->node, seam_node(f->seam, seam_slot(f->seam, f->key)));
    assert_true(call->round_trip_us >= 0);
    assert_int_equal(f->last_integer, 7);
    assert_int_equal(f->n_late, 0);
    assert_int_equal(seam_slot(f->seam, f->key), 0); /* one slot where no cluster is */
}

static void test_no_server(void **state)
{
    struct fixture *f = *state;
    start_nodes(f, 1);
    fake_redis_go_deaf(f->nodes[0].fake);
    start(f);
    struct seam_call *call = run_call(f, 0, DEADLINE_US);
    assert_int_equal(f->n_done, 1); /* at once */
    assert_int_equal(call->outcome, SEAM_DOWN);
    assert_true(fake_redis_hear_again(f->nodes[0].fake));
    wait_for_nodes(f);
}

static void test_a_name_that_is_none(void **state)
{
    struct fixture *f = *state;
    f->endpoints[0] = (struct endpoint){.host = "no..such.name", .port = 6379};
    f->options.n_endpoints = 1;
    start(f);
    assert_int_equal(run_call(f, 0, DEADLINE_US)->outcome, SEAM_DOWN);
    assert_int_equal(f->calls[0].node, SEAM_NO_NODE);
}

static void test_a_name(void **state)
{
    struct fixture *f = *state;
    start_nodes(f, 1);
    if (!localhost_is_known()) {
        skip();
    }
    (void)snprintf(f->endpoints[0].host, sizeof(f->endpoints[0].host), "localhost");
    start(f);
    wait_for_nodes(f);
}

static void test_late_replies(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    (void)run_call(f, 0, 5 * US_PER_MS);
    struct seam_call *second = run_call(f, 1, 5 * US_PER_MS);
    struct seam_call *third = run_call(f, 2, DEADLINE_US);
    unsigned n_evals = f->nodes[0].n_evals + 3;
    RUN_UNTIL(f, f->nodes[0].n_evals == n_evals);
    RUN_UNTIL(f, f->n_done == 2);
    assert_int_equal(f->n_of[SEAM_TIMEOUT], 2);
    assert_int_equal(f->n_late, 0);
    fake_redis_say(fake_redis_peer(f->nodes[0].fake), ":1\r\n-OOM no\r\n:3\r\n");
    RUN_UNTIL(f, f->n_late == 2 && f->n_done == 3);
    assert_int_equal(f->calls[0].outcome, SEAM_OK);
    assert_int_equal(second->outcome, SEAM_ERROR);
    assert_int_equal(second->error, SEAM_ERROR_OUT_OF_MEMORY);
    assert_int_equal(third->outcome, SEAM_OK);
    assert_int_equal(f->last_integer, 3); /* its own, not one of the late ones */
}

static void test_replies_that_never_come(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    (void)run_call(f, 0, 5 * US_PER_MS);
    (void)run_call(f, 1, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    RUN_UNTIL(f, f->n_done == 2); /* by the silence that ends the connection */
    assert_int_equal(f->n_of[SEAM_TIMEOUT], 1);
    assert_int_equal(f->n_of[SEAM_LOST], 1);
    assert_int_equal(f->n_late, 1);
    assert_int_equal(f->late_outcome, SEAM_LOST);
    f->nodes[0].reply = ":1\r\n";
    wait_for_nodes(f);
}

static void reject_reply(struct seam_call *call, const struct seam_reply *reply)
{
    on_done(call, reply);
    if (reply != NULL) {
        seam_reject(the_fixture->seam, call);
    }
}

static void test_a_rejected_reply_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    run_call(f, 0, DEADLINE_US)->done = reject_reply;
    (void)run_call(f, 1, DEADLINE_US);
    unsigned n_evals = f->nodes[0].n_evals + 2;
    RUN_UNTIL(f, f->nodes[0].n_evals == n_evals);
    fake_redis_say(fake_redis_peer(f->nodes[0].fake), ":1\r\n");
    RUN_UNTIL(f, f->n_done == 2);
    assert_int_equal(f->n_of[SEAM_OK], 1);
    assert_int_equal(f->n_of[SEAM_LOST], 1);
    f->nodes[0].reply = ":1\r\n";
    wait_for_nodes(f);
}

static void test_router_free_ends_calls(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    (void)run_call(f, 0, 5 * US_PER_MS);
    RUN_UNTIL(f, f->n_done == 1);
    (void)run_call(f, 1, DEADLINE_US);
    router_free(f->router);
    f->router = NULL;
    assert_int_equal(f->n_of[SEAM_LOST], 1);
    assert_int_equal(f->n_late, 1);
}

static void test_too_much_under_way(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    for (unsigned i = 0; i < LINK_REQUESTS_MAX + 2; i++) {
        (void)run_call(f, i, DEADLINE_US);
    }
    assert_int_equal(f->n_of[SEAM_FULL], 2);
    assert_int_equal(f->n_done, 2);
    RUN_UNTIL(f, f->n_done == LINK_REQUESTS_MAX + 2);
    assert_int_equal(f->n_of[SEAM_LOST], LINK_REQUESTS_MAX);
}

static void test_a_script_that_is_not_there(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].has_script = false;
    unsigned n_evals = f->nodes[0].n_evals;
    struct seam_call *call = run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(call->outcome, SEAM_ERROR); /* loading it did not help */
    assert_int_equal(call->error, SEAM_ERROR_NO_SCRIPT);
    assert_int_equal(f->nodes[0].n_evals, n_evals + 2);
    call = run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->nodes[0].n_evals == n_evals + 3);
    f->nodes[0].has_script = true; /* by the time it is loaded */
    RUN_UNTIL(f, f->n_done == 2);
    assert_int_equal(call->outcome, SEAM_OK);
    assert_int_equal(f->last_integer, 7);
    call = run_call(f, 0, DEADLINE_US); /* the same memory again */
    RUN_UNTIL(f, f->n_done == 3);
    assert_int_equal(f->nodes[0].n_evals, n_evals + 5);
}

static void test_nothing_is_sent_again_after_the_deadline(void **state)
{
    struct fixture *f = *state;
    start_one(f);
    f->nodes[0].reply = NULL;
    (void)run_call(f, 0, 5 * US_PER_MS);
    RUN_UNTIL(f, f->n_done == 1);
    unsigned n_evals = f->nodes[0].n_evals;
    fake_redis_say(fake_redis_peer(f->nodes[0].fake), "-NOSCRIPT No matching\r\n");
    RUN_UNTIL(f, f->n_late == 1);
    assert_int_equal(f->calls[0].error, SEAM_ERROR_NO_SCRIPT);
    f->nodes[0].reply = ":7\r\n";
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 2);
    assert_int_equal(f->nodes[0].n_evals, n_evals + 1);
}

static void test_errors_are_told(void **state)
{
    static const struct {
        const char *reply;
        enum seam_error error;
    } rows[] = {
        {"-LOADING Redis is loading\r\n", SEAM_ERROR_LOADING},
        {"-BUSY Redis is busy\r\n", SEAM_ERROR_BUSY},
        {"-READONLY You can't write\r\n", SEAM_ERROR_READ_ONLY},
        {"-CLUSTERDOWN The cluster is down\r\n", SEAM_ERROR_CLUSTER_DOWN},
        {"-TRYAGAIN Multiple keys\r\n", SEAM_ERROR_TRYAGAIN},
        {"-NOPERM no\r\n", SEAM_ERROR_DENIED},
        {"-WRONGTYPE Operation\r\n", SEAM_ERROR_WRONG_TYPE},
        {"-MOVED 1 127.0.0.1:1\r\n", SEAM_ERROR_MOVED}, /* though it is no cluster */
        {"-ERR what\r\n", SEAM_ERROR_OTHER},
    };
    struct fixture *f = *state;
    start_one(f);
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        f->nodes[0].reply = rows[i].reply;
        (void)run_call(f, 0, DEADLINE_US);
        RUN_UNTIL(f, f->n_done == i + 1);
        assert_int_equal(f->calls[0].outcome, SEAM_ERROR);
        assert_int_equal(f->calls[0].error, rows[i].error);
    }
}

/* ---- timers ---- */

static unsigned fired[8];
static unsigned n_fired;
static struct seam_timer timers[8];

static void on_fire(struct seam_timer *timer)
{
    fired[n_fired++] = (unsigned)(timer - timers);
}

static void test_timers_fire_in_order(void **state)
{
    static const int64_t after_ms[] = {30, 10, 20, 10, 40, 5, 15, 60};
    static const unsigned order[] = {5, 1, 3, 7, 0, 4};
    struct fixture *f = *state;
    start_nodes(f, 1);
    start(f);
    n_fired = 0;
    memset(timers, 0, sizeof(timers));
    struct instant now = seam_now(f->seam);
    for (unsigned i = 0; i < ARRAY_LEN(timers); i++) {
        timers[i].fire = on_fire;
        timers[i].at = instant_add_us(now, after_ms[i] * US_PER_MS);
        seam_timer_set(f->seam, &timers[i]);
    }
    seam_timer_stop(f->seam, &timers[2]);
    seam_timer_stop(f->seam, &timers[6]);
    seam_timer_stop(f->seam, &timers[6]); /* which is not set any more */
    timers[7].at = instant_add_us(now, 25 * US_PER_MS);
    seam_timer_set(f->seam, &timers[7]); /* moved forward */
    RUN_UNTIL(f, n_fired == ARRAY_LEN(order));
    assert_true(instant_diff_us(seam_now(f->seam), now) >= 40 * US_PER_MS);
    for (unsigned i = 0; i < ARRAY_LEN(order); i++) {
        assert_int_equal(fired[i], order[i]);
    }
    assert_int_not_equal(seam_random(f->seam), seam_random(f->seam));
}

/* ---- a cluster of two, and a third that is new ---- */

/* The reply to CLUSTER SLOTS: up to `last` the first node has the slots, then the second. */
static void write_slots(struct fixture *f, unsigned last)
{
    const struct endpoint *a = &f->nodes[0].fake->endpoint;
    const struct endpoint *b = &f->nodes[1].fake->endpoint;
    (void)snprintf(f->map_reply, sizeof(f->map_reply),
                   "*2\r\n*3\r\n:0\r\n:%u\r\n*3\r\n$9\r\n%s\r\n:%u\r\n$1\r\na\r\n"
                   "*3\r\n:%u\r\n:16383\r\n*3\r\n$0\r\n\r\n:%u\r\n$1\r\nb\r\n",
                   last, a->host, (unsigned)a->port, last + 1, (unsigned)b->port);
}

static void start_cluster(struct fixture *f)
{
    f->options.mode = REDIS_CLUSTER;
    start_nodes(f, 3);
    f->options.n_endpoints = 1;
    write_slots(f, 8191);
    start(f);
    wait_for_nodes(f);
    f->key.ptr = "a"; /* of the second node */
    wait_for_nodes(f);
    f->key.ptr = "k";
    f->nodes[0].n_evals = 0;
    f->nodes[1].n_evals = 0;
}

/* Text that sends callers of the key "k" to a node. */
static void write_redirect(char out[64], const char *kind, const struct node *node)
{
    (void)snprintf(out, 64, "-%s %u 127.0.0.1:%u\r\n", kind, slots_of_key("k", 1),
                   (unsigned)node->fake->endpoint.port);
}

static void test_keys_go_where_their_slots_are(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    assert_in_range(slots_of_key("k", 1), 0, 8191);
    assert_int_equal(seam_slot(f->seam, f->key), slots_of_key("k", 1));
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(f->nodes[0].n_evals, 1);
    assert_int_equal(f->nodes[1].n_evals, 0);
    assert_int_not_equal(seam_node(f->seam, 0), seam_node(f->seam, 16383));
}

static void test_moved_is_followed_and_kept(void **state)
{
    char moved[64];
    struct fixture *f = *state;
    start_cluster(f);
    write_redirect(moved, "MOVED", &f->nodes[1]);
    f->nodes[0].reply = moved;
    unsigned n_looks = f->nodes[0].n_looks + f->nodes[1].n_looks;
    write_slots(f, 100); /* which the scout learns */
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(f->n_of[SEAM_OK], 1);
    assert_int_equal(f->calls[0].node, seam_node(f->seam, 16383));
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 2);
    assert_int_equal(f->nodes[0].n_evals, 1); /* the second went straight there */
    assert_int_equal(f->nodes[1].n_evals, 2);
    RUN_UNTIL(f, f->nodes[0].n_looks + f->nodes[1].n_looks > n_looks);
    RUN_UNTIL(f, seam_node(f->seam, 101) == seam_node(f->seam, 16383));
}

/* Two nodes that send callers to one another: each call is sent twice at most. */
static void test_moved_in_a_circle(void **state)
{
    char to_first[64];
    char to_second[64];
    struct fixture *f = *state;
    start_cluster(f);
    write_redirect(to_first, "MOVED", &f->nodes[0]);
    write_redirect(to_second, "MOVED", &f->nodes[1]);
    f->nodes[0].reply = to_second;
    f->nodes[1].reply = to_first;
    for (unsigned i = 0; i < 1000; i++) {
        (void)run_call(f, 0, DEADLINE_US);
        RUN_UNTIL(f, f->n_done == i + 1);
        assert_int_equal(f->calls[0].error, SEAM_ERROR_MOVED);
    }
    assert_int_equal(f->nodes[0].n_evals + f->nodes[1].n_evals, 2000);
    unsigned n_looks = f->nodes[0].n_looks + f->nodes[1].n_looks;
    int64_t us = (int64_t)PATIENCE_S * US_PER_S;
    assert_true(n_looks <= 2 + (unsigned)(us / REDIS_LOOK_US_MIN));
    f->nodes[0].reply = to_first; /* to itself: once is enough */
    write_slots(f, 8191);
    RUN_UNTIL(f, seam_node(f->seam, slots_of_key("k", 1)) == seam_node(f->seam, 0));
    f->nodes[0].n_evals = 0;
    f->nodes[1].n_evals = 0;
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1001);
    assert_int_equal(f->nodes[0].n_evals + f->nodes[1].n_evals, 1);
}

static void test_ask_is_followed_and_not_kept(void **state)
{
    char ask[64];
    struct fixture *f = *state;
    start_cluster(f);
    write_redirect(ask, "ASK", &f->nodes[1]);
    f->nodes[0].reply = ask;
    for (unsigned i = 0; i < 3; i++) {
        (void)run_call(f, 0, DEADLINE_US);
        RUN_UNTIL(f, f->n_done == i + 1);
        assert_int_equal(f->last_integer, 99); /* as one who has said ASKING */
    }
    assert_int_equal(f->nodes[0].n_evals, 3);
    assert_int_equal(f->nodes[1].n_asking, 3);
    assert_int_equal(f->nodes[1].n_evals, 3);
    f->nodes[1].has_script = false; /* asking again comes behind loading */
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->nodes[1].n_evals == 4);
    f->nodes[1].has_script = true;
    RUN_UNTIL(f, f->n_done == 4);
    assert_int_equal(f->last_integer, 99);
    assert_int_equal(f->nodes[1].n_asking, 5);
}

/* A node that has no slots yet is heard of by ASK, and asked from then on. */
static void test_a_new_node_is_heard_of(void **state)
{
    char ask[64];
    struct fixture *f = *state;
    start_cluster(f);
    write_redirect(ask, "ASK", &f->nodes[2]);
    f->nodes[0].reply = ask;
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(f->calls[0].error, SEAM_ERROR_MOVED); /* that one was too early */
    wait_for_nodes(f);
    assert_int_equal(f->last_integer, 99);
    assert_true(f->nodes[2].n_asking > 0);
}

/* Nodes outside of what is allowed get no connection, let alone a password. */
static void test_nodes_outside_are_not_asked(void **state)
{
    char moved[64];
    struct fixture *f = *state;
    f->options.networks = &f->network;
    f->network = (struct endpoint_network){4, 32, {127, 0, 0, 3}};
    f->options.n_networks = 1;
    start_cluster(f);
    (void)snprintf(moved, sizeof(moved), "-MOVED %u 127.0.0.2:%u\r\n",
                   slots_of_key("k", 1), (unsigned)f->nodes[2].fake->endpoint.port);
    f->nodes[0].reply = moved;
    unsigned n_looks = f->nodes[0].n_looks + f->nodes[1].n_looks;
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(f->calls[0].error, SEAM_ERROR_MOVED);
    RUN_UNTIL(f, f->nodes[0].n_looks + f->nodes[1].n_looks >= n_looks + 2);
    assert_int_equal(f->nodes[2].fake->n_accepted, 0);
    /* nor where the map itself names one */
    (void)snprintf(f->map_reply, sizeof(f->map_reply),
                   "*2\r\n*3\r\n:0\r\n:100\r\n*2\r\n$9\r\n127.0.0.2\r\n:%u\r\n"
                   "*3\r\n:101\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
                   (unsigned)f->nodes[2].fake->endpoint.port,
                   (unsigned)f->nodes[1].fake->endpoint.port);
    redis_look(f->redis);
    RUN_UNTIL(f, seam_node(f->seam, 0) == SEAM_NO_NODE);
    assert_int_equal(f->nodes[2].fake->n_accepted, 0);
}

/* A node that knows next to nothing does not take away what is known. */
static void test_a_meagre_map_is_not_believed(void **state)
{
    struct fixture *f = *state;
    start_cluster(f);
    unsigned node = seam_node(f->seam, 0);
    (void)snprintf(f->map_reply, sizeof(f->map_reply), "*0\r\n");
    unsigned n_looks = f->nodes[0].n_looks + f->nodes[1].n_looks;
    redis_look(f->redis);
    RUN_UNTIL(f, f->nodes[0].n_looks + f->nodes[1].n_looks >= n_looks + 4);
    assert_int_equal(seam_node(f->seam, 0), node);
    assert_int_equal(seam_node(f->seam, slots_of_key("k", 1)), node);
    (void)snprintf(f->map_reply, sizeof(f->map_reply), "-ERR no cluster\r\n");
    n_looks = f->nodes[0].n_looks + f->nodes[1].n_looks;
    RUN_UNTIL(f, f->nodes[0].n_looks + f->nodes[1].n_looks >= n_looks + 4);
    assert_int_equal(seam_node(f->seam, 0), node);
}

/* ---- Sentinel ---- */

static void write_primary(struct fixture *f, unsigned i)
{
    char port[8];
    int len = snprintf(port, sizeof(port), "%u",
                       (unsigned)f->nodes[i].fake->endpoint.port);
    (void)snprintf(f->map_reply, sizeof(f->map_reply),
                   "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len, port);
}

static void test_the_primary_is_followed(void **state)
{
    struct fixture *f = *state;
    f->options.mode = REDIS_SENTINEL;
    f->options.primary_name = "mymaster";
    start_nodes(f, 3);
    f->options.n_endpoints = 1; /* the first is the Sentinel */
    f->nodes[2].is_replica = true;
    write_primary(f, 1);
    start(f);
    wait_for_nodes(f);
    assert_true(f->nodes[1].n_evals > 0);
    /* the old one becomes a replica, before Sentinel says so */
    f->nodes[1].is_replica = true;
    f->nodes[1].reply = "-READONLY You can't write against a read only replica.\r\n";
    (void)run_call(f, 0, DEADLINE_US);
    RUN_UNTIL(f, f->n_done == 1);
    assert_int_equal(f->calls[0].error, SEAM_ERROR_READ_ONLY);
    unsigned n_evals = f->nodes[1].n_evals;
    RUN_UNTIL(f, f->nodes[1].fake->n_accepted >= 3); /* what is no primary is left */
    assert_int_equal(run_call(f, 0, DEADLINE_US)->outcome, SEAM_DOWN);
    write_primary(f, 2); /* which takes a moment to know it */
    RUN_UNTIL(f, f->nodes[2].fake->n_accepted >= 2);
    assert_int_equal(run_call(f, 0, DEADLINE_US)->outcome, SEAM_DOWN);
    f->nodes[2].is_replica = false;
    wait_for_nodes(f);
    assert_true(f->nodes[2].n_evals > 0);
    assert_int_equal(f->nodes[1].n_evals, n_evals);
}

static void test_a_sentinel_that_knows_nothing(void **state)
{
    struct fixture *f = *state;
    f->options.mode = REDIS_SENTINEL;
    f->options.primary_name = "mymaster";
    start_nodes(f, 3);
    f->options.n_endpoints = 2;
    fake_redis_go_deaf(f->nodes[0].fake); /* the first is not there at all */
    (void)snprintf(f->map_reply, sizeof(f->map_reply), "*-1\r\n");
    start(f);
    RUN_UNTIL(f, f->nodes[1].n_looks >= 2);
    assert_int_equal(run_call(f, 0, DEADLINE_US)->outcome, SEAM_DOWN);
    (void)snprintf(f->map_reply, sizeof(f->map_reply),
                   "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n99999\r\n");
    unsigned n_looks = f->nodes[1].n_looks;
    RUN_UNTIL(f, f->nodes[1].n_looks >= n_looks + 2);
    assert_int_equal(run_call(f, 0, DEADLINE_US)->outcome, SEAM_DOWN);
    write_primary(f, 2);
    wait_for_nodes(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_call_is_answered),
        TEST(test_no_server),
        TEST(test_a_name_that_is_none),
        TEST(test_a_name),
        TEST(test_late_replies),
        TEST(test_replies_that_never_come),
        TEST(test_a_rejected_reply_ends_the_connection),
        TEST(test_router_free_ends_calls),
        TEST(test_too_much_under_way),
        TEST(test_a_script_that_is_not_there),
        TEST(test_nothing_is_sent_again_after_the_deadline),
        TEST(test_errors_are_told),
        TEST(test_timers_fire_in_order),
        TEST(test_keys_go_where_their_slots_are),
        TEST(test_moved_is_followed_and_kept),
        TEST(test_moved_in_a_circle),
        TEST(test_ask_is_followed_and_not_kept),
        TEST(test_a_new_node_is_heard_of),
        TEST(test_nodes_outside_are_not_asked),
        TEST(test_a_meagre_map_is_not_believed),
        TEST(test_the_primary_is_followed),
        TEST(test_a_sentinel_that_knows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
