/**
 * @file tests/support/router_driver.h  One call after the other through a router, waited for.
 */
#ifndef TESTS_SUPPORT_ROUTER_DRIVER_H
#define TESTS_SUPPORT_ROUTER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "agent/redis/router.h"

struct router_driver {
    struct ev_loop *loop;
    struct redis *redis;
    struct router *router;
    struct seam *seam;
    unsigned script; /* which is called: 0 after the start */
    struct seam_call call;
    struct seam_bytes key;
    char key_text[64];
    struct instant began;
    bool is_done; /* the call is the caller's again */
    int64_t integer;
    unsigned n_of[SEAM_ERROR + 1]; /* calls by outcome */
    enum seam_outcome outcome;     /* of the last one, when it was done */
    int64_t slowest_us;            /* from run to done */
};

/** One that counts its calls by key. */
const struct link_script *router_driver_script(void);

/** Options for that script, and one endpoint, which may be filled later. */
void router_driver_options(struct redis_options *options,
                           const struct endpoint *endpoint);

bool router_driver_start(struct router_driver *driver,
                         const struct redis_options *options);
void router_driver_stop(struct router_driver *driver);

/** Run the script with this key and wait for all of its end. @return how it was done */
enum seam_outcome router_driver_call(struct router_driver *driver, const char *key,
                                     int64_t deadline_us);

/** Call until one is answered. @return how long that took, or -1 after so long */
int64_t router_driver_recover(struct router_driver *driver, const char *key,
                              int64_t patience_us);

#endif
