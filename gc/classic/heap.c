/* SPDX-License-Identifier: MIT
 *
 * heap.c: Boehm and Weiser's heap: chunks of one size of object, each with its header and mark bits
 * at its start.
 *
 * Purpose: to show what the collector of the 1992 study cost. The headers of all chunks lie at the
 * same offset of a page, so they compete for the same few sets of a cache. That is what the study
 * found.
 *
 *   chunk of 4 KiB, at a multiple of 4 KiB       up to 2016 bytes: a class for each 16 bytes
 *   | header, mark bits | object | object | ...  |
 *
 *   larger: a run of chunks, of which the first has the header
 *   | header, mark bit  | object ................|.......................|...........  |
 *
 *   look-up      a pointer's page leads to the header, which tells the size of the chunk's objects.
 *                Only a pointer to an object's start counts, unless `interior` is set
 *   allocation   takes the first object of the class's list, else cuts up a free chunk. When there
 *                is none it fails, and its caller collects
 *   sweep        rebuilds all lists at once, in order of address. It clears what it puts on them,
 *                and joins chunks without a live object to runs
 *   states       beside the chunks, a table with a byte for each tells what a chunk is. Without it
 *                the contents of a large object could be taken for a header
 *
 * Fixed by the literature: chunks, headers, classes up to 2 KiB, pointers to the start only, the
 * eager sweep (Boehm & Weiser, "Garbage Collection in an Uncooperative Environment", SP&E 18(9),
 * 1988; Zorn, CU-CS-573-92, 2.2).
 *
 * Open, and chosen here
 *   16 bytes     alignment, and the step between classes, as today's rule wants
 *   2016         the largest class, for 2048: two objects of 2048 and a header do not fit a chunk.
 *                Of objects between the two a chunk holds one either way
 *   order        lists and runs are in order of address; runs are taken first fit
 *   alignment    an over-aligned object, which the original does not have, gets a run of its own
 */
#include "gc/classic/heap.h"

#include <string.h>

#include "vm/kernel/resident.h"
#include "vm/private_memory.h"
#include "vm/pages.h"

enum chunk_state {
    CHUNK_OUTSIDE, /* a hole between two segments */
    CHUNK_FREE,
    CHUNK_SMALL,
    CHUNK_LARGE,
    CHUNK_REST, /* of a large object */
};

enum { MARK_WORDS = 4, MARK_BITS = 64, STACK_BYTES = 8 << 20, STATES_BYTES = 64 << 10 };

struct classic_chunk {
    uint32_t object_bytes; /* of a small chunk */
    uint32_t objects;      /* that it holds; 1 in a large one */
    uint32_t run;          /* chunks, in the first chunk of a large object or a free run */
    uint32_t offset;       /* from the header to the first object */
    union {
        uint64_t marks[MARK_WORDS];
        struct classic_chunk *next; /* free run */
    };
};

_Static_assert(sizeof(struct classic_chunk) == CLASSIC_HEADER_BYTES, "see CLASSIC_HEADER_BYTES");

bool classic_heap_init(struct classic_heap *heap, struct page_source *pages, bool interior)
{
    heap->pages = pages;
    heap->interior = interior;
    heap->stack = private_memory_map(STACK_BYTES);
    heap->stack_room = STACK_BYTES / sizeof *heap->stack;
    return heap->stack != NULL;
}

static struct classic_chunk *chunk_at(const struct classic_heap *heap, size_t index)
{
    return (struct classic_chunk *)(heap->base + index * CLASSIC_CHUNK_BYTES);
}

static size_t index_of(const struct classic_heap *heap, const void *address)
{
    return (size_t)((const char *)address - heap->base) / CLASSIC_CHUNK_BYTES;
}

/* Growth. */

static bool states_reserve(struct classic_heap *heap, size_t span)
{
    if (span <= heap->states_room)
        return true;
    size_t room = heap->states_room ? heap->states_room : STATES_BYTES;
    while (room < span)
        room *= 2;
    uint8_t *states = private_memory_map(room);
    if (!states)
        return false;
    if (heap->states) {
        memcpy(states, heap->states, heap->span);
        private_memory_unmap(heap->states, heap->states_room);
    }
    heap->states = states;
    heap->states_room = room;
    return true;
}

