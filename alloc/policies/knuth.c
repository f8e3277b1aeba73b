/* SPDX-License-Identifier: MIT
 *
 * knuth.c: boundary-tag first fit with a roving pointer.
 *
 * A block carries its size and state in a word at either end, so freeing finds both neighbours
 * in constant time and merges with whichever is free. Free blocks form a circular list; the search
 * for room starts where the last one ended, which keeps small leftovers from gathering at its
 * front.
 *
 *   | tag | payload ...................... | tag |   live, at 8 mod 16
 *   | tag | ............ | next | previous | tag |   free
 *   | fencepost | block | block | ... | block | fencepost |  a segment of memory
 *
 * The links lie at the high end, as in Moraes's: what a block cut from the start leaves keeps
 * its place in the list and its links, and so does a block that merges with a lower one.
 *
 * Fixed by the sources: the tags, the circular list, merging on free, no remainder below four
 * words, a block cut from the start of the free one (an earlier version: from its end), growth by 8
 * KiB without regard to what the wilderness (the free block that ends where the memory ends) holds,
 * the count of all free words, which has memory grow before a search that would be hopeless, and
 * everything about the order of the list: a freed block goes before the rover, or keeps the place
 * of its upper, else its lower neighbour; the rover moves to every block that is freed; a search
 * begins behind the wilderness if the rover is there; it leaves the rover where it was unless
 * what remains, or what follows a block taken whole, is larger than the block the rover is at; a
 * block grows in place into its upper neighbour; when memory grows and nothing is free, new
 * fenceposts are set even if it adjoins.
 *
 * Open, and chosen here: the word that links separate stretches of memory is left out; a block
 * aligned to more than 16 is cut out of a larger one. The tag's check takes no reference of its
 * own.
 *
 * Not followed: a fault in the original's count of free words. Where a block grows into the whole
 * of its upper neighbour, the original subtracts the growth twice. Its count is then too low, and
 * memory grows although a free block would have served.
 *
 * Not as published, where search=short asks for it: a search gives up when the blocks it has not
 * seen hold less than it needs, and none is made where memory has just grown, or where a bound on
 * the other blocks leaves the wilderness only. Blocks lie where they would lie; fewer are looked
 * at. A search may still look at every free block.
 *
 * Where search=binned asks for it, another policy serves (tagged_heap.c): free blocks hang in bins
 * by size, there is no rover, and a live block has one tag.
 *
 * And where end=checked asks for it, the two tags of a block that comes back, and of a free one
 * below it, must agree: a write just past its end has damaged the upper.
 *
 * Source: D. E. Knuth, TAOCP vol. 1, 2.5, algorithms A and C with exercises 6 and 12; as
 * implemented by M. Moraes (CSRI, University of Toronto), whose order of the list this is, and
 * measured by B. Zorn, CU-CS-573-92, 2.1.
 */
#include "alloc/policies/knuth.h"

#include "alloc/policies/tagged_heap.h"
#include "vm/message.h"
#include "vm/pages.h"

/* What is asked for beyond a block: three words, for the fenceposts and what used to link them. */
enum { GROWTH_BYTES = 8192, EXCESS_BYTES = 24 };

/* The last three words of a free block. */
struct knuth_free_block {
    struct knuth_free_block *next, *previous;
    uint64_t tag;
};

static void knuth_init(void *state, struct page_source *pages, const void *options)
{
    struct knuth_heap *heap = state;
    const struct knuth_options *chosen = options;
    heap->pages = pages;
    heap->cut_from_end = chosen->cut == KNUTH_CUT_END;
    heap->short_search = chosen->search == KNUTH_SEARCH_SHORT;
    heap->counters.on = chosen->counters;
    heap->looks_at_end = chosen->end == KNUTH_END_CHECKED;
    heap->alignment = block_alignment_of(chosen->alignment);
}

/* Blocks and tags. */

static void set_tags(void *block, size_t bytes, enum tag_state state)
{
    tag_write(block, bytes, state);
    tag_write((char *)block + bytes - TAG_BYTES, bytes, state);
}

