/* SPDX-License-Identifier: MIT
 *
 * gc_classic.c: Boehm and Weiser's collector 1.6 as the study measured it, for today's processes.
 *
 * One heap (classic/heap.c), one lock, one marker, no generations. free frees nothing; it checks
 * its pointer and ends the block's pin. When no free block is left the world is stopped, what can
 * be reached is marked, and all the rest is swept at once. When less than a quarter of the heap is
 * free after that, the heap grows. It begins with 256 KiB, and grows in one of two ways that the
 * sources give:
 *
 *     growth=heap        the heap grows by half (Zorn, CU-CS-573-92, 2.2)
 *     growth=increment   it grows by an increment, which grows by half, from 256 KiB to 2 MiB (the
 *                        published collector)
 *
 * Roots and the stop are those of `gc`. The original scanned one data segment and one stack, which
 * today would lose everything that a library or a thread holds.
 *
 * pointers=base is the original's rule: only a pointer to an object's start keeps it. Few of
 * today's programs keep to it: a compiler may leave the inside alone in a register. It reproduces
 * the study for programs whose output has been checked under it; any other needs pointers=interior.
 * One pointer to the inside counts even so: glibc's, to a thread's vector of thread-local storage.
 *
 * It has a part of the drop-in's care for today's programs: it pins what the kernel alone knows,
 * and ends collections before a sandbox. But it marks its objects where they lie: a program that
 * takes away the right to touch pages of a block ends.
 *
 * Every change of the heap and of the pins is made with the lock, which is also that of collections
 * ([no heap lock stopped], [one collection] in gc/world/collection.h). So no thread is stopped in
 * the middle of one. An object that a stopped thread has just taken is in a register, or on its
 * stack, by the address of its start, as pointers=base wants it. A pin stays until its object's
 * free has the lock. While a fork freezes the heap there is no collection.
 *
 * Whatever goes wrong before the sweep, nothing is reclaimed and the heap grows.
 */
#include "gc/classic/gc_classic.h"

#include <string.h>

#include "alloc/area_source.h"
#include "alloc/fork_block.h"
#include "vm/owner.h"
#include "gc/classic/heap.h"
#include "gc/world/collection.h"
#include "gc/world/handled.h"
#include "gc/world/roots.h"
#include "gc/world/stop.h"
#include "vm/private_memory.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

static const size_t LARGEST_INCREMENT = (size_t)2 << 20;

enum growth { GROWTH_HEAP, GROWTH_INCREMENT };
enum pointers { POINTERS_BASE, POINTERS_INTERIOR };

struct gc_classic_options {
    enum growth growth;
    enum pointers pointers;
    uint64_t initial_bytes;
};

static const struct option_description options[] = {
    {"growth", "what grows by half when a collection reclaims too little",
     KEYWORD_IN(0, struct gc_classic_options, growth),
     .keywords = {[GROWTH_HEAP] = "heap", [GROWTH_INCREMENT] = "increment"},
     .initial = GROWTH_HEAP},
    {"pointers", "which pointers keep an object: those to its start, or to any byte",
     KEYWORD_IN(0, struct gc_classic_options, pointers),
     .keywords = {[POINTERS_BASE] = "base", [POINTERS_INTERIOR] = "interior"},
     .initial = POINTERS_BASE},
    {"initial", "bytes that the heap begins with",
     NUMBER_IN(0, struct gc_classic_options, initial_bytes), .minimum = 4096,
     .maximum = (uint64_t)1 << 40, .initial = 256 << 10},
    {.key = ""},
};

/* The collector's state. It lies in the collector's own memory, so that nothing here is taken for a
 * root. */
struct classic {
    struct classic_heap heap;
    struct area_source source;
    enum growth growth;
    size_t initial, increment;
    struct collection_driver driver;
    uint64_t growths;
    uint64_t live_objects; /* after the last collection */
    struct pins {
        void **objects; /* an address each, or NULL; in the first free place from its own on */
        size_t room, count;
        _Atomic bool are_incomplete; /* what the kernel has is not known any more */
    } pins;
};

static struct classic *classic;
static struct owner owner = {OWNER_RECORDS};
static struct lock lock = LOCK_INITIALIZER(RANK_ARENA);

/* Pins: objects that the kernel may know, which stay until they are freed. The lock is held. */

enum { FIRST_PINS = 4096 / sizeof(void *) };

