/* SPDX-License-Identifier: MIT
 *
 * next.h: the pass-through allocator: it hands each call to the malloc that would have served the
 * program without us.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_NEXT_H
#define ALLOTROPE_SHIM_ROUTE_NEXT_H

#include <malloc.h>
#include <stdio.h>

#include "alloc/allocator.h"

/* That malloc is the next one in ld.so's order of search: of a library preloaded behind this one,
 * or glibc's. ALLOTROPE=next chooses it, so that observers see what foreign allocators do. It is
 * not one of `allocators`: there is nothing of ours in it to compare. */
extern const struct allocator next_allocator;

/* libc's own functions, by the names __libc_malloc and so on, where the next malloc is a library's
 * that may be built on them; else null. Set when the route is resolved. */
struct libc_functions {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*realloc)(void *block, size_t size);
    void (*free)(void *block);
};
extern struct libc_functions next_libc __attribute__((visibility("hidden")));

/* The functions with which a program asks and tunes that malloc; each null where there is none.
 * They are called where calls are passed through, and only there. Set with the above. */
struct next_inspection {
    int (*mallopt)(int parameter, int value);
    struct mallinfo2 (*mallinfo2)(void);
    int (*malloc_info)(int options, FILE *stream);
    void (*malloc_stats)(void);
    int (*malloc_trim)(size_t pad);
};
extern struct next_inspection next_inspection __attribute__((visibility("hidden")));

#endif
