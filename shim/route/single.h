/* SPDX-License-Identifier: MIT
 *
 * single.h: the calls of a library that holds a single allocator, the default preset of
 * ALLOTROPE_SINGLE: no table, no choice. It shows what routing costs, and serves where the choice
 * is made at build time.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_SINGLE_H
#define ALLOTROPE_SHIM_ROUTE_SINGLE_H

#include "alloc/presets/historic.h"

#define SINGLE_JOIN_EXPANDED(name, suffix) name##suffix
#define SINGLE_JOIN(name, suffix) SINGLE_JOIN_EXPANDED(name, suffix)
#define SINGLE_ALLOCATOR SINGLE_JOIN(ALLOTROPE_SINGLE, _default)

#define call_alloc SINGLE_JOIN(ALLOTROPE_SINGLE, _default_alloc)
#define call_free SINGLE_JOIN(ALLOTROPE_SINGLE, _default_free)
#define call_alloc_zeroed SINGLE_ALLOCATOR.alloc_zeroed
#define call_alloc_aligned SINGLE_ALLOCATOR.alloc_aligned
#define call_resize SINGLE_ALLOCATOR.resize
#define call_usable_size SINGLE_ALLOCATOR.usable_size
#define call_owns SINGLE_ALLOCATOR.owns

/* Operators are not told apart. Where another malloc comes before ours they are built on that, as
 * libstdc++'s are. */
#define call_operator(name) single_##name
#define IS_FIRST (malloc == interposed_malloc)

static inline void *single_create(size_t size)
{
    return IS_FIRST ? call_alloc(size) : public_alloc(size);
}

static inline void *single_create_array(size_t size)
{
    return single_create(size);
}

static inline void *single_create_aligned(size_t alignment, size_t size)
{
    return IS_FIRST ? call_alloc_aligned(alignment, size) : public_aligned(alignment, size);
}

static inline void *single_create_array_aligned(size_t alignment, size_t size)
{
    return single_create_aligned(alignment, size);
}

static inline void single_destroy(void *block)
{
    if (IS_FIRST)
        call_free(block);
    else
        free(block);
}

static inline void single_destroy_array(void *block)
{
    single_destroy(block);
}

static inline void single_destroy_sized(void *block, size_t size __attribute__((unused)))
{
    single_destroy(block);
}

static inline void single_destroy_array_sized(void *block, size_t size __attribute__((unused)))
{
    single_destroy(block);
}

static inline void single_destroy_aligned(void *block, size_t size __attribute__((unused)),
                                          size_t alignment __attribute__((unused)))
{
    single_destroy(block);
}

static inline void single_destroy_array_aligned(void *block, size_t size __attribute__((unused)),
                                                size_t alignment __attribute__((unused)))
{
    single_destroy(block);
}

static inline void single_free_sized(void *block, size_t size __attribute__((unused)))
{
    single_destroy(block);
}

#endif
