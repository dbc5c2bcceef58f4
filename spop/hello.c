#include "spop/hello.h"

#include "spop/bytes.h"
#include "spop/ensure.h"
#include "spop/kv.h"
#include "spop/value.h"

enum {
    VERSION_MAJOR = 2,
    VERSION_MINOR_MAX = 999
};

/* The keys that mean something. Others, engine-id among them, are read and dropped. */
enum hello_key {
    KEY_VERSIONS = 0,
    KEY_FRAME_SIZE = 1,
    KEY_CAPABILITIES = 2,
    KEY_HEALTH_CHECK = 3,
};

enum {
    N_KEYS = 4,       /* of HAPROXY-HELLO */
    N_AGENT_KEYS = 3, /* of AGENT-HELLO */
};

enum hello_kind {
    KIND_STRING = 0,
    KIND_INTEGER = 1,
    KIND_BOOL = 2
};

struct hello_rule {
    const char *name;
    enum hello_kind kind;
    enum spop_code missing_code; /* SPOP_CODE_NORMAL where the key is optional */
};

static const struct hello_rule haproxy_rules[N_KEYS] = {
    [KEY_VERSIONS] = {"supported-versions", KIND_STRING, SPOP_CODE_NO_VERSION},
    [KEY_FRAME_SIZE] = {"max-frame-size", KIND_INTEGER, SPOP_CODE_NO_FRAME_SIZE},
    [KEY_CAPABILITIES] = {"capabilities", KIND_STRING, SPOP_CODE_NO_CAPABILITIES},
    [KEY_HEALTH_CHECK] = {"healthcheck", KIND_BOOL, SPOP_CODE_NORMAL},
};

static const struct hello_rule agent_rules[N_AGENT_KEYS] = {
    [KEY_VERSIONS] = {"version", KIND_STRING, SPOP_CODE_NO_VERSION},
    [KEY_FRAME_SIZE] = {"max-frame-size", KIND_INTEGER, SPOP_CODE_NO_FRAME_SIZE},
    [KEY_CAPABILITIES] = {"capabilities", KIND_STRING, SPOP_CODE_NORMAL},
};

struct hello_values {
    const struct hello_rule *rules;
    size_t n_rules;
    bool is_present[N_KEYS];
    struct spop_value value[N_KEYS];
};

static bool value_is_of_kind(const struct spop_value *value, enum hello_kind kind)
{
    switch (kind) {
    case KIND_STRING:
        return value->type == SPOP_VALUE_STRING;
    case KIND_INTEGER:
        return value->type >= SPOP_VALUE_INT32 && value->type <= SPOP_VALUE_UINT64;
    case KIND_BOOL:
        return value->type == SPOP_VALUE_BOOL;
    }
    return false;
}

/* Keep the value of a key that means something; the last of several wins. */
static bool values_take(struct hello_values *values, const struct spop_kv *kv)
{
    for (size_t i = 0; i < values->n_rules; i++) {
        if (!spop_bytes_is(kv->key, values->rules[i].name)) {
            continue;
        }
        values->is_present[i] = true;
        values->value[i] = kv->value;
        return value_is_of_kind(&kv->value, values->rules[i].kind);
    }
    return true;
}

