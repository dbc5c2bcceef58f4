#include "agent/control/counter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rules/key_text.h"
#include "rules/words.h"

#include "agent/store/shards.h"

/* What was found of a counter, of all its shards. */
struct found {
    int64_t used;
    int64_t remaining;
    int64_t reset_us; /* of the last */
    const char *cause;
    const char *policy; /* both of what is not answered; NULL: all is */
};

/* One question; on the heap, since answers may come later. */
struct asked {
    struct peek_source source;
    FILE *out;
    counter_done_fn *done;
    void *context;

    const char *limit; /* the name of a rule, or of a limit; NULL: all */
    struct rules_bytes key;
    bool has_key_of_rule; /* some rule has such a key */

    uint32_t next;                /* the limit to look at next */
    const struct rules_limit *at; /* the limit that is looked at */
    unsigned n_shards;            /* of it; 0: it is counted on this host */
    unsigned n_looked_at;         /* of these */
    struct found found;
    bool is_beginning; /* store_take has not returned */
    bool is_looked;    /* and has called back */
    struct store_take take;
    struct store_home home;                 /* of a shard */
    struct limit limits[STORE_CHARGES_MAX]; /* of shards */
    struct rules_bytes
        keys[2]; /* of a text, as text and as address; the second may be empty */
    uint8_t key_bytes[2][RULES_KEY_BYTES_MAX];
    size_t name_bytes;
    char name[STORE_NAME_BYTES_MAX];
    char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX]; /* of shards */
    struct decide decide;                                /* writes names */
};

/* --- printing --- */

static void print_wait(FILE *out, int64_t us)
{
    if (us >= LIMIT_WAIT_US_MAX) {
        (void)fputs("never", out);
    } else {
        (void)fprintf(out, "%" PRId64, div_up(us, US_PER_MS));
    }
}

static void print_found(const struct asked *asked)
{
    const struct found *found = &asked->found;
    if (found->cause != NULL) {
        (void)fprintf(asked->out, " unavailable cause=%s policy=%s", found->cause,
                      found->policy != NULL ? found->policy : "-");
        return;
    }
    (void)fprintf(asked->out,
                  " used=%" PRId64 " remaining=%" PRId64 " reset_ms=", found->used,
                  found->remaining);
    print_wait(asked->out, found->reset_us);
}

/* What this host has of it. */
static void print_held(const struct asked *asked)
{
    const struct store_charge *charge = &asked->take.charges[0];
    struct peek_held held = peek_look(asked->source.stores, charge, asked->source.now);
    FILE *out = asked->out;
    switch (charge->home->kind) {
    case STORE_KIND_REDIS:
        break;
    case STORE_KIND_LEASE:
        (void)fprintf(out, " leased=%" PRId64 " leased_ms=%" PRId64, held.lease.left,
                      div_up(held.lease.spend_us, US_PER_MS));
        break;
    case STORE_KIND_SYNC:
        if (!held.sync.is_there) {
            (void)fputs(" known=-", out);
            break;
        }
        (void)fprintf(out, " known=%" PRId64 " unsent=%" PRId64 " age_ms=%" PRId64 "%s",
                      held.sync.remaining, held.sync.unsent,
                      held.sync.age_us / US_PER_MS,
                      held.sync.is_cut_off ? " cut_off" : "");
        break;
    }
}

static void print_shared(const struct asked *asked)
{
    (void)fprintf(asked->out, " store=%s", rules_store_name(asked->at->rule->store));
    if (asked->source.stores == NULL) { /* Redis is not asked */
        return;
    }
    if (asked->n_shards > 1) {
        (void)fprintf(asked->out, " shards=%u", asked->n_shards);
    }
    print_found(asked);
    print_held(asked);
    (void)fprintf(asked->out, " counter=%.*s", (int)asked->name_bytes, asked->name);
}

