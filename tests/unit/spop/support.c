#include "tests/unit/spop/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/hex.h"

struct spop_bytes wire_bytes(struct wire *wire, const char *text)
{
    wire->len = hex_decode(text, wire->buf, sizeof(wire->buf));
    return (struct spop_bytes){.ptr = wire->buf, .len = wire->len};
}

void wire_frame(struct spop_writer *w, unsigned type, uint32_t flags,
                const uint64_t ids[2], struct spop_bytes payload)
{
    size_t start_off = w->len;
    spop_write_be32(w, 0);
    spop_write_u8(w, (uint8_t)type);
    spop_write_be32(w, flags);
    spop_write_varint(w, ids[0]);
    spop_write_varint(w, ids[1]);
    spop_write_bytes(w, payload);
    assert_int_equal(w->status, SPOP_OK);
    size_t length = w->len - start_off - SPOP_PREFIX_BYTES;
    spop_writer_patch_be32(w, start_off, (uint32_t)length);
}

static void bytes_print(const char *label, struct spop_bytes bytes)
{
    print_error("%s (%zu):", label, bytes.len);
    for (size_t i = 0; i < bytes.len; i++) {
        print_error(" %02x", bytes.ptr[i]);
    }
    print_error("\n");
}

void expect_bytes(const char *name, struct spop_bytes got, const char *want)
{
    struct wire wire;
    struct spop_bytes bytes = wire_bytes(&wire, want);
    if (got.len == bytes.len
        && (got.len == 0 || memcmp(got.ptr, bytes.ptr, got.len) == 0)) {
        return;
    }
    bytes_print("got ", got);
    bytes_print("want", bytes);
    fail_msg("%s: bytes differ", name);
}

void expect_equal(const char *name, long long got, long long want)
{
    if (got != want) {
        fail_msg("%s: got %lld, want %lld", name, got, want);
    }
}

struct spop_bytes written(const struct spop_writer *w)
{
    return (struct spop_bytes){.ptr = w->buf, .len = w->len};
}
