#include <setjmp.h>
#include <stdarg.h>
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

static const struct runtime_command COMMANDS[] = {
    {"say hello", NULL, "greets", say_hello},
    {"say much", NULL, "five megabytes", say_much},
    {"repeat", "WORD...", "says its arguments", say_back},
    {NULL, NULL, NULL, NULL},
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
    f.runtime = runtime_start(f.main_loop.loop, &address, NULL, COMMANDS, "world");
    return f.runtime == NULL || !loop_thread_start(&f.main_loop);
}

static int tear_down(void **context)
{
    (void)context;
    loop_thread_stop(&f.main_loop);
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
    const char *answer = "";
    for (int i = 0; i < 1000 && answer[0] == '\0'; i++) { /* until they are noticed */
        answer = ask_text("say hello\n");
    }
    assert_string_equal(answer, "hello world\n");
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
        TEST(clients_beyond_the_limit_are_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
