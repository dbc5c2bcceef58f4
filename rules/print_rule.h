/**
 * @file rules/print_rule.h  The fields of a rule, one by one, as text.
 *
 * Model:     a table of fields in the order in which they are written.
 * Ownership: borrows everything.
 * Threads:   any.
 * Errors:    those of yamlprint.h.
 */
#ifndef RULES_PRINT_RULE_H
#define RULES_PRINT_RULE_H

#include "rules/ast.h"
#include "rules/yamlprint.h"

/** How much a rule has to say about a field. */
enum rules_said {
    RULES_UNSAID = 0, /* nothing that could be written */
    RULES_IMPLIED,    /* what the language has where nothing is written */
    RULES_SAID,
};

struct rules_printer {
    const struct rules_ast *ast;
    struct yamlprint yaml;
};

struct rules_print_field {
    const char *name;
    bool has_default; /* may stand in `defaults` */
    enum rules_said (*said)(const struct rules_ast_rule *rule);
    void (*print)(struct rules_printer *printer, const struct rules_ast_rule *rule);
};

enum {
    RULES_PRINT_FIELDS = 24
};
extern const struct rules_print_field rules_print_fields[RULES_PRINT_FIELDS];

/** @return whether a rule has to say a field, also because `require` asks for it */
bool rules_print_needs(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                       const struct rules_print_field *field);

#endif
