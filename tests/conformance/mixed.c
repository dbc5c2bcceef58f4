#include "tests/conformance/mixed.h"

#include <stdio.h>

#include "tests/conformance/fixture.h"

enum {
    BATCH = 100
};

static void put_value(struct prng *prng)
{
    uint8_t bytes[32];
    switch (prng_below(prng, 8)) {
    case 0:
        wire_null(&wire);
        break;
    case 1:
        wire_bool(&wire, prng_below(prng, 2) == 1);
        break;
    case 2:
        wire_address(&wire, "192.0.2.7");
        break;
    case 3:
        wire_address(&wire, "2001:db8::7");
        break;
    case 4:
    case 5:
        wire_int(&wire, (enum wire_data)(WIRE_INT32 + prng_below(prng, 4)),
                 prng_next(prng) >> prng_below(prng, 64));
        break;
    default:
        prng_fill(prng, bytes, sizeof(bytes));
        wire_data(&wire, prng_below(prng, 2) == 0 ? WIRE_STRING : WIRE_BINARY, bytes,
                  prng_below(prng, sizeof(bytes) + 1));
        break;
    }
}

static void put_message(struct prng *prng)
{
    static const char *const names[] = {"ratelimit-check", "ratelimit-check", "other",
                                        ""};
    static const char *const args[] = {"key",    "ip",  "route", "flag",
                                       "domain", "pad", ""};
    static const char *const routes[] = {"key", "address", "small"};
    unsigned n_args = (unsigned)prng_below(prng, 5);
    wire_name(&wire, names[prng_below(prng, 4)]);
    wire_u8(&wire, n_args + 1);
    wire_arg_text(&wire, "route", routes[prng_below(prng, 3)]);
    for (unsigned i = 0; i < n_args; i++) {
        wire_name(&wire, args[prng_below(prng, 7)]);
        put_value(prng);
    }
}

void mixed_put(struct prng *prng, uint64_t stream_id)
{
    uint64_t n_messages = prng_below(prng, 4);
    wire_begin(&wire, WIRE_NOTIFY, WIRE_FIN, stream_id, prng_below(prng, 3));
    for (uint64_t i = 0; i < n_messages; i++) {
        put_message(prng);
    }
    wire_end(&wire);
}

void mixed_ask(struct spop_client *c, struct prng *prng, uint64_t n)
{
    for (uint64_t done = 0; done < n; done += BATCH) {
        struct prng again = *prng; /* the same numbers, to know the ids */
        wire_clear();
        for (uint64_t i = 0; i < BATCH; i++) {
            mixed_put(prng, done + i);
        }
        peer_send(c);
        wire_clear();
        for (uint64_t i = 0; i < BATCH; i++) {
            size_t start = wire.len;
            struct wire_frame asked;
            mixed_put(&again, done + i);
            (void)wire_read_frame(wire.bytes + start, wire.len - start, &asked);
            expect_ack(c, asked.stream_id, asked.frame_id);
        }
    }
    expect_nothing(c);
}
