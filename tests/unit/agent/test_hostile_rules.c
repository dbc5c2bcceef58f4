/* Rules files as large and as bad as they come, each read in a process of its own: a bad one
 * is refused within a second of processor time and 64 MiB, the file and the program
 * included; the largest good ones are made ready to decide with in two seconds and 128. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sodium.h>

#include "agent/decide/set.h"

/* Sanitizers cost their share of time, and memory says nothing under them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
enum {
    REFUSED_SECONDS_MAX = 10,
    ACCEPTED_SECONDS_MAX = 20,
    IS_MEMORY_MEASURED = 0,
};
#else
enum {
    REFUSED_SECONDS_MAX = 1,
    ACCEPTED_SECONDS_MAX = 2,
    IS_MEMORY_MEASURED = 1,
};
#endif

enum {
    REFUSED_MIB_MAX = 64,
    ACCEPTED_MIB_MAX = 128,
};

enum {
    ACCEPTED = 0, /* exit codes of the process */
    REFUSED = 10,
    SHORT_OF_MEMORY = 11,
};

static struct {
    char bytes[RULES_FILE_BYTES_MAX];
    size_t len;
} text;

static bool has_room(size_t len)
{
    return text.len + len <= sizeof(text.bytes);
}

static void put(const char *part)
{
    size_t len = strlen(part);
    assert_true(has_room(len));
    memcpy(text.bytes + text.len, part, len);
    text.len += len;
}

static void put_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put_format(const char *format, ...)
{
    char part[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(part, sizeof(part), format, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof(part));
    put(part);
}

/* In the child: what a reload does. The code of the first error goes to `out`. */
static int load(int out)
{
    static struct rules_diags diags;
    rules_diags_init(&diags, "rules.yaml");
    struct rules_source source = {
        .name = "rules.yaml",
        .text = {.ptr = (const uint8_t *)text.bytes, .len = text.len},
    };
    struct rules_set *rules = rules_load(&source, &diags);
    if (rules == NULL) {
        const char *code = diags.n_kept > 0 ? diags.kept[0].code : "no error";
        return write(out, code, strlen(code)) > 0 ? REFUSED : -1;
    }
    struct decide_set *set = decide_set_new(rules, "rl");
    decide_set_free(set);
    return set != NULL ? ACCEPTED : SHORT_OF_MEMORY;
}

/* What became of a file. */
struct ending {
    int status;
    char code[64];
    long cpu_ms;
    long peak_kib;
};

static void run(struct ending *ending, unsigned seconds_max)
{
    struct rusage usage;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit cpu = {seconds_max, seconds_max};
        (void)setrlimit(RLIMIT_CPU, &cpu);
        _exit(load(ends[1]));
    }
    (void)close(ends[1]);
    assert_int_equal(wait4(pid, &ending->status, 0, &usage), pid);
    ssize_t n = read(ends[0], ending->code, sizeof(ending->code) - 1);
    ending->code[n > 0 ? n : 0] = '\0';
    (void)close(ends[0]);
    ending->cpu_ms = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000
                     + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
    ending->peak_kib = usage.ru_maxrss;
}

/* Load `text`, which is refused with `code`, or accepted where that is NULL. */
static void expect(const char *name, const char *code)
{
    struct ending ending = {0};
    long mib_max = code != NULL ? REFUSED_MIB_MAX : ACCEPTED_MIB_MAX;
    run(&ending, code != NULL ? REFUSED_SECONDS_MAX : ACCEPTED_SECONDS_MAX);
    print_message("%-46s %5zu KiB  %-15s %4ld ms %4ld MiB\n", name, text.len / 1024,
                  code != NULL ? ending.code : "accepted", ending.cpu_ms,
                  ending.peak_kib / 1024);
    if (WIFSIGNALED(ending.status)) {
        fail_msg("%s: ended by signal %d", name, WTERMSIG(ending.status));
    }
    assert_int_equal(WEXITSTATUS(ending.status), code != NULL ? REFUSED : ACCEPTED);
    assert_string_equal(ending.code, code != NULL ? code : "");
    if (IS_MEMORY_MEASURED) {
        assert_in_range(ending.peak_kib, 1, mib_max * 1024);
    }
}

