/* Replies: what is read, what is refused, what errors and redirects mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/reply.h"

static const struct reply_limits limits = {.values_max = 64, .bytes_max = 4096};

static enum reply_status feed(struct reply_reader *reader, const char *bytes,
                              struct seam_reply *reply)
{
    assert_true(reply_feed(reader, bytes, strlen(bytes)));
    return reply_next(reader, reply);
}

static void assert_text(const struct seam_value *value, enum seam_type type,
                        const char *text)
{
    assert_int_equal(value->type, type);
    assert_int_equal(value->text_bytes, strlen(text));
    assert_memory_equal(value->text, text, value->text_bytes);
}

static void test_values_come_in_order(void **state)
{
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    assert_int_equal(
        feed(reader, "*4\r\n:-7\r\n*2\r\n$2\r\na\n\r\n$-1\r\n+OK\r\n*0\r\n-ERR no\r\n",
             &reply),
        REPLY_OK);
    assert_int_equal(reply.n_values, 7);
    assert_int_equal(reply.values[0].type, SEAM_ARRAY);
    assert_int_equal(reply.values[0].integer, 4);
    assert_int_equal(reply.values[1].type, SEAM_INTEGER);
    assert_int_equal(reply.values[1].integer, -7);
    assert_int_equal(reply.values[2].integer, 2);
    assert_text(&reply.values[3], SEAM_STRING, "a\n");
    assert_int_equal(reply.values[4].type, SEAM_NIL);
    assert_text(&reply.values[5], SEAM_STATUS, "OK");
    assert_int_equal(reply.values[6].integer, 0);
    assert_int_equal(reply_next(reader, &reply), REPLY_OK); /* the next one */
    assert_int_equal(reply.n_values, 1);
    assert_text(&reply.values[0], SEAM_ERROR_TEXT, "ERR no");
    assert_int_equal(reply_next(reader, &reply), REPLY_MORE);
    reply_reader_free(reader);
}

static void test_what_is_refused(void **state)
{
    static const char *const streams[] = {
        "hello\r\n",
        "*1000000000\r\n",
        "*65\r\n",
        "*-2\r\n",
        "$-2\r\n",
        ":1x\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", /* six deep */
        "%1\r\n:1\r\n:2\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "_\r\n", /* RESP3 */
        ">2\r\n+a\r\n+b\r\n",
        "(123\r\n",
        "~1\r\n:1\r\n",
        "=7\r\ntxt:abc\r\n",
    };
    struct seam_reply reply;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        struct reply_reader *reader = reply_reader_new(&limits);
        assert_non_null(reader);
        if (feed(reader, streams[i], &reply) != REPLY_BAD) {
            fail_msg("taken for a reply: %s", streams[i]);
        }
        assert_int_equal(reply_next(reader, &reply), REPLY_BAD); /* sticky */
        assert_true(reply_reader_reset(reader));
        assert_int_equal(feed(reader, ":1\r\n", &reply), REPLY_OK);
        reply_reader_free(reader);
    }
}

static void test_what_is_too_large(void **state)
{
    static char text[4096];
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    memset(text, 'x', sizeof(text));
    assert_int_equal(feed(reader, "*65\r\n", &reply), REPLY_BAD);
    assert_true(reply_reader_reset(reader));
    /* a string that would never end is not collected for ever */
    assert_int_equal(feed(reader, "$2000000000\r\n", &reply), REPLY_MORE);
    assert_true(reply_feed(reader, text, 4000));
    assert_false(reply_feed(reader, text, 4000));
    assert_true(reply_reader_reset(reader));
    /* texts that fit one by one, and together do not */
    assert_int_equal(feed(reader, "*2\r\n$3000\r\n", &reply), REPLY_MORE);
    assert_true(reply_feed(reader, text, 3000));
    assert_int_equal(feed(reader, "\r\n", &reply), REPLY_MORE);
    assert_int_equal(feed(reader, "$3000\r\n", &reply), REPLY_MORE);
    assert_true(reply_feed(reader, text, 3000));
    assert_int_equal(feed(reader, "\r\n", &reply), REPLY_BAD);
    reply_reader_free(reader);
}

static void test_a_long_error_is_cut(void **state)
{
    static char text[1024];
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    memset(text, 'x', sizeof(text));
    assert_int_equal(feed(reader, "-OOM ", &reply), REPLY_MORE);
    assert_true(reply_feed(reader, text, sizeof(text)));
    assert_int_equal(feed(reader, "\r\n", &reply), REPLY_OK);
    assert_int_equal(reply.values[0].text_bytes, REPLY_ERROR_BYTES_MAX);
    assert_int_equal(reply_error(&reply), SEAM_ERROR_OUT_OF_MEMORY);
    reply_reader_free(reader);
}

