/*
 * Private to spop/: the assertion for our own mistakes, on in every build. It never
 * looks at what a peer sent: that has a stated answer instead.
 */
#ifndef SPOP_ENSURE_H
#define SPOP_ENSURE_H

/* A release that defines NDEBUG keeps these checks: each is a few instructions. */
#undef NDEBUG
#include <assert.h>

#define SPOP_ENSURE(condition) assert(condition)

#endif
