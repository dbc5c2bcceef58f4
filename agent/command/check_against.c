#include "agent/command/check_against.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rules/table.h"
#include "rules/words.h"

#include "agent/command/words.h"

struct comparer {
    const struct check_side *old_side;
    const struct check_side *new_side;
    struct rules_table old_rules; /* name -> index */
    struct rules_table new_rules;
    struct check_changes *changes;
};

/* A rule as it was and as it is. */
struct pair {
    const struct rules_ast_rule *old_rule;
    const struct rules_ast_rule *new_rule;
};

static struct check_change *add(struct comparer *c, enum check_change_kind kind,
                                const struct rules_ast_rule *rule, const char *field)
{
    struct check_change *change = rules_arena_array(&c->changes->arena, 1,
                                                    sizeof(*change));
    if (change == NULL) {
        c->changes->is_memory_short = true;
        return NULL;
    }
    *change = (struct check_change){.kind = kind, .rule = rule, .field = field};
    *c->changes->end = change;
    c->changes->end = &change->next;
    return change;
}

/* Writes one field of a rule. */
typedef void write_fn(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                      FILE *out);

static void write_owner(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        FILE *out)
{
    (void)ast;
    (void)fputs(rule->owner != NULL ? rule->owner : "none", out);
}

static void write_moment(int64_t at_s, FILE *out)
{
    char moment[WORDS_MOMENT_BYTES_MAX];
    words_moment(at_s, moment);
    (void)fputs(moment[0] != '\0' ? moment : "never", out);
}

static void write_review_by(const struct rules_ast *ast,
                            const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    write_moment(rule->review_by_s, out);
}

static void write_expires(const struct rules_ast *ast,
                          const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    write_moment(rule->expires_s, out);
}

static void write_match(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        FILE *out)
{
    if (rule->match.n_conditions == 0) {
        (void)fputs("every request", out);
    }
    words_match(ast, &rule->match, out);
}

static void write_no_key(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                         FILE *out)
{
    (void)ast;
    (void)fputs(words_no_key(rule->no_key), out);
}

static void write_ip_prefix(const struct rules_ast *ast,
                            const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    (void)fprintf(out, "{v4: %u, v6: %u}", rule->ip_prefix.v4_bits,
                  rule->ip_prefix.v6_bits);
}

static void write_overrides(const struct rules_ast *ast,
                            const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    (void)fputc('[', out);
    for (uint32_t i = 0; i < rule->n_overrides; i++) {
        (void)fprintf(out, "%s%s", i > 0 ? ", " : "", rule->overrides[i].name);
    }
    (void)fputc(']', out);
}

static void write_soft(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                       FILE *out)
{
    (void)ast;
    if (rule->soft_permyriad == 0) {
        (void)fputs("off", out);
    } else {
        words_share(rule->soft_permyriad, out);
    }
}

static void write_action(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                         FILE *out)
{
    (void)ast;
    (void)fputs(words_action(rule->action), out);
}

static void write_mode(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                       FILE *out)
{
    (void)ast;
    words_mode(rule, out);
}

static void write_advertise(const struct rules_ast *ast,
                            const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    (void)fputs(rule->is_advertised ? "true" : "false", out);
}

static void write_key_text(const struct rules_ast *ast,
                           const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    (void)fputs(rule->is_key_hashed ? "hashed" : "readable", out);
}

static void write_tag(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                      FILE *out)
{
    (void)ast;
    (void)fputc('[', out);
    for (uint32_t i = 0; i < rule->n_tag; i++) {
        (void)fprintf(out, "%s%s", i > 0 ? ", " : "", rule->tag[i]);
    }
    (void)fputc(']', out);
}

static void write_store(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        FILE *out)
{
    (void)ast;
    (void)fputs(rules_store_name(rule->store), out);
}

static void write_shards(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                         FILE *out)
{
    (void)ast;
    (void)fprintf(out, "%" PRIu32, rule->n_shards);
}

static void write_failure(const struct rules_ast *ast,
                          const struct rules_ast_rule *rule, FILE *out)
{
    (void)ast;
    words_failure(&rule->on_store_failure, out);
}

