/*
 * What is encoded and decoded again.
 *
 * Laws:      a varint that is accepted has no second encoding; a value, a frame and a
 *            DISCONNECT are the same after encode and decode, and their encoding is as
 *            long as what they were read from; every action given to an ACK comes back, in
 *            order, or is counted as left out.
 * Must reach: every type of value, varints of each length and one that overflows, frames
 *            with every flag, ACKs that are full, ACKs without actions.
 */
#include "spop/ack.h"
#include "spop/disconnect.h"
#include "spop/frame.h"
#include "spop/value.h"
#include "spop/varint.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/decoded_ack.h"

enum {
    INPUT_BYTES_MAX = 2048,
    ACK_TEXT_BYTES_MAX = 2000, /* what decoded_ack holds */
};

/* An action as given to the ACK. */
struct given {
    bool is_unset;
    uint8_t scope;
    char name[SPOP_VARIABLE_BYTES_MAX + 1];
    struct spop_value value;
};

static struct given given[DECODED_ACK_ACTIONS_MAX];
static struct decoded_ack decoded;
static uint8_t out_buf[SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX];

static bool same_bytes(struct spop_bytes a, struct spop_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static bool same_value(const struct spop_value *a, const struct spop_value *b)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case SPOP_VALUE_NULL:
        return true;
    case SPOP_VALUE_BOOL:
        return a->boolean == b->boolean;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        return a->integer == b->integer;
    case SPOP_VALUE_IPV4:
    case SPOP_VALUE_IPV6:
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        return same_bytes(a->bytes, b->bytes);
    }
    return false;
}

static void check_varints(struct spop_bytes in)
{
    for (size_t i = 0; i < in.len; i++) {
        struct spop_bytes from = {.ptr = in.ptr + i, .len = in.len - i};
        uint8_t again[SPOP_VARINT_BYTES_MAX];
        uint64_t number = 0;
        size_t n_bytes = 0;
        if (spop_varint_decode(from, &number, &n_bytes) != SPOP_OK) {
            FUZZ_CHECK(number == 0 && n_bytes == 0);
            continue;
        }
        FUZZ_CHECK(n_bytes <= from.len);
        FUZZ_CHECK(spop_varint_encode(number, again) == n_bytes);
        FUZZ_CHECK(memcmp(again, from.ptr, n_bytes) == 0);
    }
}

static void check_value(const struct spop_value *value, size_t read_bytes)
{
    struct spop_value back;
    struct spop_writer w;
    struct spop_reader r;
    spop_writer_init(&w, out_buf, sizeof(out_buf));
    spop_value_encode(&w, value);
    FUZZ_CHECK(w.status == SPOP_OK && w.len == read_bytes);
    spop_reader_init(&r, (struct spop_bytes){.ptr = out_buf, .len = w.len});
    spop_value_decode(&r, &back);
    FUZZ_CHECK(r.status == SPOP_OK && r.len == 0);
    FUZZ_CHECK(same_value(value, &back));
}

static void check_values(struct spop_bytes in)
{
    struct spop_reader r;
    spop_reader_init(&r, in);
    while (r.status == SPOP_OK && r.len > 0) {
        struct spop_value value;
        size_t left = r.len;
        spop_value_decode(&r, &value);
        if (r.status == SPOP_OK) {
            check_value(&value, left - r.len);
        } else {
            FUZZ_CHECK(r.len == left && value.type == SPOP_VALUE_NULL);
        }
    }
}

static void check_frame(struct spop_bytes in)
{
    struct spop_frame frame;
    struct spop_frame back;
    struct spop_writer w;
    if (spop_frame_decode(in, SPOP_FRAME_SIZE_MAX, &frame) != SPOP_OK) {
        return;
    }
    spop_writer_init(&w, out_buf, sizeof(out_buf));
    size_t start_off = spop_frame_begin(&w, (enum spop_frame_type)frame.type,
                                        frame.stream_id, frame.frame_id);
    spop_write_bytes(&w, frame.payload);
    spop_frame_end(&w, start_off);
    FUZZ_CHECK(w.status == SPOP_OK && w.len == frame.wire_bytes);
    struct spop_bytes out = {.ptr = out_buf, .len = w.len};
    FUZZ_CHECK(spop_frame_decode(out, SPOP_FRAME_SIZE_MAX, &back) == SPOP_OK);
    FUZZ_CHECK(back.type == frame.type && spop_frame_is_final(&back));
    FUZZ_CHECK(back.stream_id == frame.stream_id && back.frame_id == frame.frame_id);
    FUZZ_CHECK(same_bytes(back.payload, frame.payload));
}

