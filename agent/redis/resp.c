#include "agent/redis/resp.h"

#include <string.h>

enum {
    NUMBER_BYTES_MAX = 20 /* of a uint64_t in decimal */
};

void resp_raw(struct resp *resp, const void *bytes, size_t len)
{
    if (resp->is_full || len > resp->cap - resp->len) {
        resp->is_full = true;
        return;
    }
    if (len > 0) {
        memcpy(resp->buf + resp->len, bytes, len);
    }
    resp->len += len;
}

/* The digits end at the end of `digits`; where they begin is returned. */
static char *print_number(char digits[NUMBER_BYTES_MAX], uint64_t number)
{
    char *first = digits + NUMBER_BYTES_MAX;
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return first;
}

static void write_head(struct resp *resp, char type, size_t number)
{
    char head[1 + NUMBER_BYTES_MAX + 2];
    char *first = print_number(head + 1, number);
    head[NUMBER_BYTES_MAX + 1] = '\r';
    head[NUMBER_BYTES_MAX + 2] = '\n';
    *--first = type;
    resp_raw(resp, first, (size_t)(head + sizeof(head) - first));
}

void resp_command(struct resp *resp, size_t n_args)
{
    write_head(resp, '*', n_args);
}

void resp_arg(struct resp *resp, const void *bytes, size_t len)
{
    write_head(resp, '$', len);
    resp_raw(resp, bytes, len);
    resp_raw(resp, "\r\n", 2);
}

void resp_number(struct resp *resp, uint64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    char *first = print_number(digits, number);
    resp_arg(resp, first, (size_t)(digits + sizeof(digits) - first));
}

void resp_text(struct resp *resp, const char *text)
{
    resp_arg(resp, text, strlen(text));
}
