/* SPDX-License-Identifier: MIT
 *
 * route.h: the table of functions between the interposed symbols and the chosen allocator.
 *
 * It is statically initialised to resolvers. The first call, which ld.so may make before any
 * constructor has run, resolves the route: it reads the configuration, initialises the allocator
 * and starts the observers. Then the table points straight to the allocator, or to the outermost
 * observer, and is made read-only. A call costs one predictable jump. IFUNC symbols would save that
 * jump, but crash programs that call malloc while they are being relocated.
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
    struct allocator_operators operators;
    const struct allocator *allocator; /* NULL until resolved */
};

/* The route straight to an allocator. */
struct route route_to(const struct allocator *allocator);

/* Resolves the route unless that has been done; returns the configuration. Any thread. */
const struct configuration *route_resolve(void);

/* Puts functions before those of the route, while the program runs. `wrap` is handed the route
 * behind them. False: there is no route, as in a library of a single allocator, or it cannot be
 * written. Any thread. */
bool route_wrap(struct route (*wrap)(struct route behind));

#endif
