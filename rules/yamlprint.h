/**
 * @file rules/yamlprint.h  Write values and collections as YAML that yamltree reads back.
 *
 * Model:     flow collections on one line. Plain scalars where nothing can be mistaken,
 *            else double-quoted ones with escapes.
 * Ownership: a printer owns the text. Zeroed is empty; who takes the text frees it.
 * Threads:   one printer, one thread.
 * Errors:    is_short when memory ran out: the text is of no use then.
 * Limits:    none; events are counted for who must stay within those of a file.
 */
#ifndef RULES_YAMLPRINT_H
#define RULES_YAMLPRINT_H

#include "rules/rules.h"

struct yamlprint {
    char *bytes; /* a NUL behind them; NULL: none yet */
    size_t len;
    size_t cap_bytes;
    bool is_short;
    uint32_t n_events; /* as the reader will count them */
};

/** Write what belongs to no value: indents, ends of lines. */
void yamlprint_raw(struct yamlprint *print, const char *text);

/** A collection that is being written: { a: 1 } or [a, b]. */
struct yamlflow {
    struct yamlprint *print;
    bool is_list;
    bool has_any;
};

/** Write UTF-8 text as it is where it is printable ASCII, and escaped where it is not. */
void yamlprint_text(struct yamlprint *print, struct rules_bytes text);
void yamlprint_string(struct yamlprint *print, const char *text);
void yamlprint_number(struct yamlprint *print, int64_t number);

struct yamlflow yamlflow_begin(struct yamlprint *print, bool is_list);
/** What is written next is the next item of a list. */
void yamlflow_item(struct yamlflow *flow);
/** What is written next is the value of a field. */
void yamlflow_key(struct yamlflow *flow, struct rules_bytes key);
void yamlflow_field(struct yamlflow *flow, const char *key);
void yamlflow_end(struct yamlflow *flow);

/** Write a field and its value, a string. */
void yamlflow_string(struct yamlflow *flow, const char *key, const char *text);
void yamlflow_number(struct yamlflow *flow, const char *key, int64_t number);

#endif
