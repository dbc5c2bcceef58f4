#include "agent/bench/shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "spop/bytes.h"
#include "spop/value.h"

static const char key_mark[] = "{key}";
static const char plus_key_mark[] = "+{key}";

enum {
    IPV4_BYTES = 4,
    IPV6_BYTES = 16,
    HEAD_BYTES_MAX = 1 + SPOP_VARINT_BYTES_MAX, /* of a value: type and length */
};

static bool fail(char *error, const char *text, const char *what)
{
    (void)snprintf(error, SHAPE_ERROR_BYTES_MAX, "%.100s: %s", text, what);
    return false;
}

/* The pieces are written through a writer over the rest of `fixed`. */
static struct spop_writer fixed_writer(struct shape *shape)
{
    struct spop_writer w;
    spop_writer_init(&w, shape->fixed + shape->fixed_len,
                     sizeof(shape->fixed) - shape->fixed_len);
    return w;
}

static struct shape_piece *last_piece(struct shape *shape)
{
    return &shape->pieces[shape->n_pieces - 1];
}

/* Take what was written as bytes that every request has. */
static bool keep_fixed(struct shape *shape, const struct spop_writer *w)
{
    if (w->status != SPOP_OK) {
        return false;
    }
    shape->fixed_len += w->len;
    last_piece(shape)->fixed_len += w->len;
    return true;
}

static bool add_fixed_value(struct shape *shape, const struct spop_value *value)
{
    struct spop_writer w = fixed_writer(shape);
    spop_value_encode(&w, value);
    return keep_fixed(shape, &w);
}

/* End the piece with a place for the key; `prefix` and `suffix` are what it needs. */
static bool add_place(struct shape *shape, enum shape_place place,
                      struct spop_bytes prefix, struct spop_bytes suffix)
{
    struct shape_piece *piece = last_piece(shape);
    struct spop_writer w = fixed_writer(shape);
    spop_write_bytes(&w, prefix);
    spop_write_bytes(&w, suffix);
    if (w.status != SPOP_OK) {
        return false;
    }
    piece->place = place;
    piece->text_off = shape->fixed_len;
    piece->prefix_len = prefix.len;
    piece->suffix_len = suffix.len;
    shape->fixed_len += w.len;
    shape->pieces[shape->n_pieces++] = (struct shape_piece){
        .fixed_off = shape->fixed_len};
    return true;
}

bool shape_init(struct shape *shape, const char *message, char *error)
{
    shape->n_args = 0;
    shape->n_pieces = 1;
    shape->fixed_len = 0;
    shape->pieces[0] = (struct shape_piece){0};
    if (*message == '\0' || strlen(message) > SHAPE_NAME_BYTES_MAX) {
        return fail(error, message, "want a message name of 1 to 255 bytes");
    }
    struct spop_writer w = fixed_writer(shape);
    spop_write_string(&w, spop_bytes_view(message));
    shape->n_args_off = w.len;
    spop_write_u8(&w, 0);
    return keep_fixed(shape, &w);
}

static bool add_text(struct shape *shape, const char *text)
{
    const char *mark = strstr(text, key_mark);
    if (mark == NULL) {
        struct spop_value value = {.type = SPOP_VALUE_STRING,
                                   .bytes = spop_bytes_view(text)};
        return add_fixed_value(shape, &value);
    }
    struct spop_bytes prefix = {.ptr = (const uint8_t *)text,
                                .len = (size_t)(mark - text)};
    return add_place(shape, SHAPE_TEXT, prefix,
                     spop_bytes_view(mark + sizeof(key_mark) - 1));
}

static bool add_int(struct shape *shape, const char *text, char *error)
{
    char *end = NULL;
    if (strcmp(text, key_mark) == 0) {
        struct spop_bytes none = {0};
        return add_place(shape, SHAPE_INT, none, none);
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) {
        return fail(error, text, "want a number or {key}");
    }
    struct spop_value value = {.type = SPOP_VALUE_INT64, .integer = (uint64_t)number};
    return add_fixed_value(shape, &value);
}

static bool add_ip(struct shape *shape, const char *text, char *error)
{
    char address[INET6_ADDRSTRLEN] = "";
    uint8_t bytes[IPV6_BYTES];
    const char *mark = strstr(text, plus_key_mark);
    bool has_key = mark != NULL && mark[sizeof(plus_key_mark) - 1] == '\0';
    size_t len = has_key ? (size_t)(mark - text) : strlen(text);
    if (len < sizeof(address)) {
        memcpy(address, text, len);
        address[len] = '\0';
    }
    bool is_ipv4 = inet_pton(AF_INET, address, bytes) == 1;
    if (!is_ipv4 && inet_pton(AF_INET6, address, bytes) != 1) {
        return fail(error, text, "want an address, or ADDRESS+{key}");
    }
    struct spop_value value = {
        .type = is_ipv4 ? SPOP_VALUE_IPV4 : SPOP_VALUE_IPV6,
        .bytes = {.ptr = bytes, .len = is_ipv4 ? IPV4_BYTES : IPV6_BYTES},
    };
    return has_key ? add_place(shape, is_ipv4 ? SHAPE_IPV4 : SHAPE_IPV6, value.bytes,
                               (struct spop_bytes){0})
                   : add_fixed_value(shape, &value);
}

