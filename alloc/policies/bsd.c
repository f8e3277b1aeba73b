/* SPDX-License-Identifier: MIT
 *
 * bsd.c: Kingsley's powers of two.
 *
 * A request plus its header is rounded up to a power of two. Each power has a list of free
 * blocks, last in, first out; an empty list is refilled with 2 KiB cut into blocks of that size,
 * or with one block if that is larger. Blocks never change their size, are never merged and
 * never returned: nothing is ever searched for, and up to half of the memory is the price.
 *
 *   | header | payload ............... |   a block of 2^k bytes, at 8 mod 16
 *   | next   | ....................... |   the same, free
 *   | header | pad | back | payload .. |   over-aligned: `back` tells where the block begins
 *   | header | rest | pad | far | payl.|   from 256 MiB on: `far` tells where `rest` is, which does
 *
 * Fixed by the source: the lists, the refill, ascending addresses within a refill, and when
 * realloc stays in place (the new size fits, and exceeds half of the payload less a header; the
 * difference is unsigned and wraps in the smallest class, whose blocks never stay).
 * Changed with the word size: the header is 8 bytes and the least block 16. Open: alignment
 * above 16, which the original lacks, is by a second header. The header's check takes the
 * place of the original's magic byte, at the same reference; free looks at it, as there.
 *
 * Source: C. Kingsley, malloc.c of 4.2BSD (1982); as measured by Zorn, CU-CS-573-92, 2.1.
 */
#include "alloc/policies/bsd.h"

#include "vm/message.h"
#include "vm/pages.h"

enum { REFILL_BYTES = 2048 };

static void bsd_init(void *state, struct page_source *pages, const void *options)
{
    struct bsd_heap *heap = state;
    (void)options;
    heap->pages = pages;
}

/* Blocks stand at 8 mod 16 so that payloads are aligned. A new segment begins at 0 mod 16: its
 * first 8 bytes are passed over. Both are asked for at once, since a second request might be
 * refused, or come out apart, and leave memory that is no block. */
static char *extend(struct bsd_heap *heap, size_t bytes)
{
    char *start = heap->pages->extend(heap->pages, bytes);
    if (!start || (uintptr_t)start % BLOCK_ALIGNMENT == BSD_HEADER_BYTES)
        return start;
    check(heap->pages->retract(heap->pages, bytes));
    start = heap->pages->extend(heap->pages, BSD_HEADER_BYTES + bytes);
    return start ? start + BSD_HEADER_BYTES : NULL;
}

static bool refill(struct bsd_heap *heap, unsigned size_class)
{
    size_t block_bytes = (size_t)1 << size_class;
    size_t bytes = block_bytes < REFILL_BYTES ? REFILL_BYTES : block_bytes;
    char *start = extend(heap, bytes);
    if (!start)
        return false;
    struct bsd_free_block **link = &heap->free[size_class];
    char *block = start;
    do {
        *link = (struct bsd_free_block *)block;
        link = &(*link)->next;
        block += block_bytes;
    } while (block < start + bytes);
    *link = NULL;
    return true;
}

static void *take(struct bsd_heap *heap, unsigned size_class)
{
    if (!heap->free[size_class] && !refill(heap, size_class))
        return NULL;
    struct bsd_free_block *block = heap->free[size_class];
    heap->free[size_class] = block->next;
    *(uint64_t *)block = header_word(block, size_class, HEADER_LIVE);
    return (char *)block + BSD_HEADER_BYTES;
}

static void *bsd_alloc(void *state, size_t size)
{
    unsigned size_class = bsd_class_of(size);
    return size_class <= BSD_MAX_CLASS ? take(state, size_class) : NULL;
}

/* A back header holds the distance to the block's own payload in units of 16 bytes. Where that is
 * too far, it holds the part of it that is a multiple of FAR_UNIT, and a header of the same kind at
 * that place, which is no payload, holds the rest. */
static const size_t FAR_UNIT = BLOCK_ALIGNMENT << HEADER_VALUE_BITS;

static void write_back(const char *payload, size_t units, enum header_state state)
{
    uint64_t *header = bsd_header(payload);
    *header = header_word(header, (uint32_t)units, state);
}

static void write_way_back(const char *aligned, size_t distance)
{
    size_t far = distance / FAR_UNIT, rest = distance % FAR_UNIT;
    if (far == 0) {
        write_back(aligned, rest / BLOCK_ALIGNMENT, HEADER_BACK);
        return;
    }
    write_back(aligned, far, HEADER_FAR);
    if (rest > 0)
        write_back(aligned - far * FAR_UNIT, rest / BLOCK_ALIGNMENT, HEADER_REST);
}