/* Bytes of the block that serves a request: a multiple of the alignment. */
static size_t block_bytes(const struct knuth_heap *heap, size_t size)
{
    size_t bytes = round_up(size + KNUTH_TAGS_BYTES, heap->alignment);
    return bytes < KNUTH_MIN_BLOCK ? KNUTH_MIN_BLOCK : bytes;
}

static struct knuth_free_block *free_block_ending(char *end)
{
    return (struct knuth_free_block *)end - 1;
}

static char *end_of(const struct knuth_free_block *block)
{
    return (char *)(uintptr_t)(block + 1);
}

static char *start_of(const struct knuth_free_block *block, size_t bytes)
{
    return end_of(block) - bytes;
}

static void *tag_before(const void *payload)
{
    return (char *)(uintptr_t)payload - TAG_BYTES;
}

static char *payload_of(void *block)
{
    return (char *)block + TAG_BYTES;
}

/* The tag of a neighbour or of a block in the list, which only an overrun can have damaged. */
static uint64_t trusted_tag(const void *tag)
{
    uint64_t opened = tag_read(tag);
    if (!tag_is_intact(opened))
        report_damaged_tag(tag);
    return opened;
}

static size_t free_block_bytes(const struct knuth_free_block *block)
{
    uint64_t opened = trusted_tag(&block->tag);
    if (tag_state(opened) != TAG_FREE)
        report_damaged_tag(&block->tag);
    return tag_size(opened);
}

/* The tag before a payload, without its magic. It is not intact where no block can be. */
static uint64_t head_of(const struct knuth_heap *heap, const void *payload)
{
    if ((uintptr_t)payload % heap->alignment != 0 || begins_segment(heap->pages, payload))
        return UINT64_MAX;
    return tag_read(tag_before(payload));
}

/* The tag of a block that the program hands in. */
static size_t allocated_block_bytes(const struct knuth_heap *heap, const char *function,
                                    const void *payload)
{
    uint64_t opened = head_of(heap, payload);
    if (!tag_is(opened, TAG_LIVE))
        abort_on_pointer_fault(function, payload,
                               "not a live block (freed twice, never handed out, or its tag was "
                               "overwritten)");
    size_t bytes = tag_size(opened);
    if (heap->looks_at_end && tag_read((char *)tag_before(payload) + bytes - TAG_BYTES) != opened)
        abort_on_pointer_fault(function, payload,
                               "the tag at its end was overwritten, probably by the block itself");
    return bytes;
}

/* The circular list of free blocks. */

static void unlink_block(struct knuth_free_block *block)
{
    block->next->previous = block->previous;
    block->previous->next = block->next;
}

/* `block` takes the place of `old`. */
static void replace_in_list(struct knuth_free_block *old, struct knuth_free_block *block)
{
    struct knuth_free_block *next = old->next, *previous = old->previous;
    if (next == old) {
        next = previous = block;
    }
    block->next = next;
    block->previous = previous;
    next->previous = block;
    previous->next = block;
}

/* place: NULL begins a list. */
static void link_before(struct knuth_free_block *place, struct knuth_free_block *block)
{
    if (!place) {
        block->next = block->previous = block;
        return;
    }
    block->next = place;
    block->previous = place->previous;
    block->previous->next = block;
    place->previous = block;
}

static bool is_wilderness(const struct knuth_heap *heap, const struct knuth_free_block *block)
{
    return end_of(block) == heap->fencepost;
}

static size_t wilderness_bytes(const struct knuth_heap *heap)
{
    if (!heap->fencepost)
        return 0;
    uint64_t last = trusted_tag(heap->fencepost - TAG_BYTES);
    return tag_state(last) == TAG_FREE ? tag_size(last) : 0;
}

static void raise_bound(struct knuth_heap *heap, size_t bytes)
{
    if (bytes > heap->bound)
        heap->bound = bytes;
}

/* Memory. */

