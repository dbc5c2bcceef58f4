/**
 * @file agent/command/spoe_line.h  A line of an HAProxy configuration, cut into words.
 *
 * Model:     spaces part words; "weak" and 'strong' quotes, backslashes, comments and, in
 *            double quotes, environment variables as HAProxy's manual has them (2.2, 2.3).
 *            The variables are those of this process: one that is not set here has its
 *            default, or is empty.
 * Ownership: words point into the line.
 * Threads:   reads the environment: for commands, before there are threads.
 * Errors:    a text that never needs freeing, and where it is.
 * Limits:    SPOE_WORDS_MAX, SPOE_LINE_BYTES_MAX.
 */
#ifndef AGENT_COMMAND_SPOE_LINE_H
#define AGENT_COMMAND_SPOE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base.h"

enum {
    SPOE_WORDS_MAX = 64,         /* HAProxy's own bound */
    SPOE_LINE_BYTES_MAX = 16384, /* of all words, variables in their place */
};

struct spoe_word {
    const char *text;
    uint32_t column; /* from 1, in characters */
};

struct spoe_line {
    unsigned n_words;
    struct spoe_word words[SPOE_WORDS_MAX];
    const char *fault; /* NULL: none */
    uint32_t fault_column;
    char bytes[SPOE_LINE_BYTES_MAX];
};

/** Cut `text`, which has no line break in it. @return false: line->fault says why */
MUST_USE bool spoe_line_split(struct spoe_line *line, const char *text, size_t len);

#endif