/* Read the keys of a HELLO of either side, as its rules say. */
static enum spop_code values_decode(const struct spop_frame *frame,
                                    struct hello_values *values)
{
    if (!spop_frame_is_final(frame)) {
        return SPOP_CODE_NO_FRAGMENTATION;
    }
    if (!spop_frame_is_of_connection(frame)) {
        return SPOP_CODE_INVALID;
    }
    struct spop_reader r;
    spop_reader_init(&r, frame->payload);
    struct spop_kv kv;
    enum spop_status status = SPOP_OK;
    while ((status = spop_kv_next(&r, &kv)) == SPOP_OK) {
        if (!values_take(values, &kv)) {
            return SPOP_CODE_INVALID;
        }
    }
    if (status != SPOP_END) {
        return SPOP_CODE_INVALID;
    }
    for (size_t i = 0; i < values->n_rules; i++) {
        enum spop_code missing_code = values->rules[i].missing_code;
        if (!values->is_present[i] && missing_code != SPOP_CODE_NORMAL) {
            return missing_code;
        }
    }
    return SPOP_CODE_NORMAL;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Take the next item of a comma-separated list, without the blanks around it. */
static bool list_next(struct spop_reader *r, struct spop_bytes *item)
{
    if (r->len == 0) {
        return false;
    }
    while (r->len > 0 && is_blank(r->ptr[0])) {
        (void)spop_read_u8(r);
    }
    size_t len = 0;
    while (len < r->len && r->ptr[len] != ',') {
        len++;
    }
    *item = spop_read_bytes(r, len);
    if (r->len > 0) {
        (void)spop_read_u8(r);
    }
    while (item->len > 0 && is_blank(item->ptr[item->len - 1])) {
        item->len--;
    }
    return true;
}

/* Read one or more digits; the value stops growing where it can mean nothing to us. */
static bool number_read(struct spop_reader *r, unsigned *number)
{
    size_t start_len = r->len;
    *number = 0;
    while (r->len > 0 && r->ptr[0] >= '0' && r->ptr[0] <= '9') {
        unsigned digit = (unsigned)spop_read_u8(r) - '0';
        if (*number <= VERSION_MINOR_MAX) {
            *number = *number * 10 + digit;
        }
    }
    return r->len < start_len;
}

/* Announcing 2.m means 2.0 to 2.m; a bare 2 is what some clients send. */
static bool version_is_ours(struct spop_bytes item)
{
    struct spop_reader r;
    spop_reader_init(&r, item);
    unsigned major = 0;
    unsigned minor = 0;
    if (!number_read(&r, &major) || major != VERSION_MAJOR) {
        return false;
    }
    if (r.len == 0) {
        return true;
    }
    return spop_read_u8(&r) == '.' && number_read(&r, &minor)
           && minor <= VERSION_MINOR_MAX && r.len == 0;
}

static bool versions_have_ours(struct spop_bytes list)
{
    struct spop_reader r;
    spop_reader_init(&r, list);
    struct spop_bytes item;
    while (list_next(&r, &item)) {
        if (version_is_ours(item)) {
            return true;
        }
    }
    return false;
}

static bool list_has(struct spop_bytes list, const char *name)
{
    struct spop_reader r;
    spop_reader_init(&r, list);
    struct spop_bytes item;
    while (list_next(&r, &item)) {
        if (spop_bytes_is(item, name)) {
            return true;
        }
    }
    return false;
}

/* A negative size is too small; one beyond int64_t is merely huge. */
static uint64_t frame_size_of(const struct spop_value *value)
{
    int64_t number = 0;
    if (spop_value_int64(value, &number) && number < 0) {
        return 0;
    }
    return value->integer;
}

enum spop_code spop_hello_decode(const struct spop_frame *frame,
                                 struct spop_haproxy_hello *hello)
{
    struct hello_values values = {.rules = haproxy_rules, .n_rules = N_KEYS};
    enum spop_code code = values_decode(frame, &values);
    if (code != SPOP_CODE_NORMAL) {
        return code;
    }
    if (!versions_have_ours(values.value[KEY_VERSIONS].bytes)) {
        return SPOP_CODE_BAD_VERSION;
    }
    uint64_t frame_bytes_max = frame_size_of(&values.value[KEY_FRAME_SIZE]);
    if (frame_bytes_max < SPOP_FRAME_SIZE_MIN) {
        return SPOP_CODE_BAD_FRAME_SIZE;
    }
    *hello = (struct spop_haproxy_hello){
        .frame_bytes_max = frame_bytes_max,
        .is_pipelining = list_has(values.value[KEY_CAPABILITIES].bytes, "pipelining"),
        .is_health_check = values.is_present[KEY_HEALTH_CHECK]
                           && values.value[KEY_HEALTH_CHECK].boolean,
    };
    return SPOP_CODE_NORMAL;
}

/* HAProxy takes this one version, blanks around it or not. */
static bool version_is_exact(struct spop_bytes text)
{
    struct spop_reader r;
    spop_reader_init(&r, text);
    struct spop_bytes item;
    return list_next(&r, &item) && r.len == 0 && spop_bytes_is(item, "2.0");
}

enum spop_code spop_agent_hello_decode(const struct spop_frame *frame,
                                       const struct spop_haproxy_hello *ours,
                                       struct spop_agent_hello *hello)
{
    struct hello_values values = {.rules = agent_rules, .n_rules = N_AGENT_KEYS};
    enum spop_code code = values_decode(frame, &values);
    if (code != SPOP_CODE_NORMAL) {
        return code;
    }
    if (ours->is_health_check && !values.is_present[KEY_CAPABILITIES]) {
        return SPOP_CODE_NO_CAPABILITIES;
    }
    if (!version_is_exact(values.value[KEY_VERSIONS].bytes)) {
        return SPOP_CODE_BAD_VERSION;
    }
    uint64_t frame_bytes_max = frame_size_of(&values.value[KEY_FRAME_SIZE]);
    if (frame_bytes_max < SPOP_FRAME_SIZE_MIN
        || frame_bytes_max > ours->frame_bytes_max) {
        return SPOP_CODE_BAD_FRAME_SIZE;
    }
    struct spop_bytes capabilities = values.value[KEY_CAPABILITIES].bytes;
    *hello = (struct spop_agent_hello){
        .frame_bytes_max = (size_t)frame_bytes_max,
        .is_pipelining = ours->is_pipelining && list_has(capabilities, "pipelining"),
        .is_fragmentation = list_has(capabilities, "fragmentation"),
    };
    return SPOP_CODE_NORMAL;
}

static const char *capabilities_text(const struct spop_agent_hello *hello)
{
    if (hello->is_fragmentation) {
        return hello->is_pipelining ? "pipelining,fragmentation" : "fragmentation";
    }
    return hello->is_pipelining ? "pipelining" : "";
}

static void text_write(struct spop_writer *w, const char *key, const char *text)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
    spop_write_string(w, spop_bytes_view(key));
    spop_value_encode(w, &value);
}

