#include "tests/conformance/wire.h"

#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "tests/support/hex.h"

static const char *const code_texts[] = {
    [0] = "normal",
    [1] = "I/O error",
    [2] = "a timeout occurred",
    [3] = "frame is too big",
    [4] = "invalid frame received",
    [5] = "version value not found",
    [6] = "max-frame-size value not found",
    [7] = "capabilities value not found",
    [8] = "unsupported version",
    [9] = "max-frame-size too big or too small",
    [10] = "payload fragmentation is not supported",
    [11] = "invalid interlaced frames",
    [12] = "frame-id not found",
    [13] = "resource allocation error",
    [99] = "an unknown error occurred",
};

/* The variables of agent/README.md, in the order in which they are sent. */
static const struct {
    const char *name;
    enum wire_data type;
} variables[] = {
    {"action", WIRE_STRING}, {"deny", WIRE_BOOL},         {"status", WIRE_INT64},
    {"rule", WIRE_STRING},   {"limit", WIRE_INT64},       {"remaining", WIRE_INT64},
    {"reset", WIRE_INT64},   {"retry_after", WIRE_INT64}, {"ratelimit", WIRE_STRING},
    {"policy", WIRE_STRING}, {"problem", WIRE_STRING},    {"reason", WIRE_STRING},
    {"shadow", WIRE_STRING},
};

enum {
    N_VARIABLES = sizeof(variables) / sizeof(variables[0]),
    SCOPE_TXN = 2,
    VARIABLE_BYTES_MAX = 63, /* txn.rl.NAME */
};

void wire_u8(struct wire *w, unsigned byte)
{
    if (w->len == sizeof(w->bytes)) {
        abort();
    }
    w->bytes[w->len++] = (uint8_t)byte;
}

void wire_be32(struct wire *w, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        wire_u8(w, number >> shift & 255);
    }
}

void wire_varint(struct wire *w, uint64_t number)
{
    if (number < 240) {
        wire_u8(w, (unsigned)number);
        return;
    }
    wire_u8(w, (unsigned)(number & 255) | 0xf0);
    number = (number - 240) >> 4;
    while (number >= 128) {
        wire_u8(w, (unsigned)(number & 255) | 0x80);
        number = (number - 128) >> 7;
    }
    wire_u8(w, (unsigned)number);
}

void wire_bytes(struct wire *w, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        wire_u8(w, ((const uint8_t *)bytes)[i]);
    }
}

void wire_hex(struct wire *w, const char *text)
{
    w->len += hex_decode(text, w->bytes + w->len, sizeof(w->bytes) - w->len);
}

void wire_name(struct wire *w, const char *name)
{
    wire_varint(w, strlen(name));
    wire_bytes(w, name, strlen(name));
}

void wire_null(struct wire *w)
{
    wire_u8(w, WIRE_NULL);
}

void wire_bool(struct wire *w, bool value)
{
    wire_u8(w, value ? 0x11 : 0x01);
}

void wire_int(struct wire *w, enum wire_data type, uint64_t number)
{
    wire_u8(w, type);
    wire_varint(w, number);
}

void wire_address(struct wire *w, const char *text)
{
    uint8_t address[16];
    bool is_v6 = strchr(text, ':') != NULL;
    if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, address) != 1) {
        abort();
    }
    wire_u8(w, is_v6 ? WIRE_IPV6 : WIRE_IPV4);
    wire_bytes(w, address, is_v6 ? 16 : 4);
}

void wire_data(struct wire *w, enum wire_data type, const void *bytes, size_t len)
{
    wire_u8(w, type);
    wire_varint(w, len);
    wire_bytes(w, bytes, len);
}

void wire_text(struct wire *w, const char *text)
{
    wire_data(w, WIRE_STRING, text, strlen(text));
}

void wire_begin(struct wire *w, unsigned type, uint32_t flags, uint64_t stream_id,
                uint64_t frame_id)
{
    w->frame_off = w->len;
    wire_be32(w, 0);
    wire_u8(w, type);
    wire_be32(w, flags);
    wire_varint(w, stream_id);
    wire_varint(w, frame_id);
}

void wire_end(struct wire *w)
{
    size_t len = w->len;
    w->len = w->frame_off;
    wire_be32(w, (uint32_t)(len - w->frame_off - WIRE_PREFIX_BYTES));
    w->len = len;
}

