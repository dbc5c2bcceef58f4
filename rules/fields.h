/**
 * @file rules/fields.h  Reading mappings by tables of fields.
 *
 * Model:     a table names every field of a mapping; a reader walks a mapping once and
 *            hands each value to its function.
 * Ownership: borrows tree, diagnostics and arena for the time of one parse.
 * Threads:   one thread.
 * Errors:    diagnostics for anything unknown, missing or of the wrong kind.
 */
#ifndef RULES_FIELDS_H
#define RULES_FIELDS_H

#include "rules/ast.h"
#include "rules/file.h"

struct rules_parse {
    const struct rules_file *file;
    struct rules_diags *diags;
    struct rules_arena *arena;
    struct rules_ast *ast;
    const struct yamltree_node *defaults; /* NULL: none */
    struct rules_ast_rule rule;           /* what a rule is before it is read */
    uint32_t n_rules_max;                 /* room in the array of rules */
    bool has_rules;                       /* in any file, right or wrong */
    bool is_slots_told;                   /* too many descriptors: said once */
    bool is_memory_told;
};

typedef void rules_field_fn(struct rules_parse *parse, const struct yamltree_node *node,
                            void *into);

struct rules_field {
    const char *name;
    rules_field_fn *read;
    bool is_required;
};

enum {
    RULES_FIELDS_MAX = 32,
    RULES_PLACE_BYTES_MAX = 160
};

/** Report an error at a mark of the file. */
#define RULES_FAIL(parse, mark, code, ...) \
    rules_file_diag((parse)->file, (parse)->diags, RULES_ERROR, mark, code, __VA_ARGS__)

/**
 * Read a mapping field by field.
 *
 * @param what  what the mapping is, for diagnostics: "rule"
 * @return false when the node is no mapping (reported)
 */
bool rules_fields_read(struct rules_parse *parse, const struct yamltree_node *node,
                       const char *what, const struct rules_field *fields, size_t n,
                       void *into);

/** @return whether a node is of a kind; reported when not */
bool rules_node_is(struct rules_parse *parse, const struct yamltree_node *node,
                   enum yamltree_kind kind, const char *what);

/** Report, once, that memory ran out. */
void rules_memory_tell(struct rules_parse *parse);

/** @return n objects, or NULL (reported once) */
void *rules_parse_array(struct rules_parse *parse, size_t n, size_t size);

struct rules_bytes rules_node_bytes(const struct yamltree_node *node);

/** One of the words that a field can be. */
struct rules_choice {
    const char *name;
    int value; /* from 0 on */
};

/** @return the value of the word that a node holds, or -1 (reported) */
int rules_choice_read(struct rules_parse *parse, const struct yamltree_node *node,
                      const struct rules_choice *choices, size_t n);

#define RULES_CHOICE_READ(parse, node, choices) \
    rules_choice_read(parse, node, choices, sizeof(choices) / sizeof(choices)[0])

/** Read a share, as 80%; reported when it is none. */
void rules_share_read(struct rules_parse *parse, const struct yamltree_node *node,
                      int32_t *permyriad);

/** @return the name that a node holds, or NULL when it is ill-formed (reported) */
const char *rules_name_read(struct rules_parse *parse,
                            const struct yamltree_node *node);

/** @return whether a text is [a-z][a-z0-9_-]{0,63} */
bool rules_name_is_valid(struct rules_bytes name);

/**
 * Find or add the slot of a descriptor.
 *
 * @return the slot, or -1 for an ill-formed name or one too many (both reported)
 */
int rules_parse_slot(struct rules_parse *parse, struct rules_bytes name,
                     struct rules_mark mark);

/** Write where something stands, for a text about a place that is told with its file.
 *  @return out */
const char *rules_place_print(const struct rules_parse *parse, struct rules_mark place,
                              struct rules_mark from, char out[RULES_PLACE_BYTES_MAX]);

/** Read what the rules of a file are where they do not say otherwise. NULL: nothing. */
void rules_defaults_read(struct rules_parse *parse, const struct yamltree_node *node);

/** Read one rule, and report what in it does not go together. */
void rules_rule_read(struct rules_parse *parse, const struct yamltree_node *node,
                     struct rules_ast_rule *rule);

/** @return the field that says the same in another way, if there is one; else `name` */
const char *rules_field_twin(const char *name);

/** @return whether a text is the name of a field that a rule can have */
bool rules_is_rule_field(const char *name);

/** Report what stands twice in a list, when all files are read. */
void rules_lists_check(struct rules_parse *parse);

/** Read conditions; nothing is every request. */
void rules_match_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_match *match);

/** Report a tag of the rule's own, `node`, that its key does not hold; drop one that comes
 * from `defaults`. */
void rules_tag_check(struct rules_parse *parse, const struct yamltree_node *node,
                     struct rules_ast_rule *rule);

/** Report what the store of a rule does not go with. */
void rules_store_check(struct rules_parse *parse, const struct rules_ast_rule *rule);

/** Report shards of the rule's own, `node`, that it cannot have; drop those that come from
 * `defaults`. */
void rules_shards_check(struct rules_parse *parse, const struct yamltree_node *node,
                        struct rules_ast_rule *rule);

/** Report a charge that could settle nothing. `node`: where it stands. */
void rules_charge_check(struct rules_parse *parse, const struct yamltree_node *node,
                        const struct rules_ast_rule *rule);

/** Read `plans` of a rule whose limits are read. */
void rules_plans_read(struct rules_parse *parse, const struct yamltree_node *node,
                      struct rules_ast_rule *rule);

/** Find the rules that are overridden, when all are read; report what is not right. */
void rules_overrides_resolve(struct rules_parse *parse);

/** Read one value that a descriptor may have. @return false when wrong (reported) */
bool rules_match_value_read(struct rules_parse *parse, const struct yamltree_node *node,
                            const char *descriptor, struct rules_ast_value *value);

/** Report the values that match the same. */
void rules_match_values_check(struct rules_parse *parse,
                              const struct rules_ast_condition *condition);

/** @return a text of 1 to 128 printable ASCII characters, or NULL (reported) */
const char *rules_text_read(struct rules_parse *parse,
                            const struct yamltree_node *node);

/** The same of a path of another file: up to RULES_INCLUDE_BYTES_MAX of them. */
const char *rules_path_read(struct rules_parse *parse,
                            const struct yamltree_node *node);

/** Read a date or a moment; reported when it is none. */
void rules_moment_read(struct rules_parse *parse, const struct yamltree_node *node,
                       int64_t *at_s);

/** A field that is read on its own, before or after the others. */
rules_field_fn rules_field_skip;

/* The fields that have a file of their own. `into` is a struct rules_ast_rule; of lists
 * and clients a struct rules_ast. */
rules_field_fn rules_field_match;
rules_field_fn rules_field_cost;
rules_field_fn rules_field_costs;
rules_field_fn rules_field_charge;
rules_field_fn rules_field_clients;
rules_field_fn rules_field_key;
rules_field_fn rules_field_overrides;
rules_field_fn rules_field_ip_prefix;
rules_field_fn rules_field_limit;
rules_field_fn rules_field_limits;
rules_field_fn rules_field_store;
rules_field_fn rules_field_on_store_failure;
rules_field_fn rules_field_key_text;
rules_field_fn rules_field_tag;
rules_field_fn rules_field_shards;
rules_field_fn rules_field_lists;

#endif
