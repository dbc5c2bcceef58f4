/* counters.c and metrics.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/observe/metrics.h"

static const char *limit_name(const void *context, uint32_t idx)
{
    (void)context;
    return idx == 0 ? "first" : "second";
}

static void assert_has_line(const char *text, const char *line)
{
    if (strstr(text, line) == NULL) {
        print_error("no line %s in:\n%s", line, text);
        fail();
    }
}

static void blocks_of_all_workers_add_up(void **context)
{
    (void)context;
    struct counters *counters[2] = {counters_new(2), counters_new(2)};
    assert_non_null(counters[0]);
    assert_non_null(counters[1]);
    counter_add(counters[0], COUNTER_NOTIFIES, 3);
    counter_add(counters[1], COUNTER_NOTIFIES, 4);
    counter_outcome(counters[0], 1, OUTCOME_REFUSED);
    counter_outcome(counters[1], 1, OUTCOME_REFUSED);
    counter_outcome(counters[1], 0, OUTCOME_WOULD_REFUSE);
    struct metrics_source source = {.counters = counters,
                                    .n_counters = 2,
                                    .limit_name = limit_name};
    assert_int_equal(metrics_sum(&source, COUNTER_NOTIFIES), 7);
    assert_int_equal(metrics_sum(&source, COUNTER_ACKS), 0);

    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    metrics_print(&source, out);
    metrics_print_one(out, "connections", "gauge", "Open connections", -5);
    (void)fclose(out);
    assert_has_line(text, "# HELP spoa_ratelimit_notifies_total NOTIFYs received\n"
                          "# TYPE spoa_ratelimit_notifies_total counter\n"
                          "spoa_ratelimit_notifies_total 7\n");
    assert_has_line(text, "\nspoa_ratelimit_decisions_total"
                          "{limit=\"second\",outcome=\"refused\"} 2\n");
    assert_has_line(text, "{limit=\"first\",outcome=\"would_refuse\"} 1\n");
    assert_has_line(text, "{limit=\"first\",outcome=\"charged\"} 0\n");
    assert_has_line(text, "# TYPE spoa_ratelimit_connections gauge\n"
                          "spoa_ratelimit_connections -5\n");
    free(text);
    counters_free(counters[0]);
    counters_free(counters[1]);
    counters_free(NULL);
}

static const char *any_name(const void *context, uint32_t idx)
{
    static char name[16];
    (void)context;
    (void)snprintf(name, sizeof(name), "l%u", (unsigned)idx);
    return name;
}

static unsigned count_lines(const char *text, const char *start)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, start)) != NULL; at++) {
        n += at == text || at[-1] == '\n';
    }
    return n;
}

/* However many limits there are: none is lost in the sum. */
static void series_are_bounded(void **context)
{
    (void)context;
    for (uint32_t more = 0; more < 3; more++) {
        uint32_t n_limits = METRICS_LIMITS_MAX + more;
        struct counters *counters = counters_new(n_limits);
        struct metrics_source source = {.counters = &counters,
                                        .n_counters = 1,
                                        .limit_name = any_name};
        char *text = NULL;
        size_t len = 0;
        assert_non_null(counters);
        for (uint32_t i = 0; i < n_limits; i++) {
            counter_outcome(counters, i, OUTCOME_REFUSED);
        }
        FILE *out = open_memstream(&text, &len);
        assert_non_null(out);
        metrics_print(&source, out);
        (void)fclose(out);
        assert_has_line(text, "{limit=\"l899\",outcome=\"refused\"} 1\n");
        assert_int_equal(count_lines(text, "spoa_ratelimit_decisions_total{"),
                         OUTCOMES_N * (METRICS_LIMITS_MAX + (more > 0)));
        assert_true(count_lines(text, "spoa_ratelimit_") < 4900); /* others come too */
        assert_null(strstr(text, "\"l900\""));
        if (more > 0) {
            char line[64];
            (void)snprintf(line, sizeof(line), "{limit=\"*\",outcome=\"refused\"} %u\n",
                           (unsigned)more);
            assert_has_line(text, line);
        } else {
            assert_null(strstr(text, "\"*\""));
        }
        free(text);
        counters_free(counters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_all_workers_add_up),
        cmocka_unit_test(series_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