void wire_set_flags(struct wire *w, uint32_t flags)
{
    size_t len = w->len;
    w->len = w->frame_off + WIRE_PREFIX_BYTES + 1;
    wire_be32(w, flags);
    w->len = len;
}

static void put_keys(struct wire *w, const char *versions, uint64_t size,
                     const char *capabilities)
{
    if (versions != NULL) {
        wire_name(w, "supported-versions");
        wire_text(w, versions);
    }
    if (size != 0) {
        wire_name(w, "max-frame-size");
        wire_int(w, WIRE_UINT32, size);
    }
    if (capabilities != NULL) {
        wire_name(w, "capabilities");
        wire_text(w, capabilities);
    }
}

static void put_hello(struct wire *w, const char *capabilities)
{
    wire_begin(w, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
    put_keys(w, "2.0", WIRE_SIZE, capabilities);
    wire_name(w, "engine-id");
    wire_text(w, "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9fa");
    wire_end(w);
}

void wire_hello(struct wire *w)
{
    put_hello(w, "pipelining");
}

void wire_hello_legacy(struct wire *w)
{
    put_hello(w, "pipelining,async");
}

void wire_hello_with(struct wire *w, const char *versions, uint64_t size,
                     const char *capabilities)
{
    wire_begin(w, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
    put_keys(w, versions, size, capabilities);
    wire_end(w);
}

void wire_hello_check(struct wire *w)
{
    wire_begin(w, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
    put_keys(w, "2.0", WIRE_SIZE, "");
    wire_name(w, "healthcheck");
    wire_bool(w, true);
    wire_end(w);
}

void wire_notify_begin(struct wire *w, uint64_t stream_id, uint64_t frame_id,
                       unsigned n_args)
{
    wire_begin(w, WIRE_NOTIFY, WIRE_FIN, stream_id, frame_id);
    wire_name(w, "ratelimit-check");
    wire_u8(w, n_args);
}

void wire_arg_text(struct wire *w, const char *name, const char *text)
{
    wire_name(w, name);
    wire_text(w, text);
}

void wire_notify(struct wire *w, uint64_t stream_id, uint64_t frame_id, const char *key)
{
    wire_notify_begin(w, stream_id, frame_id, 2);
    wire_arg_text(w, "route", "key");
    wire_arg_text(w, "key", key);
    wire_end(w);
}

void wire_notify_sized(struct wire *w, uint64_t stream_id, const char *key, size_t size)
{
    static const uint8_t zeros[WIRE_SIZE_MAX + 1];
    size_t pad = size;
    size_t start = w->len;
    do { /* shorter by what is too much, until it fits */
        w->len = start;
        wire_notify_begin(w, stream_id, 1, 3);
        wire_arg_text(w, "route", "key");
        wire_arg_text(w, "key", key);
        wire_name(w, "pad");
        wire_data(w, WIRE_BINARY, zeros, pad);
        wire_end(w);
        pad--;
    } while (w->len - start > WIRE_PREFIX_BYTES + size);
    if (w->len - start != WIRE_PREFIX_BYTES + size) {
        abort();
    }
}

void wire_disconnect(struct wire *w, uint64_t code)
{
    wire_begin(w, WIRE_HAPROXY_DISCONNECT, WIRE_FIN, 0, 0);
    wire_name(w, "status-code");
    wire_int(w, WIRE_UINT32, code);
    wire_name(w, "message");
    wire_text(w, "as the test wants it");
    wire_end(w);
}

struct view {
    const uint8_t *ptr;
    size_t len;
    bool is_bad;
};

static unsigned take_u8(struct view *v)
{
    if (v->len == 0) {
        v->is_bad = true;
        return 0;
    }
    v->len--;
    return *v->ptr++;
}

static uint32_t take_be32(struct view *v)
{
    uint32_t number = 0;
    for (int i = 0; i < 4; i++) {
        number = number << 8 | take_u8(v);
    }
    return number;
}

static uint64_t take_varint(struct view *v)
{
    unsigned byte = take_u8(v);
    uint64_t number = byte;
    unsigned shift = 4;
    if (byte < 240) {
        return number;
    }
    do {
        byte = take_u8(v);
        uint64_t more = (uint64_t)byte << (shift & 63);
        if (shift > 63 || more >> shift != byte || number + more < number) {
            v->is_bad = true;
            return 0;
        }
        number += more;
        shift += 7;
    } while (byte >= 128);
    return number;
}

static const uint8_t *take_bytes(struct view *v, uint64_t len)
{
    const uint8_t *bytes = v->ptr;
    if (len > v->len) {
        v->is_bad = true;
        return NULL;
    }
    v->ptr += len;
    v->len -= (size_t)len;
    return bytes;
}

/* A name of the agent's: letters, digits, dots, dashes and underscores. */
static bool take_name(struct view *v, char name[64])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.-";
    uint64_t len = take_varint(v);
    const uint8_t *bytes = take_bytes(v, len);
    if (v->is_bad || len == 0 || len > 63) {
        return false;
    }
    memcpy(name, bytes, (size_t)len);
    name[len] = '\0';
    return strlen(name) == len && strspn(name, allowed) == len;
}

/* A STRING equal to `text`. */
static bool take_text(struct view *v, const char *text)
{
    bool is_string = take_u8(v) == WIRE_STRING;
    uint64_t len = take_varint(v);
    const uint8_t *bytes = take_bytes(v, len);
    return is_string && !v->is_bad && len == strlen(text)
           && memcmp(bytes, text, (size_t)len) == 0;
}

const char *wire_read_frame(const uint8_t *bytes, size_t len, struct wire_frame *frame)
{
    struct view v = {.ptr = bytes, .len = len};
    uint32_t length = take_be32(&v);
    frame->type = (uint8_t)take_u8(&v);
    frame->flags = take_be32(&v);
    frame->stream_id = take_varint(&v);
    frame->frame_id = take_varint(&v);
    frame->payload = v.ptr;
    frame->payload_len = v.len;
    if (v.is_bad || length < WIRE_FRAME_BYTES_MIN) {
        return "a frame shorter than 7 bytes";
    }
    if (length != len - WIRE_PREFIX_BYTES) {
        return "the length is wrong";
    }
    return frame->flags == WIRE_FIN ? NULL : "flags other than FIN";
}

/* The frames that belong to no stream. */
static const char *read_of_connection(const uint8_t *bytes, size_t len, uint8_t type,
                                      struct view *v)
{
    struct wire_frame frame;
    const char *fault = wire_read_frame(bytes, len, &frame);
    *v = (struct view){.ptr = frame.payload, .len = frame.payload_len};
    if (fault != NULL) {
        return fault;
    }
    if (frame.type != type) {
        return "another type of frame is wanted";
    }
    return frame.stream_id == 0 && frame.frame_id == 0 ? NULL : "ids other than 0";
}

static bool take_key(struct view *v, const char *wanted)
{
    char name[64];
    return take_name(v, name) && strcmp(name, wanted) == 0;
}

const char *wire_read_hello(const uint8_t *bytes, size_t len,
                            struct wire_hello_answer *hello)
{
    struct view v;
    const char *fault = read_of_connection(bytes, len, WIRE_AGENT_HELLO, &v);
    if (fault != NULL) {
        return fault;
    }
    *hello = (struct wire_hello_answer){.size = 0};
    if (!take_key(&v, "version") || !take_text(&v, "2.0")) {
        return "version is not 2.0";
    }
    if (!take_key(&v, "max-frame-size") || take_u8(&v) != WIRE_UINT32) {
        return "no max-frame-size";
    }
    hello->size = take_varint(&v);
    if (!take_key(&v, "capabilities") || v.is_bad) {
        return "no capabilities";
    }
    static const char *const lists[] = {"", "pipelining", "fragmentation",
                                        "pipelining,fragmentation"};
    for (size_t i = 0; i < 4; i++) {
        struct view list = v;
        if (take_text(&list, lists[i]) && list.len == 0) {
            hello->is_pipelining = (i & 1) != 0;
            hello->is_fragmentation = (i & 2) != 0;
            return NULL;
        }
    }
    return "capabilities of another kind";
}

const char *wire_read_disconnect(const uint8_t *bytes, size_t len, uint64_t *code)
{
    struct view v;
    const char *fault = read_of_connection(bytes, len, WIRE_AGENT_DISCONNECT, &v);
    if (fault != NULL) {
        return fault;
    }
    if (!take_key(&v, "status-code") || take_u8(&v) != WIRE_UINT32) {
        return "no status-code";
    }
    *code = take_varint(&v);
    if (v.is_bad || *code > 99 || code_texts[*code] == NULL) {
        return "the status-code is none of the registered ones";
    }
    if (!take_key(&v, "message") || !take_text(&v, code_texts[*code]) || v.len > 0) {
        return "the message is not the code's";
    }
    return NULL;
}

static const char *take_value(struct view *v, struct wire_action *action)
{
    unsigned head = take_u8(v);
    action->type = (enum wire_data)(head & 15);
    if (action->type == WIRE_BOOL && (head == 0x01 || head == 0x11)) {
        action->number = head == 0x11;
    } else if (head == WIRE_INT64) {
        action->number = (int64_t)take_varint(v);
    } else if (head == WIRE_STRING) {
        action->text_len = (size_t)take_varint(v);
        action->text = (const char *)take_bytes(v, action->text_len);
    } else {
        return "a value that is no BOOL, INT64 or STRING";
    }
    return v->is_bad ? "a value that is cut" : NULL;
}

static const char *take_action(struct view *v, struct wire_action *action)
{
    unsigned kind = take_u8(v);
    unsigned n_args = take_u8(v);
    unsigned scope = take_u8(v);
    *action = (struct wire_action){.is_unset = kind == 2};
    if (!(kind == 1 && n_args == 3) && !(kind == 2 && n_args == 2)) {
        return "an action that is neither SET-VAR nor UNSET-VAR";
    }
    if (scope != SCOPE_TXN) {
        return "a scope that is not txn";
    }
    if (!take_name(v, action->name) || strchr(action->name, '-') != NULL
        || strlen("txn.rl.") + strlen(action->name) > VARIABLE_BYTES_MAX) {
        return "a name that HAProxy does not take";
    }
    return action->is_unset ? NULL : take_value(v, action);
}

/* Every variable is a documented one, of its type, at most once and in its place. */
static const char *judge_variables(const struct wire_ack *ack)
{
    size_t at = 0;
    for (unsigned i = 0; i < ack->n_actions; i++) {
        const struct wire_action *action = &ack->actions[i];
        while (at < N_VARIABLES && strcmp(action->name, variables[at].name) != 0) {
            at++;
        }
        if (action->is_unset || at == N_VARIABLES) {
            return "a variable that is unknown, twice, or out of its place";
        }
        if (action->type != variables[at].type) {
            return "a variable of another type than documented";
        }
        at++;
    }
    return strcmp(ack->actions[0].name, "action") == 0 && ack->n_actions > 1
                   && strcmp(ack->actions[1].name, "deny") == 0
               ? NULL
               : "action and deny do not come first";
}

const char *wire_read_ack(const uint8_t *bytes, size_t len, size_t agreed_size,
                          struct wire_ack *ack)
{
    struct wire_frame frame;
    const char *fault = wire_read_frame(bytes, len, &frame);
    struct view v = {.ptr = frame.payload, .len = frame.payload_len};
    if (fault != NULL) {
        return fault;
    }
    if (frame.type != WIRE_ACK) {
        return "a frame that is no ACK";
    }
    if (len - WIRE_PREFIX_BYTES > agreed_size) {
        return "a frame larger than agreed";
    }
    *ack = (struct wire_ack){.stream_id = frame.stream_id, .frame_id = frame.frame_id};
    while (v.len > 0) {
        if (ack->n_actions == WIRE_ACTIONS_MAX) {
            return "more actions than there are variables";
        }
        fault = take_action(&v, &ack->actions[ack->n_actions]);
        if (fault != NULL) {
            return fault;
        }
        ack->n_actions++;
    }
    if (ack->n_actions == 0) {
        return "no action at all";
    }
    ack->is_neutral = ack->n_actions == 1 && ack->actions[0].is_unset
                      && strcmp(ack->actions[0].name, "_") == 0;
    return ack->is_neutral ? NULL : judge_variables(ack);
}

static const struct wire_action *find(const struct wire_ack *ack, const char *name)
{
    for (unsigned i = 0; i < ack->n_actions; i++) {
        if (strcmp(ack->actions[i].name, name) == 0) {
            return &ack->actions[i];
        }
    }
    return NULL;
}

int64_t wire_ack_number(const struct wire_ack *ack, const char *name)
{
    const struct wire_action *action = find(ack, name);
    return action != NULL ? action->number : INT64_MIN;
}

bool wire_ack_is(const struct wire_ack *ack, const char *name, const char *text)
{
    const struct wire_action *action = find(ack, name);
    return action != NULL && action->text_len == strlen(text)
           && memcmp(action->text, text, action->text_len) == 0;
}

bool wire_ack_is_by_policy(const struct wire_ack *ack)
{
    return wire_ack_is(ack, "reason", "store_down")
           || wire_ack_is(ack, "reason", "store_slow")
           || wire_ack_is(ack, "reason", "deadline");
}
