#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rules/clients.h"
#include "rules/code.h"
#include "rules/warn.h"

#include "agent/clock.h"
#include "agent/command/check.h"
#include "agent/command/check_code.h"
#include "agent/command/check_spoe.h"
#include "agent/file.h"

/* What an agent may take for an answer. */
#define DEADLINE_US (5 * US_PER_MS)

static bool file_init(struct check_file *file, const char *path)
{
    file->path = path;
    file->diags = path != NULL ? malloc(sizeof(*file->diags)) : NULL;
    if (file->diags != NULL) {
        rules_diags_init(file->diags, path);
    }
    return path == NULL || file->diags != NULL;
}

bool check_init(struct check *check, const struct check_options *options, int64_t now_s)
{
    *check = (struct check){.options = *options, .now_s = now_s};
    return file_init(&check->rules, options->path)
           && file_init(&check->old, options->old_path)
           && file_init(&check->spoe, options->spoe_path);
}

void check_fini(struct check *check)
{
    struct check_file *const files[] = {&check->rules, &check->old, &check->spoe};
    rules_file_free(check->file);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        free(files[i]->text);
        free(files[i]->diags);
    }
}

/* Read a file whole. @return false when it cannot be read (reported) */
static bool read_text(struct check_file *file, size_t bytes_max)
{
    const char *error = NULL;
    file->text = file_read(file->path, bytes_max, &file->len, &error);
    if (file->text == NULL) {
        rules_diags_add(file->diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                        check_code_unreadable, "%s", error);
    }
    return file->text != NULL;
}

static struct rules_file *read_rules(struct check_file *file, int64_t now_s)
{
    /* One byte more: that the file is too large is for its reader to say. */
    if (!read_text(file, RULES_FILE_BYTES_MAX + 1)) {
        return NULL;
    }
    struct rules_source source = {
        .name = file->path,
        .text = {.ptr = (const uint8_t *)file->text, .len = file->len},
        .now_s = now_s,
        .read = file_read_for,
    };
    return rules_file_read(&source, file->diags);
}

/* Of a bad file of clients the first error, where the rules name it. */
static void find_in_clients(struct check *check, const char *path, const char *text,
                            size_t len)
{
    const struct rules_ast_clients *clients = &rules_file_ast(check->file)->clients;
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    struct rules_diags *diags = malloc(sizeof(*diags));
    if (diags == NULL) {
        rules_file_diag(check->file, check->rules.diags, RULES_ERROR, clients->mark,
                        rules_code_out_of_memory, "out of memory");
        return;
    }
    rules_diags_init(diags, path);
    rules_clients_free(rules_clients_load(bytes,
                                          clients->slot == RULES_SLOT_IP
                                              ? RULES_CLIENTS_ADDRESS
                                              : RULES_CLIENTS_TEXT,
                                          diags));
    if (diags->n_errors > 0) {
        const struct rules_diag *first = &diags->kept[0];
        rules_file_diag(check->file, check->rules.diags, RULES_ERROR, clients->mark,
                        first->code, "%.100s:%" PRIu32 ":%" PRIu32 ": %.120s", path,
                        first->mark.line, first->mark.column, first->text);
    }
    free(diags);
}

static void read_clients(struct check *check)
{
    const struct rules_ast_clients *clients = &rules_file_ast(check->file)->clients;
    if (clients->path == NULL) {
        return;
    }
    const char *error = "out of memory";
    size_t len = 0;
    char *path = file_beside(check->rules.path, clients->path);
    char *text = path != NULL ? file_read(path, RULES_CLIENTS_BYTES_MAX, &len, &error)
                              : NULL;
    if (text != NULL) {
        find_in_clients(check, path, text, len);
    } else {
        rules_file_diag(check->file, check->rules.diags, RULES_ERROR, clients->mark,
                        check_code_unreadable, "cannot read %.128s: %s",
                        path != NULL ? path : clients->path, error);
    }
    free(text);
    free(path);
}

static void find_in_spoe(struct check *check)
{
    struct rules_arena arena = {NULL};
    struct spoe_conf conf = {NULL};
    if (!read_text(&check->spoe, SPOE_CONF_BYTES_MAX)) {
        return;
    }
    struct rules_text text = {.bytes = check->spoe.text, .len = check->spoe.len};
    spoe_conf_read(&text, &arena, check->spoe.diags, &conf);
    if (check->file != NULL && check->spoe.diags->n_errors == 0) {
        struct check_spoe spoe = {.text = &text, .conf = &conf};
        check_spoe_find(&spoe, rules_file_ast(check->file), DEADLINE_US,
                        check->spoe.diags);
    }
    rules_arena_fini(&arena);
}

static void make_strict(struct rules_diags *diags)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        diags->kept[i].severity = RULES_ERROR;
    }
    diags->n_errors += diags->n_warnings;
    diags->n_warnings = 0;
}

void check_find(struct check *check)
{
    check->file = read_rules(&check->rules, check->now_s);
    if (check->file != NULL) {
        struct rules_warn_place place = {.now_s = check->now_s,
                                         .n_hosts = check->options.load.n_hosts};
        rules_warn(check->file, &place, check->rules.diags);
        read_clients(check);
        check_size_find(rules_file_ast(check->file), &check->options.load,
                        &check->size);
    }
    if (check->spoe.path != NULL) {
        find_in_spoe(check);
    }
    if (check->options.is_strict) {
        make_strict(check->rules.diags);
    }
    if (check->options.is_strict && check->spoe.path != NULL) {
        make_strict(check->spoe.diags);
    }
}

bool check_is_ok(const struct check *check)
{
    const struct check_file *const files[] = {&check->rules, &check->old, &check->spoe};
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        is_ok = is_ok && (files[i]->path == NULL || files[i]->diags->n_errors == 0);
    }
    return is_ok;
}
