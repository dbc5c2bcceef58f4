#include "agent/net/pending.h"

struct pending *pendings_take(struct pendings *pendings)
{
    struct pending *pending = &pendings->last;
    if (pendings->free != NULL) {
        pending = pendings->free;
        pendings->free = pending->next;
    } else if (pendings->n_used < PENDINGS_MAX) {
        pending = &pendings->all[pendings->n_used++];
    }
    pending->state = PENDING_BEGUN;
    return pending;
}

void pendings_put(struct pendings *pendings, struct pending *pending)
{
    if (pending != &pendings->last) {
        pending->next = pendings->free;
        pendings->free = pending;
    }
}
