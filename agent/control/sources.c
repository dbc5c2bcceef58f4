#include "agent/control/sources.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "agent/file.h"

struct text {
    char *path;
    char *bytes; /* NULL: could not be read */
    size_t len;
    const char *error; /* then: why */
};

struct sources {
    struct watch *watch; /* while they are read for the first time, or NULL */
    unsigned n_owners;
    bool is_short; /* of memory: a text is not there */
    unsigned n;
    struct text texts[1 + RULES_INCLUDES_MAX];
};

static struct text *text_find(struct sources *sources, const char *path)
{
    for (unsigned i = 0; i < sources->n; i++) {
        if (strcmp(sources->texts[i].path, path) == 0) {
            return &sources->texts[i];
        }
    }
    return NULL;
}

/* NULL with a text in `error` when memory is short. */
static struct text *text_add(struct sources *sources, const char *path,
                             const char **error)
{
    struct text text = {.path = strdup(path)};
    bool is_watched = sources->watch == NULL || watch_add(sources->watch, path);
    if (text.path == NULL || !is_watched) {
        free(text.path);
        sources->is_short = true;
        *error = "out of memory";
        return NULL;
    }
    text.bytes = file_read(path, RULES_FILE_BYTES_MAX, &text.len, &text.error);
    ENSURE(sources->n < ARRAY_LEN(sources->texts));
    sources->texts[sources->n] = text;
    return &sources->texts[sources->n++];
}

struct sources *sources_open(const char *path, struct watch *watch, const char **error)
{
    struct sources *sources = calloc(1, sizeof(*sources));
    if (sources == NULL) {
        *error = "out of memory";
        return NULL;
    }
    sources->n_owners = 1;
    sources->watch = watch;
    const struct text *text = text_add(sources, path, error);
    if (text != NULL && text->bytes == NULL) {
        *error = text->error;
    }
    if (text == NULL || text->bytes == NULL) {
        sources_free(sources);
        return NULL;
    }
    return sources;
}

static char *text_copy(const struct text *text, size_t *len)
{
    char *copy = malloc(text->len + 1);
    if (copy != NULL) {
        memcpy(copy, text->bytes, text->len + 1);
        *len = text->len;
    }
    return copy;
}

static char *read_included(void *context, const char *path, size_t bytes_max,
                           size_t *len, const char **error)
{
    struct sources *sources = context;
    const struct text *text = text_find(sources, path);
    (void)bytes_max; /* of all files alike */
    if (text == NULL) {
        text = text_add(sources, path, error);
    }
    if (text == NULL) {
        return NULL;
    }
    if (text->bytes == NULL) {
        *error = text->error;
        return NULL;
    }
    *error = "out of memory";
    return text_copy(text, len);
}

struct rules_file *sources_read(struct sources *sources, struct rules_diags *diags)
{
    const struct text *text = &sources->texts[0];
    struct rules_file *file = rules_file_read(
        &(struct rules_source){
            .name = text->path,
            .text = {(const uint8_t *)text->bytes, text->len},
            .read = read_included,
            .context = sources,
        },
        diags);
    sources->watch = NULL;
    return file;
}

bool sources_are_incomplete(const struct sources *sources)
{
    for (unsigned i = 0; i < sources->n; i++) {
        if (sources->texts[i].bytes == NULL) {
            return true;
        }
    }
    return sources->is_short;
}

char *sources_copy(const struct sources *sources, size_t *len)
{
    return sources->n == 1 ? text_copy(&sources->texts[0], len) : NULL;
}

/* crypto_generichash fails only for lengths out of its range: these are constants. */
void sources_digest(const struct sources *sources, char out[VERSION_BYTES])
{
    uint8_t whole[crypto_generichash_BYTES];
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof(whole));
    for (unsigned i = 0; i < sources->n; i++) {
        const struct text *text = &sources->texts[i];
        const char *bytes = text->bytes != NULL ? text->bytes : text->error;
        size_t len = text->bytes != NULL ? text->len : strlen(text->error);
        if (i > 0) {
            (void)crypto_generichash_update(&state, (const uint8_t *)&len, sizeof(len));
        }
        (void)crypto_generichash_update(&state, (const uint8_t *)bytes, len);
    }
    (void)crypto_generichash_final(&state, whole, sizeof(whole));
    (void)sodium_bin2hex(out, VERSION_BYTES, whole, (VERSION_BYTES - 1) / 2);
}

struct sources *sources_share(struct sources *sources)
{
    sources->n_owners++;
    return sources;
}

void sources_free(struct sources *sources)
{
    if (sources == NULL || --sources->n_owners > 0) {
        return;
    }
    for (unsigned i = 0; i < sources->n; i++) {
        free(sources->texts[i].path);
        free(sources->texts[i].bytes);
    }
    free(sources);
}
