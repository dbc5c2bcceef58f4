#include <stdlib.h>
#include <string.h>

#include "rules/clients.h"
#include "rules/warn.h"

#include "agent/clock.h"
#include "agent/command/check.h"
#include "agent/command/check_code.h"
#include "agent/command/check_plans.h"
#include "agent/command/check_spoe.h"
#include "agent/file.h"

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
    return file_init(&check->files[CHECK_RULES], options->path)
           && file_init(&check->files[CHECK_OLD], options->old_path)
           && file_init(&check->files[CHECK_SPOE], options->spoe_path)
           && file_init(&check->files[CHECK_CONFIG],
                        options->redis != NULL ? options->config_path : NULL);
}

void check_fini(struct check *check)
{
    rules_file_free(check->file);
    rules_file_free(check->old_file);
    check_changes_fini(&check->changes);
    check_redis_fini(&check->redis);
    free(check->clients_path);
    for (size_t i = 0; i < CHECK_FILES; i++) {
        free(check->files[i].text);
        free(check->files[i].diags);
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
    struct check_file *file = &check->files[CHECK_SPOE];
    struct rules_arena arena = {NULL};
    struct spoe_conf conf = {NULL};
    if (file->path == NULL || !read_text(file, SPOE_CONF_BYTES_MAX)) {
        return;
    }
    struct rules_text text = {.bytes = file->text, .len = file->len};
    spoe_conf_read(&text, &arena, file->diags, &conf);
    if (check->file != NULL && file->diags->n_errors == 0) {
        struct check_spoe spoe = {.text = &text, .conf = &conf};
        check_spoe_find(&spoe, rules_file_ast(check->file), check->options.deadline_us,
                        file->diags);
    }
    rules_arena_fini(&arena);
}

/* @return false when memory ran out */
static bool find_in_clients(struct check *check)
{
    const struct rules_ast *ast = rules_file_ast(check->file);
    struct check_file *file = &check->files[CHECK_CLIENTS];
    if (ast->clients.path == NULL) {
        return true;
    }
    check->clients_path = file_beside(check->options.path, ast->clients.path);
    if (check->clients_path == NULL || !file_init(file, check->clients_path)) {
        file->path = NULL;
        return false;
    }
    const char *error = NULL;
    file->text = file_read(file->path, RULES_CLIENTS_BYTES_MAX, &file->len, &error);
    if (file->text == NULL) {
        rules_file_diag(check->file, check->files[CHECK_RULES].diags, RULES_ERROR,
                        ast->clients.mark, check_code_unreadable,
                        "cannot read %.128s: %s", file->path, error);
        return true;
    }
    struct rules_bytes text = {.ptr = (const uint8_t *)file->text, .len = file->len};
    struct rules_clients *clients = rules_clients_load(
        text,
        ast->clients.slot == RULES_SLOT_IP ? RULES_CLIENTS_ADDRESS : RULES_CLIENTS_TEXT,
        file->diags);
    if (clients != NULL) {
        check->n_clients = rules_clients_count(clients);
        check_plans_find(check->file, clients, check->files[CHECK_RULES].diags);
    }
    rules_clients_free(clients);
    return true;
}

/* @return false when memory ran out */
static bool compare(struct check *check)
{
    struct rules_diags *diags = check->files[CHECK_OLD].diags;
    struct rules_set *old_set = rules_file_compile(check->old_file, check->now_s,
                                                   diags);
    struct rules_set *new_set = rules_file_compile(check->file, check->now_s, diags);
    bool is_compared = false;
    if (old_set != NULL && new_set != NULL) {
        struct check_side old_side = {rules_file_ast(check->old_file), old_set};
        struct check_side new_side = {rules_file_ast(check->file), new_set};
        is_compared = check_against(&old_side, &new_side, &check->changes);
    }
    rules_set_free(old_set);
    rules_set_free(new_set);
    return is_compared;
}

/* @return false when memory ran out */
static bool find_size(struct check *check)
{
    const struct check_options *options = &check->options;
    struct check_redis_place place = {.prefix = options->prefix,
                                      .is_cluster = options->is_cluster,
                                      .fleet = check_fleet_of(options),
                                      .now_s = check->now_s};
    if (options->load.n_keys == 0) {
        return true;
    }
    check_size_find(rules_file_ast(check->file), &options->load, &check->size);
    return check_redis_size_find(rules_file_ast(check->file), &place, &options->load,
                                 &check->redis_size);
}

/* What is to be said of a file that is right. @return false when memory ran out */
static bool find_in_rules(struct check *check)
{
    struct rules_warn_place place = {
        .now_s = check->now_s,
        .n_hosts = check->options.load.n_hosts,
        .is_cluster = check->options.is_cluster,
        .lease_permyriad = check->options.lease_share,
        .sync_interval_us = check->options.sync_interval_us};
    rules_warn(check->file, &place, check->files[CHECK_RULES].diags);
    return find_size(check) && find_in_clients(check)
           && (check->old_file == NULL || compare(check));
}

static void make_strict(struct rules_diags *diags)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        diags->kept[i].severity = RULES_ERROR;
    }
    diags->n_errors += diags->n_warnings;
    diags->n_warnings = 0;
}

bool check_find(struct check *check)
{
    struct check_file *files = check->files;
    bool is_found = true;
    check->file = read_rules(&files[CHECK_RULES], check->now_s);
    if (files[CHECK_OLD].path != NULL) {
        check->old_file = read_rules(&files[CHECK_OLD], check->now_s);
    }
    if (check->file != NULL) {
        is_found = find_in_rules(check);
        if (check->options.is_redis_missing) {
            (void)rules_file_is_local(check->file, files[CHECK_RULES].diags); /* told */
        }
    }
    find_in_spoe(check);
    if (check->options.redis != NULL) {
        is_found = check_redis_find(check->options.redis, check->options.prefix,
                                    files[CHECK_CONFIG].diags, &check->redis)
                   && is_found;
    }
    for (size_t i = 0; check->options.is_strict && i < CHECK_FILES; i++) {
        if (files[i].path != NULL) {
            make_strict(files[i].diags);
        }
    }
    return is_found;
}

struct check_verdict check_verdict_find(const struct check *check)
{
    struct check_verdict verdict = {0, 0};
    for (size_t i = 0; i < CHECK_FILES; i++) {
        if (check->files[i].path != NULL) {
            verdict.n_errors += check->files[i].diags->n_errors;
            verdict.n_warnings += check->files[i].diags->n_warnings;
        }
    }
    return verdict;
}
