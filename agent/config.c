#include "agent/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rules/diag.h"
#include "rules/yamltree.h"

#include "agent/file.h"
#include "agent/store/local.h"

struct reader {
    struct config *config;
    const struct yamltree *tree;
    struct rules_diags *diags;
};

typedef void read_field_fn(struct reader *reader, const struct yamltree_node *node);

static void refuse(struct reader *reader, const struct yamltree_node *node,
                   const char *want)
{
    yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->mark, "bad-value",
                  "want %s", want);
}

/* The text of a scalar; NULL, with a diagnostic, for anything else. */
static const char *scalar(struct reader *reader, const struct yamltree_node *node,
                          const char *want)
{
    if (node->kind != YAMLTREE_SCALAR) {
        refuse(reader, node, want);
        return NULL;
    }
    return node->text;
}

/* Call `read` for each item of a list, or once for a scalar or mapping. */
static void each_item(struct reader *reader, const struct yamltree_node *node,
                      read_field_fn *read)
{
    if (node->kind != YAMLTREE_SEQUENCE) {
        read(reader, node);
        return;
    }
    for (const struct yamltree_node *n = node->first; n != NULL; n = n->next) {
        read(reader, n);
    }
}

/* A whole number in decimal followed by `*unit`; -1 when it is none. */
static int64_t whole_number(const char *text, const char **unit)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') {
        return -1;
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *unit = end;
    return errno == 0 ? (int64_t)number : -1;
}

static void read_listen_item(struct reader *reader, const struct yamltree_node *node)
{
    struct config *config = reader->config;
    char error[ADDRESS_ERROR_BYTES_MAX];
    const char *text = scalar(reader, node, "an address: IP:PORT or unix@/path");
    if (text == NULL) {
        return;
    }
    if (config->n_listen == SERVER_LISTENERS_MAX) {
        refuse(reader, node, "at most 16 addresses");
        return;
    }
    if (!address_parse(&config->listen[config->n_listen], text, error)) {
        yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->mark, "bad-value",
                      "%s", error);
        return;
    }
    config->n_listen++;
}

static void read_listen(struct reader *reader, const struct yamltree_node *node)
{
    each_item(reader, node, read_listen_item);
}

/* A whole number from 1 to `max`; 0, with a diagnostic, for anything else. */
static unsigned read_count(struct reader *reader, const struct yamltree_node *node,
                           int64_t max, const char *want)
{
    const char *text = scalar(reader, node, want);
    const char *unit = "";
    if (text == NULL) {
        return 0;
    }
    int64_t number = whole_number(text, &unit);
    if (number < 1 || number > max || *unit != '\0') {
        refuse(reader, node, want);
        return 0;
    }
    return (unsigned)number;
}

static void read_workers(struct reader *reader, const struct yamltree_node *node)
{
    reader->config->n_workers = read_count(reader, node, SERVER_WORKERS_MAX,
                                           "a number of workers from 1 to 64");
}

static void read_nodes(struct reader *reader, const struct yamltree_node *node)
{
    reader->config->n_nodes = read_count(reader, node, CONFIG_NODES_MAX,
                                         "a number of hosts from 1 to 10000");
}

static void read_rules(struct reader *reader, const struct yamltree_node *node)
{
    const char *text = scalar(reader, node, "the path of a rules file");
    if (text == NULL) {
        return;
    }
    if (node->text_len == 0 || node->text_len >= CONFIG_PATH_BYTES_MAX) {
        refuse(reader, node, "the path of a rules file");
        return;
    }
    memcpy(reader->config->rules_path, text, node->text_len + 1);
}

static void read_state_dir(struct reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "the absolute path of a directory";
    const char *text = scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    if (text[0] != '/' || node->text_len >= CONFIG_PATH_BYTES_MAX) {
        refuse(reader, node, want);
        return;
    }
    memcpy(reader->config->state_dir, text, node->text_len + 1);
}