/* Puts a run where its address says; joins it with neighbours. */
static void free_run_add(struct classic_heap *heap, struct classic_chunk *run, size_t chunks)
{
    struct classic_chunk **link = &heap->free_runs, *before = NULL;
    for (; *link && *link < run; link = &(*link)->next)
        before = *link;
    *run = (struct classic_chunk){.run = (uint32_t)chunks, .next = *link};
    *link = run;
    memset(heap->states + index_of(heap, run), CHUNK_FREE, chunks);
    char *end = (char *)run + chunks * CLASSIC_CHUNK_BYTES;
    if (run->next && (char *)run->next == end) {
        run->run += run->next->run;
        run->next = run->next->next;
    }
    if (before && (char *)before + (size_t)before->run * CLASSIC_CHUNK_BYTES == (char *)run) {
        before->run += run->run;
        before->next = run->next;
    }
}

/* The source gives memory from any address on at first; the few bytes before a chunk's multiple
 * are left. */
static char *take_chunks(struct classic_heap *heap, size_t bytes)
{
    char *start = heap->pages->extend(heap->pages, bytes);
    size_t gap = -(uintptr_t)start % CLASSIC_CHUNK_BYTES;
    if (!start || gap == 0)
        return start;
    char *more = heap->pages->extend(heap->pages, gap);
    if (more == start + bytes)
        return start + gap;
    heap->pages->retract(heap->pages, more ? gap : bytes); /* what lies apart is no part of it */
    return NULL;
}

bool classic_heap_grow(struct classic_heap *heap, size_t bytes)
{
    bytes = round_up(bytes, CLASSIC_CHUNK_BYTES);
    size_t chunks = bytes / CLASSIC_CHUNK_BYTES;
    if (chunks == 0 || chunks > UINT32_MAX / 2)
        return chunks == 0;
    char *start = take_chunks(heap, bytes);
    if (!start)
        return false;
    if (!heap->base)
        heap->base = start;
    size_t first = index_of(heap, start);
    if (start < heap->base || !states_reserve(heap, first + chunks)) {
        heap->pages->retract(heap->pages, bytes);
        return false;
    }
    memset(heap->states + heap->span, CHUNK_OUTSIDE, first - heap->span);
    heap->span = first + chunks;
    heap->chunks += chunks;
    free_run_add(heap, chunk_at(heap, first), chunks);
    return true;
}

/* Allocation. */

static void *take_object(struct classic_heap *heap, size_t class)
{
    void **object = heap->free_lists[class];
    if (!object)
        return NULL;
    heap->free_lists[class] = *object;
    *object = NULL;
    return object;
}

/* The chunks of a large object: how many, from which header to which payload. */
struct layout {
    size_t chunks, offset;
    size_t multiple; /* the payload's chunk lies at such an address */
};

static struct layout layout_for(size_t alignment, size_t size)
{
    size_t offset = round_up(CLASSIC_HEADER_BYTES, alignment);
    if (alignment >= CLASSIC_CHUNK_BYTES)
        offset = CLASSIC_CHUNK_BYTES;
    return (struct layout){.chunks =
                               (offset + size + CLASSIC_CHUNK_BYTES - 1) / CLASSIC_CHUNK_BYTES,
                           .offset = offset,
                           .multiple = alignment};
}

size_t classic_heap_room_for(size_t alignment, size_t size)
{
    struct layout layout = layout_for(alignment, size);
    return layout.chunks * CLASSIC_CHUNK_BYTES + (alignment > CLASSIC_CHUNK_BYTES ? alignment : 0);
}

/* How many chunks of a run come before the one that suits. */
static size_t chunks_before(const struct classic_chunk *run, const struct layout *layout)
{
    if (layout->multiple <= CLASSIC_CHUNK_BYTES)
        return 0;
    uintptr_t payload = (uintptr_t)run + layout->offset;
    return (-payload & (layout->multiple - 1)) / CLASSIC_CHUNK_BYTES;
}

/* The first run that is long enough, cut out of the list; the rest of it stays. */
static struct classic_chunk *take_run(struct classic_heap *heap, const struct layout *layout)
{
    for (struct classic_chunk **link = &heap->free_runs; *link; link = &(*link)->next) {
        struct classic_chunk *run = *link;
        size_t before = chunks_before(run, layout), needed = before + layout->chunks;
        if (run->run < needed)
            continue;
        size_t after = run->run - needed;
        struct classic_chunk *next = run->next;
        struct classic_chunk *taken = chunk_at(heap, index_of(heap, run) + before);
        if (after > 0) {
            struct classic_chunk *rest = chunk_at(heap, index_of(heap, taken) + layout->chunks);
            *rest = (struct classic_chunk){.run = (uint32_t)after, .next = next};
            next = rest;
        }
        if (before > 0) {
            run->run = (uint32_t)before;
            run->next = next;
        } else {
            *link = next;
        }
        return taken;
    }
    return NULL;
}

