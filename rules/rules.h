/**
 * @file rules/rules.h  The rules language: text in, "these limits apply" out.
 *
 * Model:     text -> YAML tree -> checked rules -> a compiled, immutable set ->
 *            evaluate a request against it. Nothing here knows SPOP, stores or threads.
 * Ownership: a set owns everything reachable from it, in one arena; views in results
 *            point into the request's values, the set, or the result itself.
 * Threads:   a set never changes after rules_load: any number of threads may evaluate
 *            it. A request and a result belong to one thread.
 * Errors:    people get diagnostics with line and column (diag.h), all of one run.
 * Limits:    the named constants below.
 */
#ifndef RULES_RULES_H
#define RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/diag.h"

#define RULES_MUST_USE __attribute__((warn_unused_result))

/** An array on the hot path that is filled as far as it is read: not cleared first. */
#define RULES_UNCLEARED __attribute__((uninitialized))

enum {
    RULES_FILE_BYTES_MAX = 4 * 1024 * 1024, /* with all that it includes */
    RULES_INCLUDES_MAX = 64,
    RULES_INCLUDE_BYTES_MAX = 255, /* of a path */
    RULES_RULES_MAX = 10000,
    RULES_NAME_BYTES_MAX = 64,  /* [a-z][a-z0-9_-]{0,63} */
    RULES_SLOTS_MAX = 64,       /* descriptors that the rules of one set use */
    RULES_HITS_MAX = 16,        /* rules and limits that apply to one request */
    RULES_LIMITS_MAX = 4,       /* of a rule */
    RULES_COSTS_MAX = 64,       /* of a rule */
    RULES_OVERRIDES_MAX = 64,   /* of a rule */
    RULES_PLANS_MAX = 64,       /* of a rule */
    RULES_VARIANTS_MAX = 50000, /* limits of a set, with those that plans make */
    RULES_MATCHES_MAX = 64,     /* rules that match one request, before overrides */
    RULES_SHARDS_MAX = 64,      /* of a rule */
    RULES_KEY_PARTS_MAX = 6,
    RULES_KEY_LINKS_MAX = 8,     /* descriptors in a chain: a | b */
    RULES_KEY_BYTES_MAX = 1024,  /* one encoded key: key.h says how it stays below */
    RULES_PATH_BYTES_MAX = 2048, /* longest path that is normalised */
    RULES_LIMIT_ID_BYTES = 16,
    RULES_SHORT_ID_BYTES = 12 * 6 / 8, /* what receipts keep of it */
};

/** Largest requests, burst or cost: products with ticks then stay exact in 2^53. */
#define RULES_AMOUNT_MAX INT64_C(1000000000)

/** A borrowed range of bytes. */
struct rules_bytes {
    const uint8_t *ptr;
    size_t len;
};

/** Whether a request is on a list of the file; block wins. */
enum rules_listed {
    RULES_UNLISTED = 0,
    RULES_ALLOWED,
    RULES_BLOCKED,
};

/** What becomes of a rule whose key a request does not have. */
enum rules_no_key {
    RULES_NO_KEY_IP = 0, /* the address takes the place of what is missing */
    RULES_NO_KEY_SKIP,
    RULES_NO_KEY_REJECT,
};

enum rules_algorithm {
    RULES_SLIDING_WINDOW = 0,
    RULES_TOKEN_BUCKET,
    RULES_FIXED_WINDOW,
    RULES_LEAKY_BUCKET,
    RULES_SLIDING_LOG,
};

/** Most requests of a sliding log. */
#define RULES_LOG_REQUESTS_MAX INT64_C(1000)

/** Windows that follow the calendar. */
enum rules_unit {
    RULES_MINUTE = 0,
    RULES_HOUR,
    RULES_DAY,
    RULES_WEEK, /* from Monday */
    RULES_MONTH,
};

struct rules_calendar;

enum rules_mode {
    RULES_ENFORCE = 0,
    RULES_SHADOW,  /* decides and counts as if enforced, refuses nothing */
    RULES_PERCENT, /* enforced for a share of the keys, in shadow for the others */
};

/** Where the counters of a rule live. */
enum rules_store {
    RULES_STORE_LOCAL = 0, /* on this host */
    RULES_STORE_REDIS,     /* for all hosts, in Redis: asked about each request */
    RULES_STORE_LEASE,     /* the same; hosts take blocks ahead, and spend those */
    RULES_STORE_SYNC,      /* the same; hosts count, and exchange what they counted */
};

/** What a rule does while its store does not answer. */
enum rules_failure_policy {
    RULES_FAILURE_LOCAL = 0, /* counts on this host, with a share of the limit */
    RULES_FAILURE_OPEN,      /* lets all pass */
    RULES_FAILURE_CLOSED,    /* refuses all */
};

