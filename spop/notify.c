#include "spop/notify.h"

void spop_notify_init(struct spop_notify *it, struct spop_bytes payload)
{
    spop_reader_init(&it->reader, payload);
    it->n_args_left = 0;
}

enum spop_status spop_notify_next_message(struct spop_notify *it,
                                          struct spop_message *msg)
{
    enum spop_status status = SPOP_OK;
    while (status == SPOP_OK) {
        struct spop_arg skipped;
        status = spop_notify_next_arg(it, &skipped);
    }
    if (status != SPOP_END) {
        return status;
    }
    struct spop_reader *r = &it->reader;
    if (r->len == 0) {
        return SPOP_END;
    }
    struct spop_message next;
    next.name = spop_read_string(r);
    next.n_args = spop_read_u8(r);
    if (r->status != SPOP_OK) {
        return r->status;
    }
    it->n_args_left = next.n_args;
    *msg = next;
    return SPOP_OK;
}
