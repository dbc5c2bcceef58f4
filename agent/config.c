#include "agent/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rules/diag.h"
#include "rules/yamltree.h"

#include "agent/config_reader.h"
#include "agent/file.h"
#include "agent/store/local.h"

void config_refuse(struct config_reader *reader, const struct yamltree_node *node,
                   const char *want)
{
    yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->mark, "bad-value",
                  "want %s", want);
}

/* The text of a scalar; NULL, with a diagnostic, for anything else. */
const char *config_scalar(struct config_reader *reader,
                          const struct yamltree_node *node, const char *want)
{
    if (node->kind != YAMLTREE_SCALAR) {
        config_refuse(reader, node, want);
        return NULL;
    }
    return node->text;
}

/* Call `read` for each item of a list, or once for a scalar or mapping. */
void config_each(struct config_reader *reader, const struct yamltree_node *node,
                 config_read_fn *read)
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

static void read_listen_item(struct config_reader *reader,
                             const struct yamltree_node *node)
{
    struct config *config = reader->config;
    char error[ADDRESS_ERROR_BYTES_MAX];
    const char *text = config_scalar(reader, node, "an address: IP:PORT or unix@/path");
    if (text == NULL) {
        return;
    }
    if (config->n_listen == SERVER_LISTENERS_MAX) {
        config_refuse(reader, node, "at most 16 addresses");
        return;
    }
    if (!address_parse(&config->listen[config->n_listen], text, error)) {
        yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->mark, "bad-value",
                      "%s", error);
        return;
    }
    config->n_listen++;
}

static void read_listen(struct config_reader *reader, const struct yamltree_node *node)
{
    config_each(reader, node, read_listen_item);
}

int64_t config_number(struct config_reader *reader, const struct yamltree_node *node,
                      int64_t min, int64_t max, const char *want)
{
    const char *text = config_scalar(reader, node, want);
    const char *unit = "";
    if (text == NULL) {
        return -1;
    }
    int64_t number = whole_number(text, &unit);
    if (number < min || number > max || *unit != '\0') {
        config_refuse(reader, node, want);
        return -1;
    }
    return number;
}

/* The same from 1 on; 0, reported, for anything else. */
static unsigned read_count(struct config_reader *reader,
                           const struct yamltree_node *node, int64_t max,
                           const char *want)
{
    int64_t number = config_number(reader, node, 1, max, want);
    return number > 0 ? (unsigned)number : 0;
}

void config_copy(struct config_reader *reader, const struct yamltree_node *node,
                 char *to, size_t size, const char *want)
{
    const char *text = config_scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    if (node->text_len == 0 || node->text_len >= size) {
        config_refuse(reader, node, want);
        return;
    }
    memcpy(to, text, node->text_len + 1);
}

bool config_boolean(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "true or false";
    const char *text = config_scalar(reader, node, want);
    if (text != NULL && strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        config_refuse(reader, node, want);
    }
    return text != NULL && strcmp(text, "true") == 0;
}

static void read_workers(struct config_reader *reader, const struct yamltree_node *node)
{
    reader->config->n_workers = read_count(reader, node, SERVER_WORKERS_MAX,
                                           "a number of workers from 1 to 64");
}

static void read_nodes(struct config_reader *reader, const struct yamltree_node *node)
{
    reader->config->n_nodes = read_count(reader, node, CONFIG_NODES_MAX,
                                         "a number of hosts from 1 to 10000");
}

static void read_rules(struct config_reader *reader, const struct yamltree_node *node)
{
    config_copy(reader, node, reader->config->rules_path, CONFIG_PATH_BYTES_MAX,
                "the path of a rules file");
}

static void read_deadline(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    int64_t ms = config_number(reader, node, CONFIG_DEADLINE_MS_MIN,
                               CONFIG_DEADLINE_MS_MAX, "2 to 1000, in milliseconds");
    reader->config->deadline_us = ms * US_PER_MS;
}

static void read_secret_file(struct config_reader *reader,
                             const struct yamltree_node *node)
{
    config_copy(reader, node, reader->config->secret_file, CONFIG_PATH_BYTES_MAX,
                "a path, or the name of a credential");
}

