/* SPDX-License-Identifier: MIT
 *
 * large.c: the layer of large blocks.
 *
 * A large block is a mapping of its own, aligned to the page map's granule, so it is given back
 * to the kernel at once when freed and grows by moving page tables instead of bytes. Its record
 * stands apart and is found through the page map. Mappings take whole granules of address space
 * (the next one then comes out aligned with a single system call) but only whole pages count as
 * usable.
 *
 * When the kernel refuses to unmap (max_map_count), the block is parked: empty, and handed out
 * again once the kernel refuses to map.
 */
#include "alloc/large.h"

#include "vm/lock.h"
#include "vm/message.h"
#include "vm/metadata.h"
#include "vm/pagemap.h"
#include "vm/pages.h"

static struct lock lock = LOCK_INITIALIZER(RANK_LARGE);
static struct large_block *live, *parked, *unused_records;
static uint64_t live_blocks, live_bytes;

static void push(struct large_block **list, struct large_block *block)
{
    block->previous = NULL;
    block->next = *list;
    if (*list)
        (*list)->previous = block;
    *list = block;
}

static void unlink_from(struct large_block **list, struct large_block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        *list = block->next;
    if (block->next)
        block->next->previous = block->previous;
}

static void enter_live(struct large_block *block)
{
    lock_acquire(&lock);
    push(&live, block);
    live_blocks++;
    live_bytes += block->usable_bytes;
    lock_release(&lock);
    account_mapped((ptrdiff_t)block->usable_bytes);
}

static void leave_live(struct large_block *block)
{
    account_mapped(-(ptrdiff_t)block->usable_bytes);
    lock_acquire(&lock);
    unlink_from(&live, block);
    live_blocks--;
    live_bytes -= block->usable_bytes;
    lock_release(&lock);
}

static struct large_block *take_record(void)
{
    lock_acquire(&lock);
    struct large_block *record = unused_records;
    if (record)
        unused_records = record->next;
    lock_release(&lock);
    return record ? record : metadata_alloc(sizeof *record);
}

static void keep(struct large_block **list, struct large_block *block)
{
    lock_acquire(&lock);
    push(list, block);
    lock_release(&lock);
}

static size_t mapping_bytes(size_t usable_bytes)
{
    return round_up(usable_bytes, GRANULE_BYTES);
}

static void *take_parked(size_t alignment, size_t size)
{
    lock_acquire(&lock);
    struct large_block *block = parked;
    while (block && (block->usable_bytes < size || ((uintptr_t)block->payload & (alignment - 1))))
        block = block->next;
    if (block)
        unlink_from(&parked, block);
    lock_release(&lock);
    if (!block || !pagemap_set(block->payload, mapping_bytes(block->usable_bytes), block))
        return NULL;
    enter_live(block);
    return block->payload;
}

void *large_alloc(size_t alignment, size_t size)
{
    size_t usable = round_up(size > 0 ? size : 1, PAGE_BYTES);
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    if (alignment < GRANULE_BYTES)
        alignment = GRANULE_BYTES;
    struct large_block *block = take_record();
    if (!block)
        return NULL;
    block->owner.kind = OWNER_LARGE;
    block->usable_bytes = usable;
    block->payload = pages_map(mapping_bytes(usable), alignment);
    if (!block->payload) {
        keep(&unused_records, block);
        return take_parked(alignment, size);
    }
    if (!pagemap_set(block->payload, usable, block)) {
        pagemap_set(block->payload, usable, NULL);
        pages_unmap(block->payload, mapping_bytes(usable));
        keep(&unused_records, block);
        return NULL;
    }
    enter_live(block);
    return block->payload;
}

static void check_start(const struct large_block *block, const char *function, void *payload)
{
    if (payload != block->payload)
        abort_on_pointer_fault(function, payload, "points into a block, not to its start");
}

void large_free(struct large_block *block, void *payload)
{
    check_start(block, "free", payload);
    leave_live(block);
    pagemap_set(payload, block->usable_bytes, NULL);
    if (pages_unmap(payload, mapping_bytes(block->usable_bytes)))
        keep(&unused_records, block);
    else
        keep(&parked, block);
}

static void set_usable(struct large_block *block, size_t usable)
{
    ptrdiff_t change = (ptrdiff_t)usable - (ptrdiff_t)block->usable_bytes;
    lock_acquire(&lock);
    block->usable_bytes = usable;
    live_bytes += (uint64_t)change;
    lock_release(&lock);
    account_mapped(change);
}

/* Entries of pages that go are taken out before, those of pages that come are put in after: what
 * is unmapped may be another thread's at once. */
static bool resize_in_place(struct large_block *block, size_t usable)
{
    size_t old_mapping = mapping_bytes(block->usable_bytes), mapping = mapping_bytes(usable);
    char *payload = block->payload;
    if (mapping < old_mapping)
        pagemap_set(payload + mapping, old_mapping - mapping, NULL);
    bool resized = mapping == old_mapping || pages_resize_in_place(payload, old_mapping, mapping);
    if (resized && mapping > old_mapping &&
        !pagemap_set(payload + old_mapping, mapping - old_mapping, block)) {
        pagemap_set(payload + old_mapping, mapping - old_mapping, NULL);
        pages_unmap(payload + old_mapping, mapping - old_mapping);
        resized = false;
    }
    if (!resized && mapping < old_mapping)
        pagemap_set(payload + mapping, old_mapping - mapping, block);
    return resized;
}

static bool move(struct large_block *block, size_t usable)
{
    size_t old_mapping = mapping_bytes(block->usable_bytes), mapping = mapping_bytes(usable);
    char *old_payload = block->payload;
    char *target = pages_reserve(mapping, GRANULE_BYTES);
    if (!target)
        return false;
    pagemap_set(old_payload, old_mapping, NULL);
    if (pagemap_set(target, mapping, block) &&
        pages_move(old_payload, old_mapping, target, mapping)) {
        block->payload = target;
        return true;
    }
    pagemap_set(target, mapping, NULL);
    pages_unmap(target, mapping);
    pagemap_set(old_payload, old_mapping, block);
    return false;
}

void *large_resize(struct large_block *block, void *payload, size_t size)
{
    check_start(block, "realloc", payload);
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    size_t usable = round_up(size, PAGE_BYTES);
    if (resize_in_place(block, usable) || move(block, usable))
        set_usable(block, usable);
    else if (usable > block->usable_bytes)
        return NULL;
    else /* cutting it off would split a mapping beyond max_map_count: it keeps its size, empty */
        pages_discard(block->payload + usable, block->usable_bytes - usable);
    return block->payload;
}

void large_walk(heap_visitor *visit, void *argument)
{
    lock_acquire(&lock);
    for (const struct large_block *block = live; block; block = block->next) {
        struct block_info info = {.payload = block->payload,
                                  .usable_bytes = block->usable_bytes,
                                  .block_bytes = block->usable_bytes,
                                  .state = BLOCK_LIVE};
        visit(argument, &info);
    }
    lock_release(&lock);
}

void large_statistics(uint64_t *blocks, uint64_t *bytes)
{
    lock_acquire(&lock);
    *blocks = live_blocks;
    *bytes = live_bytes;
    lock_release(&lock);
}

void large_fork_prepare(void)
{
    lock_acquire(&lock);
}

void large_fork_parent(void)
{
    lock_release(&lock);
}

void large_fork_child(void)
{
    lock_reset(&lock);
}
