/**
 * @file agent/control/version.h  The version of a text: a digest, short enough to compare.
 */
#ifndef AGENT_CONTROL_VERSION_H
#define AGENT_CONTROL_VERSION_H

#include <stddef.h>

enum {
    VERSION_BYTES = 17 /* 16 of hex, and a NUL */
};

/** @param version  set, with a NUL */
void version_of(const char *text, size_t len, char version[VERSION_BYTES]);

#endif