static bool add_bool(struct shape *shape, const char *text, char *error)
{
    struct spop_value value = {.type = SPOP_VALUE_BOOL,
                               .boolean = strcmp(text, "true") == 0};
    if (!value.boolean && strcmp(text, "false") != 0) {
        return fail(error, text, "want true or false");
    }
    return add_fixed_value(shape, &value);
}

static bool add_value(struct shape *shape, const char *type, const char *text,
                      char *error)
{
    if (strcmp(type, "null") == 0) {
        struct spop_value value = {.type = SPOP_VALUE_NULL};
        return text == NULL ? add_fixed_value(shape, &value)
                            : fail(error, text, "null takes no value");
    }
    if (text == NULL) {
        return fail(error, type, "want NAME[:TYPE]=VALUE or NAME:null");
    }
    if (strcmp(type, "text") == 0) {
        return add_text(shape, text);
    }
    if (strcmp(type, "int") == 0) {
        return add_int(shape, text, error);
    }
    if (strcmp(type, "ip") == 0) {
        return add_ip(shape, text, error);
    }
    if (strcmp(type, "bool") == 0) {
        return add_bool(shape, text, error);
    }
    return fail(error, type, "want one of the types text, int, ip, bool, null");
}

bool shape_add(struct shape *shape, const char *text, char *error)
{
    char head[SHAPE_NAME_BYTES_MAX + 1];
    size_t head_len = strcspn(text, "=");
    const char *value = text[head_len] == '=' ? text + head_len + 1 : NULL;
    if (shape->n_args == SHAPE_ARGS_MAX) {
        return fail(error, text, "more than 64 arguments");
    }
    if (head_len >= sizeof(head)) {
        return fail(error, text, "the name is longer than 255 bytes");
    }
    memcpy(head, text, head_len);
    head[head_len] = '\0';
    char *colon = strchr(head, ':');
    const char *type = colon != NULL ? colon + 1 : "text";
    if (colon != NULL) {
        *colon = '\0';
    }
    if (*head == '\0') {
        return fail(error, text, "want NAME[:TYPE]=VALUE or NAME:null");
    }
    struct spop_writer w = fixed_writer(shape);
    spop_write_string(&w, spop_bytes_view(head));
    error[0] = '\0';
    bool ok = keep_fixed(shape, &w) && add_value(shape, type, value, error);
    if (!ok && error[0] == '\0') {
        return fail(error, text, "all arguments together have more than 65536 bytes");
    }
    shape->n_args++;
    shape->fixed[shape->n_args_off] = (uint8_t)shape->n_args;
    return ok;
}

size_t shape_bytes_max(const struct shape *shape)
{
    return shape->fixed_len
           + shape->n_pieces * (size_t)(HEAD_BYTES_MAX + SHAPE_KEY_DIGITS_MAX);
}

static void write_text(const struct shape *shape, const struct shape_piece *piece,
                       struct spop_writer *w, uint64_t key)
{
    char digits[SHAPE_KEY_DIGITS_MAX + 1];
    size_t start = sizeof(digits);
    do {
        digits[--start] = (char)('0' + key % 10);
        key /= 10;
    } while (key > 0);
    struct spop_bytes number = {.ptr = (const uint8_t *)digits + start,
                                .len = sizeof(digits) - start};
    const uint8_t *text = shape->fixed + piece->text_off;
    spop_write_u8(w, SPOP_VALUE_STRING);
    spop_write_varint(w, piece->prefix_len + number.len + piece->suffix_len);
    spop_write_bytes(w, (struct spop_bytes){text, piece->prefix_len});
    spop_write_bytes(w, number);
    spop_write_bytes(w,
                     (struct spop_bytes){text + piece->prefix_len, piece->suffix_len});
}

/* An address as the number it is, and `key` more; beyond the last it starts again. */
static void write_address(const struct shape *shape, const struct shape_piece *piece,
                          struct spop_writer *w, uint64_t key)
{
    uint8_t bytes[IPV6_BYTES];
    size_t len = piece->prefix_len;
    memcpy(bytes, shape->fixed + piece->text_off, len);
    for (size_t i = len; i-- > 0 && key > 0; key >>= 8) {
        key += bytes[i];
        bytes[i] = (uint8_t)key;
    }
    spop_write_u8(w, len == IPV4_BYTES ? SPOP_VALUE_IPV4 : SPOP_VALUE_IPV6);
    spop_write_bytes(w, (struct spop_bytes){bytes, len});
}

static void write_key(const struct shape *shape, const struct shape_piece *piece,
                      struct spop_writer *w, uint64_t key)
{
    switch (piece->place) {
    case SHAPE_END:
        break;
    case SHAPE_TEXT:
        write_text(shape, piece, w, key);
        break;
    case SHAPE_INT:
        spop_write_u8(w, SPOP_VALUE_INT64);
        spop_write_varint(w, key);
        break;
    case SHAPE_IPV4:
    case SHAPE_IPV6:
        write_address(shape, piece, w, key);
        break;
    }
}

void shape_write(const struct shape *shape, struct spop_writer *w, uint64_t key)
{
    for (unsigned i = 0; i < shape->n_pieces; i++) {
        const struct shape_piece *piece = &shape->pieces[i];
        spop_write_bytes(w, (struct spop_bytes){shape->fixed + piece->fixed_off,
                                                piece->fixed_len});
        write_key(shape, piece, w, key);
    }
}
