/* SPDX-License-Identifier: MIT
 *
 * lru_stack_state.h: what the files share that keep an LRU stack.
 *
 *     lru_stack.c           the stack, with scalar instructions
 *     lru_stack_avx512.c    its front and middle in vector registers
 *     lru_stack_join.c      two stacks of successive parts of a stream, made one
 *     lru_stack_file.c      such a stack in a file, for a join in another process
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_LRU_STACK_STATE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_LRU_STACK_STATE_H

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/lru_stack.h"
#include "analysis/simulate/simulators/recency.h"

enum {
    FRONT = 16,
    MIDDLE = 112,
    PREFETCH_AHEAD = 8,
    NOWHERE = UINT32_MAX,
};

static const uint64_t NO_UNIT = TOUCH_UNIT_MASK;

struct entry {
    uint64_t unit;
    uint32_t left; /* the time it left the middle, NOWHERE while it is there or in front */
};

struct absent {
    uint64_t touch;
    uint32_t slot; /* the slot it took */
};

struct lru_stack {
    uint64_t front[FRONT] __attribute__((aligned(64)));
    uint32_t front_stamps[FRONT] __attribute__((aligned(64))); /* 0 in an empty slot */
    uint64_t middle[MIDDLE] __attribute__((aligned(64)));
    uint32_t middle_stamps[MIDDLE] __attribute__((aligned(64)));
    uint32_t front_stamp, middle_stamp; /* the latest */
    unsigned in_front, in_middle;
    /* The units in front and their entries, as of the last absent one that was looked up. */
    uint64_t unit_of_slot[FRONT];
    uint32_t entry_of_slot[FRONT];
    uint32_t entry_of_middle[MIDDLE];
    uint64_t front_distances[REFERENCE_CLASSES][FRONT];
    uint64_t middle_distances[REFERENCE_CLASSES][MIDDLE];
    struct lru_histogram of_class[REFERENCE_CLASSES];
    struct entry *table; /* open addressing, at most half full */
    size_t table_size;
    size_t known;
    struct recency behind;
    bool keeps_first;
    uint64_t *first_touches; /* [known], where they are kept: of each unit, in their order */
    size_t first_capacity;
    struct absent absent[TOUCH_CAPACITY];
};

/* The absent one is not in the middle, where `oldest` is the least recent slot or an empty one.
 * False when memory is short. */
bool lru_stack_bring(struct lru_stack *stack, struct absent absent, unsigned oldest);

/* A unit that neither front nor middle has: counts its distance, or that it is cold, and takes it
 * out of the row. since: units that are not in the row, all touched after those that are. Returns
 * its entry, NULL when memory is short or a damaged part has taken it out already. */
struct entry *lru_stack_take_from_behind(struct lru_stack *stack, uint64_t touch, size_t since);

/* Room for TOUCH_CAPACITY touches in the table, in the row of marks and in the stamps. */
bool lru_stack_prepare(struct lru_stack *stack);
/* Empties front and middle; needs room for all that is there. */
void lru_stack_send_all_behind(struct lru_stack *stack);

/* lru_stack_join.c: the units of a stack that are all behind, the least recent first, in an array
 * that is the caller's. NULL when memory is short. */
uint64_t *lru_stack_units_in_order(const struct lru_stack *stack);
/* Whether there is room for one more than `count`, of which each call makes the next. */
bool lru_stack_has_room(struct lru_stack *stack, size_t count);

/* lru_stack_avx512.c: as lru_stack_touch(), where there is room for the batch. */
bool lru_stack_touch_avx512(struct lru_stack *stack, const uint64_t *touches, size_t count);

static inline size_t home_of(const struct lru_stack *stack, uint64_t unit)
{
    return unit * 0x9e3779b97f4a7c15ULL >> 20 & (stack->table_size - 1);
}

/* The entry of `unit`, or the free one where it belongs; valid until the table is rebuilt. */
static inline struct entry *find_entry(const struct lru_stack *stack, uint64_t unit)
{
    size_t at = home_of(stack, unit);
    while (stack->table[at].unit != unit && stack->table[at].unit != NO_UNIT)
        at = (at + 1) & (stack->table_size - 1);
    return &stack->table[at];
}

/* Puts the unit that stood in front in `slot` into the middle, in `place`. */
static inline void leave_front(struct lru_stack *stack, unsigned slot, unsigned place)
{
    stack->middle[place] = stack->unit_of_slot[slot];
    stack->middle_stamps[place] = ++stack->middle_stamp;
    stack->entry_of_middle[place] = stack->entry_of_slot[slot];
}

/* The absent one is in the middle at `place`, as many stamps there being larger as `larger`. */
static inline void swap_with_middle(struct lru_stack *stack, struct absent absent, unsigned place,
                                    unsigned larger)
{
    uint32_t entry = stack->entry_of_middle[place];
    stack->middle_distances[touch_class(absent.touch)][larger]++;
    leave_front(stack, absent.slot, place);
    stack->unit_of_slot[absent.slot] = touch_unit(absent.touch);
    stack->entry_of_slot[absent.slot] = entry;
}

static inline void prefetch_entry(const struct lru_stack *stack, size_t i, size_t count)
{
    size_t ahead = i + PREFETCH_AHEAD < count ? i + PREFETCH_AHEAD : i;
    __builtin_prefetch(&stack->table[home_of(stack, touch_unit(stack->absent[ahead].touch))], 1);
}

/* How the middle is searched. */
struct middle_search {
    /* The slot of `unit`, MIDDLE when it is not there. */
    unsigned (*find)(const struct lru_stack *stack, uint64_t unit);
    /* How many of the middle's stamps are larger than that of a slot. */
    unsigned (*count_larger)(const struct lru_stack *stack, unsigned slot);
    unsigned (*least_recent)(const struct lru_stack *stack);
};

/* Looks up the absent ones in the middle and behind; `search` is a constant where this is inlined.
 * False when memory is short. */
INLINE bool look_up(struct lru_stack *stack, size_t count, struct middle_search search)
{
    for (size_t i = 0; i < count; i++) {
        struct absent absent = stack->absent[i];
        unsigned place = search.find(stack, touch_unit(absent.touch));
        prefetch_entry(stack, i, count);
        if (place < MIDDLE)
            swap_with_middle(stack, absent, place, search.count_larger(stack, place));
        else if (!lru_stack_bring(stack, absent, search.least_recent(stack)))
            return false;
    }
    return true;
}

#endif
