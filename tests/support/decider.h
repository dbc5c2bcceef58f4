/**
 * @file tests/support/decider.h  A decide without sockets: NOTIFY payloads in, ACKs out.
 */
#ifndef TESTS_SUPPORT_DECIDER_H
#define TESTS_SUPPORT_DECIDER_H

#include "spop/cursor.h"
#include "spop/value.h"

#include "agent/decide/decide.h"

#include "tests/support/decoded_ack.h"

struct decider {
    struct decide decide;
    struct decide_options options;
    struct decide_request request;
    struct spop_writer payload;
    size_t n_args_off; /* where the current message's number of arguments stands */
    unsigned n_done;
    uint8_t payload_buf[32768];
    uint8_t out_buf[DECIDE_ACK_BYTES_MAX];
    struct spop_bytes frame; /* the last ACK */
    struct decoded_ack ack;  /* the same, decoded */
};

/** Compile `rules` and decide with the default variables and all headers. */
bool decider_init(struct decider *d, const char *rules);
/** Give it a table of clients, of the kind that the rules say. */
bool decider_clients(struct decider *d, const char *text);
void decider_fini(struct decider *d);

/** Begin a NOTIFY, add a message, add its arguments. */
void decider_begin(struct decider *d);
void decider_message(struct decider *d, const char *name);
void decider_arg(struct decider *d, const char *name, const struct spop_value *value);
void decider_text(struct decider *d, const char *name, const char *text);
void decider_ipv4(struct decider *d, const char *name, const uint8_t *address);

/** Decide at `now_us`, without decoding the answer; false when malformed. */
bool decider_run(struct decider *d, int64_t now_us);

/** Decide and decode; false also when there is not exactly one well-formed ACK. */
bool decider_decide(struct decider *d, int64_t now_us);

#endif
