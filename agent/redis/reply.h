/**
 * @file agent/redis/reply.h  Replies of Redis, read from its bytes.
 *
 * Model:     bytes go in as they come, replies come out whole: hiredis's reader takes the
 *            stream apart, and its values are put into arrays that were allocated before.
 *            RESP2 only.
 * Ownership: reply_reader_new / reply_reader_free. A reply is a view that ends with the
 *            next call of a function here.
 * Threads:   one reader, one thread.
 * Errors:    sticky: after REPLY_BAD the stream cannot be read on, close it.
 * Limits:    values and bytes as given; arrays REPLY_DEPTH_MAX deep. The text of
 *            an error is cut at REPLY_ERROR_BYTES_MAX.
 */
#ifndef AGENT_REDIS_REPLY_H
#define AGENT_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base.h"
#include "agent/store/seam.h"

enum {
    REPLY_DEPTH_MAX = 5, /* CLUSTER SLOTS: ranges, a range, a node, its metadata, one */
    REPLY_ERROR_BYTES_MAX = 256,
};

enum reply_status {
    REPLY_OK = 0,
    REPLY_MORE, /* no whole reply: bytes are missing */
    REPLY_BAD,  /* no reply, or one over the limits */
};

struct reply_limits {
    unsigned values_max;
    size_t bytes_max; /* of the texts of a reply, and of what is unread */
};

struct reply_reader;

/** @return a reader, or NULL when memory is short */
MUST_USE struct reply_reader *reply_reader_new(const struct reply_limits *limits);
void reply_reader_free(struct reply_reader *reader);

/** Begin a new stream. @return false when memory is short: the reader cannot be used */
MUST_USE bool reply_reader_reset(struct reply_reader *reader);

/** Take in what was read. @return false: more than may be unread, or memory is short */
MUST_USE bool reply_feed(struct reply_reader *reader, const char *bytes, size_t len);

/** The next reply. @param reply  filled for REPLY_OK */
MUST_USE enum reply_status reply_next(struct reply_reader *reader,
                                      struct seam_reply *reply);

/** What kind of error a reply is; SEAM_ERROR_NONE when it is none. */
enum seam_error reply_error(const struct seam_reply *reply);

/** Whether a reply is this status, or this string. */
bool reply_is_text(const struct seam_reply *reply, const char *text);

/** Where a slot is, as MOVED and ASK say it. */
struct reply_redirect {
    bool is_ask;
    unsigned slot;
    const char *host; /* empty: the host that was asked */
    size_t host_bytes;
    unsigned port;
};

/** @return whether the reply is a redirect that can be followed */
MUST_USE bool reply_redirect(const struct seam_reply *reply,
                             struct reply_redirect *redirect);

#endif
