/* SPDX-License-Identifier: MIT
 *
 * tagged_heap.c: boundary tags that cost a live block one word, and searches with a bound.
 *
 * A block has a tag with its size and state at its start. At its end it has a second one only while
 * it is free. The tag behind a free block says that it is one, so that a block that is freed finds
 * both neighbours in constant time and merges with whichever is free.
 *
 *   | tag | payload ................................. |  live, at 8 mod 16
 *   | tag | next | previous | .................. | tag |  free, in a bin
 *   | tag | left | right | bytes | rank | ...... | tag |  free, in the tree
 *   | fencepost | block | block | ... | block | fencepost |  a segment of memory
 *
 * Free blocks hang in bins by size (free_bins.h), the one that was put in last at the front. A
 * request looks in its own bin, then in the next larger one that is not empty, and at 64 blocks at
 * most. Where the heap has a tree (free_tree.c), the tree holds the blocks from 16 KiB on. There
 * are few of these: a thread's cache holds none. The wilderness, the free block that ends where
 * the memory ends, hangs nowhere. It is taken when nothing else serves, and memory grows by what it
 * lacks.
 *
 * A tag is sealed: its upper 24 bits depend on its address and on all that it says. So a byte that
 * is written past the end of a block is found when that block or the next one comes back.
 *
 * Invariants
 *   merged       Of two neighbours at least one is live.
 *   after-free   A live block's tag, or a fencepost, says that the block below is free exactly when
 *                it is. So the tag changes when the block below does. The live block's holder may
 *                read it meanwhile, without a lock (tagged_usable_size), so it is read and written
 *                as a whole.
 *
 * Source: D. E. Knuth, TAOCP vol. 1, 2.5; D. Lea, "A memory allocator", 1996 (one tag, the bit for
 * the block below, the wilderness, bins).
 */
#include "alloc/policies/tagged_heap.h"

#include "vm/message.h"
#include "vm/pages.h"

/* What is asked for beyond a block: three words, for the fenceposts and what used to link them. */
enum { GROWTH_BYTES = 8192, EXCESS_BYTES = 24 };

struct tagged_free_block {
    uint64_t tag;
    struct tagged_free_block *next, *previous;
};

/* Tags. */

/* A tag's upper bits: its address, and the lower bits of what it says. */
static uint64_t seal(const void *tag, uint64_t content)
{
    return tag_magic(tag) ^ content << TAG_SIZE_BITS;
}

static void write_tag(void *tag, size_t bytes, enum tag_state state)
{
    uint64_t content = bytes | (uint64_t)state;
    __atomic_store_n((uint64_t *)tag, seal(tag, content) ^ content, __ATOMIC_RELAXED);
}

/* The tag without its seal, as tag_read: intact if its upper bits are zero. */
static uint64_t read_tag(const void *tag)
{
    uint64_t word = __atomic_load_n((const uint64_t *)tag, __ATOMIC_RELAXED);
    return word ^ seal(tag, word);
}

static bool is_live(uint64_t opened)
{
    return tag_is(opened, TAG_LIVE) || tag_is(opened, TAG_LIVE_AFTER_FREE);
}

static bool is_after_free(uint64_t opened)
{
    enum tag_state state = tag_state(opened);
    return state == TAG_LIVE_AFTER_FREE || state == TAG_FENCEPOST_AFTER_FREE;
}

/* The tag of a neighbour or of a free block, which only an overrun can have damaged. */
static uint64_t trusted_tag(const void *tag)
{
    uint64_t opened = read_tag(tag);
    if (!tag_is_intact(opened))
        report_damaged_tag(tag);
    return opened;
}

/* Tells the live block or fencepost at `tag`, which says `opened`, that the block below is no
 * longer what it was. */
static void change_after_free(char *tag, uint64_t opened)
{
    write_tag(tag, tag_size(opened), tag_state(opened) ^ TAG_AFTER_FREE);
}

static void set_free(char *block, size_t bytes)
{
    write_tag(block, bytes, TAG_FREE);
    write_tag(block + bytes - TAG_BYTES, bytes, TAG_FREE);
}

/* Blocks. */

/* Bytes of the block that serves a request. */
static size_t block_bytes(size_t size)
{
    size_t bytes = round_up(size + TAG_BYTES, BLOCK_ALIGNMENT);
    return bytes < TAGGED_MIN_BLOCK ? TAGGED_MIN_BLOCK : bytes;
}

static char *block_of(const void *payload)
{
    return (char *)(uintptr_t)payload - TAG_BYTES;
}

