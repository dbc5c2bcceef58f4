#include "agent/control/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include <sodium.h>

#include "agent/clock.h"
#include "agent/store/local.h"

#define FILE_ASIDE SNAPSHOT_FILE ".new"

enum {
    READ_BYTES = 16384,
    FILE_MODE = 0600,
};

/* Room for a path in a text; of a longer one the beginning is told. */
#define PATH_IN_TEXT "%.300s/%s"

static const char *mend_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return ": make state_dir a directory that the agent's user can write";
    case EACCES:
    case EPERM:
    case EROFS:
        return ": let the agent's user write there";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ": make room there; what was written before is kept";
    case EWOULDBLOCK:
        return ": another agent writes there; give each a state_dir of its own";
    default:
        return "";
    }
}

static void tell(char *text, const char *dir, const char *file, int error)
{
    (void)snprintf(text, SNAPSHOT_ERROR_BYTES_MAX, PATH_IN_TEXT ": %s%s", dir, file,
                   strerrordesc_np(error), mend_of(error));
}

static bool write_fd(void *context, const void *bytes, size_t len)
{
    const int *fd = context;
    const uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = write(*fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool write_image(int fd, struct store *store, uint64_t *n_records)
{
    struct image_writer writer;
    struct instant now = clock_now();
    struct image_origin origin = {
        .agent_at = now,
        .wall_us = clock_wall_us(),
        .clock_offset_us = clock_offset_us(),
    };
    memcpy(origin.secret, local_secret(store), sizeof(origin.secret));
    image_writer_init(&writer, &origin, write_fd, &fd);
    local_export(store, now, &writer);
    bool is_written = image_write_end(&writer);
    *n_records = image_writer_n_records(&writer);
    sodium_memzero(&origin, sizeof(origin));
    return is_written;
}

/* A new file each time: one that lies there may have another owner or mode. */
static int open_aside(int dir_fd)
{
    (void)unlinkat(dir_fd, FILE_ASIDE, 0);
    return openat(dir_fd, FILE_ASIDE,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
}

bool snapshot_write(const char *dir, struct store *store, uint64_t *n_records,
                    char *error)
{
    int fd = -1;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* the lock goes with the descriptor */
    if (dir_fd < 0 || flock(dir_fd, LOCK_EX | LOCK_NB) != 0) {
        goto fail;
    }
    fd = open_aside(dir_fd);
    if (fd < 0 || !write_image(fd, store, n_records) || fsync(fd) != 0
        || renameat(dir_fd, FILE_ASIDE, dir_fd, SNAPSHOT_FILE) != 0
        || fsync(dir_fd) != 0) {
        goto fail;
    }
    (void)close(fd);
    (void)close(dir_fd);
    return true;
fail:
    tell(error, dir, FILE_ASIDE, errno);
    if (fd >= 0) {
        (void)unlinkat(dir_fd, FILE_ASIDE, 0);
        (void)close(fd);
    }
    if (dir_fd >= 0) {
        (void)close(dir_fd);
    }
    return false;
}

/* Feed a file to a reader, from its beginning; IMAGE_MORE when it ends before its end.
 * A disk that cannot be read ends it too. */
static enum image_status read_fd(int fd, struct image_reader *reader)
{
    uint8_t buf[READ_BYTES];
    enum image_status status = IMAGE_MORE;
    off_t at = 0;
    while (status == IMAGE_MORE || status == IMAGE_END) {
        ssize_t n = pread(fd, buf, sizeof(buf), at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        status = image_read(reader, buf, (size_t)n);
        at += n;
    }
    sodium_memzero(buf, sizeof(buf));
    return status;
}

/* Who could write the file could shut out clients. Answers what is wrong with it. */
static const char *distrust(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return "not a regular file";
    }
    if (st->st_uid != geteuid() && st->st_uid != 0) {
        return "it belongs to another user: chown it to the agent's";
    }
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return "others can write it: chmod 600";
    }
    return NULL;
}

/* Look at an open file; answers what is wrong with it, or NULL. */
static const char *examine(int fd, struct snapshot *snapshot, bool *is_public)
{
    struct image_reader reader;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return strerrordesc_np(errno);
    }
    const char *reason = distrust(&st);
    if (reason != NULL) {
        return reason;
    }
    *is_public = (st.st_mode & (S_IRGRP | S_IROTH)) != 0;
    image_reader_init(&reader, NULL, NULL);
    enum image_status status = read_fd(fd, &reader);
    *snapshot = (struct snapshot){.fd = fd, .origin = reader.origin};
    image_reader_clear(&reader);
    return status == IMAGE_END ? NULL : image_status_text(status);
}

static int open_snapshot(const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return -1;
    }
    int fd = openat(dir_fd, SNAPSHOT_FILE,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int error = fd < 0 && errno == ENOENT ? 0 : errno; /* the directory is there */
    (void)close(dir_fd);
    errno = error;
    return fd;
}

enum snapshot_found snapshot_open(const char *dir, struct snapshot *snapshot,
                                  char *error)
{
    bool is_public = false;
    error[0] = '\0';
    int fd = open_snapshot(dir);
    if (fd < 0 && errno == 0) {
        return SNAPSHOT_NONE;
    }
    if (fd < 0) {
        tell(error, dir, SNAPSHOT_FILE, errno);
        return SNAPSHOT_BAD;
    }
    const char *reason = examine(fd, snapshot, &is_public);
    if (reason != NULL) {
        (void)snprintf(error, SNAPSHOT_ERROR_BYTES_MAX, PATH_IN_TEXT ": %s", dir,
                       SNAPSHOT_FILE, reason);
        (void)close(fd);
        return SNAPSHOT_BAD;
    }
    if (is_public) {
        (void)snprintf(error, SNAPSHOT_ERROR_BYTES_MAX,
                       PATH_IN_TEXT ": others can read the secret in it: chmod 600; "
                                    "remove it for a new secret",
                       dir, SNAPSHOT_FILE);
    }
    return SNAPSHOT_GOOD;
}

struct restoring {
    struct store *store;
    struct counters *counters;
    struct instant now;
};

static void add_records(void *context, enum image_kind kind,
                        const struct image_record *records, size_t n_records)
{
    const struct restoring *to = context;
    local_import(to->store, kind, records, n_records, to->now, to->counters);
}

bool snapshot_restore(const struct snapshot *snapshot, struct store *store,
                      struct counters *counters)
{
    struct restoring to = {.store = store, .counters = counters, .now = clock_now()};
    struct image_reader reader;
    image_reader_init(&reader, add_records, &to);
    enum image_status status = read_fd(snapshot->fd, &reader);
    image_reader_clear(&reader);
    return status == IMAGE_END;
}

void snapshot_close(struct snapshot *snapshot)
{
    (void)close(snapshot->fd);
    sodium_memzero(snapshot, sizeof(*snapshot));
}