static const struct {
    const char *name;
    write_fn *write;
} fields[] = {
    {"owner", write_owner},
    {"review_by", write_review_by},
    {"expires", write_expires},
    {"match", write_match},
    {"key", words_key},
    {"no_key", write_no_key},
    {"ip_prefix", write_ip_prefix},
    {"overrides", write_overrides},
    {"cost", words_cost},
    {"charge", words_charge},
    {"soft", write_soft},
    {"action", write_action},
    {"mode", write_mode},
    {"advertise", write_advertise},
    {"key_text", write_key_text},
    {"tag", write_tag},
    {"store", write_store},
    {"shards", write_shards},
    {"on_store_failure", write_failure},
};

/* A text that is written piece by piece, then kept with the changes. */
struct note {
    char *text;
    size_t len;
    FILE *out;
};

static FILE *note_begin(struct comparer *c, struct note *note)
{
    *note = (struct note){NULL, 0, NULL};
    note->out = open_memstream(&note->text, &note->len);
    c->changes->is_memory_short = c->changes->is_memory_short || note->out == NULL;
    return note->out;
}

static const char *note_end(struct comparer *c, struct note *note)
{
    bool is_whole = fclose(note->out) == 0;
    const char *kept = is_whole
                           ? rules_arena_dup(&c->changes->arena, note->text, note->len)
                           : NULL;
    free(note->text);
    c->changes->is_memory_short = c->changes->is_memory_short || kept == NULL;
    return kept;
}

static const char *field_text(struct comparer *c, const struct check_side *side,
                              const struct rules_ast_rule *rule, write_fn *write)
{
    struct note note;
    if (note_begin(c, &note) == NULL) {
        return NULL;
    }
    write(side->ast, rule, note.out);
    return note_end(c, &note);
}

/* Adds a change where the two texts differ. @return it, or NULL */
static struct check_change *compare_texts(struct comparer *c, const struct pair *pair,
                                          const char *field, const char *from,
                                          const char *to)
{
    if (from == NULL || to == NULL || strcmp(from, to) == 0) {
        return NULL;
    }
    struct check_change *change = add(c, CHECK_CHANGED, pair->new_rule, field);
    if (change != NULL) {
        change->from = from;
        change->to = to;
    }
    return change;
}

static void compare_fields(struct comparer *c, const struct pair *pair)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const char *from = field_text(c, c->old_side, pair->old_rule, fields[i].write);
        const char *to = field_text(c, c->new_side, pair->new_rule, fields[i].write);
        (void)compare_texts(c, pair, fields[i].name, from, to);
    }
}

static const char *number_text(struct comparer *c, int64_t number)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%" PRId64, number);
    const char *kept = rules_arena_dup(&c->changes->arena, text, (size_t)n);
    c->changes->is_memory_short = c->changes->is_memory_short || kept == NULL;
    return kept;
}

/* A number of a limit, which changes no counter. */
static void compare_number(struct comparer *c, const struct pair *pair,
                           const char *limit, const char *field, int64_t from,
                           int64_t to)
{
    struct check_change *change = NULL;
    if (from != to) {
        change = compare_texts(c, pair, field, number_text(c, from),
                               number_text(c, to));
    }
    if (change != NULL) {
        change->limit = limit;
        change->note = to > from ? "raised: so much more at once"
                                 : "lowered: who is over it waits";
    }
}

static const char *per_text(struct comparer *c, const struct rules_ast_limit *limit)
{
    struct note note;
    if (note_begin(c, &note) == NULL) {
        return NULL;
    }
    words_per(limit, note.out);
    return note_end(c, &note);
}

static void compare_limit_field(struct comparer *c, const struct pair *pair,
                                const char *limit, const char *field, const char *from,
                                const char *to)
{
    struct check_change *change = compare_texts(c, pair, field, from, to);
    if (change != NULL) {
        change->limit = limit;
    }
}

/* Whether counters are in the same place: in Redis stores share them, and the name of one
 * says more there than its limit. */
