#include "rules/yamltree.h"

#include <string.h>

#include <yaml.h>

#include "rules/arena.h"
#include "rules/code.h"
#include "rules/unique.h"

struct yamltree {
    struct rules_arena arena;
    const struct yamltree_node *root;
    struct rules_text text;
    uint32_t file;
};

/** A collection that is still being filled. */
struct frame {
    struct yamltree_node *node;
    struct yamltree_node *last; /* child */
    const char *key;            /* of a mapping: waits for its value */
    struct rules_mark key_mark;
};

struct builder {
    struct yamltree *tree;
    struct rules_diags *diags;
    struct yamltree_node *root;
    struct yamltree_sum *sum;
    uint32_t n_documents;
    uint32_t depth;
    struct frame frames[YAMLTREE_DEPTH_MAX];
};

const struct yamltree_node *yamltree_child(const struct yamltree_node *node,
                                           const char *key)
{
    const struct yamltree_node *it = node->kind == YAMLTREE_MAPPING ? node->first
                                                                    : NULL;

    while (it != NULL && strcmp(it->key, key) != 0) {
        it = it->next;
    }
    return it;
}

const struct yamltree_node *yamltree_root(const struct yamltree *tree)
{
    return tree->root;
}

void yamltree_free(struct yamltree *tree)
{
    if (tree != NULL) {
        struct rules_arena arena = tree->arena; /* holds the tree itself */

        rules_arena_fini(&arena);
    }
}

void yamltree_diag(const struct yamltree *tree, struct rules_diags *diags,
                   enum rules_severity severity, struct rules_mark mark,
                   const char *code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rules_diags_vadd(diags, severity, mark, &tree->text, code, format, args);
    va_end(args);
}

const struct rules_text *yamltree_text(const struct yamltree *tree)
{
    return &tree->text;
}

static struct rules_mark mark_of(const struct builder *b, yaml_mark_t mark)
{
    return (struct rules_mark){.line = (uint32_t)mark.line + 1,
                               .column = (uint32_t)mark.column + 1,
                               .file = b->tree->file};
}

/** The file as a whole. */
static struct rules_mark mark_whole(const struct builder *b)
{
    return (struct rules_mark){.file = b->tree->file};
}

/** Report what ends the reading. */
static bool refuse(struct builder *b, struct rules_mark mark, const char *code,
                   const char *text)
{
    yamltree_diag(b->tree, b->diags, RULES_ERROR, mark, code, "%s", text);
    return false;
}

static bool refuse_memory(struct builder *b)
{
    return refuse(b, mark_whole(b), rules_code_out_of_memory, "out of memory");
}

/** Length of the well-formed UTF-8 character at p (RFC 3629), or 0. */
static size_t character_len(const uint8_t *p, size_t len)
{
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc2 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
                             : 4;
    uint8_t second_min = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t second_max = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;

    if (p[0] > 0xf4 || n > len) {
        return 0;
    }
    if (n > 1 && (p[1] < second_min || p[1] > second_max)) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

static const char *character_fault(const uint8_t *p, size_t len, size_t *character)
{
    *character = character_len(p, len);
    if (*character == 0) {
        return "this is not UTF-8";
    }
    if (p[0] == 0) {
        return "a NUL byte is not allowed";
    }
    if (*character == 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        return "a byte order mark is not allowed";
    }
    return NULL;
}

/* Checked before the reader sees a byte: it would guess an encoding from the first ones. */
static bool check_encoding(struct builder *b)
{
    const uint8_t *p = (const uint8_t *)b->tree->text.bytes;
    size_t left = b->tree->text.len;
    struct rules_mark mark = {.line = 1, .column = 1, .file = b->tree->file};

    while (left > 0) {
        size_t n;
        const char *fault = character_fault(p, left, &n);

        if (fault != NULL) {
            return refuse(b, mark, rules_code_yaml_encoding, fault);
        }
        mark.column++;
        if (*p == '\n') {
            mark.line++;
            mark.column = 1;
        }
        p += n;
        left -= n;
    }
    return true;
}

static bool check_event(struct builder *b, const yaml_event_t *event,
                        const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct rules_mark mark = mark_of(b, event->start_mark);

    if (anchor != NULL) {
        return refuse(b, mark, rules_code_yaml_anchor,
                      "anchors are not allowed: write the value out");
    }
    if (tag != NULL) {
        return refuse(b, mark, rules_code_yaml_tag,
                      "tags are not allowed: every field has its type");
    }
    return true;
}

static struct yamltree_node *node_new(struct builder *b, enum yamltree_kind kind,
                                      const yaml_event_t *event)
{
    struct yamltree_node *node = rules_arena_array(&b->tree->arena, 1, sizeof *node);

    if (node == NULL) {
        (void)refuse_memory(b);
        return NULL;
    }
    node->kind = kind;
    node->mark = mark_of(b, event->start_mark);
    return node;
}

/** Put a node where the document is now. */
static bool node_attach(struct builder *b, struct yamltree_node *node)
{
    if (b->depth == 0) {
        b->root = node;
        return true;
    }

    struct frame *frame = &b->frames[b->depth - 1];

    if (frame->node->kind == YAMLTREE_MAPPING) {
        if (frame->key == NULL) {
            return refuse(b, node->mark, rules_code_yaml_key,
                          "a list or mapping cannot be a field name");
        }
        node->key = frame->key;
        node->key_mark = frame->key_mark;
        frame->key = NULL;
    }
    if (frame->last == NULL) {
        frame->node->first = node;
    } else {
        frame->last->next = node;
    }
    frame->last = node;
    frame->node->n_children++;
    return true;
}

static bool key_take(struct builder *b, struct frame *frame, const char *text,
                     const yaml_event_t *event)
{
    struct rules_mark mark = mark_of(b, event->start_mark);

    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
        && strcmp(text, "<<") == 0) {
        return refuse(b, mark, rules_code_yaml_merge,
                      "merge keys are not allowed: write the fields out");
    }
    if (text[0] == '\0') {
        return refuse(b, mark, rules_code_yaml_key, "a field needs a name");
    }
    frame->key = text;
    frame->key_mark = mark;
    return true;
}

