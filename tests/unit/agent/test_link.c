/*
 * One connection to a server of bad manners: how it greets, what it sends, how it ends and
 * comes back; whatever happens, each request is answered once.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ev.h>

#include "agent/redis/link.h"

#include "tests/support/fake_redis.h"

enum {
    PATIENCE_S = 20, /* until a test gives up */
    REQUESTS_MAX = LINK_REQUESTS_MAX + 1,
};

/* What the test's server does with a command that is no greeting. */
enum manners {
    MANNERS_GOOD = 0, /* :N, the number of the command */
    MANNERS_SILENT,   /* nothing */
    MANNERS_UNASKED,  /* two replies */
    MANNERS_NOT_RESP, /* HTTP */
    MANNERS_HALF,     /* half a reply, then the end */
    MANNERS_CLOSING,  /* the end */
};

struct fixture {
    struct ev_loop *loop;
    struct ev_timer patience;
    bool is_patient;
    struct fake_redis *fake;
    struct link *link;
    struct link_script scripts[2];
    struct link_options options;
    enum manners manners;
    const char *bad_step; /* of the greeting */
    const char *bad_reply;
    char seen[512]; /* the greeting as it came */
    unsigned n_evals;
    unsigned n_up;
    unsigned n_down;
    char why[256];
    unsigned n_replies;
    unsigned n_ended;
    int64_t last_reply;
    struct seam_request requests[REQUESTS_MAX];
};

static struct fixture *the_fixture; /* of the requests: these know only themselves */

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct fixture *f = timer->data;
    (void)loop;
    (void)events;
    f->is_patient = false;
}

static void note_command(struct fixture *f, const struct fake_command *command)
{
    for (unsigned i = 0; i < command->n_args; i++) {
        size_t len = strlen(f->seen);
        (void)snprintf(f->seen + len, sizeof(f->seen) - len, "%.*s%s",
                       (int)command->args[i].len, command->args[i].ptr,
                       i + 1 < command->n_args ? " " : "|");
    }
}

static void answer(struct fake_redis *fake, struct fake_peer *peer,
                   const struct fake_command *command)
{
    struct fixture *f = fake->data;
    char reply[32];
    if (f->bad_step != NULL && fake_command_is(command, f->bad_step)) {
        fake_redis_say(peer, f->bad_reply);
        return;
    }
    if (!fake_command_is(command, "EVALSHA")) {
        note_command(f, command);
        assert_true(fake_redis_greet(peer, command));
        return;
    }
    (void)snprintf(reply, sizeof(reply), ":%u\r\n", ++f->n_evals);
    switch (f->manners) {
    case MANNERS_UNASKED:
        fake_redis_say(peer, reply);
        fake_redis_say(peer, "+OK\r\n");
        break;
    case MANNERS_NOT_RESP:
        fake_redis_say(peer, "HTTP/1.1 400 Bad Request\r\n\r\n");
        break;
    case MANNERS_HALF:
        fake_redis_say(peer, "*2\r\n:1\r\n$10\r\nabc");
        fake_redis_close(peer);
        break;
    case MANNERS_CLOSING:
        fake_redis_close(peer);
        break;
    case MANNERS_SILENT:
        break;
    case MANNERS_GOOD:
        fake_redis_say(peer, reply);
        break;
    }
}

static void on_up(struct link *l, void *data)
{
    struct fixture *f = data;
    (void)l;
    f->n_up++;
}

