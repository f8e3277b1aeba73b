/* SPDX-License-Identifier: MIT
 *
 * gc_interface.c: the functions of allotrope/gc.h.
 *
 * What they promise is in that header. Roots and pins are noted for whatever allocator there is
 * (vm/asked_roots.h). The rest is the allocator's, if it is a collector.
 *
 * A walk visits blocks under locks that malloc takes. The visitor of the program may call malloc,
 * so it is not called then: a first visitor, of ours, writes a list of all blocks, into memory that
 * no lock is needed for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALLOTROPE_GC_LIBRARY
#define ALLOTROPE_GC_WEAK /* but here */
#include "include/allotrope/gc.h"
#include "shim/route/route.h"
#include "shim/route/start.h"
#include "shim/symbols/gc_interface.h"
#include "shim/symbols/interpose.h"
#include "vm/asked_roots.h"
#include "vm/freeze.h"
#include "vm/private_memory.h"

const char gc_interface_is_linked = 1;

EXPORT int allotrope_gc_collect(void)
{
    static const int errors[] = {
        [COLLECTED] = 0, [COLLECT_LATER] = EAGAIN, [COLLECT_NEVER] = ENOTSUP};
    const struct allocator *allocator = route_resolve()->allocator;
    return allocator->collect ? errors[allocator->collect()] : ENOTSUP;
}

/* By malloc, whichever the program has: it will free the block by the same library's free. */
EXPORT void *allotrope_gc_malloc_pointer_free(size_t size)
{
    const struct allocator *allocator = route_resolve()->allocator;
    void *block = malloc(size);
    if (block && allocator->holds_no_pointers && allocator->owns(block))
        allocator->holds_no_pointers(block);
    return block;
}

static int is_range(const void *start, size_t bytes)
{
    return start && bytes > 0 && bytes <= UINTPTR_MAX - (uintptr_t)start;
}

EXPORT int allotrope_gc_add_roots(const void *start, size_t bytes)
{
    route_resolve();
    return is_range(start, bytes) ? asked_roots_add((uintptr_t)start, bytes) : EINVAL;
}

EXPORT int allotrope_gc_remove_roots(const void *start, size_t bytes)
{
    route_resolve();
    return is_range(start, bytes) ? asked_roots_remove((uintptr_t)start, bytes) : EINVAL;
}

EXPORT int allotrope_gc_pin(const void *address)
{
    route_resolve();
    return address ? asked_roots_pin((uintptr_t)address) : EINVAL;
}

EXPORT int allotrope_gc_unpin(const void *address)
{
    route_resolve();
    return address ? asked_roots_unpin((uintptr_t)address) : EINVAL;
}

/* The list of a walk. */

enum { STATE_BITS = 2, CHUNK_BYTES = 1 << 20 };

struct listed {
    void *address;
    size_t bytes_and_state;
};

struct chunk {
    struct chunk *next;
    size_t count;
    struct listed blocks[(CHUNK_BYTES - 2 * sizeof(void *)) / sizeof(struct listed)];
};
_Static_assert(sizeof(struct chunk) <= CHUNK_BYTES, "a chunk is a mapping");

enum { BLOCKS_OF_CHUNK = sizeof((struct chunk *)0)->blocks / sizeof(struct listed) };

struct list {
    struct chunk *first, *last;
    bool is_whole; /* there was memory for it */
};

static void forget(struct list *list)
{
    while (list->first) {
        struct chunk *next = list->first->next;
        private_memory_unmap(list->first, sizeof *list->first);
        list->first = next;
    }
}

static bool add_chunk(struct list *list)
{
    struct chunk *chunk = list->is_whole ? private_memory_map(sizeof *chunk) : NULL;
    list->is_whole = chunk != NULL;
    if (!chunk)
        return false;
    if (list->last)
        list->last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
    return true;
}

static void list_block(void *argument, const struct block_info *info)
{
    static const enum allotrope_gc_state states[] = {[BLOCK_FREE] = ALLOTROPE_GC_FREE,
                                                     [BLOCK_LIVE] = ALLOTROPE_GC_LIVE,
                                                     [BLOCK_CACHED] = ALLOTROPE_GC_FREE,
                                                     [BLOCK_RETIRED] = ALLOTROPE_GC_RETIRED};
    struct list *list = argument;
    if ((!list->last || list->last->count == BLOCKS_OF_CHUNK) && !add_chunk(list))
        return;
    list->last->blocks[list->last->count++] = (struct listed){
        info->payload, info->usable_bytes << STATE_BITS | (size_t)states[info->state]};
}

static void visit_all(const struct list *list, allotrope_gc_visitor *visit, void *argument)
{
    for (const struct chunk *chunk = list->first; chunk; chunk = chunk->next)
        for (size_t i = 0; i < chunk->count; i++) {
            size_t word = chunk->blocks[i].bytes_and_state;
            enum allotrope_gc_state state = word & ((1 << STATE_BITS) - 1);
            if (visit(argument, chunk->blocks[i].address, word >> STATE_BITS, state) != 0)
                return;
        }
}

EXPORT int allotrope_gc_walk(allotrope_gc_visitor *visit, void *argument)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (!visit)
        return EINVAL;
    if (allocator == pass_through)
        return ENOTSUP;
    if (!operation_begin()) {
        frozen_end();
        return EAGAIN;
    }
    struct list list = {.is_whole = true};
    allocator->walk(list_block, &list);
    operation_end();
    if (list.is_whole)
        visit_all(&list, visit, argument);
    forget(&list);
    return list.is_whole ? 0 : ENOMEM;
}

/* Statistics. */

static void take_statistic(void *argument, const char *group, const char *key, uint64_t number)
{
    struct allotrope_gc_statistics *statistics = argument;
    const struct {
        const char *key;
        uint64_t *member;
    } members[] = {
        {"collections", &statistics->collections},
        {"given_up", &statistics->given_up},
        {"pause_ns", &statistics->pause_ns},
        {"longest_pause_ns", &statistics->longest_pause_ns},
        {"cpu_ns", &statistics->cpu_ns},
        {"live_bytes", &statistics->live_bytes},
        {"freed_blocks", &statistics->freed_blocks},
        {"freed_bytes", &statistics->freed_bytes},
    };
    if (strcmp(group, "gc_given_up") == 0)
        statistics->given_up =
            number + (statistics->given_up == UINT64_MAX ? 0 : statistics->given_up);
    for (size_t i = 0; strcmp(group, "gc") == 0 && i < sizeof members / sizeof *members; i++)
        if (strcmp(key, members[i].key) == 0)
            *members[i].member = number;
}

EXPORT int allotrope_gc_read_statistics(struct allotrope_gc_statistics *statistics, size_t bytes)
{
    const struct allocator *allocator = route_resolve()->allocator;
    struct allotrope_gc_statistics known;
    if (!statistics)
        return EINVAL;
    if (!allocator->collect || !allocator->more_statistics)
        return ENOTSUP;
    memset(&known, 0xFF, sizeof known);
    allocator->more_statistics(take_statistic, &known);
    memset(statistics, 0xFF, bytes);
    memcpy(statistics, &known, bytes < sizeof known ? bytes : sizeof known);
    return 0;
}