static void read_state_dir(struct config_reader *reader,
                           const struct yamltree_node *node)
{
    static const char want[] = "the absolute path of a directory";
    const char *text = config_scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    if (text[0] != '/' || node->text_len >= CONFIG_PATH_BYTES_MAX) {
        config_refuse(reader, node, want);
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

static void read_memory(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "a size from 1MiB to 1024GiB, in KiB, MiB or GiB";
    const char *text = config_scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    int64_t bytes = parse_size(text);
    if (bytes < 0) {
        config_refuse(reader, node, want);
        return;
    }
    reader->config->memory_bytes = (size_t)bytes;
}

static void read_headers_item(struct config_reader *reader,
                              const struct yamltree_node *node)
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
    const char *text = config_scalar(reader, node, "draft-8, x-ratelimit or none");
    if (text == NULL) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
        if (strcmp(text, styles[i].name) == 0) {
            reader->config->headers |= styles[i].variables;
            return;
        }
    }
    config_refuse(reader, node, "draft-8, x-ratelimit or none");
}

static void read_headers(struct config_reader *reader, const struct yamltree_node *node)
{
    reader->config->headers = 0;
    config_each(reader, node, read_headers_item);
}

static void read_problem(struct config_reader *reader, const struct yamltree_node *node)
{
    reader->config->has_problem = config_boolean(reader, node);
}

static void read_retry_jitter(struct config_reader *reader,
                              const struct yamltree_node *node)
{
    static const char want[] = "a share of the wait from 0 to 1, with up to 3 decimals";
    const char *text = config_scalar(reader, node, want);
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
        config_refuse(reader, node, want);
        return;
    }
    reader->config->retry_jitter_permille = (int32_t)permille;
}

static void read_variables_item(struct config_reader *reader,
                                const struct yamltree_node *node)
{
    const char *text = config_scalar(reader, node, "the name of a variable");
    if (text == NULL) {
        return;
    }
    int variable = variable_find(text);
    if (variable >= 0) {
        reader->config->variables |= VARIABLE_BIT(variable);
        return;
    }
    config_refuse(
        reader, node,
        "a list of: action deny status rule limit remaining reset retry_after "
        "delay_ms ratelimit policy problem reason fallback receipt shadow");
}

static void read_variables(struct config_reader *reader,
                           const struct yamltree_node *node)
{
    if (node->kind == YAMLTREE_SEQUENCE && node->n_children == 0) {
        config_refuse(reader, node,
                      "at least one variable: HAProxy goes by action and deny");
        return;
    }
    reader->config->variables = 0;
    config_each(reader, node, read_variables_item);
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

static bool parse_runtime_path(struct config_reader *reader, struct address *address,
                               const struct yamltree_node *node)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    char text[ADDRESS_TEXT_BYTES_MAX];
    const char *path = config_scalar(reader, node, "an absolute path");
    if (path == NULL) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "unix@%s", path);
    if (node->text_len + sizeof("unix@") > sizeof(text)
        || !address_parse(address, text, error)) {
        config_refuse(reader, node, "an absolute path of at most 107 bytes");
        return false;
    }
    return true;
}

static void read_runtime_item(struct config_reader *reader,
                              const struct yamltree_node *node)
{
    struct config *config = reader->config;
    struct address *address = &config->runtimes[config->n_runtimes];
    const struct yamltree_node *path = node->kind == YAMLTREE_SCALAR ? node : NULL;
    mode_t mode = 0660;
    if (config->n_runtimes == CONFIG_RUNTIMES_MAX) {
        config_refuse(reader, node, "at most 4 runtime sockets");
        return;
    }
    const struct yamltree_node *fields = node->kind == YAMLTREE_MAPPING ? node->first
                                                                        : NULL;
    for (const struct yamltree_node *n = fields; n != NULL; n = n->next) {
        const char *text = config_scalar(reader, n, "a value");
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
            config_refuse(reader, n, "a file mode such as 0660");
            return;
        }
    }
    if (path == NULL) {
        config_refuse(reader, node, "a path, or {path: ..., mode: ...}");
        return;
    }
    if (parse_runtime_path(reader, address, path)) {
        address->unix_mode = mode;
        config->n_runtimes++;
    }
}

static void read_runtime(struct config_reader *reader, const struct yamltree_node *node)
{
    config_each(reader, node, read_runtime_item);
}

