/*
 * Each NAME.yaml is checked, with NAME.conf as SPOE file and NAME.old as what was before
 * where there are these, as of a fixed day; what check prints is in NAME.out, and in
 * NAME.json. A first line "# check: hosts=3 keys=1000 rate=50
 * strict" has options. UPDATE_GOLDEN=1 in the environment writes these files anew.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "agent/command/check.h"
#include "agent/command/check_code.h"
#include "agent/decide/decide.h"
#include "agent/file.h"

#define FOLDER "tests/golden/check/"

/* 2026-11-30T12:00:00Z */
#define NOW_S INT64_C(1796040000)

enum {
    PATH_ROOM = 512,
    FILE_BYTES_MAX = 1024 * 1024,
};

static bool is_seen[CHECK_CODES_COUNT];

static int64_t option_number(const char *line, const char *name, int64_t otherwise)
{
    const char *at = strstr(line, name);
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : otherwise;
}

static void read_options(const char *path, struct check_options *options)
{
    size_t len = 0;
    const char *error = NULL;
    char *text = file_read(path, FILE_BYTES_MAX, &len, &error);
    assert_non_null(text);
    text[strcspn(text, "\n")] = '\0';
    const char *line = strncmp(text, "# check:", 8) == 0 ? text : "";
    options->load.n_hosts = option_number(line, "hosts=", 1);
    options->load.n_keys = option_number(line, "keys=", 0);
    options->load.rate = option_number(line, "rate=", 0);
    options->n_workers = option_number(line, "workers=", 2);
    options->lease_horizon_us = option_number(line, "horizon=", 1000000);
    options->lease_share = (int32_t)option_number(line, "share=", 500);
    options->sync_interval_us = option_number(line, "interval=", 100000);
    options->is_strict = strstr(line, "strict") != NULL;
    options->is_cluster = strstr(line, "cluster") != NULL;
    free(text);
}

static void note_codes(const struct check *check)
{
    for (size_t i = 0; i < CHECK_FILES; i++) {
        const struct rules_diags *diags = check->files[i].diags;
        for (uint32_t j = 0; diags != NULL && j < diags->n_kept; j++) {
            for (size_t k = 0; k < CHECK_CODES_COUNT; k++) {
                is_seen[k] |= strcmp(diags->kept[j].code, check_codes[k]) == 0;
            }
        }
    }
}

static void expect(const char *path, const char *got)
{
    const char *error = NULL;
    size_t len = 0;
    if (getenv("UPDATE_GOLDEN") != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        assert_true(file_replace(path, got, strlen(got), 0644, &error));
    }
    char *wanted = file_read(path, FILE_BYTES_MAX, &len, &error);
    if (wanted == NULL || strcmp(wanted, got) != 0) {
        free(wanted);
        fail_msg("%s is not:\n%s", path, got);
    }
    free(wanted);
}

typedef void print_fn(const struct check *check, FILE *out);

static void expect_print(const struct check *check, print_fn *print, const char *path)
{
    char *got = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&got, &len);
    assert_non_null(out);
    print(check, out);
    assert_int_equal(fclose(out), 0);
    expect(path, got);
    free(got);
}

static void print_json(const struct check *check, FILE *out)
{
    assert_true(check_print_json(check, out));
}

static void check_stem(const char *stem)
{
    char path[PATH_ROOM];
    char spoe_path[PATH_ROOM];
    char old_path[PATH_ROOM];
    char out_path[PATH_ROOM];
    struct check_options options = {.path = path,
                                    .deadline_us = DECIDE_DEADLINE_US,
                                    .prefix = "rl"};
    struct check check;
    (void)snprintf(path, sizeof(path), FOLDER "%s.yaml", stem);
    (void)snprintf(spoe_path, sizeof(spoe_path), FOLDER "%s.conf", stem);
    (void)snprintf(old_path, sizeof(old_path), FOLDER "%s.old", stem);
    options.old_path = access(old_path, F_OK) == 0 ? old_path : NULL;
    options.spoe_path = access(spoe_path, F_OK) == 0 ? spoe_path : NULL;
    read_options(path, &options);
    assert_true(check_init(&check, &options, NOW_S));
    assert_true(check_find(&check));
    (void)snprintf(out_path, sizeof(out_path), FOLDER "%s.out", stem);
    expect_print(&check, check_print, out_path);
    (void)snprintf(out_path, sizeof(out_path), FOLDER "%s.json", stem);
    expect_print(&check, print_json, out_path);
    note_codes(&check);
    check_fini(&check);
}

static void files(void **context)
{
    (void)context;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    struct dirent *entry = NULL;
    size_t n = 0;
    while ((entry = readdir(folder)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        char *end = strstr(entry->d_name, ".yaml");
        if (end != NULL && end[5] == '\0') {
            *end = '\0';
            check_stem(entry->d_name);
            n++;
        }
    }
    assert_int_equal(closedir(folder), 0);
    assert_true(n >= 5);
}

static void missing_file(void **context)
{
    (void)context;
    struct check_options options = {.path = FOLDER "missing",
                                    .deadline_us = DECIDE_DEADLINE_US,
                                    .spoe_path = FOLDER,
                                    .load.n_hosts = 1};
    struct check check;
    assert_true(check_init(&check, &options, NOW_S));
    assert_true(check_find(&check));
    assert_int_equal(check_verdict_find(&check).n_errors, 2);
    assert_string_equal(check.files[CHECK_RULES].diags->kept[0].text,
                        "No such file or directory");
    assert_int_equal(check.files[CHECK_SPOE].diags->n_errors, 1);
    note_codes(&check);
    check_fini(&check);
}

/* What stands under a heading of the README; to be freed. */
static char *read_section(const char *heading)
{
    const char *error = NULL;
    size_t len = 0;
    char *text = file_read("rules/README.md", FILE_BYTES_MAX, &len, &error);
    assert_non_null(text);
    const char *begin = strstr(text, heading);
    assert_non_null(begin);
    const char *end = strstr(begin + strlen(heading), "\n##");
    char *section = strndup(begin, end != NULL ? (size_t)(end - begin) : strlen(begin));
    assert_non_null(section);
    free(text);
    return section;
}

/* Each code is explained, and no other; each has been seen, of a Redis by another test. */
static void codes(void **context)
{
    (void)context;
    char *table = read_section("\n### Codes of check beyond the rules file\n");
    size_t n_rows = 0;
    for (const char *p = table; (p = strstr(p, "\n| `")) != NULL; p++) {
        n_rows++;
    }
    assert_int_equal(n_rows, CHECK_CODES_COUNT);
    for (size_t i = 0; i < CHECK_CODES_COUNT; i++) {
        char row[64];
        (void)snprintf(row, sizeof(row), "\n| `%s` |", check_codes[i]);
        bool is_of_redis = strncmp(check_codes[i], "redis-", 6) == 0;
        if (strstr(table, row) == NULL || (!is_seen[i] && !is_of_redis)) {
            fail_msg("%s: not in rules/README.md, or never provoked", check_codes[i]);
        }
    }
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(missing_file),
        cmocka_unit_test(codes),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
