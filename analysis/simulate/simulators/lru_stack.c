/* SPDX-License-Identifier: MIT
 *
 * lru_stack.c: the most recent units in a few slots, the next in a short row, all others in a long
 * row of marks.
 *
 * Real programs find most of their units among the last few. So the stack is cut in three:
 *
 *   front    FRONT slots, each a unit and the stamp of its last touch. The distance of a unit
 *            that is there is the number of larger stamps: one compare finds the unit, another
 *            counts, and nothing moves, so successive touches do not wait for each other.
 *   middle   MIDDLE slots of the same kind, stamped when the unit left the front.
 *   behind   every other unit known, in a hash table with the time it left the middle; recency.h
 *            counts those that left later.
 *
 * A touch of a unit that is not in front takes the slot of the least recent one there, which
 * takes the touched one's place in the middle, or that of the least recent one there, which goes
 * behind. What happens in front does not depend on what is found further back, so a batch is run
 * through the front first; those it lacks ("absent") are then looked up together.
 */
#include "analysis/simulate/simulators/lru_stack.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/counts.h"
#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/lru_stack_state.h"

enum { SMALLEST_TABLE = 4 * TOUCH_CAPACITY, SMALLEST_ROW = 8 * TOUCH_CAPACITY };

static void empty_slots(struct lru_stack *stack)
{
    for (unsigned slot = 0; slot < FRONT; slot++)
        stack->front[slot] = stack->unit_of_slot[slot] = NO_UNIT;
    for (unsigned slot = 0; slot < MIDDLE; slot++)
        stack->middle[slot] = NO_UNIT;
    memset(stack->front_stamps, 0, sizeof stack->front_stamps);
    memset(stack->middle_stamps, 0, sizeof stack->middle_stamps);
    stack->in_front = stack->in_middle = 0;
}

static struct entry *new_table(size_t size)
{
    struct entry *table = malloc(size * sizeof *table);
    for (size_t i = 0; table && i < size; i++)
        table[i] = (struct entry){.unit = NO_UNIT, .left = NOWHERE};
    return table;
}

struct lru_stack *lru_stack_new(void)
{
    struct lru_stack *stack = aligned_alloc(64, (sizeof *stack + 63) / 64 * 64);
    if (!stack)
        return NULL;
    memset(stack, 0, sizeof *stack);
    empty_slots(stack);
    stack->table_size = SMALLEST_TABLE;
    stack->table = new_table(stack->table_size);
    if (!stack->table || !recency_init(&stack->behind, SMALLEST_ROW)) {
        lru_stack_free(stack);
        return NULL;
    }
    return stack;
}

void lru_stack_free(struct lru_stack *stack)
{
    if (!stack)
        return;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        free(stack->of_class[class].of_distance);
    recency_free(&stack->behind);
    free(stack->first_touches);
    free(stack->table);
    free(stack);
}

size_t lru_stack_units(const struct lru_stack *stack)
{
    return stack->known;
}

/* Moves everything into a table of `size`, and finds the entries of those in front again. */
static bool rebuild_table(struct lru_stack *stack, size_t size)
{
    struct entry *old = stack->table;
    size_t old_size = stack->table_size;
    struct entry *table = new_table(size);
    if (!table)
        return false;
    stack->table = table;
    stack->table_size = size;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].unit != NO_UNIT)
            *find_entry(stack, old[i].unit) = old[i];
    free(old);
    for (unsigned slot = 0; slot < FRONT; slot++)
        stack->entry_of_slot[slot] =
            (uint32_t)(find_entry(stack, stack->unit_of_slot[slot]) - table);
    for (unsigned slot = 0; slot < MIDDLE; slot++)
        stack->entry_of_middle[slot] = (uint32_t)(find_entry(stack, stack->middle[slot]) - table);
    return true;
}

/* Renumbers the times of those behind from 0 on, with room for three times as many more. */
static bool close_gaps(struct lru_stack *stack)
{
    struct recency old = stack->behind;
    size_t room = 4 * (size_t)old.marks + TOUCH_CAPACITY;
    if (!recency_init(&stack->behind, room > SMALLEST_ROW ? room : SMALLEST_ROW)) {
        stack->behind = old;
        return false;
    }
    for (size_t i = 0; i < stack->table_size; i++) {
        struct entry *entry = &stack->table[i];
        if (entry->unit != NO_UNIT && entry->left != NOWHERE)
            entry->left = recency_before(&old, entry->left);
    }
    for (uint32_t i = 0; i < old.marks; i++)
        recency_mark(&stack->behind);
    recency_free(&old);
    return true;
}

