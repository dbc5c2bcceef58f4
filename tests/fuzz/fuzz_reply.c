/*
 * Bytes as what a Redis server sends. The first byte says how they are cut.
 *
 * Laws:      however cut, the same replies, and the same end; every value is within its
 *            bounds and readable to its last byte; arrays have as many values as they say;
 *            a redirect and a map of slots name slots, hosts and ports there can be.
 * Must reach: nested arrays, errors of each kind, redirects, maps, each way to be no reply.
 */
#include "agent/redis/reply.h"
#include "agent/redis/slots.h"

#include "tests/fuzz/fuzz.h"

enum {
    VALUES_MAX = 64,
    BYTES_MAX = 4096,
};

/* A sum over all that was read, so that two runs can be compared, and every byte is read. */
static uint64_t mix(uint64_t sum, uint64_t number)
{
    return (sum ^ number) * UINT64_C(0x100000001b3);
}

static uint64_t mix_value(uint64_t sum, const struct seam_value *value)
{
    sum = mix(sum, (uint64_t)value->type);
    sum = mix(sum, (uint64_t)value->integer);
    for (size_t i = 0; i < value->text_bytes; i++) {
        sum = mix(sum, (uint8_t)value->text[i]);
    }
    return sum;
}

/* @return how many values the one at `at` is, its parts among them */
static unsigned count_values(const struct seam_reply *reply)
{
    unsigned n = 0;
    for (uint64_t n_due = 1; n_due > 0; n_due--) {
        FUZZ_CHECK(n < reply->n_values);
        const struct seam_value *value = &reply->values[n++];
        FUZZ_CHECK(value->type == SEAM_ARRAY || value->type == SEAM_INTEGER
                   || value->integer == 0);
        if (value->type == SEAM_ARRAY) {
            FUZZ_CHECK(value->integer >= 0 && value->integer <= VALUES_MAX);
            n_due += (uint64_t)value->integer;
        }
    }
    return n;
}

static void check_range(const struct slots_range *range, void *data)
{
    uint64_t *sum = data;
    FUZZ_CHECK(range->first <= range->last && range->last < SEAM_SLOTS_MAX);
    FUZZ_CHECK(range->port > 0 && range->port < 65536);
    for (size_t i = 0; i < range->host_bytes; i++) {
        *sum = mix(*sum, (uint8_t)range->host[i]);
    }
}

static uint64_t mix_reply(uint64_t sum, const struct seam_reply *reply)
{
    struct reply_redirect redirect;
    FUZZ_CHECK(count_values(reply) == reply->n_values);
    for (unsigned i = 0; i < reply->n_values; i++) {
        sum = mix_value(sum, &reply->values[i]);
    }
    enum seam_error error = reply_error(reply);
    FUZZ_CHECK((error != SEAM_ERROR_NONE)
               == (reply->values[0].type == SEAM_ERROR_TEXT));
    if (reply_redirect(reply, &redirect)) {
        FUZZ_CHECK(error == SEAM_ERROR_MOVED && redirect.slot < SEAM_SLOTS_MAX
                   && redirect.port > 0 && redirect.port < 65536
                   && redirect.host_bytes < REPLY_ERROR_BYTES_MAX);
    }
    bool is_map = slots_read(reply, check_range, &sum);
    sum = mix(sum, is_map);
    return mix(sum, (uint64_t)error);
}

/* Read it all, in pieces of so many bytes; @return the sum of what came of it */
static uint64_t read_all(struct reply_reader *reader, const uint8_t *data, size_t len,
                         size_t piece)
{
    enum reply_status status = REPLY_MORE;
    struct seam_reply reply;
    uint64_t sum = 0;
    FUZZ_CHECK(reply_reader_reset(reader));
    for (size_t at = 0; at < len && status != REPLY_BAD; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        char *copy = (char *)fuzz_copy(data + at, n);
        FUZZ_CHECK(reply_feed(reader, copy, n));
        while ((status = reply_next(reader, &reply)) == REPLY_OK) {
            sum = mix_reply(sum, &reply);
        }
        free(copy);
    }
    return mix(sum, (uint64_t)status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct reply_limits limits = {.values_max = VALUES_MAX,
                                               .bytes_max = BYTES_MAX};
    if (len < 2 || len > BYTES_MAX) {
        return 0;
    }
    struct reply_reader *reader = reply_reader_new(&limits);
    FUZZ_CHECK(reader != NULL);
    uint64_t whole = read_all(reader, data + 1, len - 1, len);
    FUZZ_CHECK(read_all(reader, data + 1, len - 1, 1) == whole);
    FUZZ_CHECK(read_all(reader, data + 1, len - 1, 1 + data[0] % 64U) == whole);
    reply_reader_free(reader);
    return 0;
}