static void *bsd_alloc_aligned(void *state, size_t alignment, size_t size)
{
    if (size + alignment < size)
        return NULL;
    char *payload = bsd_alloc(state, size + alignment - BLOCK_ALIGNMENT);
    if (!payload)
        return NULL;
    char *aligned = (char *)round_up((uintptr_t)payload, alignment);
    if (aligned != payload)
        write_way_back(aligned, (size_t)(aligned - payload));
    return aligned;
}

/* What locate() finds before a payload; by way of a back header, if there is one. */
struct located {
    uint64_t *header; /* of the block itself; NULL: not a block */
    unsigned size_class;
    size_t offset; /* of the payload behind the block's own */
};

/* The header's word without its magic, which is below 2^32 if this is a header. */
static uint64_t word_before(const char *payload)
{
    uint64_t *header = bsd_header(payload);
    return header_read(header, *header);
}

static bool is_header(uint64_t word, enum header_state state)
{
    return (word & 0xFF) == state && word >> 32 == 0;
}

/* How far behind its block's own payload an over-aligned one is, by the headers on the way. */
static size_t way_back(const char *payload, uint64_t word)
{
    if (is_header(word, HEADER_BACK))
        return (word >> HEADER_VALUE_SHIFT) * BLOCK_ALIGNMENT;
    if (!is_header(word, HEADER_FAR))
        return 0;
    size_t far = (word >> HEADER_VALUE_SHIFT) * FAR_UNIT;
    uint64_t rest = word_before(payload - far);
    return far +
           (is_header(rest, HEADER_REST) ? (rest >> HEADER_VALUE_SHIFT) * BLOCK_ALIGNMENT : 0);
}

static struct located locate(const struct bsd_heap *heap, const void *payload)
{
    struct located result = {0};
    if ((uintptr_t)payload % BLOCK_ALIGNMENT != 0 || begins_segment(heap->pages, payload))
        return result;
    uint64_t word = word_before(payload);
    if ((word & 0xFF) != HEADER_LIVE) {
        result.offset = way_back(payload, word);
        word = word_before((const char *)payload - result.offset);
    }
    uint64_t size_class = word >> HEADER_VALUE_SHIFT;
    if (size_class < BSD_MIN_CLASS || size_class > BSD_MAX_CLASS || (word & 0xFF) != HEADER_LIVE)
        return result;
    result.header = bsd_header((const char *)payload - result.offset);
    result.size_class = (unsigned)size_class;
    return result;
}

static void bsd_free(void *state, void *payload)
{
    struct bsd_heap *heap = state;
    struct located block = locate(heap, payload);
    if (!block.header)
        abort_on_pointer_fault("free", payload,
                               "not a live block (freed twice, never handed out, or its header "
                               "was overwritten)");
    if (block.offset > 0)
        *bsd_header(payload) = 0;
    struct bsd_free_block *freed = (struct bsd_free_block *)block.header;
    freed->next = heap->free[block.size_class];
    heap->free[block.size_class] = freed;
}

static size_t bsd_usable_size(void *state, const void *payload)
{
    struct located block = locate(state, payload);
    return block.header ? bsd_usable(block.size_class) - block.offset : 0;
}

static bool bsd_resize(void *state, void *payload, size_t size)
{
    size_t usable = bsd_usable_size(state, payload);
    return size <= usable && size > usable / 2 - BSD_HEADER_BYTES;
}

static struct block_waste bsd_waste(void *state, const void *payload)
{
    return (struct block_waste){.header_bytes = BSD_HEADER_BYTES,
                                .alignment_bytes = locate(state, payload).offset};
}

/* A walk needs the size of free blocks, which the lists know and the blocks do not. So the
 * lists are entered in a map of one byte (the class) for each possible block of a segment. */
static bool map_free_blocks(const struct bsd_heap *heap, unsigned char *map, const char *start,
                            const char *end)
{
    for (unsigned size_class = BSD_MIN_CLASS; size_class <= BSD_MAX_CLASS; size_class++) {
        for (const struct bsd_free_block *block = heap->free[size_class]; block;
             block = block->next) {
            const char *address = (const char *)block;
            if (address < start || address >= end)
                continue;
            unsigned char *entry = &map[(address - start) / BLOCK_ALIGNMENT];
            if (*entry != 0)
                return false; /* on two lists, or twice on one */
            *entry = (unsigned char)size_class;
        }
    }
    return true;
}

