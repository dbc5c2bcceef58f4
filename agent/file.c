#include "agent/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

/* Read up to `cap` bytes, or to the end; -1 with errno. */
static ssize_t read_up_to(int fd, char *buf, size_t cap)
{
    size_t n = 0;
    while (n < cap) {
        ssize_t part = read(fd, buf + n, cap - n);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return -1;
        }
        if (part == 0) {
            break;
        }
        n += (size_t)part;
    }
    return (ssize_t)n;
}

char *file_read(const char *path, size_t bytes_max, size_t *len, const char **error)
{
    char *bytes = NULL;
    size_t cap = 0;
    ssize_t n = 0;
    struct stat st = {0};
    int fd = open(path,
                  O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us */
    if (fd < 0 || fstat(fd, &st) != 0) {
        *error = strerrordesc_np(errno);
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        *error = "not a regular file";
        goto fail;
    }
    /* One byte more than allowed tells a file that is too large, or grows. */
    cap = (size_t)st.st_size < bytes_max ? (size_t)st.st_size + 1 : bytes_max + 1;
    bytes = malloc(cap + 1);
    n = bytes != NULL ? read_up_to(fd, bytes, cap) : -1;
    if (n < 0) {
        *error = strerrordesc_np(errno);
        goto fail;
    }
    if ((size_t)n == cap) {
        *error = cap > bytes_max ? "the file is too large"
                                 : "the file is being written";
        goto fail;
    }
    (void)close(fd);
    bytes[n] = '\0';
    *len = (size_t)n;
    return bytes;
fail:
    free(bytes);
    if (fd >= 0) {
        (void)close(fd);
    }
    return NULL;
}

char *file_read_for(void *context, const char *path, size_t bytes_max, size_t *len,
                    const char **error)
{
    (void)context;
    return file_read(path, bytes_max, len, error);
}

char *file_beside(const char *other, const char *path)
{
    const char *slash = path[0] != '/' ? strrchr(other, '/') : NULL;
    size_t dir_len = slash != NULL ? (size_t)(slash - other) + 1 : 0;
    size_t size = dir_len + strlen(path) + 1;
    char *beside = malloc(size);
    if (beside != NULL) {
        (void)snprintf(beside, size, "%.*s%s", (int)dir_len, other, path);
    }
    return beside;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

bool file_replace(const char *path, const char *bytes, size_t len, mode_t mode,
                  const char **error)
{
    char aside[4096 + 24];
    int n = snprintf(aside, sizeof(aside), "%s.%d.new", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof(aside)) {
        *error = strerrordesc_np(ENAMETOOLONG);
        return false;
    }
    (void)unlink(aside); /* one that lies there may have another owner or mode */
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    bool is_written = fd >= 0 && write_all(fd, bytes, len) && fsync(fd) == 0
                      && rename(aside, path) == 0;
    if (!is_written) {
        *error = strerrordesc_np(errno);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (fd >= 0 && !is_written) {
        (void)unlink(aside);
    }
    return is_written;
}
