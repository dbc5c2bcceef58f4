#include "agent/control/version.h"

#include <stdint.h>

#include <sodium.h>

void version_of(const char *text, size_t len, char version[VERSION_BYTES])
{
    uint8_t digest[crypto_generichash_BYTES];
    /* Fails only for lengths out of its range. */
    (void)crypto_generichash(digest, sizeof(digest), (const uint8_t *)text, len, NULL,
                             0);
    (void)sodium_bin2hex(version, VERSION_BYTES, digest, (VERSION_BYTES - 1) / 2);
}