static bool place_is_same(const struct rules_rule *from, const struct rules_rule *to)
{
    if (from->store == RULES_STORE_LOCAL || to->store == RULES_STORE_LOCAL) {
        return from->store == to->store;
    }
    return from->tag_parts == to->tag_parts && from->is_key_hashed == to->is_key_hashed
           && from->n_shards == to->n_shards;
}

static bool counters_go_on(const struct comparer *c, const struct pair *pair,
                           uint32_t old_idx, uint32_t new_idx)
{
    const struct rules_rule *from = rules_set_rule(
        c->old_side->set, (uint32_t)(pair->old_rule - c->old_side->ast->rules));
    const struct rules_rule *to = rules_set_rule(c->new_side->set,
                                                 (uint32_t)(pair->new_rule
                                                            - c->new_side->ast->rules));
    return place_is_same(from, to)
           && memcmp(from->limits[old_idx].id, to->limits[new_idx].id,
                     RULES_LIMIT_ID_BYTES)
                  == 0;
}

static void compare_limits(struct comparer *c, const struct pair *pair,
                           uint32_t old_idx, uint32_t new_idx)
{
    const struct rules_ast_limit *from = &pair->old_rule->limits[old_idx];
    const struct rules_ast_limit *to = &pair->new_rule->limits[new_idx];
    compare_number(c, pair, to->name, "requests", from->requests, to->requests);
    if (from->algorithm == RULES_TOKEN_BUCKET && to->algorithm == RULES_TOKEN_BUCKET) {
        compare_number(c, pair, to->name, "burst", from->burst, to->burst);
    }
    if (from->algorithm == RULES_LEAKY_BUCKET && to->algorithm == RULES_LEAKY_BUCKET
        && from->max_delay_us != to->max_delay_us) {
        struct rules_ast_limit before = {.per_us = from->max_delay_us};
        struct rules_ast_limit after = {.per_us = to->max_delay_us};
        compare_limit_field(c, pair, to->name, "max_delay", per_text(c, &before),
                            per_text(c, &after));
    }
    compare_limit_field(c, pair, to->name, "per", per_text(c, from), per_text(c, to));
    compare_limit_field(c, pair, to->name, "algorithm",
                        words_algorithm(from->algorithm),
                        words_algorithm(to->algorithm));
    if (!counters_go_on(c, pair, old_idx, new_idx)) {
        struct check_change *change = add(c, CHECK_STARTS_FULL, pair->new_rule, NULL);
        if (change != NULL) {
            change->limit = to->name;
        }
    }
}

