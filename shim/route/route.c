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

static void *resolve_then_create(size_t size)
{
    route_resolve();
    return route_page.route.operators.create(size);
}

static void *resolve_then_create_array(size_t size)
{
    route_resolve();
    return route_page.route.operators.create_array(size);
}

static void *resolve_then_create_aligned(size_t alignment, size_t size)
{
    route_resolve();
    return route_page.route.operators.create_aligned(alignment, size);
}

static void *resolve_then_create_array_aligned(size_t alignment, size_t size)
{
    route_resolve();
    return route_page.route.operators.create_array_aligned(alignment, size);
}

/* A function may be called with more arguments than it takes: the caller passes them in registers
 * (System V ABI, 3.2.3). So free itself stands for each operator delete. */
typedef void free_of_sized(void *block, size_t size);
typedef void free_of_aligned(void *block, size_t size, size_t alignment);

/* Each operator by the function that it is where they are not told apart. */
#define OPERATORS_BY(new, new_array, new_aligned, new_array_aligned, free)                       \
    {                                                                                            \
        .create = (new), .create_array = (new_array), .create_aligned = (new_aligned),           \
        .create_array_aligned = (new_array_aligned), .destroy = (free), .destroy_array = (free), \
        .destroy_sized = (free_of_sized *)(void (*)(void))(free),                                \
        .destroy_array_sized = (free_of_sized *)(void (*)(void))(free),                          \
        .destroy_aligned = (free_of_aligned *)(void (*)(void))(free),                            \
        .destroy_array_aligned = (free_of_aligned *)(void (*)(void))(free),                      \
        .free_sized = (free_of_sized *)(void (*)(void))(free),                                   \
    }

static struct allocator_operators plain_operators(const struct route *route)
{
    return (struct allocator_operators)OPERATORS_BY(
        route->alloc, route->alloc, route->alloc_aligned, route->alloc_aligned, route->free);
}

union route_page route_page __attribute__((ROUTE_PLACE)) = {
    .route = {.operators = OPERATORS_BY(resolve_then_create, resolve_then_create_array,
                                        resolve_then_create_aligned,
                                        resolve_then_create_array_aligned, resolve_then_free),
              .alloc = resolve_then_alloc,
              .alloc_zeroed = resolve_then_alloc_zeroed,
              .alloc_aligned = resolve_then_alloc_aligned,
              .free = resolve_then_free,
              .resize = resolve_then_resize,
              .usable_size = resolve_then_usable_size,
              .owns = resolve_then_owns}};

const struct allocator *const pass_through = &next_allocator;

#ifndef PIC
extern const char gc_interface_is_linked; /* shim/symbols/gc_interface.h */
extern const char *const route_takes_along;
const char *const route_takes_along = &gc_interface_is_linked;
#endif

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

/* The operators of C++ are the allocator's own, if it has any and nothing stands between it and the
 * program. Otherwise they are the route's alloc, alloc_aligned and free. Where another malloc comes
 * before ours they are built on that, as libstdc++'s are: a program that has a malloc of its own
 * hands what new returns to its free, and asks its malloc_usable_size for it. */
static void set_operators(struct route *route)
{
    static const struct allocator_operators public_operators =
        OPERATORS_BY(public_alloc, public_alloc, public_aligned, public_aligned, free);
    const struct allocator *allocator = route->allocator;
    bool is_ours = malloc == interposed_malloc || is_stub_of_program((const void *)malloc);
    bool straight = is_ours && route->alloc == allocator->alloc && route->free == allocator->free &&
                    route->alloc_aligned == allocator->alloc_aligned;
    if (!is_ours)
        route->operators = public_operators;
    else if (allocator->operators && straight)
        route->operators = *allocator->operators;
    else
        route->operators = plain_operators(route);
    if (allocator->operators && !straight)
        allocator->operators->end();
}

static void resolve(void)
{
    start_allocator(&configuration);
    struct route route = observers_start(&configuration, route_to(configuration.allocator));
    sites_are_told = sites_are_needed;
    if (sites_are_told)
        route = callers_route(route);
    set_operators(&route);
    protect_route(PROT_READ | PROT_WRITE);
    route_page.route = route;
    protect_route(PROT_READ);
    fork_chain_add(&lock);
    atomic_store_explicit(&is_resolved, true, memory_order_release);
}

/* Once the route is resolved the lock is not taken. Signal handlers and forked children come here
 * by all functions that the library wraps. The lock's holder may be the code that the handler
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

static void replace_operators(struct allocator_operators *table,
                              const struct allocator_operators *operators)
{
    __atomic_store_n(&table->create, operators->create, __ATOMIC_RELEASE);
    __atomic_store_n(&table->create_array, operators->create_array, __ATOMIC_RELEASE);
    __atomic_store_n(&table->create_aligned, operators->create_aligned, __ATOMIC_RELEASE);
    __atomic_store_n(&table->create_array_aligned, operators->create_array_aligned,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy, operators->destroy, __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy_array, operators->destroy_array, __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy_sized, operators->destroy_sized, __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy_array_sized, operators->destroy_array_sized, __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy_aligned, operators->destroy_aligned, __ATOMIC_RELEASE);
    __atomic_store_n(&table->destroy_array_aligned, operators->destroy_array_aligned,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&table->free_sized, operators->free_sized, __ATOMIC_RELEASE);
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
    replace_operators(&table->operators, &route->operators);
}

static bool put_in_front(struct route (*wrap)(struct route behind))
{
    if (!protect_route(PROT_READ | PROT_WRITE))
        return false;
    struct route wrapped = wrap(route_page.route);
    set_operators(&wrapped);
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

/* Called by an allocator's init, before there is a route, or with all other threads stopped. In the
 * second case the lock is only looked at: if a stopped thread has it, that thread is in the middle
 * of a change of the route; if not, nobody can take it now. */
static bool needs_sites(void)
{
    sites_are_needed = true;
    if (sites_are_told || !route_page.route.allocator)
        return true;
    sites_are_told = atomic_load(&lock.state) == 0 && put_in_front(callers_route);
    return sites_are_told;
}

bool (*const route_needs_sites)(void) = needs_sites;
uint32_t (*const route_call_stack)(uintptr_t rip, uintptr_t rsp, uintptr_t rbp, const void **sites,
                                   uint32_t most) = callers_call_stack;
