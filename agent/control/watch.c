#include "agent/control/watch.h"

#include <stdlib.h>
#include <string.h>

static struct stat look(const char *path)
{
    struct stat st = {0};
    (void)stat(path, &st);
    return st;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size
           && a->st_mtim.tv_sec == b->st_mtim.tv_sec
           && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool watch_add(struct watch *watch, const char *path)
{
    char *copy = watch->n < WATCH_FILES_MAX ? strdup(path) : NULL;
    if (copy == NULL) {
        return false;
    }
    watch->files[watch->n++] = (struct watched){.path = copy, .seen = look(path)};
    return true;
}

bool watch_sees_change(const char *path, struct stat *seen)
{
    struct stat then = *seen;
    *seen = look(path);
    return !is_same(seen, &then);
}

bool watch_has_changed(struct watch *watch)
{
    bool has_changed = false;
    for (unsigned i = 0; i < watch->n; i++) {
        struct watched *file = &watch->files[i];
        has_changed = watch_sees_change(file->path, &file->seen) || has_changed;
    }
    return has_changed;
}

void watch_clear(struct watch *watch)
{
    for (unsigned i = 0; i < watch->n; i++) {
        free(watch->files[i].path);
    }
    *watch = (struct watch){0};
}
