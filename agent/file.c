#include "agent/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

char *file_read(const char *path, size_t bytes_max, size_t *len)
{
    char *bytes = NULL;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return NULL;
    }
    size_t cap = 65536;
    size_t n = 0;
    for (;;) {
        char *grown = realloc(bytes, cap + 1);
        if (grown == NULL) {
            errno = ENOMEM;
            goto fail;
        }
        bytes = grown;
        n += fread(bytes + n, 1, cap - n, file);
        if (n < cap || n > bytes_max) {
            break;
        }
        cap *= 2;
    }
    if (ferror(file) != 0) {
        goto fail; /* fread has left errno */
    }
    if (n > bytes_max) {
        errno = EFBIG;
        goto fail;
    }
    (void)fclose(file);
    bytes[n] = '\0';
    *len = n;
    return bytes;
fail:;
    int error = errno;
    free(bytes);
    (void)fclose(file);
    errno = error;
    return NULL;
}
