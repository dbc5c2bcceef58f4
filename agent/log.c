#include "agent/log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base.h"

const char *const log_level_names[4] = {"error", "warning", "info", "debug"};

static enum log_level level_max = LOG_LEVEL_INFO;
static bool is_journal;
static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;

void log_start(enum log_level level)
{
    level_max = level;
    is_journal = getenv("JOURNAL_STREAM") != NULL; /* NOLINT(concurrency-mt-unsafe) */
}

/* Copy `text` to `line`, escaping what is not printable; returns the length. */
static size_t make_printable(char *line, size_t cap, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t len = 0;
    for (const char *p = text; *p != '\0' && cap - len > 4; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c < 0x7f) {
            line[len++] = (char)c;
            continue;
        }
        line[len++] = '\\';
        line[len++] = 'x';
        line[len++] = hex[c >> 4];
        line[len++] = hex[c & 15];
    }
    return len;
}

/* A pipe or socket that nobody reads must not hold us up: its line is lost instead. One
 * that is ready takes a line whole. */
static bool can_write(void)
{
    struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&err, 1, 0) == 1 && (err.revents & POLLOUT) != 0;
}

static void write_out(const char *line, size_t len)
{
    (void)pthread_mutex_lock(&write_lock);
    if (can_write()) {
        ssize_t written = write(STDERR_FILENO, line, len);
        (void)written; /* nobody is left to be told */
    }
    (void)pthread_mutex_unlock(&write_lock);
}

__attribute__((format(printf, 2, 0))) static void write_line(enum log_level level,
                                                             const char *format,
                                                             va_list args)
{
    static const char *const journal_prefixes[4] = {"<3>", "<4>", "<6>", "<7>"};
    if (level > level_max) {
        return;
    }
    char text[LOG_LINE_BYTES_MAX];
    (void)vsnprintf(text, sizeof(text), format, args);
    char line[LOG_LINE_BYTES_MAX + 32];
    const char *prefix = is_journal ? journal_prefixes[level] : "";
    int n = snprintf(line, sizeof(line), "%s%s: ", prefix, log_level_names[level]);
    size_t len = n > 0 ? (size_t)n : 0;
    len += make_printable(line + len, sizeof(line) - len - 1, text);
    line[len++] = '\n';
    write_out(line, len);
}

#define DEFINE_LOG(name, level)          \
    void name(const char *format, ...)   \
    {                                    \
        va_list args;                    \
        va_start(args, format);          \
        write_line(level, format, args); \
        va_end(args);                    \
    }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR)
DEFINE_LOG(log_warning, LOG_LEVEL_WARNING)
DEFINE_LOG(log_info, LOG_LEVEL_INFO)
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG)

void log_text(const char *text)
{
    char line[LOG_LINE_BYTES_MAX];
    const char *next = text;
    while (*next != '\0') {
        size_t len = strcspn(next, "\n");
        size_t n = len < sizeof(line) ? len : sizeof(line) - 1;
        memcpy(line, next, n);
        line[n] = '\n';
        write_out(line, n + 1);
        next += len;
        next += *next == '\n';
    }
}

void ensure_failed(const char *condition, const char *file, int line)
{
    log_error("broken invariant: %s (%s:%d)", condition, file, line);
    abort();
}
