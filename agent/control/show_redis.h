/**
 * @file agent/control/show_redis.h  What is shown of Redis.
 */
#ifndef AGENT_CONTROL_SHOW_REDIS_H
#define AGENT_CONTROL_SHOW_REDIS_H

#include <stdio.h>

#include "agent/control/stores.h"

/** How many agents there are; then a line for each node: number, state, why it was left last
 * and how often. */
void show_redis_nodes(struct health *health, FILE *out);

/** A line for each counter over HOT_PER_S_MIN charges a second, and what would help. */
void show_redis_hot(struct hot *hot, FILE *out);

/** The metrics of the store. */
void show_redis_metrics(const struct stores *stores, FILE *out);

#endif