/* The tag before a payload, without its seal. It is not intact where no block can be. */
static uint64_t head_of(const struct tagged_heap *heap, const void *payload)
{
    if ((uintptr_t)payload % BLOCK_ALIGNMENT != 0 || begins_segment(heap->pages, payload))
        return UINT64_MAX;
    return read_tag(block_of(payload));
}

/* The tag of a block that the program hands in. */
static uint64_t live_tag(const struct tagged_heap *heap, const char *function, const void *payload)
{
    uint64_t opened = head_of(heap, payload);
    if (!is_live(opened))
        abort_on_pointer_fault(function, payload,
                               "not a live block (freed twice, never handed out, or its tag was "
                               "overwritten)");
    return opened;
}

/* The tag behind that block. */
static uint64_t tag_behind(const char *function, const void *payload, size_t bytes)
{
    uint64_t opened = read_tag(block_of(payload) + bytes);
    if (!tag_is_intact(opened))
        abort_on_pointer_fault(function, payload,
                               "the tag behind it was overwritten, probably by the block itself");
    return opened;
}

/* The size of a free block, by `opened`, one of its tags. Both tags must agree. */
static size_t free_block_bytes(const char *block, uint64_t opened)
{
    const char *upper = block + tag_size(opened) - TAG_BYTES;
    if (read_tag(block) != opened || tag_state(opened) != TAG_FREE)
        report_damaged_tag(block);
    if (read_tag(upper) != opened)
        report_damaged_tag(upper);
    return tag_size(opened);
}

/* The free blocks. */

static bool is_in_tree(const struct tagged_heap *heap, size_t bytes)
{
    return heap->has_tree && bytes >= TAGGED_LEAST_IN_TREE;
}

static bool is_wilderness(const struct tagged_heap *heap, const char *block, size_t bytes)
{
    return block + bytes == heap->fencepost;
}

static unsigned bin_of(size_t bytes)
{
    return free_bin_of(bytes / BLOCK_ALIGNMENT);
}

static void put_into_bin(struct tagged_heap *heap, char *start, size_t bytes)
{
    struct tagged_free_block *block = (struct tagged_free_block *)start;
    unsigned bin = bin_of(bytes);
    block->previous = NULL;
    block->next = heap->bins[bin];
    if (block->next)
        block->next->previous = block;
    heap->bins[bin] = block;
    free_bin_set(&heap->bin_map, bin);
}

static void remove_from_bin(struct tagged_heap *heap, char *start, size_t bytes)
{
    struct tagged_free_block *block = (struct tagged_free_block *)start;
    unsigned bin = bin_of(bytes);
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else if (!(heap->bins[bin] = block->next))
        free_bin_clear(&heap->bin_map, bin);
}

/* Hangs up a free block, tags and all. */
static void put(struct tagged_heap *heap, char *block, size_t bytes)
{
    set_free(block, bytes);
    if (is_wilderness(heap, block, bytes))
        heap->wilderness_bytes = bytes;
    else if (is_in_tree(heap, bytes))
        free_tree_insert(&heap->tree, block, bytes);
    else
        put_into_bin(heap, block, bytes);
}

static free_link link_of(struct tagged_heap *heap, const char *block)
{
    free_link link = free_tree_find(&heap->tree, block);
    check(link != NULL);
    return link;
}

static void take_down(struct tagged_heap *heap, char *block, size_t bytes)
{
    if (is_wilderness(heap, block, bytes))
        heap->wilderness_bytes = 0;
    else if (is_in_tree(heap, bytes))
        free_tree_remove(link_of(heap, block));
    else
        remove_from_bin(heap, block, bytes);
}

/* Freeing. */

/* Replaces the free block `old` by a larger one of which it is a part. The rest of that hangs
 * nowhere. A block of the tree is widened there, unless the larger one is the wilderness. */
static void widen(struct tagged_heap *heap, char *old, size_t old_bytes, char *block, size_t bytes)
{
    bool stays = is_in_tree(heap, old_bytes) && !is_wilderness(heap, old, old_bytes) &&
                 !is_wilderness(heap, block, bytes);
    if (stays) {
        free_tree_widen(&heap->tree, old, block, bytes);
        set_free(block, bytes);
    } else {
        take_down(heap, old, old_bytes);
        put(heap, block, bytes);
    }
}

/* Puts a live block among the free ones, merged with its neighbours. own, above: its tag, and the
 * one behind it. */
