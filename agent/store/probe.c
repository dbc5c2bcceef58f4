#include "agent/store/probe.h"

#include <stdio.h>

#include "agent/store/redis_parts.h"

enum {
    KEYS_TRIED = 4096 /* to find one that the node has */
};

static bool find_key(struct probe *probe, unsigned node)
{
    const struct prober *prober = probe->prober;
    for (unsigned i = 0; i < KEYS_TRIED; i++) {
        int n = snprintf(probe->key_text, sizeof(probe->key_text), "%.100s:probe:{%u}",
                         prober->prefix, i);
        probe->key = (struct seam_bytes){.ptr = probe->key_text, .len = (size_t)n};
        if (seam_node(prober->seam, seam_slot(prober->seam, probe->key)) == node) {
            return true;
        }
    }
    return false;
}

/* What the real script is asked. */
static void take_init(struct store_take *take)
{
    static const struct limit limit = {
        .algorithm = LIMIT_SLIDING_WINDOW,
        .requests = 1000,
        .size = 1000,
        .per_ticks = US_PER_S,
        .tick_us = 1,
    };
    take->is_peek = false;
    take->n_charges = 1;
    take->charges[0] = (struct store_charge){.limit = &limit, .cost = 1};
}

static void probe_end(struct seam_call *call, const struct seam_reply *reply)
{
    struct probe *probe = CONTAINER_OF(call, struct probe, call);
    (void)reply;
    probe->is_under_way = false;
    probe->prober->n_under_way--;
}

static bool is_answer(const struct seam_reply *reply)
{
    UNCLEARED struct store_take take;
    struct script_repairs repairs = {0};
    take_init(&take);
    return redis_read_take(reply, &take, &repairs);
}

static void on_probed(struct seam_call *call, const struct seam_reply *reply)
{
    const struct prober *prober = CONTAINER_OF(call, struct probe, call)->prober;
    if (call->outcome == SEAM_OK && !is_answer(reply)) {
        seam_reject(prober->seam, call);
    }
    health_report_probe(prober->health, call, seam_now(prober->seam));
    if (call->outcome != SEAM_TIMEOUT) {
        probe_end(call, reply);
    }
}

static void probe_send(struct probe *probe, unsigned node, struct instant now)
{
    UNCLEARED struct store_take take;
    struct prober *prober = probe->prober;
    if (!find_key(probe, node)) {
        return;
    }
    take_init(&take);
    take.now = now;
    probe->arg = (struct seam_bytes){
        .ptr = probe->arg_buf,
        .len = script_encode_take(&take, probe->arg_buf),
    };
    probe->call = (struct seam_call){
        .script = REDIS_SCRIPT_TAKE,
        .keys = &probe->key,
        .n_keys = 1,
        .args = &probe->arg,
        .n_args = 1,
        .deadline = instant_add_us(now, PROBE_TIMEOUT_US),
        .done = on_probed,
        .late = probe_end,
    };
    probe->is_under_way = true;
    prober->n_under_way++;
    seam_run(prober->seam, &probe->call);
}

static void watch_set(struct prober *prober, struct instant now)
{
    prober->watch.at = instant_add_us(now, PROBE_WATCH_US);
    seam_timer_set(prober->seam, &prober->watch);
}

static void on_watch(struct seam_timer *timer)
{
    struct prober *prober = CONTAINER_OF(timer, struct prober, watch);
    struct instant now = seam_now(prober->seam);
    unsigned n_nodes = health_n_nodes(prober->health);
    for (unsigned i = 0; i < n_nodes; i++) {
        struct probe *probe = &prober->probes[i];
        if (!probe->is_under_way
            && health_wants_probe(prober->health, i, now,
                                  (uint32_t)seam_random(prober->seam))) {
            probe_send(probe, i, now);
        }
    }
    watch_set(prober, now);
}

void prober_start(struct prober *prober, struct seam *seam, struct health *health,
                  const char *prefix)
{
    prober->seam = seam;
    prober->health = health;
    prober->prefix = prefix;
    prober->watch.fire = on_watch;
    for (unsigned i = 0; i < SEAM_NODES_MAX; i++) {
        prober->probes[i].prober = prober;
    }
    watch_set(prober, seam_now(seam));
}
