/* The field `redis` of agent.yaml. */
#include <string.h>

#include "rules/address.h"

#include "agent/config_reader.h"

static struct config_redis *redis_of(struct config_reader *reader)
{
    return &reader->config->redis;
}

static void read_address(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "HOST:PORT, [v6]:PORT or unix@/path, at most 16 of them";
    struct config_redis *redis = redis_of(reader);
    const char *text = config_scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    if (redis->n_endpoints == REDIS_ENDPOINTS_MAX
        || !endpoint_parse(&redis->endpoints[redis->n_endpoints], text)) {
        config_refuse(reader, node, want);
        return;
    }
    redis->n_endpoints++;
}

static void read_addresses(struct config_reader *reader,
                           const struct yamltree_node *node)
{
    config_each(reader, node, read_address);
}

static void read_cluster(struct config_reader *reader, const struct yamltree_node *node)
{
    if (config_boolean(reader, node)) {
        redis_of(reader)->mode = REDIS_CLUSTER;
    }
}

static void read_user(struct config_reader *reader, const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->user, CONFIG_NAME_BYTES_MAX,
                "the name of a user, up to 128 bytes");
}

static const char want_file[] = "a path, or the name of a credential";

static void read_password_file(struct config_reader *reader,
                               const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->password_file, CONFIG_PATH_BYTES_MAX,
                want_file);
}

/* Nobody is logged in without: of a user that has no password any one will do. */
static void check_user(struct config_reader *reader, const struct yamltree_node *node)
{
    const struct yamltree_node *user = yamltree_child(node, "user");
    if (user != NULL && yamltree_child(node, "password_file") == NULL) {
        config_refuse(reader, user, "a password_file with it");
    }
}

static void read_primary(struct config_reader *reader, const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->primary_name, CONFIG_NAME_BYTES_MAX,
                "what the Sentinels call the primary, up to 128 bytes");
}

static void read_sentinel_user(struct config_reader *reader,
                               const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->sentinel_user, CONFIG_NAME_BYTES_MAX,
                "the name of a user, up to 128 bytes");
}

static void read_sentinel_password_file(struct config_reader *reader,
                                        const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->sentinel_password_file,
                CONFIG_PATH_BYTES_MAX, want_file);
}

/* The name of the primary, or {name, user, password_file}. */
static void read_sentinel(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    static const struct config_field fields[] = {
        {"name", read_primary, NULL, NULL},
        {"user", read_sentinel_user, NULL, NULL},
        {"password_file", read_sentinel_password_file, NULL, NULL},
    };
    struct config_redis *redis = redis_of(reader);
    redis->mode = REDIS_SENTINEL;
    if (node->kind != YAMLTREE_MAPPING) {
        read_primary(reader, node);
        return;
    }
    config_fields(reader, node, fields, ARRAY_LEN(fields));
    if (yamltree_child(node, "name") == NULL) {
        config_refuse(reader, node, "name: what the Sentinels call the primary");
    }
    check_user(reader, node);
}

static void read_ca_file(struct config_reader *reader, const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->ca_file, CONFIG_PATH_BYTES_MAX,
                "a path");
}

static void read_cert_file(struct config_reader *reader,
                           const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->cert_file, CONFIG_PATH_BYTES_MAX,
                "a path");
}

static void read_key_file(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->key_file, CONFIG_PATH_BYTES_MAX,
                "a path");
}

static void read_server_name(struct config_reader *reader,
                             const struct yamltree_node *node)
{
    config_copy(reader, node, redis_of(reader)->server_name, ENDPOINT_HOST_BYTES_MAX,
                "the name in the server's certificate");
}

