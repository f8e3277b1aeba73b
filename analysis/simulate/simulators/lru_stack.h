/* SPDX-License-Identifier: MIT
 *
 * lru_stack.h: exact LRU stack distances of a stream of touches.
 *
 * The (stack or reuse) distance of a touch is the number of other units touched since its unit was
 * touched last; the first touch of a unit is cold and has none. A fully associative LRU memory of F
 * units misses exactly the cold touches and those of distance F or more (Mattson et al.,
 * "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 9, 1970), so the histogram
 * of distances gives the misses of every size.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_LRU_STACK_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_LRU_STACK_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/simulate/simulators/touches.h"

struct lru_histogram {
    uint64_t cold;
    uint64_t *of_distance; /* [length]; distances from length on have not occurred */
    size_t length;
};

/* Makes room for `distance`. Returns false when memory is short. */
bool lru_histogram_reach(struct lru_histogram *histogram, size_t distance);
/* Adds what `more` has counted at each distance, cold touches left out. Returns as above. */
bool lru_histogram_add_distances(struct lru_histogram *sum, const struct lru_histogram *more);

struct lru_stack;

/* Returns NULL when memory is short. A stack belongs to one thread at a time. */
struct lru_stack *lru_stack_new(void);
void lru_stack_free(struct lru_stack *stack);

/* Takes touches as touches_take gives them. Returns false when memory is short; the stack is
 * then of no more use. */
bool lru_stack_touch(struct lru_stack *stack, const uint64_t *touches, size_t count);

/* Distances of the touches of one class, touches that touches_take left out not included (their
 * distance is 0). The histogram belongs to the stack and is current until the next touch. */
const struct lru_histogram *lru_stack_histogram(struct lru_stack *stack, unsigned class);
/* Empties all histograms; the stack stays as it is. */
void lru_stack_clear_histograms(struct lru_stack *stack);

/* To be called before the first touch, of a stack that lru_stack_join() is to take in. */
void lru_stack_keep_first_touches(struct lru_stack *stack);
/* Takes in a stack that began empty and took the touches behind those of `stack`, which then is as
 * if it had taken them itself; `later` is to be freed and nothing else. The histograms are the same
 * too but for distance 0: where a part begins, touches_take() leaves out no touch. Returns false
 * when memory is short; neither is then of any more use. */
bool lru_stack_join(struct lru_stack *stack, struct lru_stack *later);

/* To a file what lru_stack_join() needs of a stack that keeps first touches; it is then to be freed
 * and nothing else. False when memory is short or the file cannot be written. */
bool lru_stack_write(struct lru_stack *stack, FILE *file);
/* Such a stack, which keeps no more first touches. NULL when memory is short, or where the file
 * does not have one. */
struct lru_stack *lru_stack_read(FILE *file);

/* Units touched so far and not forgotten. */
size_t lru_stack_units(const struct lru_stack *stack);

/* Forgets the units that `keep` refuses, as if they had never been touched. Returns false when
 * memory is short. */
bool lru_stack_forget(struct lru_stack *stack, bool (*keep)(uint64_t unit, uint64_t argument),
                      uint64_t argument);

#endif
