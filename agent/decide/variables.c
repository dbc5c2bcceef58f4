#include "agent/decide/variables.h"

#include <string.h>

static const struct {
    const char *text;
    variable_set bit_if_default;
} variable_rows[VARIABLES_N] = {
#define X(name, text, is_default) \
    [VARIABLE_##name] = {text, (is_default) ? VARIABLE_BIT(VARIABLE_##name) : 0},
    VARIABLE_TABLE(X)
#undef X
};

variable_set variables_default(void)
{
    variable_set set = 0;
    for (int i = 0; i < VARIABLES_N; i++) {
        set |= variable_rows[i].bit_if_default;
    }
    return set;
}

int variable_find(const char *name)
{
    for (int i = 0; i < VARIABLES_N; i++) {
        if (strcmp(variable_rows[i].text, name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *variable_text(enum variable variable)
{
    return variable_rows[variable].text;
}
