#include "rules/include.h"

#include <stdlib.h>
#include <string.h>

#include "rules/code.h"
#include "rules/unique.h"

/** A path that can be shown: 1 to RULES_INCLUDE_BYTES_MAX printable ASCII characters. */
static bool is_path(struct rules_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e) {
            return false;
        }
    }
    return text.len > 0 && text.len <= RULES_INCLUDE_BYTES_MAX;
}

static bool entry_check(const struct rules_file *file, struct rules_diags *diags,
                        const struct yamltree_node *node)
{
    if (node->kind != YAMLTREE_SCALAR) {
        rules_file_diag(file, diags, RULES_ERROR, node->mark, rules_code_bad_type,
                        "a file to include must be a single value");
        return false;
    }
    if (!is_path((struct rules_bytes){(const uint8_t *)node->text, node->text_len})) {
        rules_file_diag(file, diags, RULES_ERROR, node->mark, rules_code_bad_text,
                        "a file to include must be 1 to %d printable ASCII characters",
                        RULES_INCLUDE_BYTES_MAX);
        return false;
    }
    return true;
}

struct context {
    const struct rules_file *file;
    struct rules_diags *diags;
};

static void on_duplicate(void *context, const struct rules_unique_item *first,
                         const struct rules_unique_item *again)
{
    struct context *c = context;

    rules_file_diag(c->file, c->diags, RULES_ERROR, again->mark,
                    rules_code_duplicate_value,
                    "the same file already stands in line %u, column %u",
                    first->mark.line, first->mark.column);
}

static bool list_check(const struct rules_file *file, struct rules_diags *diags,
                       const struct yamltree_node *list)
{
    struct rules_unique_item items[RULES_INCLUDES_MAX];
    struct context context = {file, diags};
    uint32_t n_errors = diags->n_errors;
    size_t n = 0;

    if (list->kind != YAMLTREE_SEQUENCE) {
        rules_file_diag(file, diags, RULES_ERROR, list->mark, rules_code_bad_type,
                        "include must be a list");
        return false;
    }
    if (list->n_children > RULES_INCLUDES_MAX) {
        rules_file_diag(file, diags, RULES_ERROR, list->mark,
                        rules_code_too_many_includes,
                        "a file can include at most %d others", RULES_INCLUDES_MAX);
        return false;
    }
    for (const struct yamltree_node *it = list->first; it != NULL; it = it->next) {
        if (entry_check(file, diags, it)) {
            items[n].text = (struct rules_bytes){(const uint8_t *)it->text,
                                                 it->text_len};
            items[n++].mark = it->mark;
        }
    }
    rules_unique_check(items, n, on_duplicate, &context);
    return diags->n_errors == n_errors;
}

const struct yamltree_node *rules_include_find(const struct rules_file *file,
                                               struct rules_diags *diags)
{
    const struct yamltree_node *root = yamltree_root(rules_file_tree(file, 0));
    const struct yamltree_node *list = yamltree_child(root, "include");

    return list != NULL && list_check(file, diags, list) ? list->first : NULL;
}

/** @return a path as seen from the directory of the main file (free); NULL: no memory */
static char *path_join(const char *main, const char *path)
{
    const char *slash = strrchr(main, '/');
    size_t dir_len = slash != NULL && *path != '/' ? (size_t)(slash - main) + 1 : 0;
    size_t len = strlen(path);
    char *joined = malloc(dir_len + len + 1);

    if (joined != NULL) {
        memcpy(joined, main, dir_len);
        memcpy(joined + dir_len, path, len + 1);
    }
    return joined;
}

struct yamltree *rules_include_read(const struct rules_file *file,
                                    const struct rules_source *source,
                                    const struct yamltree_node *entry,
                                    struct yamltree_sum *sum, struct rules_diags *diags)
{
    char *path = path_join(source->name, entry->text);
    struct rules_text text = {.name = path};
    const char *error = "there is no reading of other files here";
    struct yamltree *tree = NULL;
    char *bytes = NULL;

    if (path == NULL) {
        rules_file_diag(file, diags, RULES_ERROR, entry->mark, rules_code_out_of_memory,
                        "out of memory");
        return NULL;
    }
    if (source->read != NULL) {
        bytes = source->read(source->context, path, RULES_FILE_BYTES_MAX, &text.len,
                             &error);
    }
    if (bytes == NULL) {
        rules_file_diag(file, diags, RULES_ERROR, entry->mark,
                        rules_code_include_unreadable, "cannot read %.128s: %s", path,
                        error);
    } else {
        text.bytes = bytes;
        tree = yamltree_parse_file(&text, rules_file_n_trees(file), sum, diags);
    }
    free(bytes);
    free(path);
    return tree;
}
