/* SPDX-License-Identifier: MIT
 *
 * route.h: from the interposed symbols to the chosen allocator.
 *
 * The table is statically initialised to functions that settle the choice at the first call
 * (which ld.so may make before any constructor has run), then points straight to the allocator
 * and is made read-only: one predictable jump a call. IFUNC symbols would save that jump but
 * crash programs that call malloc while they are being relocated.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_ROUTE_H
#define ALLOTROPE_SHIM_ROUTE_ROUTE_H

#include "shim/configuration/configuration.h"

struct route {
    void *(*alloc)(size_t size);
    void *(*alloc_zeroed)(size_t size);
    void *(*alloc_aligned)(size_t alignment, size_t size);
    void (*free)(void *block);
    void *(*resize)(void *block, size_t size);
    size_t (*usable_size)(const void *block);
    bool (*owns)(const void *address);
    const struct allocator *allocator; /* NULL until settled */
};

/* The route of the allocator itself, without anything in between. */
struct route route_to(const struct allocator *allocator);

/* Settles the choice if that has not been done; returns what was chosen. */
const struct configuration *route_settle(void);

#endif
