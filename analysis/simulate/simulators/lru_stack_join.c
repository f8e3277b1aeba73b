/* SPDX-License-Identifier: MIT
 *
 * lru_stack_join.c: two stacks of successive parts of a stream, made one.
 *
 * The later part knows all of its distances but those of each unit's first touch in it. At the nth
 * of these, counted from 0, the units touched since are
 *
 *     the n units whose first touch came before, and
 *     those of the earlier part that stand above the unit in its stack and are not among the n.
 *
 * So each unit leaves the earlier part's row at its first touch, and the rest of the row is
 * counted. What is left in the end is what the later part did not touch, in its order. Behind it
 * come the units of the later part in the order of their last touch.
 *
 * Source: Niu, Dinan, Lu and Sadayappan, "PARDA: A Fast Parallel Reuse Distance Analysis
 * Algorithm", IPDPS 2012.
 */
#include <stdlib.h>

#include "analysis/simulate/simulators/lru_stack.h"
#include "analysis/simulate/simulators/lru_stack_state.h"

uint64_t *lru_stack_units_in_order(const struct lru_stack *stack)
{
    uint64_t *units = malloc((stack->known + 1) * sizeof *units);
    for (size_t i = 0; units && i < stack->table_size; i++) {
        const struct entry *entry = &stack->table[i];
        if (entry->unit != NO_UNIT)
            units[recency_before(&stack->behind, entry->left)] = entry->unit;
    }
    return units;
}

bool lru_stack_has_room(struct lru_stack *stack, size_t count)
{
    return count % TOUCH_CAPACITY != 0 || lru_stack_prepare(stack);
}

static bool take_first_touches(struct lru_stack *stack, const struct lru_stack *later)
{
    for (size_t i = 0; i < later->known; i++)
        if (!lru_stack_has_room(stack, i) ||
            !lru_stack_take_from_behind(stack, later->first_touches[i], i))
            return false;
    return true;
}

static bool append_to_row(struct lru_stack *stack, const uint64_t *units, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!lru_stack_has_room(stack, i))
            return false;
        find_entry(stack, units[i])->left = recency_mark(&stack->behind);
    }
    return true;
}

static bool add_histograms(struct lru_stack *stack, struct lru_stack *later)
{
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *more = lru_stack_histogram(later, class);
        if (!more || !lru_histogram_add_distances(&stack->of_class[class], more))
            return false;
    }
    return true;
}

bool lru_stack_join(struct lru_stack *stack, struct lru_stack *later)
{
    if (!lru_stack_prepare(stack) || !lru_stack_prepare(later))
        return false;
    lru_stack_send_all_behind(stack);
    lru_stack_send_all_behind(later);
    uint64_t *units = lru_stack_units_in_order(later);
    bool joined = units && take_first_touches(stack, later) &&
                  append_to_row(stack, units, later->known) && add_histograms(stack, later);
    free(units);
    return joined;
}
