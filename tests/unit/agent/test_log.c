#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/log.h"

static char said[4096];
static int saved_fd;
static int pipe_fds[2];

/* From here on standard error goes into a pipe. */
static void listen_in(void)
{
    saved_fd = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(pipe_fds[1]);
}

static void stop_listening(void)
{
    assert_int_equal(dup2(saved_fd, STDERR_FILENO), STDERR_FILENO);
    (void)close(saved_fd);
    ssize_t n = read(pipe_fds[0], said, sizeof(said) - 1);
    said[n > 0 ? n : 0] = '\0';
    (void)close(pipe_fds[0]);
}

static void levels(void **context)
{
    (void)context;
    log_start(LOG_LEVEL_WARNING);
    listen_in();
    log_info("not this");
    log_warning("%d apples", 2);
    log_error("x");
    stop_listening();
    assert_string_equal(said, "warning: 2 apples\nerror: x\n");
    log_start(LOG_LEVEL_INFO);
}

/* No value forges a line or reaches a terminal. */
static void one_line_whatever_is_said(void **context)
{
    (void)context;
    listen_in();
    log_info("a\nerror: b\r\x1b[2J\xff");
    stop_listening();
    assert_string_equal(said, "info: a\\x0aerror: b\\x0d\\x1b[2J\\xff\n");
}

static void long_lines_are_cut(void **context)
{
    (void)context;
    static char text[3 * LOG_LINE_BYTES_MAX];
    memset(text, '\n', sizeof(text) - 1);
    listen_in();
    log_info("%s", text);
    stop_listening();
    size_t len = strlen(said);
    assert_true(len <= LOG_LINE_BYTES_MAX + 32);
    assert_int_equal(said[len - 1], '\n');
    assert_ptr_equal(strchr(said, '\n'), said + len - 1);
}

static void texts_are_written_as_they_are(void **context)
{
    (void)context;
    static char text[LOG_LINE_BYTES_MAX + 100];
    listen_in();
    log_text("");
    log_text("a: error\n\n    \xc3\xa4\nno end");
    stop_listening();
    assert_string_equal(said, "a: error\n\n    \xc3\xa4\nno end\n");
    memset(text, 'x', sizeof(text) - 3);
    memcpy(text + sizeof(text) - 3, "\ny", 3);
    listen_in();
    log_text(text);
    stop_listening();
    assert_int_equal(strlen(said), LOG_LINE_BYTES_MAX + 2); /* cut */
    assert_string_equal(said + LOG_LINE_BYTES_MAX - 1, "\ny\n");
}

/* A pipe that nobody reads: lines are lost, and nobody is held up. */
static void full_pipe_blocks_nobody(void **context)
{
    (void)context;
    static char text[900];
    memset(text, 'x', sizeof(text) - 1);
    listen_in();
    for (int i = 0; i < 1000; i++) {
        log_info("%s", text);
    }
    stop_listening();
    assert_memory_equal(said, "info: xxx", 9);
}

static void journal_gets_its_prefix(void **context)
{
    (void)context;
    (void)setenv("JOURNAL_STREAM", "8:1", 1);
    log_start(LOG_LEVEL_INFO);
    listen_in();
    log_warning("w");
    stop_listening();
    (void)unsetenv("JOURNAL_STREAM");
    log_start(LOG_LEVEL_INFO);
    assert_string_equal(said, "<4>warning: w\n");
}

int main(void)
{
    (void)unsetenv("JOURNAL_STREAM");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(one_line_whatever_is_said),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(texts_are_written_as_they_are),
        cmocka_unit_test(full_pipe_blocks_nobody),
        cmocka_unit_test(journal_gets_its_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
