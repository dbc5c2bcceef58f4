#include "rules/file.h"

#include <string.h>

#include "rules/code.h"
#include "rules/compile.h"
#include "rules/include.h"
#include "rules/words.h"

struct rules_file {
    struct rules_arena arena; /* holds the file itself */
    const char *name;
    uint32_t n_trees;
    struct yamltree *trees[1 + RULES_INCLUDES_MAX];
    struct rules_ast ast;
};

static void memory_tell(struct rules_diags *diags)
{
    rules_diags_add(diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                    rules_code_out_of_memory, "out of memory");
}

static struct rules_file *file_new(const char *name)
{
    struct rules_arena arena = {NULL};
    struct rules_file *file = rules_arena_array(&arena, 1, sizeof *file);
    const char *copy = rules_arena_dup(&arena, name, strlen(name));

    if (file == NULL || copy == NULL) {
        rules_arena_fini(&arena);
        return NULL;
    }
    file->arena = arena;
    file->name = copy;
    return file;
}

static void tree_add(struct rules_file *file, struct yamltree *tree)
{
    if (tree != NULL) {
        file->trees[file->n_trees++] = tree;
    }
}

/** Once the bounds of all files together are met no more are read. */
static void includes_read(struct rules_file *file, const struct rules_source *source,
                          struct yamltree_sum *sum, struct rules_diags *diags)
{
    for (const struct yamltree_node *it = rules_include_find(file, diags); it != NULL;
         it = it->next) {
        struct yamltree *tree = rules_include_read(file, source, it, sum, diags);

        if (tree == NULL && yamltree_sum_is_full(sum)) {
            return;
        }
        tree_add(file, tree);
    }
}

/** What does not lie in a file that is no YAML would only seem to be missing. */
static void file_fill(struct rules_file *file, const struct rules_source *source,
                      struct rules_diags *diags)
{
    struct rules_text text = {NULL, (const char *)source->text.ptr, source->text.len};
    struct yamltree_sum sum = {0};
    uint32_t n_errors = diags->n_errors;

    tree_add(file, yamltree_parse_file(&text, 0, &sum, diags));
    if (file->n_trees > 0) {
        includes_read(file, source, &sum, diags);
    }
    if (diags->n_errors == n_errors) {
        rules_ast_parse(file, &file->arena, diags, &file->ast);
    }
}

struct rules_file *rules_file_read(const struct rules_source *source,
                                   struct rules_diags *diags)
{
    struct rules_file *file = file_new(source->name);
    uint32_t n_errors = diags->n_errors;

    if (file == NULL) {
        memory_tell(diags);
        return NULL;
    }
    file_fill(file, source, diags);
    if (diags->n_errors > n_errors) {
        rules_file_free(file);
        return NULL;
    }
    return file;
}

void rules_file_free(struct rules_file *file)
{
    if (file != NULL) {
        struct rules_arena arena = file->arena;

        for (uint32_t i = 0; i < file->n_trees; i++) {
            yamltree_free(file->trees[i]);
        }
        rules_arena_fini(&arena);
    }
}

const struct rules_ast *rules_file_ast(const struct rules_file *file)
{
    return &file->ast;
}

uint32_t rules_file_n_trees(const struct rules_file *file)
{
    return file->n_trees;
}

const struct yamltree *rules_file_tree(const struct rules_file *file, uint32_t idx)
{
    return file->trees[idx];
}

const char *rules_file_name(const struct rules_file *file, uint32_t idx)
{
    return idx == 0 ? file->name : yamltree_text(file->trees[idx])->name;
}

struct rules_set *rules_file_compile(const struct rules_file *file, int64_t now_s,
                                     struct rules_diags *diags)
{
    struct rules_set *set = rules_compile(&file->ast, file->name, now_s);

    if (set == NULL) {
        memory_tell(diags);
    }
    return set;
}

void rules_file_diag(const struct rules_file *file, struct rules_diags *diags,
                     enum rules_severity severity, struct rules_mark mark,
                     const char *code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rules_diags_vadd(diags, severity, mark,
                     yamltree_text(rules_file_tree(file, mark.file)), code, format,
                     args);
    va_end(args);
}

struct rules_set *rules_load(const struct rules_source *source,
                             struct rules_diags *diags)
{
    struct rules_file *file = rules_file_read(source, diags);
    struct rules_set *set = NULL;

    if (file != NULL) {
        set = rules_file_compile(file, source->now_s, diags);
    }
    rules_file_free(file);
    return set;
}

bool rules_file_is_local(const struct rules_file *file, struct rules_diags *diags)
{
    const struct rules_ast *ast = rules_file_ast(file);

    for (uint32_t i = 0; i < ast->n_rules; i++) {
        const struct rules_ast_rule *rule = &ast->rules[i];

        if (rule->store != RULES_STORE_LOCAL) {
            rules_file_diag(file, diags, RULES_ERROR, rule->store_mark,
                            rules_code_store_not_there,
                            "store: %s, and agent.yaml has no 'redis'",
                            rules_store_name(rule->store));
            return false;
        }
    }
    return true;
}