static void on_down(struct link *l, const char *why, void *data)
{
    struct fixture *f = data;
    (void)l;
    f->n_down++;
    (void)snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_reply(struct seam_request *request, const struct seam_reply *reply)
{
    struct fixture *f = the_fixture;
    (void)request;
    if (reply == NULL) {
        f->n_ended++;
    } else {
        f->n_replies++;
        f->last_reply = reply->values[0].integer;
    }
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(f);
    f->loop = ev_loop_new(EVFLAG_NOENV);
    assert_non_null(f->loop);
    f->is_patient = true;
    ev_timer_init(&f->patience, on_patience, PATIENCE_S, 0.);
    f->patience.data = f;
    ev_timer_start(f->loop, &f->patience);
    f->scripts[0] = (struct link_script){.text = "return 1", .text_bytes = 8};
    f->scripts[1] = (struct link_script){.text = "return 2", .text_bytes = 8};
    link_script_name(&f->scripts[0]);
    link_script_name(&f->scripts[1]);
    f->options = (struct link_options){
        .client_name = "spoa-ratelimit",
        .scripts = f->scripts,
        .n_scripts = 2,
        .reply_limits = {.values_max = 128, .bytes_max = 65536},
    };
    the_fixture = f;
    f->fake = fake_redis_start(f->loop, answer, f);
    assert_non_null(f->fake);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    link_free(f->link);
    fake_redis_stop(f->fake);
    ev_loop_destroy(f->loop);
    free(f);
    return 0;
}

static void start(struct fixture *f)
{
    struct endpoint endpoint = f->fake->endpoint;
    struct endpoint_address address;
    f->link = link_new(f->loop, &f->options, (struct link_owner){on_up, on_down, f}, 1);
    assert_non_null(f->link);
    assert_false(link_is_ready(f->link));
    assert_true(endpoint_numeric(&endpoint, &address));
    link_use(f->link, endpoint.host, &address, 1);
}

#define RUN_UNTIL(f, condition)                                     \
    do {                                                            \
        while (!(condition)) {                                      \
            assert_true((f)->is_patient); /* else it never comes */ \
            ev_run((f)->loop, EVRUN_ONCE);                          \
        }                                                           \
    } while (0)

/* Send so many requests; @return how many were taken. */
static unsigned send_requests(struct fixture *f, unsigned n)
{
    unsigned n_sent = 0;
    for (unsigned i = 0; i < n; i++) {
        struct resp resp = link_commands(f->link);
        resp_command(&resp, 4);
        resp_text(&resp, "EVALSHA");
        resp_text(&resp, f->scripts[0].sha);
        resp_number(&resp, 1);
        resp_arg(&resp, "k\0\r\n", 4);
        f->requests[i] = (struct seam_request){.done = on_reply};
        n_sent += link_send(f->link, &resp, &f->requests[i]) ? 1 : 0;
    }
    return n_sent;
}

static void test_greets_and_asks(void **state)
{
    struct fixture *f = *state;
    f->options.user = "rl";
    f->options.password = "secret word";
    f->options.database = 3;
    f->options.is_primary = true;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_string_equal(f->seen, "AUTH rl secret word|SELECT 3|"
                                 "CLIENT SETNAME spoa-ratelimit|ROLE|"
                                 "SCRIPT LOAD return 1|SCRIPT LOAD return 2|");
    assert_int_equal(f->n_up, 1);
    assert_int_equal(send_requests(f, 3), 3);
    assert_int_equal(link_n_requests(f->link), 3);
    RUN_UNTIL(f, f->n_replies == 3);
    assert_int_equal(f->last_reply, 3);
    assert_int_equal(link_n_requests(f->link), 0);
    assert_int_equal(f->n_down, 0);
}

static void test_password_without_user(void **state)
{
    struct fixture *f = *state;
    f->options.password = "secret";
    f->options.n_scripts = 0;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_string_equal(f->seen, "AUTH secret|CLIENT SETNAME spoa-ratelimit|");
}

static void test_one_write_a_turn(void **state)
{
    struct fixture *f = *state;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    struct fake_peer *peer = fake_redis_peer(f->fake);
    size_t n_before = peer->n_in;
    assert_int_equal(send_requests(f, 100), 100);
    assert_int_equal(peer->n_in, n_before); /* nothing before the turn ends */
    RUN_UNTIL(f, f->n_evals > 0);
    assert_int_equal(f->n_evals, 100); /* all of it in what was read at once */
    RUN_UNTIL(f, f->n_replies == 100);
}

static void test_a_name_that_is_refused_does_no_harm(void **state)
{
    struct fixture *f = *state;
    f->bad_step = "CLIENT SETNAME";
    f->bad_reply = "-NOPERM this user has no permissions\r\n";
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
}

static void check_refused(struct fixture *f, const char *step, const char *reply,
                          const char *why)
{
    f->bad_step = step;
    f->bad_reply = reply;
    f->n_down = 0;
    start(f);
    RUN_UNTIL(f, f->n_down == 3); /* it tries again, and again */
    assert_string_equal(f->why, why);
    f->bad_step = NULL;
    RUN_UNTIL(f, link_is_ready(f->link)); /* and has what it wants in the end */
    link_free(f->link);
    f->link = NULL;
}

static void test_greetings_that_are_refused(void **state)
{
    struct fixture *f = *state;
    f->options.password = "wrong";
    f->options.database = 1;
    f->options.is_primary = true;
    check_refused(f, "AUTH", "-WRONGPASS invalid password\r\n",
                  "AUTH: WRONGPASS invalid password");
    check_refused(f, "SELECT", "-ERR DB index is out of range\r\n",
                  "SELECT: ERR DB index is out of range");
    check_refused(f, "ROLE", "*1\r\n$5\r\nslave\r\n", "ROLE: it is no primary");
    check_refused(f, "ROLE", "*0\r\n", "ROLE: not the reply of a Redis server");
    check_refused(f, "ROLE", "*1\r\n:1\r\n", "ROLE: it is no primary");
    check_refused(f, "SCRIPT LOAD", "-LOADING Redis is loading\r\n",
                  "SCRIPT LOAD: LOADING Redis is loading");
    check_refused(f, "SCRIPT LOAD",
                  "$40\r\n0000000000000000000000000000000000000000\r\n",
                  "SCRIPT LOAD: not the reply of a Redis server");
    check_refused(f, "AUTH", "*2\r\n:1\r\n:2\r\n",
                  "AUTH: not the reply of a Redis server");
}

static void test_a_greeting_without_an_answer_ends(void **state)
{
    struct fixture *f = *state;
    f->bad_step = "SCRIPT LOAD";
    f->bad_reply = "";
    start(f);
    RUN_UNTIL(f, f->n_down == 2);
    assert_string_equal(f->why, "no answer to the greeting");
    f->bad_step = NULL;
    RUN_UNTIL(f, link_is_ready(f->link));
}

/* Manners that end the connection; requests end without a reply, and it comes back. */
static void check_ended(struct fixture *f, enum manners manners, const char *why,
                        unsigned n_replies)
{
    f->manners = manners;
    f->n_ended = 0;
    f->n_replies = 0;
    f->n_down = 0;
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, 5), 5);
    RUN_UNTIL(f, f->n_down == 1);
    assert_int_equal(f->n_replies, n_replies);
    assert_int_equal(f->n_ended, 5 - n_replies);
    assert_string_equal(f->why, why);
    assert_false(link_is_ready(f->link));
    assert_int_equal(link_n_requests(f->link), 0);
    assert_int_equal(send_requests(f, 1), 0);
}

