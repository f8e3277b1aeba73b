/* SPDX-License-Identifier: MIT
 *
 * gc_classic.c: Boehm and Weiser's collector 1.6 as the study measured it, for today's processes.
 *
 * One heap (classic/heap.c), one lock, one marker, no generations; free does nothing. When no free
 * block is left everything stops, what can be reached is marked, all the rest is swept at once.
 * When that leaves less than a quarter of the heap, the heap grows, in one of two ways that the
 * sources give:
 *
 *     growth=heap        the heap grows by half (Zorn, CU-CS-573-92, 2.2)
 *     growth=increment   it grows by an increment, which grows by half, from 256 KiB to 2 MiB (the
 *                        published collector)
 *
 * and it begins with 256 KiB. Roots and the stop are those of `gc`: the original scanned one data
 * segment and one stack, which today would lose everything that a library or a thread holds.
 *
 * pointers=base is the original's rule: only a pointer to an object's start keeps it. Few of
 * today's programs keep to it: libc holds the thread-local storage of later threads by its inside,
 * and a compiler may leave the inside alone in a register. It reproduces the study for programs
 * whose output has been checked under it; any other needs pointers=interior.
 *
 * Whatever goes wrong before the sweep, nothing is reclaimed and the heap grows.
 */
#include "gc/classic/gc_classic.h"

#include <string.h>

#include "alloc/area_source.h"
#include "vm/owner.h"
#include "gc/classic/heap.h"
#include "gc/world/collection.h"
#include "vm/private_memory.h"
#include "vm/fork_chain.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/window.h"

static const size_t LARGEST_INCREMENT = (size_t)2 << 20;

enum growth { GROWTH_HEAP, GROWTH_INCREMENT };
enum pointers { POINTERS_BASE, POINTERS_INTERIOR };

struct gc_classic_options {
    enum growth growth;
    enum pointers pointers;
    uint64_t initial_bytes;
};

static const char *const growth_words[] = {
    [GROWTH_HEAP] = "heap", [GROWTH_INCREMENT] = "increment", NULL};
static const char *const pointers_words[] = {
    [POINTERS_BASE] = "base", [POINTERS_INTERIOR] = "interior", NULL};

static const struct option_description options[] = {
    {"growth", "what grows by half when a collection reclaims too little",
     KEYWORD_IN(0, struct gc_classic_options, growth), .keywords = growth_words,
     .initial = GROWTH_HEAP},
    {"pointers", "which pointers keep an object: those to its start, or to any byte",
     KEYWORD_IN(0, struct gc_classic_options, pointers), .keywords = pointers_words,
     .initial = POINTERS_BASE},
    {"initial", "bytes that the heap begins with",
     NUMBER_IN(0, struct gc_classic_options, initial_bytes), .minimum = 4096,
     .maximum = (uint64_t)1 << 40, .initial = 256 << 10},
    {0},
};

/* Of the collector's own memory, so that nothing here is taken for a root. */
struct classic {
    struct classic_heap heap;
    struct area_source source;
    enum growth growth;
    size_t initial, increment;
    struct collection_driver driver;
    uint64_t growths;
    uint64_t live_objects; /* after the last collection */
};

static struct classic *classic;
static struct owner owner = {OWNER_RECORDS};
static struct lock lock = LOCK_INITIALIZER(RANK_ARENA);

/* Collection. */

static void mark_words(const void *start, const void *end)
{
    classic_heap_mark(&classic->heap, start, end);
}

static void begin(struct root_visitor *visitor)
{
    classic_heap_clear_marks(&classic->heap);
    visitor->words = mark_words;
}

static void mark_reachable(void)
{
    classic_heap_mark_finish(&classic->heap);
}

static uint64_t sweep(void)
{
    struct classic_sweep swept;
    classic_heap_sweep(&classic->heap, &swept);
    classic->live_objects = swept.live_objects;
    return swept.live_bytes;
}