/* The program may touch few pages of an object larger than this. So such an object gets fresh pages
 * rather than cleared ones, and those that the program has not written are not scanned. */
static const size_t TOUCHED_MOST = (size_t)1 << 20;

static void clear_chunks(struct classic_chunk *first, size_t chunks)
{
    size_t bytes = chunks * CLASSIC_CHUNK_BYTES;
    if (bytes <= TOUCHED_MOST || !pages_discard(first, bytes))
        memset(first, 0, bytes);
}

static void *alloc_large(struct classic_heap *heap, size_t alignment, size_t size)
{
    struct layout layout = layout_for(alignment, size);
    struct classic_chunk *chunk = take_run(heap, &layout);
    if (!chunk)
        return NULL;
    clear_chunks(chunk, layout.chunks);
    chunk->objects = 1;
    chunk->run = (uint32_t)layout.chunks;
    chunk->offset = (uint32_t)layout.offset;
    size_t index = index_of(heap, chunk);
    memset(heap->states + index, CHUNK_REST, layout.chunks);
    heap->states[index] = CHUNK_LARGE;
    return (char *)chunk + layout.offset;
}

/* Cuts a free chunk into objects of a class. */
static bool refill(struct classic_heap *heap, size_t class)
{
    const struct layout one = {.chunks = 1, .multiple = 1};
    struct classic_chunk *chunk = take_run(heap, &one);
    if (!chunk)
        return false;
    memset(chunk, 0, CLASSIC_CHUNK_BYTES);
    size_t bytes = class * CLASSIC_UNIT_BYTES;
    chunk->object_bytes = (uint32_t)bytes;
    chunk->objects = (uint32_t)((CLASSIC_CHUNK_BYTES - CLASSIC_HEADER_BYTES) / bytes);
    chunk->offset = CLASSIC_HEADER_BYTES;
    heap->states[index_of(heap, chunk)] = CHUNK_SMALL;
    void **link = &heap->free_lists[class];
    for (char *object = (char *)chunk + CLASSIC_HEADER_BYTES,
              *end = object + chunk->objects * bytes;
         object < end; object += bytes) {
        *link = object;
        link = (void **)object;
    }
    return true;
}

void *classic_heap_alloc(struct classic_heap *heap, size_t size)
{
    if (size > CLASSIC_CLASS_LIMIT)
        return alloc_large(heap, CLASSIC_UNIT_BYTES, size);
    size_t class = (size + (size == 0) + CLASSIC_UNIT_BYTES - 1) / CLASSIC_UNIT_BYTES;
    void *object = take_object(heap, class);
    if (!object && refill(heap, class))
        object = take_object(heap, class);
    return object;
}

void *classic_heap_alloc_aligned(struct classic_heap *heap, size_t alignment, size_t size)
{
    return alloc_large(heap, alignment, size + (size == 0));
}

/* From a word to its object. */

/* The header of the object that an address of the heap lies in, NULL if in none. */
static struct classic_chunk *header_of(const struct classic_heap *heap, uintptr_t word)
{
    uintptr_t distance = word - (uintptr_t)heap->base;
    size_t index = distance / CLASSIC_CHUNK_BYTES;
    if (index >= heap->span)
        return NULL;
    enum chunk_state state = heap->states[index];
    if (state == CHUNK_SMALL || state == CHUNK_LARGE)
        return chunk_at(heap, index);
    if (state != CHUNK_REST)
        return NULL;
    if (!heap->interior) { /* only an over-aligned object begins behind its first chunk */
        struct classic_chunk *before = chunk_at(heap, index - 1);
        bool begins = heap->states[index - 1] == CHUNK_LARGE &&
                      distance % CLASSIC_CHUNK_BYTES == 0 && before->offset == CLASSIC_CHUNK_BYTES;
        return begins ? before : NULL;
    }
    while (heap->states[index] == CHUNK_REST)
        index--;
    return chunk_at(heap, index);
}