static bool describe_block(const struct bsd_heap *heap, const char *block, unsigned char free_class,
                           struct block_info *info)
{
    char *payload = (char *)(uintptr_t)block + BSD_HEADER_BYTES;
    unsigned size_class = free_class;
    info->state = BLOCK_FREE;
    if (free_class == 0) {
        struct located located = locate(heap, payload);
        if (!located.header || located.offset > 0)
            return false;
        size_class = located.size_class;
        info->state = BLOCK_LIVE;
    }
    info->payload = payload;
    info->usable_bytes = bsd_usable(size_class);
    info->block_bytes = (size_t)1 << size_class;
    return true;
}

/* False when blocks do not tile the segment. */
static bool walk_segment(const struct bsd_heap *heap, const char *start, const char *end,
                         heap_visitor *visit, void *argument)
{
    size_t map_bytes = round_up((size_t)(end - start) / BLOCK_ALIGNMENT + 1, PAGE_BYTES);
    unsigned char *map = pages_map(map_bytes, PAGE_BYTES);
    if (!map)
        return false;
    bool valid = map_free_blocks(heap, map, start, end);
    const char *block = start + BSD_HEADER_BYTES;
    while (valid && block + ((size_t)1 << BSD_MIN_CLASS) <= end) {
        struct block_info info;
        valid = describe_block(heap, block, map[(block - start) / BLOCK_ALIGNMENT], &info) &&
                info.block_bytes <= (size_t)(end - block);
        if (!valid)
            break;
        if (visit)
            visit(argument, &info);
        block += info.block_bytes;
    }
    pages_unmap(map, map_bytes);
    return valid;
}

static bool walk_segments(const struct bsd_heap *heap, heap_visitor *visit, void *argument)
{
    char *start, *end;
    bool valid = true;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        valid = walk_segment(heap, start, end, visit, argument) && valid;
    return valid;
}

static void bsd_walk(void *state, heap_visitor *visit, void *argument)
{
    walk_segments(state, visit, argument);
}

static void bsd_statistics(void *state, struct heap_statistics *statistics)
{
    const struct bsd_heap *heap = state;
    for (unsigned size_class = BSD_MIN_CLASS; size_class <= BSD_MAX_CLASS; size_class++) {
        for (const struct bsd_free_block *block = heap->free[size_class]; block;
             block = block->next) {
            statistics->free_blocks++;
            statistics->free_bytes += (uint64_t)1 << size_class;
        }
    }
}

static void count_free(void *argument, const struct block_info *info)
{
    uint64_t *found = argument;
    *found += info->state == BLOCK_FREE;
}

static bool lies_in_a_segment(const struct bsd_heap *heap, const char *block, size_t bytes)
{
    char *start, *end;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        if (block >= start && block < end)
            return bytes <= (size_t)(end - block) &&
                   (uintptr_t)block % BLOCK_ALIGNMENT == BSD_HEADER_BYTES;
    return false;
}

/* Looks at every link before it is followed: one that was overwritten leads anywhere, or round
 * in a circle, which holds more blocks than there is memory for. */
static bool lists_are_sound(const struct bsd_heap *heap)
{
    char *start, *end;
    size_t total = 0;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        total += (size_t)(end - start);
    for (unsigned size_class = BSD_MIN_CLASS; size_class <= BSD_MAX_CLASS; size_class++) {
        size_t most = total >> size_class;
        for (const struct bsd_free_block *block = heap->free[size_class]; block;
             block = block->next)
            if (most-- == 0 ||
                !lies_in_a_segment(heap, (const char *)block, (size_t)1 << size_class))
                return false;
    }
    return true;
}

static bool bsd_is_valid(void *state)
{
    uint64_t found = 0;
    if (!lists_are_sound(state) || !walk_segments(state, count_free, &found))
        return false;
    struct heap_statistics statistics = {0};
    bsd_statistics(state, &statistics);
    return found == statistics.free_blocks;
}

const struct heap_policy bsd_policy = {
    .name = "bsd",
    .title = "powers of two, never merged (Kingsley, 4.2BSD)",
    .source = "C. Kingsley, malloc.c of 4.2BSD, 1982",
    .heap_bytes = sizeof(struct bsd_heap),
    .init = bsd_init,
    .alloc = bsd_alloc,
    .alloc_aligned = bsd_alloc_aligned,
    .free = bsd_free,
    .resize = bsd_resize,
    .usable_size = bsd_usable_size,
    .waste = bsd_waste,
    .walk = bsd_walk,
    .statistics = bsd_statistics,
    .is_valid = bsd_is_valid,
};