static const struct collector collector = {.begin = begin, .mark = mark_reachable, .sweep = sweep};

/* The lock is held, which is that of the heap and of collections. False: nothing was reclaimed. */
static bool collect(void)
{
    return collection_is_possible(&classic->driver) && collection_run(&classic->driver);
}

/* Set-up. */

static void report_unavailable(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "gc:classic: no collections here (/proc cannot be read, or there is no "
                           "memory for the collector); nothing will be reclaimed");
    message_send(&message);
}

static bool init(const void *values)
{
    const struct gc_classic_options *chosen = values;
    window_init(0);
    fork_chain_add(&lock);
    classic = private_memory_map(sizeof *classic);
    if (!classic)
        return false;
    classic->growth = chosen->growth;
    classic->initial = classic->increment = chosen->initial_bytes;
    area_source_init(&classic->source, &owner);
    if (!classic_heap_init(&classic->heap, &classic->source.pages,
                           chosen->pointers == POINTERS_INTERIOR))
        return false;
    if (!collection_init(&classic->driver, &collector))
        report_unavailable();
    return true;
}

/* Growth. */

/* By the rule, and by no less than `needed`; what the kernel refuses is asked for by halves. */
static bool grow(size_t needed)
{
    size_t bytes = classic_heap_bytes(&classic->heap);
    size_t step = bytes == 0                       ? classic->initial
                  : classic->growth == GROWTH_HEAP ? bytes / 2
                                                   : classic->increment;
    if (bytes > 0 && classic->growth == GROWTH_INCREMENT) {
        classic->increment += classic->increment / 2;
        if (classic->increment > LARGEST_INCREMENT)
            classic->increment = LARGEST_INCREMENT;
    }
    classic->growths++;
    for (; step > needed; step /= 2)
        if (classic_heap_grow(&classic->heap, step))
            return true;
    return classic_heap_grow(&classic->heap, needed);
}

static bool reclaimed_too_little(void)
{
    size_t bytes = classic_heap_bytes(&classic->heap);
    return bytes - classic->driver.statistics.live_bytes < bytes / 4;
}

static void *take(size_t alignment, size_t size)
{
    if (alignment > CLASSIC_UNIT_BYTES)
        return classic_heap_alloc_aligned(&classic->heap, alignment, size);
    return classic_heap_alloc(&classic->heap, size);
}

/* The lock is held. */
static void *take_or_collect(size_t alignment, size_t size)
{
    size_t needed = classic_heap_room_for(alignment, size);
    void *object = take(alignment, size);
    if (object)
        return object;
    if (needed > WINDOW_BYTES || !collection_may_make_room(needed))
        return NULL;
    if (classic_heap_bytes(&classic->heap) > 0 && collect()) {
        if (reclaimed_too_little())
            grow(needed);
        object = take(alignment, size);
    }
    if (!object && grow(needed))
        object = take(alignment, size);
    return object;
}

static void *alloc_aligned(size_t alignment, size_t size)
{
    if (__builtin_expect(!classic, 0))
        allocator_first_use();
    if (size > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX / 2)
        return refuse_memory();
    lock_acquire(&lock);
    void *object = take_or_collect(alignment, size);
    lock_release(&lock);
    return object ? object : refuse_memory();
}

static void *alloc(size_t size)
{
    return alloc_aligned(CLASSIC_UNIT_BYTES, size);
}

static bool owns(const void *address)
{
    return granule_map_get(address) == &owner;
}

static bool is_object(const void *block)
{
    return classic_heap_find(&classic->heap, (uintptr_t)block) == block;
}

/* That an object is freed twice cannot be seen: it never was. */
static void ignore_free(void *block)
{
    if (!owns(block)) {
        report_pointer_fault("free", block, "not a block of this heap; ignored");
        return;
    }
    lock_acquire(&lock);
    bool found = is_object(block);
    lock_release(&lock);
    if (!found)
        abort_on_pointer_fault("free", block, "not the start of a block");
}