static size_t bytes_of(const struct classic_heap *heap, const struct classic_chunk *chunk)
{
    if (heap->states[index_of(heap, chunk)] == CHUNK_SMALL)
        return chunk->object_bytes;
    return (size_t)chunk->run * CLASSIC_CHUNK_BYTES - chunk->offset;
}

/* Which object of its chunk a word points to; false for none. */
static bool number_of(const struct classic_heap *heap, const struct classic_chunk *chunk,
                      uintptr_t word, size_t *number)
{
    size_t distance = word - (uintptr_t)chunk - chunk->offset, bytes = bytes_of(heap, chunk);
    if (bytes == 0)
        return false;
    *number = distance / bytes;
    return word >= (uintptr_t)chunk + chunk->offset && *number < chunk->objects &&
           (heap->interior || distance % bytes == 0);
}

void *classic_heap_find(const struct classic_heap *heap, uintptr_t word)
{
    struct classic_chunk *chunk = header_of(heap, word);
    size_t number;
    if (!chunk || !number_of(heap, chunk, word, &number))
        return NULL;
    return (char *)chunk + chunk->offset + number * bytes_of(heap, chunk);
}

size_t classic_heap_object_bytes(const struct classic_heap *heap, const void *object)
{
    return bytes_of(heap, header_of(heap, (uintptr_t)object));
}

struct block_waste classic_heap_waste(const struct classic_heap *heap, const void *object)
{
    const struct classic_chunk *chunk = header_of(heap, (uintptr_t)object);
    struct block_waste waste = {.header_bytes = CLASSIC_HEADER_BYTES / chunk->objects};
    waste.alignment_bytes = chunk->offset - CLASSIC_HEADER_BYTES;
    return waste;
}

/* Marking. */

static bool is_marked(const struct classic_chunk *chunk, size_t number)
{
    return chunk->marks[number / MARK_BITS] >> number % MARK_BITS & 1;
}

static void set_mark(struct classic_chunk *chunk, size_t number)
{
    chunk->marks[number / MARK_BITS] |= UINT64_C(1) << number % MARK_BITS;
}

typedef void chunk_visitor(struct classic_heap *heap, struct classic_chunk *chunk, void *argument);

/* Visits every chunk that holds objects. */
static void each_chunk(struct classic_heap *heap, chunk_visitor *visit, void *argument)
{
    for (size_t i = 0; i < heap->span; i++)
        if (heap->states[i] == CHUNK_SMALL || heap->states[i] == CHUNK_LARGE)
            visit(heap, chunk_at(heap, i), argument);
}

static void clear_chunk(struct classic_heap *heap, struct classic_chunk *chunk, void *unused)
{
    (void)heap;
    (void)unused;
    memset(chunk->marks, 0, sizeof chunk->marks);
}

void classic_heap_clear_marks(struct classic_heap *heap)
{
    each_chunk(heap, clear_chunk, NULL);
    heap->stack_length = 0;
    heap->stack_overflowed = false;
}

/* Most words point nowhere near: they are told by one comparison. */
static inline bool is_in_span(const struct classic_heap *heap, uintptr_t word)
{
    return word - (uintptr_t)heap->base < heap->span * CLASSIC_CHUNK_BYTES;
}

static void mark_word(struct classic_heap *heap, uintptr_t word)
{
    struct classic_chunk *chunk = header_of(heap, word);
    size_t number;
    if (!chunk || !number_of(heap, chunk, word, &number) || is_marked(chunk, number))
        return;
    set_mark(chunk, number);
    if (heap->stack_length == heap->stack_room) {
        heap->stack_overflowed = true;
        return;
    }
    heap->stack[heap->stack_length++] =
        (char *)chunk + chunk->offset + number * bytes_of(heap, chunk);
}

/* The roots of a running program lie where a sanitizer would object to anyone's reading. With
 * interior pointers the one behind an object's last byte counts, as C allows it to be held. */
__attribute__((no_sanitize("address"))) void classic_heap_mark(struct classic_heap *heap,
                                                               const void *start, const void *end)
{
    const uintptr_t *word = (const uintptr_t *)round_up((uintptr_t)start, sizeof *word);
    for (; (const char *)(word + 1) <= (const char *)end; word++) {
        if (is_in_span(heap, *word))
            mark_word(heap, *word);
        if (heap->interior && is_in_span(heap, *word - 1))
            mark_word(heap, *word - 1);
    }
}

