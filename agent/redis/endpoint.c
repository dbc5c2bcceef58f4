#include "agent/redis/endpoint.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

bool endpoint_make(struct endpoint *endpoint, const char *host, size_t host_bytes,
                   unsigned port)
{
    if (host_bytes == 0 || host_bytes >= sizeof(endpoint->host) || port > UINT16_MAX
        || memchr(host, '\0', host_bytes) != NULL) {
        return false;
    }
    *endpoint = (struct endpoint){.port = (uint16_t)port};
    memcpy(endpoint->host, host, host_bytes);
    return true;
}

static bool make_unix(struct endpoint *endpoint, const char *path)
{
    size_t len = strlen(path);
    return path[0] == '/' && len < sizeof(((struct sockaddr_un *)0)->sun_path)
           && endpoint_make(endpoint, path, len, 0);
}

bool endpoint_parse(struct endpoint *endpoint, const char *text)
{
    static const char unix_prefix[] = "unix@";
    size_t prefix_bytes = sizeof(unix_prefix) - 1;
    if (strncmp(text, unix_prefix, prefix_bytes) == 0) {
        return make_unix(endpoint, text + prefix_bytes);
    }
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return false;
    }
    unsigned port = 0;
    const char *digit = colon + 1;
    for (; *digit >= '0' && *digit <= '9' && port <= UINT16_MAX; digit++) {
        port = port * 10 + (unsigned)(*digit - '0');
    }
    if (*digit != '\0' || port == 0 || port > UINT16_MAX) {
        return false;
    }
    size_t host_bytes = (size_t)(colon - text);
    bool is_bracketed = text[0] == '[';
    if (is_bracketed) {
        struct in6_addr v6;
        return host_bytes > 2 && text[host_bytes - 1] == ']'
               && endpoint_make(endpoint, text + 1, host_bytes - 2, port)
               && inet_pton(AF_INET6, endpoint->host, &v6) == 1;
    }
    return memchr(text, ':', host_bytes) == NULL && text[0] != '/'
           && endpoint_make(endpoint, text, host_bytes, port);
}

bool endpoint_equals(const struct endpoint *a, const struct endpoint *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

void endpoint_print(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES_MAX])
{
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    if (endpoint->port == 0) {
        (void)snprintf(text, ENDPOINT_TEXT_BYTES_MAX, "unix@%s", endpoint->host);
    } else {
        (void)snprintf(text, ENDPOINT_TEXT_BYTES_MAX, is_v6 ? "[%s]:%u" : "%s:%u",
                       endpoint->host, (unsigned)endpoint->port);
    }
}

bool endpoint_numeric(const struct endpoint *endpoint, struct endpoint_address *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(endpoint->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(endpoint->port)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    *address = (struct endpoint_address){0};
    const void *sockaddr = NULL;
    if (endpoint->port == 0) {
        size_t len = strlen(endpoint->host);
        if (endpoint->host[0] != '/' || len >= sizeof(path.sun_path)) {
            return false;
        }
        memcpy(path.sun_path, endpoint->host, len);
        sockaddr = &path;
        address->sockaddr_len = sizeof(path);
    } else if (inet_pton(AF_INET, endpoint->host, &v4.sin_addr) == 1) {
        sockaddr = &v4;
        address->sockaddr_len = sizeof(v4);
    } else if (inet_pton(AF_INET6, endpoint->host, &v6.sin6_addr) == 1) {
        sockaddr = &v6;
        address->sockaddr_len = sizeof(v6);
    } else {
        return false;
    }
    memcpy(&address->sockaddr, sockaddr, address->sockaddr_len);
    return true;
}

unsigned endpoint_resolve(const struct endpoint *endpoint,
                          struct endpoint_address addresses[ENDPOINT_ADDRESSES_MAX],
                          const char **error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];
    unsigned n = 0;
    if (endpoint_numeric(endpoint, &addresses[0])) {
        return 1;
    }
    (void)snprintf(port, sizeof(port), "%u", (unsigned)endpoint->port);
    int rc = getaddrinfo(endpoint->host, port, &hints, &found);
    if (rc != 0) {
        *error = gai_strerror(rc);
        return 0;
    }
    for (const struct addrinfo *a = found; a != NULL && n < ENDPOINT_ADDRESSES_MAX;
         a = a->ai_next) {
        if (a->ai_addrlen > sizeof(addresses[n].sockaddr)) {
            continue;
        }
        addresses[n] = (struct endpoint_address){.sockaddr_len = a->ai_addrlen};
        memcpy(&addresses[n].sockaddr, a->ai_addr, a->ai_addrlen);
        n++;
    }
    freeaddrinfo(found);
    *error = "the name has no address";
    return n;
}

/* The bytes of an IP address, 4 or 16 of them; 0 for others. */
static size_t ip_bytes(const struct endpoint_address *address, const uint8_t **bytes)
{
    const struct sockaddr *sockaddr = (const struct sockaddr *)&address->sockaddr;
    if (sockaddr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)sockaddr;
        *bytes = (const uint8_t *)&v4->sin_addr;
        return 4;
    }
    if (sockaddr->sa_family != AF_INET6) {
        return 0;
    }
    const struct sockaddr_in6 *v6 = (const void *)sockaddr;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) != 0;
    *bytes = v6->sin6_addr.s6_addr + (is_mapped ? 12 : 0);
    return is_mapped ? 4 : 16;
}

bool endpoint_is_in(const struct endpoint_address *address,
                    const struct endpoint_network *network)
{
    const uint8_t *bytes = NULL;
    size_t whole = network->bits / 8;
    unsigned rest = network->bits % 8;
    if (ip_bytes(address, &bytes) != network->n_bytes || network->n_bytes == 0
        || memcmp(bytes, network->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || (bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

bool endpoint_is_same_host(const struct endpoint_address *a,
                           const struct endpoint_address *b)
{
    const uint8_t *bytes_a = NULL;
    const uint8_t *bytes_b = NULL;
    size_t n = ip_bytes(a, &bytes_a);
    return n > 0 && ip_bytes(b, &bytes_b) == n && memcmp(bytes_a, bytes_b, n) == 0;
}