/* A file of the largest size: `head`, and then `unit` again and again. */
static void expect_filled(const char *head, const char *unit, const char *code)
{
    char name[64];
    text.len = 0;
    put(head);
    while (has_room(strlen(unit))) {
        put(unit);
    }
    (void)snprintf(name, sizeof(name), "%.16s%.16s...", head, unit);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '\n' || *at == '\xff' ? '~' : *at;
    }
    expect(name, code);
}

static void what_is_no_rules_file(void **context)
{
    (void)context;
    expect_filled("", "{a: ", "yaml-depth");
    expect_filled("[", "a,", "yaml-events");
    expect_filled("[", "a: b,", "yaml-events");
    expect_filled("", "- a\n", "yaml-events");
    expect_filled("a: '", "x", "yaml-syntax");
    expect_filled("a: |\n", " x\n", "yaml-scalar");
    expect_filled("a: &a [x]\nb: ", "[*a, *a], ", "yaml-anchor");
    expect_filled("", "#\n", "yaml-empty");
    expect_filled("", "\xff", "yaml-encoding");
    text.len = 0;
    while (has_room(1)) {
        text.bytes[text.len++] = '\0';
    }
    expect("NUL", "yaml-encoding");
}

static void begin(void)
{
    text.len = 0;
    put("version: 1\ndomain: hostile\nrules:\n");
}

static void put_rules(int n, const char *fields)
{
    for (int i = 0; i < n; i++) {
        put_format("- {name: r%d, key: [ip], limit: {requests: 1, per: 1s}%s}\n", i,
                   fields);
    }
}

static void bad_rules(void **context)
{
    (void)context;
    begin();
    for (int i = 0; i < 66000; i++) {
        put("- a: 1\n");
    }
    expect("66 000 rules of an unknown field", "yaml-events");
    begin();
    for (int i = 0; i < 49000; i++) {
        put("- a: 1\n");
    }
    expect("49 000 rules of an unknown field", "too-many-rules");
    begin();
    put_rules(15000, "");
    expect("15 000 rules", "yaml-events");
    begin();
    put_rules(9000, ", kee: 1, sfot: 2, acton: 3");
    expect("9 000 rules with three unknown fields each", "unknown-field");
    begin();
    for (int i = 0; i < 10000; i++) {
        put("- {name: same, key: [ip, ip], limit: {requests: x, per: 3}}\n");
    }
    expect("10 000 rules of one name", "duplicate-key-part");
    begin();
    put_rules(1, "");
    put("lists: {block: {ip: [");
    for (int i = 0; i < 199000; i++) {
        put("10.0.0.1,");
    }
    put("]}}\n");
    expect("199 000 times one address", "duplicate-value");
    begin();
    put_rules(10000, "");
    put("defaults: {plans: {a: 2x, b: 2x, c: 2x, d: 2x, e: 2x}}\n");
    expect("10 000 rules with 5 plans by default", "too-many-plans");
    begin();
    for (int i = 0; i < 9000; i++) {
        put_format("- {name: r%d, key: [ip], limit: {requests: 1, per: 1s}, "
                   "overrides: r%d}\n",
                   i, (i + 1) % 9000);
    }
    expect("a ring of 9 000 overrides", "override-cycle");
}