struct rules_failure {
    enum rules_failure_policy policy;
    int32_t share_permyriad; /* LOCAL: of the limit, in hundredths of 1 %, 1 to 10000 */
};

struct rules_rule;

/** What becomes of a request that is over a limit. */
enum rules_action {
    RULES_REJECT = 0,
    RULES_WARN,    /* goes on, and says so */
    RULES_DEGRADE, /* goes on, to something cheaper */
    RULES_BLOCK,   /* refused, as if on a list */
    RULES_DELAY,   /* goes on, later: what leaky_bucket does */
};

/** One limit, checked and in ticks. Immutable. */
struct rules_limit {
    const struct rules_rule *rule;
    const char *name; /* the rule's name; rule.limit where a rule has several */
    enum rules_algorithm algorithm;
    int64_t requests;
    int64_t burst;  /* size of a token bucket; = requests otherwise */
    int64_t per_us; /* with a calendar: rules_unit_us */
    const struct rules_calendar *calendar; /* NULL: windows are multiples of per */
    uint32_t calendar_idx;                 /* of the set's */
    int64_t max_delay_ticks;               /* of a leaky bucket: 1 to per_ticks */
    int64_t tick_us; /* smallest power of ten that leaves <= 10^6 ticks in per */
    int64_t per_ticks;
    /* Dense over the set: first the limits of the rules in file order, then what plans
     * make of them. */
    uint32_t idx;
    uint32_t base_idx; /* of the rule's own limit: = idx but where a plan made it */
    /* Names the counter: a digest of domain, rule, limit, algorithm, per and key parts.
     * The same in every set in which these are the same, whatever the numbers. */
    uint8_t id[RULES_LIMIT_ID_BYTES];
};

struct rules_rule {
    const char *name;
    const char *owner; /* printable ASCII; NULL when the file names none */
    uint32_t idx;      /* in file order */
    enum rules_mode mode;
    enum rules_action action;
    int32_t soft_permyriad;     /* share of a limit past which it warns; 0: never */
    int32_t enforced_permyriad; /* PERCENT: share of the keys, in hundredths of 1 % */
    bool is_expired;            /* had ended when the file was read: matches nothing */
    bool is_settled;            /* after the response: charged ones get a receipt */
    bool is_keyed;              /* false for key: [] */
    bool is_key_hashed;         /* key values are secrets: never shown as they are */
    enum rules_store store;
    uint32_t n_shards;  /* counters that share a limit, 1 to RULES_SHARDS_MAX */
    int64_t cost_max;   /* the most that one request can be charged */
    uint32_t tag_parts; /* bit i: part i of the key is of the tag; 0: no tag */
    struct rules_failure on_store_failure;
    bool
        is_advertised; /* shown in header fields, where it is no shadow; false for key: [] */
    uint32_t n_limits;
    const struct rules_limit *limits;
};

struct rules_set;

/**
 * Reads a file that the rules include.
 *
 * @param path       as it is reached from where the main file's name is
 * @param bytes_max  a larger file is an error
 * @param error      on failure a text that says why, never to be freed
 * @return its bytes, to be freed with free(), or NULL
 */
typedef char *rules_read_fn(void *context, const char *path, size_t bytes_max,
                            size_t *len, const char **error);

/** A rules file, as it was read. */
struct rules_source {
    const char *name; /* of the file: includes are looked for in its directory */
    struct rules_bytes text;
    int64_t now_s; /* Unix time: what ends is in force while it is below its end */
    rules_read_fn *read; /* NULL: nothing can be included */
    void *context;       /* its first argument */
};

/**
 * Read, check and compile a rules file. The program calls sodium_init first.
 *
 * @param source  not needed after the call
 * @param diags   gets every error of meaning of one run
 * @return the set, owned by the caller (rules_set_free), or NULL when diags has errors
 */
RULES_MUST_USE struct rules_set *rules_load(const struct rules_source *source,
                                            struct rules_diags *diags);

/** Free a set and all that belongs to it. NULL is fine. */
void rules_set_free(struct rules_set *set);

const char *rules_set_name(const struct rules_set *set);
const char *rules_set_domain(const struct rules_set *set);
uint32_t rules_set_n_rules(const struct rules_set *set);
/** @return how many limits the rules have themselves: base_idx is below it */
uint32_t rules_set_n_limits(const struct rules_set *set);
/** @return how many there are with those that plans make: idx is below it */
uint32_t rules_set_n_variants(const struct rules_set *set);
/** @return the limit with an idx */
const struct rules_limit *rules_set_limit(const struct rules_set *set, uint32_t idx);
/** @return how many different calendars the limits follow */
uint32_t rules_set_n_calendars(const struct rules_set *set);
/** @return calendar `idx`, which is below that */
const struct rules_calendar *rules_set_calendar(const struct rules_set *set,
                                                uint32_t idx);
