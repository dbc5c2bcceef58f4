/* How a cluster files keys, and what it says of its slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/reply.h"
#include "agent/redis/slots.h"

static void test_slots_of_keys(void **state)
{
    static const struct { /* as CLUSTER KEYSLOT has them */
        const char *key;
        size_t len;
        unsigned slot;
    } rows[] = {
        {"123456789", 9, 0x31c3}, {"", 0, 0},
        {"foo", 3, 12182},        {"foo{", 4, 7673},
        {"foo{}", 5, 5542},       {"{foo}", 5, 12182},
        {"a{foo}b", 7, 12182},    {"a{foo}b{bar}", 12, 12182},
        {"a{foo", 5, 113},        {"a{}{foo}", 8, 700},
        {"a{{foo}}", 8, 13308},   {"\0\xff\r\n", 4, 6261},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (slots_of_key(rows[i].key, rows[i].len) != rows[i].slot) {
            fail_msg("row %zu: %u", i, slots_of_key(rows[i].key, rows[i].len));
        }
    }
}

struct ranges {
    unsigned n;
    char text[256];
};

static void on_range(const struct slots_range *range, void *data)
{
    struct ranges *ranges = data;
    size_t len = strlen(ranges->text);
    ranges->n++;
    (void)snprintf(ranges->text + len, sizeof(ranges->text) - len, "%u-%u %.*s:%u;",
                   range->first, range->last, (int)range->host_bytes,
                   range->host_bytes > 0 ? range->host : "", range->port);
}

static bool read_text(const char *text, struct ranges *ranges)
{
    static const struct reply_limits limits = {.values_max = 256, .bytes_max = 4096};
    struct reply_reader *reader = reply_reader_new(&limits);
    struct seam_reply reply;
    *ranges = (struct ranges){0};
    assert_non_null(reader);
    assert_true(reply_feed(reader, text, strlen(text)));
    assert_int_equal(reply_next(reader, &reply), REPLY_OK);
    bool ok = slots_read(&reply, on_range, ranges);
    reply_reader_free(reader);
    return ok;
}

static void test_what_a_cluster_says(void **state)
{
    struct ranges ranges;
    (void)state;
    assert_true(read_text("*0\r\n", &ranges));
    assert_int_equal(ranges.n, 0);
    /* with replicas and metadata; a host unknown, empty, and none */
    assert_true(read_text("*4\r\n"
                          "*4\r\n:0\r\n:10\r\n"
                          "*4\r\n$8\r\n10.0.0.1\r\n:6379\r\n$1\r\na\r\n*2\r\n$8\r\n"
                          "hostname\r\n$1\r\nh\r\n"
                          "*4\r\n$8\r\n10.0.0.2\r\n:6379\r\n$1\r\nb\r\n*0\r\n"
                          "*3\r\n:11\r\n:11\r\n*3\r\n$1\r\n?\r\n:6379\r\n$1\r\nc\r\n"
                          "*3\r\n:12\r\n:20\r\n*3\r\n$-1\r\n:6380\r\n$1\r\nd\r\n"
                          "*3\r\n:21\r\n:16383\r\n*3\r\n$0\r\n\r\n:6381\r\n$1\r\ne\r\n",
                          &ranges));
    assert_string_equal(ranges.text, "0-10 10.0.0.1:6379;12-20 :6380;21-16383 :6381;");
}

static void test_what_is_no_map(void **state)
{
    static const char *const texts[] = {
        "+OK\r\n",
        ":1\r\n",
        "*-1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n*1\r\n:1\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:-1\r\n",
        "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:2\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n*1\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
    };
    struct ranges ranges;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (read_text(texts[i], &ranges)) {
            fail_msg("row %zu is taken", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_of_keys),
        cmocka_unit_test(test_what_a_cluster_says),
        cmocka_unit_test(test_what_is_no_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
