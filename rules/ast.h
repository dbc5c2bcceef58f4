/**
 * @file rules/ast.h  A checked rules file, before it is compiled.
 *
 * Model:     what the file says, in file order, with marks where checks still need them.
 * Ownership: everything lies in the arena given to rules_ast_parse, or in the trees.
 * Threads:   one thread.
 * Errors:    diagnostics; the tree is only good when none were added.
 */
#ifndef RULES_AST_H
#define RULES_AST_H

#include "rules/address.h"
#include "rules/arena.h"
#include "rules/calendar.h"
#include "rules/time.h"
#include "rules/yamltree.h"

enum rules_ast_kind {
    RULES_AST_EXACT = 0,
    RULES_AST_PATTERN, /* by segments, with wildcards */
    RULES_AST_PREFIX,  /* `text` is what stands before the star */
    RULES_AST_NETWORK,
};

struct rules_ast_value {
    enum rules_ast_kind kind;
    const char *owner; /* of an entry of a list; NULL: not given */
    const char *reason;
    int64_t expires_s;       /* the same; RULES_NEVER_S: not given */
    struct rules_bytes text; /* of `path`: in normal form */
    struct rules_mark mark;
    struct rules_network network; /* EXACT: what the text means as an address, if it is
                                   * one; NETWORK */
};

/** A descriptor and what it must be. */
struct rules_ast_condition {
    uint32_t slot;
    struct rules_mark mark;
    bool is_negated;   /* everything else, also nothing, matches */
    uint32_t n_values; /* all different; none: any value that is present */
    struct rules_ast_value *values;
};

/** Conditions, one a descriptor, of which all must hold. */
struct rules_ast_match {
    uint32_t n_conditions;
    struct rules_ast_condition *conditions;
};

/** What one request costs: a number, or an argument between two numbers. */
struct rules_ast_cost {
    bool is_from_slot;
    uint32_t slot;
    int64_t min; /* a number: min = max */
    int64_t max;
};

/** Of a rule that is settled after the response. */
struct rules_ast_charge {
    bool is_settled;
    struct rules_mark mark;
    bool has_reserve; /* else the cost is taken at the request */
    int64_t reserve;
    struct rules_ast_match when; /* it stays charged */
};

struct rules_ast_costs_item {
    struct rules_ast_match match;
    int64_t cost;
};

/** A rule that another one takes out. */
struct rules_ast_override {
    const char *name;
    struct rules_mark mark;
    uint32_t rule; /* set when all rules are read */
};

/** A part of a key: the first of its descriptors that is present counts. */
struct rules_ast_part {
    uint32_t n_links;
    uint32_t slots[RULES_KEY_LINKS_MAX];
};

struct rules_ast_limit {
    const char *name; /* empty: a rule's only limit */
    struct rules_mark name_mark;
    struct rules_mark mark;
    struct rules_mark requests_mark;
    struct rules_mark per_mark;
    struct rules_mark algorithm_mark; /* line 0: not given */
    enum rules_algorithm algorithm;
    int64_t requests;
    int64_t burst;
    int64_t per_us;
    struct rules_calendar calendar; /* zone NULL: none */
    int64_t max_delay_us;           /* of a leaky bucket */
};

/** What a plan makes of one limit. */
struct rules_ast_plan_number {
    int64_t requests;
    int64_t burst;
    bool is_changed; /* else as in the rule */
    bool is_factor;  /* by `thousandths`; else requests are as given */
    int64_t thousandths;
};

/** What a plan makes of the limits of a rule. */
struct rules_ast_plan {
    const char *name;
    struct rules_mark mark;
    bool is_unlimited;
    struct rules_ast_plan_number numbers[RULES_LIMITS_MAX]; /* of each of its limits */
};

/** Marks of fields that come from `defaults` lie there; line 0: not given. */
struct rules_ast_rule {
    const char *name;
    struct rules_mark name_mark;
    struct rules_mark mark;
    struct rules_mark key_mark;
    struct rules_mark match_mark;
    struct rules_mark review_by_mark;
    struct rules_mark expires_mark;
    struct rules_mark store_mark;
    enum rules_store store;
    uint32_t n_shards; /* 1: not split */
    struct rules_mark on_store_failure_mark;
    struct rules_mark key_text_mark;
    struct rules_mark tag_mark;
    const char *owner;   /* NULL: not given */
    int64_t review_by_s; /* RULES_NEVER_S: not given */
    int64_t expires_s;   /* the same */
    enum rules_mode mode;
    int32_t enforced_permyriad;
    enum rules_action action;
    int32_t soft_permyriad;
    bool is_advertised; /* as given */
    struct rules_ast_match match;
    struct rules_ast_cost cost;
    uint32_t n_plans;
    struct rules_ast_plan *plans;
    uint32_t n_overrides;
    struct rules_ast_override *overrides;
    uint32_t n_costs; /* the first that matches counts; else `cost` */
    struct rules_ast_costs_item *costs;
    struct rules_ast_charge charge;
    uint32_t n_key_parts;
    struct rules_ast_part key[RULES_KEY_PARTS_MAX];
    enum rules_no_key no_key;
    struct rules_failure on_store_failure;
    bool is_key_hashed;
    uint32_t n_tag; /* descriptors that are parts of the key */
    const char *tag[RULES_KEY_PARTS_MAX];
    struct rules_ip_prefix ip_prefix;
    uint32_t n_limits;
    struct rules_ast_limit limits[RULES_LIMITS_MAX];
};

/** Values of one descriptor that are allowed or blocked before any rule. */
struct rules_ast_list {
    bool is_block;
    struct rules_ast_condition condition;
};

/** The file that says the plans of clients, by what names them. */
struct rules_ast_clients {
    const char *path; /* NULL: there is none */
    struct rules_mark mark;
    uint32_t slot;
};

struct rules_ast {
    const char *domain;
    uint32_t n_required;
    const char **required; /* fields that every rule has */
    uint32_t n_slots;
    struct rules_bytes slots[RULES_SLOTS_MAX]; /* names of descriptors */
    int slot_path;                             /* -1: not used */
    int slot_plan;                             /* the same */
    struct rules_zone *zones;                  /* that limits name */
    uint32_t n_rules;
    struct rules_ast_rule *rules;
    uint32_t n_lists;
    struct rules_ast_list *lists;
    struct rules_ast_clients clients;
};

struct rules_file;

/** @return the parts of its key that are the tag of a rule, bit by bit; 0: not all are */
uint32_t rules_ast_tag_parts(const struct rules_ast *ast,
                             const struct rules_ast_rule *rule);

/** @return the most that one request of a rule can take, now or when it is settled */
int64_t rules_ast_largest_cost(const struct rules_ast_rule *rule);

/** @return how many limits plans make */
uint32_t rules_ast_variants(const struct rules_ast *ast);

/**
 * Check the trees of a file against the language.
 *
 * @param ast  filled, as far as the file is right
 * @errors one diagnostic for each fault of the file
 */
void rules_ast_parse(const struct rules_file *file, struct rules_arena *arena,
                     struct rules_diags *diags, struct rules_ast *ast);

#endif
