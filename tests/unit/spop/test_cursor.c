#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/cursor.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

static struct spop_reader reader_over(struct wire *wire, const char *hex)
{
    struct spop_reader r;
    spop_reader_init(&r, wire_bytes(wire, hex));
    return r;
}

static void reads_follow_each_other(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_reader r = reader_over(&wire, "7f 01020304 f001 03\"abc\" 6465");
    assert_int_equal(spop_read_u8(&r), 0x7f);
    assert_int_equal(spop_read_be32(&r), 0x01020304);
    assert_int_equal(spop_read_varint(&r), 256);
    expect_bytes("string", spop_read_string(&r), "\"abc\"");
    expect_bytes("bytes", spop_read_bytes(&r, 2), "6465");
    assert_int_equal(r.status, SPOP_OK);
    assert_int_equal(r.len, 0);
}

static void read_u8(struct spop_reader *r)
{
    (void)spop_read_u8(r);
}

static void read_be32(struct spop_reader *r)
{
    (void)spop_read_be32(r);
}

static void read_varint(struct spop_reader *r)
{
    (void)spop_read_varint(r);
}

static void read_five(struct spop_reader *r)
{
    (void)spop_read_bytes(r, 5);
}

static void read_huge(struct spop_reader *r)
{
    (void)spop_read_bytes(r, UINT64_MAX);
}

static void read_string(struct spop_reader *r)
{
    (void)spop_read_string(r);
}

static const struct read_case {
    const char *name;
    void (*read)(struct spop_reader *r);
    const char *hex;
    enum spop_status status;
} read_cases[] = {
    {"u8 of nothing", read_u8, "", SPOP_ERR_SHORT},
    {"be32 of nothing", read_be32, "", SPOP_ERR_SHORT},
    {"be32 of three", read_be32, "000000", SPOP_ERR_SHORT},
    {"varint of nothing", read_varint, "", SPOP_ERR_SHORT},
    {"varint unfinished", read_varint, "f080", SPOP_ERR_SHORT},
    {"varint too long", read_varint, "ffffffffffffffffffff7f", SPOP_ERR_VARINT},
    {"bytes of four", read_five, "00000000", SPOP_ERR_SHORT},
    {"bytes without end", read_huge, "00000000", SPOP_ERR_SHORT},
    {"string of nothing", read_string, "", SPOP_ERR_SHORT},
    {"string cut", read_string, "05\"four\"", SPOP_ERR_SHORT},
    {"string of 2^64-1", read_string, "fff0fefefefefefefe0e 00", SPOP_ERR_SHORT},
    {"string length too long", read_string, "ffffffffffffffffffff7f", SPOP_ERR_VARINT},
};

static void a_failing_read_stays_where_it_began(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(read_cases) / sizeof(read_cases[0]); i++) {
        const struct read_case *c = &read_cases[i];
        struct wire wire;
        struct spop_reader r = reader_over(&wire, c->hex);
        c->read(&r);
        expect_equal(c->name, r.status, c->status);
        expect_equal(c->name, (long long)r.len, (long long)wire.len);
        assert_ptr_equal(r.ptr, wire.buf);
    }
}

static void after_an_error_all_reads_are_empty(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_reader r = reader_over(&wire, "01020304050607");
    spop_reader_fail(&r, SPOP_ERR_TYPE);
    spop_reader_fail(&r, SPOP_ERR_FRAME);
    assert_int_equal(spop_read_u8(&r), 0);
    assert_int_equal(spop_read_be32(&r), 0);
    assert_int_equal(spop_read_varint(&r), 0);
    assert_null(spop_read_bytes(&r, 0).ptr);
    assert_int_equal(spop_read_bytes(&r, 1).len, 0);
    assert_int_equal(spop_read_string(&r).len, 0);
    assert_int_equal(r.status, SPOP_ERR_TYPE);
    assert_int_equal(r.len, 7);
}