/* What was to be sent goes out only now, and nobody was silent. */
static void test_a_loop_that_stood_still(void **state)
{
    struct fixture *f = *state;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, 1), 1);
    ev_sleep((double)(LINK_SILENCE_US + 200 * US_PER_MS) / (double)US_PER_S);
    RUN_UNTIL(f, f->n_replies == 1 || f->n_down > 0);
    assert_int_equal(f->n_down, 0);
}

static void test_bad_manners(void **state)
{
    struct fixture *f = *state;
    start(f);
    check_ended(f, MANNERS_NOT_RESP, "a reply that cannot be read, or is too large", 0);
    check_ended(f, MANNERS_HALF, "closed by the server", 0);
    check_ended(f, MANNERS_CLOSING, "closed by the server", 0);
    check_ended(f, MANNERS_SILENT, "no reply for a second", 0);
    f->manners = MANNERS_GOOD;
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, 1), 1);
    RUN_UNTIL(f, f->n_replies == 1);
}

/* A reply that nobody waits for, as the third: the second and its like are given on. */
static void test_a_reply_that_nobody_asked_for(void **state)
{
    struct fixture *f = *state;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    f->manners = MANNERS_UNASKED;
    assert_int_equal(send_requests(f, 1), 1);
    RUN_UNTIL(f, f->n_down == 1);
    assert_int_equal(f->n_replies, 1);
    assert_string_equal(f->why, "a reply that nobody asked for");
    f->manners = MANNERS_GOOD;
    RUN_UNTIL(f, link_is_ready(f->link));
    fake_redis_say(fake_redis_peer(f->fake), "-ERR max number of clients reached\r\n");
    RUN_UNTIL(f, f->n_down == 2);
    assert_string_equal(
        f->why, "a reply that nobody asked for: ERR max number of clients reached");
}

