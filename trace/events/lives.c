/* SPDX-License-Identifier: MIT
 *
 * lives.c: each object's birth, resizes and death, and the stacks that asked for it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "trace/events/commands.h"

/* As analysis/allotrope/features/lifetimes/measure.py reads it. */
struct life {
    uint64_t born_clock, died_clock; /* died: UINT64_MAX when it was never freed */
    uint64_t born_bytes; /* allocated by the whole program when it was born, its own included */
    uint64_t died_bytes;
    uint64_t first_size, size, last_size; /* asked for; size: the largest */
    uint64_t stack;                       /* which of the stacks behind the resizes */
    uint32_t born_thread, died_thread;
};

struct resize {
    uint64_t clock;
    uint64_t before, after; /* the object's size */
};

struct resizes {
    struct resize *all;
    size_t count, capacity;
};

/* Who asked: each stack of return addresses once, found by its hash. */
struct stacks {
    uint64_t *words; /* of each: how many addresses, then these, innermost first */
    size_t used, room;
    size_t *first; /* of each stack in words */
    size_t count, capacity;
    uint32_t *buckets; /* 1 + a stack's number, 0 free; twice the capacity, a power of two */
};

/* The bucket of a stack, or the free one where it belongs. */
static uint32_t *find_stack(const struct stacks *stacks, const uint64_t *stack)
{
    size_t bytes = (stack[0] + 1) * sizeof *stack, mask = 2 * stacks->capacity - 1;
    size_t i = XXH3_64bits(stack, bytes) & mask;
    for (; stacks->buckets[i]; i = (i + 1) & mask)
        if (memcmp(stacks->words + stacks->first[stacks->buckets[i] - 1], stack, bytes) == 0)
            break;
    return &stacks->buckets[i];
}

static void grow_stacks(struct stacks *stacks)
{
    stacks->capacity = stacks->capacity ? 2 * stacks->capacity : 1024;
    stacks->first = grown(stacks->first, stacks->capacity, sizeof *stacks->first);
    stacks->buckets = grown(stacks->buckets, 2 * stacks->capacity, sizeof *stacks->buckets);
    memset(stacks->buckets, 0, 2 * stacks->capacity * sizeof *stacks->buckets);
    for (size_t i = 0; i < stacks->count; i++)
        *find_stack(stacks, stacks->words + stacks->first[i]) = (uint32_t)i + 1;
}

/* The number of the stack that an allocation comes from. */
static uint64_t stack_of(struct stacks *stacks, const struct allocation *one)
{
    size_t length = 2 + (size_t)one->frame_count;
    if (stacks->count == stacks->capacity)
        grow_stacks(stacks);
    if (stacks->used + length > stacks->room) {
        stacks->room = 2 * (stacks->room + length);
        stacks->words = grown(stacks->words, stacks->room, sizeof *stacks->words);
    }
    uint64_t *stack = stacks->words + stacks->used; /* stays there if it is new */
    stack[0] = length - 1;
    stack[1] = one->site;
    if (one->frame_count > 0)
        memcpy(stack + 2, one->frames, one->frame_count * sizeof *stack);
    uint32_t *bucket = find_stack(stacks, stack);
    if (!*bucket) {
        stacks->first[stacks->count++] = stacks->used;
        stacks->used += length;
        *bucket = (uint32_t)stacks->count;
    }
    return *bucket - 1;
}

static struct life begin_life(struct stacks *stacks, const struct allocation *one)
{
    return (struct life){.born_clock = one->clock,
                         .died_clock = UINT64_MAX,
                         .born_bytes = one->bytes + one->size,
                         .died_bytes = UINT64_MAX,
                         .first_size = one->size,
                         .size = one->size,
                         .last_size = one->size,
                         .stack = stack_of(stacks, one),
                         .born_thread = one->thread};
}

static void note_resize(struct resizes *resizes, struct life *life, const struct allocation *one)
{
    if (resizes->count == resizes->capacity) {
        resizes->capacity = resizes->capacity ? 2 * resizes->capacity : 1024;
        resizes->all = grown(resizes->all, resizes->capacity, sizeof *resizes->all);
    }
    resizes->all[resizes->count++] = (struct resize){one->clock, life->last_size, one->size};
    life->last_size = one->size;
    if (one->size > life->size)
        life->size = one->size;
}

static void end_life(struct life *life, const struct allocation *one)
{
    life->died_clock = one->clock;
    life->died_bytes = one->bytes;
    life->died_thread = one->thread;
}

int command_lives(const char *path)
{
    struct allocations *all = open_file(path);
    struct allocation one;
    size_t capacity = 1 << 16;
    struct stacks stacks = {0};
    struct resizes resizes = {0};
    struct life *life = grown(NULL, capacity, sizeof *life);
    while (allocations_next(all, &one)) {
        if (one.type == ALLOCATION_FREE) {
            end_life(&life[one.object], &one);
            continue;
        }
        if (one.type == ALLOCATION_RESIZE) {
            note_resize(&resizes, &life[one.object], &one);
            continue;
        }
        if (one.object == capacity) {
            capacity *= 2;
            life = grown(life, capacity, sizeof *life);
        }
        life[one.object] = begin_life(&stacks, &one);
    }
    print_facts(all);
    size_t count = allocations_counts(all)->objects;
    if (count > 0)
        fwrite(life, sizeof *life, count, stdout);
    if (resizes.count > 0)
        fwrite(resizes.all, sizeof *resizes.all, resizes.count, stdout);
    fwrite(stacks.words, sizeof *stacks.words, stacks.used, stdout);
    free(life);
    free(resizes.all);
    free(stacks.words);
    free(stacks.first);
    free(stacks.buckets);
    return close_file(all, path);
}
