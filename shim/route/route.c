/* SPDX-License-Identifier: MIT
 *
 * route.c: see route.h.
 */
#include "shim/route/route.h"

#include <sys/mman.h>

#include "shim/route/calls.h"
#include "shim/route/next.h"
#include "shim/route/observer.h"
#include "shim/route/start.h"
#include "vm/lock.h"
#include "vm/syscall.h"

/* Each is the first call of the process, whichever it is: settle, then go where it should. */

static void *settle_then_alloc(size_t size)
{
    route_settle();
    return route_page.route.alloc(size);
}

static void *settle_then_alloc_zeroed(size_t size)
{
    route_settle();
    return route_page.route.alloc_zeroed(size);
}

static void *settle_then_alloc_aligned(size_t alignment, size_t size)
{
    route_settle();
    return route_page.route.alloc_aligned(alignment, size);
}

static void settle_then_free(void *block)
{
    route_settle();
    route_page.route.free(block);
}

static void *settle_then_resize(void *block, size_t size)
{
    route_settle();
    return route_page.route.resize(block, size);
}

static size_t settle_then_usable_size(const void *block)
{
    route_settle();
    return route_page.route.usable_size(block);
}

static bool settle_then_owns(const void *address)
{
    route_settle();
    return route_page.route.owns(address);
}

union route_page route_page
    __attribute__((aligned(4096))) = {.route = {.alloc = settle_then_alloc,
                                                .alloc_zeroed = settle_then_alloc_zeroed,
                                                .alloc_aligned = settle_then_alloc_aligned,
                                                .free = settle_then_free,
                                                .resize = settle_then_resize,
                                                .usable_size = settle_then_usable_size,
                                                .owns = settle_then_owns}};

const struct allocator *const pass_through = &next_allocator;

static struct configuration configuration;

struct route route_to(const struct allocator *allocator)
{
    return (struct route){.alloc = allocator->alloc,
                          .alloc_zeroed = allocator->alloc_zeroed,
                          .alloc_aligned = allocator->alloc_aligned,
                          .free = allocator->free,
                          .resize = allocator->resize,
                          .usable_size = allocator->usable_size,
                          .owns = allocator->owns,
                          .allocator = allocator};
}

static void settle(void)
{
    start_allocator(&configuration);
    route_page.route = observers_start(&configuration, route_to(configuration.allocator));
    SYSCALL_3(SYS_mprotect, &route_page, sizeof route_page, PROT_READ);
}

const struct configuration *route_settle(void)
{
    static struct lock lock = LOCK_INITIALIZER(RANK_ACCOUNT);
    lock_acquire(&lock);
    if (!route_page.route.allocator)
        settle();
    lock_release(&lock);
    return &configuration;
}