/* Where the object is among the pins, or would be. */
static size_t place_of(const struct pins *pins, const void *object)
{
    size_t place = (uintptr_t)object / CLASSIC_UNIT_BYTES * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    for (place %= pins->room; pins->objects[place] && pins->objects[place] != object;)
        place = (place + 1) % pins->room;
    return place;
}

static bool grow_pins(struct pins *pins)
{
    struct pins larger = {.room = pins->room ? 2 * pins->room : FIRST_PINS};
    larger.objects = private_memory_map(larger.room * sizeof *larger.objects);
    if (!larger.objects)
        return false;
    for (size_t i = 0; i < pins->room; i++)
        if (pins->objects[i])
            larger.objects[place_of(&larger, pins->objects[i])] = pins->objects[i];
    if (pins->objects)
        private_memory_unmap(pins->objects, pins->room * sizeof *pins->objects);
    pins->objects = larger.objects;
    pins->room = larger.room;
    return true;
}

static void add_pin(struct pins *pins, void *object)
{
    if (pins->count >= pins->room / 2 && !grow_pins(pins)) {
        pins->are_incomplete = true;
        return;
    }
    void **place = &pins->objects[place_of(pins, object)];
    pins->count += !*place;
    *place = object;
}

/* Objects behind the removed one may have been pushed out of their own places by it. So they are
 * entered anew, up to the next free place. */
static void remove_pin(struct pins *pins, const void *object)
{
    size_t place = pins->room > 0 ? place_of(pins, object) : 0;
    if (pins->room == 0 || !pins->objects[place])
        return;
    pins->objects[place] = NULL;
    pins->count--;
    for (void *moved; (moved = pins->objects[place = (place + 1) % pins->room]);) {
        pins->objects[place] = NULL;
        pins->objects[place_of(pins, moved)] = moved;
    }
}

/* Collection. */

static void mark_words(const void *start, const void *end)
{
    classic_heap_mark(&classic->heap, start, end);
}

/* glibc's thread control block begins so, on a cache line. It may be one of a dead thread, whose
 * stack is kept for the next. */
struct thread_control_block {
    const struct thread_control_block *itself;
    const char *vector; /* of thread-local storage: behind its block's first entry */
    const struct thread_control_block *self;
};
enum { CONTROL_BLOCK_ALIGNMENT = 64, VECTOR_ENTRY_BYTES = 16 };

/* The vector is known by an inside pointer alone. Without it no program with threads would run. */
static void mark_vector(const struct thread_control_block *block)
{
    const void *vector = block->vector - VECTOR_ENTRY_BYTES;
    mark_words(&vector, &vector + 1);
}

static void mark_vectors(const char *start, const char *end)
{
    const char *at = start + -(uintptr_t)start % CONTROL_BLOCK_ALIGNMENT;
    for (; at + sizeof(struct thread_control_block) <= end; at += CONTROL_BLOCK_ALIGNMENT) {
        const struct thread_control_block *block = (const void *)at;
        if (block->itself == block && block->self == block)
            mark_vector(block);
    }
}

/* A copy tells where the control block lay. At worst a vector is marked that is none. */
static void mark_copied_vectors(const char *start, const char *end)
{
    for (const char *at = start; at + sizeof(struct thread_control_block) <= end;
         at += sizeof(uintptr_t)) {
        const struct thread_control_block *block = (const void *)at;
        if (block->itself && block->itself == block->self &&
            (uintptr_t)block->itself % CONTROL_BLOCK_ALIGNMENT == 0)
            mark_vector(block);
    }
}

static bool is_copy(const char *start)
{
    size_t bytes;
    const char *copies = roots_buffer(&bytes);
    return start >= copies && start < copies + bytes;
}

static void mark_roots(const void *start, const void *end)
{
    mark_words(start, end);
    if (classic->heap.interior)
        return;
    if (is_copy(start))
        mark_copied_vectors(start, end);
    else
        mark_vectors(start, end);
}

static void mark_contents(void *unused, const struct block_info *info)
{
    (void)unused;
    mark_words(info->payload, (const char *)info->payload + info->usable_bytes);
}

/* A block that was made during a fork is none of the heap's. It is a root until it is freed. */
static void begin(struct root_visitor *visitor)
{
    classic_heap_clear_marks(&classic->heap);
    fork_blocks_each(mark_contents, NULL);
    visitor->words = mark_roots;
}

/* The control block may lie in an object: on a stack that the program has given to the thread. */
static void mark_vector_in_object(const struct thread_control_block *block)
{
    if (granule_map_get(block) == &owner)
        mark_vectors((const char *)block, (const char *)(block + 1));
}

