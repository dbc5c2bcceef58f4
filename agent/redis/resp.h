/**
 * @file agent/redis/resp.h  Write commands as Redis reads them (RESP2).
 *
 * Model:     a command is a count, then so many arguments, each with its length before it:
 *            any byte may be in one.
 * Ownership: writes into the caller's buffer.
 * Threads:   no shared state.
 * Errors:    sticky: what does not fit sets is_full, and nothing is written from there on.
 */
#ifndef AGENT_REDIS_RESP_H
#define AGENT_REDIS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base.h"

struct resp {
    char *buf;
    size_t cap;
    size_t len;
    bool is_full;
};

static inline struct resp resp_in(char *buf, size_t cap)
{
    return (struct resp){.buf = buf, .cap = cap};
}

/** Bytes as they are: part of a command that was written before. */
void resp_raw(struct resp *resp, const void *bytes, size_t len);

/** Begin a command of so many arguments, its name among them. */
void resp_command(struct resp *resp, size_t n_args);

void resp_arg(struct resp *resp, const void *bytes, size_t len);

/** A number as an argument, in decimal. */
void resp_number(struct resp *resp, uint64_t number);

/** A text as an argument. */
void resp_text(struct resp *resp, const char *text);

#endif
