#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cmocka.h>

#include "agent/control/runtime.h"

#include "tests/support/loop_thread.h"

static struct {
    char dir[32];
    char path[64];
    struct loop_thread main_loop;
    struct runtime *runtime;
    bool is_loop_stopped;
    char answer[65536];
} f;

static void say_hello(const void *context, const struct runtime_args *args, FILE *out)
{
    (void)args;
    (void)fprintf(out, "hello %s\n", (const char *)context);
}

static void say_much(const void *context, const struct runtime_args *args, FILE *out)
{
    (void)args;
    (void)context;
    for (int i = 0; i < 1000000; i++) {
        (void)fputs("much ", out);
    }
}

static void say_back(const void *context, const struct runtime_args *args, FILE *out)
{
    (void)context;
    for (unsigned i = 0; i < args->n; i++) {
        (void)fprintf(out, "<%s>", args->words[i]);
    }
    (void)fputs("\n", out);
}

/* Those that are begun and not ended, and what ends the first of them on the main loop. */
static struct {
    struct ev_async end;
    _Atomic unsigned n_begun;
    struct runtime_answer *answers[RUNTIME_CLIENTS_MAX];
    const struct runtime_args *args[RUNTIME_CLIENTS_MAX];
} later;

static void begin_later(const void *context, const struct runtime_args *args,
                        struct runtime_answer *answer)
{
    (void)context;
    (void)fputs("begun ", answer->out);
    later.answers[later.n_begun] = answer;
    later.args[later.n_begun++] = args;
}

static void end_one(unsigned i)
{
    (void)fprintf(later.answers[i]->out, "and ended %s\n", later.args[i]->words[0]);
    runtime_answer_end(later.answers[i]);
}

static void on_end(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)loop;
    (void)async;
    (void)events;
    end_one(0);
}

static void begin_at_once(const void *context, const struct runtime_args *args,
                          struct runtime_answer *answer)
{
    (void)context;
    (void)args;
    (void)fputs("at once\n", answer->out);
    runtime_answer_end(answer);
}

