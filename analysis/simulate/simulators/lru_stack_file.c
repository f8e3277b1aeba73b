/* SPDX-License-Identifier: MIT
 *
 * lru_stack_file.c: what lru_stack_join() needs of a stack, in a file.
 *
 *   classes   for each: cold touches, the length of the row, touches at each distance
 *   known     the number of units, then
 *   first     the first touch of each, in their order; then
 *   last      the units in the order of their last touch
 *
 * All are words of 64 bits, as this machine has them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/simulate/simulators/counts.h"
#include "analysis/simulate/simulators/lru_stack.h"
#include "analysis/simulate/simulators/lru_stack_state.h"

static bool write_words(FILE *file, const uint64_t *words, size_t count)
{
    return fwrite(words, sizeof *words, count, file) == count;
}

static bool read_words(FILE *file, uint64_t *words, size_t count)
{
    return fread(words, sizeof *words, count, file) == count;
}

static bool write_histogram(FILE *file, const struct lru_histogram *histogram)
{
    size_t length = histogram->length;
    while (length > 0 && histogram->of_distance[length - 1] == 0)
        length--;
    uint64_t head[] = {histogram->cold, length};
    return write_words(file, head, 2) && write_words(file, histogram->of_distance, length);
}

bool lru_stack_write(struct lru_stack *stack, FILE *file)
{
    if (!lru_stack_prepare(stack))
        return false;
    lru_stack_send_all_behind(stack);
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *histogram = lru_stack_histogram(stack, class);
        if (!histogram || !write_histogram(file, histogram))
            return false;
    }
    uint64_t known = stack->known, *units = lru_stack_units_in_order(stack);
    bool written = units && write_words(file, &known, 1) &&
                   write_words(file, stack->first_touches, known) &&
                   write_words(file, units, known);
    free(units);
    return written;
}

static bool read_histogram(FILE *file, struct lru_histogram *histogram)
{
    uint64_t head[2];
    if (!read_words(file, head, 2))
        return false;
    histogram->cold = head[0];
    size_t length = head[1];
    return length == 0 || (length < NOWHERE && lru_histogram_reach(histogram, length - 1) &&
                           read_words(file, histogram->of_distance, length));
}

/* Puts units behind, the least recent first. False where one comes twice. */
static bool put_behind(struct lru_stack *stack, const uint64_t *units, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!lru_stack_has_room(stack, i))
            return false;
        struct entry *entry = find_entry(stack, units[i]);
        if (entry->unit != NO_UNIT || units[i] >= NO_UNIT)
            return false;
        *entry = (struct entry){units[i], recency_mark(&stack->behind)};
        stack->known++;
    }
    return true;
}

static bool read_units(struct lru_stack *stack, FILE *file)
{
    uint64_t known;
    if (!read_words(file, &known, 1) || known >= NOWHERE)
        return false;
    uint64_t *units = malloc((known + 1) * sizeof *units);
    bool is_read = units &&
                   counts_reach(&stack->first_touches, &stack->first_capacity, FRONT, known) &&
                   read_words(file, stack->first_touches, known) &&
                   read_words(file, units, known) && put_behind(stack, units, known);
    free(units);
    return is_read;
}

struct lru_stack *lru_stack_read(FILE *file)
{
    struct lru_stack *stack = lru_stack_new();
    bool is_read = stack != NULL;
    for (unsigned class = 0; class < REFERENCE_CLASSES && is_read; class ++)
        is_read = read_histogram(file, &stack->of_class[class]);
    if (is_read && read_units(stack, file))
        return stack;
    lru_stack_free(stack);
    return NULL;
}
