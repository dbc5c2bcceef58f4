/**
 * @file agent/log.h  Log lines for people: one line, one write, to standard error.
 *
 * Model:     `LEVEL text` with systemd's <N> prefix when the journal reads us. Bytes
 *            outside printable ASCII are written as \xNN, so no peer can forge a line.
 * Ownership: nothing is kept.
 * Threads:   any. log_start before threads start.
 * Errors:    a line that cannot be written at once is lost: nobody waits for a reader of
 *            standard error. Nothing on the local decision path logs.
 * Limits:    LOG_LINE_BYTES_MAX, cut beyond.
 */
#ifndef AGENT_LOG_H
#define AGENT_LOG_H

enum {
    LOG_LINE_BYTES_MAX = 1024
};

enum log_level {
    LOG_LEVEL_ERROR = 0,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

/** Names of the levels, by value. */
extern const char *const log_level_names[4];

/** Set the level, and find out whether the journal reads us. */
void log_start(enum log_level level);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Several lines, as they are, whatever the level. */
void log_text(const char *text);

#endif
