/* Every rules file that is shipped, and every whole one that the documents show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/rules.h"

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

static void shipped_files(void **context)
{
    (void)context;
    static const char *const paths[] = {"haproxy/rules.yaml",
                                        "rules/examples/everything.yaml"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        size_t len = 0;
        char *text = read_document(paths[i], &len);
        expect_rules(paths[i], text, len);
        free(text);
    }
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
        cmocka_unit_test(shipped_files),
        cmocka_unit_test(documents),
        cmocka_unit_test(example_of_agent_yaml),
        cmocka_unit_test(metrics_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
