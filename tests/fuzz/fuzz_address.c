/*
 * An address to listen on, as in agent.yaml or behind --listen.
 *
 * Laws:      what is accepted has a family, a length and a port or path that fit it, and a
 *            text that is accepted again; what is refused has a reason.
 * Must reach: each form of address.h, each refusal of it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "agent/net/address.h"

#include "tests/fuzz/fuzz.h"

enum {
    INPUT_BYTES_MAX = 256
};

static void check_sockaddr(const struct address *address)
{
    const void *sockaddr = &address->sockaddr;
    const struct sockaddr_in *in = sockaddr;
    const struct sockaddr_in6 *in6 = sockaddr;
    const struct sockaddr_un *un = sockaddr;
    switch (address->sockaddr.ss_family) {
    case AF_INET:
        FUZZ_CHECK(address->sockaddr_len == sizeof(*in) && in->sin_port != 0);
        break;
    case AF_INET6:
        FUZZ_CHECK(address->sockaddr_len == sizeof(*in6) && in6->sin6_port != 0);
        break;
    case AF_UNIX:
        FUZZ_CHECK(address->sockaddr_len == sizeof(*un) && un->sun_path[0] == '/');
        FUZZ_CHECK(memchr(un->sun_path, '\0', sizeof(un->sun_path)) != NULL);
        break;
    default:
        FUZZ_CHECK(address->sockaddr.ss_family == AF_UNSPEC);
        FUZZ_CHECK(address->inherited_fd >= 0);
        return;
    }
    FUZZ_CHECK(address->inherited_fd == -1);
}

static void check_again(const struct address *address)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct address again;
    FUZZ_CHECK(address_parse(&again, address->text, error));
    FUZZ_CHECK(again.sockaddr.ss_family == address->sockaddr.ss_family);
    FUZZ_CHECK(again.sockaddr_len == address->sockaddr_len);
    FUZZ_CHECK(again.inherited_fd == address->inherited_fd);
    FUZZ_CHECK(address_is_remote(&again) == address_is_remote(address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char error[ADDRESS_ERROR_BYTES_MAX] = "";
    struct address address;
    if (len > INPUT_BYTES_MAX) {
        return 0;
    }
    char *text = malloc(len + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, len);
    text[len] = '\0';
    if (address_parse(&address, text, error)) {
        FUZZ_CHECK(strcmp(address.text, text) == 0);
        check_sockaddr(&address);
        check_again(&address);
    } else {
        FUZZ_CHECK(memchr(error, '\0', sizeof(error)) != NULL && error[0] != '\0');
    }
    free(text);
    return 0;
}
