/* SPDX-License-Identifier: MIT
 *
 * heap.c: see heap.h.
 */
#include "bench_programs/runtime/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/scavenge.h"

enum { STARTS_PER_WORD = 64 };

struct heap heap;
uintptr_t heap_old_start;

void heap_fail(const char *what)
{
    fprintf(stderr, "runtime: %s\n", what);
    exit(4);
}

void *heap_reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        heap_fail("no address space");
    return memory;
}

void heap_open(size_t young_bytes, size_t old_bytes)
{
    size_t both = (2 * young_bytes + RUNTIME_PAGE - 1) / RUNTIME_PAGE * RUNTIME_PAGE;
    heap.young = (uintptr_t)heap_reserve(both + old_bytes);
    heap.young_bytes = young_bytes;
    heap.space = heap.top = heap.young;
    heap.limit = heap.space + young_bytes;
    heap_old_start = heap.old_top = heap.young + both;
    heap.old_end = heap_old_start + old_bytes;
    heap.object_starts = heap_reserve(old_bytes / OBJECT_ALIGNMENT / 8 + RUNTIME_PAGE);
}

static struct object *initialise(struct object *object, value class, enum kind kind, size_t size,
                                 value fill)
{
    object->class = class;
    object->size = (uint32_t)size;
    object->kind = (uint8_t)kind;
    object->age = 0;
    if (kind == KIND_BYTES)
        memset(object->slots, 0, size);
    else
        for (size_t i = 0; i < size; i++)
            object->slots[i] = fill;
    return object;
}

struct object *take_old(size_t bytes)
{
    uintptr_t start = heap.old_top;
    if (bytes > heap.old_end - start)
        heap_fail("the old generation is full");
    heap.old_top += bytes;
    size_t bit = (start - heap_old_start) / OBJECT_ALIGNMENT;
    heap.object_starts[bit / STARTS_PER_WORD] |= (uint64_t)1 << bit % STARTS_PER_WORD;
    return (struct object *)start;
}

struct object *allocate_old(value class, enum kind kind, size_t size, value fill)
{
    size_t bytes = object_bytes(kind, size);
    struct object *object = take_old(bytes);
    policy_allocated_old((uintptr_t)object, (uintptr_t)object + bytes);
    return initialise(object, class, kind, size, fill);
}

struct object *allocate(value class, enum kind kind, size_t size, value fill)
{
    size_t bytes = object_bytes(kind, size);
    if (bytes > heap.limit - heap.top) {
        if (kind != KIND_FRAME && bytes > heap.young_bytes / 4)
            return allocate_old(class, kind, size, fill);
        scavenge();
        if (bytes > heap.limit - heap.top)
            heap_fail("the frames fill the young generation");
    }
    struct object *object = (struct object *)heap.top;
    heap.top += bytes;
    return initialise(object, class, kind, size, fill);
}

bool starts_object(uintptr_t address)
{
    size_t bit = (address - heap_old_start) / OBJECT_ALIGNMENT;
    return heap.object_starts[bit / STARTS_PER_WORD] >> bit % STARTS_PER_WORD & 1;
}

/* The start of the object that covers an old address. */
static uintptr_t object_at(uintptr_t address)
{
    size_t bit = (address - heap_old_start) / OBJECT_ALIGNMENT;
    size_t word = bit / STARTS_PER_WORD;
    uint64_t starts = heap.object_starts[word] & UINT64_MAX >> (63 - bit % STARTS_PER_WORD);
    while (starts == 0)
        starts = heap.object_starts[--word];
    bit = word * STARTS_PER_WORD + 63 - (size_t)__builtin_clzl(starts);
    return heap_old_start + bit * OBJECT_ALIGNMENT;
}

size_t visit_slots(uintptr_t start, uintptr_t end, slot_visitor *visit)
{
    size_t count = 0;
    if (end > heap.old_top)
        end = heap.old_top;
    for (uintptr_t at = start < end ? object_at(start) : end; at < end;) {
        struct object *object = (struct object *)at;
        value *slot = object->slots, *last = slot + value_count(object);
        at += bytes_used(object);
        if (slot < (value *)start)
            slot = (value *)start;
        if (last > (value *)end)
            last = (value *)end;
        for (; slot < last; slot++)
            count += visit(slot);
    }
    return count;
}
