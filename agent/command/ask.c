#include "agent/command/ask.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "agent/control/runtime.h"

static char *fail(const char *path, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", path, what);
    return NULL;
}

static char *fail_by_error(const char *path)
{
    char reason[64];
    return fail(path, strerror_r(errno, reason, sizeof(reason)));
}

/* Add a word, as the agent takes it apart again. */
static bool add_word(char line[RUNTIME_LINE_BYTES_MAX], size_t *len, const char *word)
{
    if (*len > 0 && *len + 1 < RUNTIME_LINE_BYTES_MAX) {
        line[(*len)++] = ' ';
    }
    for (const char *at = word; *at != '\0'; at++) {
        bool is_special = *at == '\\' || isspace((unsigned char)*at) != 0;
        if (*at == '\n' || *len + 2 + is_special >= RUNTIME_LINE_BYTES_MAX) {
            return false;
        }
        if (is_special) {
            line[(*len)++] = '\\';
        }
        line[(*len)++] = *at;
    }
    return true;
}

static int connect_to(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ASK_TIMEOUT_S};
    if (strlen(path) >= sizeof(un.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    memcpy(un.sun_path, path, strlen(path) + 1);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&un, sizeof(un)) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* All that comes, with room for a NUL; NULL with errno. */
static char *read_all(int fd)
{
    size_t cap = 1 << 16;
    size_t len = 0;
    char *answer = malloc(cap);
    ssize_t n = -1;
    while (answer != NULL && (n = recv(fd, answer + len, cap - len - 1, 0)) > 0) {
        len += (size_t)n;
        if (len + 1 < cap) {
            continue;
        }
        cap *= 2;
        char *grown = cap <= ASK_ANSWER_BYTES_MAX ? realloc(answer, cap) : NULL;
        if (grown == NULL) {
            errno = ENOMEM;
            n = -1;
            break;
        }
        answer = grown;
    }
    if (n < 0) {
        free(answer);
        return NULL;
    }
    answer[len] = '\0';
    return answer;
}

char *ask_agent(const char *path, unsigned n_words, const char *const *words)
{
    char line[RUNTIME_LINE_BYTES_MAX];
    size_t len = 0;
    for (unsigned i = 0; i < n_words; i++) {
        if (!add_word(line, &len, words[i])) {
            return fail(words[i], "a line feed, or more than the agent reads");
        }
    }
    line[len++] = '\n';
    int fd = connect_to(path);
    if (fd < 0) {
        return fail_by_error(path);
    }
    char *answer = send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len ? read_all(fd)
                                                                     : NULL;
    if (answer == NULL) {
        (void)fail_by_error(path);
    } else if (*answer == '\0') {
        (void)fail(path, "no answer: the agent is busy, or another program listens");
        free(answer);
        answer = NULL;
    }
    (void)close(fd);
    return answer;
}
