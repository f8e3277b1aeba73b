/* SPDX-License-Identifier: MIT
 *
 * bsd.h: Kingsley's powers of two; see bsd.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_BSD_H
#define ALLOTROPE_ALLOC_POLICIES_BSD_H

#include "alloc/heap.h"
#include "alloc/policies/header_magic.h"

enum {
    BSD_HEADER_BYTES = 8,
    BSD_MIN_CLASS = 4, /* a class is the binary logarithm of its block size */
    BSD_MAX_CLASS = 47,
};

struct bsd_free_block {
    struct bsd_free_block *next; /* lies over the header, as in the original */
};

struct bsd_heap {
    struct page_source *pages;
    struct bsd_free_block *free[BSD_MAX_CLASS + 1];
};

extern const struct heap_policy bsd_policy;

/* The class for a request of `size` bytes: the smallest 2^k that holds it and its header. */
static inline unsigned bsd_class_of(size_t size)
{
    return 64 - (unsigned)__builtin_clzll((size + BSD_HEADER_BYTES - 1) | 15);
}

static inline size_t bsd_usable(unsigned size_class)
{
    return ((size_t)1 << size_class) - BSD_HEADER_BYTES;
}

static inline uint64_t *bsd_header(const void *payload)
{
    return (uint64_t *)(uintptr_t)((const char *)payload - BSD_HEADER_BYTES);
}

#endif
