/* SPDX-License-Identifier: MIT
 *
 * fork_block.c: see fork_block.h.
 */
#include "alloc/fork_block.h"

#include <stdatomic.h>
#include <stdint.h>

#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/pages.h"

enum { BEFORE_RECORD = 64 };

struct fork_mapping fork_mapping_make(size_t alignment, size_t size)
{
    struct fork_mapping mapping = {0};
    if (size > (size_t)PTRDIFF_MAX / 2 || alignment > (size_t)PTRDIFF_MAX / 4)
        return mapping;
    frozen_pause();
    size_t before = alignment > GRANULE_BYTES ? alignment : GRANULE_BYTES;
    mapping.usable = round_up(size > 0 ? size : 1, PAGE_BYTES);
    char *start = pages_map(before + round_up(mapping.usable, GRANULE_BYTES), before);
    if (!start)
        return mapping;
    mapping.record = start + BEFORE_RECORD;
    mapping.payload = start + before;
    /* What a collection must not take for a root. */
    if (!granule_map_enter(&beside_heaps, start, before, mapping.record)) {
        fork_mapping_drop(&mapping);
        mapping.record = NULL;
    }
    return mapping;
}

void fork_mapping_drop(const struct fork_mapping *mapping)
{
    struct fork_mapping gone = *mapping; /* it may stand in the record */
    char *start = (char *)gone.record - BEFORE_RECORD;
    size_t before = (size_t)(gone.payload - start);
    granule_map_enter(&beside_heaps, start, before, NULL);
    pages_unmap(start, before + round_up(gone.usable, GRANULE_BYTES));
}

/* The blocks. */

struct fork_block {
    struct owner owner;
    _Atomic bool is_freed; /* by the program */
    struct fork_mapping mapping;
    struct fork_block *next, *previous;
};

static struct lock lock = LOCK_INITIALIZER(RANK_LARGE);
static struct fork_block *list; /* under the lock, as what is counted */
static uint64_t blocks, bytes;

void fork_blocks_init(void)
{
    fork_chain_add(&lock);
}

static void drop(struct fork_block *block)
{
    granule_map_set(block->mapping.payload, block->mapping.usable, NULL);
    fork_mapping_drop(&block->mapping);
}

static void enter(const uintptr_t *words)
{
    struct fork_block *block = (struct fork_block *)words[0];
    lock_acquire(&lock);
    block->next = list;
    if (list)
        list->previous = block;
    list = block;
    blocks++;
    bytes += block->mapping.usable;
    lock_release(&lock);
    account_mapped((ptrdiff_t)block->mapping.usable);
}

/* With the lock held. */
static void leave(struct fork_block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        list = block->next;
    if (block->next)
        block->next->previous = block->previous;
    blocks--;
    bytes -= block->mapping.usable;
    account_mapped(-(ptrdiff_t)block->mapping.usable);
}

/* With the lock held, which it gives back. */
static void remove_and_unlock(struct fork_block *block)
{
    leave(block);
    lock_release(&lock);
    drop(block);
}

void *fork_block_alloc(size_t alignment, size_t size)
{
    struct fork_mapping mapping = fork_mapping_make(alignment, size);
    struct fork_block *block = mapping.record;
    if (!block)
        return NULL;
    *block = (struct fork_block){.owner = {OWNER_FORK_BLOCK}, .mapping = mapping};
    if (!granule_map_set(mapping.payload, mapping.usable, block) || !defer_one(enter, block)) {
        drop(block);
        return NULL;
    }
    return mapping.payload;
}

size_t fork_block_usable(const struct fork_block *block, const void *address)
{
    return address == block->mapping.payload ? block->mapping.usable : 0;
}

static void free_deferred(const uintptr_t *words)
{
    struct fork_block *block = (struct fork_block *)words[0];
    lock_acquire(&lock);
    remove_and_unlock(block);
}

void fork_block_free(struct fork_block *block, const void *address)
{
    if (address != block->mapping.payload)
        abort_on_pointer_fault("free", address, "points into a block, not to its start");
    if (atomic_exchange(&block->is_freed, true))
        abort_on_pointer_fault("free", address, "not a live block (freed twice)");
    if (lock_enter(&lock)) {
        remove_and_unlock(block);
    } else {
        defer_one(free_deferred, block); /* after it is entered: [in order] */
        frozen_end();
    }
}

/* Looking in from outside. */

void fork_blocks_lock(void)
{
    lock_acquire(&lock);
}

void fork_blocks_unlock(void)
{
    lock_release(&lock);
}

void fork_blocks_each(heap_visitor *visit, void *argument)
{
    for (const struct fork_block *block = list; block; block = block->next) {
        struct block_info info = {.payload = block->mapping.payload,
                                  .usable_bytes = block->mapping.usable,
                                  .block_bytes = block->mapping.usable,
                                  .state = BLOCK_LIVE};
        visit(argument, &info);
    }
}

void fork_blocks_count(uint64_t *number, uint64_t *sum)
{
    lock_acquire(&lock);
    *number += blocks;
    *sum += bytes;
    lock_release(&lock);
}
