/*
 * The decoders of spop/ give what the slow one of tests/support/spop_ref.h gives: the same
 * items and the same error, on drawn and on spoilt bytes and on every short string; they
 * never read past the end, and after an error they stand still.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/kv.h"
#include "spop/notify.h"

#include "tests/support/guard_page.h"
#include "tests/support/prng.h"
#include "tests/support/spop_ref.h"

enum {
    N_PAYLOADS = 300000,
    N_FRAMES = 300000,
    PAYLOAD_CAP = 1024,
    TEXT_CAP = 60,
    STRING_BYTES_MAX = 2, /* of the strings tried without exception */
};

static uint64_t seed;
static struct guard_page guard;
static struct spop_ref_list want;

static void bytes_fail(const char *why, struct spop_bytes bytes)
{
    print_error("SEED=%llu:", (unsigned long long)seed);
    for (size_t i = 0; i < bytes.len; i++) {
        print_error(" %02x", bytes.ptr[i]);
    }
    print_error("\n");
    fail_msg("%s", why);
}

static bool is_same(struct spop_bytes a, struct spop_bytes b)
{
    return a.len == b.len && (a.len == 0 || a.ptr == b.ptr);
}

static bool value_is_same(const struct spop_value *a, const struct spop_value *b)
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
        return is_same(a->bytes, b->bytes);
    }
    return false;
}

static bool arg_is_same(const struct spop_arg *arg, const struct spop_ref_item *item)
{
    return is_same(arg->name, item->name) && value_is_same(&arg->value, &item->value);
}

/* A walk that has ended ends the same way again, and changes nothing. */
static bool stands_still(struct spop_notify *it, enum spop_status status)
{
    static const uint8_t mark;
    const struct spop_bytes marked = {.ptr = &mark};
    struct spop_notify before = *it;
    struct spop_message message = {.name = marked};
    struct spop_arg arg = {.name = marked};
    return spop_notify_next_message(it, &message) == status
           && spop_notify_next_arg(it, &arg) == status && message.name.ptr == &mark
           && arg.name.ptr == &mark && it->reader.ptr == before.reader.ptr
           && it->reader.len == before.reader.len
           && it->n_args_left == before.n_args_left;
}

/* The next item of `want`, or NULL when there is none of that kind. */
static const struct spop_ref_item *item_next(unsigned *n, bool is_message)
{
    const struct spop_ref_item *item = &want.items[*n];
    bool is_there = *n < want.n_items && item->is_message == is_message;
    *n += is_there;
    return is_there ? item : NULL;
}

/* Walk the arguments of a message; how it ended, or SPOP_MORE when it differs. */
static enum spop_status args_walk(struct spop_notify *it, unsigned *n)
{
    struct spop_arg arg;
    enum spop_status status = SPOP_OK;
    while ((status = spop_notify_next_arg(it, &arg)) == SPOP_OK) {
        const struct spop_ref_item *item = item_next(n, false);
        if (item == NULL || !arg_is_same(&arg, item)) {
            return SPOP_MORE;
        }
    }
    return status;
}

/* Walk everything; how it ended, or SPOP_MORE when it differs from `want`. */
static enum spop_status messages_walk(struct spop_notify *it)
{
    unsigned n = 0;
    struct spop_message message;
    enum spop_status status = SPOP_END;
    while (status == SPOP_END
           && (status = spop_notify_next_message(it, &message)) == SPOP_OK) {
        const struct spop_ref_item *item = item_next(&n, true);
        if (item == NULL || !is_same(message.name, item->name)
            || message.n_args != item->n_args) {
            return SPOP_MORE;
        }
        status = args_walk(it, &n);
    }
    return n == want.n_items ? status : SPOP_MORE;
}

/* Walk the messages only, passing over all arguments. */
static enum spop_status messages_skip(struct spop_bytes payload)
{
    struct spop_notify it;
    struct spop_message message;
    enum spop_status status = SPOP_OK;
    spop_notify_init(&it, payload);
    while ((status = spop_notify_next_message(&it, &message)) == SPOP_OK) {
    }
    return status;
}

static void messages_check(struct spop_bytes payload)
{
    struct spop_notify it;
    spop_ref_messages(payload, &want);
    if (want.status == SPOP_MORE) {
        return; /* more items than the reference keeps */
    }
    spop_notify_init(&it, payload);
    if (messages_walk(&it) != want.status) {
        bytes_fail("other messages", payload);
    }
    if (!stands_still(&it, want.status)) {
        bytes_fail("moved after the end", payload);
    }
    if (messages_skip(payload) != want.status) {
        bytes_fail("other end without arguments", payload);
    }
}

static void pairs_check(struct spop_bytes payload)
{
    struct spop_reader r;
    struct spop_kv kv;
    enum spop_status status = SPOP_OK;
    unsigned n = 0;
    spop_ref_pairs(payload, &want);
    spop_reader_init(&r, payload);
    while ((status = spop_kv_next(&r, &kv)) == SPOP_OK && n < want.n_items) {
        const struct spop_ref_item *item = &want.items[n++];
        if (!is_same(kv.key, item->name) || !value_is_same(&kv.value, &item->value)) {
            bytes_fail("another pair", payload);
        }
    }
    if (want.status != SPOP_MORE && (status != want.status || n != want.n_items)) {
        bytes_fail("another end of pairs", payload);
    }
}

static void frame_check(struct spop_bytes in, size_t frame_bytes_max)
{
    struct spop_frame frame;
    struct spop_frame ref;
    enum spop_status status = spop_frame_decode(in, frame_bytes_max, &frame);
    if (status != spop_ref_frame(in, frame_bytes_max, &ref) || frame.type != ref.type
        || frame.flags != ref.flags || frame.stream_id != ref.stream_id
        || frame.frame_id != ref.frame_id || frame.wire_bytes != ref.wire_bytes
        || !is_same(frame.payload, ref.payload)) {
        bytes_fail("another frame", in);
    }
}

