/* SPDX-License-Identifier: MIT
 *
 * large.c: the layer of large blocks.
 *
 * A large block is a mapping of its own, aligned to the granule map's granule, so it can be given
 * back to the kernel by itself and grows by moving page tables instead of bytes. Its record
 * stands apart and is found through the granule map. Mappings take whole granules of address space
 * (the next one then comes out aligned with a single system call) but only whole pages count as
 * usable.
 *
 * The few that were freed last are kept as they are, pages and all: what a program frees and
 * allocates in turn would else be cleared by the kernel each time. The next block of about their
 * size takes one over, its end cut off or added. What is kept is bounded by a share of what is in
 * use, so that it goes when the program's blocks go, and gives way to blocks that grow; the oldest
 * goes first.
 *
 * When the kernel refuses to unmap (max_map_count), the block is parked: emptied, unless the kernel
 * refuses that too (locked pages, a filter), and handed out again once the kernel refuses to map.
 */
#include "alloc/layers/large.h"

#include <string.h>

#include "vm/lock.h"
#include "vm/message.h"
#include "vm/metadata.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

struct lock large_lock = LOCK_INITIALIZER(RANK_LARGE);
static struct large_block *live, *kept, *parked, *unused_records;
static uint64_t live_blocks, live_bytes, kept_blocks, kept_bytes; /* kept: whole mappings */

/* At most KEPT_BLOCKS freed blocks are kept, and at most kept_least bytes or 1/KEPT_SHARE of what
 * is in use, whichever is more. */
enum { KEPT_BLOCKS = 16, KEPT_SHARE = 4 };
static size_t kept_least = (size_t)2 << 20; /* large_keep changes it */

/* Above this calloc gets fresh pages, and no kept block that is cleared: the program may never
 * touch them. */
static const size_t CLEARED_MOST = (size_t)1 << 20;

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
    lock_acquire(&large_lock);
    push(&live, block);
    live_blocks++;
    live_bytes += block->usable_bytes;
    lock_release(&large_lock);
    account_mapped((ptrdiff_t)block->usable_bytes);
}

/* What is kept is still the heap's to account for. */
static void leave_live(struct large_block *block)
{
    lock_acquire(&large_lock);
    unlink_from(&live, block);
    live_blocks--;
    live_bytes -= block->usable_bytes;
    lock_release(&large_lock);
}

static struct large_block *take_record(void)
{
    lock_acquire(&large_lock);
    struct large_block *record = unused_records;
    if (record)
        unused_records = record->next;
    lock_release(&large_lock);
    return record ? record : metadata_alloc(sizeof *record);
}

static void put(struct large_block **list, struct large_block *block)
{
    lock_acquire(&large_lock);
    push(list, block);
    lock_release(&large_lock);
}

static size_t mapping_bytes(size_t usable_bytes)
{
    return round_up(usable_bytes, GRANULE_BYTES);
}

static void *take_parked(size_t alignment, size_t size, bool zeroed)
{
    lock_acquire(&large_lock);
    struct large_block *block = parked;
    while (block && (block->usable_bytes < size || ((uintptr_t)block->payload & (alignment - 1))))
        block = block->next;
    if (block)
        unlink_from(&parked, block);
    lock_release(&large_lock);
    if (!block)
        return NULL;
    size_t bytes = mapping_bytes(block->usable_bytes);
    if (!granule_map_set(block->payload, bytes, block)) {
        granule_map_set(block->payload, bytes, NULL);
        put(&parked, block);
        return NULL;
    }
    if (zeroed)
        memset(block->payload, 0, block->usable_bytes);
    enter_live(block);
    return block->payload;
}

/* Entries of pages that go are taken out before, those of pages that come are put in after: what
 * is unmapped may be another thread's at once. */
