#include "agent/control/document.h"

#include <stdlib.h>
#include <string.h>

void document_init(struct document *document)
{
    *document = (struct document){.root = json_object()};
    document->is_failed = document->root == NULL;
}

void document_fini(struct document *document)
{
    json_decref(document->root);
}

/* jansson takes NULL for any value, and then fails. */
void document_set(struct document *document, json_t *object, const char *key,
                  json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) {
        document->is_failed = true;
    }
}

/* JSON is UTF-8: of what is not, a byte beyond ASCII is a question mark. */
static json_t *make_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value == NULL ? strdup(text) : NULL;
    for (char *p = copy; p != NULL && *p != '\0'; p++) {
        *p = (char)((unsigned char)*p < 0x80 ? *p : '?');
    }
    if (copy != NULL) {
        value = json_string(copy);
    }
    free(copy);
    return value;
}

void document_set_text(struct document *document, json_t *object, const char *key,
                       const char *text)
{
    document_set(document, object, key, text != NULL ? make_text(text) : json_null());
}

void document_set_number(struct document *document, json_t *object, const char *key,
                         int64_t number)
{
    document_set(document, object, key, json_integer(number));
}

void document_set_bool(struct document *document, json_t *object, const char *key,
                       bool value)
{
    document_set(document, object, key, json_boolean(value));
}

json_t *document_set_object(struct document *document, json_t *object, const char *key)
{
    json_t *value = json_object();
    document_set(document, object, key, value);
    return document->is_failed ? NULL : value;
}

json_t *document_set_array(struct document *document, json_t *object, const char *key)
{
    json_t *value = json_array();
    document_set(document, object, key, value);
    return document->is_failed ? NULL : value;
}

json_t *document_add_object(struct document *document, json_t *array)
{
    json_t *value = json_object();
    if (json_array_append_new(array, value) != 0) {
        document->is_failed = true;
    }
    return document->is_failed ? NULL : value;
}

void document_add_text(struct document *document, json_t *array, const char *text)
{
    if (json_array_append_new(array, make_text(text)) != 0) {
        document->is_failed = true;
    }
}

void document_add_diags(struct document *document, json_t *array,
                        const struct rules_diags *diags)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        const struct rules_diag *diag = &diags->kept[i];
        json_t *object = document_add_object(document, array);
        document_set_text(document, object, "file", rules_diag_file(diags, diag));
        if (diag->mark.line > 0) {
            document_set_number(document, object, "line", diag->mark.line);
            document_set_number(document, object, "column", diag->mark.column);
        }
        document_set_text(document, object, "severity",
                          diag->severity == RULES_ERROR ? "error" : "warning");
        document_set_text(document, object, "code", diag->code);
        document_set_text(document, object, "text", diag->text);
    }
}

bool document_print(const struct document *document, FILE *out)
{
    char *text = document->is_failed ? NULL
                                     : json_dumps(document->root, JSON_INDENT(2));
    bool is_printed = text != NULL && fprintf(out, "%s\n", text) >= 0;
    free(text);
    return is_printed;
}
