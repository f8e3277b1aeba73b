/* SPDX-License-Identifier: MIT
 *
 * outside.c: see outside.h.
 */
#include "shim/route/outside.h"

#include <stdint.h>

#include "shim/route/route.h"
#include "vm/deferred.h"
#include "vm/freeze.h"

void outside_statistics(struct allocator_statistics *statistics)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (heap_is_frozen_by_this_thread()) { /* in a fork handler: it has the locks */
        allocator->statistics(statistics);
    } else if (operation_begin()) {
        allocator->statistics(statistics);
        operation_end();
    } else {
        frozen_end();
        *statistics = (struct allocator_statistics){0};
    }
}

static void tune_deferred(const uintptr_t *words)
{
    route_resolve()->allocator->tune((enum tuning)words[0], words[1]);
}

void outside_tune(enum tuning parameter, size_t value)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (!allocator->tune)
        return;
    if (operation_begin()) {
        allocator->tune(parameter, value);
        operation_end();
    } else {
        defer(tune_deferred, (const uintptr_t[DEFERRED_WORDS]){parameter, value});
        frozen_end();
    }
}