/* Where end=checked: the tag at a free block's start must be the one at its end, `tag`. */
static void check_start(const struct knuth_heap *heap, const struct knuth_free_block *block,
                        uint64_t tag)
{
    char *start = start_of(block, tag_size(tag));
    if (heap->looks_at_end && tag_read(start) != tag)
        report_damaged_tag(start);
}

/* Puts a block, which must be tagged as allocated, into the list, merged with its neighbours. */
static void release(struct knuth_heap *heap, char *block, size_t bytes)
{
    uint64_t below = trusted_tag(block - TAG_BYTES), above = trusted_tag(block + bytes);
    struct knuth_free_block *lower = NULL, *merged = free_block_ending(block + bytes);
    heap->free_bytes += bytes;
    if (tag_state(below) == TAG_FREE) {
        lower = free_block_ending(block);
        check_start(heap, lower, below);
        block -= tag_size(below);
        bytes += tag_size(below);
        count_merge(&heap->counters);
    }
    if (tag_state(above) == TAG_FREE) {
        bytes += tag_size(above);
        merged = free_block_ending(block + bytes);
        if (lower)
            unlink_block(lower);
        count_merge(&heap->counters);
    } else if (lower) {
        replace_in_list(lower, merged);
    } else {
        link_before(heap->rover, merged);
    }
    set_tags(block, bytes, TAG_FREE);
    if (!is_wilderness(heap, merged))
        raise_bound(heap, bytes);
    heap->rover = merged;
}

/* Gets what a block of `bytes` needs, fenceposts included, whatever is free already. Where nothing
 * is free, even memory that adjoins begins anew, as published. The rover is then at the new memory.
 */
static bool extend(struct knuth_heap *heap, size_t bytes)
{
    bytes = (bytes + EXCESS_BYTES) / GROWTH_BYTES * GROWTH_BYTES + GROWTH_BYTES;
    char *start = heap->pages->extend(heap->pages, bytes);
    if (!start)
        return false;
    char *block = heap->fencepost;
    if (!block || start != block + TAG_BYTES || !heap->rover) {
        raise_bound(heap, wilderness_bytes(heap)); /* it is about to be none */
        tag_write(start, 0, TAG_FENCEPOST);
        block = start + TAG_BYTES;
        bytes -= 2 * TAG_BYTES;
    }
    heap->fencepost = block + bytes;
    tag_write(heap->fencepost, 0, TAG_FENCEPOST);
    set_tags(block, bytes, TAG_LIVE);
    release(heap, block, bytes);
    return true;
}

/* The wilderness, if it has at least `bytes`. */
static struct knuth_free_block *sufficient_wilderness(const struct knuth_heap *heap, size_t bytes)
{
    return wilderness_bytes(heap) >= bytes ? free_block_ending(heap->fencepost) : NULL;
}

/* First fit from the rover on; the wilderness, if the rover is there, comes last. NULL when no
 * block is large enough. */
static struct knuth_free_block *find_room(struct knuth_heap *heap, size_t bytes)
{
    if (heap->short_search && bytes > heap->bound)
        return sufficient_wilderness(heap, bytes);
    struct knuth_free_block *start = heap->rover;
    if (is_wilderness(heap, start))
        start = start->next;
    struct knuth_free_block *block = start;
    size_t unseen_bytes = heap->free_bytes;
    uint64_t length = 0;
    bool found = false;
    do {
        size_t block_bytes = free_block_bytes(block);
        length++;
        found = block_bytes >= bytes;
        if (found)
            break;
        unseen_bytes -= block_bytes;
        block = block->next;
    } while (block != start && (!heap->short_search || unseen_bytes >= bytes));
    count_search(&heap->counters, length);
    if (!found)
        heap->bound = bytes - 1;
    return found ? block : NULL;
}

/* A free block of at least `bytes`, grown for it if need be. The rover's block may be another.
 * NULL: refused. */
static struct knuth_free_block *obtain_room(struct knuth_heap *heap, size_t bytes)
{
    struct knuth_free_block *block = NULL;
    bool hopeless = !heap->rover || bytes > heap->free_bytes;
    if (hopeless && !extend(heap, bytes))
        return NULL;
    if (!hopeless || !heap->short_search)
        block = find_room(heap, bytes);
    if (block)
        return block;
    return hopeless || extend(heap, bytes) ? heap->rover : NULL;
}

