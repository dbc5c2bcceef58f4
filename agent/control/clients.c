#include "agent/control/clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/code.h"

#include "agent/control/diags.h"
#include "agent/file.h"
#include "agent/log.h"
#include "agent/thread.h"

static void clients_free(struct clients *clients)
{
    if (clients != NULL) {
        rules_clients_free(clients->table);
        free(clients->text);
        free(clients->path);
        free(clients);
    }
}

/* Make the table; its diagnostics go to standard error. */
static enum clients_status make_table(struct clients *clients, char *error)
{
    struct rules_bytes text = {.ptr = (const uint8_t *)clients->text,
                               .len = clients->len};
    struct rules_diags *diags = diags_new(clients->path);
    if (diags == NULL) {
        return CLIENTS_UNREAD;
    }
    clients->table = rules_clients_load(text, clients->kind, diags);
    diags_log(diags);
    enum clients_status status = CLIENTS_OK;
    if (clients->table == NULL) {
        bool is_short = strcmp(diags->kept[0].code, rules_code_out_of_memory) == 0;
        status = is_short ? CLIENTS_UNREAD : CLIENTS_BAD;
        diags_first_error(diags, error, CLIENTS_ERROR_BYTES_MAX);
    }
    free(diags);
    return status;
}

enum clients_status clients_load(const char *path, enum rules_clients_kind kind,
                                 struct clients **made, char *error)
{
    const char *reason = "out of memory";
    enum clients_status status = CLIENTS_UNREAD;
    struct clients *clients = calloc(1, sizeof(*clients));
    if (clients == NULL || (clients->path = strdup(path)) == NULL) {
        goto fail;
    }
    clients->n_users = 1;
    clients->kind = kind;
    clients->loaded_at = clock_now();
    clients->text = file_read(path, RULES_CLIENTS_BYTES_MAX, &clients->len, &reason);
    if (clients->text == NULL) {
        goto fail;
    }
    reason = NULL;
    (void)snprintf(error, CLIENTS_ERROR_BYTES_MAX, "out of memory");
    version_of(clients->text, clients->len, clients->version);
    status = make_table(clients, error);
    if (status != CLIENTS_OK) {
        goto fail;
    }
    *made = clients;
    return CLIENTS_OK;
fail:
    if (reason != NULL) {
        (void)snprintf(error, CLIENTS_ERROR_BYTES_MAX, "%s", reason);
    }
    clients_free(clients);
    return status;
}

struct clients *clients_share(struct clients *clients)
{
    if (clients != NULL) {
        clients->n_users++;
    }
    return clients;
}

void clients_drop(struct clients *clients)
{
    if (clients != NULL && --clients->n_users == 0) {
        clients_free(clients);
    }
}

bool clients_are_of(const struct clients *clients, const char *path,
                    enum rules_clients_kind kind)
{
    return clients != NULL && clients->kind == kind && strcmp(clients->path, path) == 0;
}

static void *run(void *arg)
{
    struct clients_loader *loader = arg;
    loader->status = clients_load(loader->path, loader->kind, &loader->clients,
                                  loader->error);
    (void)pthread_mutex_lock(&loader->lock);
    if (loader->loop != NULL) {
        ev_async_send(loader->loop, &loader->async);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* Wait for the thread, and take what it made. */
static struct clients *take(struct clients_loader *loader)
{
    (void)pthread_join(loader->thread, NULL);
    struct clients *clients = loader->clients;
    loader->clients = NULL;
    loader->is_busy = false;
    free(loader->path);
    loader->path = NULL;
    return clients;
}

static void on_loaded(struct ev_loop *loop, struct ev_async *async, int events)
{
    struct clients_loader *loader = CONTAINER_OF(async, struct clients_loader, async);
    (void)loop;
    (void)events;
    struct clients *clients = take(loader);
    loader->loaded(loader->context, loader->status, clients, loader->error);
}

void clients_loader_init(struct clients_loader *loader)
{
    *loader = (struct clients_loader){0};
    ENSURE(pthread_mutex_init(&loader->lock, NULL) == 0);
}

static void set_loop(struct clients_loader *loader, struct ev_loop *loop)
{
    (void)pthread_mutex_lock(&loader->lock);
    loader->loop = loop;
    (void)pthread_mutex_unlock(&loader->lock);
}

void clients_loader_start(struct clients_loader *loader, struct ev_loop *loop,
                          clients_loaded_fn *loaded, void *context)
{
    loader->loaded = loaded;
    loader->context = context;
    ev_async_init(&loader->async, on_loaded);
    ev_async_start(loop, &loader->async);
    set_loop(loader, loop);
}

bool clients_loader_load(struct clients_loader *loader, const char *path,
                         enum rules_clients_kind kind)
{
    ENSURE(!loader->is_busy);
    loader->path = strdup(path);
    loader->kind = kind;
    loader->clients = NULL;
    loader->is_busy = loader->path != NULL
                      && thread_start(&loader->thread, run, loader) == 0;
    if (!loader->is_busy) {
        free(loader->path);
        loader->path = NULL;
    }
    return loader->is_busy;
}

void clients_loader_stop(struct clients_loader *loader)
{
    struct ev_loop *loop = loader->loop; /* only this thread changes it */
    if (loop != NULL) {
        set_loop(loader, NULL);
        ev_async_stop(loop, &loader->async);
    }
}

void clients_loader_fini(struct clients_loader *loader)
{
    if (loader->is_busy) {
        clients_drop(take(loader));
    }
    (void)pthread_mutex_destroy(&loader->lock);
}