/* A size in bytes from text such as 64MiB; -1 when it is none, or out of bounds. */
static int64_t parse_size(const char *text)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    const char *unit = "";
    int64_t number = whole_number(text, &unit);
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(unit, units[i].name) != 0) {
            continue;
        }
        bool is_ok = number >= CONFIG_MEMORY_BYTES_MIN >> units[i].shift
                     && number <= CONFIG_MEMORY_BYTES_MAX >> units[i].shift;
        return is_ok && number > 0 ? number << units[i].shift : -1;
    }
    return -1;
}

static void read_memory(struct reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "a size from 1MiB to 1024GiB, in KiB, MiB or GiB";
    const char *text = scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    int64_t bytes = parse_size(text);
    if (bytes < 0) {
        refuse(reader, node, want);
        return;
    }
    reader->config->memory_bytes = (size_t)bytes;
}

static void read_headers_item(struct reader *reader, const struct yamltree_node *node)
{
    static const struct {
        const char *name;
        variable_set variables;
    } styles[] = {
        {"draft-8", VARIABLE_BIT(VARIABLE_RATELIMIT) | VARIABLE_BIT(VARIABLE_POLICY)},
        {"x-ratelimit", VARIABLE_BIT(VARIABLE_LIMIT) | VARIABLE_BIT(VARIABLE_REMAINING)
                            | VARIABLE_BIT(VARIABLE_RESET)},
        {"none", 0},
    };
    const char *text = scalar(reader, node, "draft-8, x-ratelimit or none");
    if (text == NULL) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
        if (strcmp(text, styles[i].name) == 0) {
            reader->config->headers |= styles[i].variables;
            return;
        }
    }
    refuse(reader, node, "draft-8, x-ratelimit or none");
}

static void read_headers(struct reader *reader, const struct yamltree_node *node)
{
    reader->config->headers = 0;
    each_item(reader, node, read_headers_item);
}

static void read_problem(struct reader *reader, const struct yamltree_node *node)
{
    const char *text = scalar(reader, node, "true or false");
    if (text == NULL) {
        return;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        refuse(reader, node, "true or false");
        return;
    }
    reader->config->has_problem = text[0] == 't';
}

static void read_retry_jitter(struct reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "a share of the wait from 0 to 1, with up to 3 decimals";
    const char *text = scalar(reader, node, want);
    const char *rest = "";
    if (text == NULL) {
        return;
    }
    int64_t whole = whole_number(text, &rest);
    bool is_ok = whole == 0 || whole == 1;
    int64_t permille = is_ok ? whole * 1000 : 0;
    if (is_ok && *rest == '.') {
        int64_t weight = 100;
        for (rest++; *rest >= '0' && *rest <= '9' && weight > 0; rest++) {
            permille += (*rest - '0') * weight;
            weight /= 10;
        }
    }
    if (!is_ok || *rest != '\0' || permille > 1000) {
        refuse(reader, node, want);
        return;
    }
    reader->config->retry_jitter_permille = (int32_t)permille;
}

static void read_variables_item(struct reader *reader, const struct yamltree_node *node)
{
    const char *text = scalar(reader, node, "the name of a variable");
    if (text == NULL) {
        return;
    }
    int variable = variable_find(text);
    if (variable >= 0) {
        reader->config->variables |= VARIABLE_BIT(variable);
        return;
    }
    refuse(reader, node,
           "a list of: action deny status rule limit remaining reset retry_after "
           "delay_ms ratelimit policy problem reason fallback receipt shadow");
}

static void read_variables(struct reader *reader, const struct yamltree_node *node)
{
    if (node->kind == YAMLTREE_SEQUENCE && node->n_children == 0) {
        refuse(reader, node, "at least one variable: HAProxy goes by action and deny");
        return;
    }
    reader->config->variables = 0;
    each_item(reader, node, read_variables_item);
}

/* A file mode in octal, as chmod takes it. */
static bool parse_mode(const char *text, mode_t *mode)
{
    char *end = NULL;
    if (*text < '0' || *text > '7') {
        return false;
    }
    unsigned long number = strtoul(text, &end, 8);
    *mode = (mode_t)number;
    return *end == '\0' && number <= 0777;
}

