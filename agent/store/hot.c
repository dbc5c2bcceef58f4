#include "agent/store/hot.h"

#include <stdlib.h>
#include <string.h>

#include "agent/store/spin.h"

struct entry {
    uint32_t n_last;    /* in the last whole second */
    uint32_t n_now;     /* in this one */
    uint32_t more_last; /* what these may be too high by */
    uint32_t more_now;
    size_t name_bytes; /* 0: free */
    char name[STORE_NAME_BYTES_MAX];
};

struct hot {
    _Atomic uint8_t lock;
    /* guarded by lock: */
    int64_t second;
    struct entry entries[HOT_NAMES];
};

struct hot *hot_new(void)
{
    return calloc(1, sizeof(struct hot));
}

void hot_free(struct hot *hot)
{
    free(hot);
}

/* Count anew where a second has begun. */
static void turn(struct hot *hot, struct instant now)
{
    int64_t second = now.us / US_PER_S;
    if (second <= hot->second) {
        return;
    }
    bool is_next = second == hot->second + 1;
    for (unsigned i = 0; i < HOT_NAMES; i++) {
        struct entry *entry = &hot->entries[i];
        entry->n_last = is_next ? entry->n_now : 0;
        entry->more_last = is_next ? entry->more_now : 0;
        entry->n_now = 0;
        entry->more_now = 0;
    }
    hot->second = second;
}

static bool is_named(const struct entry *entry, const void *name, size_t name_bytes)
{
    return entry->name_bytes == name_bytes
           && memcmp(entry->name, name, name_bytes) == 0;
}

/* The entry of a name: its own, else that of the least. */
static struct entry *find(struct hot *hot, const void *name, size_t name_bytes)
{
    struct entry *least = &hot->entries[0];
    for (unsigned i = 0; i < HOT_NAMES; i++) {
        struct entry *entry = &hot->entries[i];
        if (is_named(entry, name, name_bytes)) {
            return entry;
        }
        if (entry->n_now < least->n_now
            || (entry->n_now == least->n_now && entry->n_last < least->n_last)) {
            least = entry;
        }
    }
    least->more_now = least->n_now;
    least->n_last = 0;
    least->more_last = 0;
    least->name_bytes = name_bytes;
    memcpy(least->name, name, name_bytes);
    return least;
}

void hot_note(struct hot *hot, const void *name, size_t name_bytes, struct instant now)
{
    ENSURE(name_bytes > 0 && name_bytes <= STORE_NAME_BYTES_MAX);
    spin_lock(&hot->lock);
    turn(hot, now);
    find(hot, name, name_bytes)->n_now++;
    spin_unlock(&hot->lock);
}

static uint64_t per_s(const struct entry *entry)
{
    return (uint64_t)(entry->n_last - entry->more_last) * HOT_SAMPLE;
}

/* Keep them in order, the hottest first. */
static void insert(struct hot_name *names, unsigned n, const struct entry *entry)
{
    unsigned at = n;
    for (; at > 0 && names[at - 1].per_s < per_s(entry); at--) {
        names[at] = names[at - 1];
    }
    names[at].per_s = per_s(entry);
    names[at].name_bytes = entry->name_bytes;
    memcpy(names[at].name, entry->name, entry->name_bytes);
}

unsigned hot_read(struct hot *hot, struct instant now, struct hot_name *names)
{
    unsigned n = 0;
    spin_lock(&hot->lock);
    turn(hot, now);
    for (unsigned i = 0; i < HOT_NAMES; i++) {
        if (per_s(&hot->entries[i]) >= HOT_PER_S_MIN) {
            insert(names, n++, &hot->entries[i]);
        }
    }
    spin_unlock(&hot->lock);
    return n;
}
