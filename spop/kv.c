#include "spop/kv.h"

enum spop_status spop_kv_next(struct spop_reader *r, struct spop_kv *kv)
{
    if (r->status == SPOP_OK && r->len == 0) {
        return SPOP_END;
    }
    struct spop_reader start = *r;
    struct spop_kv pair;
    pair.key = spop_read_string(r);
    if (pair.key.len == 0) {
        spop_reader_fail(r, SPOP_ERR_FRAME);
    }
    spop_value_decode(r, &pair.value);
    if (r->status != SPOP_OK) {
        r->ptr = start.ptr;
        r->len = start.len;
        return r->status;
    }
    *kv = pair;
    return SPOP_OK;
}