static bool resize_in_place(struct large_block *block, size_t usable)
{
    size_t old_mapping = mapping_bytes(block->usable_bytes), mapping = mapping_bytes(usable);
    char *payload = block->payload;
    if (mapping < old_mapping)
        granule_map_set(payload + mapping, old_mapping - mapping, NULL);
    bool resized = mapping == old_mapping || pages_resize_in_place(payload, old_mapping, mapping);
    if (resized && mapping > old_mapping &&
        !granule_map_set(payload + old_mapping, mapping - old_mapping, block)) {
        granule_map_set(payload + old_mapping, mapping - old_mapping, NULL);
        pages_unmap(payload + old_mapping, mapping - old_mapping);
        resized = false;
    }
    if (!resized && mapping < old_mapping)
        granule_map_set(payload + mapping, old_mapping - mapping, block);
    return resized;
}

static bool move(struct large_block *block, size_t usable)
{
    size_t old_mapping = mapping_bytes(block->usable_bytes), mapping = mapping_bytes(usable);
    char *old_payload = block->payload;
    char *target = pages_reserve_to_move(old_payload, old_mapping, NULL, mapping, GRANULE_BYTES);
    if (!target)
        return false;
    granule_map_set(old_payload, old_mapping, NULL);
    if (granule_map_set(target, mapping, block) &&
        pages_move(old_payload, old_mapping, target, mapping)) {
        block->payload = target;
        return true;
    }
    granule_map_set(target, mapping, NULL);
    pages_unmap(target, mapping);
    granule_map_set(old_payload, old_mapping, block);
    return false;
}

/* Gives a block without an entry in the granule map back to the kernel. */
static void give_back(struct large_block *block)
{
    account_mapped(-(ptrdiff_t)block->usable_bytes);
    if (pages_unmap(block->payload, mapping_bytes(block->usable_bytes)))
        put(&unused_records, block);
    else
        put(&parked, block);
}

/* With the lock held. */
static void unlink_kept(struct large_block *block)
{
    unlink_from(&kept, block);
    kept_blocks--;
    kept_bytes -= mapping_bytes(block->usable_bytes);
}

/* The oldest of those kept if they are more than allowed, else NULL. */
static struct large_block *take_surplus(size_t most_bytes)
{
    lock_acquire(&large_lock);
    struct large_block *oldest = kept;
    if (kept_blocks <= KEPT_BLOCKS && kept_bytes <= most_bytes)
        oldest = NULL;
    while (oldest && oldest->next)
        oldest = oldest->next;
    if (oldest)
        unlink_kept(oldest);
    lock_release(&large_lock);
    return oldest;
}

size_t large_trim(size_t most_bytes)
{
    size_t bytes = 0;
    for (struct large_block *block; (block = take_surplus(most_bytes));) {
        bytes += block->usable_bytes;
        give_back(block);
    }
    return bytes;
}

static void keep(struct large_block *block)
{
    lock_acquire(&large_lock);
    push(&kept, block);
    kept_blocks++;
    kept_bytes += mapping_bytes(block->usable_bytes);
    size_t share = live_bytes / KEPT_SHARE;
    size_t most_bytes = share > kept_least ? share : kept_least;
    lock_release(&large_lock);
    large_trim(most_bytes);
}

void large_keep(size_t bytes)
{
    lock_acquire(&large_lock);
    kept_least = bytes;
    lock_release(&large_lock);
}

/* The one nearest in size, if that is within a factor of two. */
static struct large_block *take_kept(size_t mapping)
{
    struct large_block *best = NULL;
    size_t least_difference = SIZE_MAX;
    lock_acquire(&large_lock);
    for (struct large_block *block = kept; block; block = block->next) {
        size_t found = mapping_bytes(block->usable_bytes);
        size_t difference = found > mapping ? found - mapping : mapping - found;
        if (found <= 2 * mapping && mapping <= 2 * found && difference < least_difference) {
            best = block;
            least_difference = difference;
        }
    }
    if (best)
        unlink_kept(best);
    lock_release(&large_lock);
    return best;
}