static void release(struct tagged_heap *heap, char *block, uint64_t own, uint64_t above)
{
    size_t bytes = tag_size(own), lower_bytes = 0, upper_bytes = 0;
    char *lower = block, *upper = block + bytes;
    heap->free_bytes += bytes;
    if (is_after_free(own)) {
        uint64_t below = trusted_tag(block - TAG_BYTES);
        lower -= tag_size(below);
        lower_bytes = free_block_bytes(lower, below);
        count_merge(&heap->counters);
    }
    if (tag_state(above) == TAG_FREE) {
        upper_bytes = free_block_bytes(upper, above);
        count_merge(&heap->counters);
    } else {
        change_after_free(upper, above);
    }
    bytes += lower_bytes + upper_bytes;
    if (lower_bytes > 0) {
        if (upper_bytes > 0)
            take_down(heap, upper, upper_bytes);
        write_tag(block, tag_size(own), TAG_FREE); /* who frees it again is found out */
        widen(heap, lower, lower_bytes, lower, bytes);
    } else if (upper_bytes > 0) {
        widen(heap, upper, upper_bytes, block, bytes);
    } else {
        put(heap, block, bytes);
    }
}

void tagged_free(void *state, void *payload)
{
    struct tagged_heap *heap = state;
    uint64_t own = live_tag(heap, "free", payload);
    release(heap, block_of(payload), own, tag_behind("free", payload, tag_size(own)));
}

/* Allocating. */

/* The first block that serves of a bin that is not empty, among as many as a search may look at. */
static char *find_in_bin(const struct tagged_heap *heap, unsigned bin, size_t bytes,
                         uint64_t *length)
{
    const struct tagged_free_block *block = heap->bins[bin];
    for (unsigned i = 0; block && i < BINNED_SEARCH_LIMIT; i++, block = block->next) {
        ++*length;
        if (tag_size(trusted_tag(block)) >= bytes)
            return (char *)(uintptr_t)block;
    }
    return NULL;
}

static char *find_binned(struct tagged_heap *heap, size_t bytes)
{
    unsigned bin = free_bin_next(&heap->bin_map, bin_of(bytes));
    char *block = NULL;
    while (!block && bin < FREE_BINS) {
        uint64_t length = 0;
        block = find_in_bin(heap, bin, bytes, &length);
        count_search(&heap->counters, length);
        bin = free_bin_next(&heap->bin_map, bin + 1);
    }
    return block;
}

/* The wilderness is about to be none. */
static void keep_wilderness(struct tagged_heap *heap)
{
    char *end = heap->fencepost;
    size_t bytes = heap->wilderness_bytes;
    heap->fencepost = NULL;
    heap->wilderness_bytes = 0;
    if (bytes > 0)
        put(heap, end - bytes, bytes);
}

/* Gives the wilderness what a block of `bytes` needs; a new one, if memory does not adjoin. */
static bool extend(struct tagged_heap *heap, size_t bytes)
{
    bytes = (bytes + EXCESS_BYTES) / GROWTH_BYTES * GROWTH_BYTES + GROWTH_BYTES;
    char *start = heap->pages->extend(heap->pages, bytes);
    if (!start)
        return false;
    if (!heap->tree.origin)
        heap->tree.origin = (uintptr_t)start;
    char *block = start - TAG_BYTES; /* where the fencepost is */
    if (heap->fencepost == block) {
        heap->free_bytes += bytes;
        block -= heap->wilderness_bytes;
        bytes += heap->wilderness_bytes;
    } else {
        keep_wilderness(heap);
        write_tag(start, 0, TAG_FENCEPOST);
        block = start + TAG_BYTES;
        bytes -= 2 * TAG_BYTES;
        heap->free_bytes += bytes;
    }
    heap->fencepost = block + bytes;
    write_tag(heap->fencepost, 0, TAG_FENCEPOST_AFTER_FREE);
    put(heap, block, bytes);
    return true;
}

/* The wilderness, grown if need be to at least `bytes`. NULL: refused. Memory that does not adjoin
 * has to hold them all. */
static char *obtain_wilderness(struct tagged_heap *heap, size_t bytes)
{
    if (heap->wilderness_bytes < bytes && !extend(heap, bytes - heap->wilderness_bytes))
        return NULL;
    if (heap->wilderness_bytes < bytes && !extend(heap, bytes))
        return NULL;
    return heap->fencepost - heap->wilderness_bytes;
}

/* Takes `bytes` out of a free block that has them, from its end if so asked. link: where it hangs
 * in the tree; NULL where it does not. */
