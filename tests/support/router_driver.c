#include "tests/support/router_driver.h"

#include <stdio.h>
#include <string.h>

const struct link_script *router_driver_script(void)
{
    static const char text[] = "local n = redis.call('incr', KEYS[1]) "
                               "redis.call('pexpire', KEYS[1], 60000) return n";
    static struct link_script script = {.text = text, .text_bytes = sizeof(text) - 1};
    link_script_name(&script);
    return &script;
}

void router_driver_options(struct redis_options *options,
                           const struct endpoint *endpoint)
{
    *options = (struct redis_options){.n_endpoints = 1,
                                      .endpoints = endpoint,
                                      .scripts = router_driver_script(),
                                      .n_scripts = 1};
}

bool router_driver_start(struct router_driver *driver,
                         const struct redis_options *options)
{
    memset(driver, 0, sizeof(*driver));
    driver->loop = ev_loop_new(EVFLAG_NOENV);
    driver->redis = redis_new(options);
    if (driver->loop == NULL || driver->redis == NULL) {
        return false;
    }
    driver->router = router_new(driver->redis, driver->loop, 1);
    driver->seam = driver->router != NULL ? router_seam(driver->router) : NULL;
    return driver->router != NULL;
}

void router_driver_stop(struct router_driver *driver)
{
    router_free(driver->router);
    redis_free(driver->redis);
    ev_loop_destroy(driver->loop);
}

static void on_late(struct seam_call *call, const struct seam_reply *reply)
{
    struct router_driver *driver = CONTAINER_OF(call, struct router_driver, call);
    (void)reply;
    driver->is_done = true;
}

static void on_done(struct seam_call *call, const struct seam_reply *reply)
{
    struct router_driver *driver = CONTAINER_OF(call, struct router_driver, call);
    driver->outcome = call->outcome;
    driver->n_of[call->outcome]++;
    driver->is_done = call->outcome != SEAM_TIMEOUT;
    int64_t us = instant_diff_us(clock_now(), driver->began);
    driver->slowest_us = us > driver->slowest_us ? us : driver->slowest_us;
    if (reply != NULL) {
        driver->integer = reply->values[0].integer;
    }
}

enum seam_outcome router_driver_call(struct router_driver *driver, const char *key,
                                     int64_t deadline_us)
{
    (void)snprintf(driver->key_text, sizeof(driver->key_text), "%s", key);
    driver->key = (struct seam_bytes){driver->key_text, strlen(driver->key_text)};
    driver->is_done = false;
    driver->began = clock_now();
    driver->call = (struct seam_call){
        .script = driver->script,
        .keys = &driver->key,
        .n_keys = 1,
        .deadline = instant_add_us(clock_now(), deadline_us),
        .done = on_done,
        .late = on_late,
    };
    seam_run(driver->seam, &driver->call);
    while (!driver->is_done) {
        (void)ev_run(driver->loop, EVRUN_ONCE);
    }
    return driver->outcome;
}

int64_t router_driver_recover(struct router_driver *driver, const char *key,
                              int64_t patience_us)
{
    struct instant began = clock_now();
    while (router_driver_call(driver, key, 50 * US_PER_MS) != SEAM_OK) {
        if (instant_diff_us(clock_now(), began) > patience_us) {
            return -1;
        }
        ev_sleep(0.001);
        (void)ev_run(driver->loop, EVRUN_NOWAIT);
    }
    return instant_diff_us(clock_now(), began);
}