struct scan {
    struct classic_heap *heap;
    uintptr_t start, end; /* of the object */
};

static void scan_written(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    const struct scan *scan = argument;
    (void)readable;
    classic_heap_mark(scan->heap, (const void *)(start > scan->start ? start : scan->start),
                      (const void *)(end < scan->end ? end : scan->end));
}

static void scan_object(struct classic_heap *heap, const void *object)
{
    size_t bytes = classic_heap_object_bytes(heap, object);
    struct scan scan = {heap, (uintptr_t)object, (uintptr_t)object + bytes};
    if (bytes <= TOUCHED_MOST ||
        !resident_each(round_down(scan.start, PAGE_BYTES), round_up(scan.end, PAGE_BYTES),
                       scan_written, &scan))
        classic_heap_mark(heap, object, (const char *)object + bytes);
}

static void empty_stack(struct classic_heap *heap)
{
    while (heap->stack_length > 0)
        scan_object(heap, heap->stack[--heap->stack_length]);
}

static void rescan_chunk(struct classic_heap *heap, struct classic_chunk *chunk, void *unused)
{
    (void)unused;
    size_t bytes = bytes_of(heap, chunk);
    for (size_t i = 0; i < chunk->objects; i++) {
        if (is_marked(chunk, i))
            scan_object(heap, (char *)chunk + chunk->offset + i * bytes);
        empty_stack(heap);
    }
}

/* What the stack had no room for is marked but not scanned: all marked objects are scanned again
 * until none was lost. */
void classic_heap_mark_finish(struct classic_heap *heap)
{
    empty_stack(heap);
    while (heap->stack_overflowed) {
        heap->stack_overflowed = false;
        each_chunk(heap, rescan_chunk, NULL);
    }
}

/* Sweeping, from the highest chunk to the lowest, so that what is put in front of a list leaves it
 * in order of address. */

static bool has_marks(const struct classic_chunk *chunk)
{
    return (chunk->marks[0] | chunk->marks[1] | chunk->marks[2] | chunk->marks[3]) != 0;
}

static void sweep_small(struct classic_heap *heap, struct classic_chunk *chunk,
                        struct classic_sweep *result)
{
    size_t bytes = chunk->object_bytes;
    void **list = &heap->free_lists[bytes / CLASSIC_UNIT_BYTES];
    for (size_t i = chunk->objects; i-- > 0;) {
        char *object = (char *)chunk + chunk->offset + i * bytes;
        if (is_marked(chunk, i)) {
            result->live_objects++;
            result->live_bytes += bytes;
            continue;
        }
        memset(object, 0, bytes);
        memcpy(object, list, sizeof *list);
        *list = object;
    }
}

/* Takes the chunks of a run to the free run that begins right behind it, or begins one. */
static void sweep_run(struct classic_heap *heap, size_t first, size_t chunks)
{
    struct classic_chunk *run = chunk_at(heap, first), *next = heap->free_runs;
    *run = (struct classic_chunk){.run = (uint32_t)chunks, .next = next};
    if (next && next == chunk_at(heap, first + chunks)) {
        run->run += next->run;
        run->next = next->next;
    }
    heap->free_runs = run;
    memset(heap->states + first, CHUNK_FREE, chunks);
}

void classic_heap_sweep(struct classic_heap *heap, struct classic_sweep *result)
{
    *result = (struct classic_sweep){0};
    memset(heap->free_lists, 0, sizeof heap->free_lists);
    heap->free_runs = NULL;
    for (size_t i = heap->span; i-- > 0;) {
        struct classic_chunk *chunk = chunk_at(heap, i);
        enum chunk_state state = heap->states[i];
        if (state == CHUNK_FREE) {
            size_t end = i + 1;
            while (i > 0 && heap->states[i - 1] == CHUNK_FREE)
                i--;
            sweep_run(heap, i, end - i); /* fresh pages are not touched, but for the first */
        } else if (state == CHUNK_SMALL || state == CHUNK_LARGE) {
            if (!has_marks(chunk)) {
                sweep_run(heap, i, state == CHUNK_LARGE ? chunk->run : 1);
            } else if (state == CHUNK_SMALL) {
                sweep_small(heap, chunk, result);
            } else {
                result->live_objects++;
                result->live_bytes += bytes_of(heap, chunk);
            }
        }
    }
}

/* Walks and checks. */

