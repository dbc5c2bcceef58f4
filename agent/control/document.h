/**
 * @file agent/control/document.h  What is printed for machines: one JSON object.
 *
 * Model:     values are made with jansson's functions and put in with these, which note
 *            when one of them failed; then nothing is printed.
 * Ownership: document_init / document_fini; what is put in belongs to the document.
 * Threads:   one document, one thread.
 * Errors:    document_print: false when memory ran out or the stream failed.
 */
#ifndef AGENT_CONTROL_DOCUMENT_H
#define AGENT_CONTROL_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rules/diag.h"

#include "agent/base.h"

struct document {
    json_t *root; /* an object */
    bool is_failed;
};

void document_init(struct document *document);
void document_fini(struct document *document);

/** Set a field of an object that is in the document. @param value  taken; NULL: it failed */
void document_set(struct document *document, json_t *object, const char *key,
                  json_t *value);
/** Set a text; null where it is NULL. */
void document_set_text(struct document *document, json_t *object, const char *key,
                       const char *text);
void document_set_number(struct document *document, json_t *object, const char *key,
                         int64_t number);
void document_set_bool(struct document *document, json_t *object, const char *key,
                       bool value);
/** Set an empty object, or array. @return it, for more to be put in */
json_t *document_set_object(struct document *document, json_t *object, const char *key);
json_t *document_set_array(struct document *document, json_t *object, const char *key);
/** Add an empty object to an array. @return it */
json_t *document_add_object(struct document *document, json_t *array);
/** Add a text to an array. */
void document_add_text(struct document *document, json_t *array, const char *text);

/** Add what was found in a file to an array. */
void document_add_diags(struct document *document, json_t *array,
                        const struct rules_diags *diags);

/** Print it, indented: all of it or, where memory runs out, nothing. */
MUST_USE bool document_print(const struct document *document, FILE *out);

#endif
