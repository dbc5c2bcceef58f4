#include "rules/fields.h"

#include <string.h>

#include "rules/code.h"
#include "rules/units.h"

static const char *const kind_names[] = {
    [YAMLTREE_SCALAR] = "a single value",
    [YAMLTREE_SEQUENCE] = "a list",
    [YAMLTREE_MAPPING] = "a mapping",
};

bool rules_node_is(struct rules_parse *parse, const struct yamltree_node *node,
                   enum yamltree_kind kind, const char *what)
{
    if (node->kind == kind) {
        return true;
    }
    RULES_FAIL(parse, node->mark, rules_code_bad_type, "%s must be %s, not %s", what,
               kind_names[kind], kind_names[node->kind]);
    return false;
}

void rules_memory_tell(struct rules_parse *parse)
{
    if (!parse->is_memory_told) {
        parse->is_memory_told = true;
        RULES_FAIL(parse, (struct rules_mark){0}, rules_code_out_of_memory,
                   "out of memory");
    }
}

void *rules_parse_array(struct rules_parse *parse, size_t n, size_t size)
{
    void *array = rules_arena_array(parse->arena, n, size);

    if (array == NULL) {
        rules_memory_tell(parse);
    }
    return array;
}

struct rules_bytes rules_node_bytes(const struct yamltree_node *node)
{
    return (struct rules_bytes){(const uint8_t *)node->text, node->text_len};
}

static void unknown_tell(struct rules_parse *parse, const struct yamltree_node *child,
                         const char *what, const struct rules_field *fields, size_t n)
{
    const char *names[RULES_FIELDS_MAX];
    const char *near;

    for (size_t i = 0; i < n; i++) {
        names[i] = fields[i].name;
    }
    near = yamltree_nearest(child->key, names, n);
    if (near == NULL) {
        RULES_FAIL(parse, child->key_mark, rules_code_unknown_field,
                   "%s has no field '%.64s'", what, child->key);
    } else {
        RULES_FAIL(parse, child->key_mark, rules_code_unknown_field,
                   "%s has no field '%.64s': did you mean '%s'?", what, child->key,
                   near);
    }
}

static size_t field_find(const struct rules_field *fields, size_t n, const char *name)
{
    size_t i = 0;

    while (i < n && strcmp(fields[i].name, name) != 0) {
        i++;
    }
    return i;
}

void rules_field_skip(struct rules_parse *parse, const struct yamltree_node *node,
                      void *into)
{
    (void)parse;
    (void)node;
    (void)into;
}

bool rules_fields_read(struct rules_parse *parse, const struct yamltree_node *node,
                       const char *what, const struct rules_field *fields, size_t n,
                       void *into)
{
    bool is_given[RULES_FIELDS_MAX] = {false};

    if (!rules_node_is(parse, node, YAMLTREE_MAPPING, what)) {
        return false;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        size_t i = field_find(fields, n, it->key);

        if (i == n) {
            unknown_tell(parse, it, what, fields, n);
            continue;
        }
        is_given[i] = true;
        fields[i].read(parse, it, into);
    }
    for (size_t i = 0; i < n; i++) {
        if (fields[i].is_required && !is_given[i]) {
            RULES_FAIL(parse, node->mark, rules_code_missing_field, "%s needs '%s'",
                       what, fields[i].name);
        }
    }
    return true;
}

bool rules_name_is_valid(struct rules_bytes name)
{
    if (name.len == 0 || name.len > RULES_NAME_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        bool is_letter = c >= 'a' && c <= 'z';
        bool is_other = (c >= '0' && c <= '9') || c == '_' || c == '-';

        if (!is_letter && (i == 0 || !is_other)) {
            return false;
        }
    }
    return true;
}

const char *rules_place_print(const struct rules_parse *parse, struct rules_mark place,
                              struct rules_mark from, char out[RULES_PLACE_BYTES_MAX])
{
    int n = snprintf(out, RULES_PLACE_BYTES_MAX, "line %u, column %u", place.line,
                     place.column);

    if (place.file != from.file && n > 0) {
        (void)snprintf(out + n, RULES_PLACE_BYTES_MAX - (size_t)n, " of %s",
                       rules_file_name(parse->file, place.file));
    }
    return out;
}

enum {
    TEXT_BYTES_MAX = 128
};

