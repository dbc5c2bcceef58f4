/*
 * Each NAME.yaml is loaded; what comes of it is in NAME.err, the diagnostics as printed, or
 * in NAME.ok, the set, and NAME.print, the file as printed. What they include is in parts/; clients.csv is a bad file of clients.
 * UPDATE_GOLDEN=1 in the environment writes these files anew.
 */
#define _POSIX_C_SOURCE 200809L /* opendir, open_memstream, strdup */

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

#include "rules/calendar.h"
#include "rules/clients.h"
#include "rules/print.h"

#include "tests/unit/rules/support.h"

#define FOLDER "tests/golden/rules/"

static char *file_read(const char *path, size_t *len)
{
    static char buf[65536];
    FILE *file = fopen(path, "rb");

    *len = 0;
    if (file != NULL) {
        *len = fread(buf, 1, sizeof buf - 1, file);
        assert_int_equal(fclose(file), 0);
    }
    buf[*len] = '\0';
    return buf;
}

static const char *algorithm_text(enum rules_algorithm algorithm)
{
    static const char *const texts[] = {
        [RULES_SLIDING_WINDOW] = "sliding_window",
        [RULES_TOKEN_BUCKET] = "token_bucket",
        [RULES_FIXED_WINDOW] = "fixed_window",
        [RULES_LEAKY_BUCKET] = "leaky_bucket",
        [RULES_SLIDING_LOG] = "sliding_log",
    };

    return texts[algorithm];
}

static void limit_print(const struct rules_limit *limit, FILE *out)
{
    (void)fprintf(out,
                  "  %s %s %" PRId64 " per %" PRId64 " us, burst %" PRId64 ", %" PRId64
                  " ticks of %" PRId64 " us\n  ",
                  limit->name, algorithm_text(limit->algorithm), limit->requests,
                  limit->per_us, limit->burst, limit->per_ticks, limit->tick_us);
    if (limit->calendar != NULL) {
        char calendar[RULES_CALENDAR_TEXT_BYTES_MAX];

        rules_calendar_print(limit->calendar, calendar);
        (void)fprintf(out, "%s\n  ", calendar);
    }
    if (limit->algorithm == RULES_LEAKY_BUCKET) {
        (void)fprintf(out, "up to %" PRId64 " ticks later\n  ", limit->max_delay_ticks);
    }
    for (size_t i = 0; i < RULES_LIMIT_ID_BYTES; i++) {
        (void)fprintf(out, "%02x", limit->id[i]);
    }
    (void)fprintf(out, "\n");
}

/** Where its counters are, if not on each host. */
static void store_print(const struct rules_rule *rule, FILE *out)
{
    static const char *const texts[] = {
        [RULES_STORE_LOCAL] = "",
        [RULES_STORE_REDIS] = " redis",
        [RULES_STORE_LEASE] = " lease",
        [RULES_STORE_SYNC] = " sync",
    };

    (void)fputs(texts[rule->store], out);
    if (rule->n_shards != 1) {
        (void)fprintf(out, " in %u", rule->n_shards);
    }
}

static void set_print(const struct rules_set *set, FILE *out)
{
    (void)fprintf(out, "domain %s, %u rules, %u limits\n", rules_set_domain(set),
                  rules_set_n_rules(set), rules_set_n_limits(set));
    for (uint32_t i = 0; i < rules_set_n_rules(set); i++) {
        const struct rules_rule *rule = rules_set_rule(set, i);

        (void)fprintf(out, "%s owner=%s %s%s%s%s", rule->name,
                      rule->owner != NULL ? rule->owner : "-",
                      rule->mode == RULES_SHADOW ? "shadow" : "enforce",
                      rule->is_keyed ? " keyed" : "",
                      rule->is_advertised ? " shown" : "",
                      rule->is_settled ? " settled" : "");
        store_print(rule, out);
        (void)fputc('\n', out);
        for (uint32_t j = 0; j < rule->n_limits; j++) {
            limit_print(&rule->limits[j], out);
        }
    }
}

