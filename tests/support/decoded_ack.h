/**
 * @file tests/support/decoded_ack.h  Read an ACK frame back, to look at its variables.
 */
#ifndef TESTS_SUPPORT_DECODED_ACK_H
#define TESTS_SUPPORT_DECODED_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "spop/value.h"

enum {
    DECODED_ACK_ACTIONS_MAX = 32
};

struct decoded_action {
    bool is_unset;
    uint8_t scope;
    char name[64];
    struct spop_value value;
    char text[2048]; /* of a STRING */
};

struct decoded_ack {
    uint64_t stream_id;
    uint64_t frame_id;
    unsigned n_actions;
    struct decoded_action actions[DECODED_ACK_ACTIONS_MAX];
};

/** Decode one whole frame; false when it is no well-formed ACK. */
bool decoded_ack_read(struct decoded_ack *ack, struct spop_bytes bytes);

/** The action that sets `name`, or NULL. */
const struct decoded_action *decoded_ack_find(const struct decoded_ack *ack,
                                              const char *name);

/** The text of a string variable; "" when it is not set. */
const char *decoded_ack_text(const struct decoded_ack *ack, const char *name);

/** The number or boolean of a variable; -1 when it is not set. */
int64_t decoded_ack_number(const struct decoded_ack *ack, const char *name);

#endif
