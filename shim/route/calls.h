/* SPDX-License-Identifier: MIT
 *
 * calls.h: the calls by which the interposed symbols reach the allocator.
 *
 * They go through the route; in a library that holds a single allocator (ALLOTROPE_SINGLE is its
 * name), directly to it.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_CALLS_H
#define ALLOTROPE_SHIM_ROUTE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "vm/pages.h"

/* Our malloc. A call of `malloc` may reach another library's, which comes before ours. */
void *interposed_malloc(size_t size);

/* The malloc and aligned_alloc of the process, whoever's, as libstdc++'s operators call them: for
 * no bytes they may return NULL. alignment: any power of two. */
static inline void *public_alloc(size_t size)
{
    return malloc(size + !size);
}

static inline void *public_aligned(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, round_up(size + !size, alignment));
}

/* Whether a function's address is a stub of the program's (process.c): then it tells nothing about
 * who defines the function. Takes the loader's lock. */
bool is_stub_of_program(const void *function);

#ifdef ALLOTROPE_SINGLE
#include "shim/route/single.h"
#else

#include "shim/route/route.h"

/* In a shared library the table lies among the constants that ld.so relocates and then makes
 * read-only, so it costs no page of its own. A static program may be linked without such constants.
 * There the table has a page of its own. */
#ifdef PIC
#define ROUTE_PLACE section(".data.rel.ro.route"), aligned(256)
enum { ROUTE_PAGE_BYTES = sizeof(struct route) };
#else
#define ROUTE_PLACE aligned(4096)
enum { ROUTE_PAGE_BYTES = 4096 };
#endif

union route_page {
    struct route route;
    char bytes[ROUTE_PAGE_BYTES];
};
_Static_assert(sizeof(union route_page) <= 256 || sizeof(union route_page) == 4096,
               "the table crosses no boundary of pages");
extern union route_page route_page __attribute__((visibility("hidden")));

#define call_alloc route_page.route.alloc
#define call_alloc_zeroed route_page.route.alloc_zeroed
#define call_alloc_aligned route_page.route.alloc_aligned
#define call_free route_page.route.free
#define call_resize route_page.route.resize
#define call_usable_size route_page.route.usable_size
#define call_owns route_page.route.owns
#define call_operator(name) route_page.route.operators.name

#endif

#endif
