#include "tests/stores/bed_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/store/health.h"
#include "agent/store/local.h"
#include "agent/store/redis.h"

enum {
    STEPS = 10000
};

/* Of whatever this answers, a test sees that nobody was asked. */
static const struct store_home home = {.n_shards = 1, .policy = STORE_POLICY_OPEN};

static struct {
    struct store *local;
    struct health *health;
} host;

void bed_redis_start(struct bed *bed, struct seam *seam, struct instant now)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {2};
    host.local = local_new((size_t)16 << 20, (size_t)8 << 20, secret);
    host.health = health_new(0, 1, now); /* slow is nobody: tests may be */
    bed->counters = counters_new(BED_COUNTED);
    assert_true(host.local != NULL && host.health != NULL && bed->counters != NULL);
    struct redis_store_options options = {
        .local = host.local,
        .seam = seam,
        .health = host.health,
        .prefix = "rl",
        .secret = secret,
    };
    bed->target.store = redis_store_new(&options);
    assert_non_null(bed->target.store);
    bed->target.home = &home;
    bed->target.n_steps = STEPS;
}

void bed_redis_stop(struct bed *bed)
{
    assert_int_equal(redis_store_n_under_way(bed->target.store), 0);
    store_free(bed->target.store);
    store_free(host.local);
    health_free(host.health);
    counters_free(bed->counters);
}
