/**
 * @file tests/support/localhost.h  Whether this host knows its own name for itself: a bare
 *       system may have no /etc/hosts.
 */
#ifndef TESTS_SUPPORT_LOCALHOST_H
#define TESTS_SUPPORT_LOCALHOST_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool localhost_is_known(void)
{
    struct addrinfo *found = NULL;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0) {
        return false;
    }
    freeaddrinfo(found);
    return true;
}

#endif
