#include "rules/print.h"

#include <stdlib.h>
#include <string.h>

#include "rules/print_rule.h"

static void line_begin(struct rules_printer *printer, const char *indent,
                       const char *key)
{
    yamlprint_raw(&printer->yaml, indent);
    yamlprint_string(&printer->yaml, key);
    yamlprint_raw(&printer->yaml, ": ");
}

static void line_end(struct rules_printer *printer)
{
    yamlprint_raw(&printer->yaml, "\n");
}

static void required_print(struct rules_printer *printer)
{
    struct yamlflow flow;

    if (printer->ast->n_required == 0) {
        return;
    }
    line_begin(printer, "", "require");
    flow = yamlflow_begin(&printer->yaml, true);
    for (uint32_t i = 0; i < printer->ast->n_required; i++) {
        yamlflow_item(&flow);
        yamlprint_string(&printer->yaml, printer->ast->required[i]);
    }
    yamlflow_end(&flow);
    line_end(printer);
}

/** Write a field of a rule behind `at`, where the text is cut off first. */
static struct rules_bytes sample(struct rules_printer *scratch, size_t at,
                                 const struct rules_ast_rule *rule,
                                 const struct rules_print_field *field)
{
    scratch->yaml.len = at;
    field->print(scratch, rule);
    return (struct rules_bytes){(const uint8_t *)scratch->yaml.bytes + at,
                                scratch->yaml.len - at};
}

/** @return whether all rules write a field, and what they write is the same */
static bool is_shared(struct rules_printer *scratch,
                      const struct rules_print_field *field)
{
    const struct rules_ast *ast = scratch->ast;
    size_t len;

    if (!field->has_default || ast->n_rules < 2) {
        return false;
    }
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        if (!rules_print_needs(ast, &ast->rules[i], field)) {
            return false;
        }
    }
    len = sample(scratch, 0, &ast->rules[0], field).len;
    for (uint32_t i = 1; i < ast->n_rules && !scratch->yaml.is_short; i++) {
        struct rules_bytes other = sample(scratch, len, &ast->rules[i], field);

        if (other.len != len || memcmp(other.ptr, scratch->yaml.bytes, len) != 0) {
            return false;
        }
    }
    return true;
}

static void defaults_print(struct rules_printer *printer, const bool *is_default)
{
    bool has_any = false;

    for (size_t i = 0; i < RULES_PRINT_FIELDS; i++) {
        if (!is_default[i]) {
            continue;
        }
        if (!has_any) {
            yamlprint_raw(&printer->yaml, "defaults:\n");
            printer->yaml.n_events += 3;
        }
        has_any = true;
        line_begin(printer, "  ", rules_print_fields[i].name);
        rules_print_fields[i].print(printer, &printer->ast->rules[0]);
        line_end(printer);
    }
}

static void rule_print(struct rules_printer *printer, const struct rules_ast_rule *rule,
                       const bool *is_default)
{
    printer->yaml.n_events += 2;
    for (size_t i = 0; i < RULES_PRINT_FIELDS; i++) {
        const struct rules_print_field *field = &rules_print_fields[i];

        if (is_default[i] || !rules_print_needs(printer->ast, rule, field)) {
            continue;
        }
        line_begin(printer, i == 0 ? "  - " : "    ", field->name);
        field->print(printer, rule);
        line_end(printer);
    }
}

static void entry_print(struct rules_printer *printer,
                        const struct rules_ast_value *value)
{
    char at[RULES_TIME_TEXT_BYTES_MAX];
    struct yamlflow flow;

    if (value->owner == NULL && value->reason == NULL
        && value->expires_s == RULES_NEVER_S) {
        yamlprint_text(&printer->yaml, value->text);
        return;
    }
    flow = yamlflow_begin(&printer->yaml, false);
    yamlflow_field(&flow, "value");
    yamlprint_text(&printer->yaml, value->text);
    if (value->owner != NULL) {
        yamlflow_string(&flow, "owner", value->owner);
    }
    if (value->reason != NULL) {
        yamlflow_string(&flow, "reason", value->reason);
    }
    if (value->expires_s != RULES_NEVER_S) {
        rules_time_print(value->expires_s, at);
        yamlflow_string(&flow, "expires", at);
    }
    yamlflow_end(&flow);
}

