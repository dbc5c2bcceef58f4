/**
 * @file spop/messages.h  Write the payload of a NOTIFY: messages and their arguments.
 *
 * Model:     begin a message, add its arguments, begin the next. The count in front of
 *            the arguments grows with each one, so there is no end to call.
 * Ownership: borrows the writer; begin the next message before using an older one again
 *            is not possible: one at a time.
 * Threads:   no shared state.
 * Errors:    sticky, in the writer: SPOP_ERR_ROOM. An argument is written whole or not
 *            at all.
 * Limits:    255 arguments a message (asserted).
 */
#ifndef SPOP_MESSAGES_H
#define SPOP_MESSAGES_H

#include "spop/cursor.h"
#include "spop/value.h"

struct spop_message_writer {
    struct spop_writer *out;
    size_t n_args_off; /* where the number of arguments stands in `out` */
};

/** Append a message without arguments. */
void spop_message_begin(struct spop_message_writer *message, struct spop_writer *out,
                        struct spop_bytes name);

/** Append an argument to the message begun last. */
void spop_message_arg(const struct spop_message_writer *message, struct spop_bytes name,
                      const struct spop_value *value);

#endif
