#include "spop/bytes.h"

#include <string.h>

struct spop_bytes spop_bytes_view(const char *text)
{
    return (struct spop_bytes){.ptr = (const uint8_t *)text, .len = strlen(text)};
}

bool spop_bytes_is(struct spop_bytes bytes, const char *text)
{
    size_t len = strlen(text);
    if (bytes.len != len) {
        return false;
    }
    return len == 0 || memcmp(bytes.ptr, text, len) == 0;
}