/* Cuts `bytes` off a free block and leaves `rest`, which stays in the list where the whole was.
 * From the start: nothing is linked anew. *block becomes what is left. */
static char *cut(struct knuth_heap *heap, struct knuth_free_block **block, size_t bytes,
                 size_t rest)
{
    char *start = start_of(*block, bytes + rest), *taken = start;
    if (heap->cut_from_end) {
        struct knuth_free_block *whole = *block;
        taken += rest;
        *block = free_block_ending(taken);
        replace_in_list(whole, *block);
        if (heap->rover == whole)
            heap->rover = *block;
    } else {
        start += bytes;
    }
    set_tags(start, rest, TAG_FREE);
    if (!is_wilderness(heap, *block))
        raise_bound(heap, rest);
    count_split(&heap->counters);
    return taken;
}

/* Takes `bytes` out of a free block that has them, and keeps the rover at the larger block. */
static char *take(struct knuth_heap *heap, struct knuth_free_block *block, size_t bytes)
{
    size_t found = free_block_bytes(block), rest = found - bytes;
    bool is_rover = block == heap->rover;
    size_t rover_bytes = is_rover ? found : free_block_bytes(heap->rover);
    char *taken = start_of(block, found);
    if (rest >= KNUTH_MIN_BLOCK) {
        taken = cut(heap, &block, bytes, rest);
        if (rest > rover_bytes)
            heap->rover = block;
    } else {
        struct knuth_free_block *next = block->next;
        bytes = found;
        unlink_block(block);
        if (next == block)
            heap->rover = NULL;
        else if (is_rover || free_block_bytes(next) > rover_bytes)
            heap->rover = next;
    }
    heap->free_bytes -= bytes;
    set_tags(taken, bytes, TAG_LIVE);
    return taken;
}

/* The seam. */

static void *knuth_alloc(void *state, size_t size)
{
    struct knuth_heap *heap = state;
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return NULL;
    size_t bytes = block_bytes(heap, size);
    struct knuth_free_block *block = obtain_room(heap, bytes);
    return block ? payload_of(take(heap, block, bytes)) : NULL;
}

static void knuth_free(void *state, void *payload)
{
    struct knuth_heap *heap = state;
    size_t bytes = allocated_block_bytes(heap, "free", payload);
    release(heap, tag_before(payload), bytes);
}

/* Gives back what a live block of `bytes` has beyond `needed`, if that makes a block. */
static void shed(struct knuth_heap *heap, char *block, size_t bytes, size_t needed)
{
    if (bytes - needed < KNUTH_MIN_BLOCK)
        return;
    set_tags(block, needed, TAG_LIVE);
    set_tags(block + needed, bytes - needed, TAG_LIVE);
    release(heap, block + needed, bytes - needed);
    count_split(&heap->counters);
}

/* A block that holds the alignment, whose front and rest go back. */
static void *knuth_alloc_aligned(void *state, size_t alignment, size_t size)
{
    struct knuth_heap *heap = state;
    if (size >> (TAG_SIZE_BITS - 1) != 0 || alignment >> (TAG_SIZE_BITS - 2) != 0)
        return NULL;
    size_t needed = block_bytes(heap, size);
    char *payload = knuth_alloc(heap, needed - KNUTH_TAGS_BYTES + alignment + KNUTH_MIN_BLOCK);
    if (!payload)
        return NULL;
    char *block = tag_before(payload);
    size_t bytes = allocated_block_bytes(heap, "memalign", payload);
    if ((uintptr_t)payload % alignment != 0) {
        char *aligned = (char *)round_up((uintptr_t)payload + KNUTH_MIN_BLOCK, alignment);
        size_t front = (size_t)(aligned - payload);
        set_tags(block + front, bytes - front, TAG_LIVE);
        set_tags(block, front, TAG_LIVE);
        release(heap, block, front);
        block += front;
        bytes -= front;
    }
    shed(heap, block, bytes, needed);
    return payload_of(block);
}

