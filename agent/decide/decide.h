/**
 * @file agent/decide/decide.h  One request, from NOTIFY to ACK.
 *
 * Model:     bind the message's arguments to descriptors, evaluate the rules, take from
 *            the store, combine a verdict, write variables. After the response: settle.h.
 *            decide_begin finds out what to take, decide_finish takes it: of requests that
 *            come together one is begun before the last is finished, so that its counters
 *            are on their way from memory meanwhile. `done` is called exactly once, at
 *            once or later, and then decide_answer writes the ACK.
 * Ownership: a request is the caller's memory and stays in place until done; the payload
 *            may go as soon as decide_begin returns.
 * Threads:   a struct decide and its requests belong to one worker.
 * Errors:    a malformed payload is the only one: no done, no ACK, end the connection.
 * Limits:    with the local store: no allocation, log line, system call or wait.
 */
#ifndef AGENT_DECIDE_DECIDE_H
#define AGENT_DECIDE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/clients.h"
#include "rules/key_text.h"
#include "rules/rules.h"
#include "spop/ack.h"
#include "spop/session.h"

#include "agent/decide/key.h"
#include "agent/decide/retry.h"
#include "agent/decide/set.h"
#include "agent/decide/variables.h"
#include "agent/decide/verdict.h"
#include "agent/observe/counters.h"
#include "agent/store/store.h"

enum {
    DECIDE_NUMBER_BYTES_MAX = 20,    /* decimal text of an integer descriptor */
    DECIDE_FIELD_BYTES_MAX = 1024,   /* of a header field's value */
    DECIDE_PROBLEM_BYTES_MAX = 2560, /* of a body naming STORE_CHARGES_MAX limits */
    DECIDE_SHADOW_BYTES_MAX = 256,
    DECIDE_ACK_BYTES_MAX = 8192, /* room that decide_answer never exceeds */
    DECIDE_ARGUMENTS_KNOWN = 32, /* places of a message whose names are remembered */
    DECIDE_BEGUN_MAX = 2,        /* requests begun and not finished */
};

#define DECIDE_DEADLINE_US (5 * US_PER_MS) /* unless the configuration says otherwise */

/** What the configuration chooses; the same for all workers. */
struct decide_options {
    variable_set variables; /* to be sent */
    struct retry_jitter jitter;
    int64_t deadline_us; /* from a whole question to its answer */
    struct spop_variable encoded[VARIABLES_N];
    /* the actions whose values are known beforehand */
    struct spop_constant actions[ACTIONS_N];
    struct spop_constant denials[2];
    struct spop_constant forbidden;   /* status 403 */
    struct spop_constant too_many;    /* status 429 */
    struct spop_constant unavailable; /* status 503 */
    struct spop_constant fallback;
    uint8_t key_secret[KEY_SECRET_BYTES]; /* of digests in names: the fleet's */
    struct spop_constant reasons[REASONS_N];
};

/** Choose the variables; jitter is off until set. */
void decide_options_init(struct decide_options *options, variable_set variables);

/** Arguments with a meaning of their own, beside what they mean to the rules. */
enum decide_role {
    DECIDE_NO_ROLE = 0,
    DECIDE_DOMAIN,
    DECIDE_RECEIPT,
};

/**
 * What an argument's name means to the rules. Zeroed it is the empty name, which means
 * nothing to them.
 */
struct decide_argument {
    uint8_t slot_after; /* the descriptor's slot + 1; 0: none */
    uint8_t role;       /* an enum decide_role */
    uint8_t name_len;
    uint8_t name[RULES_NAME_BYTES_MAX];
};

/** What a request needs only until it is finished. */
struct decide_room {
    struct rules_request descriptors;
    struct rules_result result;
    struct spop_bytes receipt; /* into the payload */
    char numbers[RULES_SLOTS_MAX][DECIDE_NUMBER_BYTES_MAX];
    char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
    char key_text[RULES_KEY_TEXT_BYTES_MAX];
    char tag_text[RULES_KEY_TEXT_BYTES_MAX];
};

