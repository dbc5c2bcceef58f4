/**
 * @file agent/redis/link.h  One connection to one Redis node.
 *
 * Model:     down -> connecting -> (TLS) -> greeting -> ready -> down, and again by itself:
 *            after 10 ms, then twice as long, at most 250 ms, with jitter. The greeting is
 *            one write: AUTH, SELECT, CLIENT SETNAME, ROLE where it must be a primary, and
 *            SCRIPT LOAD of every script; the link is ready once all of it was answered as
 *            it should be. Commands are written into a buffer, and everything of one turn
 *            of the loop goes out in one write. Replies come in the order of the requests.
 * Ownership: link_new / link_free. A request is the caller's memory, the link's from
 *            link_send to `done`. Options stay in place.
 * Threads:   its loop's.
 * Errors:    whatever is wrong on it ends the connection: a reply that cannot be read or
 *            that nobody asked for, a request LINK_SILENCE_US without its reply, a
 *            greeting that takes LINK_GREETING_US. Every request then ends with no reply,
 *            and `down` is told why.
 * Limits:    LINK_REQUESTS_MAX under way, LINK_OUT_BYTES_MAX unsent, replies as in the
 *            options.
 */
#ifndef AGENT_REDIS_LINK_H
#define AGENT_REDIS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock.h"
#include "agent/redis/endpoint.h"
#include "agent/redis/reply.h"
#include "agent/redis/resp.h"
#include "agent/store/seam.h"

struct ev_loop;
struct link;
struct tls;

enum {
    LINK_REQUESTS_MAX = 1024,
    LINK_OUT_BYTES_MAX = 512 * 1024, /* an exchange of 2 000 keys, and the scripts */
    LINK_SCRIPTS_MAX = 32,
    LINK_SHA_BYTES = 40, /* a script's name: SHA-1 in hexadecimal */
};

#define LINK_GREETING_US    (500 * US_PER_MS) /* from connect to ready */
#define LINK_SILENCE_US     (1 * US_PER_S)
#define LINK_BACKOFF_US_MIN (10 * US_PER_MS)
#define LINK_BACKOFF_US_MAX (250 * US_PER_MS)

struct link_script {
    const char *text;
    size_t text_bytes;
    char sha[LINK_SHA_BYTES + 1];
};

struct link_options {
    const char *user;     /* NULL: the user named default */
    const char *password; /* NULL: no AUTH */
    const char *client_name;
    unsigned database;
    bool is_primary; /* refuse what does not say by ROLE that it is a primary */
    const struct link_script *scripts;
    unsigned n_scripts;
    struct tls *tls;         /* NULL: plain */
    const char *server_name; /* of TLS; NULL: the host of link_use */
    struct reply_limits reply_limits;
};

/** Who is told when a link is ready, and when one that was not down is. */
struct link_owner {
    void (*up)(struct link *l, void *data);
    void (*down)(struct link *l, const char *why, void *data);
    void *data;
};

/** @return a link that is down and stays so, or NULL when memory is short */
MUST_USE struct link *link_new(struct ev_loop *loop, const struct link_options *options,
                               struct link_owner owner, uint64_t seed);

/** Ends all requests; what was sent goes out as far as it does at once. Not within a callback
 *  of the link, as link_use. */
void link_free(struct link *l);

/**
 * Connect, and stay connected, to the first of these that takes it; what was connected
 * before is ended.
 *
 * @param n_addresses  0: stay down
 */
void link_use(struct link *l, const char *host,
              const struct endpoint_address *addresses, unsigned n_addresses);

/** Whether commands can be sent: greeted, and not about to end. */
bool link_is_ready(const struct link *l);

/** End the connection once the callbacks that run are through, and connect anew. */
void link_drop(struct link *l, const char *why);

/** Requests under way. */
unsigned link_n_requests(const struct link *l);

/** Room for commands, until the next function of the link is called. */
struct resp link_commands(struct link *l);

/**
 * Send what was written into link_commands: n_asides commands whose replies nobody waits
 * for, then the request's own.
 *
 * @return false when there was no room, or no connection: nothing is sent then
 */
MUST_USE bool link_send(struct link *l, const struct resp *commands,
                        struct seam_request *request);

/** Set the name of a script by its text. */
void link_script_name(struct link_script *script);

#endif