static void read_log(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "{level: error, warning, info or debug}";
    const struct yamltree_node *n = node->kind == YAMLTREE_MAPPING ? node->first : NULL;
    if (n == NULL || n->next != NULL || strcmp(n->key, "level") != 0
        || n->kind != YAMLTREE_SCALAR) {
        config_refuse(reader, node, want);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(log_level_names); i++) {
        if (strcmp(n->text, log_level_names[i]) == 0) {
            reader->config->log_level = (enum log_level)i;
            return;
        }
    }
    config_refuse(reader, n, want);
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
      "hosts that share the traffic: for check, and until Redis says how many")         \
    X(deadline_ms, read_deadline, "5",                                                  \
      "from a whole question to its answer, whatever Redis does; below HAProxy's "      \
      "timeout processing")                                                             \
    X(http, NULL, "", "")                                                               \
    X(secret_file, read_secret_file, "left out",                                        \
      "of the fleet: digests of keys in Redis are made with it")                        \
    X(redis, config_read_redis, "left out",                                             \
      "{addresses, cluster, sentinel, user, password_file, tls, ...}")                  \
    X(lease, config_read_lease, "{share: 5%, horizon: 1s, ttl: 2s}",                    \
      "of the blocks of store: lease")                                                  \
    X(sync, config_read_sync, "{interval: 100ms}", "of the exchanges of store: sync")

static const struct config_field fields[] = {
#define X(name, read, default_text, help) {#name, read, default_text, help},
    FIELD_TABLE(X)
#undef X
};

enum {
    FIELDS_MAX = 32
};

_Static_assert(ARRAY_LEN(fields) <= FIELDS_MAX, "room for the names of all");

static void unknown_field(struct config_reader *reader,
                          const struct yamltree_node *node,
                          const struct config_field *among, size_t n)
{
    const char *names[FIELDS_MAX];
    for (size_t i = 0; i < n; i++) {
        names[i] = among[i].name;
    }
    const char *nearest = yamltree_nearest(node->key, names, n);
    yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->key_mark,
                  "unknown-field", "unknown field %s%s%s%s", node->key,
                  nearest != NULL ? "; did you mean " : "",
                  nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
}

static void read_field(struct config_reader *reader, const struct yamltree_node *node,
                       const struct config_field *among, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(among[i].name, node->key) != 0) {
            continue;
        }
        if (among[i].read == NULL) {
            yamltree_diag(reader->tree, reader->diags, RULES_ERROR, node->key_mark,
                          "not-yet", "%s is planned but not built yet", node->key);
            return;
        }
        among[i].read(reader, node);
        return;
    }
    unknown_field(reader, node, among, n);
}

void config_fields(struct config_reader *reader, const struct yamltree_node *node,
                   const struct config_field *among, size_t n)
{
    ENSURE(n <= FIELDS_MAX);
    if (node->kind != YAMLTREE_MAPPING) {
        config_refuse(reader, node, "a mapping of fields");
        return;
    }
    for (const struct yamltree_node *it = node->first; it != NULL; it = it->next) {
        read_field(reader, it, among, n);
    }
}

void config_init(struct config *config)
{
    *config = (struct config){
        .n_workers = 2,
        .memory_bytes = (size_t)64 * 1024 * 1024,
        .retry_jitter_permille = 100,
        .variables = variables_default(),
        .headers = VARIABLE_BIT(VARIABLE_RATELIMIT) | VARIABLE_BIT(VARIABLE_POLICY),
        .has_problem = true,
        .log_level = LOG_LEVEL_INFO,
        .deadline_us = DECIDE_DEADLINE_US,
        .redis = {.prefix = "rl", .slow_us = 2 * US_PER_MS},
        .lease_share = 500,
        .lease_horizon_us = US_PER_S,
        .lease_ttl_us = 2 * US_PER_S,
        .sync_interval_us = 100 * US_PER_MS,
    };
}

static void read_tree(struct config *config, const struct yamltree *tree,
                      struct rules_diags *diags)
{
    struct config_reader reader = {.config = config, .tree = tree, .diags = diags};
    config_fields(&reader, yamltree_root(tree), fields, ARRAY_LEN(fields));
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
