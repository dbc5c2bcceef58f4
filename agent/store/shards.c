#include "agent/store/shards.h"

#include <string.h>

static int64_t part(int64_t amount, unsigned n_shards, unsigned shard)
{
    return amount / n_shards + (shard < amount % n_shards ? 1 : 0);
}

void shards_limit(const struct limit *whole, unsigned n_shards, unsigned shard,
                  struct limit *limit)
{
    *limit = *whole;
    limit->requests = part(whole->requests, n_shards, shard);
    limit->size = whole->algorithm == LIMIT_LEAKY_BUCKET
                      ? limit_leaky_size(limit)
                      : part(whole->size, n_shards, shard);
}

/* Bytes up to where the number of a shard stands in a name, or would. */
static size_t head_bytes(const char *name, size_t name_bytes)
{
    const char *brace = memchr(name, '}', name_bytes);
    ENSURE(brace != NULL);
    size_t n = (size_t)(brace - name);
    const char *mark = memchr(name, '#', n);
    return mark != NULL ? (size_t)(mark - name) : n;
}

static size_t copy_tail(const char *name, size_t name_bytes, char *out)
{
    const char *brace = memchr(name, '}', name_bytes);
    ENSURE(brace != NULL);
    size_t n = name_bytes - (size_t)(brace - name);
    memcpy(out, brace, n);
    return n;
}

size_t shards_strip(const char *name, size_t name_bytes, char *out)
{
    size_t n = head_bytes(name, name_bytes);
    memcpy(out, name, n);
    return n + copy_tail(name, name_bytes, out + n);
}

size_t shards_name(const char *name, size_t name_bytes, unsigned shard, char *out)
{
    size_t n = head_bytes(name, name_bytes);
    memcpy(out, name, n);
    out[n++] = '#';
    out[n++] = (char)('0' + shard / 10);
    out[n++] = (char)('0' + shard % 10);
    return n + copy_tail(name, name_bytes, out + n);
}

void shards_set(struct sharding *sharding, struct store_take *take, unsigned i,
                unsigned shard)
{
    struct store_charge *charge = &take->charges[i];
    uint32_t bit = UINT32_C(1) << i;
    if ((sharding->mask & bit) == 0) {
        sharding->mask |= bit;
        sharding->wholes[i] = charge->limit;
    }
    sharding->shards[i] = (uint8_t)shard;
    shards_limit(sharding->wholes[i], charge->home->n_shards, shard,
                 &sharding->limits[i]);
    charge->limit = &sharding->limits[i];
}

static void restore_answer(struct limit_answer *answer, const struct limit *whole,
                           unsigned n_shards)
{
    int64_t remaining = answer->remaining * n_shards;
    answer->remaining = remaining < whole->size ? remaining : whole->size;
}

void shards_restore(const struct sharding *sharding, struct store_take *take)
{
    for (uint32_t left = sharding->mask; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        struct store_charge *charge = &take->charges[i];
        charge->limit = sharding->wholes[i];
        if (charge->source != STORE_FALLBACK) {
            restore_answer(&charge->answer, charge->limit, charge->home->n_shards);
        }
        if (charge->source == STORE_COUNTED) {
            charge->place = shards_place(charge->place, sharding->shards[i]);
        }
        if (take->is_peek) {
            restore_answer(&take->held[i], charge->limit, charge->home->n_shards);
        }
    }
}
