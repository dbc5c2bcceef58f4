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
    book->n_taken++;
    note->is_taken = true;
    note->limit = *charge->limit;
    note->name_bytes = charge->key_bytes;
    memcpy(note->name, charge->key, charge->key_bytes);
    return idx;
}

void notebook_put(struct notebook *book, uint32_t idx)
{
    book->look_at[idx] = (struct instant){0};
    book->n_taken--;
    book->notes[idx].is_taken = false;
    book->notes[idx].next_free = book->free;
    book->free = idx;
}

void notebook_keep(struct notebook *book)
{
    for (uint32_t i = 0; i < book->n_used; i++) {
        struct note *note = &book->notes[i];
        struct calendar *kept = &book->calendars[i];
        if (note->is_taken && note->limit.calendar != NULL
            && note->limit.calendar != kept) {
            calendar_copy(kept, note->limit.calendar);
            note->limit.calendar = kept;
        }
    }
}