static const char *text_read(struct rules_parse *parse,
                             const struct yamltree_node *node, size_t bytes_max)
{
    bool is_good;

    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return NULL;
    }
    is_good = node->text_len > 0 && node->text_len <= bytes_max;
    for (size_t i = 0; i < node->text_len; i++) {
        is_good = is_good && node->text[i] >= 0x20 && node->text[i] < 0x7f;
    }
    if (!is_good) {
        RULES_FAIL(parse, node->mark, rules_code_bad_text,
                   "%s must be 1 to %zu printable ASCII characters", node->key,
                   bytes_max);
        return NULL;
    }
    return node->text;
}

const char *rules_text_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    return text_read(parse, node, TEXT_BYTES_MAX);
}

const char *rules_path_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    return text_read(parse, node, RULES_INCLUDE_BYTES_MAX);
}

void rules_moment_read(struct rules_parse *parse, const struct yamltree_node *node,
                       int64_t *at_s)
{
    if (rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)
        && !rules_time_parse(rules_node_bytes(node), at_s)) {
        RULES_FAIL(parse, node->mark, rules_code_bad_time,
                   "%s must be a date, 2027-01-31, or a moment, 2027-01-31T12:30:00Z",
                   node->key);
    }
}

const char *rules_name_read(struct rules_parse *parse, const struct yamltree_node *node)
{
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return NULL;
    }
    if (!rules_name_is_valid(rules_node_bytes(node))) {
        RULES_FAIL(parse, node->mark, rules_code_bad_name,
                   "'%.64s' is no name: a small letter, then up to 63 of a-z 0-9 _ -",
                   node->text);
        return NULL;
    }
    return node->text;
}

int rules_parse_slot(struct rules_parse *parse, struct rules_bytes name,
                     struct rules_mark mark)
{
    struct rules_ast *ast = parse->ast;

    if (!rules_name_is_valid(name)) {
        RULES_FAIL(parse, mark, rules_code_bad_descriptor,
                   "'%.*s' is no descriptor: a small letter, then up to 63 of "
                   "a-z 0-9 _ -",
                   (int)(name.len < 64 ? name.len : 64), (const char *)name.ptr);
        return -1;
    }
    for (uint32_t i = 0; i < ast->n_slots; i++) {
        if (ast->slots[i].len == name.len
            && memcmp(ast->slots[i].ptr, name.ptr, name.len) == 0) {
            return (int)i;
        }
    }
    if (ast->n_slots == RULES_SLOTS_MAX) {
        if (!parse->is_slots_told) {
            RULES_FAIL(parse, mark, rules_code_too_many_descriptors,
                       "the rules use more than %d descriptors (ip counts always)",
                       RULES_SLOTS_MAX);
        }
        parse->is_slots_told = true;
        return -1;
    }
    if (name.len == 4 && memcmp(name.ptr, "path", 4) == 0) {
        ast->slot_path = (int)ast->n_slots;
    }
    ast->slots[ast->n_slots] = name;
    return (int)ast->n_slots++;
}

static void choices_tell(struct rules_parse *parse, const struct yamltree_node *node,
                         const struct rules_choice *choices, size_t n)
{
    char names[128] = "";
    size_t len = 0;

    for (size_t i = 0; i < n && len < sizeof names; i++) {
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s",
                                len > 0 ? ", " : "", choices[i].name);
    }
    RULES_FAIL(parse, node->mark, rules_code_bad_choice,
               "'%.64s' is not one of the values of '%s': %s", node->text, node->key,
               names);
}

int rules_choice_read(struct rules_parse *parse, const struct yamltree_node *node,
                      const struct rules_choice *choices, size_t n)
{
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(node->text, choices[i].name) == 0) {
            return choices[i].value;
        }
    }
    choices_tell(parse, node, choices, n);
    return -1;
}

void rules_share_read(struct rules_parse *parse, const struct yamltree_node *node,
                      int32_t *permyriad)
{
    if (!rules_node_is(parse, node, YAMLTREE_SCALAR, node->key)) {
        return;
    }
    if (rules_share_parse(rules_node_bytes(node), permyriad) != RULES_UNITS_OK) {
        RULES_FAIL(parse, node->mark, rules_code_bad_share,
                   "%s must be a share from 0%% to 100%%, with at most two decimals",
                   node->key);
    }
}