/** @return rule `idx`, which is below rules_set_n_rules */
const struct rules_rule *rules_set_rule(const struct rules_set *set, uint32_t idx);

/** @return the Unix time from which on the set is another one, since something of it ends;
 *  INT64_MAX: never */
int64_t rules_set_changes_at_s(const struct rules_set *set);

/** @return how many rules of the file had ended when it was read */
uint32_t rules_set_n_expired(const struct rules_set *set);

/** @return how many slots the set uses: 0 to this - 1 are all that evaluation reads */
uint32_t rules_set_n_slots(const struct rules_set *set);

/**
 * Find the slot of a descriptor.
 *
 * @return 0 to RULES_SLOTS_MAX - 1, or -1 when no rule of the set uses the name
 * @cost   one hash of the name
 */
int rules_set_slot(const struct rules_set *set, struct rules_bytes name);

enum rules_value_type {
    RULES_ABSENT = 0, /* not sent, NULL, or empty */
    RULES_TEXT,       /* bytes as they are; numbers as decimal text */
    RULES_ADDRESS,    /* 4 or 16 bytes in network order */
};

struct rules_value {
    enum rules_value_type type;
    struct rules_bytes bytes;
};

/** The descriptors of one request, by slot. Zeroed as far as the set has slots: absent. */
struct rules_request {
    struct rules_value values[RULES_SLOTS_MAX];
};

/** A rule that applies to the request, and the key of its counters. */
struct rules_hit {
    const struct rules_rule *rule;
    const struct rules_limit *limits; /* the rule's, or those of the request's plan */
    struct rules_bytes key; /* injective encoding of the key parts; empty for [] */
    uint32_t n_limits;      /* of the rule's, the first ones: all but where it is cut */
    int64_t cost;           /* what to take: 0 to RULES_AMOUNT_MAX */
    bool is_shadow;         /* for this key: refuses nothing */
    bool
        is_address_standing_in; /* a key part was missing: the address took its place */
};

/** What evaluation found. Large: lives in a worker, not on the stack. */
struct rules_result {
    enum rules_listed listed; /* then the hits do not count */
    uint32_t n_hits;          /* in file order */
    /* The first enforced rule that refuses a request without its key, or NULL. */
    const struct rules_rule *keyless;
    uint32_t n_matched;        /* rules that matched, also those skipped or left out */
    uint32_t n_overridden;     /* taken out by others */
    uint32_t n_unlimited;      /* taken out by the request's plan */
    uint32_t n_skipped_no_key; /* matched, but no key and no address */
    uint32_t
        n_costs_raised; /* costs from an argument: missing, ill-formed, too small */
    uint32_t n_costs_lowered;  /* the same: too large */
    bool is_cut;               /* more than RULES_HITS_MAX limits applied */
    bool is_path_as_it_stands; /* the path could not be normalised */
    struct rules_hit hits[RULES_HITS_MAX];
    uint8_t keys[RULES_HITS_MAX][RULES_KEY_BYTES_MAX];
    uint8_t path[RULES_PATH_BYTES_MAX];
};

/**
 * Find the rules that apply to a request.
 *
 * @param result  filled; everything in it is overwritten but unused room
 * @thread any, each with its own request and result
 * @cost   does not grow with the rules that do not match; no allocation, no system call
 */
void rules_eval(const struct rules_set *set, const struct rules_request *request,
                struct rules_result *result);

/** @return the limit of that short id whose rule is settled after the response, or NULL */
const struct rules_limit *rules_set_find_settled(const struct rules_set *set,
                                                 const uint8_t *short_id);

/**
 * Find what a charge of a rule should have been, by the descriptors of the response: the
 * counter is the one that their key makes. Nothing else of the rule is looked at.
 *
 * @param rule    is_settled
 * @param amount  what was taken
 * @param result  n_costs_raised and n_costs_lowered are set, its room is used
 * @param hit     filled; cost: 0 when `when` does not hold, else the true cost, which is
 *                `amount` where there is none but that of the request
 * @return false when the key is missing
 */
RULES_MUST_USE bool rules_settle(const struct rules_set *set,
                                 const struct rules_request *request,
                                 const struct rules_rule *rule, int64_t amount,
                                 struct rules_result *result, struct rules_hit *hit);

#endif