/** What one worker decides with. Zeroed but for the pointers. Large. */
struct decide {
    const struct decide_set *set;
    const struct rules_clients *clients; /* NULL: the set names no file of them */
    struct store *store;
    struct counters *counters;
    const struct decide_options *options;
    /* The names that stood last at the places of a message: HAProxy sends the same ones
     * in the same order, so that hardly any is looked up. They belong to `set`. */
    struct decide_argument known[DECIDE_ARGUMENTS_KNOWN];
    char text_buf[DECIDE_PROBLEM_BYTES_MAX]; /* where a variable's text is built */
    unsigned n_begun;
    unsigned room_idx; /* of the request that was begun last */
    struct decide_room rooms[DECIDE_BEGUN_MAX];
};

/** The room of the request that was begun last. */
static inline struct decide_room *decide_room(struct decide *decide)
{
    return &decide->rooms[decide->room_idx];
}

/**
 * Go on with another set, another table of clients, or both, and count in another block.
 * A request that is under way ends with those it began with.
 */
void decide_change(struct decide *decide, const struct decide_set *set,
                   const struct rules_clients *clients, struct counters *counters);

struct decide_request;
typedef void decide_done_fn(struct decide_request *request);

struct decide_request {
    /* set by decide_begin */
    struct decide *decide;
    struct counters *counters; /* those it began with */
    uint64_t stream_id;
    uint64_t frame_id;
    bool is_neutral;   /* nothing to decide: settled, unknown message, foreign domain */
    bool is_settle;    /* after a response: what was taken is put right */
    bool is_unmatched; /* no rule matched */
    bool is_keyless;   /* rules matched, but none had a key */
    bool is_cut;       /* more limits applied than are looked at */
    bool is_decided;   /* without the store */
    /* set by decide_finish */
    decide_done_fn *done;
    void *context; /* the caller's */
    struct verdict verdict;
    int64_t retry_after_s; /* 0: not denied, or no wait helps */
    struct store_take take;
    const struct decide_limit *limits[STORE_CHARGES_MAX]; /* of the charges */
    enum action exceeded[STORE_CHARGES_MAX];              /* likewise */
    uint32_t shadow;     /* bit n: charge n is in shadow */
    uint32_t advertised; /* bit n: clients may see numbers of charge n */
    uint32_t settled;    /* bit n: charge n is settled after the response */
};

/**
 * Begin to decide a NOTIFY: find out what it is to be charged. At most DECIDE_BEGUN_MAX are
 * begun and not finished (asserted).
 *
 * @param request  take.deadline is set
 * @param notify   a SPOP_EVENT_NOTIFY; only read by this call
 * @return false when the payload is malformed: it is not begun
 */
MUST_USE bool decide_begin(struct decide *decide, struct decide_request *request,
                           const struct spop_event *notify, struct instant now);

/**
 * Charge a request that was begun, and decide.
 *
 * @param context  kept in the request for `done`
 */
void decide_finish(struct decide_request *request, decide_done_fn *done, void *context);

/** Begin, and finish at once what was not malformed. @return as decide_begin */
MUST_USE bool decide_notify(struct decide *decide, struct decide_request *request,
                            const struct spop_event *notify, struct instant now,
                            decide_done_fn *done, void *context);

/** Write the name of the counter of a limit that has a home. @return its length */
size_t decide_print_name(struct decide *decide, const struct rules_hit *hit,
                         const struct decide_limit *limit, char *out);

/**
 * Decide what the room's descriptors say, as a peek that is not counted among peeks either.
 * The caller has set them, for the slots of the set.
 */
void decide_peek(struct decide *decide, struct decide_request *request,
                 struct instant now, decide_done_fn *done, void *context);

/**
 * Write the ACK of a request that is done.
 *
 * @param out              has DECIDE_ACK_BYTES_MAX bytes of room
 * @param frame_bytes_max  the agreed max-frame-size
 */
void decide_answer(const struct decide_request *request, struct spop_writer *out,
                   size_t frame_bytes_max);

#endif