static bool on_scalar(struct builder *b, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct rules_mark mark = mark_of(b, event->start_mark);
    struct frame *frame = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    char *text;

    if (!check_event(b, event, event->data.scalar.anchor, event->data.scalar.tag)) {
        return false;
    }
    if (len > YAMLTREE_SCALAR_BYTES_MAX) {
        return refuse(b, mark, rules_code_yaml_scalar,
                      "this value is longer than 65536 bytes");
    }
    if (memchr(value, '\0', len) != NULL) {
        return refuse(b, mark, rules_code_yaml_encoding, "a NUL byte is not allowed");
    }
    text = rules_arena_dup(&b->tree->arena, value, len);
    if (text == NULL) {
        return refuse_memory(b);
    }
    if (frame != NULL && frame->node->kind == YAMLTREE_MAPPING && frame->key == NULL) {
        return key_take(b, frame, text, event);
    }

    struct yamltree_node *node = node_new(b, YAMLTREE_SCALAR, event);

    if (node == NULL) {
        return false;
    }
    node->text = text;
    node->text_len = len;
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return node_attach(b, node);
}

static bool on_start(struct builder *b, const yaml_event_t *event,
                     enum yamltree_kind kind)
{
    if (b->depth == YAMLTREE_DEPTH_MAX) {
        return refuse(b, mark_of(b, event->start_mark), rules_code_yaml_depth,
                      "nested more than 32 deep");
    }

    struct yamltree_node *node = node_new(b, kind, event);

    if (node == NULL || !node_attach(b, node)) {
        return false;
    }
    b->frames[b->depth++] = (struct frame){.node = node};
    return true;
}

static void on_duplicate(void *context, const struct rules_unique_item *first,
                         const struct rules_unique_item *again)
{
    struct builder *b = context;

    yamltree_diag(b->tree, b->diags, RULES_ERROR, again->mark,
                  rules_code_yaml_duplicate_key,
                  "field '%.64s' is given twice, first in line %u",
                  (const char *)again->text.ptr, first->mark.line);
}

static bool on_end(struct builder *b)
{
    const struct yamltree_node *node = b->frames[--b->depth].node;
    struct rules_unique_item *items;
    size_t n = 0;

    if (node->kind != YAMLTREE_MAPPING) {
        return true;
    }
    items = rules_arena_array(&b->tree->arena, node->n_children, sizeof *items);
    if (items == NULL) {
        return refuse_memory(b);
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        items[n].text = (struct rules_bytes){(const uint8_t *)it->key, strlen(it->key)};
        items[n++].mark = it->key_mark;
    }
    rules_unique_check(items, n, on_duplicate, b);
    return true;
}

static bool on_document(struct builder *b, const yaml_event_t *event)
{
    struct rules_mark mark = mark_of(b, event->start_mark);

    if (b->n_documents++ > 0) {
        return refuse(b, mark, rules_code_yaml_documents,
                      "a second document starts here: one file is one document");
    }
    if (event->data.document_start.version_directive != NULL
        || event->data.document_start.tag_directives.start
               != event->data.document_start.tag_directives.end) {
        return refuse(b, mark, rules_code_yaml_tag, "% directives are not allowed");
    }
    return true;
}