static bool parse_runtime_path(struct reader *reader, struct address *address,
                               const struct yamltree_node *node)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    char text[ADDRESS_TEXT_BYTES_MAX];
    const char *path = scalar(reader, node, "an absolute path");
    if (path == NULL) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "unix@%s", path);
    if (node->text_len + sizeof("unix@") > sizeof(text)
        || !address_parse(address, text, error)) {
        refuse(reader, node, "an absolute path of at most 107 bytes");
        return false;
    }
    return true;
}

static void read_runtime_item(struct reader *reader, const struct yamltree_node *node)
{
    struct config *config = reader->config;
    struct address *address = &config->runtimes[config->n_runtimes];
    const struct yamltree_node *path = node->kind == YAMLTREE_SCALAR ? node : NULL;
    mode_t mode = 0660;
    if (config->n_runtimes == CONFIG_RUNTIMES_MAX) {
        refuse(reader, node, "at most 4 runtime sockets");
        return;
    }
    const struct yamltree_node *fields = node->kind == YAMLTREE_MAPPING ? node->first
                                                                        : NULL;
    for (const struct yamltree_node *n = fields; n != NULL; n = n->next) {
        const char *text = scalar(reader, n, "a value");
        if (text == NULL) {
            return;
        }
        if (strcmp(n->key, "path") == 0) {
            path = n;
        } else if (strcmp(n->key, "mode") != 0) {
            bool is_planned = strcmp(n->key, "level") == 0;
            yamltree_diag(reader->tree, reader->diags, RULES_ERROR, n->key_mark,
                          is_planned ? "not-yet" : "unknown-field",
                          is_planned ? "%s is planned but not built yet"
                                     : "unknown field %s; path and mode are known",
                          n->key);
            return;
        } else if (!parse_mode(text, &mode)) {
            refuse(reader, n, "a file mode such as 0660");
            return;
        }
    }
    if (path == NULL) {
        refuse(reader, node, "a path, or {path: ..., mode: ...}");
        return;
    }
    if (parse_runtime_path(reader, address, path)) {
        address->unix_mode = mode;
        config->n_runtimes++;
    }
}

static void read_runtime(struct reader *reader, const struct yamltree_node *node)
{
    each_item(reader, node, read_runtime_item);
}

static void read_log(struct reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "{level: error, warning, info or debug}";
    const struct yamltree_node *n = node->kind == YAMLTREE_MAPPING ? node->first : NULL;
    if (n == NULL || n->next != NULL || strcmp(n->key, "level") != 0
        || n->kind != YAMLTREE_SCALAR) {
        refuse(reader, node, want);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(log_level_names); i++) {
        if (strcmp(n->text, log_level_names[i]) == 0) {
            reader->config->log_level = (enum log_level)i;
            return;
        }
    }
    refuse(reader, n, want);
}

/* name, reader (NULL: planned, not built yet), default, help */
#define FIELD_TABLE(X)                                                                  \
    X(listen, read_listen, CONFIG_DEFAULT_ADDRESS,                                      \
      "addresses to serve: IP:PORT, [v6]:PORT, unix@/path, fd@N")                       \
    X(workers, read_workers, "2", "threads, 1 to 64")                                   \
    X(rules, read_rules, "left out", "path of the rules file")                          \
    X(memory, read_memory, "64MiB", "hard cap of the local counters, 36 bytes each")    \
    X(state_dir, read_state_dir, "left out",                                            \
      "directory that keeps the counters over a restart")                               \
    X(headers, read_headers, "draft-8",                                                 \
      "draft-8, x-ratelimit, none, or a list of them")                                  \
    X(problem, read_problem, "true", "send a problem+json body with a refusal")         \
    X(retry_jitter, read_retry_jitter, "0.1",                                           \
      "longest addition to Retry-After as a share of the wait, at most 30 s; 0 is off") \
    X(variables, read_variables,                                                        \
      "[action, deny, status, rule, retry_after, delay_ms, reason, receipt]",           \
      "variables to send beside those of headers and problem")                          \
    X(runtime, read_runtime, "left out", "runtime sockets: a path or {path, mode}")     \
    X(log, read_log, "{level: info}", "{level: error}, warning, info or debug")         \
    X(nodes, read_nodes, "1",                                                           \
      "hosts that share the traffic, each with counters of its own: for check")         \
    X(deadline_ms, NULL, "", "")                                                        \
    X(http, NULL, "", "")                                                               \
    X(secret_file, NULL, "", "")                                                        \
    X(redis, NULL, "", "")                                                              \
    X(lease, NULL, "", "")                                                              \
    X(sync, NULL, "", "")

