/**
 * @file rules/program.h  A compiled rule set: the tables that evaluation walks.
 *
 * Model:     each rule is filed under one of its conditions, the one whose values the
 *            fewest other rules share: in a hash table under each exact value, prefix and
 *            network, in a trie of segments under each pattern. A request looks up its own
 *            values (and of them the lengths that occur), checks the rules it finds there
 *            in full, and never meets the others. Conditions that most values fulfil
 *            (present, absent, not) are only checked.
 * Ownership: all in the set's arena, the set itself too.
 * Threads:   immutable after rules_compile.
 * Errors:    none.
 * Limits:    postings and nodes are bounded by the events of a file.
 */
#ifndef RULES_PROGRAM_H
#define RULES_PROGRAM_H

#include "rules/address.h"
#include "rules/arena.h"
#include "rules/bytes.h"
#include "rules/calendar.h"
#include "rules/clients.h"
#include "rules/table.h"

/** How much of a value is looked up. */
struct rules_len {
    uint32_t slot;
    uint32_t bytes; /* of a text; of an address: 4 or 16 */
    uint32_t bits;  /* of an address */
};

/**
 * What one descriptor must be. Conditions of a rule are AND. The ways in which a value can
 * match are numbered: each pattern, then the exact values, each length of prefixes, each
 * length of networks.
 */
struct rules_condition {
    uint32_t slot;
    bool is_negated;
    uint32_t n_wild;
    uint32_t n_texts;
    uint32_t n_addresses;
    uint32_t n_prefixes;
    uint32_t n_networks;
    uint32_t n_prefix_lens;
    uint32_t n_network_lens;
    const struct rules_bytes *wild;      /* patterns, in file order */
    const struct rules_bytes *texts;     /* sorted */
    const struct rules_bytes *addresses; /* sorted: texts that are addresses */
    const struct rules_bytes *prefixes;  /* sorted, without their star */
    const struct rules_bytes *networks;  /* sorted: keys of rules_network_key */
    const struct rules_len *prefix_lens; /* that occur in `prefixes` */
    const struct rules_len *network_lens;
};

/** A descriptor that a part of a key may be. */
struct rules_link {
    uint32_t slot;
    struct rules_bytes name;
};

/** A part of a key: the first of its descriptors that is present. */
struct rules_part {
    uint32_t n_links;
    const struct rules_link *links;
};

/** What a request costs that meets the conditions. */
struct rules_costs_item {
    uint32_t n_conditions;
    const struct rules_condition *conditions;
    int64_t cost;
};

/** What a request costs: `min` where `slot` is RULES_NONE. */
struct rules_cost {
    uint32_t slot;
    int64_t min;
    int64_t max;
    uint32_t n_items; /* the first that matches counts, before all else */
    const struct rules_costs_item *items;
};

/** At the request `reserve` is taken, or what it costs where that is none. */
struct rules_charge {
    bool has_reserve;
    int64_t reserve;
    uint32_t n_conditions;
    const struct rules_condition *conditions; /* under which it stays charged */
};

/** What most rules need comes first, so that it shares a cache line. */
struct rules_matcher {
    uint32_t n_filed; /* 1: the rule is filed under the first condition; else 0 */
    uint32_t n_conditions;
    struct rules_condition *conditions;
    enum rules_no_key no_key;
    uint32_t n_parts;
    const struct rules_part *parts; /* of the key */
    int64_t taken;                  /* by each request; -1: that depends on it */
    struct rules_ip_prefix ip_prefix;
    bool has_plans;
    bool is_expired;
    uint32_t n_overrides;
    const uint32_t *overrides; /* rules that this one takes out */
    struct rules_cost cost;
    struct rules_charge charge;
};

/**
 * A rule under a way in which it matches. It can be found by more than one of them; it
 * counts where none of the first `n_ways_before` ways of its condition matches.
 */
struct rules_posting {
    uint32_t rule;
    uint32_t n_ways_before;
    uint32_t next; /* RULES_NONE: the last */
};

/**
 * A node of a trie of segments. Children by name are in `children`, by node number; most
 * nodes have one, so the first is here too.
 */
struct rules_node {
    uint32_t n_named;        /* children in `children` */
    uint32_t named;          /* the first of them */
    struct rules_bytes name; /* its segment */
    uint32_t one;            /* child for "*", or RULES_NONE */
    uint32_t end;            /* postings of patterns that end here, or RULES_NONE */
    uint32_t rest;           /* postings of patterns with "**" here, or RULES_NONE */
};

enum {
    RULES_PATTERN_SLOTS_MAX = 2
}; /* path and route */

/** In the table of plans: the rule has no limits. */
#define RULES_UNLIMITED (RULES_NONE - 1)

struct rules_set {
    struct rules_arena arena;
    const char *name;
    const char *domain;
    uint32_t n_rules;
    uint32_t n_matchers; /* one a rule, then one for each descriptor of the lists */
    struct rules_rule *rules;
    struct rules_matcher *matchers;
    enum rules_listed *listed; /* of the matchers behind those of the rules */
    uint32_t n_limits;         /* of the rules themselves */
    uint32_t n_variants;       /* with those that plans make */
    struct rules_limit *limits;
    struct rules_clients_file clients; /* path NULL: none */
    uint32_t slot_client;
    int slot_plan; /* -1: neither rules have plans, nor clients */
    struct rules_table
        plans; /* rule, name of a plan -> first of its limits, or RULES_UNLIMITED */
    uint32_t n_calendars; /* different ones */
    struct rules_calendar *calendars;
    struct rules_zone *zones;
    int64_t changes_at_s; /* when the next thing ends */
    uint32_t n_expired;
    bool has_overrides;
    struct rules_table settled; /* short id -> idx of a limit that is settled */

    uint32_t n_slots;
    int slot_path; /* -1: not used */
    struct rules_table slots;
    struct rules_bytes slot_names[RULES_SLOTS_MAX];

    uint32_t n_always; /* rules that no value finds */
    uint32_t *always;
    struct rules_posting *postings;

    uint32_t n_value_slots; /* slots under which `values` holds rules */
    uint32_t value_slots[RULES_SLOTS_MAX];
    uint32_t n_prefix_lens; /* lengths of prefixes under which `values` holds rules */
    uint32_t n_network_lens;
    struct rules_len *prefix_lens;
    struct rules_len *network_lens;
    struct rules_table values; /* rules_value_tag, value -> first posting */

    uint32_t n_pattern_slots;
    uint32_t pattern_slots[RULES_PATTERN_SLOTS_MAX];
    uint32_t pattern_roots[RULES_PATTERN_SLOTS_MAX]; /* nodes */
    struct rules_node *nodes;
    struct rules_table children; /* node, segment -> node */
};

enum rules_value_kind {
    RULES_VALUE_TEXT = 0, /* patterns too, where rules are counted */
    RULES_VALUE_ADDRESS,
    RULES_VALUE_PREFIX,
    RULES_VALUE_NETWORK,
};

/** Kinds are told apart: "abcd" is not 97.98.99.100. */
static inline uint32_t rules_value_tag(uint32_t slot, enum rules_value_kind kind)
{
    return slot * 4 + (uint32_t)kind;
}

#endif