static size_t usable_size(const void *block)
{
    size_t bytes = 0;
    lock_acquire(&lock);
    if (owns(block) && is_object(block))
        bytes = classic_heap_object_bytes(&classic->heap, block);
    lock_release(&lock);
    return bytes;
}

/* The old object is left to the collector, or kept while more than half of it is used. */
static void *resize(void *block, size_t size)
{
    size_t usable = usable_size(block);
    if (usable == 0)
        abort_on_pointer_fault("realloc", block, "not the start of a block");
    if (size <= usable && size > usable / 2)
        return block;
    void *moved = alloc(size);
    return moved ? memcpy(moved, block, usable < size ? usable : size) : NULL;
}

static struct block_waste waste(const void *block)
{
    lock_acquire(&lock);
    struct block_waste found = classic_heap_waste(&classic->heap, block);
    lock_release(&lock);
    return found;
}

static void fork_child(void)
{
    collection_forked(&classic->driver);
}

static void thread_exit(void)
{
}

/* malloc_trim asks for a collection; memory is never given back. */
static size_t trim(void)
{
    lock_acquire(&lock);
    collect();
    lock_release(&lock);
    return 0;
}

static size_t cached_bytes(void)
{
    return 0;
}

static void walk(heap_visitor *visit, void *argument)
{
    lock_acquire(&lock);
    classic_heap_walk(&classic->heap, visit, argument);
    lock_release(&lock);
}

static void count_free(void *argument, const struct block_info *info)
{
    struct heap_statistics *statistics = argument;
    if (info->state != BLOCK_FREE)
        return;
    statistics->free_blocks++;
    statistics->free_bytes += info->block_bytes;
}

static void statistics(struct allocator_statistics *result)
{
    *result = (struct allocator_statistics){.arenas = 1};
    walk(count_free, &result->heap);
}

static bool is_valid(void)
{
    lock_acquire(&lock);
    bool valid = classic_heap_is_valid(&classic->heap);
    lock_release(&lock);
    return valid;
}

static uint64_t given_up(const struct collection_statistics *driver)
{
    uint64_t sum = driver->given_up_roots;
    for (unsigned i = 0; i < STOP_FAILURES; i++)
        sum += driver->given_up[i];
    return sum;
}

static void more_statistics(statistic_visitor *visit, void *argument)
{
    const struct collection_statistics *driver = &classic->driver.statistics;
    visit(argument, "gc", "collections", driver->collections);
    visit(argument, "gc", "given_up", given_up(driver));
    visit(argument, "gc", "growths", classic->growths);
    visit(argument, "gc", "heap_bytes", classic_heap_bytes(&classic->heap));
    visit(argument, "gc", "pause_ns", driver->pause_ns);
    visit(argument, "gc", "longest_pause_ns", driver->longest_pause_ns);
    visit(argument, "gc", "live_bytes", driver->live_bytes);
    visit(argument, "gc", "live_objects", classic->live_objects);
    visit(argument, "gc", "root_bytes", driver->root_bytes + driver->root_indirect_bytes);
}

const struct allocator gc_classic = {
    .name = "gc",
    .preset = "classic",
    .preset_title = "as measured in 1992: page-aligned headers, eager sweep, free ignored",
    .title = "conservative collector under existing binaries",
    .source = "Boehm & Weiser, SP&E 1988; Zorn, CU-CS-573-92",
    .options = options,
    .init = init,
    .alloc = alloc,
    .alloc_zeroed = alloc,
    .alloc_aligned = alloc_aligned,
    .free = ignore_free,
    .resize = resize,
    .usable_size = usable_size,
    .waste = waste,
    .owns = owns,
    .fork_child = fork_child,
    .thread_exit = thread_exit,
    .trim = trim,
    .statistics = statistics,
    .cached_bytes = cached_bytes,
    .walk = walk,
    .is_valid = is_valid,
    .more_statistics = more_statistics,
};