static void list_print(struct rules_printer *printer,
                       const struct rules_ast_condition *list)
{
    yamlprint_raw(&printer->yaml, "    ");
    yamlprint_text(&printer->yaml, printer->ast->slots[list->slot]);
    yamlprint_raw(&printer->yaml, ":\n");
    printer->yaml.n_events += 2;
    for (uint32_t i = 0; i < list->n_values; i++) {
        yamlprint_raw(&printer->yaml, "      - ");
        entry_print(printer, &list->values[i]);
        line_end(printer);
    }
}

static void lists_print_of(struct rules_printer *printer, bool is_block)
{
    bool has_any = false;

    for (uint32_t i = 0; i < printer->ast->n_lists; i++) {
        const struct rules_ast_list *list = &printer->ast->lists[i];

        if (list->is_block != is_block) {
            continue;
        }
        if (!has_any) {
            yamlprint_raw(&printer->yaml, is_block ? "  block:\n" : "  allow:\n");
            printer->yaml.n_events += 3;
        }
        has_any = true;
        list_print(printer, &list->condition);
    }
}

static void lists_print(struct rules_printer *printer)
{
    if (printer->ast->n_lists > 0) {
        yamlprint_raw(&printer->yaml, "lists:\n");
        printer->yaml.n_events += 3;
        lists_print_of(printer, true);
        lists_print_of(printer, false);
    }
}

static void clients_print(struct rules_printer *printer)
{
    const struct rules_ast_clients *clients = &printer->ast->clients;
    struct yamlflow flow;

    if (clients->path == NULL) {
        return;
    }
    line_begin(printer, "", "clients");
    flow = yamlflow_begin(&printer->yaml, false);
    yamlflow_string(&flow, "file", clients->path);
    yamlflow_field(&flow, "by");
    yamlprint_text(&printer->yaml, printer->ast->slots[clients->slot]);
    yamlflow_end(&flow);
    line_end(printer);
}

static void ast_print(struct rules_printer *printer, const bool *is_default)
{
    line_begin(printer, "", "version");
    yamlprint_number(&printer->yaml, 1);
    line_end(printer);
    line_begin(printer, "", "domain");
    yamlprint_string(&printer->yaml, printer->ast->domain);
    line_end(printer);
    required_print(printer);
    defaults_print(printer, is_default);
    clients_print(printer);
    yamlprint_raw(&printer->yaml, "rules:\n");
    for (uint32_t i = 0; i < printer->ast->n_rules; i++) {
        rule_print(printer, &printer->ast->rules[i], is_default);
    }
    lists_print(printer);
}

char *rules_file_print(const struct rules_file *file, size_t *len, uint32_t *n_events)
{
    struct rules_printer printer = {.ast = rules_file_ast(file)};
    struct rules_printer scratch = {.ast = printer.ast};
    bool is_default[RULES_PRINT_FIELDS];

    for (size_t i = 0; i < RULES_PRINT_FIELDS; i++) {
        is_default[i] = is_shared(&scratch, &rules_print_fields[i]);
    }
    free(scratch.yaml.bytes);
    /* The stream, the document and its mapping, begun and ended; `rules` and its list. */
    printer.yaml.n_events = 6 + 3;
    ast_print(&printer, is_default);
    if (scratch.yaml.is_short || printer.yaml.is_short) {
        free(printer.yaml.bytes);
        return NULL;
    }
    *len = printer.yaml.len;
    *n_events = printer.yaml.n_events;
    return printer.yaml.bytes;
}