/* Grows a live block by `missing` bytes at least, out of its free upper neighbour, which has them.
 * Always from the neighbour's start; the rover moves on only if all of it goes. */
static size_t grow_into(struct knuth_heap *heap, struct knuth_free_block *upper, size_t missing)
{
    size_t found = free_block_bytes(upper), rest = found - missing;
    if (rest >= KNUTH_MIN_BLOCK) {
        set_tags(end_of(upper) - rest, rest, TAG_FREE);
        count_split(&heap->counters);
        found = missing;
    } else {
        heap->rover = upper->next == upper ? NULL : upper->next;
        unlink_block(upper);
    }
    heap->free_bytes -= found;
    count_merge(&heap->counters);
    return found;
}

static bool knuth_resize(void *state, void *payload, size_t size)
{
    struct knuth_heap *heap = state;
    size_t bytes = allocated_block_bytes(heap, "realloc", payload);
    char *block = tag_before(payload);
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return false;
    size_t needed = block_bytes(heap, size);
    if (needed <= bytes) {
        shed(heap, block, bytes, needed);
        return true;
    }
    uint64_t above = trusted_tag(block + bytes);
    if (tag_state(above) != TAG_FREE || bytes + tag_size(above) < needed)
        return false;
    struct knuth_free_block *upper = free_block_ending(block + bytes + tag_size(above));
    bytes += grow_into(heap, upper, needed - bytes);
    set_tags(block, bytes, TAG_LIVE);
    return true;
}

static size_t knuth_usable_size(void *state, const void *payload)
{
    const struct knuth_heap *heap = state;
    uint64_t opened = head_of(heap, payload);
    return tag_is(opened, TAG_LIVE) ? tag_size(opened) - KNUTH_TAGS_BYTES : 0;
}

static struct block_waste knuth_waste(void *state, const void *payload)
{
    (void)state;
    (void)payload;
    return (struct block_waste){.header_bytes = KNUTH_TAGS_BYTES};
}

/* Looking in from outside. */

static bool describe_block(const char *block, const char *end, struct block_info *info)
{
    uint64_t opened = tag_read(block);
    size_t bytes = tag_size(opened);
    if (!tag_is_intact(opened) || bytes < KNUTH_MIN_BLOCK || bytes > (size_t)(end - block) ||
        tag_read(block + bytes - TAG_BYTES) != opened)
        return false;
    info->payload = (char *)(uintptr_t)block + TAG_BYTES;
    info->usable_bytes = bytes - KNUTH_TAGS_BYTES;
    info->block_bytes = bytes;
    info->state = tag_state(opened) == TAG_FREE ? BLOCK_FREE : BLOCK_LIVE;
    return info->state == BLOCK_FREE || tag_state(opened) == TAG_LIVE;
}

/* False when the blocks between the fenceposts are not whole. */
static bool walk_segment(const char *start, const char *end, heap_visitor *visit, void *argument)
{
    const char *block = start + TAG_BYTES;
    if (start == end)
        return true;
    if (!tag_is(tag_read(start), TAG_FENCEPOST))
        return false;
    while (block < end - TAG_BYTES) {
        struct block_info info;
        if (tag_is(tag_read(block), TAG_FENCEPOST)) { /* two, where memory began anew */
            block += TAG_BYTES;
            if (!tag_is(tag_read(block), TAG_FENCEPOST))
                return false;
            block += TAG_BYTES;
            continue;
        }
        if (!describe_block(block, end, &info))
            return false;
        if (visit)
            visit(argument, &info);
        block += info.block_bytes;
    }
    return block == end - TAG_BYTES && tag_is(tag_read(block), TAG_FENCEPOST);
}

static bool walk_segments(const struct knuth_heap *heap, heap_visitor *visit, void *argument)
{
    char *start, *end;
    bool valid = true;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        valid = walk_segment(start, end, visit, argument) && valid;
    return valid;
}

