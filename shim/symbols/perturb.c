/* SPDX-License-Identifier: MIT
 *
 * perturb.c: see perturb.h.
 *
 * The functions stand before the rest of the route from the first mallopt on that asks for them. A
 * program that never does pays nothing. A block is filled as glibc's are: calloc's not; realloc's
 * where it grew.
 */
#include "shim/symbols/perturb.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "shim/route/route.h"

static struct route inner;
static _Atomic int perturb_value;

static int value_now(void)
{
    return atomic_load_explicit(&perturb_value, memory_order_relaxed);
}

static void *fill_new(void *block, size_t size)
{
    int value = value_now();
    return block && value != 0 ? memset(block, value ^ 0xFF, size) : block;
}

static void *perturbed_alloc(size_t size)
{
    return fill_new(inner.alloc(size), size);
}

static void *perturbed_alloc_aligned(size_t alignment, size_t size)
{
    return fill_new(inner.alloc_aligned(alignment, size), size);
}

/* A block that is not live has a usable size of 0. (The classic presets do not know which are live:
 * there a second free overwrites the block again.) */
static void perturbed_free(void *block)
{
    int value = value_now();
    if (value != 0 && inner.owns(block))
        memset(block, value, inner.usable_size(block));
    inner.free(block);
}

/* A block that grows is moved here, so that the memory that it leaves is overwritten, too. (The
 * allocator may move a block that shrinks; the old memory is not overwritten then.) */
static void *perturbed_resize(void *block, size_t size)
{
    size_t usable = inner.usable_size(block);
    if (size <= usable || usable == 0 || value_now() == 0)
        return inner.resize(block, size);
    void *moved = perturbed_alloc(size);
    if (moved) {
        memcpy(moved, block, usable);
        perturbed_free(block);
    }
    return moved;
}

static struct route wrap(struct route behind)
{
    struct route perturbed = inner = behind;
    perturbed.alloc = perturbed_alloc;
    perturbed.alloc_aligned = perturbed_alloc_aligned;
    perturbed.free = perturbed_free;
    perturbed.resize = perturbed_resize;
    return perturbed;
}

bool perturb(int value)
{
    static _Atomic bool in_route;
    atomic_store_explicit(&perturb_value, value, memory_order_relaxed);
    if (value == 0 || atomic_exchange(&in_route, true))
        return true;
    bool wrapped = route_wrap(wrap);
    atomic_store(&in_route, wrapped);
    return wrapped;
}