static void test_asides_are_passed_over(void **state)
{
    struct fixture *f = *state;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    struct resp resp = link_commands(f->link);
    for (unsigned i = 0; i < 3; i++) {
        resp_command(&resp, 1);
        resp_text(&resp, "EVALSHA");
    }
    f->requests[0] = (struct seam_request){.done = on_reply, .n_asides = 2};
    assert_true(link_send(f->link, &resp, &f->requests[0]));
    RUN_UNTIL(f, f->n_replies == 1);
    assert_int_equal(f->last_reply, 3);
    assert_int_equal(f->n_down, 0);
}

static void test_what_is_under_way_is_bounded(void **state)
{
    struct fixture *f = *state;
    f->manners = MANNERS_SILENT;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, REQUESTS_MAX), LINK_REQUESTS_MAX);
    RUN_UNTIL(f, f->n_down == 1);
    assert_int_equal(f->n_ended, LINK_REQUESTS_MAX);
}

static void test_what_is_unsent_is_bounded(void **state)
{
    static char argument[LINK_OUT_BYTES_MAX / 4];
    struct fixture *f = *state;
    unsigned n = 0;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    ev_io_stop(f->loop, &fake_redis_peer(f->fake)->io); /* it reads nothing */
    for (unsigned i = 0; i < 64; i++) {
        struct resp resp = link_commands(f->link);
        resp_command(&resp, 1);
        resp_arg(&resp, argument, sizeof(argument));
        f->requests[i] = (struct seam_request){.done = on_reply};
        n += link_send(f->link, &resp, &f->requests[i]) ? 1 : 0;
        ev_run(f->loop, EVRUN_NOWAIT);
    }
    assert_in_range(n, 3, 32);
    RUN_UNTIL(f, f->n_down == 1);
    assert_int_equal(f->n_ended, n);
    f->manners = MANNERS_GOOD;
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, 5), 5);
    RUN_UNTIL(f, f->n_replies == 5);
}

static void test_waits_for_whom_it_cannot_reach(void **state)
{
    struct fixture *f = *state;
    fake_redis_go_deaf(f->fake);
    start(f);
    RUN_UNTIL(f, f->n_down == 4);
    assert_string_equal(f->why, "No such file or directory");
    assert_true(fake_redis_hear_again(f->fake));
    RUN_UNTIL(f, link_is_ready(f->link));
}

static void test_tries_one_address_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct endpoint endpoints[2] = {{.host = "/nowhere/redis.sock"}, f->fake->endpoint};
    struct endpoint_address addresses[2];
    assert_true(endpoint_numeric(&endpoints[0], &addresses[0]));
    assert_true(endpoint_numeric(&endpoints[1], &addresses[1]));
    f->link = link_new(f->loop, &f->options, (struct link_owner){on_up, on_down, f}, 1);
    assert_non_null(f->link);
    link_use(f->link, "somewhere", addresses, 2);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(f->n_down, 1);
    assert_int_equal(send_requests(f, 5), 5);
    link_use(f->link, "nowhere", NULL, 0); /* from here on, stay down */
    assert_int_equal(f->n_ended, 5);
    assert_false(link_is_ready(f->link));
    for (unsigned i = 0; i < 10; i++) {
        ev_run(f->loop, EVRUN_NOWAIT);
    }
    assert_false(link_is_ready(f->link));
}

static void test_is_dropped_when_callbacks_are_through(void **state)
{
    struct fixture *f = *state;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    assert_int_equal(send_requests(f, 5), 5);
    link_drop(f->link, "enough");
    assert_false(link_is_ready(f->link));
    assert_int_equal(f->n_ended, 0); /* not yet */
    RUN_UNTIL(f, f->n_down == 1);
    assert_string_equal(f->why, "enough");
    assert_int_equal(f->n_ended, 5);
    RUN_UNTIL(f, link_is_ready(f->link));
}

