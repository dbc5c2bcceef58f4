/* Every rules file that is shipped, and every whole one that the documents show. */
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

#include "rules/rules.h"

#include "agent/command/check.h"
#include "agent/config.h"
#include "agent/file.h"
#include "agent/observe/counters.h"

enum {
    DOCUMENT_BYTES_MAX = 1024 * 1024
};

static struct rules_diags diags;

static void expect_rules(const char *name, const char *text, size_t len)
{
    rules_diags_init(&diags, name);
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    struct rules_set *set = rules_load(&(struct rules_source){.name = name,
                                                              .text = bytes},
                                       &diags);
    rules_diags_print(&diags, stderr);
    assert_non_null(set);
    assert_int_equal(diags.n_warnings, 0);
    rules_set_free(set);
}

static char *read_document(const char *path, size_t *len)
{
    const char *error = NULL;
    char *text = file_read(path, DOCUMENT_BYTES_MAX, len, &error);
    assert_non_null(text);
    return text;
}

/* 2026-11-30T12:00:00Z */
#define NOW_S INT64_C(1796040000)

/* The codes of what check finds, in its order, with spaces between them. */
static void expect_found(const char *path, const char *spoe_path, const char *wanted)
{
    struct check check;
    struct check_options options = {.path = path,
                                    .spoe_path = spoe_path,
                                    .load.n_hosts = 1,
                                    .lease_share = 500,
                                    .sync_interval_us = 100000};
    char codes[1024] = "";
    size_t n = 0;
    assert_true(check_init(&check, &options, NOW_S));
    assert_true(check_find(&check));
    for (size_t i = 0; i < CHECK_FILES; i++) {
        const struct rules_diags *found = check.files[i].diags;
        for (uint32_t j = 0; found != NULL && j < found->n_kept; j++) {
            n += (size_t)snprintf(codes + n, sizeof(codes) - n, "%s%s",
                                  n > 0 ? " " : "", found->kept[j].code);
            assert_true(n < sizeof(codes));
        }
    }
    check_fini(&check);
    if (strcmp(codes, wanted) != 0) {
        fail_msg("%s: check finds '%s', not '%s'", path, codes, wanted);
    }
}

static const char shipped_spoe[] = "haproxy/spoe-ratelimit.conf";

/* What check --strict is to say of each; and of those that need no more than the shipped
 * files send, together with these. */
static const struct {
    const char *path;
    const char *spoe_path;
    const char *wanted;
} shipped[] = {
    {"haproxy/rules.yaml", shipped_spoe, ""},
    {"rules/examples/anonymous_and_keys.yaml", shipped_spoe, ""},
    {"rules/examples/everything.yaml", NULL,
     "claimed-key claimed-key calendar-on-local claimed-key no-end no-end"},
    {"rules/examples/export_quota.yaml", shipped_spoe, "calendar-on-local"},
    {"rules/examples/fleet.yaml", NULL, ""},
    {"rules/examples/global_cap.yaml", NULL, ""},
    {"rules/examples/ipv6.yaml", shipped_spoe, "only-addresses"},
    {"rules/examples/lists.yaml", shipped_spoe, ""},
    {"rules/examples/login.yaml", NULL, ""},
    {"rules/examples/percent_rollout.yaml", NULL, ""},
    {"rules/examples/plans.yaml", NULL, ""},
    {"rules/examples/search_costs.yaml", shipped_spoe, ""},
    {"rules/examples/tenant_override.yaml", NULL, ""},
    {"rules/examples/true_cost.yaml", shipped_spoe, ""},
    {"rules/examples/webhooks.yaml", NULL, ""},
};

static void shipped_files(void **context)
{
    (void)context;
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++) {
        size_t len = 0;
        char *text = read_document(shipped[i].path, &len);
        expect_rules(shipped[i].path, text, len);
        expect_found(shipped[i].path, shipped[i].spoe_path, shipped[i].wanted);
        free(text);
    }
}

static bool is_shipped(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++) {
        if (strcmp(shipped[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* No example is left out above. */
static void all_examples(void **context)
{
    (void)context;
    DIR *folder = opendir("rules/examples");
    assert_non_null(folder);
    struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        char path[512];
        (void)snprintf(path, sizeof(path), "rules/examples/%s", entry->d_name);
        if (strstr(path, ".yaml") != NULL && !is_shipped(path)) {
            fail_msg("%s is not tried", path);
        }
    }
    assert_int_equal(closedir(folder), 0);
}

/* As expect_found, of a text. */
static void expect_found_in(const char *text, size_t len, const char *wanted)
{
    char path[] = "/tmp/test_examples.XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, len), len);
    (void)close(fd);
    expect_found(path, NULL, wanted);
    (void)unlink(path);
}

/* The blocks of a document that begin with a version are whole files. */
static void documents(void **context)
{
    (void)context;
    static const char *const paths[] = {"README.md", "rules/README.md"};
    static const char open[] = "```yaml\nversion:";
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        size_t len = 0;
        unsigned n_blocks = 0;
        char *text = read_document(paths[i], &len);
        for (char *at = strstr(text, open); at != NULL; at = strstr(at, open)) {
            at = strchr(at, '\n') + 1;
            const char *end = strstr(at, "```");
            assert_non_null(end);
            expect_rules(paths[i], at, (size_t)(end - at));
            expect_found_in(at, (size_t)(end - at), "");
            n_blocks++;
        }
        assert_true(n_blocks > 0);
        free(text);
    }
}

/* agent.yaml as agent/README.md shows it. */
static void example_of_agent_yaml(void **context)
{
    (void)context;
    static const char open[] = "```yaml\nlisten:";
    size_t len = 0;
    char *text = read_document("agent/README.md", &len);
    const char *at = strstr(text, open);
    assert_non_null(at);
    at = strchr(at, '\n') + 1;
    const char *end = strstr(at, "```");
    assert_non_null(end);
    char path[] = "/tmp/test_examples.XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, at, (size_t)(end - at)), end - at);
    (void)close(fd);
    struct config config;
    config_init(&config);
    assert_true(config_read(&config, path, stderr));
    (void)unlink(path);
    free(text);
}

/* Every counter is in the table of agent/README.md. */
static void metrics_are_listed(void **context)
{
    (void)context;
    static const char *const rows[] = {
#define X(name, metric, help) "| `" metric "` |",
        COUNTER_TABLE(X)
#undef X
    };
    size_t len = 0;
    char *text = read_document("agent/README.md", &len);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strstr(text, rows[i]) == NULL) {
            print_error("not listed: %s\n", rows[i]);
            fail();
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_files),      cmocka_unit_test(all_examples),
        cmocka_unit_test(documents),          cmocka_unit_test(example_of_agent_yaml),
        cmocka_unit_test(metrics_are_listed),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