static void mark_free_objects(struct classic_heap *heap)
{
    size_t number;
    classic_heap_clear_marks(heap);
    for (size_t class = 0; class < CLASSIC_CLASSES; class ++) {
        for (void **object = heap->free_lists[class]; object; object = *object) {
            struct classic_chunk *chunk = header_of(heap, (uintptr_t)object);
            if (number_of(heap, chunk, (uintptr_t)object, &number))
                set_mark(chunk, number);
        }
    }
}

struct walk {
    heap_visitor *visit;
    void *argument;
};

static void walk_chunk(struct classic_heap *heap, struct classic_chunk *chunk, void *argument)
{
    const struct walk *walk = argument;
    size_t bytes = bytes_of(heap, chunk);
    bool is_small = heap->states[index_of(heap, chunk)] == CHUNK_SMALL;
    for (size_t i = 0; i < chunk->objects; i++) {
        struct block_info info = {.payload = (char *)chunk + chunk->offset + i * bytes,
                                  .usable_bytes = bytes,
                                  .block_bytes = bytes + (is_small ? 0 : chunk->offset),
                                  .state = is_marked(chunk, i) ? BLOCK_FREE : BLOCK_LIVE};
        walk->visit(walk->argument, &info);
    }
}

void classic_heap_walk(struct classic_heap *heap, heap_visitor *visit, void *argument)
{
    struct walk walk = {visit, argument};
    mark_free_objects(heap);
    each_chunk(heap, walk_chunk, &walk);
    for (struct classic_chunk *run = heap->free_runs; run; run = run->next) {
        size_t bytes = (size_t)run->run * CLASSIC_CHUNK_BYTES;
        struct block_info info = {.payload = (char *)run + CLASSIC_HEADER_BYTES,
                                  .usable_bytes = bytes - CLASSIC_HEADER_BYTES,
                                  .block_bytes = bytes,
                                  .state = BLOCK_FREE};
        visit(argument, &info);
    }
}

/* Every chunk's header agrees with the table. */
static bool chunks_are_valid(const struct classic_heap *heap)
{
    size_t counted = 0;
    for (size_t i = 0, run; i < heap->span; i += run) {
        const struct classic_chunk *chunk = chunk_at(heap, i);
        enum chunk_state state = heap->states[i];
        run = 1;
        if (state == CHUNK_OUTSIDE)
            continue;
        if (state == CHUNK_REST)
            return false;
        if (state == CHUNK_SMALL) {
            if (chunk->object_bytes == 0 || chunk->object_bytes % CLASSIC_UNIT_BYTES ||
                chunk->object_bytes > CLASSIC_CLASS_LIMIT ||
                chunk->offset + chunk->objects * chunk->object_bytes > CLASSIC_CHUNK_BYTES)
                return false;
        } else {
            run = chunk->run;
            if (run == 0 || run > heap->span - i)
                return false;
            for (size_t j = 1; j < run; j++)
                if (heap->states[i + j] != (state == CHUNK_FREE ? CHUNK_FREE : CHUNK_REST))
                    return false;
        }
        counted += run;
    }
    return counted == heap->chunks;
}

static bool lists_are_valid(const struct classic_heap *heap)
{
    for (size_t class = 0; class < CLASSIC_CLASSES; class ++) {
        for (void **object = heap->free_lists[class]; object; object = *object) {
            const struct classic_chunk *chunk = header_of(heap, (uintptr_t)object);
            size_t number;
            if (!chunk || heap->states[index_of(heap, chunk)] != CHUNK_SMALL ||
                chunk->object_bytes != class * CLASSIC_UNIT_BYTES ||
                !number_of(heap, chunk, (uintptr_t)object, &number))
                return false;
        }
    }
    return true;
}

static bool runs_are_valid(const struct classic_heap *heap)
{
    size_t on_list = 0, in_table = 0;
    for (const struct classic_chunk *run = heap->free_runs; run; run = run->next) {
        if (heap->states[index_of(heap, run)] != CHUNK_FREE)
            return false;
        if (run->next && run->next <= run)
            return false;
        on_list += run->run;
    }
    for (size_t i = 0; i < heap->span; i++)
        in_table += heap->states[i] == CHUNK_FREE;
    return on_list == in_table;
}

bool classic_heap_is_valid(struct classic_heap *heap)
{
    return chunks_are_valid(heap) && lists_are_valid(heap) && runs_are_valid(heap);
}