static void rules_by_the_thousand(void **context)
{
    (void)context;
    begin();
    put_rules(10000, "");
    expect("10 000 rules", NULL);
    begin();
    put_rules(10000, "");
    put("defaults: {plans: {a: 2x, b: 2x, c: 2x, d: 2x}}\n");
    expect("10 000 rules with 4 plans by default", NULL);
    begin();
    put_rules(10000, "");
    put("defaults: {costs: [");
    for (int i = 0; i < RULES_COSTS_MAX; i++) {
        put_format("{match: {path: '/v1/x%d/**'}, cost: 2},", i);
    }
    put("]}\n");
    expect("10 000 rules with 64 costs by default", NULL);
    begin();
    put_rules(10000, "");
    put("defaults: {charge: {after: response, when: {status: [");
    for (int i = 100; i < 500; i++) {
        put_format("%d,", i);
    }
    put("]}}}\n");
    expect("10 000 rules with 400 statuses by default", NULL);
    begin();
    for (int i = 0; i < 1400; i++) {
        put_format("- {name: r%d, key: [ip], limit: {requests: 1, per: 1s}, plans: {",
                   i);
        for (int j = 0; j < 34; j++) {
            put_format("p%d: 2x,", j);
        }
        put("}}\n");
    }
    expect("1 400 rules with 34 plans each", NULL);
    begin();
    for (int i = 0; i < 9000; i++) {
        put_format("- {name: r%d, key: [ip], limit: {requests: 1, per: day, timezone: "
                   "Europe/Berlin}, overrides: r%d}\n",
                   i, i + 1);
    }
    put("- {name: r9000, key: [], limit: {requests: 1, per: 1s}}\n");
    expect("a chain of 9 000 overrides, with days", NULL);
}

static void values_by_the_thousand(void **context)
{
    (void)context;
    begin();
    put_rules(1, "");
    put("lists: {block: {ip: [");
    for (int i = 0; i < 199000; i++) {
        put_format("10.%d.%d.%d,", i / 65536, i / 256 % 256, i % 256);
    }
    put("]}}\n");
    expect("199 000 blocked addresses", NULL);
    begin();
    put_rules(1, "");
    put("lists: {block: {api_key: [");
    for (int i = 0; i < 199000; i++) {
        put_format("k_0123456789_%d,", i);
    }
    put("]}}\n");
    expect("199 000 blocked keys", NULL);
    begin();
    for (int i = 0; i < 190; i++) {
        put_format("- {name: r%d, key: [], limit: {requests: 1, per: 1s}, match: {x: [",
                   i);
        for (int j = 0; j < 1000; j++) {
            put_format("v%d,", j);
        }
        put("]}}\n");
    }
    expect("190 rules for one of 1 000 values each", NULL);
    begin();
    put_rules(1, "");
    put("lists: {block: {api_key: [");
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 65000; j++) {
            put("x");
        }
        put_format("%d,", i);
    }
    put("]}}\n");
    expect("60 blocked keys of 65 000 bytes", NULL);
}

/* Rules for paths of sixty segments after one of their own. */
static void put_paths(int n, bool is_wild)
{
    begin();
    for (int i = 0; i < n; i++) {
        put_format("- {name: r%d, key: [], limit: {requests: 1, per: 1s}, "
                   "match: {path: '/a%d",
                   i, i);
        for (int j = 0; j < 60; j++) {
            put(is_wild ? "/*" : "/b");
        }
        put("'}}\n");
    }
}

static void paths_by_the_thousand(void **context)
{
    (void)context;
    put_paths(10000, true);
    expect("10 000 patterns of 61 segments", NULL);
    put_paths(10000, false);
    expect("10 000 paths of 61 segments", NULL);
    begin();
    for (int i = 0; i < 6000; i++) {
        put_format("- {name: r%d, key: [], limit: {requests: 1, per: 1s}, "
                   "match: {path: '/",
                   i);
        for (int j = 0; j < 59; j++) {
            put_format("%x/", (unsigned)(i * 7919 + j) & 0xfffffU);
        }
        put("**'}}\n");
    }
    expect("6 000 patterns of 60 names", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_rules_file),
        cmocka_unit_test(bad_rules),
        cmocka_unit_test(rules_by_the_thousand),
        cmocka_unit_test(values_by_the_thousand),
        cmocka_unit_test(paths_by_the_thousand),
    };
    if (sodium_init() < 0) {
        return EXIT_FAILURE;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
