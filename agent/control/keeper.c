#include "agent/control/keeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "agent/log.h"
#include "agent/thread.h"

enum {
    FILE_MODE = 0600
};

struct keeper {
    char *path;
    const char *error; /* of the last write, or NULL; the thread's own */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock: */
    char *text; /* waiting, or NULL */
    size_t len;
    bool is_quitting;
};

static void write_text(struct keeper *keeper, const char *text, size_t len)
{
    const char *error = NULL;
    if (!file_replace(keeper->path, text, len, FILE_MODE, &error)
        && error != keeper->error) {
        log_warning("%s: %s: what was kept before stays; make room there, and let the "
                    "agent's user write",
                    keeper->path, error);
    }
    keeper->error = error;
}

static void *run(void *arg)
{
    struct keeper *keeper = arg;
    (void)pthread_mutex_lock(&keeper->lock);
    while (keeper->text != NULL || !keeper->is_quitting) {
        if (keeper->text == NULL) {
            (void)pthread_cond_wait(&keeper->changed, &keeper->lock);
            continue;
        }
        char *text = keeper->text;
        size_t len = keeper->len;
        keeper->text = NULL;
        (void)pthread_mutex_unlock(&keeper->lock);
        write_text(keeper, text, len);
        free(text);
        (void)pthread_mutex_lock(&keeper->lock);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

static void keeper_free(struct keeper *keeper)
{
    (void)pthread_mutex_destroy(&keeper->lock);
    (void)pthread_cond_destroy(&keeper->changed);
    free(keeper->path);
    free(keeper);
}

struct keeper *keeper_start(const char *path)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    if (keeper == NULL || (keeper->path = strdup(path)) == NULL) {
        log_error("%s: out of memory", path);
        free(keeper);
        return NULL;
    }
    (void)pthread_mutex_init(&keeper->lock, NULL);
    (void)pthread_cond_init(&keeper->changed, NULL);
    int rc = thread_start(&keeper->thread, run, keeper);
    if (rc != 0) {
        log_error("%s: no thread to write it: %s", path, strerrordesc_np(rc));
        keeper_free(keeper);
        return NULL;
    }
    return keeper;
}

void keeper_keep(struct keeper *keeper, char *text, size_t len)
{
    if (keeper == NULL) {
        free(text);
        return;
    }
    (void)pthread_mutex_lock(&keeper->lock);
    free(keeper->text);
    keeper->text = text;
    keeper->len = len;
    (void)pthread_cond_signal(&keeper->changed);
    (void)pthread_mutex_unlock(&keeper->lock);
}

void keeper_stop(struct keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->is_quitting = true;
    (void)pthread_cond_signal(&keeper->changed);
    (void)pthread_mutex_unlock(&keeper->lock);
    (void)pthread_join(keeper->thread, NULL);
    keeper_free(keeper);
}
