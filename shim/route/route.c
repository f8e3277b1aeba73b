/* SPDX-License-Identifier: MIT
 *
 * route.c: see route.h.
 */
#include "shim/route/route.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "shim/route/calls.h"
#include "shim/route/next.h"
#include "shim/route/observer.h"
#include "shim/route/start.h"
#include "vm/fork_chain.h"
#include "vm/lock.h"
#include "vm/pages.h"
#include "vm/syscall.h"
#include "vm/written.h"

/* The first call of the process, whichever it is: it resolves the route, then follows it. */

static void *resolve_then_alloc(size_t size)
{
    route_resolve();
    return route_page.route.alloc(size);
}

static void *resolve_then_alloc_zeroed(size_t size)
{
    route_resolve();
    return route_page.route.alloc_zeroed(size);
}

static void *resolve_then_alloc_aligned(size_t alignment, size_t size)
{
    route_resolve();
    return route_page.route.alloc_aligned(alignment, size);
}

static void resolve_then_free(void *block)
{
    route_resolve();
    route_page.route.free(block);
}

static void *resolve_then_resize(void *block, size_t size)
{
    route_resolve();
    return route_page.route.resize(block, size);
}

static size_t resolve_then_usable_size(const void *block)
{
    route_resolve();
    return route_page.route.usable_size(block);
}

static bool resolve_then_owns(const void *address)
{
    route_resolve();
    return route_page.route.owns(address);
}

union route_page route_page
    __attribute__((ROUTE_PLACE)) = {.route = {.alloc = resolve_then_alloc,
                                              .alloc_zeroed = resolve_then_alloc_zeroed,
                                              .alloc_aligned = resolve_then_alloc_aligned,
                                              .free = resolve_then_free,
                                              .resize = resolve_then_resize,
                                              .usable_size = resolve_then_usable_size,
                                              .owns = resolve_then_owns}};

const struct allocator *const pass_through = &next_allocator;

static WRITTEN_AT_START struct configuration configuration;

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

static struct lock lock = LOCK_INITIALIZER(RANK_ACCOUNT);
static WRITTEN_AT_START bool sites_are_needed, sites_are_told;
static WRITTEN_AT_START _Atomic bool is_resolved;

/* The page that the table lies on; it crosses no boundary of pages. */
static bool protect_route(int protection)
{
    uintptr_t page = round_down((uintptr_t)&route_page, PAGE_BYTES);
    return !syscall_failed(SYSCALL_3(SYS_mprotect, page, PAGE_BYTES, protection));
}

static void resolve(void)
{
    start_allocator(&configuration);
    struct route route = observers_start(&configuration, route_to(configuration.allocator));
    sites_are_told = sites_are_needed;
    protect_route(PROT_READ | PROT_WRITE);
    route_page.route = sites_are_told ? callers_route(route) : route;
    protect_route(PROT_READ);
    fork_chain_add(&lock);
    atomic_store_explicit(&is_resolved, true, memory_order_release);
}

/* Without the lock from the second call on: signal handlers and forked children come here, by any
 * of the functions that the library wraps, and the lock's holder may be what the handler
 * interrupted, or a thread that the child does not have. */
const struct configuration *route_resolve(void)
{
    if (atomic_load_explicit(&is_resolved, memory_order_acquire))
        return &configuration;
    lock_acquire(&lock);
    if (!route_page.route.allocator)
        resolve();
    lock_release(&lock);
    return &configuration;
}

/* Other threads call through the table meanwhile: each pointer is stored whole, and old and new
 * functions go together. */
static void replace(const struct route *route)
{
    struct route *table = &route_page.route;
    __atomic_store_n(&table->alloc, route->alloc, __ATOMIC_RELEASE);
    __atomic_store_n(&table->alloc_zeroed, route->alloc_zeroed, __ATOMIC_RELEASE);
    __atomic_store_n(&table->alloc_aligned, route->alloc_aligned, __ATOMIC_RELEASE);
    __atomic_store_n(&table->free, route->free, __ATOMIC_RELEASE);
    __atomic_store_n(&table->resize, route->resize, __ATOMIC_RELEASE);
    __atomic_store_n(&table->usable_size, route->usable_size, __ATOMIC_RELEASE);
}

static bool put_in_front(struct route (*wrap)(struct route behind))
{
    if (!protect_route(PROT_READ | PROT_WRITE))
        return false;
    struct route wrapped = wrap(route_page.route);
    replace(&wrapped);
    protect_route(PROT_READ);
    return true;
}

bool route_wrap(struct route (*wrap)(struct route behind))
{
    route_resolve();
    lock_acquire(&lock);
    bool wrapped = put_in_front(wrap);
    lock_release(&lock);
    return wrapped;
}

/* By an allocator's init, before there is a route, or with all other threads stopped: then a thread
 * that has the lock is in the middle of a change, and nobody else can take it. */
static bool needs_sites(void)
{
    sites_are_needed = true;
    if (sites_are_told || !route_page.route.allocator)
        return true;
    sites_are_told = atomic_load(&lock.state) == 0 && put_in_front(callers_route);
    return sites_are_told;
}

bool (*const route_needs_sites)(void) = needs_sites;