static void knuth_walk(void *state, heap_visitor *visit, void *argument)
{
    walk_segments(state, visit, argument);
}

static void knuth_statistics(void *state, struct heap_statistics *statistics)
{
    const struct knuth_heap *heap = state;
    const struct knuth_free_block *block = heap->rover;
    for (size_t bytes = 0; bytes < heap->free_bytes; bytes += free_block_bytes(block)) {
        statistics->free_blocks++;
        block = block->next;
    }
    statistics->free_bytes += heap->free_bytes;
    add_counters(statistics, &heap->counters);
}

struct census {
    const char *fencepost;
    size_t free_blocks, free_bytes, largest; /* the wilderness apart */
    bool last_was_free, unmerged;
    const char *last_end;
};

static void count_block(void *argument, const struct block_info *info)
{
    struct census *census = argument;
    char *block = tag_before(info->payload);
    bool is_free = info->state == BLOCK_FREE;
    if (is_free) {
        census->free_blocks++;
        census->free_bytes += info->block_bytes;
        if (info->block_bytes > census->largest && block + info->block_bytes != census->fencepost)
            census->largest = info->block_bytes;
    }
    if (is_free && census->last_was_free && census->last_end == block)
        census->unmerged = true;
    census->last_was_free = is_free;
    census->last_end = block + info->block_bytes;
}

/* All free blocks, `count` of them, form one circular list. */
static bool list_is_valid(const struct knuth_heap *heap, size_t count)
{
    const struct knuth_free_block *block = heap->rover;
    if (!block || count == 0)
        return !block && count == 0;
    for (size_t i = 0; i < count; i++) {
        if (!tag_is(tag_read(&block->tag), TAG_FREE) || block->next->previous != block)
            return false;
        block = block->next;
        if (block == heap->rover && i + 1 < count)
            return false;
    }
    return block == heap->rover;
}

static bool knuth_is_valid(void *state)
{
    struct knuth_heap *heap = state;
    struct census census = {.fencepost = heap->fencepost};
    return walk_segments(heap, count_block, &census) && !census.unmerged &&
           census.free_bytes == heap->free_bytes && census.largest <= heap->bound &&
           list_is_valid(heap, census.free_blocks);
}

#define DESCRIPTION                                                                      \
    .name = "knuth",                                                                     \
    .title = "boundary-tag first fit with a roving pointer (Knuth, as built by Moraes)", \
    .source = "D. E. Knuth, The Art of Computer Programming, vol. 1, 2.5",               \
    .options = knuth_options

const struct option_description knuth_options[] = {
    KNUTH_OPTIONS(0, KNUTH_SEARCH_PUBLISHED, false),
    ALIGNMENT_OPTION(0, struct knuth_options, alignment),
    KNUTH_FIXED_OPTIONS(0, KNUTH_END_TRUSTED),
    {.key = ""},
};

/* search=binned. */

static void binned_init(void *state, struct page_source *pages, const void *options)
{
    struct tagged_heap *heap = state;
    const struct knuth_options *chosen = options;
    heap->pages = pages;
    heap->cut_from_end = chosen->cut == KNUTH_CUT_END;
    heap->counters.on = chosen->counters;
}

static const struct heap_policy binned_policy = {
    DESCRIPTION,
    .init = binned_init,
    TAGGED_FUNCTIONS,
};

static const struct heap_policy *policy_for(const void *options)
{
    const struct knuth_options *chosen = options;
    return chosen->search == KNUTH_SEARCH_BINNED ? &binned_policy : &knuth_policy;
}

const struct heap_policy knuth_policy = {
    DESCRIPTION,
    .instead = policy_for,
    .heap_bytes = sizeof(struct knuth_heap),
    .init = knuth_init,
    .alloc = knuth_alloc,
    .alloc_aligned = knuth_alloc_aligned,
    .free = knuth_free,
    .resize = knuth_resize,
    .usable_size = knuth_usable_size,
    .waste = knuth_waste,
    .walk = knuth_walk,
    .statistics = knuth_statistics,
    .is_valid = knuth_is_valid,
};