static int limit_find(const struct rules_ast_rule *rule, const char *name)
{
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        if (strcmp(rule->limits[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static void add_limit(struct comparer *c, enum check_change_kind kind,
                      const struct pair *pair, const char *name)
{
    struct check_change *change = add(c, kind, pair->new_rule, NULL);
    if (change != NULL) {
        change->limit = name;
    }
}

static void compare_all_limits(struct comparer *c, const struct pair *pair)
{
    for (uint32_t i = 0; i < pair->new_rule->n_limits; i++) {
        const char *name = pair->new_rule->limits[i].name;
        int old_idx = limit_find(pair->old_rule, name);
        if (old_idx < 0) {
            add_limit(c, CHECK_ADDED, pair, name);
        } else {
            compare_limits(c, pair, (uint32_t)old_idx, i);
        }
    }
    for (uint32_t i = 0; i < pair->old_rule->n_limits; i++) {
        if (limit_find(pair->new_rule, pair->old_rule->limits[i].name) < 0) {
            add_limit(c, CHECK_REMOVED, pair, pair->old_rule->limits[i].name);
        }
    }
}

static const struct rules_ast_plan *plan_find(const struct rules_ast_rule *rule,
                                              const char *name)
{
    for (uint32_t i = 0; i < rule->n_plans; i++) {
        if (strcmp(rule->plans[i].name, name) == 0) {
            return &rule->plans[i];
        }
    }
    return NULL;
}

static const char *plan_text(struct comparer *c, const struct rules_ast_rule *rule,
                             const struct rules_ast_plan *plan)
{
    struct note note;
    if (plan == NULL || note_begin(c, &note) == NULL) {
        return NULL;
    }
    words_plan(rule, plan, note.out);
    return note_end(c, &note);
}

/* A plan that is in one of the files, or in both. */
static void compare_plan(struct comparer *c, const struct pair *pair, const char *name)
{
    const struct rules_ast_plan *old_plan = plan_find(pair->old_rule, name);
    const struct rules_ast_plan *new_plan = plan_find(pair->new_rule, name);
    const char *from = plan_text(c, pair->old_rule, old_plan);
    const char *to = plan_text(c, pair->new_rule, new_plan);
    if (from != NULL && to != NULL && strcmp(from, to) == 0) {
        return;
    }
    struct note note;
    if (note_begin(c, &note) == NULL) {
        return;
    }
    (void)fprintf(note.out, "plans.%s", name);
    struct check_change *change = add(c,
                                      old_plan == NULL   ? CHECK_ADDED
                                      : new_plan == NULL ? CHECK_REMOVED
                                                         : CHECK_CHANGED,
                                      pair->new_rule, note_end(c, &note));
    if (change != NULL) {
        change->from = from;
        change->to = to;
    }
}

static void compare_plans(struct comparer *c, const struct pair *pair)
{
    for (uint32_t i = 0; i < pair->new_rule->n_plans; i++) {
        compare_plan(c, pair, pair->new_rule->plans[i].name);
    }
    for (uint32_t i = 0; i < pair->old_rule->n_plans; i++) {
        const char *name = pair->old_rule->plans[i].name;
        if (plan_find(pair->new_rule, name) == NULL) {
            compare_plan(c, pair, name);
        }
    }
}

static struct rules_bytes name_bytes(const char *name)
{
    return (struct rules_bytes){(const uint8_t *)name, strlen(name)};
}

static void compare_rule(struct comparer *c, const struct rules_ast_rule *rule)
{
    uint32_t idx = rules_table_find(&c->old_rules, 0, name_bytes(rule->name));
    if (idx == RULES_NONE) {
        (void)add(c, CHECK_ADDED, rule, NULL);
        return;
    }
    struct pair pair = {&c->old_side->ast->rules[idx], rule};
    compare_fields(c, &pair);
    compare_all_limits(c, &pair);
    compare_plans(c, &pair);
}

static void find_removed(struct comparer *c, const struct rules_ast_rule *rule)
{
    if (rules_table_find(&c->new_rules, 0, name_bytes(rule->name)) == RULES_NONE) {
        struct check_change *change = add(c, CHECK_REMOVED, rule, NULL);
        if (change != NULL) {
            change->is_old = true;
        }
    }
}

static void compare_rules(struct comparer *c)
{
    const struct rules_ast *new_ast = c->new_side->ast;
    const struct rules_ast *old_ast = c->old_side->ast;
    for (uint32_t i = 0; i < new_ast->n_rules; i++) {
        compare_rule(c, &new_ast->rules[i]);
    }
    for (uint32_t i = 0; i < old_ast->n_rules; i++) {
        find_removed(c, &old_ast->rules[i]);
    }
}

static const char *list_field(struct comparer *c, const struct rules_ast *ast,
                              const struct rules_ast_list *list)
{
    struct note note;
    if (note_begin(c, &note) == NULL) {
        return NULL;
    }
    struct rules_bytes name = ast->slots[list->condition.slot];
    (void)fprintf(note.out, "lists.%s.%.*s", list->is_block ? "block" : "allow",
                  (int)name.len, (const char *)name.ptr);
    return note_end(c, &note);
}

/* An entry of a list. */
struct entry {
    const char *field; /* lists.block.ip */
    const char *name;  /* the same, a space, and what the entry says */
};

struct entries {
    size_t n;
    struct entry *items;
    struct rules_table table; /* name -> index */
};

static const char *entry_name(struct comparer *c, const char *field,
                              const struct rules_ast_value *value)
{
    struct note note;
    if (field == NULL || note_begin(c, &note) == NULL) {
        return NULL;
    }
    (void)fprintf(note.out, "%s ", field);
    words_value(value, note.out);
    if (value->expires_s != RULES_NEVER_S) {
        (void)fputs(", until ", note.out);
        write_moment(value->expires_s, note.out);
    }
    return note_end(c, &note);
}

static void entries_add(struct comparer *c, const struct rules_ast *ast,
                        const struct rules_ast_list *list, struct entries *entries)
{
    const char *field = list_field(c, ast, list);
    for (uint32_t i = 0; i < list->condition.n_values; i++) {
        const char *name = entry_name(c, field, &list->condition.values[i]);
        if (name == NULL) {
            return;
        }
        (void)rules_table_put(&entries->table, 0, name_bytes(name),
                              (uint32_t)entries->n);
        entries->items[entries->n++] = (struct entry){field, name};
    }
}

/* @return false when memory ran out */
static bool entries_make(struct comparer *c, const struct rules_ast *ast,
                         struct entries *entries)
{
    struct rules_arena *arena = &c->changes->arena;
    size_t n = 0;
    for (uint32_t i = 0; i < ast->n_lists; i++) {
        n += ast->lists[i].condition.n_values;
    }
    *entries = (struct entries){
        .items = rules_arena_array(arena, n, sizeof(*entries->items))};
    if (entries->items == NULL || !rules_table_init(&entries->table, arena, n)) {
        return false;
    }
    for (uint32_t i = 0; i < ast->n_lists; i++) {
        entries_add(c, ast, &ast->lists[i], entries);
    }
    return !c->changes->is_memory_short;
}

/* Adds a change for each entry that `others` does not have. */
static void compare_entries(struct comparer *c, const struct entries *entries,
                            const struct entries *others, enum check_change_kind kind)
{
    for (size_t i = 0; i < entries->n; i++) {
        const struct entry *entry = &entries->items[i];
        if (rules_table_find(&others->table, 0, name_bytes(entry->name))
            != RULES_NONE) {
            continue;
        }
        struct check_change *change = add(c, kind, NULL, entry->field);
        if (change != NULL) {
            const char *text = entry->name + strlen(entry->field) + 1;
            change->from = kind == CHECK_REMOVED ? text : NULL;
            change->to = kind == CHECK_ADDED ? text : NULL;
        }
    }
}

static bool compare_lists(struct comparer *c)
{
    struct entries old_entries;
    struct entries new_entries;
    if (!entries_make(c, c->old_side->ast, &old_entries)
        || !entries_make(c, c->new_side->ast, &new_entries)) {
        return false;
    }
    compare_entries(c, &new_entries, &old_entries, CHECK_ADDED);
    compare_entries(c, &old_entries, &new_entries, CHECK_REMOVED);
    return true;
}

static void compare_clients(struct comparer *c)
{
    const char *from = c->old_side->ast->clients.path;
    const char *to = c->new_side->ast->clients.path;
    if (from == to || (from != NULL && to != NULL && strcmp(from, to) == 0)) {
        return;
    }
    struct check_change *change = add(c,
                                      from == NULL ? CHECK_ADDED
                                      : to == NULL ? CHECK_REMOVED
                                                   : CHECK_CHANGED,
                                      NULL, "clients");
    if (change != NULL) {
        change->from = from;
        change->to = to;
    }
}

static bool names_put(struct comparer *c, const struct rules_ast *ast,
                      struct rules_table *table)
{
    if (!rules_table_init(table, &c->changes->arena, ast->n_rules)) {
        return false;
    }
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        (void)rules_table_put(table, 0, name_bytes(ast->rules[i].name), i);
    }
    return true;
}

bool check_against(const struct check_side *old_side, const struct check_side *new_side,
                   struct check_changes *changes)
{
    struct comparer c = {.old_side = old_side,
                         .new_side = new_side,
                         .changes = changes};
    struct pair none = {NULL, NULL};
    changes->end = &changes->first;
    if (!names_put(&c, old_side->ast, &c.old_rules)
        || !names_put(&c, new_side->ast, &c.new_rules)) {
        return false;
    }
    (void)compare_texts(&c, &none, "domain", old_side->ast->domain,
                        new_side->ast->domain);
    compare_clients(&c);
    compare_rules(&c);
    return compare_lists(&c) && !changes->is_memory_short;
}

void check_changes_fini(struct check_changes *changes)
{
    rules_arena_fini(&changes->arena);
}