/* A block that was kept, made to fit. NULL: there is none. */
static void *reuse(size_t usable, bool zeroed)
{
    size_t mapping = mapping_bytes(usable);
    struct large_block *block = zeroed && usable > CLEARED_MOST ? NULL : take_kept(mapping);
    if (!block)
        return NULL;
    size_t dirty = mapping_bytes(block->usable_bytes);
    bool fits = resize_in_place(block, usable) || move(block, usable);
    if (!fits || !granule_map_set(block->payload, mapping, block)) {
        granule_map_set(block->payload, fits ? mapping : dirty, NULL);
        give_back(block);
        return NULL;
    }
    account_mapped(-(ptrdiff_t)block->usable_bytes);
    block->usable_bytes = usable;
    if (zeroed)
        memset(block->payload, 0, dirty < usable ? dirty : usable);
    enter_live(block);
    return block->payload;
}

static void *map(size_t alignment, size_t usable, bool zeroed)
{
    struct large_block *block = take_record();
    if (!block)
        return NULL;
    block->owner.kind = OWNER_LARGE;
    block->usable_bytes = usable;
    block->payload = pages_map(mapping_bytes(usable), alignment);
    if (!block->payload) {
        put(&unused_records, block);
        return take_parked(alignment, usable, zeroed);
    }
    if (!granule_map_set(block->payload, usable, block)) {
        granule_map_set(block->payload, usable, NULL);
        pages_unmap(block->payload, mapping_bytes(usable));
        put(&unused_records, block);
        return NULL;
    }
    enter_live(block);
    return block->payload;
}

void *large_alloc(size_t alignment, size_t size, bool zeroed)
{
    size_t usable = round_up(size > 0 ? size : 1, PAGE_BYTES);
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    void *payload = alignment <= GRANULE_BYTES ? reuse(usable, zeroed) : NULL;
    if (alignment < GRANULE_BYTES)
        alignment = GRANULE_BYTES;
    if (!payload)
        payload = map(alignment, usable, zeroed);
    if (!payload && large_trim(0) > 0)
        payload = map(alignment, usable, zeroed);
    return payload;
}

void large_check_start(const struct large_block *block, const char *function, void *payload)
{
    if (payload != block->payload)
        abort_on_pointer_fault(function, payload, "points into a block, not to its start");
}

void large_free(struct large_block *block, void *payload)
{
    large_check_start(block, "free", payload);
    leave_live(block);
    granule_map_set(payload, block->usable_bytes, NULL);
    keep(block);
}

static void set_usable(struct large_block *block, size_t usable)
{
    ptrdiff_t change = (ptrdiff_t)usable - (ptrdiff_t)block->usable_bytes;
    lock_acquire(&large_lock);
    block->usable_bytes = usable;
    live_bytes += (uint64_t)change;
    lock_release(&large_lock);
    account_mapped(change);
}

/* A block that grows cannot use what is kept, and asks the kernel for more. So as many kept bytes
 * go back. */
static void trim_for_growth(size_t bytes)
{
    lock_acquire(&large_lock);
    size_t most = kept_bytes;
    lock_release(&large_lock);
    if (most > 0)
        large_trim(most > bytes ? most - bytes : 0);
}

void *large_resize(struct large_block *block, void *payload, size_t size)
{
    large_check_start(block, "realloc", payload);
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    size_t usable = round_up(size, PAGE_BYTES);
    if (usable > block->usable_bytes)
        trim_for_growth(usable - block->usable_bytes);
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
    lock_acquire(&large_lock);
    for (const struct large_block *block = live; block; block = block->next) {
        struct block_info info = {.payload = block->payload,
                                  .usable_bytes = block->usable_bytes,
                                  .block_bytes = block->usable_bytes,
                                  .state = BLOCK_LIVE};
        visit(argument, &info);
    }
    lock_release(&large_lock);
}

void large_statistics(uint64_t *blocks, uint64_t *bytes)
{
    lock_acquire(&large_lock);
    *blocks = live_blocks;
    *bytes = live_bytes;
    lock_release(&large_lock);
}
