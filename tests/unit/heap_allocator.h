/* SPDX-License-Identifier: MIT
 *
 * heap_allocator.h: the policy heap under test, and the same as a whole allocator, which the model
 * can be held against.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HEAP_ALLOCATOR_H
#define ALLOTROPE_TESTS_UNIT_HEAP_ALLOCATOR_H

#include "alloc/allocator.h"
#include "tests/unit/heap_source.h"

static struct test_heap heap;

static void *heap_alloc(size_t size)
{
    return heap.policy->alloc(heap.state, size);
}

static void *heap_alloc_zeroed(size_t size)
{
    void *block = heap_alloc(size);
    return block ? memset(block, 0, size) : NULL;
}

static void *heap_alloc_aligned(size_t alignment, size_t size)
{
    return alignment <= BLOCK_ALIGNMENT ? heap_alloc(size)
                                        : heap.policy->alloc_aligned(heap.state, alignment, size);
}

static void heap_free(void *block)
{
    heap.policy->free(heap.state, block);
}

static void *heap_resize(void *block, size_t size)
{
    return heap_realloc(heap.policy, heap.state, block, size);
}

static size_t heap_usable_size(const void *block)
{
    return heap.policy->usable_size(heap.state, block);
}

static bool heap_owns(const void *address)
{
    const char *byte = address;
    return heap.source.base <= byte && byte < heap.source.end;
}

static void heap_walk(heap_visitor *visit, void *argument)
{
    heap.policy->walk(heap.state, visit, argument);
}

static bool heap_is_valid(void)
{
    return heap.policy->is_valid(heap.state);
}

static const struct allocator heap_allocator = {
    .alloc = heap_alloc,
    .alloc_zeroed = heap_alloc_zeroed,
    .alloc_aligned = heap_alloc_aligned,
    .free = heap_free,
    .resize = heap_resize,
    .usable_size = heap_usable_size,
    .owns = heap_owns,
    .walk = heap_walk,
    .is_valid = heap_is_valid,
};

#endif
