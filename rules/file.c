#include "rules/file.h"

#include <string.h>

#include "rules/code.h"
#include "rules/compile.h"

struct rules_file {
    struct rules_arena arena; /* holds the file itself */
    const char *name;
    struct yamltree *trees[1];
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

struct rules_file *rules_file_read(const struct rules_source *source,
                                   struct rules_diags *diags)
{
    struct rules_file *file = file_new(source->name);
    uint32_t n_errors = diags->n_errors;

    if (file == NULL) {
        memory_tell(diags);
        return NULL;
    }
    file->trees[0] = yamltree_parse((const char *)source->text.ptr, source->text.len,
                                    diags);
    if (file->trees[0] != NULL) {
        rules_ast_parse(file, &file->arena, diags, &file->ast);
    }
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

        yamltree_free(file->trees[0]);
        rules_arena_fini(&arena);
    }
}

const struct rules_ast *rules_file_ast(const struct rules_file *file)
{
    return &file->ast;
}

const struct yamltree *rules_file_tree(const struct rules_file *file, uint32_t idx)
{
    return file->trees[idx];
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
