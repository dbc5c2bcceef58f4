#include "tests/conformance/flood.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/conformance/wire.h"
#include "tests/support/spop_client.h"

enum {
    BATCH = 200
};

static bool shake_hands(struct spop_client *c, struct wire *w)
{
    w->len = 0;
    wire_hello(w);
    return spop_client_send(c, w->bytes, w->len) && spop_client_receive(c)
           && spop_client_frame_type(c) == WIRE_AGENT_HELLO;
}

static bool ask_batch(struct spop_client *c, const struct wire *w, struct flood *flood)
{
    if (!spop_client_send(c, w->bytes, w->len)) {
        return false;
    }
    for (int i = 0; i < BATCH; i++) {
        if (!spop_client_receive(c) || spop_client_frame_type(c) != WIRE_ACK) {
            return false;
        }
        flood->n_answered++;
    }
    return true;
}

static void *run(void *arg)
{
    struct flood *flood = arg;
    struct spop_client *c = calloc(1, sizeof(*c));
    struct wire *w = calloc(1, sizeof(*w));
    flood->is_whole = c != NULL && w != NULL;
    if (flood->is_whole) {
        c->fd = flood->fd;
        flood->is_whole = shake_hands(c, w);
        w->len = 0;
        for (unsigned i = 0; i < BATCH; i++) {
            wire_notify(w, i, 1, "flood");
        }
    }
    while (flood->is_whole && !flood->is_over) {
        flood->is_whole = ask_batch(c, w, flood);
    }
    flood->is_over = true;
    free(w);
    free(c);
    return NULL;
}

void flood_wait(const struct flood *flood, uint64_t n)
{
    while (flood->n_answered < n && !flood->is_over) {
        (void)usleep(1000);
    }
}

bool flood_start(struct flood *flood, const char *path)
{
    struct spop_client *c = calloc(1, sizeof(*c));
    *flood = (struct flood){.fd = -1};
    bool ok = c != NULL && spop_client_connect(c, path);
    if (ok) {
        flood->fd = c->fd;
        ok = pthread_create(&flood->thread, NULL, run, flood) == 0;
    }
    free(c);
    return ok;
}

bool flood_stop(struct flood *flood)
{
    flood->is_over = true;
    (void)pthread_join(flood->thread, NULL);
    (void)close(flood->fd);
    return flood->is_whole;
}