static void frame_size_write(struct spop_writer *w, uint64_t frame_bytes_max)
{
    SPOP_ENSURE(frame_bytes_max >= SPOP_FRAME_SIZE_MIN);
    SPOP_ENSURE(frame_bytes_max <= SPOP_FRAME_SIZE_MAX);
    struct spop_value size = {.type = SPOP_VALUE_UINT32, .integer = frame_bytes_max};
    spop_write_string(w, spop_bytes_view("max-frame-size"));
    spop_value_encode(w, &size);
}

void spop_hello_encode(struct spop_writer *w, const struct spop_agent_hello *hello)
{
    size_t start_off = spop_frame_begin(w, SPOP_FRAME_AGENT_HELLO, 0, 0);
    text_write(w, "version", "2.0");
    frame_size_write(w, hello->frame_bytes_max);
    /* Also when empty: the health check of HAProxy 3.1 and later wants the key. */
    text_write(w, "capabilities", capabilities_text(hello));
    spop_frame_end(w, start_off);
}

void spop_haproxy_hello_encode(struct spop_writer *w,
                               const struct spop_haproxy_hello *hello)
{
    struct spop_value yes = {.type = SPOP_VALUE_BOOL, .boolean = true};
    size_t start_off = spop_frame_begin(w, SPOP_FRAME_HAPROXY_HELLO, 0, 0);
    text_write(w, "supported-versions", "2.0");
    frame_size_write(w, hello->frame_bytes_max);
    text_write(w, "capabilities", hello->is_pipelining ? "pipelining" : "");
    if (hello->is_health_check) {
        spop_write_string(w, spop_bytes_view("healthcheck"));
        spop_value_encode(w, &yes);
    }
    spop_frame_end(w, start_off);
}