static char *take(struct tagged_heap *heap, char *block, free_link link, size_t bytes,
                  bool from_end)
{
    size_t found = free_block_bytes(block, trusted_tag(block)), rest = found - bytes;
    char *taken = block;
    if (rest < TAGGED_MIN_BLOCK) {
        bytes = found;
        rest = 0;
    }
    if (link && !from_end && is_in_tree(heap, rest)) {
        free_tree_cut(link, bytes);
        set_free(block + bytes, rest);
    } else {
        if (link)
            free_tree_remove(link);
        else
            take_down(heap, block, found);
        if (from_end)
            taken += rest;
        else
            block += bytes;
        if (rest > 0)
            put(heap, block, rest);
    }
    write_tag(taken, bytes, from_end && rest > 0 ? TAG_LIVE_AFTER_FREE : TAG_LIVE);
    if (from_end || rest == 0)
        change_after_free(taken + bytes, trusted_tag(taken + bytes));
    if (rest > 0)
        count_split(&heap->counters);
    heap->free_bytes -= bytes;
    return taken;
}

static char *take_room(struct tagged_heap *heap, size_t bytes)
{
    free_link link = NULL;
    char *block = find_binned(heap, bytes);
    if (!block && heap->has_tree) {
        uint64_t length = 0;
        link = free_tree_find_room(&heap->tree, bytes, &length);
        count_search(&heap->counters, length);
        block = link ? (char *)*link : NULL;
    }
    if (!block)
        block = obtain_wilderness(heap, bytes);
    return block ? take(heap, block, link, bytes, heap->cut_from_end) : NULL;
}

void *tagged_alloc(void *heap, size_t size)
{
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return NULL;
    char *block = take_room(heap, block_bytes(size));
    return block ? block + TAG_BYTES : NULL;
}

/* Cuts a live block in two; returns the upper. */
static char *cut(char *block, uint64_t own, size_t bytes)
{
    write_tag(block, bytes, tag_state(own));
    write_tag(block + bytes, tag_size(own) - bytes, TAG_LIVE);
    return block + bytes;
}

/* Gives back what a live block has beyond `needed`, if that makes a block. */
static void shed(struct tagged_heap *heap, char *block, size_t needed)
{
    uint64_t own = read_tag(block), above = trusted_tag(block + tag_size(own));
    if (tag_size(own) - needed < TAGGED_MIN_BLOCK)
        return;
    char *rest = cut(block, own, needed);
    release(heap, rest, read_tag(rest), above);
    count_split(&heap->counters);
}

/* A block that holds the alignment, whose front and rest go back. */
void *tagged_alloc_aligned(void *state, size_t alignment, size_t size)
{
    struct tagged_heap *heap = state;
    if (size >> (TAG_SIZE_BITS - 1) != 0 || alignment >> (TAG_SIZE_BITS - 2) != 0)
        return NULL;
    size_t needed = block_bytes(size);
    char *block = take_room(heap, needed + alignment + TAGGED_MIN_BLOCK);
    if (!block)
        return NULL;
    char *payload = block + TAG_BYTES;
    if ((uintptr_t)payload % alignment != 0) {
        char *aligned = (char *)round_up((uintptr_t)payload + TAGGED_MIN_BLOCK, alignment);
        size_t front = (size_t)(aligned - payload);
        char *front_block = block;
        block = cut(block, read_tag(block), front);
        release(heap, front_block, read_tag(front_block), read_tag(block));
    }
    shed(heap, block, needed);
    return block + TAG_BYTES;
}

bool tagged_resize(void *state, void *payload, size_t size)
{
    struct tagged_heap *heap = state;
    uint64_t own = live_tag(heap, "realloc", payload);
    uint64_t above = tag_behind("realloc", payload, tag_size(own));
    char *block = block_of(payload), *upper = block + tag_size(own);
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return false;
    size_t needed = block_bytes(size);
    if (needed <= tag_size(own)) {
        shed(heap, block, needed);
        return true;
    }
    if (tag_state(above) != TAG_FREE || tag_size(own) + tag_size(above) < needed)
        return false;
    take(heap, upper, NULL, needed - tag_size(own), false);
    write_tag(block, tag_size(own) + tag_size(read_tag(upper)), tag_state(own));
    count_merge(&heap->counters);
    return true;
}

size_t tagged_usable_size(void *heap, const void *payload)
{
    uint64_t opened = head_of(heap, payload);
    return is_live(opened) ? tag_size(opened) - TAG_BYTES : 0;
}

struct block_waste tagged_waste(void *heap, const void *payload)
{
    (void)heap;
    (void)payload;
    return (struct block_waste){.header_bytes = TAG_BYTES};
}

/* Looking in from outside. */