static void payload_check(struct spop_bytes payload)
{
    const uint8_t *place = guard_page_place(&guard, payload.ptr, payload.len);
    struct spop_bytes placed = {.ptr = place, .len = payload.len};
    messages_check(placed);
    pairs_check(placed);
}

static void string_draw(struct prng *p, struct spop_writer *w)
{
    uint8_t text[TEXT_CAP];
    struct spop_bytes bytes = {.ptr = text, .len = prng_below(p, TEXT_CAP) >> 2};
    prng_fill(p, text, bytes.len);
    spop_write_string(w, bytes);
}

static void value_draw(struct prng *p, struct spop_writer *w)
{
    uint8_t text[TEXT_CAP];
    struct spop_value value = {.type = (enum spop_value_type)prng_below(p, 10)};
    prng_fill(p, text, sizeof(text));
    if (value.type == SPOP_VALUE_BOOL) {
        value.boolean = prng_below(p, 2) == 1;
    } else if (value.type >= SPOP_VALUE_STRING) {
        value.bytes = (struct spop_bytes){.ptr = text, .len = prng_below(p, TEXT_CAP)};
    } else if (value.type >= SPOP_VALUE_IPV4) {
        size_t len = value.type == SPOP_VALUE_IPV4 ? 4 : 16;
        value.bytes = (struct spop_bytes){.ptr = text, .len = len};
    } else if (value.type >= SPOP_VALUE_INT32) {
        value.integer = prng_next(p) >> prng_below(p, 64);
    }
    spop_value_encode(w, &value);
}

static void messages_draw(struct prng *p, struct spop_writer *w)
{
    for (uint64_t left = prng_below(p, 3); left > 0; left--) {
        uint8_t n_args = (uint8_t)prng_below(p, 5);
        string_draw(p, w);
        spop_write_u8(w, n_args);
        for (; n_args > 0; n_args--) {
            string_draw(p, w);
            value_draw(p, w);
        }
    }
}

/* Bytes that are often at an edge of the layout. */
static uint8_t byte_draw(struct prng *p)
{
    static const uint8_t edges[] = {0, 1, 2, 8, 9, 10, 0x0f, 0x11, 127, 128, 239, 240};
    if (prng_below(p, 2) == 0) {
        return edges[prng_below(p, sizeof(edges))];
    }
    return (uint8_t)(UINT8_MAX >> prng_below(p, 8));
}

/* Some bytes changed, or cut off. */
static size_t spoil(struct prng *p, uint8_t *buf, size_t len)
{
    for (uint64_t left = prng_below(p, 4); len > 0 && left > 0; left--) {
        buf[prng_below(p, len)] = byte_draw(p);
    }
    return prng_below(p, 4) == 0 ? prng_below(p, len + 1) : len;
}

static void payloads_decode_as_the_reference_says(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_PAYLOADS; n++) {
        uint8_t buf[PAYLOAD_CAP];
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        messages_draw(&p, &w);
        for (uint64_t left = prng_below(&p, 30); n % 4 == 0 && left > 0; left--) {
            spop_write_u8(&w, byte_draw(&p));
        }
        assert_int_equal(w.status, SPOP_OK);
        payload_check((struct spop_bytes){.ptr = buf, .len = spoil(&p, buf, w.len)});
    }
}

static void frames_decode_as_the_reference_says(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_FRAMES; n++) {
        uint8_t buf[TEXT_CAP];
        size_t length = prng_below(&p, TEXT_CAP - SPOP_PREFIX_BYTES);
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_write_be32(&w, (uint32_t)length);
        while (w.len < SPOP_PREFIX_BYTES + length) {
            spop_write_u8(&w, byte_draw(&p));
        }
        size_t len = spoil(&p, buf, w.len);
        const uint8_t *place = guard_page_place(&guard, buf, len);
        frame_check((struct spop_bytes){.ptr = place, .len = len},
                    prng_below(&p, TEXT_CAP));
    }
}

/* Every string of `len` bytes after `head`. */
static void strings_check(const uint8_t *head, size_t head_len, size_t len)
{
    uint8_t buf[PAYLOAD_CAP];
    memcpy(buf, head, head_len);
    for (unsigned number = 0; number < 1U << (8 * len); number++) {
        for (size_t i = 0; i < len; i++) {
            buf[head_len + i] = (uint8_t)(number >> (8 * i));
        }
        payload_check((struct spop_bytes){.ptr = buf, .len = head_len + len});
    }
}

static void every_short_string_decodes_as_the_reference_says(void **state)
{
    (void)state;
    static const uint8_t value[] = {1, 'm', 1, 1, 'a'};
    static const uint8_t text[] = {1, 'm', 1, 0, SPOP_VALUE_STRING};
    static const uint8_t last_varint_bytes[] = {
        1, 'm', 1, 0, SPOP_VALUE_INT64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    for (size_t len = 0; len <= STRING_BYTES_MAX; len++) {
        strings_check(value, 0, len);
        strings_check(value, sizeof(value), len);
        strings_check(text, sizeof(text), len);
        strings_check(last_varint_bytes, sizeof(last_varint_bytes), len);
    }
}

int main(void)
{
    seed = prng_seed(20261130);
    guard_page_init(&guard, PAYLOAD_CAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_decode_as_the_reference_says),
        cmocka_unit_test(frames_decode_as_the_reference_says),
        cmocka_unit_test(every_short_string_decodes_as_the_reference_says),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    guard_page_release(&guard);
    return n_failed;
}
