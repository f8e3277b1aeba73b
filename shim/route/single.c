/* SPDX-License-Identifier: MIT
 *
 * single.c: the start of a library that holds a single allocator; see single.h.
 */
#include "shim/route/calls.h"

#include "shim/route/next.h"
#include "shim/route/observer.h"
#include "shim/route/route.h"
#include "shim/route/start.h"
#include "vm/lock.h"

const struct allocator *const allocators[] = {&SINGLE_ALLOCATOR, NULL};

const struct observer *const observers[] = {NULL}; /* there is no route to put one in */

bool (*const route_needs_sites)(void) = NULL;
uint32_t (*const route_call_stack)(uintptr_t rip, uintptr_t rsp, uintptr_t rbp, const void **sites,
                                   uint32_t most) = NULL;
const struct allocator *const pass_through = NULL;
struct next_inspection next_inspection;

static struct configuration configuration;

const struct configuration *route_resolve(void)
{
    static struct lock lock = LOCK_INITIALIZER(RANK_ACCOUNT);
    static _Atomic bool is_resolved;
    if (atomic_load_explicit(&is_resolved, memory_order_acquire))
        return &configuration;
    lock_acquire(&lock);
    if (!configuration.allocator)
        start_allocator(&configuration);
    atomic_store_explicit(&is_resolved, true, memory_order_release);
    lock_release(&lock);
    return &configuration;
}

bool route_wrap(struct route (*wrap)(struct route behind))
{
    (void)wrap;
    return false;
}

void allocator_first_use(void)
{
    route_resolve();
}
