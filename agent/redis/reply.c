#include "agent/redis/reply.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

struct reply_reader {
    redisReader *stream;
    struct reply_limits limits;
    unsigned n_values;
    size_t text_bytes;
    char *text;
    struct seam_value values[];
};

/* hiredis 1.x counts elements in size_t, 0.14 in int. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static bool is_deep(const redisReadTask *task)
{
    unsigned depth = 1;
    for (const redisReadTask *t = task; t->parent != NULL; t = t->parent) {
        depth++;
    }
    return depth > REPLY_DEPTH_MAX;
}

/* A place for one more value. NULL makes hiredis give up the stream. */
static struct seam_value *add_value(const redisReadTask *task, enum seam_type type)
{
    struct reply_reader *reader = task->privdata;
    if (task->parent == NULL) { /* a new reply */
        reader->n_values = 0;
        reader->text_bytes = 0;
    }
    if (reader->n_values == reader->limits.values_max || is_deep(task)) {
        return NULL;
    }
    struct seam_value *value = &reader->values[reader->n_values++];
    *value = (struct seam_value){.type = type};
    return value;
}

static void *create_string(const redisReadTask *task, char *bytes, size_t len)
{
    enum seam_type type = SEAM_STRING;
    if (task->type == REDIS_REPLY_ERROR) {
        type = SEAM_ERROR_TEXT;
        len = len < REPLY_ERROR_BYTES_MAX ? len : REPLY_ERROR_BYTES_MAX;
    } else if (task->type == REDIS_REPLY_STATUS) {
        type = SEAM_STATUS;
    } else if (task->type != REDIS_REPLY_STRING) {
        return NULL;
    }
    struct seam_value *value = add_value(task, type);
    struct reply_reader *reader = task->privdata;
    if (value == NULL || len > reader->limits.bytes_max - reader->text_bytes) {
        return NULL;
    }
    char *text = reader->text + reader->text_bytes;
    if (len > 0) {
        memcpy(text, bytes, len);
    }
    reader->text_bytes += len;
    value->text = text;
    value->text_bytes = len;
    return value;
}

static void *create_array(const redisReadTask *task, element_count n_elements)
{
    struct reply_reader *reader = task->privdata;
    if (task->type != REDIS_REPLY_ARRAY
        || (unsigned long long)n_elements > reader->limits.values_max) {
        return NULL;
    }
    struct seam_value *value = add_value(task, SEAM_ARRAY);
    if (value != NULL) {
        value->integer = (int64_t)n_elements;
    }
    return value;
}

static void *create_integer(const redisReadTask *task, long long integer)
{
    struct seam_value *value = add_value(task, SEAM_INTEGER);
    if (value != NULL) {
        value->integer = integer;
    }
    return value;
}

