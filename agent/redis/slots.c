#include "agent/redis/slots.h"

#include <string.h>

/* XMODEM: polynomial 0x1021, from 0. Four bits at a time are fast enough for 50 bytes. */
static unsigned crc16(const unsigned char *bytes, size_t len)
{
    static const uint16_t table[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ bytes[i] >> 4];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (bytes[i] & 15)];
    }
    return crc;
}

unsigned slots_of_key(const void *key, size_t len)
{
    const unsigned char *begin = key;
    const unsigned char *open = len > 0 ? memchr(begin, '{', len) : NULL;
    if (open != NULL) {
        size_t rest = (size_t)(begin + len - (open + 1));
        const unsigned char *close = rest > 0 ? memchr(open + 1, '}', rest) : NULL;
        if (close != NULL && close > open + 1) {
            begin = open + 1;
            len = (size_t)(close - begin);
        }
    }
    return crc16(begin, len) % SEAM_SLOTS_MAX;
}

/* The number of the value behind the one at `i` and all its parts. */
static unsigned skip_value(const struct seam_reply *reply, unsigned i)
{
    for (int64_t n_due = 1; n_due > 0; n_due--, i++) {
        if (reply->values[i].type == SEAM_ARRAY) {
            n_due += reply->values[i].integer;
        }
    }
    return i;
}

static bool is_array(const struct seam_value *value, int64_t n_min)
{
    return value->type == SEAM_ARRAY && value->integer >= n_min;
}

static bool is_number(const struct seam_value *value, int64_t min, int64_t max)
{
    return value->type == SEAM_INTEGER && value->integer >= min
           && value->integer <= max;
}

/* A range: first, last, primary, replicas. A primary: host, port, what else. */
static bool read_range(const struct seam_value *values, slots_range_fn *each,
                       void *data)
{
    if (!is_array(&values[0], 3) || !is_number(&values[1], 0, SEAM_SLOTS_MAX - 1)
        || !is_number(&values[2], values[1].integer, SEAM_SLOTS_MAX - 1)
        || !is_array(&values[3], 2)) {
        return false;
    }
    const struct seam_value *host = &values[4];
    if ((host->type != SEAM_STRING && host->type != SEAM_NIL)
        || !is_number(&values[5], 0, 65535)) {
        return false;
    }
    struct slots_range range = {
        .first = (unsigned)values[1].integer,
        .last = (unsigned)values[2].integer,
        .host = host->text,
        .host_bytes = host->text_bytes,
        .port = (unsigned)values[5].integer,
    };
    bool is_unknown = range.port == 0
                      || (range.host_bytes == 1 && range.host[0] == '?');
    if (!is_unknown) {
        each(&range, data);
    }
    return true;
}

bool slots_read(const struct seam_reply *reply, slots_range_fn *each, void *data)
{
    if (!is_array(&reply->values[0], 0)) {
        return false;
    }
    for (unsigned i = 1; i < reply->n_values; i = skip_value(reply, i)) {
        if (!read_range(&reply->values[i], each, data)) {
            return false;
        }
    }
    return true;
}
