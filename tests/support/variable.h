/**
 * @file tests/support/variable.h  A variable made where it is used.
 */
#ifndef TESTS_SUPPORT_VARIABLE_H
#define TESTS_SUPPORT_VARIABLE_H

#include "spop/ack.h"

/** @return a variable that is good until the next call */
static inline const struct spop_variable *variable(enum spop_scope scope,
                                                   const char *name)
{
    static struct spop_variable made;
    spop_variable_init(&made, scope, name);
    return &made;
}

#endif