/* true, or {ca_file, cert_file, key_file, server_name}. */
static void read_tls(struct config_reader *reader, const struct yamltree_node *node)
{
    static const struct config_field fields[] = {
        {"ca_file", read_ca_file, NULL, NULL},
        {"cert_file", read_cert_file, NULL, NULL},
        {"key_file", read_key_file, NULL, NULL},
        {"server_name", read_server_name, NULL, NULL},
    };
    struct config_redis *redis = redis_of(reader);
    if (node->kind != YAMLTREE_MAPPING) {
        redis->has_tls = config_boolean(reader, node);
        return;
    }
    redis->has_tls = true;
    config_fields(reader, node, fields, ARRAY_LEN(fields));
    if ((redis->cert_file[0] == '\0') != (redis->key_file[0] == '\0')) {
        config_refuse(reader, node, "cert_file and key_file together");
    }
}

/* It stands in front of every key, where a colon would end it. */
static void read_prefix(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "1 to 32 of A-Z a-z 0-9 _ . -";
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    struct config_redis *redis = redis_of(reader);
    config_copy(reader, node, redis->prefix, sizeof(redis->prefix), want);
    if (node->kind == YAMLTREE_SCALAR
        && node->text[strspn(node->text, allowed)] != '\0') {
        config_refuse(reader, node, want);
    }
}

static void read_database(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    int64_t number = config_number(reader, node, 0, CONFIG_DATABASE_MAX,
                                   "the number of a database, 0 to 65535");
    redis_of(reader)->database = number > 0 ? (unsigned)number : 0;
}

static void read_network(struct config_reader *reader, const struct yamltree_node *node)
{
    static const char want[] = "a network, 10.0.0.0/8, at most 64 of them";
    struct config_redis *redis = redis_of(reader);
    struct rules_network network;
    const char *text = config_scalar(reader, node, want);
    if (text == NULL) {
        return;
    }
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = node->text_len};
    if (redis->n_networks == REDIS_NETWORKS_MAX
        || rules_network_parse(bytes, &network) != RULES_NETWORK_OK) {
        config_refuse(reader, node, want);
        return;
    }
    struct endpoint_network *to = &redis->networks[redis->n_networks++];
    to->n_bytes = network.address.len;
    to->bits = network.bits;
    memcpy(to->bytes, network.address.bytes, network.address.len);
}

static void read_networks(struct config_reader *reader,
                          const struct yamltree_node *node)
{
    config_each(reader, node, read_network);
}

static void read_slow(struct config_reader *reader, const struct yamltree_node *node)
{
    int64_t ms = config_number(reader, node, 0, CONFIG_DEADLINE_MS_MAX,
                               "0 to 1000, in milliseconds; 0 is off");
    redis_of(reader)->slow_us = ms > 0 ? ms * US_PER_MS : 0;
}

void config_read_redis(struct config_reader *reader, const struct yamltree_node *node)
{
    static const struct config_field fields[] = {
        {"addresses", read_addresses, NULL, NULL},
        {"cluster", read_cluster, NULL, NULL},
        {"sentinel", read_sentinel, NULL, NULL},
        {"user", read_user, NULL, NULL},
        {"password_file", read_password_file, NULL, NULL},
        {"database", read_database, NULL, NULL},
        {"tls", read_tls, NULL, NULL},
        {"prefix", read_prefix, NULL, NULL},
        {"node_networks", read_networks, NULL, NULL},
        {"slow_ms", read_slow, NULL, NULL},
    };
    struct config_redis *redis = redis_of(reader);
    redis->is_given = true;
    config_fields(reader, node, fields, ARRAY_LEN(fields));
    if (node->kind != YAMLTREE_MAPPING) {
        return;
    }
    const struct yamltree_node *addresses = yamltree_child(node, "addresses");
    if (addresses == NULL
        || (addresses->kind == YAMLTREE_SEQUENCE && addresses->first == NULL)) {
        config_refuse(reader, node, "addresses: [HOST:PORT]");
    }
    check_user(reader, node);
    if (yamltree_child(node, "cluster") != NULL
        && yamltree_child(node, "sentinel") != NULL) {
        config_refuse(reader, node, "cluster or sentinel, not both");
    }
    if (redis->mode == REDIS_CLUSTER && redis->database != 0) {
        config_refuse(reader, node, "database 0: a cluster has no other");
    }
}
