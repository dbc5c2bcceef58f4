#include "agent/redis/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include <sodium.h>

static int open_secret(const char *name, bool *is_credential, const char **error)
{
    char path[PATH_MAX];
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    *is_credential = strchr(name, '/') == NULL;
    if (*is_credential && dir == NULL) {
        *error = "a name without a slash is a credential, and systemd gave none "
                 "(LoadCredential=)";
        return -1;
    }
    int len = *is_credential ? snprintf(path, sizeof(path), "%s/%s", dir, name)
                             : snprintf(path, sizeof(path), "%s", name);
    if (len < 0 || (size_t)len >= sizeof(path)) {
        *error = "the path is too long";
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        *error = errno == ELOOP ? "is a symbolic link; name the file itself"
                                : strerrordesc_np(errno);
    }
    return fd;
}

static bool is_private(int fd, bool is_credential, const char **error)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        *error = "is no regular file";
        return false;
    }
    if (is_credential) { /* whose directory is closed to others */
        return true;
    }
    if (stat.st_uid != 0 && stat.st_uid != geteuid()) {
        *error = "belongs to another user; chown it to the agent's user or root";
        return false;
    }
    if ((stat.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        *error = "is open to others; chmod 600";
        return false;
    }
    return true;
}

/* @return how many bytes there are, at most SECRET_BYTES_MAX + 1; -1 with errno */
static ssize_t read_all(int fd, char *buf)
{
    size_t len = 0;
    while (len <= SECRET_BYTES_MAX) {
        ssize_t n = read(fd, buf + len, SECRET_BYTES_MAX + 1 - len);
        if (n <= 0) {
            return n == 0 ? (ssize_t)len : -1;
        }
        len += (size_t)n;
    }
    return (ssize_t)len;
}

char *secret_read(const char *name, const char **error)
{
    bool is_credential = false;
    char *secret = NULL;
    ssize_t len = 0;
    bool ok = false;
    int fd = open_secret(name, &is_credential, error);
    if (fd < 0 || !is_private(fd, is_credential, error)) {
        goto out;
    }
    *error = "out of memory";
    secret = sodium_init() >= 0 ? sodium_malloc(SECRET_BYTES_MAX + 2) : NULL;
    if (secret == NULL) {
        goto out;
    }
    len = read_all(fd, secret);
    if (len < 0) {
        *error = strerrordesc_np(errno);
        goto out;
    }
    if (len > 0 && secret[len - 1] == '\n') {
        len--;
    }
    secret[len] = '\0';
    *error = len == 0 ? "is empty" : "is no password: a NUL in it, or over 4096 bytes";
    ok = len > 0 && len <= SECRET_BYTES_MAX && strlen(secret) == (size_t)len;
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!ok) {
        secret_free(secret);
        return NULL;
    }
    return secret;
}

void secret_free(char *secret)
{
    sodium_free(secret);
}