static void print_limit(const struct asked *asked, struct rules_bytes key)
{
    char text[RULES_KEY_TEXT_BYTES_MAX];
    const struct rules_limit *limit = asked->at;
    (void)rules_key_text(key, text);
    (void)fprintf(asked->out, "limit=%s algorithm=%s size=%" PRId64, limit->name,
                  rules_algorithm_name(limit->algorithm),
                  asked->source.set->limits[limit->idx].limit.size);
    if (asked->n_shards == 0) {
        print_found(asked);
    } else {
        print_shared(asked);
    }
    (void)fprintf(asked->out, " key=%s\n", text);
}

/* --- looking --- */

static void look_at_held(struct found *found, int64_t size,
                         const struct limit_answer *held)
{
    found->used += size - held->remaining;
    found->remaining += held->remaining;
    found->reset_us = held->reset_us > found->reset_us ? held->reset_us
                                                       : found->reset_us;
}

/* A descriptor that looks like an address may have come as one, or as text: shown is the
 * one that holds something. */
static void end_local(struct asked *asked)
{
    const struct store_take *take = &asked->take;
    unsigned i = take->n_charges > 1 && take->held[0].reset_us == 0
                 && take->held[1].reset_us != 0;
    look_at_held(&asked->found, take->charges[i].limit->size, &take->held[i]);
    asked->found.cause = peek_cause(take, &take->charges[i]);
    print_limit(asked, asked->keys[i]);
    asked->at = NULL;
}

static void end_shards(struct asked *asked)
{
    const struct store_take *take = &asked->take;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        const char *cause = peek_cause(take, charge);
        look_at_held(&asked->found, charge->limit->size, &take->held[i]);
        if (cause != NULL) {
            asked->found.cause = cause;
            asked->found.policy = peek_policy(charge);
        }
    }
    asked->n_looked_at += take->n_charges;
    if (asked->n_looked_at == asked->n_shards) {
        print_limit(asked, asked->keys[0]);
        asked->at = NULL;
    }
}

static struct store_charge *add_charge(struct asked *asked, struct rules_bytes key)
{
    struct store_charge *charge = &asked->take.charges[asked->take.n_charges++];
    *charge = (struct store_charge){
        .limit = &asked->source.set->limits[asked->at->idx].limit,
        .limit_id = asked->at->id,
        .key = key.ptr,
        .key_bytes = key.len,
    };
    return charge;
}

static void add_local(struct asked *asked)
{
    (void)add_charge(asked, asked->keys[0]);
    if (asked->keys[1].len > 0) {
        (void)add_charge(asked, asked->keys[1]);
    }
}

static void add_shard(struct asked *asked, unsigned shard)
{
    unsigned i = asked->take.n_charges;
    struct store_charge *charge = add_charge(asked, asked->keys[0]);
    charge->home = &asked->home;
    charge->name = asked->name;
    charge->name_bytes = asked->name_bytes;
    if (asked->n_shards > 1) {
        shards_limit(charge->limit, asked->n_shards, shard, &asked->limits[i]);
        charge->limit = &asked->limits[i];
        charge->name_bytes = shards_name(asked->name, asked->name_bytes, shard,
                                         asked->names[i]);
        charge->name = asked->names[i];
    }
}

/* Each is looked at as a counter of its own. */
static void add_shards(struct asked *asked)
{
    unsigned left = asked->n_shards - asked->n_looked_at;
    unsigned n = left < STORE_CHARGES_MAX ? left : STORE_CHARGES_MAX;
    for (unsigned i = 0; i < n; i++) {
        add_shard(asked, asked->n_looked_at + i);
    }
}

static bool is_asked(const struct asked *asked, const struct rules_limit *limit)
{
    return asked->limit == NULL || strcmp(asked->limit, limit->name) == 0
           || strcmp(asked->limit, limit->rule->name) == 0;
}

static bool read_keys(struct asked *asked, const struct rules_rule *rule)
{
    for (unsigned i = 0; i < 2; i++) {
        asked->keys[i] = (struct rules_bytes){asked->key_bytes[i], 0};
        if (rules_key_text_read(asked->source.set->rules, rule, asked->key, i == 1,
                                asked->key_bytes[i], &asked->keys[i].len)
            != RULES_KEY_TEXT_OK) {
            return false;
        }
    }
    if (asked->keys[0].len == asked->keys[1].len
        && memcmp(asked->keys[0].ptr, asked->keys[1].ptr, asked->keys[0].len) == 0) {
        asked->keys[1].len = 0;
    }
    return true;
}