bool lru_histogram_reach(struct lru_histogram *histogram, size_t distance)
{
    return counts_reach(&histogram->of_distance, &histogram->length, 4 * FRONT, distance);
}

bool lru_histogram_add_distances(struct lru_histogram *sum, const struct lru_histogram *more)
{
    if (!lru_histogram_reach(sum, more->length - 1))
        return false;
    for (size_t distance = 0; distance < more->length; distance++)
        sum->of_distance[distance] += more->of_distance[distance];
    return true;
}

/* Runs touches through the front. Counts the distances of those found there and lists the
 * others. Returns the length of that list. */
static size_t run_front(struct lru_stack *stack, const uint64_t *touches, size_t count)
{
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t unit = touch_unit(touches[i]);
        unsigned slot = 0;
        while (slot < FRONT && stack->front[slot] != unit)
            slot++;
        if (slot < FRONT) {
            unsigned distance = 0;
            for (unsigned other = 0; other < FRONT; other++)
                distance += stack->front_stamps[other] > stack->front_stamps[slot];
            stack->front_distances[touch_class(touches[i])][distance]++;
        } else {
            slot = 0;
            for (unsigned other = 1; other < FRONT; other++)
                slot = stack->front_stamps[other] < stack->front_stamps[slot] ? other : slot;
            stack->front[slot] = unit;
            stack->absent[missing++] = (struct absent){touches[i], slot};
        }
        stack->front_stamps[slot] = ++stack->front_stamp;
    }
    return missing;
}

static inline unsigned find_in_middle(const struct lru_stack *stack, uint64_t unit)
{
    unsigned slot = 0;
    while (slot < MIDDLE && stack->middle[slot] != unit)
        slot++;
    return slot;
}

static inline unsigned count_larger(const struct lru_stack *stack, unsigned slot)
{
    unsigned larger = 0;
    for (unsigned i = 0; i < MIDDLE; i++)
        larger += stack->middle_stamps[i] > stack->middle_stamps[slot];
    return larger;
}

static inline unsigned least_recent(const struct lru_stack *stack)
{
    unsigned slot = 0;
    for (unsigned i = 1; i < MIDDLE; i++)
        slot = stack->middle_stamps[i] < stack->middle_stamps[slot] ? i : slot;
    return slot;
}

void lru_stack_keep_first_touches(struct lru_stack *stack)
{
    stack->keeps_first = true;
}

static bool keep_first_touch(struct lru_stack *stack, uint64_t touch)
{
    if (!counts_reach(&stack->first_touches, &stack->first_capacity, FRONT, stack->known))
        return false;
    stack->first_touches[stack->known] = touch;
    return true;
}

struct entry *lru_stack_take_from_behind(struct lru_stack *stack, uint64_t touch, size_t since)
{
    struct lru_histogram *histogram = &stack->of_class[touch_class(touch)];
    struct entry *entry = find_entry(stack, touch_unit(touch));
    if (entry->unit == NO_UNIT) {
        if (stack->keeps_first && !keep_first_touch(stack, touch))
            return NULL;
        entry->unit = touch_unit(touch);
        stack->known++;
        histogram->cold++;
        return entry;
    }
    if (entry->left == NOWHERE) /* of a damaged part, which names a first touch twice */
        return NULL;
    struct recency *behind = &stack->behind;
    size_t later = behind->marks - recency_before(behind, entry->left) - 1;
    size_t distance = since + later;
    if (!lru_histogram_reach(histogram, distance))
        return NULL;
    histogram->of_distance[distance]++;
    recency_unmark(behind, entry->left);
    entry->left = NOWHERE;
    return entry;
}

bool lru_stack_bring(struct lru_stack *stack, struct absent absent, unsigned oldest)
{
    size_t since = stack->in_front + stack->in_middle;
    struct entry *entry = lru_stack_take_from_behind(stack, absent.touch, since);
    if (!entry)
        return false;
    if (stack->in_front < FRONT) {
        stack->in_front++;
    } else {
        if (stack->in_middle < MIDDLE)
            stack->in_middle++;
        else
            stack->table[stack->entry_of_middle[oldest]].left = recency_mark(&stack->behind);
        leave_front(stack, absent.slot, oldest);
    }
    stack->unit_of_slot[absent.slot] = touch_unit(absent.touch);
    stack->entry_of_slot[absent.slot] = (uint32_t)(entry - stack->table);
    return true;
}

