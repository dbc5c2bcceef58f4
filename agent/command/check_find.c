#include <stdlib.h>
#include <string.h>

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