static void nothing_can_be_read_from_nothing(void **state)
{
    (void)state;
    struct spop_reader r;
    spop_reader_init(&r, (struct spop_bytes){0});
    assert_int_equal(spop_read_bytes(&r, 0).len, 0);
    assert_int_equal(r.status, SPOP_OK);
}

static void writes_follow_each_other(void **state)
{
    (void)state;
    uint8_t buf[32];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    struct wire text;
    spop_write_u8(&w, 0x7f);
    spop_write_be32(&w, 0x01020304);
    spop_write_varint(&w, 256);
    spop_write_string(&w, wire_bytes(&text, "\"abc\""));
    spop_write_bytes(&w, wire_bytes(&text, "6465"));
    spop_write_bytes(&w, (struct spop_bytes){0});
    spop_writer_patch_be32(&w, 1, 0xa1a2a3a4);
    assert_int_equal(w.status, SPOP_OK);
    expect_bytes("all", written(&w), "7f a1a2a3a4 f001 03\"abc\" 6465");
    assert_int_equal(spop_writer_room(&w), sizeof(buf) - w.len);
}

static void what_does_not_fit_is_not_written(void **state)
{
    (void)state;
    uint8_t buf[8];
    struct wire text;
    struct spop_bytes four = wire_bytes(&text, "\"four\"");
    for (size_t cap = 0; cap < 5; cap++) {
        struct spop_writer w;
        memset(buf, 0xee, sizeof(buf));
        spop_writer_init(&w, buf, cap);
        spop_write_string(&w, four);
        assert_int_equal(w.status, SPOP_ERR_ROOM);
        assert_int_equal(w.len, 0);
        assert_int_equal(buf[cap], 0xee);
        spop_write_u8(&w, 1);
        assert_int_equal(w.len, 0);
        assert_int_equal(spop_writer_room(&w), 0);
    }
}

static void a_fork_leaves_no_trace_until_joined(void **state)
{
    (void)state;
    uint8_t buf[8];
    struct spop_writer w;
    struct spop_writer part;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_write_u8(&w, 1);
    spop_writer_fork(&w, 2, &part);
    spop_write_be32(&part, 5);
    assert_int_equal(part.status, SPOP_ERR_ROOM);
    expect_bytes("before", written(&w), "01");
    spop_writer_fork(&w, 100, &part);
    assert_int_equal(part.cap, 7);
    spop_write_u8(&part, 2);
    spop_writer_join(&w, &part);
    expect_bytes("after", written(&w), "0102");
}

static void a_fork_of_a_failed_writer_has_no_room(void **state)
{
    (void)state;
    struct spop_writer w;
    struct spop_writer part;
    spop_writer_init(&w, NULL, 0);
    spop_write_u8(&w, 1);
    spop_writer_fork(&w, 100, &part);
    assert_int_equal(part.cap, 0);
    spop_write_u8(&part, 1);
    assert_int_equal(part.status, SPOP_ERR_ROOM);
}

static void patch_past_the_end(void *arg)
{
    spop_writer_patch_be32(arg, 1, 0);
}

static void join_after_an_error(void *arg)
{
    struct spop_writer part;
    spop_writer_fork(arg, 0, &part);
    spop_write_u8(&part, 1);
    spop_writer_join(arg, &part);
}

static void our_own_mistakes_abort(void **state)
{
    (void)state;
    uint8_t buf[8];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_write_be32(&w, 0);
    assert_true(death_by_abort(patch_past_the_end, &w));
    assert_true(death_by_abort(join_after_an_error, &w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_follow_each_other),
        cmocka_unit_test(a_failing_read_stays_where_it_began),
        cmocka_unit_test(after_an_error_all_reads_are_empty),
        cmocka_unit_test(nothing_can_be_read_from_nothing),
        cmocka_unit_test(writes_follow_each_other),
        cmocka_unit_test(what_does_not_fit_is_not_written),
        cmocka_unit_test(a_fork_leaves_no_trace_until_joined),
        cmocka_unit_test(a_fork_of_a_failed_writer_has_no_room),
        cmocka_unit_test(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
