#include "spop/spop.h"

const char *spop_code_text(enum spop_code code)
{
    switch (code) {
#define X(name, value, text) \
    case name:               \
        return text;
        SPOP_CODE_TABLE(X)
#undef X
    }
    return "unregistered code";
}

bool spop_code_is_registered(uint64_t number)
{
    switch (number) {
#define X(name, value, text) case value:
        SPOP_CODE_TABLE(X)
#undef X
        return true;
    default:
        return false;
    }
}