/* The same replies, cut at each byte: they are read all the same. */
static void test_replies_cut_anywhere(void **state)
{
    static const char reply[] = "*3\r\n:7\r\n$5\r\na\r\nbc\r\n*1\r\n+fine\r\n:9\r\n";
    struct fixture *f = *state;
    f->manners = MANNERS_SILENT;
    start(f);
    RUN_UNTIL(f, link_is_ready(f->link));
    for (size_t cut = 1; cut < sizeof(reply) - 1; cut++) {
        f->n_replies = 0;
        assert_int_equal(send_requests(f, 2), 2);
        unsigned n_evals = f->n_evals + 2;
        RUN_UNTIL(f, f->n_evals == n_evals);
        fake_redis_say_bytes(fake_redis_peer(f->fake), reply, cut);
        ev_run(f->loop, EVRUN_NOWAIT);
        fake_redis_say_bytes(fake_redis_peer(f->fake), reply + cut,
                             sizeof(reply) - 1 - cut);
        RUN_UNTIL(f, f->n_replies == 2);
        assert_int_equal(f->last_reply, 9);
    }
    assert_int_equal(f->n_down, 0);
}

/* The connection dies at each byte of a reply: what was whole is given on, once. */
static void test_connections_cut_anywhere(void **state)
{
    static const char replies[] = ":1\r\n*2\r\n:2\r\n$3\r\nabc\r\n";
    struct fixture *f = *state;
    f->manners = MANNERS_SILENT;
    start(f);
    for (size_t cut = 0; cut < sizeof(replies) - 1; cut++) {
        RUN_UNTIL(f, link_is_ready(f->link));
        f->n_replies = 0;
        f->n_ended = 0;
        unsigned n_evals = f->n_evals + 2;
        assert_int_equal(send_requests(f, 2), 2);
        RUN_UNTIL(f, f->n_evals == n_evals);
        fake_redis_say_bytes(fake_redis_peer(f->fake), replies, cut);
        fake_redis_close(fake_redis_peer(f->fake));
        RUN_UNTIL(f, f->n_replies + f->n_ended == 2);
        assert_int_equal(f->n_replies, cut >= 4 ? 1 : 0);
    }
}

static void test_a_hundred_rounds(void **state)
{
    struct fixture *f = *state;
    struct endpoint endpoint = f->fake->endpoint;
    struct endpoint_address address;
    assert_true(endpoint_numeric(&endpoint, &address));
    start(f);
    for (unsigned i = 0; i < 100; i++) {
        link_use(f->link, endpoint.host, &address, 1); /* without its back-off */
        RUN_UNTIL(f, link_is_ready(f->link));
        f->manners = i % 2 == 0 ? MANNERS_CLOSING : MANNERS_UNASKED;
        f->n_ended = 0;
        f->n_replies = 0;
        assert_int_equal(send_requests(f, 10), 10);
        RUN_UNTIL(f, f->n_replies + f->n_ended == 10);
    }
    assert_int_equal(f->n_down, 100);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_greets_and_asks),
        TEST(test_password_without_user),
        TEST(test_one_write_a_turn),
        TEST(test_a_name_that_is_refused_does_no_harm),
        TEST(test_greetings_that_are_refused),
        TEST(test_a_greeting_without_an_answer_ends),
        TEST(test_a_loop_that_stood_still),
        TEST(test_bad_manners),
        TEST(test_a_reply_that_nobody_asked_for),
        TEST(test_asides_are_passed_over),
        TEST(test_what_is_under_way_is_bounded),
        TEST(test_what_is_unsent_is_bounded),
        TEST(test_waits_for_whom_it_cannot_reach),
        TEST(test_tries_one_address_after_the_other),
        TEST(test_is_dropped_when_callbacks_are_through),
        TEST(test_replies_cut_anywhere),
        TEST(test_connections_cut_anywhere),
        TEST(test_a_hundred_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