static void *create_nil(const redisReadTask *task)
{
    bool is_resp3 = task->type == REDIS_REPLY_NIL; /* else a string or an array */
    return is_resp3 ? NULL : add_value(task, SEAM_NIL);
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which is never asked for. */
static void *create_double(const redisReadTask *task, double number, char *text,
                           size_t len)
{
    (void)task;
    (void)number;
    (void)text;
    (void)len;
    return NULL;
}

static void *create_bool(const redisReadTask *task, int is_true)
{
    (void)task;
    (void)is_true;
    return NULL;
}
#endif

static void free_object(void *object)
{
    (void)object; /* values are reused */
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
    .freeObject = free_object,
};

struct reply_reader *reply_reader_new(const struct reply_limits *limits)
{
    struct reply_reader *reader = calloc(1, sizeof(*reader)
                                                + limits->values_max
                                                      * sizeof(reader->values[0]));
    if (reader == NULL) {
        return NULL;
    }
    reader->limits = *limits;
    reader->text = malloc(limits->bytes_max);
    if (reader->text == NULL || !reply_reader_reset(reader)) {
        reply_reader_free(reader);
        return NULL;
    }
    return reader;
}

static void free_stream(struct reply_reader *reader)
{
    if (reader->stream != NULL) {
        redisReaderFree(reader->stream);
    }
    reader->stream = NULL;
}

void reply_reader_free(struct reply_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    free_stream(reader);
    free(reader->text);
    free(reader);
}

bool reply_reader_reset(struct reply_reader *reader)
{
    free_stream(reader);
    reader->stream = redisReaderCreateWithFunctions(&functions);
    if (reader->stream == NULL) {
        return false;
    }
    reader->stream->privdata = reader;
    reader->stream->maxbuf = 0; /* a buffer that has grown stays: bytes_max bounds it */
    return true;
}

bool reply_feed(struct reply_reader *reader, const char *bytes, size_t len)
{
    const redisReader *stream = reader->stream;
    if (len > reader->limits.bytes_max
        || stream->len - stream->pos > reader->limits.bytes_max - len) {
        return false;
    }
    return redisReaderFeed(reader->stream, bytes, len) == REDIS_OK;
}

enum reply_status reply_next(struct reply_reader *reader, struct seam_reply *reply)
{
    void *root = NULL;
    if (redisReaderGetReply(reader->stream, &root) != REDIS_OK) {
        return REPLY_BAD;
    }
    if (root == NULL) {
        return REPLY_MORE;
    }
    *reply = (struct seam_reply){.values = reader->values,
                                 .n_values = reader->n_values};
    return REPLY_OK;
}

/* Whether the first word of an error is `word`. */
static bool has_word(const struct seam_value *value, const char *word)
{
    size_t len = strlen(word);
    return value->text_bytes >= len && memcmp(value->text, word, len) == 0
           && (value->text_bytes == len || value->text[len] == ' ');
}

static bool has_part(const struct seam_value *value, const char *part)
{
    return memmem(value->text, value->text_bytes, part, strlen(part)) != NULL;
}

enum seam_error reply_error(const struct seam_reply *reply)
{
    static const struct {
        const char *word;
        enum seam_error error;
    } words[] = {
        {"MOVED", SEAM_ERROR_MOVED},          {"ASK", SEAM_ERROR_MOVED},
        {"TRYAGAIN", SEAM_ERROR_TRYAGAIN},    {"CLUSTERDOWN", SEAM_ERROR_CLUSTER_DOWN},
        {"LOADING", SEAM_ERROR_LOADING},      {"MASTERDOWN", SEAM_ERROR_LOADING},
        {"READONLY", SEAM_ERROR_READ_ONLY},   {"BUSY", SEAM_ERROR_BUSY},
        {"NOSCRIPT", SEAM_ERROR_NO_SCRIPT},   {"NOAUTH", SEAM_ERROR_DENIED},
        {"WRONGPASS", SEAM_ERROR_DENIED},     {"NOPERM", SEAM_ERROR_DENIED},
        {"DENIED", SEAM_ERROR_DENIED},        {"OOM", SEAM_ERROR_OUT_OF_MEMORY},
        {"NOREPLICAS", SEAM_ERROR_NO_WRITES}, {"MISCONF", SEAM_ERROR_NO_WRITES},
        {"WRONGTYPE", SEAM_ERROR_WRONG_TYPE},
    };
    const struct seam_value *value = &reply->values[0];
    if (value->type != SEAM_ERROR_TEXT) {
        return SEAM_ERROR_NONE;
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (has_word(value, words[i].word)) {
            return words[i].error;
        }
    }
    /* What a script is not allowed to call is told without a word of its own. */
    return has_part(value, "user executing the script can't run") ? SEAM_ERROR_DENIED
                                                                  : SEAM_ERROR_OTHER;
}

bool reply_is_text(const struct seam_reply *reply, const char *text)
{
    const struct seam_value *value = &reply->values[0];
    bool has_text = value->type == SEAM_STATUS || value->type == SEAM_STRING;
    return has_text && value->text_bytes == strlen(text)
           && memcmp(value->text, text, value->text_bytes) == 0;
}

/* A decimal number up to the end of the text or `until`; false when it is none. */
static bool take_number(const char **at, const char *end, char until, unsigned max,
                        unsigned *number)
{
    const char *p = *at;
    *number = 0;
    while (p < end && *p >= '0' && *p <= '9' && *number <= max) {
        *number = *number * 10 + (unsigned)(*p++ - '0');
    }
    bool is_ok = p > *at && *number <= max && (p == end || *p == until);
    *at = p;
    return is_ok;
}

bool reply_redirect(const struct seam_reply *reply, struct reply_redirect *redirect)
{
    const struct seam_value *value = &reply->values[0];
    *redirect = (struct reply_redirect){0};
    if (value->type != SEAM_ERROR_TEXT
        || (!has_word(value, "MOVED") && !has_word(value, "ASK"))) {
        return false;
    }
    redirect->is_ask = value->text[0] == 'A';
    const char *at = value->text + (redirect->is_ask ? 4 : 6);
    const char *end = value->text + value->text_bytes;
    if (at >= end || !take_number(&at, end, ' ', SEAM_SLOTS_MAX - 1, &redirect->slot)
        || at == end) {
        return false;
    }
    redirect->host = at + 1;
    /* IPv6 stands there without brackets: the port is behind the last colon. */
    const char *colon = memrchr(redirect->host, ':', (size_t)(end - redirect->host));
    if (colon == NULL) {
        return false;
    }
    redirect->host_bytes = (size_t)(colon - redirect->host);
    at = colon + 1;
    return take_number(&at, end, '\0', 65535, &redirect->port) && at == end
           && redirect->port > 0;
}