static const struct runtime_command commands[] = {
    {"begin later", "WORD", "is ended by a test", NULL, begin_later},
    {"begin now", NULL, "is ended at once", NULL, begin_at_once},
    {"say hello", NULL, "greets", say_hello, NULL},
    {"say much", NULL, "five megabytes", say_much, NULL},
    {"repeat", "WORD...", "says its arguments", say_back, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int set_up(void **context)
{
    (void)context;
    struct address address;
    char text[80];
    char error[ADDRESS_ERROR_BYTES_MAX];
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_runtime.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/s", f.dir);
    (void)snprintf(text, sizeof(text), "unix@%s", f.path);
    if (!loop_thread_init(&f.main_loop) || !address_parse(&address, text, error)) {
        return 1;
    }
    f.is_loop_stopped = false;
    later.n_begun = 0;
    ev_async_init(&later.end, on_end);
    ev_async_start(f.main_loop.loop, &later.end);
    f.runtime = runtime_start(f.main_loop.loop, &address, NULL, commands, "world");
    return f.runtime == NULL || !loop_thread_start(&f.main_loop);
}

static int tear_down(void **context)
{
    (void)context;
    if (!f.is_loop_stopped) {
        loop_thread_stop(&f.main_loop);
    }
    runtime_stop(f.runtime);
    runtime_stop(NULL);
    loop_thread_fini(&f.main_loop);
    return rmdir(f.dir);
}

static int door(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", f.path);
    assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

/* Read to the end; keeps the first part in f.answer, returns the length of all. */
static size_t read_all(int fd)
{
    size_t len = 0;
    char part[4096];
    ssize_t n = 0;
    f.answer[0] = '\0';
    while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
        if (len + (size_t)n < sizeof(f.answer)) {
            memcpy(f.answer + len, part, (size_t)n);
            f.answer[len + (size_t)n] = '\0';
        }
        len += (size_t)n;
    }
    (void)close(fd);
    return len;
}

static const char *ask(const char *line, size_t len)
{
    int fd = door();
    assert_int_equal(send(fd, line, len, MSG_NOSIGNAL), (ssize_t)len);
    (void)read_all(fd);
    return f.answer;
}

static const char *ask_text(const char *line)
{
    return ask(line, strlen(line));
}

static void commands_are_words(void **context)
{
    (void)context;
    assert_string_equal(ask_text("say hello\n"), "hello world\n");
    assert_string_equal(ask_text("  say \t hello \r\n"), "hello world\n");
}

static void arguments_are_words(void **context)
{
    (void)context;
    assert_string_equal(ask_text("repeat\n"), "\n");
    assert_string_equal(ask_text("repeat a  b\tc=d \n"), "<a><b><c=d>\n");
    assert_string_equal(ask_text("repeat a\\ b \\\\ \\c\n"), "<a b><\\><c>\n");
    assert_string_equal(ask_text("repeat a\\\n"), "<a\\>\n");
    assert_string_equal(ask_text("say hello you\n"), "say hello takes no arguments.\n");
    assert_string_equal(ask_text("repeat hell\n"), "<hell>\n");
    assert_non_null(strstr(ask_text("repea\n"), "Unknown command"));
    assert_non_null(strstr(ask_text("help\n"), "repeat WORD..."));
}

static void words_are_bounded(void **context)
{
    (void)context;
    char line[2 * RUNTIME_WORDS_MAX + 8] = "repeat";
    size_t n = strlen(line);
    for (int i = 1; i < RUNTIME_WORDS_MAX; i++) {
        line[n++] = ' ';
        line[n++] = 'a';
    }
    line[n] = '\n';
    assert_int_equal(strlen(ask(line, n + 1)), 3 * (RUNTIME_WORDS_MAX - 1) + 1);
    line[n] = ' ';
    line[n + 1] = 'a';
    line[n + 2] = '\n';
    assert_string_equal(ask(line, n + 3), "The line has more than 128 words.\n");
}

static void line_without_newline_ends_with_the_input(void **context)
{
    (void)context;
    int fd = door();
    assert_int_equal(send(fd, "say hello", 9, MSG_NOSIGNAL), 9);
    (void)shutdown(fd, SHUT_WR);
    (void)read_all(fd);
    assert_string_equal(f.answer, "hello world\n");
}

static void help_and_what_is_not_known(void **context)
{
    (void)context;
    assert_non_null(strstr(ask_text("help\n"), "say hello"));
    assert_null(strstr(f.answer, "Unknown command"));
    assert_non_null(strstr(ask_text("say nothing\n"), "Unknown command"));
    assert_non_null(strstr(f.answer, "say much"));
    assert_non_null(strstr(ask_text("\n"), "Unknown command"));
    assert_non_null(strstr(ask("a\0b\n", 4), "Unknown command"));
}

static void long_answers_come_whole(void **context)
{
    (void)context;
    int fd = door();
    assert_int_equal(send(fd, "say much\n", 9, MSG_NOSIGNAL), 9);
    usleep(50000); /* a slow reader */
    assert_int_equal(read_all(fd), 5000000);
}

static void too_long_a_line_ends(void **context)
{
    (void)context;
    static char line[RUNTIME_LINE_BYTES_MAX];
    memset(line, 'x', sizeof(line));
    assert_string_equal(ask(line, sizeof(line)),
                        "The line is longer than 4095 bytes.\n");
    assert_string_equal(ask_text("say hello\n"), "hello world\n");
}

static void clients_beyond_the_limit_are_turned_away(void **context)
{
    (void)context;
    int fds[RUNTIME_CLIENTS_MAX];
    for (int i = 0; i < RUNTIME_CLIENTS_MAX; i++) {
        fds[i] = door();
    }
    char byte = 0;
    int fd = door();
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
    for (int i = 0; i < RUNTIME_CLIENTS_MAX; i++) {
        (void)close(fds[i]);
    }
    f.answer[0] = '\0';
    for (int i = 0; i < 1000 && f.answer[0] == '\0'; i++) { /* until they are noticed */
        fd = door();
        (void)send(fd, "say hello\n", 10, MSG_NOSIGNAL); /* it may be closed already */
        (void)read_all(fd);
    }
    assert_string_equal(f.answer, "hello world\n");
}

static void begin_and_wait(int fd)
{
    unsigned n = later.n_begun;
    assert_int_equal(send(fd, "begin later x\n", 14, MSG_NOSIGNAL), 14);
    while (later.n_begun == n) {
        (void)usleep(1000);
    }
}

static void an_answer_may_come_later(void **context)
{
    (void)context;
    char byte = 0;
    assert_string_equal(ask_text("begin now\n"), "at once\n");
    int fd = door();
    begin_and_wait(fd);
    assert_string_equal(ask_text("say hello\n"), "hello world\n"); /* meanwhile */
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    ev_async_send(f.main_loop.loop, &later.end);
    (void)read_all(fd);
    assert_string_equal(f.answer, "begun and ended x\n");
}

static void who_goes_is_answered_too(void **context)
{
    (void)context;
    int fd = door();
    begin_and_wait(fd);
    (void)close(fd);
    ev_async_send(f.main_loop.loop, &later.end);
    assert_string_equal(ask_text("say hello\n"), "hello world\n");
}

static void answers_may_come_after_the_door_is_closed(void **context)
{
    (void)context;
    int fds[2] = {door(), door()};
    begin_and_wait(fds[0]);
    begin_and_wait(fds[1]);
    loop_thread_stop(&f.main_loop);
    f.is_loop_stopped = true;
    runtime_stop(f.runtime);
    f.runtime = NULL;
    end_one(1);
    end_one(0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(read_all(fds[i]), 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(commands_are_words),
        TEST(arguments_are_words),
        TEST(words_are_bounded),
        TEST(line_without_newline_ends_with_the_input),
        TEST(help_and_what_is_not_known),
        TEST(long_answers_come_whole),
        TEST(too_long_a_line_ends),
        TEST(an_answer_may_come_later),
        TEST(who_goes_is_answered_too),
        TEST(answers_may_come_after_the_door_is_closed),
        TEST(clients_beyond_the_limit_are_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
