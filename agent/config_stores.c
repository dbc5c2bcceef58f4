/* The fields `lease` and `sync` of agent.yaml. */
#include "rules/units.h"

#include "agent/config_reader.h"

static struct rules_bytes bytes_of(const char *text, const struct yamltree_node *node)
{
    return (struct rules_bytes){.ptr = (const uint8_t *)text, .len = node->text_len};
}

/* A span from `min` to `max`; what was there stays, reported, for anything else. */
static void read_span(struct config_reader *reader, const struct yamltree_node *node,
                      int64_t min_us, int64_t max_us, const char *want, int64_t *into)
{
    const char *text = config_scalar(reader, node, want);
    int64_t span_us = 0;
    if (text == NULL) {
        return;
    }
    if (rules_span_parse(bytes_of(text, node), &span_us) != RULES_UNITS_OK
        || span_us < min_us || span_us > max_us) {
        config_refuse(reader, node, want);
        return;
    }
    *into = span_us;
}

static void read_share(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "a share of the limit from 0.01% to 50%";
    const char *text = config_scalar(reader, node, want);
    int32_t share = 0;
    if (text == NULL) {
        return;
    }
    if (rules_share_parse(bytes_of(text, node), &share) != RULES_UNITS_OK || share == 0
        || share > CONFIG_LEASE_SHARE_MAX) {
        config_refuse(reader, node, want);
        return;
    }
    reader->config->lease_share = share;
}

static void read_horizon(struct config_reader *reader, const struct yamltree_node *node)
{
    read_span(reader, node, CONFIG_HORIZON_US_MIN, CONFIG_TTL_US_MAX,
              "a span from 10ms to 60s", &reader->config->lease_horizon_us);
}

static void read_ttl(struct config_reader *reader, const struct yamltree_node *node)
{
    read_span(reader, node, CONFIG_TTL_US_MIN, CONFIG_TTL_US_MAX,
              "a span from 500ms to 60s", &reader->config->lease_ttl_us);
}

/* A block that outlives its lease is taken back before it is spent. */
void config_read_lease(struct config_reader *reader, const struct yamltree_node *node)
{
    static const struct config_field fields[] = {
        {"share", read_share, NULL, NULL},
        {"horizon", read_horizon, NULL, NULL},
        {"ttl", read_ttl, NULL, NULL},
    };
    config_fields(reader, node, fields, ARRAY_LEN(fields));
    if (reader->config->lease_horizon_us > reader->config->lease_ttl_us) {
        config_refuse(
            reader, node,
            "a horizon, 1s where it is left out, that is not longer than ttl");
    }
}

static void read_interval(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    read_span(reader, node, CONFIG_INTERVAL_US_MIN, CONFIG_INTERVAL_US_MAX,
              "a span from 10ms to 10s", &reader->config->sync_interval_us);
}

void config_read_sync(struct config_reader *reader, const struct yamltree_node *node)
{
    static const struct config_field fields[] = {
        {"interval", read_interval, NULL, NULL},
    };
    config_fields(reader, node, fields, ARRAY_LEN(fields));
}