static const struct {
    const char *name;
    read_field_fn *read;
    const char *default_text;
    const char *help;
} fields[] = {
#define X(name, read, default_text, help) {#name, read, default_text, help},
    FIELD_TABLE(X)
#undef X
};

static void unknown_field(struct reader *reader, const struct yamltree_node *node)
{
    const char *names[ARRAY_LEN(fields)];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        names[i] = fields[i].name;
    }
    const char *nearest = yamltree_nearest(node->key, names, ARRAY_LEN(fields));
    yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->key_mark,
                  "unknown-field", "unknown field %s%s%s%s", node->key,
                  nearest != NULL ? "; did you mean " : "",
                  nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
}

static void read_field(struct reader *reader, const struct yamltree_node *node)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].name, node->key) != 0) {
            continue;
        }
        if (fields[i].read == NULL) {
            yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->key_mark,
                          "not-yet", "%s is planned but not built yet", node->key);
            return;
        }
        fields[i].read(reader, node);
        return;
    }
    unknown_field(reader, node);
}

void config_init(struct config *config)
{
    *config = (struct config){
        .n_workers = 2,
        .n_nodes = 1,
        .memory_bytes = (size_t)64 * 1024 * 1024,
        .retry_jitter_permille = 100,
        .variables = variables_default(),
        .headers = VARIABLE_BIT(VARIABLE_RATELIMIT) | VARIABLE_BIT(VARIABLE_POLICY),
        .has_problem = true,
        .log_level = LOG_LEVEL_INFO,
    };
}

static void read_tree(struct config *config, const struct yamltree *tree,
                      struct rules_diags *diags)
{
    struct reader reader = {.config = config, .tree = tree, .diags = diags};
    const struct yamltree_node *root = yamltree_root(tree);
    if (root->kind != YAMLTREE_MAPPING) {
        refuse(&reader, root, "a mapping of fields at the top");
        return;
    }
    for (const struct yamltree_node *n = root->first; n != NULL; n = n->next) {
        read_field(&reader, n);
    }
}

bool config_read(struct config *config, const char *path, FILE *errors)
{
    size_t len = 0;
    const char *error = NULL;
    char *text = file_read(path, CONFIG_FILE_BYTES_MAX, &len, &error);
    if (text == NULL) {
        (void)fprintf(errors, "%s: %s\n", path, error);
        return false;
    }
    bool ok = false;
    struct yamltree *tree = NULL;
    struct rules_diags *diags = malloc(sizeof(*diags));
    if (diags == NULL) {
        (void)fprintf(errors, "%s: out of memory\n", path);
        goto out;
    }
    rules_diags_init(diags, path);
    tree = yamltree_parse(text, len, diags);
    if (tree != NULL) {
        read_tree(config, tree, diags);
    }
    rules_diags_print(diags, errors);
    ok = diags->n_errors == 0;
out:
    yamltree_free(tree);
    free(diags);
    free(text);
    return ok;
}

variable_set config_variables(const struct config *config)
{
    variable_set problem = config->has_problem ? VARIABLE_BIT(VARIABLE_PROBLEM) : 0;
    return config->variables | config->headers | problem;
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i].read != NULL) {
            (void)fprintf(out, "  %-13s %s (default: %s)\n", fields[i].name,
                          fields[i].help, fields[i].default_text);
        }
    }
}