static bool on_event(struct builder *b, const yaml_event_t *event)
{
    struct rules_mark mark = mark_of(b, event->start_mark);

    if (++b->sum->n_events > YAMLTREE_EVENTS_MAX) {
        return refuse(b, mark, rules_code_yaml_events,
                      b->tree->file == 0
                          ? "the file has more than 200000 values and collections"
                          : "with this file there are more than 200000 values and "
                            "collections");
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(b, event);
    case YAML_ALIAS_EVENT:
        return refuse(b, mark, rules_code_yaml_alias,
                      "aliases are not allowed: write the value out, or quote the *");
    case YAML_SCALAR_EVENT:
        return on_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return check_event(b, event, event->data.sequence_start.anchor,
                           event->data.sequence_start.tag)
               && on_start(b, event, YAMLTREE_SEQUENCE);
    case YAML_MAPPING_START_EVENT:
        return check_event(b, event, event->data.mapping_start.anchor,
                           event->data.mapping_start.tag)
               && on_start(b, event, YAMLTREE_MAPPING);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(b);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return true;
}

static bool refuse_syntax(struct builder *b, const yaml_parser_t *parser)
{
    /* A fault of single bytes has no mark of its own: the reader's place is near it. */
    bool is_reader = parser->error == YAML_READER_ERROR;
    struct rules_mark mark = mark_of(b,
                                     is_reader ? parser->mark : parser->problem_mark);

    if (parser->error == YAML_MEMORY_ERROR) {
        return refuse_memory(b);
    }
    return refuse(b, mark, rules_code_yaml_syntax,
                  parser->problem != NULL ? parser->problem : "not YAML");
}

static bool build(struct builder *b, yaml_parser_t *parser)
{
    bool is_good = true;
    bool is_end = false;

    while (is_good && !is_end) {
        yaml_event_t event;

        if (yaml_parser_parse(parser, &event) == 0) {
            return refuse_syntax(b, parser);
        }
        is_end = event.type == YAML_STREAM_END_EVENT;
        is_good = on_event(b, &event);
        yaml_event_delete(&event);
    }
    if (is_good && b->root == NULL) {
        return refuse(b, mark_whole(b), rules_code_yaml_empty, "the file says nothing");
    }
    return is_good;
}

static bool build_from_source(struct builder *b)
{
    yaml_parser_t parser;
    bool is_good;

    if (yaml_parser_initialize(&parser) == 0) {
        return refuse_memory(b);
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)b->tree->text.bytes,
                                 b->tree->text.len);
    is_good = build(b, &parser);
    yaml_parser_delete(&parser);
    return is_good;
}

static bool text_copy(const struct rules_text *from, struct rules_arena *arena,
                      struct rules_text *to)
{
    to->len = from->len;
    to->bytes = rules_arena_dup(arena, from->bytes, from->len);
    if (from->name != NULL) {
        to->name = rules_arena_dup(arena, from->name, strlen(from->name));
    }
    return to->bytes != NULL && (from->name == NULL || to->name != NULL);
}

static struct yamltree *tree_new(const struct rules_text *text, uint32_t file)
{
    struct rules_arena arena = {NULL};
    struct yamltree *tree = rules_arena_array(&arena, 1, sizeof *tree);

    if (tree == NULL || !text_copy(text, &arena, &tree->text)) {
        rules_arena_fini(&arena);
        return NULL;
    }
    tree->arena = arena;
    tree->file = file;
    return tree;
}

/** Report what there is no tree for. */
static struct yamltree *refuse_file(const struct rules_text *text, uint32_t file,
                                    struct rules_diags *diags, const char *code,
                                    const char *problem)
{
    rules_diags_add(diags, RULES_ERROR, (struct rules_mark){.file = file},
                    &(struct rules_text){.name = text->name}, code, "%s", problem);
    return NULL;
}

struct yamltree *yamltree_parse_file(const struct rules_text *text, uint32_t file,
                                     struct yamltree_sum *sum,
                                     struct rules_diags *diags)
{
    struct builder b = {.diags = diags, .sum = sum};
    uint32_t n_errors = diags->n_errors;

    if (text->len > RULES_FILE_BYTES_MAX - sum->n_bytes) {
        sum->n_bytes = RULES_FILE_BYTES_MAX;
        return refuse_file(text, file, diags, rules_code_file_too_large,
                           file == 0 ? "the file is larger than 4 MiB"
                                     : "with this file there are more than 4 MiB");
    }
    sum->n_bytes += text->len;
    b.tree = tree_new(text, file);
    if (b.tree == NULL) {
        return refuse_file(text, file, diags, rules_code_out_of_memory,
                           "out of memory");
    }
    if (!check_encoding(&b) || !build_from_source(&b) || diags->n_errors > n_errors) {
        yamltree_free(b.tree);
        return NULL;
    }
    b.tree->root = b.root;
    return b.tree;
}

struct yamltree *yamltree_parse(const char *text, size_t len, struct rules_diags *diags)
{
    struct yamltree_sum sum = {0};

    return yamltree_parse_file(&(struct rules_text){.bytes = text, .len = len}, 0, &sum,
                               diags);
}
