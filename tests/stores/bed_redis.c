#include "tests/stores/bed_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/redis/script.h"
#include "agent/store/health.h"
#include "agent/store/local.h"
#include "agent/store/redis.h"

enum {
    STEPS = 10000
};

#define SYNC_US (100 * US_PER_MS)

/* Of whatever this answers, a test sees that nobody was asked. */
static const struct store_home home = {.n_shards = 1, .policy = STORE_POLICY_OPEN};

static struct {
    struct store *local;
    struct health *health;
    struct leases *leases;
    struct syncs *syncs;
} host;

/* As they are where agent.yaml does not say. */
static void start_ahead(void)
{
    static const struct leases_options options = {
        .share = FALLBACK_SHARE_WHOLE / 20,
        .horizon_us = US_PER_S,
        .ttl_us = 2 * US_PER_S,
    };
    host.leases = leases_new(&options);
    host.syncs = syncs_new(SYNC_US);
    assert_true(host.leases != NULL && host.syncs != NULL);
}

void bed_redis_start(struct bed *bed, struct seam *seam, struct instant now)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {2};
    static const uint8_t name[SCRIPT_HOST_BYTES] = {3};
    host.local = local_new((size_t)16 << 20, (size_t)8 << 20, secret);
    host.health = health_new(0, 1, now); /* slow is nobody: tests may be */
    bed->counters = counters_new(BED_COUNTED);
    start_ahead();
    assert_true(host.local != NULL && host.health != NULL && bed->counters != NULL);
    struct redis_store_options options = {
        .local = host.local,
        .seam = seam,
        .health = host.health,
        .prefix = "rl",
        .secret = secret,
        .leases = host.leases,
        .syncs = host.syncs,
        .host = name,
    };
    bed->target.store = redis_store_new(&options);
    assert_non_null(bed->target.store);
    bed->target.home = &home;
    bed->target.n_steps = STEPS;
}

uint64_t bed_redis_n_failed(void)
{
    static const enum health_count counts[] = {
        HEALTH_TIMEOUTS,    HEALTH_UNSENT,       HEALTH_LOST,           HEALTH_ERRORS,
        HEALTH_POLICY_OPEN, HEALTH_SETTLES_LOST, HEALTH_GIVE_BACKS_LOST};
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        n += health_get(host.health, counts[i]);
    }
    return n;
}

void bed_redis_revive(struct instant now)
{
    for (unsigned i = 0; i < SEAM_NODES_MAX; i++) {
        breaker_init(&host.health->breakers[i], 0, now);
    }
}

void bed_redis_stop(struct bed *bed)
{
    assert_int_equal(redis_store_n_under_way(bed->target.store), 0);
    store_free(bed->target.store);
    store_free(host.local);
    health_free(host.health);
    leases_free(host.leases);
    syncs_free(host.syncs);
    counters_free(bed->counters);
}