/* Names of counters in Redis tell no address from its text. */
static void find_home(struct asked *asked)
{
    const struct decide_limit *limit = &asked->source.set->limits[asked->at->idx];
    struct rules_hit hit = {.key = asked->keys[0]};
    asked->n_shards = 0;
    asked->n_looked_at = 0;
    asked->found = (struct found){0};
    if (limit->home == NULL) {
        return;
    }
    asked->home = limit->home->home;
    asked->n_shards = asked->home.n_shards;
    asked->home.n_shards = 1;
    asked->name_bytes = decide_print_name(&asked->decide, &hit, limit, asked->name);
}

/* Turn to the next limit that is asked for. @return false: there is none left */
static bool find_limit(struct asked *asked)
{
    const struct decide_set *set = asked->source.set;
    while (asked->next < set->n_limits) {
        const struct rules_limit *limit = rules_set_limit(set->rules, asked->next++);
        if (is_asked(asked, limit) && read_keys(asked, limit->rule)) {
            asked->has_key_of_rule = true;
            asked->at = limit;
            find_home(asked);
            return true;
        }
    }
    return false;
}

static void look_on(struct asked *asked);

static void on_looked(struct store_take *take)
{
    struct asked *asked = CONTAINER_OF(take, struct asked, take);
    if (asked->n_shards == 0) {
        end_local(asked);
    } else {
        end_shards(asked);
    }
    asked->is_looked = true;
    if (!asked->is_beginning) {
        look_on(asked);
    }
}

static void look(struct asked *asked)
{
    asked->take.now = asked->source.now;
    asked->take.deadline = instant_add_us(asked->source.now,
                                          asked->source.options->deadline_us);
    asked->take.is_peek = true;
    asked->take.failure = STORE_NO_FAILURE;
    asked->take.done = on_looked;
    asked->take.n_charges = 0;
    if (asked->n_shards == 0) {
        add_local(asked);
    } else {
        add_shards(asked);
    }
    asked->is_looked = false;
    asked->is_beginning = true;
    store_take(asked->source.store, &asked->take);
    asked->is_beginning = false;
}

static void end(struct asked *asked)
{
    if (!asked->has_key_of_rule) {
        (void)fputs("show counter: no such limit has a key of these parts\n",
                    asked->out);
    }
    asked->done(asked->context);
    free(asked);
}

/* One look after the other: for as long as they are answered at once, here. */
static void look_on(struct asked *asked)
{
    while (asked->at != NULL || find_limit(asked)) {
        look(asked);
        if (!asked->is_looked) {
            return;
        }
    }
    end(asked);
}

/* --- words --- */

/* What stands alone is a rule where it has no "=". */
static bool read_words(struct asked *asked, unsigned n_words, const char *const *words)
{
    bool has_key = n_words > 0 && strchr(words[n_words - 1], '=') != NULL;
    const char *key = has_key ? words[n_words - 1] : "";
    unsigned n_names = n_words - has_key;
    if (n_words == 0 || n_names > 1) {
        return false;
    }
    asked->limit = n_names > 0 ? words[0] : NULL;
    asked->key = (struct rules_bytes){(const uint8_t *)key, strlen(key)};
    return true;
}

void counter_begin(const struct peek_source *source, unsigned n_words,
                   const char *const *words, FILE *out, counter_done_fn *done,
                   void *context)
{
    struct asked *asked = calloc(1, sizeof(*asked));
    const char *error = NULL;
    if (asked == NULL) {
        error = "show counter: out of memory\n";
    } else if (!read_words(asked, n_words, words)) {
        error = "show counter: want " COUNTER_WORDS
                ", where KEY is NAME=VALUE[,NAME=VALUE]\n";
    }
    if (error != NULL) {
        (void)fputs(error, out);
        free(asked);
        done(context);
        return;
    }
    asked->source = *source;
    asked->decide.options = source->options;
    asked->out = out;
    asked->done = done;
    asked->context = context;
    look_on(asked);
}