static void test_errors_have_a_kind(void **state)
{
    static const struct {
        const char *text;
        enum seam_error error;
    } rows[] = {
        {"+OK", SEAM_ERROR_NONE},
        {":1", SEAM_ERROR_NONE},
        {"-MOVED 12182 127.0.0.1:7001", SEAM_ERROR_MOVED},
        {"-ASK 12182 127.0.0.1:7001", SEAM_ERROR_MOVED},
        {"-TRYAGAIN Multiple keys request during rehashing of slot",
         SEAM_ERROR_TRYAGAIN},
        {"-CLUSTERDOWN The cluster is down", SEAM_ERROR_CLUSTER_DOWN},
        {"-CLUSTERDOWN Hash slot not served", SEAM_ERROR_CLUSTER_DOWN},
        {"-LOADING Redis is loading the dataset in memory", SEAM_ERROR_LOADING},
        {"-MASTERDOWN Link with MASTER is down", SEAM_ERROR_LOADING},
        {"-READONLY You can't write against a read only replica.",
         SEAM_ERROR_READ_ONLY},
        {"-BUSY Redis is busy running a script.", SEAM_ERROR_BUSY},
        {"-NOSCRIPT No matching script. Please use EVAL.", SEAM_ERROR_NO_SCRIPT},
        {"-NOAUTH Authentication required.", SEAM_ERROR_DENIED},
        {"-WRONGPASS invalid username-password pair or user is disabled.",
         SEAM_ERROR_DENIED},
        {"-NOPERM this user has no permissions to run the 'evalsha' command",
         SEAM_ERROR_DENIED},
        {"-ERR The user executing the script can't run this command or subcommand "
         "script: 0, on @user_script:1.",
         SEAM_ERROR_DENIED},
        {"-OOM command not allowed when used memory > 'maxmemory'.",
         SEAM_ERROR_OUT_OF_MEMORY},
        {"-NOREPLICAS Not enough good replicas to write.", SEAM_ERROR_NO_WRITES},
        {"-MISCONF Redis is configured to save RDB snapshots", SEAM_ERROR_NO_WRITES},
        {"-WRONGTYPE Operation against a key holding the wrong kind of value",
         SEAM_ERROR_WRONG_TYPE},
        {"-ERR max number of clients reached", SEAM_ERROR_OTHER},
        {"-LOADINGX what", SEAM_ERROR_OTHER},
        {"-", SEAM_ERROR_OTHER},
        {"-MOVED", SEAM_ERROR_MOVED},
    };
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(feed(reader, rows[i].text, &reply), REPLY_MORE);
        assert_int_equal(feed(reader, "\r\n", &reply), REPLY_OK);
        if (reply_error(&reply) != rows[i].error) {
            fail_msg("%s is of kind %d", rows[i].text, (int)reply_error(&reply));
        }
    }
    reply_reader_free(reader);
}

static void test_redirects(void **state)
{
    static const struct {
        const char *text;
        bool is_ok;
        bool is_ask;
        unsigned slot;
        const char *host;
        unsigned port;
    } rows[] = {
        {"-MOVED 12182 127.0.0.1:7001", true, false, 12182, "127.0.0.1", 7001},
        {"-ASK 0 10.0.0.1:1", true, true, 0, "10.0.0.1", 1},
        {"-MOVED 16383 ::1:7001", true, false, 16383, "::1", 7001},
        {"-MOVED 1 :6381", true, false, 1, "", 6381},
        {"-MOVED 1 redis-1.example:6381", true, false, 1, "redis-1.example", 6381},
        {"-MOVED 16384 127.0.0.1:7001", false, false, 0, "", 0},
        {"-MOVED 99999999999999999999 127.0.0.1:1", false, false, 0, "", 0},
        {"-MOVED x 127.0.0.1:7001", false, false, 0, "", 0},
        {"-MOVED 1 127.0.0.1", false, false, 0, "", 0},
        {"-MOVED 1 127.0.0.1:0", false, false, 0, "", 0},
        {"-MOVED 1 127.0.0.1:65536", false, false, 0, "", 0},
        {"-MOVED 1 127.0.0.1:7001x", false, false, 0, "", 0},
        {"-MOVED 1", false, false, 0, "", 0},
        {"-MOVED 1 ", false, false, 0, "", 0},
        {"-MOVED", false, false, 0, "", 0},
        {"-ASK", false, false, 0, "", 0},
        {"-ERR no", false, false, 0, "", 0},
        {"+MOVED 1 127.0.0.1:7001", false, false, 0, "", 0},
    };
    struct reply_reader *reader = reply_reader_new(&limits);
    struct reply_redirect redirect;
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(feed(reader, rows[i].text, &reply), REPLY_MORE);
        assert_int_equal(feed(reader, "\r\n", &reply), REPLY_OK);
        if (reply_redirect(&reply, &redirect) != rows[i].is_ok) {
            fail_msg("%s", rows[i].text);
        }
        if (!rows[i].is_ok) {
            continue;
        }
        assert_int_equal(redirect.is_ask, rows[i].is_ask);
        assert_int_equal(redirect.slot, rows[i].slot);
        assert_int_equal(redirect.port, rows[i].port);
        assert_int_equal(redirect.host_bytes, strlen(rows[i].host));
        assert_memory_equal(redirect.host, rows[i].host, redirect.host_bytes);
    }
    reply_reader_free(reader);
}

static void test_texts_are_compared_whole(void **state)
{
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    (void)state;
    assert_non_null(reader);
    assert_int_equal(feed(reader, "+OK\r\n", &reply), REPLY_OK);
    assert_true(reply_is_text(&reply, "OK"));
    assert_false(reply_is_text(&reply, "O"));
    assert_false(reply_is_text(&reply, "OKAY"));
    assert_int_equal(feed(reader, "-OK\r\n", &reply), REPLY_OK);
    assert_false(reply_is_text(&reply, "OK"));
    reply_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_in_order),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_is_too_large),
        cmocka_unit_test(test_a_long_error_is_cut),
        cmocka_unit_test(test_errors_have_a_kind),
        cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_texts_are_compared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