static void check_disconnect(struct spop_bytes payload)
{
    struct spop_frame frame = {.flags = SPOP_FLAG_FIN, .payload = payload};
    struct spop_disconnect back;
    struct spop_writer w;
    enum spop_code code = spop_disconnect_answer(&frame);
    spop_writer_init(&w, out_buf, sizeof(out_buf));
    spop_disconnect_encode(&w, SPOP_FRAME_AGENT_DISCONNECT, code);
    struct spop_bytes out = {.ptr = out_buf, .len = w.len};
    FUZZ_CHECK(spop_frame_decode(out, SPOP_FRAME_SIZE_MIN, &frame) == SPOP_OK);
    FUZZ_CHECK(spop_disconnect_decode(frame.payload, &back) == SPOP_OK);
    FUZZ_CHECK(back.code == (uint64_t)code);
    FUZZ_CHECK(spop_disconnect_answer(&frame) == code);
}

/* An action made of input bytes: what, scope, name, value. */
static void take_action(struct spop_reader *r, struct given *g)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    uint8_t what = spop_read_u8(r);
    *g = (struct given){.is_unset = what % 8 == 0, .scope = what / 8 % 5};
    size_t name_len = 1 + spop_read_u8(r) % SPOP_VARIABLE_BYTES_MAX;
    for (size_t i = 0; i < name_len; i++) {
        g->name[i] = letters[(what + i) % (sizeof(letters) - 1)];
    }
    if (what % 8 == 1) {
        g->value.type = SPOP_VALUE_BOOL;
        g->value.boolean = what % 16 == 1;
    } else if (what % 8 <= 4) {
        uint64_t high = spop_read_be32(r);
        g->value.type = SPOP_VALUE_INT64;
        g->value.integer = high << (what % 33);
    } else {
        size_t len = (size_t)spop_read_u8(r) * 8;
        size_t left = r->len < ACK_TEXT_BYTES_MAX ? r->len : ACK_TEXT_BYTES_MAX;
        g->value.type = SPOP_VALUE_STRING;
        g->value.bytes = spop_read_bytes(r, len < left ? len : left);
    }
}

static void put_action(struct spop_ack *ack, const struct given *g)
{
    struct spop_variable variable;
    spop_variable_init(&variable, (enum spop_scope)g->scope, g->name);
    if (g->is_unset) {
        spop_ack_unset(ack, &variable);
    } else if (g->value.type == SPOP_VALUE_BOOL) {
        spop_ack_set_bool(ack, &variable, g->value.boolean);
    } else if (g->value.type == SPOP_VALUE_INT64) {
        spop_ack_set_int64(ack, &variable, (int64_t)g->value.integer);
    } else {
        spop_ack_set_string(ack, &variable, g->value.bytes);
    }
}

static void check_given(unsigned n_given)
{
    if (n_given == 0) { /* the neutral one stands alone */
        FUZZ_CHECK(decoded.n_actions == 1 && decoded.actions[0].is_unset);
        return;
    }
    FUZZ_CHECK(decoded.n_actions == n_given);
    for (unsigned i = 0; i < n_given; i++) {
        const struct decoded_action *action = &decoded.actions[i];
        FUZZ_CHECK(action->is_unset == given[i].is_unset);
        FUZZ_CHECK(action->scope == given[i].scope);
        FUZZ_CHECK(strcmp(action->name, given[i].name) == 0);
        FUZZ_CHECK(action->is_unset || same_value(&action->value, &given[i].value));
    }
}

static void check_ack(struct spop_bytes in)
{
    struct spop_reader r;
    struct spop_ack ack;
    struct spop_writer w;
    unsigned n_given = 0; /* those left out are overwritten by the next */
    unsigned n_done = 0;
    spop_reader_init(&r, in);
    size_t frame_bytes_max = SPOP_FRAME_SIZE_MIN + (size_t)spop_read_u8(&r) * 64;
    uint64_t stream_id = spop_read_varint(&r);
    uint64_t frame_id = spop_read_varint(&r);
    spop_writer_init(&w, out_buf, sizeof(out_buf));
    spop_ack_begin(&ack, &w, stream_id, frame_id, frame_bytes_max);
    while (r.status == SPOP_OK && r.len > 0 && n_given < DECODED_ACK_ACTIONS_MAX) {
        unsigned n_left_out = ack.n_left_out;
        take_action(&r, &given[n_given]);
        put_action(&ack, &given[n_given]);
        n_given += ack.n_left_out == n_left_out;
        n_done++;
    }
    unsigned n_left_out = ack.n_left_out;
    spop_ack_end(&ack);
    FUZZ_CHECK(w.status == SPOP_OK && n_done == n_given + n_left_out);
    FUZZ_CHECK(w.len <= SPOP_PREFIX_BYTES + frame_bytes_max);
    struct spop_bytes frame = {.ptr = out_buf, .len = w.len};
    FUZZ_CHECK(decoded_ack_read(&decoded, frame));
    FUZZ_CHECK(decoded.stream_id == stream_id && decoded.frame_id == frame_id);
    check_given(n_given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > INPUT_BYTES_MAX) {
        return 0;
    }
    uint8_t *copy = fuzz_copy(data, len);
    struct spop_bytes in = {.ptr = copy, .len = len};
    check_varints(in);
    check_values(in);
    check_frame(in);
    check_disconnect(in);
    check_ack(in);
    free(copy);
    return 0;
}
