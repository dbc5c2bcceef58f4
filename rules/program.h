/**
 * @file rules/program.h  A compiled rule set: the tables that evaluation walks.
 *
 * Model:     each rule is filed under one of its conditions, the one whose values the
 *            fewest other rules share: in a hash table under each exact value, in a trie
 *            of segments under each pattern. A request looks up its own values, checks
 *            the rules it finds there in full, and never meets the others.
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
#include "rules/table.h"

/** What one descriptor must be: any of the values. Conditions of a rule are AND. */
struct rules_condition {
    uint32_t slot;
    uint32_t n_wild;
    uint32_t n_texts;
    uint32_t n_addresses;
    const struct rules_bytes *wild;      /* patterns, in file order */
    const struct rules_bytes *texts;     /* sorted */
    const struct rules_bytes *addresses; /* sorted: texts that are addresses */
};

struct rules_part {
    uint32_t slot;
    struct rules_bytes name;
};

struct rules_matcher {
    uint32_t n_conditions;
    uint32_t n_parts;
    struct rules_condition *conditions; /* first: the one the rule is filed under */
    const struct rules_part *parts;     /* of the key */
};

/**
 * A rule under a value or pattern. A rule with several patterns can be found by more than
 * one of them; it counts where none of its first `n_wild_before` patterns matches.
 */
struct rules_posting {
    uint32_t rule;
    uint32_t n_wild_before;
    uint32_t next; /* RULES_NONE: the last */
};

/** A node of a trie of segments. Children by name are in `children`, by node number. */
struct rules_node {
    uint32_t n_named; /* children in `children` */
    uint32_t one;     /* child for "*", or RULES_NONE */
    uint32_t end;     /* postings of patterns that end here, or RULES_NONE */
    uint32_t rest;    /* postings of patterns with "**" here, or RULES_NONE */
};

enum {
    RULES_PATTERN_SLOTS_MAX = 2
}; /* path and route */

struct rules_set {
    struct rules_arena arena;
    const char *name;
    const char *domain;
    uint32_t n_rules;
    struct rules_rule *rules;
    struct rules_matcher *matchers;
    struct rules_limit *limits;

    uint32_t n_slots;
    int slot_path; /* -1: not used */
    struct rules_table slots;

    uint32_t n_always; /* rules without a condition */
    uint32_t *always;
    struct rules_posting *postings;

    uint32_t n_value_slots; /* slots under which `values` holds rules */
    uint32_t value_slots[RULES_SLOTS_MAX];
    struct rules_table values; /* rules_value_tag, value -> first posting */

    uint32_t n_pattern_slots;
    uint32_t pattern_slots[RULES_PATTERN_SLOTS_MAX];
    uint32_t pattern_roots[RULES_PATTERN_SLOTS_MAX]; /* nodes */
    struct rules_node *nodes;
    struct rules_table children; /* node, segment -> node */
};

/** Texts and addresses are told apart: "abcd" is not 97.98.99.100. */
static inline uint32_t rules_value_tag(uint32_t slot, bool is_address)
{
    return slot * 2 + (is_address ? 1 : 0);
}

#endif
