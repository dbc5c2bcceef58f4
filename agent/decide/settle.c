#include "agent/decide/settle.h"

#include "agent/decide/receipt.h"

static char letter_of(enum rules_store store)
{
    return store == RULES_STORE_LOCAL ? STORE_LETTER_LOCAL : STORE_LETTER_REDIS;
}

/* The limit that an item names, while the rules still have it and settle it; a charge of
 * another store is not ours to correct. */
static const struct rules_limit *find_limit(const struct decide *decide,
                                            const struct receipt_item *item)
{
    const struct rules_limit *limit = rules_set_find_settled(decide->set->rules,
                                                             item->limit);
    return limit != NULL && item->store == letter_of(limit->rule->store) ? limit : NULL;
}

static void correct(struct decide *decide, const struct receipt_item *item,
                    const struct rules_hit *hit, const struct rules_limit *base,
                    struct instant now)
{
    const struct rules_limit *rules = &hit->limits[base - base->rule->limits];
    const struct decide_limit *limit = &decide->set->limits[rules->idx];
    struct store_settlement settlement = {
        .limit = &limit->limit,
        .limit_id = rules->id,
        .key = hit->key.ptr,
        .key_bytes = hit->key.len,
        .correction = {item->place, item->amount, hit->cost},
        .now = now,
        .counters = decide->counters,
    };
    if (limit->home != NULL) {
        settlement.home = &limit->home->home;
        settlement.name = decide_room(decide)->names[0];
        settlement.name_bytes = decide_print_name(decide, hit, limit,
                                                  decide_room(decide)->names[0]);
    }
    store_settle(decide->store, &settlement);
}

static enum counter counter_of(int64_t amount, int64_t truth)
{
    if (truth == amount) {
        return COUNTER_SETTLED_AS_TAKEN;
    }
    if (truth == 0) {
        return COUNTER_SETTLED_GIVEN_BACK;
    }
    return truth < amount ? COUNTER_SETTLED_LOWERED : COUNTER_SETTLED_RAISED;
}

static void settle_item(struct decide *decide, const struct receipt_item *item,
                        struct instant now)
{
    struct counters *counters = decide->counters;
    struct rules_result *result = &decide_room(decide)->result;
    const struct rules_limit *base = find_limit(decide, item);
    struct rules_hit hit;
    if (base == NULL) {
        counter_add(counters, COUNTER_SETTLED_STALE, 1);
        return;
    }
    if (!rules_settle(decide->set->rules, &decide_room(decide)->descriptors, base->rule,
                      item->amount, result, &hit)) {
        counter_add(counters, COUNTER_KEYS_MISSING, 1);
        return;
    }
    counter_add(counters, COUNTER_COSTS_RAISED, result->n_costs_raised);
    counter_add(counters, COUNTER_COSTS_LOWERED, result->n_costs_lowered);
    counter_add(counters, counter_of(item->amount, hit.cost), 1);
    if (hit.cost != item->amount) {
        correct(decide, item, &hit, base, now);
    }
}

void settle_receipt(struct decide *decide, struct instant now)
{
    struct counters *counters = decide->counters;
    struct spop_bytes receipt = decide_room(decide)->receipt;
    struct receipt read;
    if (receipt.len == 0) {
        counter_add(counters, COUNTER_SETTLES_WITHOUT_RECEIPT, 1);
        return;
    }
    if (!receipt_read(receipt.ptr, receipt.len, &read)) {
        counter_add(counters, COUNTER_RECEIPTS_MALFORMED, 1);
        return;
    }
    for (unsigned i = 0; i < read.n_items; i++) {
        settle_item(decide, &read.items[i], now);
    }
}
