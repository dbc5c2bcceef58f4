/* Every rules file of the golden tests, good and bad, with each allocation failing in turn;
 * the arena asks for every piece by itself here. */
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include "rules/clients.h"
#include "rules/explain.h"
#include "rules/print.h"

#include "tests/support/alloc_failure.h"
#include "tests/unit/rules/support.h"

static struct {
    char text[65536];
    size_t len;
    bool is_good;
    struct rules_diags diags;
} f;

/* Without stdio, which has allocations of its own. */
static char *read_part(void *context, const char *path, size_t bytes_max, size_t *len,
                       const char **error)
{
    char real[512];
    char *text = malloc(sizeof f.text);
    ssize_t n = -1;
    int fd;

    (void)context;
    assert_true(bytes_max >= sizeof f.text);
    (void)snprintf(real, sizeof real, "tests/golden/rules/%s", path);
    fd = open(real, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && text != NULL) {
        n = read(fd, text, sizeof f.text);
    }
    if (fd >= 0) {
        assert_int_equal(close(fd), 0);
    }
    if (n < 0) {
        *error = text == NULL ? "out of memory" : "no such file";
        free(text);
        return NULL;
    }
    *len = (size_t)n;
    return text;
}

/** Read, compile and print. */
static struct rules_set *load(void)
{
    struct rules_bytes bytes = {.ptr = (const uint8_t *)f.text, .len = f.len};

    struct rules_file *file;
    struct rules_set *set;
    uint32_t n_events;
    char *printed;
    size_t len;

    rules_diags_init(&f.diags, "rules.yaml");
    file = rules_file_read(&(struct rules_source){.name = "rules.yaml",
                                                  .text = bytes,
                                                  .read = read_part},
                           &f.diags);
    set = file != NULL ? rules_file_compile(file, 0, &f.diags) : NULL;
    printed = set != NULL ? rules_file_print(file, &len, &n_events) : NULL;
    if (set != NULL && printed == NULL) {
        rules_diags_add(&f.diags, RULES_ERROR, (struct rules_mark){0}, NULL, "print",
                        "out of memory");
        rules_set_free(set);
        set = NULL;
    }
    free(printed);
    rules_file_free(file);
    return set;
}

static bool is_out_of_memory(void)
{
    bool is_told = false;

    for (uint32_t i = 0; i < f.diags.n_kept; i++) {
        is_told |= strstr(f.diags.kept[i].text, "out of memory") != NULL;
    }
    return is_told;
}

/* The file is judged as ever, or memory is said to be short. */
static bool is_judged(void)
{
    struct rules_set *set = load();
    bool is_short = is_out_of_memory();

    assert_int_equal(set != NULL, f.diags.n_errors == 0);
    assert_int_equal(set != NULL, f.is_good && !is_short);
    rules_set_free(set);
    return !is_short;
}

static void file_check(const char *path)
{
    FILE *file = fopen(path, "re");
    struct rules_set *set;

    assert_non_null(file);
    f.len = fread(f.text, 1, sizeof f.text, file);
    assert_int_equal(fclose(file), 0);
    set = load();
    f.is_good = set != NULL;
    rules_set_free(set);
    alloc_failure_each(is_judged, 2);
}

static void test_files(void **state)
{
    glob_t paths;

    (void)state;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    assert_int_equal(glob("tests/golden/rules/*.yaml", 0, NULL, &paths), 0);
    assert_true(paths.gl_pathc >= 8);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        file_check(paths.gl_pathv[i]);
    }
    globfree(&paths);
}

static bool is_table_judged(void)
{
    struct rules_clients *clients;
    bool is_short;

    rules_diags_init(&f.diags, "clients.csv");
    clients = rules_clients_load(bytes_of("a,b\nc,d\n"), RULES_CLIENTS_TEXT, &f.diags);
    is_short = is_out_of_memory();
    assert_int_equal(clients == NULL, is_short);
    rules_clients_free(clients);
    return !is_short;
}

static void test_clients(void **state)
{
    (void)state;
    alloc_failure_each(is_table_judged, 2);
}

static bool is_request_explained(void)
{
    static struct rules_request request;
    struct rules_set *set = load();
    struct rules_explanation *explanation = set != NULL ? rules_explain(set, &request)
                                                        : NULL;
    bool is_explained = explanation != NULL;

    rules_explanation_free(explanation);
    rules_set_free(set);
    return is_explained;
}

static void test_explanation(void **state)
{
    (void)state;
    f.len = (size_t)snprintf(f.text, sizeof f.text,
                             "version: 1\ndomain: api\nrules:\n"
                             "- {name: a, key: [], limit: {requests: 1, per: 1s}}\n"
                             "- {name: b, match: {a: b}, key: [],"
                             " limit: {requests: 1, per: 1s}}\n");
    alloc_failure_each(is_request_explained, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_explanation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