static void golden_compare(const char *path, const char *got)
{
    size_t len;

    if (getenv("UPDATE_GOLDEN") != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        FILE *file = fopen(path, "wb");

        assert_non_null(file);
        assert_true(fputs(got, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    if (strcmp(file_read(path, &len), got) != 0) {
        fail_msg("%s is not:\n%s", path, got);
    }
}

static char *part_read(void *context, const char *path, size_t bytes_max, size_t *len,
                       const char **error)
{
    char real[512];
    char *text;

    (void)context;
    (void)snprintf(real, sizeof real, FOLDER "%s", path);
    text = strdup(file_read(real, len));
    assert_non_null(text);
    assert_true(*len <= bytes_max);
    if (*len == 0) {
        *error = "no such file";
        free(text);
        text = NULL;
    }
    return text;
}

/** What is printed is kept in NAME.print, and prints as itself. */
static void print_check(const struct rules_file *file, const char *stem)
{
    static struct rules_diags diags;
    uint32_t n_events;
    size_t len;
    char *text = rules_file_print(file, &len, &n_events);
    char path[512];
    struct rules_file *again;
    char *text_again;

    (void)snprintf(path, sizeof path, FOLDER "%s.print", stem);
    golden_compare(path, text);
    rules_diags_init(&diags, "printed");
    again = rules_file_read(&(struct rules_source){.name = "printed",
                                                   .text = bytes_of(text)},
                            &diags);
    rules_diags_print(&diags, stderr);
    assert_non_null(again);
    text_again = rules_file_print(again, &len, &n_events);
    assert_string_equal(text_again, text);
    free(text_again);
    free(text);
    rules_file_free(again);
}

static void file_check(const char *stem)
{
    static struct rules_diags diags;
    char path[512];
    char name[300];
    char *got = NULL;
    char *text;
    size_t got_len;
    size_t len;
    FILE *out = open_memstream(&got, &got_len);
    struct rules_file *file;
    struct rules_set *set = NULL;

    assert_non_null(out);
    (void)snprintf(path, sizeof path, FOLDER "%s.yaml", stem);
    (void)snprintf(name, sizeof name, "%s.yaml", stem);
    text = strdup(file_read(path, &len));
    assert_non_null(text);
    rules_diags_init(&diags, name);
    file = rules_file_read(&(struct rules_source){.name = name,
                                                  .text = {(const uint8_t *)text, len},
                                                  .read = part_read},
                           &diags);
    if (file != NULL) {
        set = rules_file_compile(file, 0, &diags);
        assert_non_null(set);
        set_print(set, out);
        print_check(file, stem);
    }
    rules_diags_print(&diags, out);
    assert_int_equal(fclose(out), 0);
    (void)snprintf(path, sizeof path, FOLDER "%s.%s", stem, set != NULL ? "ok" : "err");
    golden_compare(path, got);
    free(got);
    free(text);
    rules_file_free(file);
    rules_set_free(set);
}

static void test_files(void **state)
{
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        char *end = strstr(entry->d_name, ".yaml");

        if (end != NULL && end[5] == '\0') {
            *end = '\0';
            file_check(entry->d_name);
            n++;
        }
    }
    assert_int_equal(closedir(folder), 0);
    assert_true(n >= 8);
}

static void test_clients(void **state)
{
    static struct rules_diags diags;
    char *got = NULL;
    size_t got_len;
    size_t len;
    FILE *out = open_memstream(&got, &got_len);
    const uint8_t *text = (const uint8_t *)file_read(FOLDER "clients.csv", &len);

    (void)state;
    assert_non_null(out);
    rules_diags_init(&diags, "clients.csv");
    assert_null(rules_clients_load((struct rules_bytes){text, len}, RULES_CLIENTS_TEXT,
                                   &diags));
    rules_diags_print(&diags, out);
    assert_int_equal(fclose(out), 0);
    golden_compare(FOLDER "clients.err", got);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