static void mark_vectors_in_objects(void)
{
    const struct thread_control_block *own;
    __asm__("mov %%fs:0, %0" : "=r"(own));
    mark_vector_in_object(own);
    for (size_t i = 0; i < stopped_count(); i++)
        mark_vector_in_object((const void *)stopped_thread(i).thread_pointer);
}

static void mark_reachable(void)
{
    const struct pins *pins = &classic->pins;
    if (!classic->heap.interior)
        mark_vectors_in_objects();
    for (size_t i = 0; i < pins->room; i++)
        classic_heap_mark(&classic->heap, &pins->objects[i], &pins->objects[i + 1]);
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
    if (!collection_is_possible(&classic->driver))
        return false;
    if (classic->pins.are_incomplete) {
        classic->driver.statistics.unavailable++;
        return false;
    }
    fork_blocks_lock();
    bool reclaimed = collection_run(&classic->driver);
    fork_blocks_unlock();
    return reclaimed;
}

/* Set-up. */

static void report_unavailable(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message,
                 "gc:classic: no collections here (/proc cannot be read, a filter of system calls "
                 "was there before the program, or there is no memory for the collector); nothing "
                 "will be reclaimed");
    message_send(&message);
}

static bool init(const void *values)
{
    const struct gc_classic_options *chosen = values;
    window_init(0);
    fork_chain_add(&lock);
    fork_blocks_init();
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

/* Grows the heap by the rule, or by `needed` bytes if that is more. If the kernel refuses, half as
 * much is asked for, and so on down to `needed`. */
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
    while (step > needed && !classic_heap_grow(&classic->heap, step))
        step /= 2;
    bool has_grown = step > needed || classic_heap_grow(&classic->heap, needed);
    classic->growths += has_grown;
    return has_grown;
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

/* Whether an empty heap could have so much. Growth asks for all of it, whatever is free. */
static bool may_ever_fit(size_t needed)
{
    return needed <= WINDOW_BYTES &&
           (needed <= classic_heap_bytes(&classic->heap) || pages_are_to_be_had(needed));
}

/* The lock is held. */
static void *take_or_collect(size_t alignment, size_t size)
{
    size_t needed = classic_heap_room_for(alignment, size);
    void *object = take(alignment, size);
    if (object)
        return object;
    if (!may_ever_fit(needed))
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
    void *object;
    if (lock_enter(&lock)) {
        object = take_or_collect(alignment, size);
        lock_release(&lock);
    } else {
        object = fork_block_alloc(alignment, size);
        frozen_end();
    }
    return object ? object : refuse_memory();
}

static void *alloc(size_t size)
{
    return alloc_aligned(CLASSIC_UNIT_BYTES, size);
}

static bool is_in_heap(const void *address)
{
    return granule_map_get(address) == &owner;
}

static bool owns(const void *address)
{
    return is_in_heap(address) || fork_block_at(address);
}

static bool is_object(const void *block)
{
    return classic_heap_find(&classic->heap, (uintptr_t)block) == block;
}

/* After lock_enter(&lock). If that was refused the heap is read without the lock: [still heap]. */
static void end_reading(bool is_locked)
{
    if (is_locked)
        lock_release(&lock);
    else
        frozen_end();
}

/* Calls that were noted while the heap was frozen are made by the thread that holds its lock. */
static void remove_pin_deferred(const uintptr_t *words)
{
    remove_pin(&classic->pins, (const void *)words[0]);
}

/* A second free of an object is not noticed, because the first has not freed it. A block that was
 * made during a fork is never collected, so its free counts. */
static void ignore_free(void *block)
{
    struct fork_block *fork_block = fork_block_at(block);
    if (fork_block) {
        fork_block_free(fork_block, block);
        return;
    }
    if (!is_in_heap(block)) {
        report_pointer_fault("free", block, "not a block of this heap; ignored");
        return;
    }
    bool is_locked = lock_enter(&lock);
    bool found = is_object(block);
    if (found && is_locked)
        remove_pin(&classic->pins, block);
    else if (found)
        defer_one(remove_pin_deferred, block);
    end_reading(is_locked);
    if (!found)
        abort_on_pointer_fault("free", block, "not the start of a block");
}

static void pin_object(const void *address)
{
    void *object = classic_heap_find(&classic->heap, (uintptr_t)address);
    if (object)
        add_pin(&classic->pins, object);
}

static void pin_deferred(const uintptr_t *words)
{
    pin_object((const void *)words[0]);
}

/* A signal handler that interrupted the holder of any lock does not wait for this one: who has it
 * may wait for the interrupted thread. Where a pin is missing nothing is reclaimed any more. */
static void pin_in_handler(const void *address)
{
    if (lock_try(&lock)) {
        pin_object(address);
        lock_release(&lock);
    } else {
        classic->pins.are_incomplete = true;
    }
}

static void pin(const void *address)
{
    if (!is_in_heap(address))
        return;
    if (fork_chain_is_interrupted()) {
        pin_in_handler(address);
    } else if (lock_enter(&lock)) {
        pin_object(address);
        lock_release(&lock);
    } else {
        if (!defer_one(pin_deferred, address))
            classic->pins.are_incomplete = true;
        frozen_end();
    }
}

static bool needs_pins(void)
{
    return classic && collection_is_available(&classic->driver);
}

/* Does nothing where the lock may be held for ever: in the child of a fork by number, and in a
 * handler that has interrupted the holder. */
static void before_hiding(void)
{
    if (!collection_is_of_this_process(&classic->driver) || fork_chain_is_interrupted())
        return;
    lock_acquire(&lock);
    collection_before_hiding(&classic->driver);
    lock_release(&lock);
}

static void enter_sandbox(void)
{
    collection_never_again(&classic->driver);
}

static bool before_exec(void)
{
    return collection_before_exec(&classic->driver);
}

static void after_exec(void)
{
    collection_after_exec(&classic->driver);
}

static size_t usable_size(const void *block)
{
    const struct fork_block *fork_block = fork_block_at(block);
    if (fork_block)
        return fork_block_usable(fork_block, block);
    size_t bytes = 0;
    bool is_locked = lock_enter(&lock);
    if (is_in_heap(block) && is_object(block))
        bytes = classic_heap_object_bytes(&classic->heap, block);
    end_reading(is_locked);
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
    if (!moved)
        return NULL;
    memcpy(moved, block, usable < size ? usable : size);
    ignore_free(block);
    return moved;
}

static struct block_waste waste(const void *block)
{
    if (!is_in_heap(block))
        return (struct block_waste){0};
    bool is_locked = lock_enter(&lock);
    struct block_waste found = classic_heap_waste(&classic->heap, block);
    end_reading(is_locked);
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
    if (lock_enter(&lock)) {
        collect();
        lock_release(&lock);
    } else {
        frozen_end();
    }
    return 0;
}

static enum collected collect_now(void)
{
    if (!collection_is_available(&classic->driver))
        return COLLECT_NEVER;
    if (!lock_enter(&lock)) {
        frozen_end();
        return COLLECT_LATER;
    }
    bool reclaimed = collect();
    lock_release(&lock);
    return reclaimed ? COLLECTED : COLLECT_LATER;
}

static size_t cached_bytes(void)
{
    return 0;
}

static void walk(heap_visitor *visit, void *argument)
{
    lock_acquire(&lock);
    classic_heap_walk(&classic->heap, visit, argument);
    fork_blocks_lock();
    fork_blocks_each(visit, argument);
    fork_blocks_unlock();
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
    fork_blocks_count(&result->large_blocks, &result->large_bytes);
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
    visit(argument, "gc", "cpu_ns", driver->cpu_ns);
    visit(argument, "gc", "live_bytes", driver->live_bytes);
    visit(argument, "gc", "live_objects", classic->live_objects);
    visit(argument, "gc", "root_bytes", driver->root_bytes + driver->root_indirect_bytes);
    utilisation_visit(driver->utilisation, visit, argument);
}

static void counters(counter_visitor *visit)
{
    collection_counters(&classic->driver, visit);
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
    .collect = collect_now,
    .statistics = statistics,
    .cached_bytes = cached_bytes,
    .walk = walk,
    .is_valid = is_valid,
    .more_statistics = more_statistics,
    .counters = counters,
    .pin = pin,
    .needs_pins = needs_pins,
    .enter_sandbox = enter_sandbox,
    .before_hiding = before_hiding,
    .stacks_are_given = roots_stacks_are_given,
    .code_is_written = roots_code_is_written,
    .before_exec = before_exec,
    .after_exec = after_exec,
    .ended_waits = last_ended_wait,
    .handler_restorers = {restore_from_ending, restore_from_restarting},
};
