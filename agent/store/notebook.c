#include "agent/store/notebook.h"

#include <string.h>

void notebook_init(struct notebook *book)
{
    book->free = NOTEBOOK_NONE;
}

uint32_t notebook_take(struct notebook *book, const struct store_charge *charge)
{
    uint32_t idx = book->free;
    if (idx != NOTEBOOK_NONE) {
        book->free = book->notes[idx].next_free;
    } else if (book->n_used < NOTEBOOK_NOTES) {
        idx = book->n_used++;
    } else {
        return NOTEBOOK_NONE;
    }
    struct note *note = &book->notes[idx];
    ENSURE(charge->key_bytes <= sizeof(note->name));
    note->limit = *charge->limit;
    note->name_bytes = charge->key_bytes;
    memcpy(note->name, charge->key, charge->key_bytes);
    return idx;
}

void notebook_put(struct notebook *book, uint32_t idx)
{
    book->look_at[idx] = (struct instant){0};
    book->notes[idx].next_free = book->free;
    book->free = idx;
}
