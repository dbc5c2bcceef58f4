/**
 * @file tests/unit/rules/support.h  Shorthands for the tests of rules/.
 *
 * Model:     inline functions; texts are C strings.
 * Ownership: what load returns belongs to the caller.
 * Threads:   one.
 * Errors:    cmocka's.
 */
#ifndef TESTS_UNIT_RULES_SUPPORT_H
#define TESTS_UNIT_RULES_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/rules.h"

static inline struct rules_bytes bytes_of(const char *text)
{
    return (struct rules_bytes){(const uint8_t *)text, strlen(text)};
}

/** Load a text that must be right. */
static inline struct rules_set *load_good(const char *text)
{
    static struct rules_diags diags;
    struct rules_set *set;

    rules_diags_init(&diags, "test.yaml");
    set = rules_load(&(struct rules_source){.name = "test.yaml",
                                            .text = bytes_of(text)},
                     &diags);
    if (set == NULL) {
        rules_diags_print(&diags, stderr);
    }
    assert_non_null(set);
    assert_int_equal(diags.n_errors, 0);
    return set;
}

static inline void request_set(const struct rules_set *set,
                               struct rules_request *request, const char *name,
                               enum rules_value_type type, const void *bytes,
                               size_t len)
{
    int slot = rules_set_slot(set, bytes_of(name));

    if (slot >= 0) {
        request->values[slot] = (struct rules_value){type,
                                                     {(const uint8_t *)bytes, len}};
    }
}

static inline void request_text(const struct rules_set *set,
                                struct rules_request *request, const char *name,
                                const char *text)
{
    request_set(set, request, name, RULES_TEXT, text, strlen(text));
}

#endif