static bool describe_block(const char *block, const char *end, struct block_info *info)
{
    uint64_t opened = read_tag(block);
    size_t bytes = tag_size(opened);
    if (!tag_is_intact(opened) || bytes < TAGGED_MIN_BLOCK || bytes > (size_t)(end - block))
        return false;
    info->payload = (char *)(uintptr_t)block + TAG_BYTES;
    info->usable_bytes = bytes - TAG_BYTES;
    info->block_bytes = bytes;
    info->state = tag_state(opened) == TAG_FREE ? BLOCK_FREE : BLOCK_LIVE;
    if (info->state == BLOCK_LIVE)
        return is_live(opened);
    return read_tag(block + bytes - TAG_BYTES) == opened;
}

/* False when the blocks between the fenceposts are not whole, or not merged, or a tag is wrong
 * about the block below. */
static bool walk_segment(const char *start, const char *end, heap_visitor *visit, void *argument)
{
    const char *block = start + TAG_BYTES;
    bool after_free = false;
    if (start == end)
        return true;
    if (!tag_is(read_tag(start), TAG_FENCEPOST))
        return false;
    while (block < end - TAG_BYTES) {
        struct block_info info;
        if (!describe_block(block, end, &info) ||
            after_free != (info.state == BLOCK_LIVE && is_after_free(read_tag(block))))
            return false;
        after_free = info.state == BLOCK_FREE;
        if (visit)
            visit(argument, &info);
        block += info.block_bytes;
    }
    return block == end - TAG_BYTES &&
           tag_is(read_tag(block), after_free ? TAG_FENCEPOST_AFTER_FREE : TAG_FENCEPOST);
}

static bool walk_segments(const struct tagged_heap *heap, heap_visitor *visit, void *argument)
{
    char *start, *end;
    bool valid = true;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        valid = walk_segment(start, end, visit, argument) && valid;
    return valid;
}

void tagged_walk(void *heap, heap_visitor *visit, void *argument)
{
    walk_segments(heap, visit, argument);
}

static size_t count_binned(const struct tagged_heap *heap)
{
    size_t count = 0;
    for (unsigned bin = 0; bin < FREE_BINS; bin++)
        for (const struct tagged_free_block *block = heap->bins[bin]; block; block = block->next)
            count++;
    return count;
}

void tagged_statistics(void *state, struct heap_statistics *statistics)
{
    const struct tagged_heap *heap = state;
    size_t depth = 0;
    statistics->free_blocks += count_binned(heap) + free_tree_count(&heap->tree, &depth);
    statistics->free_blocks += heap->wilderness_bytes > 0;
    statistics->free_bytes += heap->free_bytes;
    if (statistics->tree_depth < depth)
        statistics->tree_depth = depth;
    add_counters(statistics, &heap->counters);
}

struct census {
    struct tagged_heap *heap;
    size_t binned, in_tree, bytes;
    bool valid;
};

static void count_block(void *argument, const struct block_info *info)
{
    struct census *census = argument;
    struct tagged_heap *heap = census->heap;
    char *block = block_of(info->payload);
    if (info->state != BLOCK_FREE)
        return;
    census->bytes += info->block_bytes;
    if (is_wilderness(heap, block, info->block_bytes))
        return;
    if (is_in_tree(heap, info->block_bytes)) {
        census->in_tree++;
        census->valid = census->valid && free_tree_holds(&heap->tree, block, info->block_bytes);
    } else {
        census->binned++;
    }
}

/* Every bin holds free blocks of its sizes, and the map tells which hold any. */
static bool bins_are_valid(const struct tagged_heap *heap, size_t count)
{
    size_t seen = 0;
    for (unsigned bin = 0; bin < FREE_BINS; bin++) {
        const struct tagged_free_block *block = heap->bins[bin], *previous = NULL;
        if ((free_bin_next(&heap->bin_map, bin) == bin) != (block != NULL))
            return false;
        for (; block; previous = block, block = block->next) {
            uint64_t opened = read_tag(block);
            if (!tag_is(opened, TAG_FREE) || bin_of(tag_size(opened)) != bin ||
                block->previous != previous || ++seen > count)
                return false;
        }
    }
    return seen == count;
}

/* All free blocks but the wilderness hang where they should, and nothing else does. */
bool tagged_is_valid(void *state)
{
    struct tagged_heap *heap = state;
    struct census census = {.heap = heap, .valid = true};
    size_t depth = 0;
    return walk_segments(heap, count_block, &census) && census.valid &&
           census.bytes == heap->free_bytes &&
           census.in_tree == free_tree_count(&heap->tree, &depth) &&
           bins_are_valid(heap, census.binned);
}