/* Replaces stamps by their ranks, so that they do not overflow. Returns the largest. */
static uint32_t renumber(uint32_t *stamps, unsigned count)
{
    uint32_t ranks[FRONT + MIDDLE];
    for (unsigned slot = 0; slot < count; slot++) {
        ranks[slot] = stamps[slot] != 0;
        for (unsigned other = 0; other < count && stamps[slot] != 0; other++)
            ranks[slot] += stamps[other] != 0 && stamps[other] < stamps[slot];
    }
    memcpy(stamps, ranks, count * sizeof *stamps);
    return count;
}

bool lru_stack_prepare(struct lru_stack *stack)
{
    if (stack->table_size < 2 * (stack->known + TOUCH_CAPACITY) &&
        !rebuild_table(stack, 2 * stack->table_size))
        return false;
    if (stack->behind.capacity - stack->behind.next < TOUCH_CAPACITY && !close_gaps(stack))
        return false;
    if (stack->front_stamp > UINT32_MAX - TOUCH_CAPACITY)
        stack->front_stamp = renumber(stack->front_stamps, FRONT);
    if (stack->middle_stamp > UINT32_MAX - TOUCH_CAPACITY)
        stack->middle_stamp = renumber(stack->middle_stamps, MIDDLE);
    return true;
}

bool lru_stack_touch(struct lru_stack *stack, const uint64_t *touches, size_t count)
{
    if (!lru_stack_prepare(stack))
        return false;
    if (dispatch_avx512())
        return lru_stack_touch_avx512(stack, touches, count);
    return look_up(stack, run_front(stack, touches, count),
                   (struct middle_search){find_in_middle, count_larger, least_recent});
}

/* The middle's distances count from FRONT: nothing enters it before the front is full. */
const struct lru_histogram *lru_stack_histogram(struct lru_stack *stack, unsigned class)
{
    struct lru_histogram *histogram = &stack->of_class[class];
    if (!lru_histogram_reach(histogram, FRONT + MIDDLE - 1))
        return NULL;
    for (unsigned distance = 0; distance < FRONT; distance++)
        histogram->of_distance[distance] += stack->front_distances[class][distance];
    for (unsigned distance = 0; distance < MIDDLE; distance++)
        histogram->of_distance[FRONT + distance] += stack->middle_distances[class][distance];
    memset(stack->front_distances[class], 0, sizeof stack->front_distances[class]);
    memset(stack->middle_distances[class], 0, sizeof stack->middle_distances[class]);
    return histogram;
}

void lru_stack_clear_histograms(struct lru_stack *stack)
{
    memset(stack->front_distances, 0, sizeof stack->front_distances);
    memset(stack->middle_distances, 0, sizeof stack->middle_distances);
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        struct lru_histogram *histogram = &stack->of_class[class];
        histogram->cold = 0;
        if (histogram->length > 0)
            memset(histogram->of_distance, 0, histogram->length * sizeof *histogram->of_distance);
    }
}

/* Sends a row of units behind, the least recent first. */
static void retire(struct lru_stack *stack, uint32_t *stamps, const uint32_t *entries,
                   unsigned slots, unsigned filled)
{
    for (; filled > 0; filled--) {
        unsigned oldest = 0;
        for (unsigned slot = 1; slot < slots; slot++)
            if (stamps[slot] - 1 < stamps[oldest] - 1) /* empty slots wrap around */
                oldest = slot;
        stack->table[entries[oldest]].left = recency_mark(&stack->behind);
        stamps[oldest] = 0;
    }
}

void lru_stack_send_all_behind(struct lru_stack *stack)
{
    retire(stack, stack->middle_stamps, stack->entry_of_middle, MIDDLE, stack->in_middle);
    retire(stack, stack->front_stamps, stack->entry_of_slot, FRONT, stack->in_front);
    empty_slots(stack);
}

bool lru_stack_forget(struct lru_stack *stack, bool (*keep)(uint64_t unit, uint64_t argument),
                      uint64_t argument)
{
    if (!lru_stack_prepare(stack))
        return false;
    lru_stack_send_all_behind(stack);
    for (size_t i = 0; i < stack->table_size; i++) {
        struct entry *entry = &stack->table[i];
        if (entry->unit != NO_UNIT && !keep(entry->unit, argument)) {
            recency_unmark(&stack->behind, entry->left);
            *entry = (struct entry){.unit = NO_UNIT, .left = NOWHERE};
            stack->known--;
        }
    }
    return rebuild_table(stack, stack->table_size);
}
